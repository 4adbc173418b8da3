import { element, load, withMessage } from '/session.js'

const show = () => withMessage(async () => {
  const { reports } = await load('/reports')
  document.getElementById('reports').replaceChildren(...reports.map((title) => element('li', {}, title)))
})

document.getElementById('load').addEventListener('click', show)
show()
