/** Runs client and server on different cores, if the system allows it, so that they do not compete for CPU time. */
import { execFileSync, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'

const serverCore = '0'
const clientCore = '1'

/** Assigns this process, the client, to its core. Returns whether this was possible. */
function keepToCore () {
  if (availableParallelism() < 2) return false
  try {
    execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', clientCore, String(process.pid)], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

export const areCoresSeparate = keepToCore()

const environment = { ...process.env, NODE_ENV: 'production', NODE_NO_WARNINGS: '1' }

/** Starts a program of the benchmarks, which communicates by messages. @param isPinned if false, the system assigns its cores */
export function launch (url, { flags = [], isPinned = true } = {}) {
  const path = url.pathname
  const options = { env: environment, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }
  if (!areCoresSeparate) return fork(path, [], { ...options, execArgv: flags })
  const cores = isPinned ? serverCore : `${serverCore},${clientCore}`
  return spawn('taskset', ['--cpu-list', cores, process.execPath, ...flags, path], options)
}

/** Sends a message and waits for the reply. */
export async function ask (child, question) {
  const failed = new AbortController()
  const onExit = (code) => failed.abort(new Error(`A process of the benchmark ended (${code}).`))
  child.once('exit', onExit)
  child.send(question)
  try {
    const [answer] = await once(child, 'message', { signal: failed.signal })
    return answer
  } catch (error) {
    throw failed.signal.reason ?? error
  } finally {
    child.off('exit', onExit)
  }
}

export async function stop (child) {
  child.disconnect()
  await once(child, 'exit')
}

/** Runs a suite in a new process, on the core of the servers. */
export async function inFreshProcess (url, settings) {
  const child = launch(url, { flags: ['--expose-gc'] })
  const result = await ask(child, settings)
  await stop(child)
  return result
}

/** The counterpart of {@link inFreshProcess} in the new process: runs the suite on request. */
export function answerWith (suite) {
  process.once('message', async (settings) => process.send(await suite(settings)))
}
