import assert from 'node:assert/strict'
import fc from 'fast-check'
import { setImmediate as nextTask } from 'node:timers/promises'
import t from 'tap'
import { areScopesEnough, explainScope, parseRequirements, parseScope, readScopes, type ScopeRules } from '../../lib/token/scopes.ts'
import { caseOf } from '../helper.ts'

type Rules = Partial<ScopeRules>

/** Whether a route that requires scopes opens for a token with a scopes claim. A malformed requirement never opens. */
function opens (required: unknown, claim: unknown, rules: Rules = {}): boolean {
  const requirements = parseRequirements(required)
  return requirements !== undefined && areScopesEnough(requirements, claim, { requireAll: true, requireAllActions: true, ...rules })
}

t.test('the truth table of the specification', async () => {
  const table: Array<[string, string, boolean]> = [
    ['N', 'M', false],
    ['N', 'N', true],
    ['N', 'N:a', false],
    ['N:a', 'N', true],
    ['N:a', 'N:a', true],
    ['N:a', 'N:b', false],
    ['N:a', 'N:a:b', true],
    ['N:a:b', 'N:a', false],
    ['N:a:b', 'N:a:b', true],
    ['N:a:b', 'N:b:a', true],
    [':a', ':a', true],
    [':a', 'M', true]
  ]
  for (const [required, granted, expected] of table) {
    assert.equal(opens(required, [granted]), expected, `${required} with ${granted}`)
    assert.equal(opens([required], granted), expected, 'as a list and as one string alike')
  }
})

// Promise: specification/1-namespaces-equal
// Promise: specification/3-empty-namespace
t.test('the rules by the letter', async () => {
  const rows: Array<[string, unknown, unknown, Rules, boolean]> = [
    ['1: another namespace with the same action', 'N:a', ['M:a'], {}, false],
    ['1: upper and lower case differ', 'n:a', ['N:A'], {}, false],
    ['1: a longer namespace', 'N', ['NN'], {}, false],
    ['1: no scope without a namespace for one with', 'N:a', [':a'], {}, false],
    ['2: order of actions', 'N:a:b:c', ['N:c:a:b'], {}, true],
    ['2: more actions than required', 'N:b', ['N:a:b:c'], {}, true],
    ['2: any action suffices', 'N:a:b', ['N:b'], { requireAllActions: false }, true],
    ['2: any action, none there', 'N:a:b', ['N:c'], { requireAllActions: false }, false],
    ['2: any action, other namespace', 'N:a:b', ['M:a'], { requireAllActions: false }, false],
    ['2: no actions required, some granted', 'N', ['N:a'], { requireAllActions: false }, false],
    ['2: an action twice', 'N:a:a', ['N:a'], {}, true],
    ['3: more actions than required', ':a', [':a:b'], {}, true],
    ['3: a namespace without actions', ':a:b', ['M'], {}, true],
    ['3: the action in a namespace', ':a', ['N:a'], {}, false],
    ['3: the action in a namespace, any suffices', ':a:b', ['N:a'], { requireAllActions: false }, false],
    ['3: another action', ':a', [':b'], {}, false],
    ['3: fewer actions', ':a:b', [':a'], {}, false],
    ['3: fewer actions, any suffices', ':a:b', [':a'], { requireAllActions: false }, true],
    ['4: one member of many', 'N:a', ['M', 'N:b', 'N:a'], {}, true],
    ['4: actions are not gathered from several members', 'N:a:b', ['N:a', 'N:b'], {}, false],
    ['5: all', ['N:a', 'M:b'], ['N', 'M'], {}, true],
    ['5: all, one missing', ['N:a', 'M:b'], ['N'], {}, false],
    ['5: any', ['N:a', 'M:b'], ['M'], { requireAll: false }, true],
    ['5: any, none there', ['N:a', 'M:b'], ['L'], { requireAll: false }, false],
    ['5: any requirement, but all of its actions', ['N:a:b', 'M:b'], ['N:a'], { requireAll: false }, false],
    ['nothing granted', 'N', [], {}, false],
    ['nothing granted, any suffices', ['N'], [], { requireAll: false }, false],
    ['words of one string', 'N:a', 'M N:a', {}, true],
    ['words of one string with spaces around', 'N:a', '  M   N:a ', {}, true],
    ['words of a string in a list', 'N:a', ['M N:a'], {}, false],
    ['a namespace that every object has', 'constructor', ['constructor'], {}, true],
    ['a namespace that every object has, not granted', 'constructor', ['N'], {}, false],
    ['an action that every object has, not granted', 'N:__proto__:toString', ['N:a'], { requireAllActions: false }, false]
  ]
  for (const [name, required, granted, rules, expected] of rows) assert.equal(opens(required, granted, rules), expected, name)
})

