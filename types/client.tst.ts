import { expect, test } from 'tstyche'
import { createClient, type Client, type SignedOutReason } from '../lib/client.ts'

interface User { id: number, name: string }

test('the type of the user is that of the client', () => {
  const client = createClient<User>()
  expect(client).type.toBe<Client<User>>()
  expect(client.user).type.toBe<User | null | undefined>()
  expect(client.load()).type.toBe<Promise<User | null>>()
  expect(createClient().user).type.toBe<unknown>()
})

test('a client of one type of users is none of another', () => {
  expect(createClient<{ id: string }>()).type.not.toBeAssignableTo<Client<User>>()
  expect(createClient<User>()).type.toBeAssignableTo<Client>()
})

test('user cannot be set, and listeners take nothing', () => {
  const client = createClient<User>()
  // @ts-expect-error Cannot assign to 'user' because it is a read-only property.
  client.user = null
  expect(client.subscribe).type.toBe<(listener: () => void) => () => void>()
  expect(client.token()).type.toBe<Promise<string | null>>()
})

test('the reasons are those of the documents', () => {
  expect<SignedOutReason>().type.toBe<'absent' | 'ended' | 'expired' | 'logout' | 'switched'>()
  expect(createClient).type.toBeCallableWith({ onSignedOut: (reason: SignedOutReason) => { console.log(reason) } })
  expect(createClient).type.not.toBeCallableWith({ onSignedout: () => {} })
  expect(createClient).type.not.toBeCallableWith({ mode: 'cookies' })
})
