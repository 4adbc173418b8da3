/** Remembers the parsed headers of verified tokens: tokens of one authority usually have the same header. */
import { detached, readHeader, type Header } from '../token/form.ts'
import { BoundedMap } from '../bounded-map.ts'

/** At most twice as many are kept. Only headers of verified tokens are kept, so that an attacker cannot displace them. */
const keptHeaders = 50

export class KeptHeaders {
  readonly #kept = new BoundedMap<string, Header>(keptHeaders)
  /** The header of the token that was verified last. */
  #lastText: string
  #last: Header | undefined

  /** @param expected a header that is kept from the beginning, so that it is not parsed for invalid tokens; empty for none */
  constructor (expected: string) {
    this.#lastText = expected
    this.#last = readHeader(expected)
    if (this.#last !== undefined) this.#kept.set(expected, this.#last)
  }

  /** Returns a header, and parses it if it is not kept. */
  read (text: string): Header | undefined {
    return text === this.#lastText ? this.#last : this.#kept.get(text) ?? readHeader(text)
  }

  /** Keeps the header of a verified token. */
  keep (text: string, header: Header): void {
    if (text === this.#lastText) return
    this.#lastText = detached(text)
    this.#last = header
    if (this.#kept.get(text) === undefined) this.#kept.set(this.#lastText, header)
  }
}
