/** The panel of the access token: how long it is valid, a button that makes it expire, and one that sends a request. */
import { send, withMessage } from '/session.js'

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
  else if (left + leeway > 0) life.replaceChildren('The access token has expired, and is accepted for ', number, ' more.')
  else life.replaceChildren('The access token has expired. The next request renews it.')
}

function start (left, accepted) {
  end = Date.now() + left * 1000
  leeway = accepted
  show()
}

/** Lists the requests of the page, with the statuses of the responses. */
new PerformanceObserver((list) => {
  const requests = list.getEntriesByType('resource').filter(({ initiatorType }) => initiatorType === 'fetch')
  const texts = requests.map(({ name, responseStatus = '' }) => `${new URL(name).pathname} ${responseStatus}`)
  trace.textContent = [trace.textContent, ...texts].filter(Boolean).join(' → ')
}).observe({ type: 'resource' })

document.getElementById('call').addEventListener('submit', (event) => {
  event.preventDefault()
  trace.textContent = ''
  withMessage(async () => {
    const { expires_in: left, leeway } = await (await send('/token')).json()
    start(left, leeway)
  })
})

document.getElementById('expire').addEventListener('submit', (event) => {
  event.preventDefault()
  trace.textContent = ''
  withMessage(async () => {
    await send('/token/expire', { method: 'POST' })
    start(-Infinity, 0)
  })
})

start(Number(panel.dataset.left), Number(panel.dataset.leeway))
setInterval(show, 1000)
