/** The command line: `npx fastify-token-auth`. */
import { parseArgs } from 'node:util'
import { doctor } from './cli/doctor.ts'
import { inspect } from './cli/inspect.ts'
import { keys } from './cli/keys.ts'
import { done, type Outcome } from './cli/outcome.ts'
import { routes } from './cli/routes.ts'
import { algorithms } from './algorithms.ts'

const usage = `Usage: fastify-token-auth <command>

  inspect [token]     Print the content of a token. Without an argument, it is
                      read from the standard input, so that no shell stores it.
  keys [algorithm]    Create a secret, or a pair of keys. Default: HS256.
       [--jwk]        JSON Web Keys.
       [--output <file>]
                      Write the secret or private key to a new file that only
                      you can read, and print the public key.
  routes <module>     Print who may use the routes of an application. The module
                      exports by default a plugin, an application, or a function
                      without parameters that returns one.
         [--check]    Exit with 1 if a route has neither guard nor exemption.
  doctor <module>     Print what a reviewer would check in an application: open
         [--json]     routes, findings, keys, lifetimes, cookies, stores and
                      issuers. Exits with 1 for warnings, with 2 for errors.

Algorithms: ${algorithms.slice(0, 7).join(', ')},
            ${algorithms.slice(7).join(', ')}
`

/** The standard input of a process. */
export interface Input extends AsyncIterable<string | Uint8Array> { readonly isTTY?: boolean }

async function firstLine (input: Input): Promise<string> {
  if (input.isTTY === true) process.stderr.write('Token: ')
  let text = ''
  for await (const chunk of input) {
    text += Buffer.from(chunk).toString()
    if (text.trimStart().includes('\n')) break
  }
  return text.trim().split('\n', 1)[0]!
}

const misused = (message: string): Outcome => ({ code: 2, stdout: '', stderr: `${message}\n\n${usage}` })

const flags = { inspect: [], keys: ['jwk'], routes: ['check'], doctor: ['json'] } as const
/** The options with a value. */
const files: { readonly [Command in keyof typeof flags]: readonly string[] } = { inspect: [], keys: ['output'], routes: [], doctor: [] }
const isCommand = (name: string | undefined): name is keyof typeof flags => name !== undefined && Object.hasOwn(flags, name)

/** Reads the arguments of a command. @throws {TypeError} for an unknown option, or one without its value */
function read (args: readonly string[], command: keyof typeof flags) {
  const options = Object.fromEntries([
    ...flags[command].map((name) => [name, { type: 'boolean' }] as const),
    ...files[command].map((name) => [name, { type: 'string' }] as const)
  ])
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options })
  const given: Readonly<Record<string, unknown>> = values
  const { output } = given
  return {
    hasFlag: flags[command].some((name) => given[name] === true),
    output: typeof output === 'string' ? output : undefined,
    argument: positionals[0],
    excess: positionals[1]
  }
}

/** Describes the options of a command, for the message about an unknown option. */
function optionsOf (command: keyof typeof flags): string {
  const names = [...flags[command].map((name) => `--${name}`), ...files[command].map((name) => `--${name} <file>`)]
  if (names.length === 0) return 'no options'
  return `only the ${names.length === 1 ? 'option' : 'options'} ${names.join(' and ')}`
}

/** Runs a command. @param args without the names of the program @returns what is to be printed */
export async function main (args: readonly string[], input: Input): Promise<Outcome> {
  const [command, ...rest] = args
  if (args.includes('--help') || args.includes('-h')) return done(usage)
  if (!isCommand(command)) return misused(command === undefined ? 'A command is missing.' : `There is no command "${command}".`)
  let given: ReturnType<typeof read>
  try {
    given = read(rest, command)
  } catch {
    return misused(`${command} has ${optionsOf(command)}.`)
  }
  const { hasFlag, output, argument, excess } = given
  if (excess !== undefined) return misused(`${command} has one argument only.`)
  if (command === 'inspect') return inspect(argument ?? await firstLine(input))
  if (command === 'routes' || command === 'doctor') {
    if (argument === undefined) return misused(`${command} needs the path of a module.`)
    return command === 'routes' ? await routes(argument, hasFlag) : await doctor(argument, hasFlag)
  }
  const algorithm = algorithms.find((name) => name === (argument ?? 'HS256'))
  if (algorithm === undefined) return misused(`There is no algorithm "${argument}".`)
  return keys(algorithm, hasFlag, output)
}
