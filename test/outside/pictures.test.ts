/** The pictures of the documents: `npm run pictures` takes them. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { inflateSync } from 'node:zlib'
import t from 'tap'
import { skip } from './browser.ts'

const script = fileURLToPath(new URL('../../scripts/pictures.js', import.meta.url))
const committed = fileURLToPath(new URL('../../docs', import.meta.url))
const sizes = {
  'pictures/reports.png': [800, 710],
  'pictures/devices.png': [390, 780],
  'public/devices-wide-light.png': [882, 701],
  'public/devices-wide-dark.png': [882, 701],
  'public/devices-narrow-light.png': [513, 701],
  'public/devices-narrow-dark.png': [513, 701]
}

/** Reads a PNG file (ISO/IEC 15948): its size, and how many different values the bytes of its pixels have. */
function readPicture (path: string) {
  const file = readFileSync(path)
  const chunks: Buffer[] = []
  // Each chunk is its length, its type, its data, and a checksum. The first one begins with the size.
  for (let at = 8; at < file.length; at += file.readUInt32BE(at) + 12) {
    if (file.toString('latin1', at + 4, at + 8) === 'IDAT') chunks.push(file.subarray(at + 8, at + 8 + file.readUInt32BE(at)))
  }
  return { file, size: [file.readUInt32BE(16), file.readUInt32BE(20)], values: new Set(inflateSync(Buffer.concat(chunks))).size }
}

t.test('the pictures show pages, in the size of those in the repository', { skip }, async (t) => {
  const folder = t.testdir({})
  await promisify(execFile)(process.execPath, [script, folder])
  for (const [name, size] of Object.entries(sizes)) {
    const taken = readPicture(join(folder, name))
    const inRepository = readPicture(join(committed, name))
    t.same(taken.size, size, name)
    t.same(inRepository.size, size, `${name} in the repository`)
    // A page without style or text has a few.
    for (const picture of [taken, inRepository]) t.ok(picture.values > 200, `${name} is not blank: ${picture.values}`)
    // The package has those in pictures/.
    t.ok(inRepository.file.length < (name.startsWith('pictures/') ? 60_000 : 70_000), `${name}: ${inRepository.file.length} bytes`)
  }
})
