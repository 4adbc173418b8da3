import neostandard from 'neostandard'

export default [
  ...neostandard({
    ts: true,
    ignores: ['build/**', 'dist/**', '.tap/**', 'coverage/**', 'docs/public/**', 'docs/.vitepress/cache/**', 'docs/.vitepress/dist/**']
  }),
  {
    // Files that run in browsers.
    files: ['examples/web/public/**'],
    languageOptions: { globals: { location: 'readonly' } }
  }
]
