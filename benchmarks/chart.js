/** Draws the comparisons as an SVG chart. Bars show medians, lines show the range from min to max. */
const width = 960
const height = 360
const left = 44
const top = 44
const bottom = 300
const highest = 1.2
const colours = ['#1f5fbf', '#d1662b', '#7a9a3a', '#8a8f98']

const y = (ratio) => bottom - (bottom - top) * Math.min(ratio, highest) / highest
const number = (value) => value.toFixed(1)
const text = (x, at, content, attributes = '') => `<text x="${number(x)}" y="${number(at)}" ${attributes}>${content}</text>`

function bar (x, barWidth, { median, min, max }, colour) {
  const middle = number(x + barWidth / 2)
  return [
    `<rect x="${number(x)}" y="${number(y(median))}" width="${number(barWidth - 2)}" height="${number(bottom - y(median))}" fill="${colour}"/>`,
    `<path d="M${middle} ${number(y(min))}V${number(y(max))}" stroke="#222"/>`,
    text(x + barWidth / 2 - 1, bottom - 5, median.toFixed(2), 'text-anchor="middle" fill="#fff" font-size="10"')
  ]
}

/** @param names the servers to show in each comparison */
export function drawChart (comparisons, names) {
  const groupWidth = (width - left - 8) / comparisons.length
  const barWidth = (groupWidth - 20) / names.length
  const lines = [0, 0.25, 0.5, 0.75, 1].flatMap((ratio) => [
    `<path d="M${left} ${number(y(ratio))}H${width - 8}" stroke="${ratio === 1 ? '#222' : '#ccc'}"/>`,
    text(left - 6, y(ratio) + 4, ratio.toFixed(2), 'text-anchor="end"')
  ])
  const groups = comparisons.flatMap(({ title, rows }, index) => {
    const x = left + groupWidth * index + 10
    const bars = names.flatMap((name, position) => {
      const row = rows.find((found) => found.name === name)
      return row === undefined ? [] : bar(x + barWidth * position, barWidth, row.ratio, colours[position])
    })
    return [...bars, text(x + (groupWidth - 20) / 2, bottom + 18, title, 'text-anchor="middle"')]
  })
  const legend = names.flatMap((name, index) => [
    `<rect x="${left + index * 220}" y="${height - 22}" width="12" height="12" fill="${colours[index]}"/>`,
    text(left + index * 220 + 18, height - 12, name)
  ])
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img">`,
    '<title>CPU time of a bare route, relative to the same route with a guard</title>',
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    text(left, 20, 'CPU time of a bare Fastify route, relative to the same route with a guard (1.00: the guard costs nothing)', 'font-size="14"'),
    ...lines, ...groups, ...legend,
    '</svg>', ''
  ].join('\n')
}
