/** Logs in without leaving the page, so that it can say what is wrong. */
import { createClient } from '/client.js'
import { onSubmit, showErrors } from '/forms.js'

const client = createClient()
const form = document.getElementById('login')
const unavailable = 'The service is not available at the moment. Please try again later.'
const failures = { 429: 'Too many attempts. Please wait a minute.', 502: unavailable, 503: unavailable, 504: unavailable }

onSubmit(form, async () => {
  showErrors(form, {})
  const { username, password, next } = Object.fromEntries(new FormData(form))
  const { ok, status } = await client.login({ username, password }).catch(() => ({ ok: false, status: 503 }))
  if (ok) {
    // If the browser has rejected the cookies, this page says so. Otherwise, it leads on.
    location.replace(`/login.html?${new URLSearchParams({ reason: 'cookies', next })}`)
    return
  }
  if (status === 401) {
    showErrors(form, { password: 'Wrong name or password.' })
    form.password.select()
    // The field says it.
    throw new Error('')
  }
  throw new Error(failures[status] ?? 'The login failed. Please try again.')
})
