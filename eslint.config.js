import neostandard from 'neostandard'

export default [
  ...neostandard({
    ts: true,
    ignores: ['build/**', 'dist/**', '.tap/**', 'coverage/**', 'docs/public/**', 'docs/.vitepress/cache/**', 'docs/.vitepress/dist/**']
  }),
  {
    // Texts of messages and of documents are searched for, so they are not broken.
    files: ['lib/**/*.ts', 'types/**/*.ts'],
    ignores: ['types/**/*.tst.ts'],
    rules: { '@stylistic/max-len': ['error', { code: 140, ignoreComments: true, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true }] }
  },
  {
    // Files that run in browsers.
    files: ['examples/web/public/**'],
    languageOptions: { globals: { location: 'readonly' } }
  }
]
