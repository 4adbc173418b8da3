/** Text in diagrams: how wide it is, where its lines break, and how it is written into SVG. */

/** Widths of Helvetica and Arial in thousandths of the font size. Characters that are not listed are taken for 600. */
const widths = new Map([
  [191, "'"], [222, 'ijl'], [260, '|'], [278, ' !,./:;I[\\]ft'], [333, '()-r`'], [334, '{}'], [355, '"'], [389, '*'], [469, '^'],
  [500, 'Jcksvxyz'], [556, '#$0123456789?L_abdeghnopqu'], [584, '+<=>~'], [611, 'FTZ'], [667, '&ABEKPSVXY'], [722, 'CDHNRUw'],
  [778, 'GOQ'], [833, 'Mm'], [889, '%'], [944, 'W'], [1015, '@']
].flatMap(([width, characters]) => Array.from(characters, (character) => [character, width])))

/** What a font that replaces Arial, or bold type, may need in addition. */
const allowance = 1.08

export const fontSize = 13
export const lineHeight = 17

/** The width of a line in pixels. */
export const widthOf = (line) => Array.from(line).reduce((sum, character) => sum + (widths.get(character) ?? 600), 0) * fontSize * allowance / 1000

/** Puts words on lines. */
function fill (words, width) {
  const lines = ['']
  for (const word of words) {
    const longer = lines.at(-1) + word
    if (lines.at(-1) !== '' && widthOf(longer.trimEnd()) > width) lines.push(word)
    else lines.splice(-1, 1, longer)
  }
  return lines.map((line) => line.trimEnd())
}

/** Breaks a text into lines that are about equally long: at spaces, and words that are too wide at punctuation and in camel case. */
export function wrap (text, width) {
  const words = text.trim().split(/(?<= )/)
    .flatMap((word) => widthOf(word.trim()) > width ? word.split(/(?<=[/.(-])(?=\w)|(?<=[a-z])(?=[A-Z])/) : [word])
  let lines = fill(words, width)
  for (let narrower = width; narrower > width / 2; narrower -= 4) {
    const balanced = fill(words, narrower)
    if (balanced.length > lines.length) break
    lines = balanced
  }
  return lines
}

/** A part of the description of a diagram. */
export const sentence = (text) => /[.?!]$/.test(text) ? text : `${text}.`

export const escape = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)

const round = (number) => Math.round(number * 10) / 10

/** An element without text. Numbers are rounded. */
export function element (name, attributes) {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${typeof value === 'number' ? round(value) : value}"`)
  return `<${name}${written.join('')}/>`
}

/**
 * Lines below each other.
 * @param x their middle, or with the class `start` their beginning
 * @param top the upper edge of the first line
 */
export const textLines = (x, top, lines, type) => lines.map((line, index) =>
  `<text x="${round(x)}" y="${round(top + index * lineHeight + fontSize)}" class="${type}">${escape(line)}</text>`).join('')

/** A line through points, whose corners are round, with a head at its end. */
export function arrow (points, type) {
  const radius = 8
  const path = points.map(([x, y], index) => {
    const [before, after] = [points[index - 1], points[index + 1]]
    if (before === undefined) return `M${round(x)} ${round(y)}`
    if (after === undefined) return `L${round(x)} ${round(y)}`
    const towards = ([tx, ty]) => {
      const distance = Math.hypot(tx - x, ty - y)
      const part = Math.min(radius, distance / 2) / distance
      return `${round(x + (tx - x) * part)} ${round(y + (ty - y) * part)}`
    }
    return `L${towards(before)}Q${round(x)} ${round(y)} ${towards(after)}`
  }).join('')
  const [[fromX, fromY], [x, y]] = points.slice(-2)
  const [dx, dy] = [Math.sign(x - fromX), Math.sign(y - fromY)]
  const head = `M${round(x)} ${round(y)}l${-8 * dx + 4 * dy} ${-8 * dy + 4 * dx}l${-8 * dy} ${-8 * dx}z`
  return `<path d="${path}" class="${type}"/><path d="${head}" class="head"/>`
}
