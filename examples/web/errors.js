/** Error responses: a page for browsers, JSON for other clients. The pages, the refusals of the plugin and the 404 also say what to do. */
import { Responses } from 'fastify-token-auth'
import { html } from './html.js'
import { pathOf, sendPage, titles, wantsPage } from './layout.js'

/** Where to go after a login: forms and other requests that may change something have no page of their own. */
const nextOf = ({ method, url }) => encodeURIComponent(method === 'GET' || titles.has(pathOf(url)) ? url : '/')

const reload = ({ method, url }) => method === 'GET' ? html`<a href="${url}">try again</a>` : 'reload this page, which sends your request again'

/** By the name of an exception, or else by the status: the title and the text of the page, and the advice for other clients. */
const explanations = {
  400: {
    title: 'Not understood',
    page: (request, { message }) => html`<p>The service does not understand the request: ${message}.</p><p>Go back, correct it, and send it again.</p>`,
    advice: 'Correct the request. The API is documented at /docs.'
  },
  401: {
    title: 'Not logged in',
    page: (request) => html`<p>Only users who are logged in can see this, and your browser sent no valid access token. Perhaps it has expired.</p>
      <p>${request.method === 'GET'
        ? html`<a href="/login.html?next=${nextOf(request)}">Log in</a>.`
        : html`Nothing was lost: <a href="/login.html?next=${nextOf(request)}" target="_blank" rel="noopener">log in in another tab</a>, and then ${reload(request)}.`}</p>`,
    advice: 'Exchange the refresh token at POST /auth/refresh, or log in at POST /auth.'
  },
  // A refresh would be refused, too.
  SessionEnded: { advice: 'The session has ended. Log in at POST /auth.' },
  AuthenticationFailed: { advice: 'Check the name and the password.' },
  CrossOriginRequest: {
    title: 'From another site',
    page: () => html`<p>A page of another site made your browser send this request, so nothing was done.</p><p>If you want to do it, go to <a href="/">the pages of this site</a>.</p>`,
    advice: 'Send the request from a page of this origin.'
  },
  InsufficientScope: {
    title: 'Not allowed',
    page: (request, { headers }) => html`<p>You are logged in, but this requires the scope <code>${/ scope="([^"]*)"/.exec(headers['www-authenticate'])?.[1]}</code>, which you do not have.</p>
      <p>You can <a href="/reports.html">read reports</a> or <a href="/login.html?change&amp;next=${nextOf(request)}">log in as another user</a>.</p>`,
    advice: 'Log in as a user who has the scope that the header WWW-Authenticate names.'
  },
  404: {
    title: 'Not found',
    page: (request) => html`<p>There is nothing at <code>${pathOf(request.url)}</code>. The address may be misspelt.</p><p>Go to <a href="/">the first page</a>.</p>`,
    advice: 'Look up the address at /docs.'
  },
  429: {
    title: 'Too many attempts',
    page: () => html`<p>There were too many attempts to log in from your address. The limit keeps others from guessing passwords.</p><p>Please wait a minute, and then reload this page.</p>`
  },
  503: {
    title: 'Not available',
    page: (request) => html`<p>The store of sessions does not answer at the moment. You are still logged in.</p><p>Please wait a few seconds, and then ${reload(request)}.</p>`,
    advice: 'Keep the tokens, and send the request again after as many seconds as the header Retry-After says.'
  },
  500: {
    title: 'Failed',
    // The message of an unexpected error can contain anything, so it goes to the log only.
    page: () => html`<p>The service has failed. That is not your fault.</p><p>Please try again later.</p>`
  }
}

const explain = ({ name, statusCode = 500 }) => explanations[name] ?? explanations[statusCode] ?? explanations[statusCode < 500 ? 400 : 500]

const sendErrorPage = (request, reply, error) => {
  const { title, page } = { ...explanations[error.statusCode], ...explain(error) }
  return sendPage(request, reply, title, page(request, error))
}

/** For the option `responsesClass`: how the plugin renders a refusal. The reply has its status and headers already. */
export class PageResponses extends Responses {
  exceptionResponse (request, exception, reply) {
    reply.header('vary', 'accept')
    if (wantsPage(request)) return sendErrorPage(request, reply, exception)
    return { ...super.exceptionResponse(request, exception, reply), advice: explain(exception).advice }
  }
}

/** All other errors: unknown addresses, invalid requests, and what routes throw. */
export function addErrorHandlers (app) {
  app.setErrorHandler((error, request, reply) => {
    // Fastify's own handler logs the error, and answers with JSON.
    if (!wantsPage(request)) return reply.header('vary', 'accept').send(error)
    const { statusCode = 500, headers = {} } = error
    if (statusCode >= 500) request.log.error({ err: error }, error.message)
    return sendErrorPage(request, reply.code(statusCode).headers({ ...headers, vary: 'accept' }), error)
  })
  app.setNotFoundHandler((request, reply) => {
    reply.code(404).header('vary', 'accept')
    if (wantsPage(request)) return sendErrorPage(request, reply, { statusCode: 404 })
    return { statusCode: 404, error: 'Not Found', message: `${request.method} ${pathOf(request.url)} was not found.`, advice: explanations[404].advice }
  })
}
