/** What the pages of users have in common: the client of the package, and what it leaves to an application: messages, forms, drafts, and the login page. */
import { createClient } from '/client.js'
import { keepDrafts } from '/drafts.js'
import { onSubmit, showErrors } from '/forms.js'

let isLeaving = false
/** Whether the user logs out in this tab. The other tabs keep their pages, so that the next login leads back to them. */
let isLoggingOut = false

/** Renews the access token when it has expired, and leads to the login page when the session is over. */
export const client = createClient({
  onSignedOut (reason) {
    // The listener below shows it.
    if (reason === 'switched') return
    isLeaving = true
    const next = isLoggingOut ? {} : { next: location.pathname + location.search }
    location.replace(`/login.html?${new URLSearchParams({ reason, ...next })}`)
  }
})

const { user: shownId, name: shownName } = document.body.dataset
const switched = document.getElementById('switched')
const isSwitched = () => Boolean(client.user) && String(client.user.user_id) !== shownId

/** Another user has logged in, in another tab. The page may have something that is not saved, so it is not left without being asked. */
client.subscribe(() => {
  if (!isSwitched()) return switched.replaceChildren()
  const text = document.createElement('p')
  const button = document.createElement('button')
  text.textContent = `You are now logged in as ${client.user.name}. This page still shows what ${shownName} sees.`
  button.textContent = 'Reload this page'
  button.addEventListener('click', () => location.replace(location.href))
  switched.replaceChildren(text, button)
})

const forgetDrafts = keepDrafts(client)

const failures = {
  400: 'The service does not understand this. Please correct it.',
  401: 'Please log in again, and then try again.',
  403: 'You are not allowed to do this.',
  503: 'The service is not available at the moment. You are still logged in. Please try again later.'
}

/** What went wrong with a request. @property errors messages by the names of fields */
class Failure extends Error {
  constructor (message, errors = {}) {
    super(message)
    this.errors = errors
  }
}

/** Sends a request, and returns the response if it is a success. @throws Failure */
export async function send (path, options) {
  const response = await client.fetch(path, options).catch(() => { throw new Failure(failures[503]) })
  if (response.ok) return response
  // On the way to the login page.
  if (response.status === 401 && isLeaving) return await new Promise(() => {})
  const { errors } = await response.json().catch(() => ({}))
  throw new Failure(errors ? 'This was not saved. Please correct what is marked.' : failures[response.status] ?? 'The request failed. Please try again.', errors)
}

/** Forms are sent by the client, and then the page opens to which the response led. */
for (const form of document.querySelectorAll('form[data-enhanced]')) {
  onSubmit(form, async (button) => {
    // It would be sent as the other user.
    if (isSwitched()) throw new Failure(switched.firstChild.textContent)
    const body = new URLSearchParams(new FormData(form, button))
    showErrors(form, {})
    try {
      const { url } = await send(form.getAttribute('action') ?? location.href, { method: 'POST', body })
      // Its draft is not needed any more.
      form.reset()
      location.assign(url)
    } catch (error) {
      showErrors(form, error.errors ?? {})
      throw error
    }
  })
}

/** The client tells the other tabs. */
onSubmit(document.getElementById('logout'), async () => {
  isLoggingOut = true
  const hasEnded = await client.logout().catch(() => {
    isLoggingOut = false
    throw new Failure(failures[503])
  })
  forgetDrafts()
  // The server clears the cookies also if it cannot end the session.
  if (!hasEnded) location.replace('/login.html?reason=cleared')
})
