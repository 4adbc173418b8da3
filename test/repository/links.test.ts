import t from 'tap'
import { brokenLinks } from './links.ts'

t.test('a link to a file or an anchor that is not there is broken, in whatever form it is written', async (t) => {
  const folder = t.testdir({
    'outside.md': '# Outside\n',
    package: {
      'README.md': `# A title, \`with.code\`: \`a_b <c>\` & more!
## Twice
## Twice
## [Linked](docs/page.md) heading
<a id="by-hand"></a>
\`\`\`md
## In code
[in code](none.md)
\`\`\`
A \`[in code](none.md)\` and [\`code\`](docs/none.md "title"), ![picture](none.png), <img alt="" src="picture.png">, <https://example.com>,
[anchor](#a-title-withcode-a_b-c--more), [first](#twice), [second](#twice-1), [third](#twice-2), [text](#linked-heading), [by hand](#by-hand),
[code](#in-code), [page](docs/page.md#page), [no chapter](docs/page.md#none), [folder](docs), [no page](docs#none), [web](https://example.com/none.md#none),
[space](docs/with%20space.md), [above](../outside.md), [root](/docs/page.md), [reference].
<!-- [in a comment](none.md) -->

[reference]: docs/reference.md
`,
      docs: { 'page.md': '# Page\n[up](../README.md#twice) [down](README.md) [here](#here)\n', 'with space.md': '' }
    }
  })
  t.same(brokenLinks(`${folder}/package`, ['README.md', 'docs/page.md']), [
    'README.md: docs/none.md', 'README.md: none.png', 'README.md: #twice-2', 'README.md: #in-code', 'README.md: docs/page.md#none', 'README.md: docs#none',
    'README.md: ../outside.md', 'README.md: /docs/page.md', 'README.md: docs/reference.md', 'README.md: picture.png',
    'docs/page.md: README.md', 'docs/page.md: #here'
  ])
})
