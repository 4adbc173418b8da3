/**
 * Protection against requests that another site makes a visitor's browser send (CSRF). Browsers add cookies to those by
 * themselves, so in cookie mode a valid token does not show that our own page asked.
 *
 * `SameSite=Lax`, the plugin's default, keeps the cookies off most of them. Two holes remain: all subdomains of a domain
 * are one "site", and a login needs no cookie, so another site could log a visitor in as somebody else. Hence every
 * request that may change something says where it comes from, in a header that scripts cannot write:
 *
 * - `Sec-Fetch-Site`, sent by every current browser to https and to localhost: `same-origin` is our own page, `none` the
 *   visitor's own doing (a bookmark);
 * - else `Origin`, which browsers send with every POST: it must be the origin that the request went to;
 * - neither is no browser (curl, another service), or an old one: then no cookies may come along.
 *
 * GET and HEAD pass: they must never change anything. CORS is no protection here: it decides who may read an answer.
 */
const harmless = ['GET', 'HEAD', 'OPTIONS']

function isOwn ({ headers, host }) {
  const { 'sec-fetch-site': site, origin, cookie } = headers
  if (site !== undefined) return site === 'same-origin' || site === 'none'
  if (origin === undefined) return cookie === undefined
  // An opaque origin is the text "null".
  return URL.canParse(origin) && new URL(origin).host === host
}

/** A hook for onRequest. */
export async function refuseForeignRequests (request, reply) {
  if (harmless.includes(request.method) || isOwn(request)) return
  return reply.code(403).send({ reasons: 'The request comes from another site.', exception: 'CrossSiteRequest' })
}
