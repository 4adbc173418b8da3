/**
 * Protection against cross-site request forgery (CSRF): requests that a page of another site makes the visitor's browser
 * send. Browsers add cookies to these requests, so in cookie mode a valid token does not prove that a page of this service
 * sent the request.
 *
 * `SameSite=Lax`, the default of the plugin, prevents most of these requests from carrying the cookies. Two cases remain:
 * all subdomains of a domain are the same site, and a login needs no cookie, so that another site could log the visitor in
 * as a different user. The hook below therefore checks headers that scripts cannot set:
 *
 * - `Sec-Fetch-Site`, which every current browser sends over HTTPS and to localhost: `same-origin` is a page of this
 *   service, and `none` is an action of the user, such as opening a bookmark.
 * - `Origin`, if `Sec-Fetch-Site` is missing. Browsers send it with every POST request. Its host must be the host of the
 *   request.
 * - If both are missing, the client is not a browser (curl, another service) or is an old one. The request must then carry
 *   no cookies.
 *
 * GET and HEAD requests pass, because they must not change anything. CORS does not prevent CSRF: it controls which origins
 * may read a response.
 */
const harmless = ['GET', 'HEAD', 'OPTIONS']

function isOwn ({ headers, host }) {
  const { 'sec-fetch-site': site, origin, cookie } = headers
  if (site !== undefined) return site === 'same-origin' || site === 'none'
  if (origin === undefined) return cookie === undefined
  // Browsers send the string "null" for an opaque origin.
  return URL.canParse(origin) && new URL(origin).host === host
}

/** An onRequest hook. */
export async function refuseForeignRequests (request, reply) {
  if (harmless.includes(request.method) || isOwn(request)) return
  return reply.code(403).send({ reasons: 'The request comes from another site.', exception: 'CrossSiteRequest' })
}
