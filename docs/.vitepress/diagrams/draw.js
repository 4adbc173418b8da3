/**
 * Draws diagrams as SVG from their texts, which are written in a part of the language of Mermaid, so that GitHub draws blocks
 * of them as well. What they look like, in light and dark, is in `colours`, and in `theme/diagrams.css` for pages of the site.
 */
import { drawFlow } from './flow.js'
import { drawSequence } from './sequence.js'
import { drawStates } from './states.js'
import { escape, sentence } from './text.js'

const kinds = { sequenceDiagram: drawSequence, 'flowchart TB': drawFlow, 'flowchart LR': drawFlow, 'stateDiagram-v2': drawStates }

/** The widths of a page: that of its text on a screen, and that of its text on a phone with 390 pixels. */
export const widths = { wide: 640, narrow: 342 }

/**
 * Draws a diagram.
 * @param text in the language of Mermaid; `accTitle` is its title, `accDescr` its description, which is else made of its steps
 * @param {string} style the content of a `style` element, for a file of its own
 * @returns an SVG element that a screen reader reads as a picture with a title and a description
 */
export function draw (text, width, style = '') {
  const [kind, ...lines] = text.split('\n').map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('%%'))
  if (!Object.hasOwn(kinds, kind)) throw new Error(`A diagram begins with "${kind}", which cannot be drawn. These kinds can: ${Object.keys(kinds).join(', ')}.`)
  const [title, given] = ['accTitle', 'accDescr'].map((name) => new RegExp(`^\\s*${name}: (.+)$`, 'm').exec(text)?.[1])
  const { body, height, description } = kinds[kind](lines.filter((line) => !/^acc(?:Title|Descr)\b/.test(line)), width)
  const label = [...title === undefined ? [] : [sentence(title)], given ?? description].join(' ')
  const size = `viewBox="0 0 ${width} ${Math.ceil(height)}" width="${width}" height="${Math.ceil(height)}"`
  const rest = (title === undefined ? '' : `<title>${escape(title)}</title>`) + (style === '' ? '' : `<style>${style}</style>`)
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="${escape(label)}" class="diagram">${rest}${body}</svg>`
}
