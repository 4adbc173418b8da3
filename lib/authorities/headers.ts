/** The headers of verified tokens, remembered: those of one authority hardly ever differ. */
import { detached, readHeader, type Header } from '../token/form.ts'
import { Generations } from '../generations.ts'

/** Up to twice as many are kept. Only those of verified tokens are, so that nobody can push out good ones. */
const keptHeaders = 50

export class KeptHeaders {
  readonly #kept = new Generations<string, Header>(keptHeaders)
  /** The header of the token that was verified last. */
  #lastText: string
  #last: Header | undefined

  /** @param expected a header that is kept from the beginning, so that a bad token with it costs no reading; empty for none */
  constructor (expected: string) {
    this.#lastText = expected
    this.#last = readHeader(expected)
    if (this.#last !== undefined) this.#kept.set(expected, this.#last)
  }

  /** Returns a header, which is read if it is not kept. */
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
