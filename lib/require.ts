/** The value that `require()` of the package returns: the plugin, with the other exports as its properties. */
export { default } from './index.ts'
