/**
 * Option names of other packages, and the equivalent names of this package, the most likely first. `suggest` omits names that
 * the object with the unknown name cannot have.
 */
export const habits: ReadonlyMap<string, readonly string[]> = new Map(Object.entries({
  // Users and credentials.
  getUser: ['retrieveUser'],
  findUser: ['retrieveUser'],
  fetchUser: ['retrieveUser'],
  loadUser: ['retrieveUser'],
  formatUser: ['retrieveUser'],
  user: ['retrieveUser'],
  login: ['authenticate'],
  signIn: ['authenticate'],
  verifyUser: ['authenticate'],
  validateUser: ['authenticate'],
  checkCredentials: ['authenticate'],
  validate: ['authenticate', 'trusted'],
  authorize: ['authenticate', 'trusted'],
  isRevoked: ['trusted', 'sessions'],
  revoked: ['trusted', 'sessions'],
  // Keys.
  jwt: ['secret', 'algorithm', 'expirationDelta'],
  jwtSecret: ['secret'],
  secretKey: ['secret', 'key'],
  secretOrKey: ['secret', 'publicKey', 'key'],
  secretOrPrivateKey: ['secret', 'privateKey', 'key'],
  secretOrPublicKey: ['secret', 'publicKey', 'key'],
  signingKey: ['secret', 'privateKey', 'key'],
  key: ['secret', 'keys'],
  private: ['privateKey'],
  public: ['publicKey'],
  id: ['kid'],
  keyId: ['kid', 'keys'],
  algorithms: ['algorithm'],
  alg: ['algorithm', 'algorithms'],
  jwks: ['issuers', 'pathToJwks'],
  jwksUri: ['issuers'],
  jwksUrl: ['issuers', 'jwksUri'],
  url: ['jwksUri', 'urlPrefix'],
  // Claims and lifetimes.
  sign: ['expirationDelta', 'algorithm', 'claimIss', 'claimAud'],
  signOptions: ['expirationDelta', 'algorithm', 'claimIss', 'claimAud'],
  verify: ['algorithm', 'claimIss', 'claimAud', 'leeway'],
  verifyOptions: ['algorithm', 'claimIss', 'claimAud', 'leeway'],
  issuer: ['claimIss', 'issuers'],
  iss: ['claimIss', 'issuer'],
  allowedIss: ['claimIss', 'issuers', 'issuer'],
  audience: ['claimAud'],
  aud: ['claimAud', 'audience'],
  allowedAud: ['claimAud', 'audience'],
  subject: ['userId'],
  sub: ['userId'],
  allowedSub: ['trusted'],
  identity: ['userId'],
  expiresIn: ['expirationDelta', 'lifetime'],
  expiration: ['expirationDelta', 'lifetime'],
  expires: ['expirationDelta', 'lifetime'],
  exp: ['expirationDelta', 'lifetime'],
  ttl: ['expirationDelta', 'lifetime'],
  lifetime: ['expirationDelta', 'sessions'],
  maxAge: ['expirationDelta', 'lifetime'],
  accessTokenExpiresIn: ['expirationDelta'],
  accessTokenTtl: ['expirationDelta'],
  refreshTokenExpiresIn: ['sessions'],
  refreshTokenTtl: ['sessions'],
  refreshExpiresIn: ['sessions'],
  idleTimeout: ['idle'],
  notBefore: ['claimNbf', 'claimNbfDelta', 'signFrom'],
  ignoreExpiration: ['verifyExp'],
  clockTolerance: ['leeway'],
  clockSkew: ['leeway'],
  payload: ['extendPayload', 'customClaims'],
  claims: ['extendPayload', 'customClaims'],
  // Scopes.
  scope: ['addScopesToPayload', 'scopesEnabled'],
  scopes: ['addScopesToPayload', 'scopesEnabled'],
  role: ['addScopesToPayload', 'scopesEnabled'],
  roles: ['addScopesToPayload', 'scopesEnabled'],
  permissions: ['addScopesToPayload', 'scopesEnabled'],
  // Where tokens are.
  cookie: ['cookieSet', 'cookieAccessTokenName'],
  cookies: ['cookieSet', 'cookieAccessTokenName'],
  cookieName: ['cookieAccessTokenName'],
  cookieOptions: ['cookieSet', 'cookieSamesite', 'cookieSecure', 'cookiePath', 'cookieDomain'],
  domain: ['cookieDomain'],
  httpOnly: ['cookieHttponly'],
  sameSite: ['cookieSamesite'],
  secure: ['cookieSecure'],
  getToken: ['cookieSet', 'queryStringSet'],
  extractToken: ['cookieSet', 'queryStringSet'],
  jwtFromRequest: ['cookieSet', 'queryStringSet'],
  origin: ['trustedOrigins'],
  origins: ['trustedOrigins'],
  allowedOrigins: ['trustedOrigins'],
  cors: ['trustedOrigins'],
  csrf: ['trustedOrigins'],
  // Sessions.
  refresh: ['sessions', 'refreshTokenEnabled'],
  refreshToken: ['sessions', 'refreshTokenEnabled'],
  store: ['sessions'],
  redis: ['sessions', 'store'],
  client: ['store'],
  max: ['maxPerUser'],
  limit: ['maxPerUser'],
  // The rest.
  namespace: ['instanceName'],
  decoratorName: ['instanceName'],
  requestProperty: ['instanceName'],
  path: ['urlPrefix'],
  basePath: ['urlPrefix'],
  routePrefix: ['urlPrefix'],
  loginUrl: ['loginRedirectUrl', 'redirectUrl'],
  loginPage: ['loginRedirectUrl', 'redirectUrl'],
  redirect: ['redirectOnFail', 'loginRedirectUrl'],
  credentialsRequired: ['optional'],
  required: ['optional'],
  messages: ['responsesClass'],
  errorHandler: ['onRefusal', 'responsesClass']
}).map(([habit, meant]) => [bare(habit), meant]))

