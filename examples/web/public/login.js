import { renew, returnTarget, withMessage } from '/session.js'

const form = document.querySelector('form')

/** Why there is a login page. The address has only the name of a text, because anyone may have written it. */
const reasons = new Map(Object.entries({
  logout: 'You are logged out.',
  cleared: 'You are logged out in this browser, but the server could not end the session. After the next login, end it on the page “Your devices”.',
  ended: 'Your session was ended from another device.',
  expired: 'Your session has expired, or it was ended from another device some time ago.',
  absent: 'You are no longer logged in.'
}))

async function logIn () {
  const response = await fetch('/auth', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(Object.fromEntries(new FormData(form)))
  })
  if (response.status === 401) throw new Error('Wrong name or password.')
  if (response.status === 429) throw new Error('Too many attempts. Please wait a minute.')
  if (!response.ok) throw new Error('The login failed. Please try again.')
  const { ok: isKept } = await fetch('/auth/verify')
  if (!isKept) throw new Error('Your browser rejected the cookies. Some browsers, such as Safari, accept Secure cookies over HTTPS only. Start the example with COOKIE_SECURE=false.')
  location.replace(returnTarget())
}

form.addEventListener('submit', (event) => {
  event.preventDefault()
  withMessage(async () => {
    await logIn().catch((error) => {
      form.password.select()
      throw error
    })
  })
})

// A page redirected here. If only the access token has expired, a renewal is enough and no login is necessary.
const { searchParams } = new URL(location.href)
let reason = searchParams.get('reason')
if (searchParams.has('next') && !searchParams.has('change')) {
  form.hidden = true
  await withMessage(async () => {
    const outcome = await renew()
    if (outcome === 'renewed') {
      location.replace(returnTarget())
      return new Promise(() => {})
    }
    // Visitors who were not logged in need no explanation.
    if (outcome !== 'absent') reason ??= outcome
  })
  form.hidden = false
}
document.getElementById('notice').textContent = reasons.get(reason) ?? ''
form.username.focus()
