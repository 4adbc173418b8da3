/** Draws flow charts: boxes in rows from top to bottom, and arrows between them. */
import { arrow, element, lineHeight, sentence, textLines, widthOf, wrap } from './text.js'

const shapes = { '([': 'actor', '[': 'participant' }
const node = /(\w+)(?:(\(\[|\[)"?(.*?)"?(?:\]\)|\]))?/.source
const edge = new RegExp(`^${node} +(?:-- (.+?) -->|-\\. (.+?) \\.->|(-->|-\\.->)) +${node}$`)
const alone = new RegExp(`^${node}$`)

/** The room above the boxes of a group, for its title and the ends of arrows. */
const groupHead = lineHeight + 20

/** Reads the lines of the text. @returns its boxes, arrows and groups */
function read (lines) {
  const nodes = new Map()
  const edges = []
  const groups = []
  let group
  const add = (id, opening, text) => {
    if (!nodes.has(id)) nodes.set(id, { id, text: id, kind: 'participant', row: 0, group })
    if (opening !== undefined) Object.assign(nodes.get(id), { text, kind: shapes[opening] })
    return nodes.get(id)
  }
  for (const line of lines) {
    const subgraph = /^subgraph \w+ ?\["?(.+?)"?\]$/.exec(line)
    const [, from, fromShape, fromText, label, dottedLabel, plain, to, toShape, toText] = edge.exec(line) ?? []
    if (subgraph !== null) {
      group = { title: subgraph[1] }
      groups.push(group)
    } else if (line === 'end') {
      group = undefined
    } else if (from !== undefined) {
      const ends = { from: add(from, fromShape, fromText), to: add(to, toShape, toText) }
      edges.push({ ...ends, label: label ?? dottedLabel ?? '', isDotted: dottedLabel !== undefined || plain === '-.->' })
    } else if (alone.test(line)) {
      add(...alone.exec(line).slice(1))
    } else {
      throw new Error(`A flow chart has a line that cannot be drawn: ${line}`)
    }
  }
  return { nodes: [...nodes.values()], edges, groups }
}

/** Each box stands below those that lead to it. Boxes of one group share a row. */
function assignRows (nodes, edges) {
  for (let isChanged = true, round = 0; isChanged; round++) {
    if (round > nodes.length) throw new Error('A flow chart with a circle cannot be drawn.')
    isChanged = false
    const lower = (node, row) => {
      if (node.row >= row) return
      node.row = row
      isChanged = true
    }
    for (const { from, to } of edges) if (to.beside === undefined) lower(to, from.row + 1)
    for (const node of nodes) for (const other of nodes) if (node.group !== undefined && other.group === node.group) lower(node, other.row)
  }
}

