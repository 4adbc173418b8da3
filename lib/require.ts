/** What `require()` of the package gives: the plugin, which has the other exports as its properties. */
export { default } from './index.ts'