t.test('a claim that is no string and no list of strings grants nothing', async (t) => {
  const nothing = [
    undefined, null, true, 1, {}, { 0: 'N', length: 1 }, { N: true }, '', ' ', ':', [null], [1], [true], [['N']], [{ N: 1 }], [''], [' '], [':'], [' N'], ['N '], ['N\n'],
    ['N:'], ['N::a'], [':N'], ['N,M'], ['*'], ['N:*'], 'N\tM', 'N,M'
  ]
  for (const claim of nothing) {
    for (const requireAll of [true, false]) {
      assert.equal(opens('N', claim, { requireAll }), false, JSON.stringify(claim))
      assert.equal(opens('N:a', claim, { requireAll, requireAllActions: false }), false, caseOf(claim, requireAll))
    }
  }
  t.equal(opens('N', [null, 1, ':', 'N']), true, 'what is nothing harms nothing')
})

t.test('a requirement that is missing, empty or malformed is none, in whatever company', async (t) => {
  const malformed = [
    undefined, null, '', ' ', ':', '::', 'N:', 'N::a', ':a:', '::a', ' N', 'N ', 'N M', 'N :a', 'N:a b', 'N\t', 'N\n', 'N\u00A0', 'N:\u2003a', '\uFEFFN',
    true, 1, {}, { length: 1, 0: 'N' }, ['N', ['N']], () => 'N'
  ]
  for (const required of malformed) {
    const title = typeof required === 'string' ? JSON.stringify(required) : String(required)
    assert.equal(parseRequirements(required), undefined, title)
    assert.equal(parseRequirements([required]), undefined, caseOf(required))
    assert.equal(parseRequirements(['N', required]), undefined, caseOf(required))
    assert.equal(parseRequirements([required, 'N']), undefined, caseOf(required))
    assert.equal(opens(required, ['N', ':a', '', ':']), false, caseOf(required))
  }
  t.equal(parseRequirements([]), undefined)
  t.strictSame(parseRequirements('N:a')?.map(({ text }) => text), ['N:a'])
  t.strictSame(parseRequirements(['N', ':a:b'])?.map(({ text }) => text), ['N', ':a:b'])
})

/** The specification's rules, written once more, over texts and with nothing of ours. */
const model = {
  isScope: (text: string) => /^(?:[^\s:]+|(?=:))(?::[^\s:]+)*$/u.test(text) && text !== '',
  satisfies (required: string, granted: string, requireAllActions: boolean): boolean {
    const [requiredNamespace, ...wanted] = required.split(':')
    const [namespace, ...actions] = granted.split(':')
    const isWhole = actions.length === 0
    if (requiredNamespace === '') {
      if (namespace !== '') return isWhole
    } else if (requiredNamespace !== namespace) return false
    if (wanted.length === 0 || isWhole) return isWhole
    const missing = wanted.filter((action) => new Set(actions).has(action) === false).length
    return requireAllActions ? missing === 0 : missing < wanted.length
  },
  opens (required: readonly string[], granted: readonly string[], requireAll: boolean, requireAllActions: boolean): boolean {
    if (required.length === 0 || !required.every(model.isScope)) return false
    let met = 0
    for (const scope of required) {
      if (granted.some((candidate) => model.isScope(candidate) && model.satisfies(scope, candidate, requireAllActions))) met++
    }
    return met === required.length || (met > 0 && !requireAll)
  }
}

