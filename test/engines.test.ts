// @slow
/** The client and renewed pages in Firefox and WebKit. */
import t from 'tap'
import { testEngine } from './engine-tests.ts'
import { firefox, webKit } from './engines.ts'

for (const engine of [firefox, webKit]) testEngine(t, engine)
