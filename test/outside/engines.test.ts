// @alone
/** The client and renewed pages in Chromium, Firefox and WebKit. */
import t from 'tap'
import { testEngine } from './engine-tests.ts'
import { chromium, endEngines, firefox, webKit } from './engines.ts'

t.teardown(endEngines)
for (const engine of [chromium, firefox, webKit]) testEngine(t, engine)
