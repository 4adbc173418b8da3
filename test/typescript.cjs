'use strict'

/**
 * Loads TypeScript in the test runner on Node.js 20, which cannot strip types. The test runner's own transpiler loads the
 * compiler in each process, which is more than a second for each test file. This file is required, not imported: what
 * measures the coverage registers its hooks later, and so sees the code that is executed.
 */
const { register } = require('node:module')
const { pathToFileURL } = require('node:url')

if (Number.parseInt(process.versions.node, 10) < 22) register('./typescript-hooks.mjs', pathToFileURL(__filename))
