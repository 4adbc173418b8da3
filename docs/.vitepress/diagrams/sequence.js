/** Draws sequence diagrams: who sends what to whom, from top to bottom. */
import { arrow, element, lineHeight, sentence, textLines, widthOf, wrap } from './text.js'

const unquote = (text) => text.trim().replace(/^"(.*)"$/, '$1')

/** Reads the lines of the text. @returns the participants by id, the boxes around some of them, and the steps in their order */
function read (lines) {
  const participants = new Map()
  const boxes = []
  const steps = []
  const open = []
  const add = (id) => {
    if (!participants.has(id)) participants.set(id, { name: id, kind: 'participant', index: participants.size })
    return participants.get(id)
  }
  const patterns = [
    [/^(actor|participant) (\w+)(?: as (.+))?$/, (kind, id, name = id) => {
      Object.assign(add(id), { name: unquote(name), kind })
      if (open.at(-1)?.kind === 'box') open.at(-1).ids.push(id)
    }],
    [/^box (.+)$/, (title) => { open.push({ kind: 'box', title, ids: [] }) }],
    [/^Note (?:over|left of|right of) ([\w, ]+): (.+)$/, (ids, text) => { steps.push({ kind: 'note', over: ids.split(/, */).map(add), text }) }],
    [/^(alt|opt|loop)(?: (.+))?$/, (kind, text = '') => {
      open.push({ kind: 'frame' })
      steps.push({ kind: 'frame', isLoop: kind === 'loop', text })
    }],
    [/^else(?: (.+))?$/, (text = 'otherwise') => { steps.push({ kind: 'else', text }) }],
    [/^end$/, () => {
      const closed = open.pop()
      if (closed.kind === 'box') boxes.push(closed)
      else steps.push({ kind: 'end' })
    }],
    [/^(\w+)(--?)(?:>>|x)(\w+): ?(.+)$/, (from, line, to, text) => { steps.push({ kind: 'message', from: add(from), to: add(to), isReply: line === '--', text }) }]
  ]
  for (const line of lines) {
    const [pattern, take] = patterns.find(([pattern]) => pattern.test(line)) ?? []
    if (pattern === undefined) throw new Error(`A sequence diagram has a line that cannot be drawn: ${line}`)
    take(...pattern.exec(line).slice(1))
  }
  return { participants: [...participants.values()], boxes: boxes.map(({ title, ids }) => ({ title, members: ids.map(add) })), steps }
}

/** What the diagram says, in sentences. */
function describe (steps) {
  const said = {
    message: ({ from, to, text }) => from === to ? `${from.name}: ${text}` : `${from.name} to ${to.name}: ${text}`,
    note: ({ text }) => text,
    frame: ({ isLoop, text }) => `${isLoop ? 'Repeated' : 'If'}: ${text}`,
    else: ({ text }) => `Else: ${text}`,
    end: () => ''
  }
  return steps.map((step) => said[step.kind](step)).filter((text) => text !== '').map(sentence).join(' ')
}

/** Refusals begin with their status. */
const isRefusal = (text) => /^4\d\d\b/.test(text)

/** @param lines the text without its first line @param width in pixels */
export function drawSequence (lines, width) {
  const { participants, boxes, steps } = read(lines)
  const column = width / participants.length
  const at = ({ index }) => column * (index + 0.5)
  const heads = participants.map(({ name }) => wrap(name, column - 24))
  const headTop = boxes.length > 0 ? 28 : 2
  const headHeight = Math.max(...heads.map((text) => text.length)) * lineHeight + 18
  const drawn = []
  const frames = []
  let y = headTop + headHeight + 12

  const draw = {
    message ({ from, to, isReply, text }) {
      const [start, end] = [at(from), at(to)]
      const type = `label${isRefusal(text) ? ' bad' : ''}`
      if (from === to) {
        const side = start + 40 > width - 90 ? -1 : 1
        const lines = wrap(text, side === 1 ? width - start - 34 : start - 34)
        const middle = y + 4 + lines.length * lineHeight / 2
        drawn.push(textLines(start + side * 30, y, lines, `${type} ${side === 1 ? 'start' : 'finish'}`))
        drawn.push(arrow([[start, middle - 9], [start + side * 24, middle - 9], [start + side * 24, middle + 9], [start + side * 2, middle + 9]], 'line'))
        y += lines.length * lineHeight + 16
        return
      }
      const middle = (start + end) / 2
      const room = 2 * Math.min(middle, width - middle) - 8
      const lines = wrap(text, Math.min(room, Math.max(Math.abs(end - start) - 20, 170)))
      drawn.push(textLines(middle, y, lines, type))
      y += lines.length * lineHeight + 7
      drawn.push(arrow([[start, y], [end - Math.sign(end - start), y]], isReply ? 'line reply' : 'line'))
      y += 16
    },
    note ({ over, text }) {
      const [first, last] = [Math.min(...over.map(at)), Math.max(...over.map(at))]
      const widest = Math.max(last - first + column * 0.8, 130)
      const lines = wrap(text, widest - 20)
      const noteWidth = Math.min(width, Math.max(over.length > 1 ? widest : 0, ...lines.map((line) => widthOf(line) + 24)))
      const left = Math.min(Math.max((first + last - noteWidth) / 2, 1), width - noteWidth - 1)
      const height = lines.length * lineHeight + 10
      drawn.push(element('rect', { x: left, y, width: noteWidth, height, rx: 4, class: 'note' }), textLines(left + noteWidth / 2, y + 4, lines, 'quiet'))
      y += height + 16
    },
    frame ({ text }) {
      const inset = 1 + frames.length * 6
      frames.push({ top: y, inset })
      drawn.push(textLines(inset + 12, y + 6, [text], 'condition start'))
      y += lineHeight + 16
    },
    else ({ text }) {
      const { inset } = frames.at(-1)
      drawn.push(element('path', { d: `M${inset} ${Math.round(y)}H${width - inset}`, class: 'divider' }), textLines(inset + 12, y + 6, [text], 'condition start'))
      y += lineHeight + 16
    },
    end () {
      const { top, inset } = frames.pop()
      drawn.unshift(element('rect', { x: inset, y: top, width: width - 2 * inset, height: y - top, rx: 6, class: 'frame' }))
      y += 16
    }
  }
  for (const step of steps) draw[step.kind](step)

  const groups = boxes.map(({ title, members }) => {
    const left = at(members[0]) - column / 2 + 2
    const right = at(members.at(-1)) + column / 2 - 2
    return element('rect', { x: left, y: 1, width: right - left, height: y - 2, rx: 10, class: 'group' }) + textLines((left + right) / 2, 6, [title], 'quiet')
  })
  const tops = participants.map((participant, index) => {
    const x = at(participant)
    const height = headHeight
    const shape = { x: x - column / 2 + 6, y: headTop, width: column - 12, height, rx: participant.kind === 'actor' ? 18 : 6, class: participant.kind }
    const line = element('path', { d: `M${Math.round(x)} ${headTop + height}V${Math.round(y)}`, class: 'life' })
    return line + element('rect', shape) + textLines(x, headTop + (height - heads[index].length * lineHeight) / 2, heads[index], 'name')
  })
  return { body: [...groups, ...tops, ...drawn].join(''), height: y + 2, description: describe(steps) }
}
