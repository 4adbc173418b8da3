/** The code blocks of documents, and how tests run them. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import blankSpace from 'ts-blank-space'
import ts from 'typescript'

/**
 * All examples of a document, including those in lists.
 * @param languages what follows the backticks. TypeScript runs if it is JavaScript, too
 */
export const programsIn = (document: string, languages: readonly string[] = ['js']): string[] =>
  Array.from(document.matchAll(/^( *)```(\w+)\n([\s\S]*?)^\1```/gm)).flatMap(([, , language = '', program = '']) => languages.includes(language) ? [program] : [])

/** Returns the only example that contains a text. */
export function programWith (programs: readonly string[], text: string): string {
  const [program, ...others] = programs.filter((candidate) => candidate.includes(text))
  if (program === undefined || others.length > 0) throw new Error(`There is not exactly one example with "${text}" in the document.`)
  return program
}

/** Removes the types of an example. What is JavaScript stays as it is. */
export const withoutTypes = (program: string): string => blankSpace(program)

/**
 * Runs an example without its imports, with these names in scope. The block allows it to declare them again.
 * @param result an expression of the example's names, which the run resolves to
 */
export function run<Result> (program: string, names: Record<string, unknown>, result = 'undefined'): Promise<Result> {
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor
  return new AsyncFunction(...Object.keys(names), `{\n${program.replace(/^ *import .*$/gm, '')}\nreturn ${result}\n}`)(...Object.values(names))
}

/** Compiles a TypeScript example with the options of this repository, and returns the errors. */
export function errorsIn (program: string): string[] {
  const folder = fileURLToPath(new URL('.', import.meta.url))
  const name = `${folder}example.ts`
  const { options } = ts.parseJsonConfigFileContent(ts.readConfigFile(`${folder}../tsconfig.json`, ts.sys.readFile).config, ts.sys, `${folder}..`)
  const compilerHost = ts.createCompilerHost(options)
  const { getSourceFile, fileExists } = compilerHost
  compilerHost.getSourceFile = (file, ...rest) => file === name ? ts.createSourceFile(file, program, ts.ScriptTarget.Latest) : getSourceFile(file, ...rest)
  compilerHost.fileExists = (file) => file === name || fileExists(file)
  const diagnostics = ts.getPreEmitDiagnostics(ts.createProgram([name], { ...options, noUnusedLocals: false, noUnusedParameters: false }, compilerHost))
  return diagnostics.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '))
}

/**
 * The examples of a page of docs/, to be run one by one.
 * @param languages as for {@link programsIn}
 * @returns `run` runs the only example that contains a text, and `take` returns it; `left` has those that were not asked for yet
 */
export function examplesOf (page: string, languages?: readonly string[]) {
  const programs = programsIn(readFileSync(new URL(`../docs/${page}`, import.meta.url), 'utf8'), languages)
  const left = new Set(programs)
  const take = (text: string): string => {
    const program = programWith(programs, text)
    left.delete(program)
    return program
  }
  return {
    left,
    take,
    run: <Result>(text: string, names: Record<string, unknown>, result?: string): Promise<Result> => run<Result>(take(text), names, result)
  }
}
