/** Keys in many spellings, and how their refusal is judged. */
import assert from 'node:assert/strict'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { inspect } from 'node:util'
import { InvalidConfiguration } from '../../lib/configuration-errors.ts'
import { ecPair, edPair, rsaPair } from '../helper.ts'

/** A certificate whose private key is thrown away, and a token that was signed with it before. */
export const certificate = `-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUSx5J1rF924G6yasZ15ETEU06bqQwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjEwNjE1NTRaGA8yMTI2MTAyODA2MTU1
NFowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABB/Y
y9vYyYej8/wPhkScTwdgT0NPrnuUhrj7uziDWKOc2mdSRteiWUlVLzxC2Ns1MDqc
g8I4rO8UZLTOyOUOVN2jUzBRMB0GA1UdDgQWBBSbA/q4I5NODVbO0DHA+jnAQOp2
PTAfBgNVHSMEGDAWgBSbA/q4I5NODVbO0DHA+jnAQOp2PTAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIFTCE88McgRp/vvtn5dvQFBZl1g7DPm8RBUi
ZdGX3H9CAiEAgfFKbW5wDKQMhyd7an6u4ZtsGUTpWODDnYQngv/hdus=
-----END CERTIFICATE-----
`
export const certified = 'eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJ1c2VyX2lkIjoxfQ.XsQzL-X35kKM779yvgI5fYEtXmETNnaNZAwtxfRSEPw96jpIh7rjf2BLL1wzv9lDlzWiLQYAqIeK-NRN6lC0Ig'

export const rsa = rsaPair()
export const ec = ecPair('prime256v1')
export const ed = edPair()
export const rsaPublic = createPublicKey(rsa.publicKey)
export const rsaPrivate = createPrivateKey(rsa.privateKey)
export const ecPublic = createPublicKey(ec.publicKey)
export const ecPrivate = createPrivateKey(ec.privateKey)

/** Encrypts with the passphrase "x". PKCS 8, or one of the older forms. */
export const encrypted = (pem: string, type: 'pkcs8' | 'pkcs1' | 'sec1' = 'pkcs8', passphrase = 'x') =>
  createPrivateKey(pem).export({ type, format: 'pem', cipher: 'aes-256-cbc', passphrase }).toString()

export const base64 = (content: string | Buffer, encoding: 'base64' | 'base64url' = 'base64') => Buffer.from(content).toString(encoding)

/** Expects an InvalidConfiguration with a message, in which nothing of the canaries is shown. */
export function refused (title: string, shown: RegExp, read: () => unknown, ...canaries: string[]): void {
  assert.throws(read, (error: unknown) => {
    assert.ok(error instanceof InvalidConfiguration, title)
    assert.match(error.message, shown, title)
    const text = inspect(error, { depth: null, showHidden: true })
    const parts = canaries.map((canary) => canary.replace(/-----[^-]+-----\s*/g, '').slice(0, 20)).filter((part) => part !== '' && !part.startsWith('[object'))
    assert.deepEqual(parts.filter((part) => text.includes(part)), [], `${title} is not shown`)
    return true
  }, `${title} was accepted`)
}
