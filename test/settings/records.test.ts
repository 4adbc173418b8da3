/** The reader of option objects: what it accepts, what it copies, and what its messages say. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { either, flag, func, matching, listOf, named, objectWith, oneOf, oneOrMore, orNull, seconds, text, textLike, whole, Wrong, type Kind } from '../../lib/settings/kinds.ts'
import { entryAt, optional, optionsOf, preset, readRecord, readWithOthers, required } from '../../lib/settings/records.ts'
import { maximumSeconds, quote } from '../../lib/values.ts'
import { caseOf, environment } from '../helper.ts'

const shape = {
  members: {
    name: required(text, { finding: 'E12', advice: 'Give a name.' }),
    age: preset(seconds(1, 60), 30),
    tags: optional(oneOrMore('a tag, or a list of tags', text))
  },
  example: '{ name }',
  page: 'keys.md'
} as const

const read = (value: unknown) => readRecord(entryAt('people[0]'), value, shape)
const messageOf = (act: () => unknown): string => {
  try {
    act()
    return 'nothing'
  } catch (error) {
    return String(Object(error).message).replace(/ See node_modules\S+$/, '')
  }
}
const names = Object.keys(shape.members)

t.test('members are read in the order of their table, with defaults, into a frozen object without a prototype', async (t) => {
  const result = read({ tags: 'x', name: 'Ada' })
  t.strictSame(Object.entries(result), [['name', 'Ada'], ['age', 30], ['tags', ['x']]])
  t.equal(Object.getPrototypeOf(result), null)
  t.ok(Object.isFrozen(result))
})

t.test('undefined is as if a member were not there, and a required member must be there', async (t) => {
  t.strictSame({ ...read({ name: 'Ada', age: undefined, tags: undefined }) }, { name: 'Ada', age: 30, tags: undefined })
  for (const value of [{}, { name: undefined }]) {
    t.throws(() => read(value), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E12', message: /^"people\[0\]\.name" must be a non-empty string; given: undefined\. Give a name\. See \S+findings\.md#token_auth_e12$/ })
  }
})

t.test('frozen objects, and objects without a prototype, are read like others', async () => {
  for (const value of [Object.freeze({ name: 'Ada' }), Object.assign(Object.create(null), { name: 'Ada' })]) assert.equal(read(value).name, 'Ada', caseOf(value))
})

t.test('a member that the table does not have is refused, whatever its name', async (t) => {
  fc.assert(fc.property(fc.oneof(fc.string(), fc.constantFrom('toString', 'constructor', '__proto__', 'hasOwnProperty')).filter((name) => !names.includes(name)), (name) => {
    const value = { name: 'Ada' }
    Object.defineProperty(value, name, { value: 1, enumerable: true })
    const message = messageOf(() => read(value))
    assert.ok(message.startsWith(`"people[0]" has no member ${quote(name)}.`) && message.endsWith('Its members are name, age, tags.'), message)
  }))
  t.equal(messageOf(() => read({ nam: 'Ada' })), '"people[0]" has no member "nam". Did you mean "name"? Its members are name, age, tags.')
  const only = { ...shape, members: { age: shape.members.age } }
  t.equal(messageOf(() => readRecord(optionsOf('greet()'), { ago: 1 }, only)), 'greet() has no option "ago". Did you mean "age"? Its only option is "age".')
})

t.test('anything but a plain object is refused', async (t) => {
  class Person { name = 'Ada' }
  const others = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constantFrom(null, undefined, new Person(), new Map([['name', 'Ada']]), Promise.resolve({ name: 'Ada' }), () => ({}), Object.create({ name: 'Ada' })), fc.array(fc.anything()))
  fc.assert(fc.property(others, (value) => {
    assert.match(messageOf(() => read(value)), /^"people\[0\]" must be a plain object, such as \{ name \}; given: [a-z ,]+\.$/)
  }))
  t.equal(messageOf(() => readRecord(optionsOf('greet()'), 5, { ...shape, hint: () => ' Call it.' })), 'The options of greet() must be a plain object, such as { name }; given: a number. Call it.')
})

t.test('a value of another type is refused by each kind, and no message quotes a text that may be a secret', async (t) => {
  const secret = 'correct horse battery staple'
  const kinds: Kind<unknown>[] = [flag, whole(1, 5), seconds(0), func('a function'), objectWith(['read']), orNull(flag), either(flag, whole(1, 2)), textLike('short', (value) => value.length < 3), listOf('a list', flag), oneOrMore('flags', flag), matching('a key', () => false)]
  for (const kind of kinds) {
    const found = kind.read(secret)
    assert.ok(found instanceof Wrong && !found.description.includes('horse'), kind.allowed)
    const inList = kind.read([secret])
    assert.ok(inList instanceof Wrong && !inList.description.includes('horse'), kind.allowed)
  }
  fc.assert(fc.property(fc.anything(), (value) => {
    for (const kind of kinds) {
      const found = kind.read(value)
      if (found instanceof Wrong) t.type(found.description, 'string')
    }
  }))
})

t.test('a kind says what it accepts and what was given instead', async (t) => {
  const found = (kind: Kind<unknown>, value: unknown) => {
    const result = kind.read(value)
    return result instanceof Wrong ? `${kind.allowed}; ${result.description}` : result
  }
  t.equal(found(text, ' '), 'a non-empty string; a blank string')
  t.equal(found(text, ''), 'a non-empty string; an empty string')
  t.equal(found(whole(1, 5), NaN), 'a whole number from 1 to 5; NaN')
  t.equal(found(seconds(1), maximumSeconds + 1), `a whole number of seconds from 1 to ${maximumSeconds}; ${maximumSeconds + 1}`)
  t.equal(found(seconds(1), maximumSeconds), maximumSeconds)
  t.equal(found(oneOf(['a', 'b', 'c']), 'd'), '"a", "b" or "c"; "d"')
  t.equal(found(oneOf(['a']), 5), '"a"; 5')
  t.equal(found(orNull(flag), null), null)
  t.equal(found(orNull(flag), 5), 'true or false, or null; 5')
  t.equal(found(either(flag, whole(1, 2)), true), true)
  t.equal(found(either(flag, whole(1, 2)), 2), 2)
  t.equal(found(named('yes or no', flag), 5), 'yes or no; 5')
  t.equal(found(textLike('a word', (value) => /^\w+$/.test(value)), ''), 'a word; an empty string')
  t.equal(found(textLike('a word', (value) => /^\w+$/.test(value)), 'a b'), 'a word; a string of another form')
  t.equal(found(textLike('a word', (value) => /^\w+$/.test(value), quote), 'x '.repeat(31)), `a word; "${'x '.repeat(28)}x..."`)
  t.equal(found(listOf('flags', flag), []), 'flags; an empty list')
  t.equal(found(listOf('flags', flag), [true, 1]), 'flags; a list whose entry 1 is 1')
  t.equal(found(listOf('flags', flag, { most: 1 }), [true, true]), 'flags; a list of 2')
  t.strictSame(found(listOf('flags', flag, { least: 0 }), []), [])
  t.strictSame(found(oneOrMore('flags', flag), true), [true])
  t.equal(found(oneOrMore('flags', flag), 1), 'flags; 1')
  t.equal(found(objectWith(['read']), { read: 5 }), 'an object with the method read; an object without the method "read"')
  t.equal(found(objectWith(['read', 'write', 'end']), null), 'an object with the methods read, write and end; null')
  const store = { read () {} }
  t.equal(found(objectWith(['read']), store), store)
})

t.test('what the prototype of all objects was polluted with is no member', async (t) => {
  const everything: object = Object.getPrototypeOf({})
  const polluted = { name: 'Eve', age: 60, tags: 'x' }
  for (const [name, value] of Object.entries(polluted)) Object.defineProperty(everything, name, { value, configurable: true, writable: true, enumerable: true })
  const results = [messageOf(() => read({})), { ...read({ name: 'Ada' }) }]
  for (const name of Object.keys(polluted)) Reflect.deleteProperty(everything, name)
  t.match(results[0], /given: undefined/)
  t.strictSame(results[1], { name: 'Ada', age: 30, tags: undefined })
})

t.test('a getter that returns something else the second time is read once', async () => {
  fc.assert(fc.property(fc.array(fc.anything(), { minLength: 1 }), (lies) => {
    let reads = 0
    const value = Object.defineProperty({}, 'name', { enumerable: true, get: () => reads++ === 0 ? 'Ada' : lies[reads % lies.length] })
    assert.equal(read(value).name, 'Ada')
    assert.equal(reads, 1)
  }))
})

t.test('a list is copied before it is checked, and what happens to it later changes nothing', async (t) => {
  let reads = 0
  const tags: unknown[] = ['x']
  Object.defineProperty(tags, 0, { enumerable: true, configurable: true, get: () => reads++ === 0 ? 'x' : 5 })
  const person = read({ name: 'Ada', tags })
  tags.push(5)
  t.strictSame(person.tags, ['x'])
})

t.test('symbols and members that are not enumerable are not read', async (t) => {
  const value = Object.defineProperty({ name: 'Ada', [Symbol('age')]: 5 }, 'age', { value: 5 })
  t.strictSame(Reflect.ownKeys(read(value)), names)
  t.equal(read(value).age, 30)
})

t.test('further names that a shape permits are returned apart, and count only where they have a value', async (t) => {
  const open = { ...shape, others: { names: ['leeway', 'debug'], called: 'the settings' } } as const
  const { own, others } = readWithOthers(entryAt('people[0]'), { name: 'Ada', leeway: 5, debug: undefined }, open)
  t.equal(own.name, 'Ada')
  t.strictSame(Object.entries(others), [['leeway', 5]])
  t.equal(Object.getPrototypeOf(others), null)
  t.equal(messageOf(() => readWithOthers(entryAt('people[0]'), { leway: 5 }, open)), '"people[0]" has no member "leway". Did you mean "leeway"? Its members are the settings, name, age, tags.')
})

t.test('an error that a request may meet hides its message from clients', async (t) => {
  environment(t, 'production')
  const during = { ...shape, duringRequest: true }
  for (const value of [5, { nam: 1 }, { name: 5 }]) {
    assert.equal(messageOf(() => readRecord(optionsOf('greet()'), value, during)), 'The configuration is invalid.', caseOf(value))
    t.match(messageOf(() => readRecord(optionsOf('greet()'), value, shape)), 'greet()')
  }
})
