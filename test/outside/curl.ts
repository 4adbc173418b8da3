/** The curl commands that examples print, sent without curl. */

export interface Answer { status: number, body: string, setsCookies: boolean }

/** Cookies by file and name. */
export type CookieFiles = Map<string, Map<string, string>>

/** The commands that an example prints, with their titles, and the statuses of the answers to expect. */
export const stepsOf = (instructions: string) => Array.from(instructions.matchAll(/^# (.+)\n(curl .+)$/gm), ([, title = '', command = '']) =>
  ({ title, command, expected: Number(/: (\d{3})$/.exec(title)?.[1] ?? 200) }))

/** Sends what a curl line would send, and keeps cookies as curl does, which accepts Secure cookies from this address. */
export async function curl (line: string, files: CookieFiles): Promise<Answer> {
  const words = [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3] ?? '')
  const headers: Record<string, string> = {}
  let url = ''
  let method = 'GET'
  let body: string | undefined
  let file: string | undefined
  for (let index = 1; index < words.length; index++) {
    const word = words[index] ?? ''
    const next = words[index + 1] ?? ''
    if (word === '-H') {
      const [name = '', value = ''] = next.split(/: (.*)/s)
      headers[name] = value
    } else if (word === '-d') {
      body = next
      method = 'POST'
    } else if (word === '-X') {
      method = next
    } else if (word === '-b') {
      headers.cookie = [...files.get(next) ?? []].map(([name, value]) => `${name}=${value}`).join('; ')
    } else if (word === '-c') {
      file = next
    } else if (word.startsWith('http')) {
      url = word
    }
  }
  const response = await fetch(url, { method, headers, ...(body !== undefined && { body }) })
  const cookies = response.headers.getSetCookie()
  if (file !== undefined) {
    const kept = files.get(file) ?? new Map<string, string>()
    for (const cookie of cookies) kept.set(...(cookie.split(';')[0]?.split('=') as [string, string]))
    files.set(file, kept)
  }
  return { status: response.status, body: await response.text(), setsCookies: cookies.length > 0 }
}
