/** Draws state diagrams: the states below each other, each with what happens in it and which state follows. */
import { element, lineHeight, sentence, textLines, wrap } from './text.js'

const edge = /^(\[\*\]|\w+) --> (\[\*\]|\w+)(?:: (.+))?$/

/** @param lines the text without its first line @param width in pixels */
export function drawStates (lines, width) {
  const edges = lines.map((line) => {
    const [, from, to, label = ''] = edge.exec(line) ?? []
    if (from === undefined) throw new Error(`A state diagram has a line that cannot be drawn: ${line}`)
    return { from, to, label }
  })
  const nameOf = (state) => state === '[*]' ? 'end' : state
  const states = [...new Set(edges.flatMap(({ from, to }) => [from, to]))].filter((state) => state !== '[*]')
  const followers = (state, to) => to === state ? 'stays' : `→ ${nameOf(to)}`
  const arrowWidth = 96
  const drawn = []
  let y = 2
  for (const state of states) {
    const rows = edges.filter(({ from }) => from === state).map(({ to, label }) => ({ next: followers(state, to), text: wrap(label, width - arrowWidth - 40) }))
    const begins = edges.filter(({ from, to }) => from === '[*]' && to === state).map(({ label }) => label)
    const height = 18 + lineHeight + rows.reduce((sum, { text }) => sum + text.length * lineHeight + 6, 0)
    drawn.push(element('rect', { x: 1, y, width: width - 2, height, rx: 6, class: 'participant' }))
    drawn.push(textLines(14, y + 8, [[state, ...begins.map((label) => `begins: ${label}`)].join(', ')], 'name start'))
    let top = y + 12 + lineHeight
    for (const { next, text } of rows) {
      drawn.push(textLines(14, top, [next], 'label start'), textLines(arrowWidth + 14, top, text, 'quiet start'))
      top += text.length * lineHeight + 6
    }
    y += height + 12
  }
  const description = edges.map(({ from, to, label }) => `${from === '[*]' ? 'Beginning' : from}, ${label}: ${from === to ? 'stays' : nameOf(to)}`).map(sentence).join(' ')
  return { body: drawn.join(''), height: y - 8, description }
}
