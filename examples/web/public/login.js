import { renew, returnTarget, withMessage } from '/session.js'

const form = document.querySelector('form')

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
if (searchParams.has('next') && !searchParams.has('change')) {
  form.hidden = true
  if (await renew()) location.replace(returnTarget())
  else form.hidden = false
}
form.username.focus()
