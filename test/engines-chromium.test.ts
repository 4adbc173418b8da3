/** The client and renewed pages in Chromium, which `npm run test:quick` runs as well. */
import t from 'tap'
import { testEngine } from './engine-tests.ts'
import { chromium, endEngines } from './engines.ts'

t.teardown(endEngines)
testEngine(t, chromium)
