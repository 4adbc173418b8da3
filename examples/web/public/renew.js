/** Renews an access token that has expired, and opens the page that was asked for. */
import { createClient } from '/client.js'

const { next, login } = document.getElementById('renew').dataset
let reason

const client = createClient({ onSignedOut (given) { reason = given } })
const { ok } = await client.fetch('/token').catch(() => ({ ok: false }))
if (ok) location.replace(next)
else if (login !== undefined) {
  if (reason !== undefined) location.replace(`${login}?${new URLSearchParams({ reason, next })}`)
  else document.getElementById('message').textContent = 'The server is not available at the moment. You are still logged in. Please reload this page later.'
}
