/** The panel of the access token: how long it is valid, a button that makes it expire, and one that sends a request. */
import { withMessage } from '/forms.js'
import { send } from '/session.js'

const panel = document.getElementById('token')
const life = document.getElementById('life')
const trace = document.getElementById('trace')

/** In milliseconds, by the clock of the browser. The server has said how many seconds are left, because the clocks may differ. */
let end
let leeway

const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`

function show () {
  const left = Math.ceil((end - Date.now()) / 1000)
  const number = document.createElement('b')
  number.textContent = clock(left > 0 ? left : Math.max(left + leeway, 0))
  if (left > 0) life.replaceChildren('The access token expires in ', number, '.')
  // Servers accept a token for some time longer, because their clocks may differ.
  else if (left + leeway > 0) life.replaceChildren('Expired. The leeway ends in ', number, '.')
  else life.replaceChildren('Expired. The next request renews it.')
}

function start (left, accepted) {
  end = Date.now() + left * 1000
  leeway = accepted
  show()
}

/** The requests since a button was pressed, as the browser has recorded them. */
let requests = []

new PerformanceObserver((list) => {
  // A response is recorded at its end. What counts here is when requests were sent.
  requests = [...requests, ...list.getEntries().filter(({ initiatorType }) => initiatorType === 'fetch')].sort((a, b) => a.startTime - b.startTime)
  const all = requests.map(({ name, responseStatus = '' }) => `${new URL(name).pathname} ${responseStatus}`)
  // The client also asks who is logged in when the page opens.
  const first = all.findIndex((text) => text.startsWith('/token'))
  if (first === -1) return
  const texts = all.slice(first)
  // A request was refused, and repeated after a renewal.
  const isRenewed = texts.some((text, index) => text.endsWith(' 401') && texts.includes(text.replace(/401$/, '200'), index))
  trace.textContent = `${isRenewed ? 'Renewed: ' : ''}${texts.join(' → ')}`
}).observe({ type: 'resource' })

/** Makes a button of the panel call a function instead of sending its form. */
function onSubmit (id, run) {
  document.getElementById(id).addEventListener('submit', (event) => {
    event.preventDefault()
    requests = []
    withMessage(run)
  })
}

onSubmit('call', async () => {
  const { expires_in: left, leeway } = await (await send('/token')).json()
  start(left, leeway)
})

onSubmit('expire', async () => {
  await send('/token/expire', { method: 'POST' })
  start(-Infinity, 0)
})

start(Number(panel.dataset.left), Number(panel.dataset.leeway))
setInterval(show, 1000)
