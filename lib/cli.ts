/** The command line: `npx fastify-token-auth`. */
import { parseArgs } from 'node:util'
import { doctor } from './cli/doctor.ts'
import { inspect } from './cli/inspect.ts'
import { keys } from './cli/keys.ts'
import { done, type Outcome } from './cli/outcome.ts'
import { routes } from './cli/routes.ts'
import { algorithms } from './algorithms.ts'
import { suggest } from './settings/suggest.ts'

/** The standard input of a process. */
export interface Input extends AsyncIterable<string | Uint8Array> { readonly isTTY?: boolean }

/** The arguments of a command. */
interface Given {
  readonly argument: string | undefined
  /** Whether its option without a value is set. */
  readonly hasFlag: boolean
  /** The value of `--output`. */
  readonly output: string | undefined
  readonly input: Input
}

interface Command {
  /** The arguments, for the usage. */
  readonly synopsis: string
  readonly summary: string
  readonly description: string
  /** The option without a value. */
  readonly flag?: 'jwk' | 'check' | 'json'
  readonly hasOutput?: true
  readonly run: (given: Given) => Promise<Outcome> | Outcome
}

async function firstLine (input: Input): Promise<string> {
  if (input.isTTY === true) process.stderr.write('Token: ')
  let text = ''
  for await (const chunk of input) {
    text += Buffer.from(chunk).toString()
    if (text.trimStart().includes('\n')) break
  }
  return text.trim().split('\n', 1)[0]!
}

const misused = (message: string, command = ''): Outcome => ({
  code: 2,
  stdout: '',
  stderr: `${message} See: fastify-token-auth ${command}${command && ' '}--help\n`
})

/** Runs a command with the path of a module. */
const onModule = (name: string, run: (path: string, hasFlag: boolean) => Promise<Outcome>) =>
  ({ argument, hasFlag }: Given) => argument === undefined ? misused(`${name} needs the path of a module.`, name) : run(argument, hasFlag)

const aboutModules = `The module exports by default a plugin, an application, or a function
without parameters that returns one.`

const commands: Readonly<Record<string, Command>> = {
  inspect: {
    synopsis: '[token]',
    summary: 'Print the content of a token.',
    description: `Prints header, payload and times of a token. Does not verify it.
Without an argument, the token is read from the standard input, so that
no shell stores it.`,
    run: async ({ argument, input }) => inspect(argument ?? await firstLine(input))
  },
  keys: {
    synopsis: '[algorithm] [--jwk] [--output <file>]',
    summary: 'Create a secret, or a pair of keys.',
    description: `Algorithms: ${algorithms.slice(0, 7).join(', ')},
            ${algorithms.slice(7).join(', ')}
Default: HS256.

  --jwk             Print JSON Web Keys.
  --output <file>   Write the secret or private key to a new file that only
                    you can read, and print the public key.`,
    flag: 'jwk',
    hasOutput: true,
    run: ({ argument = 'HS256', hasFlag, output }) => {
      const algorithm = algorithms.find((name) => name === argument)
      return algorithm === undefined
        ? misused(`There is no algorithm "${argument}".${suggest(argument, algorithms)}`, 'keys')
        : keys(algorithm, hasFlag, output)
    }
  },
  routes: {
    synopsis: '<module> [--check]',
    summary: 'Print who may use the routes of an application.',
    description: `${aboutModules}

  --check   Exit with 1 if a route has neither guard nor exemption.`,
    flag: 'check',
    run: onModule('routes', routes)
  },
  doctor: {
    synopsis: '<module> [--json]',
    summary: 'Print what a reviewer would check in an application.',
    description: `Prints open routes, findings, keys, lifetimes, cookies, stores and issuers.
Exits with 1 for warnings, with 2 for errors.
${aboutModules}

  --json   Print a list of objects.`,
    flag: 'json',
    run: onModule('doctor', doctor)
  }
}

const usage = `Usage: fastify-token-auth <command>

${Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(10)}${summary}\n`).join('')}
  --help    Print this text. After a command: print its arguments and options.
  --version Print the version of the package.
`

const usageOf = (name: string, { synopsis, summary, description }: Command) =>
  `Usage: fastify-token-auth ${name} ${synopsis}\n\n${summary}\n${description}\n`

/** Reads the arguments of a command. @throws {TypeError} for an unknown option, or one without its value */
function read (args: readonly string[], { flag, hasOutput }: Command) {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      ...(flag !== undefined && { [flag]: { type: 'boolean' } as const }),
      ...(hasOutput && { output: { type: 'string' } as const })
    }
  })
  const given: Readonly<Record<string, unknown>> = values
  const { output } = given
  return {
    hasFlag: flag !== undefined && given[flag] === true,
    output: typeof output === 'string' ? output : undefined,
    argument: positionals[0],
    excess: positionals[1]
  }
}

/** Describes the options of a command, for the message about an unknown option. */
function optionsOf ({ flag, hasOutput }: Command): string {
  if (flag === undefined) return 'no options'
  return hasOutput ? `only the options --${flag} and --output <file>` : `only the option --${flag}`
}

/**
 * Runs a command.
 * @param args without the names of the program
 * @param version of the package
 * @returns what is to be printed
 */
export async function main (args: readonly string[], input: Input, version: string): Promise<Outcome> {
  const [name, ...rest] = args
  const command = name !== undefined && Object.hasOwn(commands, name) ? commands[name] : undefined
  if (args.includes('--help') || args.includes('-h')) return done(command === undefined ? usage : usageOf(name!, command))
  if (name === '--version' || name === '-v') return done(`${version}\n`)
  if (name === undefined) return { code: 2, stdout: '', stderr: usage }
  if (command === undefined) return misused(`There is no command "${name}".${suggest(name, Object.keys(commands))}`)
  let given: ReturnType<typeof read>
  try {
    given = read(rest, command)
  } catch {
    return misused(`${name} has ${optionsOf(command)}.`, name)
  }
  const { excess, ...others } = given
  return excess === undefined ? await command.run({ ...others, input }) : misused(`${name} has one argument only.`, name)
}
