/** Characters that editors and shells add to a secret. They are reported, not removed: other services may use the same secret. */

const findings: ReadonlyArray<readonly [pattern: RegExp, advice: string]> = [
  [/^\xef\xbb\xbf/, 'It begins with a byte order mark: save the file as UTF-8 without one.'],
  [/\r\n/, 'It has Windows line ends (CRLF): convert it with "tr -d \'\\r\'", and remove a line feed at its end.'],
  [/(?<!\r)\n$/, 'It ends with a line feed, as "echo" writes it: write it with "printf %s", or remove the line feed with "tr -d \'\\n\'".'],
  [/^(?:\xef\xbb\xbf)?[ \t]|[ \t](?:\r?\n)?$/, 'It begins or ends with a blank: remove it.'],
  [/^(?:\xef\xbb\xbf)?\s*(["'`]).*\1\s*$/s, 'It is in quotation marks, which some tools treat as a part of the value: remove them.']
]

/** ASCII text. Random bytes do not match. */
const printable = /^(?:\xef\xbb\xbf)?[\x20-\x7e\t\r\n]+$/

/** Describes such characters and how to remove them; undefined if there are none, or if the secret is not ASCII text. */
export function residueOf (secret: Buffer): string | undefined {
  const text = secret.toString('latin1')
  const found = printable.test(text) ? findings.filter(([pattern]) => pattern.test(text)) : []
  return found.length === 0 ? undefined : found.map(([, advice]) => advice).join(' ')
}
