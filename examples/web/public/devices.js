import { call, element, failureOf, load, withMessage } from '/session.js'

const list = document.getElementById('devices')
const endOthers = document.getElementById('end-others')
const status = document.getElementById('status')

const { format } = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
const time = (dateTime) => element('time', { dateTime }, format(new Date(dateTime)))

async function show () {
  const { sessions } = await load('/auth/sessions')
  list.replaceChildren(...sessions.map(item))
  endOthers.hidden = sessions.length < 2
}

/** Ends sessions and says so. The button that had the focus may be gone afterwards, so the list gets it. */
const end = (path, done) => withMessage(async () => {
  status.textContent = ''
  const response = await call(path, { method: 'DELETE' })
  // 404: the session has ended in the meantime.
  if (!response.ok && response.status !== 404) throw failureOf(response)
  await show()
  status.textContent = done
  list.focus()
})

function item ({ id, current, created_at: createdAt, used_at: usedAt, data: { device } }) {
  const times = element('p', { id: `times-${id}` },
    element('span', {}, 'Logged in: ', time(createdAt)), element('span', {}, 'Last used: ', current ? 'now' : time(usedAt)))
  const mark = current
    ? element('span', { className: 'mark' }, 'This device')
    : element('button', { type: 'button', ariaLabel: `End ${device}`, onclick: () => end(`/auth/sessions/${id}`, `Ended: ${device}.`) }, 'End')
  if (!current) mark.setAttribute('aria-describedby', times.id)
  return element('li', {}, element('strong', {}, device), mark, times)
}

endOthers.addEventListener('click', () => end('/auth/sessions?except=current', 'All other devices are logged out.'))
withMessage(show)
