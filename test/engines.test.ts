// @outside
/** The client and renewed pages in Firefox and WebKit. */
import t from 'tap'
import { testEngine } from './engine-tests.ts'
import { endEngines, firefox, webKit } from './engines.ts'

t.teardown(endEngines)
for (const engine of [firefox, webKit]) testEngine(t, engine)
