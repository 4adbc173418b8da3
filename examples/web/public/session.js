/** What the pages of users have in common: the client of the package, and what it leaves to an application: messages, forms, and the login page. */
import { createClient } from '/client.js'

/** Renews the access token when it has expired, and leads to the login page when the session is over. */
export const client = createClient({
  onSignedOut (reason) {
    const next = reason === 'logout' ? {} : { next: location.pathname + location.search }
    location.replace(`/login.html?${new URLSearchParams({ reason, ...next })}`)
  }
})

const failures = {
  400: 'The service does not understand this. Please correct it.',
  403: 'You are not allowed to do this.',
  503: 'The server is not available at the moment. You are still logged in. Please try again later.'
}

/** Runs a function, and shows the message of its error on the page. */
export async function withMessage (run) {
  const message = document.getElementById('message')
  message.textContent = ''
  try {
    await run()
  } catch (error) {
    // `fetch` throws a TypeError if there is no response.
    message.textContent = error instanceof TypeError ? failures[503] : error.message
  }
}

/** Sends a request, and returns the response if it is a success. */
export async function send (path, options) {
  const response = await client.fetch(path, options)
  if (response.ok) return response
  // On the way to the login page.
  if (response.status === 401) return await new Promise(() => {})
  throw new Error(failures[response.status] ?? 'The request failed. Please try again.')
}

/** Forms are sent by the client, which renews the token if necessary, and then opens the page to which the response led. */
for (const form of document.querySelectorAll('form[data-enhanced]')) {
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const body = new URLSearchParams(new FormData(form, event.submitter))
    event.submitter.disabled = true
    withMessage(async () => location.assign((await send(form.action, { method: 'POST', body })).url))
      .finally(() => { event.submitter.disabled = false })
  })
}

/** The client tells the other tabs. */
document.getElementById('logout').addEventListener('submit', (event) => {
  event.preventDefault()
  withMessage(async () => {
    // The server clears the cookies also if it cannot end the session.
    if (!await client.logout()) location.replace('/login.html?reason=cleared')
  })
})
