import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { endOfSigning, nextSwitch, readDate, signingAt, type Period } from '../../lib/keys/calendar.ts'
import { caseOf } from '../helper.ts'

const since = (signFrom: number, canSign = true): Period => ({ signFrom, canSign })
const times = fc.integer({ min: 0, max: 50 })

// Promise: keys/same-key-signs
t.test('the same key signs at every instant, in whatever order dated keys are listed', async () => {
  const lists = fc.uniqueArray(times, { minLength: 1, maxLength: 16 }).map((dates) => dates.map((date) => since(date)))
  const orders = lists.chain((keys) => fc.tuple(fc.constant(keys), fc.shuffledSubarray(keys, { minLength: keys.length }), times))
  fc.assert(fc.property(orders, ([keys, shuffled, at]) => signingAt(keys, at) === signingAt(shuffled, at)))
})

t.test('a key signs exactly until its end, and from its date: at every instant one key or none', async () => {
  const keys = fc.array(fc.record({ signFrom: fc.oneof(times, fc.constant(-Infinity)), canSign: fc.boolean() }), { maxLength: 16 })
  fc.assert(fc.property(keys, fc.integer({ min: 0, max: 60 }), (list, at) => {
    const signing = signingAt(list, at)
    return list.every((key) => (signing === key) === (key.canSign && key.signFrom <= at && at < endOfSigning(key, list)))
  }))
})

t.test('the next switch is the first instant at which another key signs', async () => {
  const keys = fc.uniqueArray(times, { minLength: 1, maxLength: 16 }).map((dates) => dates.map((date) => since(date)))
  fc.assert(fc.property(keys, times, (list, at) => {
    const next = nextSwitch(list, at)
    if (next === Infinity) return signingAt(list, at) === signingAt(list, 1000)
    return signingAt(list, next - 1) === signingAt(list, at) && signingAt(list, next) !== signingAt(list, at)
  }))
})

t.test('the first listed of undated keys signs, the latest dated one before it, and a key that cannot sign never does', async (t) => {
  const [first, second, dated, open] = [since(-Infinity), since(-Infinity), since(5), since(7, false)]
  const keys = [open, first, second, dated]
  t.equal(signingAt(keys, 0), first)
  t.equal(signingAt(keys, 4), first)
  t.equal(signingAt(keys, 5), dated)
  t.equal(signingAt(keys, 100), dated)
  t.same(keys.map((key) => endOfSigning(key, keys)), [-Infinity, 5, -Infinity, Infinity])
  t.equal(signingAt([open, dated], 4), undefined)
  t.same([nextSwitch(keys, 0), nextSwitch(keys, 5)], [5, Infinity])
})

t.test('a date is a Date, or ISO 8601 text with a time zone', async (t) => {
  const at = Date.UTC(2027, 0, 2, 3, 4, 5, 678)
  for (const date of [new Date(at), '2027-01-02T03:04:05.678Z', '2027-01-02T04:04:05.678+01:00', '2027-01-01T22:04:05.678-05:00']) assert.equal(readDate(date), at, caseOf(date))
  t.equal(readDate('2028-02-29T00:00Z'), Date.UTC(2028, 1, 29))
  t.equal(readDate('1970-01-01T00:00:00Z'), 0)
  const latest = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
  for (const date of [new Date(latest), '9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999999999Z']) assert.equal(readDate(date), latest, caseOf(date))
  const none = [
    new Date(latest + 1), '9999-12-31T23:59:59-00:01', '2027-01-01T00:00:00.0000000001Z', '2027-01-01T00:00:00Z ', '2027-01-01T00:00:00Z (UTC)', '2027-01-01T00:00:00+01:00 (CET)', ' 2027-01-01T00:00:00Z',
    '2027-01-02', '2027-01-02T03:04:05', '2027-01-02 03:04:05Z', '2027-02-29T00:00:00Z', '2027-02-30T00:00:00Z', '2027-13-01T00:00:00Z', '2027-01-01T25:00:00Z', '2027-01-01T00:00:00z',
    '', 'tomorrow', '1969-12-31T23:59:59Z', new Date(NaN), new Date(8.64e15), new Date(-1), 1_800_000_000_000, null, {}, true
  ]
  for (const value of none) assert.equal(readDate(value), undefined, String(value))
})
