'use strict'

/**
 * Transpiles TypeScript for the test runner on Node.js 20, which cannot strip types; see tsconfig.json. Every test file
 * is a process that loads most of lib/: without a cache, each of them spends about a second on transpiling the same files.
 */
const { createHash } = require('node:crypto')
const { mkdirSync, readFileSync, renameSync, writeFileSync } = require('node:fs')
const { join, relative } = require('node:path')
const ts = require('typescript')

const root = join(__dirname, '..')
const cache = join(root, 'node_modules/.cache/transpiled')

function read (path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return {}
  }
}

exports.create = ({ service }) => {
  const compilerOptions = { ...service.config.options, module: ts.ModuleKind.ESNext }
  const setup = JSON.stringify([ts.version, compilerOptions])
  mkdirSync(cache, { recursive: true })
  return {
    transpile (source, { fileName }) {
      const path = join(cache, encodeURIComponent(relative(root, fileName)))
      const digest = createHash('sha256').update(setup).update(source).digest('base64url')
      const cached = read(path)
      if (cached.digest === digest) return cached
      const { outputText, sourceMapText } = ts.transpileModule(source, { fileName, compilerOptions })
      // Renamed when it is complete, because test files run at the same time.
      const draft = `${path}.${process.pid}`
      writeFileSync(draft, JSON.stringify({ digest, outputText, sourceMapText }))
      renameSync(draft, path)
      return { outputText, sourceMapText }
    }
  }
}
