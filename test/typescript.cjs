'use strict'

/** Loads TypeScript on Node.js 20, which cannot strip types: `node --require ./test/typescript.cjs <file>`. */
const { register } = require('node:module')
const { pathToFileURL } = require('node:url')

if (!process.features.typescript) register('./typescript-hooks.mjs', pathToFileURL(__filename))
