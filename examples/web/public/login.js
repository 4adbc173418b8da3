/** Logs in without leaving the page, so that it can say what is wrong. */
import { createClient } from '/client.js'

const client = createClient()
const form = document.getElementById('login')
const message = document.getElementById('message')
const failures = { 401: 'Wrong name or password.', 429: 'Too many attempts. Please wait a minute.' }

form.addEventListener('submit', async (event) => {
  event.preventDefault()
  message.textContent = ''
  const { username, password, next } = Object.fromEntries(new FormData(form))
  const { ok, status } = await client.login({ username, password }).catch(() => ({ ok: false }))
  if (ok) {
    // If the browser has rejected the cookies, this page says so. Otherwise, it leads on.
    location.replace(`/login.html?${new URLSearchParams({ reason: 'cookies', next })}`)
    return
  }
  message.textContent = failures[status] ?? 'The login failed. Please try again.'
  form.password.select()
})
