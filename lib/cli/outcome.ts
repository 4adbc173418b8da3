/** What a command prints, and the exit code of the process. */
import { writeFileSync } from 'node:fs'

export interface Outcome {
  /** 0: done. 1: it failed, or a check did. 2: it was called in a wrong way. */
  readonly code: 0 | 1 | 2
  /** The result. */
  readonly stdout: string
  /** Everything else. */
  readonly stderr: string
}

export const done = (stdout: string, stderr = ''): Outcome => ({ code: 0, stdout, stderr })
export const failed = (message: string): Outcome => ({ code: 1, stdout: '', stderr: `${message}\n` })

/** Writes the result of a command to a new file that nobody else can read, instead of printing it. */
export function save ({ stdout, stderr }: Outcome, file: string): Outcome {
  try {
    writeFileSync(file, stdout, { flag: 'wx', mode: 0o600 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return failed(code === 'EEXIST'
      ? `The file "${file}" exists, and was not changed. Give another name, or leave out --output to print the keys.`
      : `The file "${file}" cannot be written (${code}). Check its path and permissions.`)
  }
  return done('', `${stderr}Written to ${file}.\n`)
}
