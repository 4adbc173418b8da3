/** The menu of the site: groups of pages in the order in which they are read. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'

const docs = new URL('../', import.meta.url)
const read = (path) => readFileSync(new URL(path, docs), 'utf8')

/** Pages that show files outside docs/, whose titles are longer than a menu has room for, or which have none. */
const titles = {
  changelog: 'Changelog',
  'changing-settings': 'Changing settings',
  recipes: 'All recipes',
  reporting: 'Report a vulnerability',
  'sessions-reference': 'Sessions in detail',
  'tutorial-javascript': 'Tutorial in JavaScript',
  'evidence/overview': 'Overview',
  'evidence/keys': 'Promises of keys',
  'evidence/security': 'Attacks',
  'evidence/speed': 'Speed',
  'evidence/sessions': 'Failures of sessions',
  'evidence/specification': 'The specification, row by row',
  'evidence/stores': 'Failures of stores',
  'evidence/tests': 'Tests'
}

const titleOf = (page) => titles[page] ?? /^# ([^:\n]+)/m.exec(read(`${page}.md`))[1].replaceAll('`', '')

/** The pages of a folder: those that the page with the name of the folder links, in its order, and then the others. */
function pagesIn (folder) {
  if (!existsSync(new URL(folder, docs))) return []
  const list = existsSync(new URL(`${folder}.md`, docs)) ? read(`${folder}.md`) : ''
  const linked = Array.from(list.matchAll(/\]\(([\w/-]+)\.md\)/g), ([, page]) => page)
  const found = readdirSync(new URL(folder, docs)).filter((name) => name.endsWith('.md')).map((name) => `${folder}/${name.slice(0, -3)}`)
  return [...new Set([...linked.filter((page) => found.includes(page)), ...found])]
}

/** @returns the groups of `menu.json`, with the other pages of a folder where it has `folder/*`, as `{ text, items: [{ text, link }] }` */
export function menu () {
  return Object.entries(JSON.parse(read('.vitepress/menu.json'))).map(([text, entries]) => {
    const pages = new Set(entries.flatMap((entry) => entry.endsWith('/*') ? pagesIn(entry.slice(0, -2)) : [entry]))
    return { text, items: [...pages].map((page) => ({ text: titleOf(page), link: `/${page}` })) }
  }).filter(({ items }) => items.length > 0)
}
