/** How long a function of the application that returns keys may take. */

/** In milliseconds. */
const patience = 5000

/**
 * Calls a function, and waits 5 seconds at most.
 * @param isPatient whether the process must not end meanwhile
 * @throws what the function throws, or an error that says that it took too long
 */
export async function callPatiently (load: () => unknown, isPatient: boolean): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`The function took more than ${patience / 1000} seconds.`)), patience)
    if (!isPatient) timer.unref()
  })
  try {
    return await Promise.race([load(), timeout])
  } finally {
    clearTimeout(timer)
  }
}
