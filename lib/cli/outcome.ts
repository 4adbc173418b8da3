/** What a command prints, and the exit code of the process. */
export interface Outcome {
  /** 0: success. 1: a failure, or a warning of `doctor`. 2: wrong usage, or an error of `doctor`. */
  readonly code: 0 | 1 | 2
  /** The result. */
  readonly stdout: string
  /** Everything else. */
  readonly stderr: string
}

export const done = (stdout: string, stderr = ''): Outcome => ({ code: 0, stdout, stderr })
export const failed = (message: string): Outcome => ({ code: 1, stdout: '', stderr: `${message}\n` })
