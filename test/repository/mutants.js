/**
 * Mistakes that somebody could make in lib/: each a text of a file, the text in its place, and the test files that fail with
 * it. `npm run test:mutants` runs these. `npm test` checks that each text is in its file exactly once: who moves or changes
 * the code carries its mutants along, and a mutant whose code is gone is replaced by another one of the same room.
 */
export const mutants = [
  // request
  { file: 'lib/request/extract.ts', from: "if (typeof value !== 'string' || isRepeated) return invalidHeader", to: "if (typeof value !== 'string') return invalidHeader", tests: ['test/request/extract.test.ts'] },
  { file: 'lib/request/extract.ts', from: 'if (settings.cookieStrict) return missingCookie', to: 'if (!settings.cookieStrict) return missingCookie', tests: ['test/request/extract.test.ts'] },
  { file: 'lib/request/origin.ts', from: 'return !trustedOrigins.includes(origin)', to: 'return trustedOrigins.length > 0 && !trustedOrigins.includes(origin)', tests: ['test/request/origin.test.ts'] },
  { file: 'lib/request/origin.ts', from: "if (site === 'same-origin' || site === 'none') return false", to: "if (site !== 'cross-site') return false", tests: ['test/request/origin.test.ts'] },
  { file: 'lib/request/state.ts', from: "const crossOrigin = found.source === 'cookie' ? checkOrigin(this.request, this.settings) : null", to: "const crossOrigin = found.source === 'query' ? checkOrigin(this.request, this.settings) : null", tests: ['test/promises/cross-origin.test.ts'] },
  { file: 'lib/request/checks.ts', from: 'if (answer !== true) return chosen(answer, refusal)', to: 'if (!answer) return chosen(answer, refusal)', tests: ['test/promises/trusted.test.ts'] },
  { file: 'lib/request/slot.ts', from: 'if (state !== null && state.rules === rules) return state', to: 'if (state !== null) return state', tests: ['test/promises/instances.test.ts'] },
  { file: 'lib/request/signal.ts', from: 'if (controller.signal.aborted) return abortSoon(controller.signal.reason)', to: 'if (controller.signal.aborted) return controller.signal', tests: ['test/request/signal.test.ts'] },

  // token
  { file: 'lib/token/claims.ts', from: 'if (checkExpiry && !(now < exp + settings.leeway)) return expired', to: 'if (checkExpiry && now > exp + settings.leeway) return expired', tests: ['test/token/claims.test.ts'] },
  { file: 'lib/token/claims.ts', from: 'if (claimAud !== null && aud?.includes(claimAud) !== true) return wrongAudience', to: 'if (claimAud !== null && aud?.includes(claimAud) === false) return wrongAudience', tests: ['test/token/claims.test.ts'] },
  { file: 'lib/token/scopes.ts', from: 'return requireAllActions ? required.actions.every(has) : required.actions.some(has)', to: 'return requireAllActions ? required.actions.some(has) : required.actions.every(has)', tests: ['test/token/scopes.test.ts'] },
  { file: 'lib/token/form.ts', from: '|| !isCanonical(token, second + 1, token.length)', to: '', tests: ['test/token/codec.test.ts'] },
  { file: 'lib/authorities/memory.ts', from: 'return entry !== undefined && entry.token === token ? entry : undefined', to: 'return entry', tests: ['test/authorities/memory.test.ts'] },
  { file: 'lib/authorities/verifier.ts', from: "if (known !== undefined && (purpose === 'access' ? isAlive(known.life) : isConfigured(known.life))) {", to: 'if (known !== undefined) {', tests: ['test/authorities/own.test.ts'] },
  { file: 'lib/token/login-age.ts', from: 'return now - authTime <= maxAge ? null : old', to: 'return now - authTime <= maxAge + leeway ? null : old', tests: ['test/token/login-age.test.ts'] },
  { file: 'lib/token/codec.ts', from: 'if (token.length - second - 1 !== length) return badSignature', to: 'if (token.length - second - 1 > length) return badSignature', tests: ['test/hostile/tokens.test.ts'] },

  // keys
  { file: 'lib/keys/calendar.ts', from: 'if (key.canSign && key.signFrom <= at && (signing', to: 'if (key.signFrom <= at && (signing', tests: ['test/keys/calendar.test.ts'] },
  { file: 'lib/keys/life.ts', from: 'until === Infinity || Date.now() < until', to: 'until === Infinity || Date.now() <= until', tests: ['test/keys/live-keys.test.ts'] },
  { file: 'lib/keys/key-ring.ts', from: 'const undated = keys.filter(({ signFrom }) => signFrom === -Infinity)', to: 'const undated = keys', tests: ['test/authorities/own.test.ts'] },
  { file: 'lib/keys/key-checks.ts', from: 'if (publicExponent < 3n) {', to: 'if (publicExponent < 1n) {', tests: ['test/keys/material.test.ts'] },
  { file: 'lib/keys/live-keys.ts', from: 'for (const { life } of this.#ring.keys) if (!isAlive(life)) abortTokens(life)', to: '', tests: ['test/keys/live-keys.test.ts'] },

  { file: 'lib/keys/key-forms.ts', from: 'if (jwk !== undefined) return { jwk }', to: '', tests: ['test/keys/material.test.ts'] },
  { file: 'lib/keys/key-forms.ts', from: 'return isText && isPlain ?', to: 'return isText ?', tests: ['test/keys/material.test.ts'] },
  { file: 'lib/keys/key-forms.ts', from: 'return fstatSync(descriptor).isFile() ? readFileSync(descriptor) : undefined', to: 'return readFileSync(descriptor)', tests: ['test/keys/material.test.ts'] },

  // authorities
  { file: 'lib/authorities/issuer-keys.ts', from: 'named?.filter(({ life }) => isAlive(life)) ?? []', to: 'named ?? []', tests: ['test/authorities/key-source.test.ts'] },
  { file: 'lib/authorities/issuer-keys.ts', from: '.slice(0, maximumTries)', to: '', tests: ['test/authorities/issuer-keys.test.ts'] },
  { file: 'lib/authorities/issuer-keys.ts', from: ' || spoiled.has(numbersOf(jwk))', to: '', tests: ['test/authorities/issuer-keys.test.ts'] },
  { file: 'lib/authorities/trusted.ts', from: 'if (!source.takeEarly()) return', to: 'if (!source.takeEarly() && wasLookedFor) return', tests: ['test/authorities/key-source.test.ts'] },
  { file: 'lib/authorities/trusted.ts', from: '!Array.isArray(result) || !result.every(isText)', to: '!Array.isArray(result)', tests: ['test/authorities/providers.test.ts'] },
  { file: 'lib/authorities/verifier.ts', from: 'if (token.length > finder.longestToken) return tooLong(finder.longestToken)', to: '', tests: ['test/authorities/providers.test.ts'] },
  { file: 'lib/guards/free.ts', from: 'known?.hasExactScopes === true', to: 'true', tests: ['test/authorities/providers.test.ts'] },
  { file: 'lib/authorities/issuer-options.ts', from: "const isProtected = url?.protocol === 'https:' ||", to: "const isProtected = url?.protocol === 'https:' || url?.protocol === 'http:' ||", tests: ['test/hostile/startup.test.ts'] },
  { file: 'lib/authorities/own.ts', from: "const isUsable = purpose === 'refresh' ? isConfigured : isAlive", to: 'const isUsable = isConfigured', tests: ['test/authorities/own.test.ts'] },

  // host
  { file: 'lib/values.ts', from: "claim === 'sub' ? String(userId) : userId", to: 'userId', tests: ['test/host/user-ids.test.ts'] },
  { file: 'lib/promises.ts', from: 'isPromise(value) ? Promise.resolve(value) : value', to: 'value', tests: ['test/host/realms.test.ts'] },
  { file: 'lib/copies.ts', from: 'maker !== own && ', to: '', tests: ['test/copies.test.ts'] },
  { file: 'lib/host/users.ts', from: 'String(found) !== String(id)', to: 'found !== id', tests: ['test/host/user-ids.test.ts'] },
  { file: 'lib/host/users.ts', from: 'if (id === userId) return undefined', to: 'if (String(id) === String(userId)) return undefined', tests: ['test/host/user-ids.test.ts'] },
  { file: 'lib/http/old-cookies.ts', from: ' || Number(known?.get(keyOf(name, settings))?.size) > 1', to: '', tests: ['test/http/old-cookies.test.ts'] },
  { file: 'lib/http/old-cookies.ts', from: 'sent.some((cookie) => cookie', to: "sent.some((cookie) => cookie !== '' || cookie", tests: ['test/http/old-cookies.test.ts'] },
  { file: 'lib/guards/renew.ts', from: ' && !(found instanceof Refusal)\n', to: '\n', tests: ['test/guards/renew.test.ts'] },
  { file: 'lib/keys/residue.ts', from: 'printable.test(text) ?', to: 'printable !== undefined ?', tests: ['test/keys/residue.test.ts'] },
  { file: 'lib/request/signal.ts', from: 'if (now >= expiry.end) expiry.abort()', to: '{}', tests: ['test/request/signal.test.ts'] },
  { file: 'lib/routes/document.ts', from: 'operation.security = inVersion(requirements, document)', to: 'operation.security = requirements', tests: ['test/routes/openapi.test.ts'] },
  { file: 'lib/routes/document.ts', from: '!annotated.has(document) && annotateAll(document, additions)', to: 'false', tests: ['test/routes/openapi.test.ts'] },
  { file: 'lib/sessions/stop.ts', from: ' && isWithoutToken(source)\n', to: '\n', tests: ['test/client-company.test.ts', 'test/sessions/endpoints.test.ts'] },

  // issuing
  { file: 'lib/issuing/access-token.ts', from: 'if (recipe.longestLifetime !== undefined) checkSessionClaims(payload, recipe.session, Math.floor(now) + recipe.longestLifetime)', to: '', tests: ['test/sessions/settings.test.ts'] },
  { file: 'lib/issuing/refresh-token.ts', from: 'return timingSafeEqual(digest(stored), digest(purported))', to: 'return stored === purported', tests: ['test/hostile/timing.test.ts'] },
  { file: 'lib/issuing/issuing.ts', from: 'addScopesToPayload: scopes === undefined ? addScopesToPayload : scopes === null ? undefined : () => scopes', to: 'addScopesToPayload: scopes === undefined || scopes === null ? addScopesToPayload : () => scopes', tests: ['test/promises/instance-helpers.test.ts'] },

  // http
  { file: 'lib/http/cookies.ts', from: 'httpOnly: settings.cookieHttponly || settings.cookieSplit\n', to: 'httpOnly: settings.cookieHttponly && !settings.cookieSplit\n', tests: ['test/endpoints/cookies.test.ts'] },
  { file: 'lib/http/late-headers.ts', from: "if (!noStore.test(cacheControl.replace(quoted, ''))) raw.setHeader('cache-control', 'no-store')", to: '', tests: ['test/guards/renew.test.ts'] },
  { file: 'lib/http/responses.ts', from: "if (!(thrown instanceof TokenAuthError)) reply.code(500).removeHeader('www-authenticate')", to: '', tests: ['test/http/responses.test.ts'] },

  // host
  { file: 'lib/host/users.ts', from: 'if (user !== undefined && user !== null) return checkUser(user', to: 'if (user !== undefined) return checkUser(user', tests: ['test/endpoints/me.test.ts'] },
  { file: 'lib/host/getters.ts', from: "if ('error' in result) throw result.error", to: '', tests: ['test/host/getters.test.ts'] },
  { file: 'lib/host/call.ts', from: 'return await call()', to: 'return call() as Awaited<T>', tests: ['test/host/handlers.test.ts'] },

  // settings
  { file: 'lib/settings/configuration.ts', from: "if (text === false || text === 'false' || text === '0' || text === 0) return false", to: "if (text === false || text === 'false' || text === 0) return false", tests: ['test/settings/sources.test.ts'] },
  { file: 'lib/settings/records.ts', from: 'if (unknown !== undefined) refuseUnknown(unknown, place, shape)', to: '', tests: ['test/settings/records.test.ts'] },
  { file: 'lib/settings/together.ts', from: "if (cookieSet && cookieSamesite === 'none' && !cookieSecure) {", to: "if (cookieSet && cookieSamesite === 'none' && cookieSecure === undefined) {", tests: ['test/hostile/startup.test.ts'] },
  { file: 'lib/host/getters.ts', from: 'checkComputed(name, rules, resolved, results)', to: '', tests: ['test/settings/together.test.ts'] },
  { file: 'lib/settings/together.ts', from: 'if (!concerns.some((name) => getters.has(name))) check(settings)', to: 'check(settings)', tests: ['test/settings/together.test.ts'] },

  // sessions
  { file: 'lib/sessions/rotation.ts', from: 'if (!isOpen) return rotate(', to: 'if (isOpen) return rotate(', tests: ['test/sessions/rotation.test.ts'] },
  { file: 'lib/sessions/rotation.ts', from: '=> n - parent === received && !confirmed', to: '=> n - parent === received', tests: ['test/sessions/rotation.test.ts'] },
  { file: 'lib/sessions/exchange.ts', from: 'if (difference !== undefined) return new RefusedRefresh(difference, true)', to: '', tests: ['test/sessions/failures.test.ts'] },
  { file: 'lib/sessions/exchange.ts', from: "if (isGone) return 'gone'", to: '', tests: ['test/sessions/abuse.test.ts'] },
  { file: 'lib/sessions/service.ts', from: "if (outcome !== 'reused' && this.hasEnded({ sid, userId })) return { outcome: 'unknown', n: 0 }", to: '', tests: ['test/sessions/races.test.ts'] },
  { file: 'lib/sessions/refresh-token.ts', from: "if (bytes.toString('base64url') !== text) return undefined", to: '', tests: ['test/sessions/refresh-token.test.ts'] },
  { file: 'lib/sessions/unsent.ts', from: '=== true && !sent.includes(token)', to: '=== true', tests: ['test/sessions/unsent.test.ts'] },
  { file: 'lib/sessions/exchange.ts', from: '  noteIssued(accessToken)\n', to: '', tests: ['test/sessions/unsent.test.ts'] },
  { file: 'lib/sessions/session-check.ts', from: 'if (verified.processedBy !== confirmations && !isRenewed)', to: 'if (verified.processedBy !== confirmations)', tests: ['test/sessions/unsent.test.ts'] },
  { file: 'lib/sessions/service.ts', from: "if (rotations.has(outcome) && outcome !== 'reissued') this.ended", to: 'if (rotations.has(outcome)) this.ended', tests: ['test/guards/renew.test.ts'] },
  { file: 'lib/endpoints/routes.ts', from: 'if (raw.statusCode < 400) call()', to: 'call()', tests: ['test/sessions/unsent.test.ts'] },
  { file: 'lib/guards/renew.ts', from: 'return isLate ? undefined : () => noteSent(accessToken)', to: 'return () => noteSent(accessToken)', tests: ['test/sessions/unsent.test.ts'] },
  { file: 'lib/guards/renew.ts', from: 'const isLate = hasEnded() || rotation() > Math.max(known, generation)', to: 'const isLate = hasEnded()', tests: ['test/guards/renew.test.ts'] },
  { file: 'lib/guards/renew.ts', from: "if (isFinal(refusal)) return stands('the application has refused the token')", to: '', tests: ['test/guards/renew.test.ts'] },
  { file: 'lib/guards/renew.ts', from: "if (takesRefreshToken(request)) return stands('the endpoint takes the refresh token', 'expired')", to: '', tests: ['test/guards/renew.test.ts'] },
  { file: 'lib/sessions/service.ts', from: 'return unknown !== undefined && performance.now() - unknown.at < unknownTime && unknown.user', to: 'return unknown !== undefined && unknown.user', tests: ['test/sessions/abuse.test.ts'] },
  { file: 'lib/sessions/service.ts', from: "if (outcome === 'unknown') this.#unknown.set(sid, { user, at: performance.now() })", to: '', tests: ['test/sessions/abuse.test.ts'] },
  { file: 'lib/sessions/revocation.ts', from: 'if (at >= oldest) next.add(sid, at)', to: 'if (at > oldest) next.add(sid, at)', tests: ['test/sessions/revocation.test.ts'] },
  { file: 'lib/sessions/start.ts', from: 'await sessions.create(draft, request)', to: 'sessions.create(draft, request).catch(() => {})', tests: ['test/sessions/failures.test.ts'] },
  { file: 'lib/sessions/outbox.ts', from: 'if (this.#waiting.size >= maximumWaiting && !this.#waiting.has(key)) return false', to: '', tests: ['test/sessions/outbox.test.ts'] },
  { file: 'lib/sessions/outbox.ts', from: 'if (this.#closing.size > 0) this.write([...this.#closing], true)', to: '', tests: ['test/sessions/outbox.test.ts'] },
  { file: 'lib/sessions/outbox.ts', from: '          this.#waiting.set(key, item)\n        }', to: '        }', tests: ['test/sessions/outbox.test.ts'] },
  { file: 'lib/sessions/confirmations.ts', from: 'if (!this.outbox.add(key, received)) return false', to: 'this.outbox.add(key, received)', tests: ['test/sessions/confirmations.test.ts'] },
  { file: 'lib/sessions/prepare.ts', from: "fastify.addHook('preClose', async () => await ended.prepareStop(reader))", to: '', tests: ['test/sessions/outbox.test.ts'] },
  { file: 'lib/sessions/stop.ts', from: 'if (!await sessions.ended.retryEndings()) throw new SessionStoreUnavailable()', to: '', tests: ['test/sessions/outbox.test.ts'] },

  // sessions/stores
  { file: 'lib/sessions/stores/memory.ts', from: 'const isOpen = windowAt !== null && now - windowAt < rules.graceMs', to: 'const isOpen = windowAt !== null && now - windowAt <= rules.graceMs', tests: ['test/sessions/stores/memory.test.ts'] },
  { file: 'lib/sessions/stores/memory.ts', from: 'return session !== undefined && session.user === user && session.expiresAt > now ? session : undefined', to: 'return session !== undefined && session.expiresAt > now ? session : undefined', tests: ['test/sessions/stores/memory.test.ts'] },
  { file: 'lib/sessions/stores/redis-clients.ts', from: "requireConnection(client.status === 'ready',", to: "requireConnection(client.status !== 'end',", tests: ['test/sessions/stores/clients.test.ts'] },
  { file: 'lib/sessions/stores/redis-scripts.ts', from: 'if behind == parent and grace > 0 and (isOpen or not isConfirmed) then', to: 'if behind == parent and (isOpen or not isConfirmed) then', tests: ['test/sessions/stores/decisions.test.ts'] },
  { file: 'lib/sessions/stores/postgres-statements.ts', from: 'n = n + 1, parent = (n - $3 + 1)::integer, siblings = 0, confirmed = false,', to: 'n = n + 1, parent = 1, siblings = 0, confirmed = false,', tests: ['test/sessions/stores/decisions.test.ts'] },
  { file: 'lib/sessions/stores/postgres.ts', from: 'if (attempt === attempts || !repeatable.has(code)) throw error', to: 'if (!repeatable.has(code)) throw error', tests: ['test/sessions/stores/clients.test.ts'] },
  { file: 'lib/sessions/stores/postgres.ts', from: "if (row.filtered === 'true' && !allowRowSecurity) throw", to: "if (row.filtered === 'all' && !allowRowSecurity) throw", tests: ['test/sessions/stores/clients.test.ts'] },
  { file: 'lib/sessions/stores/postgres.ts', from: "if (row.standby === 'true') return { ...answer, ...replayed.ageOf(row, begun, usual) }", to: "if (row.standby === 'true') return answer", tests: ['test/sessions/stores/clients.test.ts'] },
  { file: 'lib/sessions/stores/postgres.ts', from: 'Math.max(Number(time) - Number(beat), begun - this.#seenAt, 0)', to: 'Math.max(Number(time) - Number(beat), 0)', tests: ['test/sessions/stores/clients.test.ts'] },
  { file: 'lib/sessions/stores/postgres.ts', from: 'if (performance.now() - begun >= storeTimeoutMs) writing = undefined', to: '', tests: ['test/sessions/stores/clients.test.ts'] },
  { file: 'lib/sessions/stores/redis-primary.ts', from: '|^ERR Error running script .+ -(?:READONLY|MASTERDOWN) /', to: '/', tests: ['test/sessions/stores/redis-primary.test.ts'] },
  { file: 'lib/sessions/stores/redis-clients.ts', from: 'if (own.isOpen === true) own.destroy()', to: 'own.destroy()', tests: ['test/sessions/stores/redis-primary.test.ts'] },
  { file: 'lib/sessions/outbox.ts', from: 'if (notWritten?.has(item) !== true) continue', to: '', tests: ['test/sessions/outbox.test.ts'] },
  { file: 'lib/sessions/stores/redis-clients.ts', from: 'duplicate.call(client, { retryStrategy: () => null })', to: 'duplicate.call(client, {} as never)', tests: ['test/sessions/stores/redis-primary.test.ts'] },
  { file: 'lib/sessions/stores/redis-primary.ts', from: 'if (!isReplica(error)) throw error', to: 'throw error', tests: ['test/sessions/stores/redis-primary.test.ts'] },
  { file: 'lib/sessions/revocation.ts', from: 'if (this.#configurationError !== undefined) throw this.#configurationError', to: '', tests: ['test/sessions/revocation.test.ts'] },
  { file: 'lib/sessions/store-call.ts', from: 'if (!fits(expectation, result)) throw wrongResult(name, expectation.expected, result)', to: '', tests: ['test/sessions/store-call.test.ts'] },

  // guards
  { file: 'lib/guards/run.ts', from: 'if (guard.isAnonymous?.(state, refusal) !== true) return refusal', to: 'if (guard.isAnonymous?.(state, refusal) === false) return refusal', tests: ['test/guards/scoped.test.ts'] },
  { file: 'lib/guards/run.ts', from: 'const refusal = await decision', to: 'const refusal = decision instanceof Promise ? null : decision', tests: ['test/guards/protect.test.ts'] },
  { file: 'lib/guards/scoped.ts', from: 'if (areEnough(state, requirements, rules)) return null', to: 'if (!areEnough(state, requirements, rules)) return null', tests: ['test/guards/scoped.test.ts'] },
  { file: 'lib/guards/redirect.ts', from: "return origin === base && !pathname.startsWith('//') ? pathname + search : fallback", to: 'return origin === base ? pathname + search : fallback', tests: ['test/guards/renew.test.ts'] },
  { file: 'lib/guards/renew.ts', from: "if (!isReplaceable(state.extract())) return stands('the access token did not come in a cookie')", to: '', tests: ['test/guards/renew.test.ts'] },

  // wrapped
  { file: 'lib/wrapped/gate.ts', from: 'at >= index && !hasPassed(request)', to: 'at > index && !hasPassed(request)', tests: ['test/wrapped/gate.test.ts'] },
  { file: 'lib/wrapped/trial.ts', from: 'if (next === nothing) reached.push(guard)', to: 'reached.push(guard)', tests: ['test/routes/book.test.ts'] },

  // endpoints
  { file: 'lib/endpoints/refresh.ts', from: 'if (!areSameToken(refreshToken, purportedToken)) throw notStored', to: '', tests: ['test/endpoints/refresh.test.ts'] },
  { file: 'lib/endpoints/endpoint.ts', from: 'if (settings.cookieSet && !settings.tokensInBody) return {}', to: 'if (!settings.tokensInBody) return {}', tests: ['test/endpoints/cookies.test.ts'] },
  { file: 'lib/sessions/stop.ts', from: 'if (userId === null || sessionId === null || ended.some(({ sid }) => sid === sessionId)) return []', to: 'if (userId === null || sessionId === null) return []', tests: ['test/sessions/endpoints.test.ts'] },
  { file: 'lib/endpoints/forms.ts', from: 'if ((isRefusal ? refused.answer : refused).statusCode !== 401) return', to: 'if ((isRefusal ? refused.answer : refused).statusCode >= 500) return', tests: ['test/endpoints/forms.test.ts'] },
  { file: 'lib/endpoints/forms.ts', from: 'registration.hasLoginPage && readsCookies(registration)', to: 'registration.hasLoginPage', tests: ['test/endpoints/forms.test.ts'] },
  { file: 'lib/sessions/stop.ts', from: 'readRefreshTokenCookies(request.raw, settings)', to: '[]', tests: ['test/sessions/endpoints.test.ts'] },
  { file: 'lib/sessions/start.ts', from: ' || await hasNoConnection(request, reply)', to: '', tests: ['test/sessions/failures.test.ts'] },
  { file: 'lib/endpoints/forms.ts', from: "returnPath(next, '')", to: 'next', tests: ['test/endpoints/forms.test.ts'] },
  { file: 'lib/endpoints/routes.ts', from: 'if (isForm && !state.settings.cookieSet) throw', to: 'if (isForm && state.settings.authMode === undefined) throw', tests: ['test/endpoints/forms.test.ts'] },
  { file: 'lib/sessions/login-facts.ts', from: 'if (bytes > maximumClaimsBytes) throw', to: 'if (bytes > maximumClaimsBytes + 1) throw', tests: ['test/sessions/login-facts.test.ts'] },
  { file: 'lib/sessions/login-facts.ts', from: 'persistent: options.persistent ?? result.persistent ?? true,', to: 'persistent: result.persistent ?? options.persistent ?? true,', tests: ['test/sessions/login-facts.test.ts'] },
  { file: 'lib/issuing/issuing.ts', from: "'sgen', 'cnf', ...customClaims.map(({ key }) => key)]", to: "'sgen', 'cnf']", tests: ['test/sessions/login-facts.test.ts'] },
  { file: 'lib/sessions/exchange.ts', from: 'if (issuing.findReserved(Object.keys(claims), settings) !== undefined) return takenClaim', to: '', tests: ['test/sessions/login-facts.test.ts'] },
  { file: 'lib/sessions/sessions.ts', from: '    const state = logoutStateOf(request)\n    refuseOtherOrigins(state)', to: '    const state = logoutStateOf(request)', tests: ['test/sessions/stop.test.ts'] },
  { file: 'lib/request/scope-question.ts', from: 'if (holder.authority === null) return false', to: 'if (holder.authority === undefined) return false', tests: ['test/request/scope-question.test.ts'] },
  { file: 'lib/request/scope-question.ts', from: "if (!isFunction(memberOf(result, 'then'))) return result", to: 'return result', tests: ['test/request/scope-question.test.ts'] },
  { file: 'lib/sessions/revocation.ts', from: "this.#lastGood === undefined ? 'starting' : 'stale'", to: "'stale'", tests: ['test/sessions/store-status.test.ts'] },
  { file: 'lib/endpoints/bodies.ts', from: 'if (names.has(name)) return undefined', to: '', tests: ['test/endpoints/table.test.ts'] },

  // routes
  { file: 'lib/routes/access.ts', from: 'const required = guards.filter(({ isOptional }) => !isOptional)', to: 'const required = guards', tests: ['test/routes/book.test.ts'] },
  { file: 'lib/routes/required-guards.ts', from: 'if (undecided.length === 0) return', to: 'if (undecided.length <= 1) return', tests: ['test/routes/required-guards.test.ts'] },
  { file: 'lib/routes/gates.ts', from: "return by !== guard && isProtecting(description) && !(hook === 'handler' && opensSockets(entry))", to: "return by !== guard && !(hook === 'handler' && opensSockets(entry))", tests: ['test/routes/gates.test.ts'] },

  // testing, and testing/attack
  { file: 'lib/testing/test-token.ts', from: "if (state === 'notYetActive') return { nbf: now + leeway + hour }", to: "if (state === 'notYetActive') return { nbf: now + hour - leeway * 60 }", tests: ['test/testing/test-token.test.ts'] },
  { file: 'lib/testing/rules-of-families.ts', from: "for (let member = 2; member <= members; member++) await late.expect(0, 'reissued', member)", to: '', tests: ['test/testing/session-store.test.ts'] },
  { file: 'lib/testing/attack/report.ts', from: 'return (statusCode >= 200 && statusCode < 300) ||', to: 'return statusCode === 200 ||', tests: ['test/testing/attack.test.ts'] },
  { file: 'lib/testing/attack/attack.ts', from: "await checkAccepted(app, target, carrier, token, 'after the attack')", to: '', tests: ['test/testing/attack.test.ts'] },

  // cli
  { file: 'lib/cli/doctor.ts', from: 'if (failedAt !== null) {', to: 'if (failedAt === undefined) {', tests: ['test/cli.test.ts'] },
  { file: 'lib/cli/inspect.ts', from: "return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined", to: "return typeof value === 'object' && value !== null ? { ...value } : undefined", tests: ['test/cli.test.ts'] },

  // client
  { file: 'lib/client.ts', from: '      stop.abort()\n', to: '', tests: ['test/client.test.ts'] },
  { file: 'lib/client.ts', from: 'inTurn(() => leaving, new AbortController()).catch(() => {})', to: '', tests: ['test/client.test.ts'] },
  { file: 'lib/client.ts', from: 'await loggingIn?.catch(() => {})', to: '', tests: ['test/client.test.ts'] },
  { file: 'lib/client.ts', from: 'signal.throwIfAborted()\n      return (result', to: 'return (result', tests: ['test/client.test.ts'] },
  { file: 'lib/client.ts', from: 'const isSame = () => isSameLogin() && read().refresh === before.refresh', to: 'const isSame = () => read().refresh === before.refresh', tests: ['test/promises/client-state.test.ts'] },
  { file: 'lib/client.ts', from: 'if (!ok && status !== 401 && (status !== 400 || before.refresh)) return response', to: 'if (!ok && status !== 401 && status !== 400) return response', tests: ['test/promises/client-state.test.ts'] },

  // the top of lib/
  { file: 'lib/events.ts', from: 'published.get(request)?.has(why) === true)) return', to: 'false)) return', tests: ['test/events.test.ts'] },
  { file: 'lib/warnings.ts', from: 'W10: settings.cookieSet && !settings.cookieSecure,', to: 'W10: false,', tests: ['test/hostile/startup.test.ts'] },
  { file: 'lib/plugin.ts', from: 'if (Object.hasOwn(fastify, name) && isOurs) {', to: 'if (isOurs) {', tests: ['test/promises/instances.test.ts'] },
  { file: 'lib/neighbours.ts', from: 'other.store !== store && acceptEachOther(own, other)', to: 'other.store === store && acceptEachOther(own, other)', tests: ['test/registration.test.ts'] },
  { file: 'lib/neighbours.ts', from: ' && !shareKey(own, other)', to: '', tests: ['test/neighbours.test.ts'] }
]
