/** What editors, shells and environment files leave around the text of a secret. It is read as it is: another service may have the same. */

const findings: ReadonlyArray<readonly [pattern: RegExp, advice: string]> = [
  [/^\xef\xbb\xbf/, 'It begins with a byte order mark: save the file as UTF-8 without one.'],
  [/\r\n/, 'It has line ends of Windows (CRLF): convert it with "tr -d \'\\r\'", and remove a line feed at its end.'],
  [/(?<!\r)\n$/, 'It ends with a line feed, as "echo" writes it: write it with "printf %s", or remove the line feed with "tr -d \'\\n\'".'],
  [/^(?:\xef\xbb\xbf)?[ \t]|[ \t](?:\r?\n)?$/, 'It begins or ends with a blank: remove it.'],
  [/^(?:\xef\xbb\xbf)?\s*(["'`]).*\1\s*$/s, 'It is in quotation marks, which some tools take for a part of the value: remove them.']
]

/** Text in ASCII, which random bytes are not. */
const printable = /^(?:\xef\xbb\xbf)?[\x20-\x7e\t\r\n]+$/

/** Says what is around the text of a secret, and how to remove it; undefined for nothing, and for bytes. */
export function residueOf (secret: Buffer): string | undefined {
  const text = secret.toString('latin1')
  const found = printable.test(text) ? findings.filter(([pattern]) => pattern.test(text)) : []
  return found.length === 0 ? undefined : found.map(([, advice]) => advice).join(' ')
}