/** Removes the style of a name: `SERVICE_JWT_EXPIRES_IN`, `expires_in` and `expiresIn` become `expiresin`. */
function bare (name: string): string {
  return name.slice(0, 80).replace(/^SERVICE_JWT_/, '').replace(/[_-]/g, '').toLowerCase()
}

/** Returns the Levenshtein distance of two names: the number of characters to insert, remove or replace. */
function distance (a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const substitution = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1)
      current.push(Math.min(substitution, previous[column]! + 1, current[column - 1]! + 1))
    }
    previous = current
  }
  return previous[b.length]!
}

/** Returns a list with the most similar valid name; an empty list if no name is similar. */
function mostSimilar (wanted: string, valid: readonly string[]): readonly string[] {
  let best: readonly string[] = []
  let least = Math.max(3, Math.ceil(wanted.length / 3))
  for (const candidate of valid) {
    const edits = distance(wanted, bare(candidate))
    if (edits < least) [least, best] = [edits, [candidate]]
  }
  return best
}

/**
 * Returns ` Did you mean "..."?` with the equivalents of an unknown name, or with the most similar valid name; an empty
 * string if there is none. It is slow: use it only for errors in the code of the application, never for input of clients.
 */
export function suggest (name: string, valid: Iterable<string>): string {
  const names = [...valid]
  const wanted = bare(name)
  // A valid name in another style needs no equivalent.
  const targets = names.some((one) => bare(one) === wanted) ? [] : habits.get(wanted) ?? []
  const meant = targets.flatMap((target) => names.find((one) => bare(one) === bare(target)) ?? [])
  const found = (meant.length > 0 ? meant : mostSimilar(wanted, names)).map((one) => `"${one}"`)
  if (found.length === 0) return ''
  return ` Did you mean ${found.length === 1 ? found[0] : `${found.slice(0, -1).join(', ')} or ${found.at(-1)}`}?`
}
