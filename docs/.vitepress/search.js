/** What the search knows beyond the chapters: each row of a table with an address, and the messages of errors and warnings. */
import { messages } from './messages.js'

const withoutTags = (html) => html.replace(/<wbr>/g, '').replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ').trim()

/**
 * Renders a page for the index of the search, which has an entry for each heading: rows become headings, one level below
 * the chapter in which they stand. An error or a finding is followed by its messages.
 */
export function renderForSearch (source, env, md) {
  const html = md.render(source, env)
  if (env.frontmatter?.search === false) return ''
  let level = 1
  return html.replace(/<h(\d)\b.*?<\/h\1>|<tr id="([^"]+)"[^>]*>\s*<td[^>]*>([\s\S]*?)<\/td>/g, (found, heading, id, cell) => {
    if (heading !== undefined) level = Number(heading)
    const title = withoutTags(cell ?? found.replace(/<a [^>]*header-anchor[\s\S]*$/, ''))
    const said = messages.get(title.replace(/ ¹$/, ''))
    const row = heading === undefined ? `<h${level + 1}>${title} <a href="#${id}"></a></h${level + 1}>` : found
    return said === undefined ? row : `${row}<p>${md.utils.escapeHtml(said)}</p>`
  })
}