/** Lone surrogates included. */
const codeUnit = fc.nat(0xFFFF).map((code) => String.fromCharCode(code))
const part = fc.constantFrom('N', 'M', 'a', 'b', 'c')
const wellFormed = fc.tuple(fc.oneof(fc.constant(''), part), fc.array(part, { maxLength: 3 }))
  .filter(([namespace, actions]) => namespace !== '' || actions.length > 0)
  .map(([namespace, actions]) => [namespace, ...actions].join(':'))
const anyText = fc.oneof({ weight: 4, arbitrary: wellFormed }, fc.string({ unit: fc.constantFrom('N', 'a', ':', ' ', '\t', '\u00A0', '\u2003', 'é'), maxLength: 6 }))

t.test('the rules agree with a second telling of them, for any scopes', async () => {
  const texts = fc.array(anyText, { maxLength: 4 })
  fc.assert(fc.property(texts, texts, fc.boolean(), fc.boolean(), (required, granted, requireAll, requireAllActions) =>
    opens(required, granted, { requireAll, requireAllActions }) === model.opens(required, granted, requireAll, requireAllActions)), { numRuns: 1000 })
  const good = fc.array(wellFormed, { minLength: 1, maxLength: 3 })
  fc.assert(fc.property(good, good, fc.boolean(), fc.boolean(), (required, granted, requireAll, requireAllActions) =>
    opens(required, granted, { requireAll, requireAllActions }) === model.opens(required, granted, requireAll, requireAllActions)), { numRuns: 1000 })
})

t.test('the grammar agrees with a second telling of it, for any text', async () => {
  fc.assert(fc.property(fc.oneof(anyText, fc.string({ unit: codeUnit })), (text) => (parseScope(text) !== undefined) === model.isScope(text)), { numRuns: 500 })
  fc.assert(fc.property(fc.anything(), (value) => typeof value === 'string' || parseScope(value) === undefined))
  fc.assert(fc.property(wellFormed, (text) => {
    const scope = parseScope(text)
    return scope !== undefined && [scope.namespace, ...scope.actions].join(':') === text
  }))
})

t.test('more granted never closes a route, more required never opens one, and order says nothing', async () => {
  const good = fc.array(wellFormed, { minLength: 1, maxLength: 3 })
  fc.assert(fc.property(good, good, wellFormed, fc.boolean(), fc.boolean(), (required, granted, more, requireAll, requireAllActions) => {
    const rules = { requireAll, requireAllActions }
    const before = opens(required, granted, rules)
    return (!before || opens(required, [...granted, more], rules)) &&
      (before || !opens([...required, more], granted, { ...rules, requireAll: true })) &&
      before === opens(required.toReversed(), granted.toReversed(), rules) &&
      (!opens(required, granted, { ...rules, requireAllActions: true }) || opens(required, granted, { ...rules, requireAllActions: false }))
  }), { numRuns: 500 })
  fc.assert(fc.property(fc.anything(), fc.anything(), (required, claim) => typeof opens(required, claim) === 'boolean'))
})

/** What is said of each required scope that a token does not have. */
function explained (required: unknown, claim: unknown, requireAllActions = true, isExact = false): string[] {
  return (parseRequirements(required) ?? []).flatMap((requirement) => explainScope(requirement, claim, requireAllActions, isExact) ?? [])
}

t.test('a requirement is explained exactly where it closes the route, under every rule', async () => {
  const good = fc.array(wellFormed, { minLength: 1, maxLength: 3 })
  const claim = fc.oneof(fc.array(fc.oneof(wellFormed, anyText), { maxLength: 4 }), wellFormed, fc.anything())
  fc.assert(fc.property(good, claim, fc.boolean(), fc.boolean(), (required, granted, requireAllActions, isExact) => required.every((text) => {
    const [requirement] = parseRequirements(text) ?? []
    const isEnough = areScopesEnough([requirement!], granted, { requireAll: true, requireAllActions }, isExact)
    const explanation = explainScope(requirement!, granted, requireAllActions, isExact)
    return isEnough ? explanation === undefined : explanation?.includes(JSON.stringify(text)) === true
  })), { numRuns: 2000 })
})

