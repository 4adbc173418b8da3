/**
 * The declarations of the package: a few files, which compilers read faster than one for each file of lib/ and types/, and
 * without the types of TypeBox. They are CommonJS declarations (`.d.cts`), which both kinds of modules can read, so that an
 * application with both has one declaration of everything. The `.d.ts` files name the same for ES modules.
 */
import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { rollup } from 'rollup'
import { dts } from 'rollup-plugin-dts'
import ts from 'typescript'

const entries = { declarations: 'build/lib/index.d.ts', client: 'build/lib/client.d.ts', testing: 'build/lib/testing.d.ts' }

const simpleTypes = { TAny: 'any', TBoolean: 'boolean', TInteger: 'number', TNull: 'null', TString: 'string' }

/** Returns the type of the values that a type of TypeBox describes. */
function valuesOf (node, source) {
  const name = (node.typeName ?? node.qualifier)?.getText(source).split('.').at(-1)
  const [argument] = node.typeArguments ?? []
  if (simpleTypes[name] !== undefined) return simpleTypes[name]
  if (name === 'TLiteral' || name === 'TUnsafe') return argument.getText(source)
  if (name === 'TUnion' && ts.isTupleTypeNode(argument)) return argument.elements.map((element) => valuesOf(element, source)).join(' | ')
  if (name === 'TUnion' && ts.isArrayTypeNode(argument)) return valuesOf(argument.elementType, source)
  throw new Error(`scripts/build/declarations.js does not know the type ${node.getText(source)} of a setting.`)
}

/** Writes out the types of the settings, which the sources derive from the schema, with the comments of the schema. */
function withoutSchema (text) {
  const source = ts.createSourceFile('schema.d.ts', text, ts.ScriptTarget.Latest, true)
  const [schema] = source.statements.flatMap((node) => ts.isVariableStatement(node) ? [...node.declarationList.declarations] : []).filter(({ name }) => name.text === 'settingsSchema')
  const properties = schema.type.typeArguments[0].members.map((member) => {
    const [comment] = ts.getJSDocCommentsAndTags(member)
    return `    ${comment.getText(source)}\n    ${member.name.getText(source)}: ${valuesOf(member.type, source)};`
  })
  const kept = source.statements.filter((node) => node !== schema.parent.parent && node.moduleSpecifier?.text !== '@sinclair/typebox')
  return kept.map((node) => ts.isTypeAliasDeclaration(node) && node.name.text === 'SettingTypes'
    ? `/** The types of all settings. */\nexport interface SettingTypes {\n${properties.join('\n')}\n}`
    : node.getFullText(source)).join('\n')
}

const readDeclarations = {
  name: 'declarations',
  // The compiler leaves the endings of the sources in declarations.
  resolveId: (id, from) => from !== undefined && id.startsWith('.') ? join(dirname(from), id.replace(/(?:\.d)?\.ts$/, '.d.ts')) : null,
  load: (path) => path.endsWith(join('lib', 'settings', 'schema.d.ts')) ? withoutSchema(readFileSync(path, 'utf8')) : null
}

/**
 * The plugin for `require()`: a function with everything else as its properties, as the plugins of the Fastify organization
 * are declared. Only so does each of `import x = require()`, `import x` and `import { x }` compile in CommonJS.
 * @param names what the entry exports
 */
function requiredPlugin (names) {
  const others = names.filter((name) => !['default', 'tokenAuth'].includes(name))
  return `import type { FastifyInstance } from 'fastify';
import { ${others.join(', ')} } from './declarations.cjs';

/** The plugin, with every named export as a property. */
declare function tokenAuth(fastify: FastifyInstance, options: TokenAuthOptions): Promise<void>;
declare namespace tokenAuth {
    export { ${others.join(', ')}, tokenAuth, tokenAuth as default };
}
export = tokenAuth;
`
}

/** Returns the files of declarations by their names. */
export async function declarations () {
  const bundle = await rollup({
    input: entries,
    external: (id) => !/^[./]/.test(id),
    plugins: [readDeclarations, dts()],
    onwarn () {}
  })
  const { output } = await bundle.generate({ format: 'es', entryFileNames: '[name].d.cts', chunkFileNames: ({ name }) => `shared-${basename(name, '.d')}.d.cts` })
  await bundle.close()
  const files = {}
  for (const { fileName, code } of output) {
    if (code.includes('@sinclair/typebox')) throw new Error(`${fileName} needs the types of TypeBox. Write the type out, as scripts/build/declarations.js does for the settings.`)
    files[fileName] = code
      // Types of packages are found by the imports that remain.
      .replaceAll(/^import '[^']+';\n/gm, '')
      .replaceAll(/ from '(\.\/[\w-]+)(?:\.d)?\.c?[tj]s'/g, " from '$1.cjs'")
  }
  const { exports } = output.find(({ name }) => name === 'declarations')
  return {
    ...files,
    'index.d.cts': requiredPlugin(exports),
    'index.d.ts': "export * from './declarations.cjs';\nexport { tokenAuth as default } from './declarations.cjs';\n",
    'client.d.ts': "export * from './client.cjs';\n",
    'testing.d.ts': "export * from './testing.cjs';\n"
  }
}
