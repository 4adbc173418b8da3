import neostandard from 'neostandard'

export default [
  ...neostandard({
    ts: true,
    ignores: ['dist/**', '.tap/**', 'coverage/**', 'docs/api/**']
  }),
  {
    // Files that run in browsers.
    files: ['examples/web/public/**'],
    languageOptions: { globals: { location: 'readonly' } }
  }
]
