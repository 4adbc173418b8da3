/** Markup, in which every value is escaped. */

const entities = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

class Markup {
  constructor (text) {
    this.text = text
  }

  toString () {
    return this.text
  }
}

function render (value) {
  if (value instanceof Markup) return value.text
  if (Array.isArray(value)) return value.map(render).join('')
  if (value === undefined || value === null || value === false) return ''
  return String(value).replace(/[&<>"']/g, (character) => entities[character])
}

/**
 * A template tag: html`<p>${text}</p>`. It escapes values, so that input of users never becomes markup (cross-site
 * scripting), except for the results of other html templates, also in lists. Put values of attributes in quotes.
 */
export const html = (strings, ...values) => new Markup(strings.reduce((text, string, index) => text + render(values[index - 1]) + string))
