/** The reports. They are kept in memory, so they end with the process, and two processes have different ones. */

/** Anybody who may write reports could otherwise fill the memory. */
export const limits = { title: 80, text: 2000, count: 50 }

/** In bytes: enough for the longest report, however its characters are encoded. */
export const bodyLimit = 32_768

/** What a report must be as JSON. `\S` is a character that can be seen. */
export const reportSchema = {
  type: 'object',
  required: ['title', 'text'],
  properties: {
    title: { type: 'string', pattern: '\\S', maxLength: limits.title },
    text: { type: 'string', pattern: '\\S', maxLength: limits.text }
  }
}

/** Forms end lines with CRLF, which browsers count as one character for `maxlength`, and `errorsOf` as two. */
export async function normalizeLineEndings ({ body }) {
  if (typeof body?.text === 'string') body.text = body.text.replaceAll('\r\n', '\n')
}

const messages = { title: 'Enter a title.', text: 'Enter the text of the report.' }

/**
 * Checks a report that was sent as a form. The schema would name the first wrong field only, and a form shows all of them.
 * @returns what is wrong, by the names of the fields
 */
export function errorsOf (given) {
  const wrong = {}
  for (const [name, message] of Object.entries(messages)) {
    const { [name]: value } = Object(given)
    if (typeof value !== 'string' || !/\S/.test(value)) wrong[name] = message
    else if (Array.from(value).length > limits[name]) wrong[name] = `Use at most ${limits[name]} characters.`
  }
  return wrong
}

export function createReports () {
  const reports = [
    { title: 'March', text: 'Sessions survive a restart, because they are in a store that all processes share.', author: 'grace', written_at: '2026-03-31T15:20:00.000Z' },
    { title: 'February', text: 'Every route has a guard, or says that it needs none.', author: 'ada', written_at: '2026-02-27T10:45:00.000Z' },
    { title: 'January', text: 'The first users have logged in.', author: 'ada', written_at: '2026-01-30T09:05:00.000Z' }
  ]
  return {
    /** The reports, the latest first. */
    list: () => reports,
    /** Adds a report, and drops the oldest ones beyond the limit. */
    add ({ title, text }, author) {
      const report = { title, text, author, written_at: new Date().toISOString() }
      reports.unshift(report)
      reports.splice(limits.count)
      return report
    }
  }
}