t.test('an explanation names what the token has of the namespace, and what that lacks', async () => {
  const rows: Array<[required: unknown, claim: unknown, requireAllActions: boolean, isExact: boolean, said: string[]]> = [
    ['reports', [], true, false, ['"reports": the token has no scope of the namespace "reports"']],
    ['reports:write', ['users', 'report', 5, 'reports::'], true, false, ['"reports:write": the token has no scope of the namespace "reports"']],
    [':write', ['reports:write'], true, false, ['":write": the token has no scope without a namespace, or without actions']],
    ['reports:write', ['reports:read'], true, false, ['"reports:write": "reports:read" lacks "write"']],
    ['reports:write', 'reports:read reports:list', true, false, ['"reports:write": "reports:read" lacks "write"; "reports:write": "reports:list" lacks "write"']],
    ['reports:read:write:list', ['reports:read'], true, false, ['"reports:read:write:list": "reports:read" lacks "write" and "list"']],
    ['reports:write:list', ['reports:read'], false, false, ['"reports:write:list": "reports:read" lacks "write" or "list"']],
    [':write', [':read'], true, false, ['":write": ":read" lacks "write"']],
    ['reports', ['reports:read'], true, false, ['"reports" requires "reports" without actions, but "reports:read" allows only its actions']],
    [['reports:read', 'users'], ['reports:read'], true, false, ['"users": the token has no scope of the namespace "users"']],
    ['reports:read', ['reports'], true, true, ['the token has no scope "reports:read"']],
    ['reports', ['reports'], true, false, []],
    ['email', 'email', true, true, []]
  ]
  for (const [required, claim, requireAllActions, isExact, said] of rows) assert.deepEqual(explained(required, claim, requireAllActions, isExact), said, JSON.stringify([required, claim]))
})

t.test('reading the claim gives the strings as written', async (t) => {
  t.strictSame(readScopes(['N:a', ' x ', 1, null, ':']), ['N:a', ' x ', ':'])
  t.strictSame(readScopes('N:a  M'), ['N:a', 'M'])
  for (const claim of [undefined, null, 1, {}, true, '']) assert.deepEqual(readScopes(claim), [], caseOf(claim))
})

t.test('an override is asked about each required scope, with strings as written', async (t) => {
  const calls: unknown[] = []
  const override: ScopeRules['override'] = (...given) => { calls.push(given); return given[0] }
  const granted = ['N', ' odd ']
  t.equal(opens(['N:a', 'M:b'], [...granted, 7], { override, requireAllActions: false }), false)
  t.strictSame(calls, [[true, 'N:a', granted, false], [false, 'M:b', granted, false]])
})

t.test('an override may open and close, and passes with true only', async (t) => {
  const decide = (answers: unknown[], rules: Rules = {}, claim: unknown = ['N']) => {
    const left = [...answers]
    const asked: string[] = []
    const result = opens(answers.map((_, index) => `N:${index}`), claim, { ...rules, override: (_, required) => { asked.push(required); return left.shift() } })
    t.strictSame(asked, answers.map((_, index) => `N:${index}`), 'asked once for each, in order')
    return result
  }
  t.equal(decide([true, true]), true)
  t.equal(decide([true, false]), false)
  t.equal(decide([false, true], { requireAll: false }), true)
  t.equal(decide([true, true], { requireAll: false }), true)
  t.equal(decide([false, false], { requireAll: false }), false)
  t.equal(decide([true], {}, undefined), true, 'also for a token without scopes')
  const rejections: unknown[] = []
  const listener = (reason: unknown) => { rejections.push(reason) }
  process.on('unhandledRejection', listener)
  for (const answer of [1, 'true', {}, [], null, undefined, Object(true), Promise.resolve(true), Promise.reject(new Error('late'))]) assert.equal(decide([answer]), false)
  await nextTask()
  process.off('unhandledRejection', listener)
  t.strictSame(rejections, [])
  t.throws(() => opens('N', ['N'], { override: () => { throw new RangeError('host') } }), RangeError, 'what it throws is the guard\'s to render')
})

t.test('a claim as long as a token can be is read', async (t) => {
  const long = ['N', ...Array.from({ length: 3000 }, (_, index) => `a${index}`)].join(':')
  t.equal(opens(long, [long]), true)
  t.equal(opens('N:b', Array.from({ length: 2000 }, () => 'N:a')), false)
  t.equal(opens('N:b', ' '.repeat(200_000)), false)
})