/** What the diagram says, in a sentence for each box from which arrows begin. */
function describe (nodes, edges) {
  const title = ({ text }) => text.split(/<br\s*\/?>/)[0]
  const whole = ({ text }) => text.replace(/<br\s*\/?>/, ' (').replace(/<br\s*\/?>/g, ', ').replace(/ \(.*$/, '$&)')
  const ways = (node) => edges.filter(({ from }) => from === node)
  return nodes.filter((node) => ways(node).length > 0).map((node) => {
    const targets = ways(node).map(({ to, label }) => `${label === '' ? '' : `${label}: `}${ways(to).length > 0 ? title(to) : whole(to)}`)
    return sentence(`${whole(node)}, then ${targets.join('; ')}`)
  }).join(' ')
}

const typeOf = ({ kind, text }) => /^4\d\d\b/.test(text) ? 'refusal' : kind

/** @param lines the text without its first line @param width in pixels */
export function drawFlow (lines, width) {
  const { nodes, edges, groups } = read(lines)
  // A box at which a way ends stands beside the box from which it branches off.
  for (const { from, to, label } of edges) {
    const isEnd = !edges.some((other) => other.from === to)
    if (isEnd && label !== '' && edges.some((other) => other.from === from && other.to !== to && other.label === '')) to.beside = from
  }
  assignRows(nodes, edges)
  const hasSides = nodes.some(({ beside }) => beside !== undefined)
  const mainWidth = hasSides ? width * 0.54 : width
  const sideLeft = width * 0.64
  const drawn = []
  const arrows = []
  let y = 2

  const place = (node, left, boxWidth) => {
    const [title, ...rest] = node.text.split(/<br\s*\/?>/).map((part) => wrap(part, boxWidth - 16))
    Object.assign(node, { left, boxWidth, title, rest: rest.flat(), x: left + boxWidth / 2, type: typeOf(node), height: [title, ...rest].flat().length * lineHeight + 18 })
  }
  for (let row = 0; nodes.some((node) => node.row === row && node.beside === undefined); row++) {
    const here = nodes.filter((node) => node.row === row && node.beside === undefined)
    const incoming = edges.filter(({ to }) => here.includes(to))
    const column = mainWidth / here.length
    if (row > 0) {
      const labels = incoming.map(({ label }) => label === '' ? 0 : wrap(label, Math.min(column, width / 2) - 12).length)
      y += 28 + Math.max(0, ...labels) * lineHeight + (Math.max(0, ...labels) > 0 ? 18 : 0)
    }
    const inGroup = here.some(({ group }) => group !== undefined)
    if (inGroup) y += groupHead
    for (const [index, node] of here.entries()) {
      const gap = inGroup ? 14 : 6
      const boxWidth = hasSides ? mainWidth - 1 : Math.min(column - 2 * gap, 230)
      place(node, 1 + column * (index + 0.5) - boxWidth / 2, boxWidth)
    }
    const sides = nodes.filter(({ beside }) => here.includes(beside))
    for (const side of sides) place(side, sideLeft, width - sideLeft - 1)
    const height = Math.max(...[...here, ...sides].map((node) => node.height))
    for (const node of here) node.height = Math.max(...here.map((other) => other.height))
    for (const node of [...here, ...sides]) node.top = y + (height - node.height) / 2
    y += height + (inGroup ? 14 : 0)
  }

  for (const { from, to, label, isDotted } of edges) {
    const type = isDotted ? 'line reply' : 'line'
    if (to.beside === from) {
      const middle = from.top + from.height / 2
      arrows.push(arrow([[from.left + from.boxWidth, middle], [to.left - 1, middle]], type))
      arrows.push(textLines((from.left + from.boxWidth + to.left) / 2 - 3, middle - lineHeight - 3, [label], 'label'))
      continue
    }
    const [start, end] = [from.top + from.height, to.top - 1]
    const bend = start + 14 + (from.group === undefined ? 0 : 14)
    arrows.push(arrow(Math.abs(from.x - to.x) < 1 ? [[from.x, start], [to.x, end]] : [[from.x, start], [from.x, bend], [to.x, bend], [to.x, end]], type))
    if (label === '') continue
    const text = wrap(label, Math.min(mainWidth / nodes.filter(({ row, beside }) => row === to.row && beside === undefined).length, width / 2) - 12)
    const margin = Math.max(...text.map(widthOf)) / 2 + 2
    const upper = to.group === undefined ? end - 12 : end - groupHead - 10
    arrows.push(textLines(Math.min(Math.max(to.x, margin), width - margin), (bend + upper - text.length * lineHeight) / 2, text, 'label'))
  }
  for (const group of groups) {
    const members = nodes.filter((node) => node.group === group)
    const left = Math.min(...members.map((node) => node.left)) - 10
    const right = Math.max(...members.map((node) => node.left + node.boxWidth)) + 10
    const top = Math.min(...members.map((node) => node.top)) - groupHead
    const bottom = Math.max(...members.map((node) => node.top + node.height)) + 10
    drawn.push(element('rect', { x: left, y: top, width: right - left, height: bottom - top, rx: 10, class: 'group' }))
    arrows.push(textLines(left + 12, top + 6, [group.title], 'quiet start over'))
  }
  for (const { left, top, boxWidth, height, kind, type, title, rest, x } of nodes) {
    const colour = type === 'refusal' ? ' bad' : ''
    const first = top + (height - (title.length + rest.length) * lineHeight) / 2
    drawn.push(element('rect', { x: left, y: top, width: boxWidth, height, rx: kind === 'actor' ? 18 : 6, class: type }))
    drawn.push(textLines(x, first, title, `name${colour}`), textLines(x, first + title.length * lineHeight, rest, `quiet${colour}`))
  }
  return { body: [...drawn, ...arrows].join(''), height: y + 2, description: describe(nodes, edges) }
}
