import { element, load, withMessage } from '/session.js'

withMessage(async () => {
  const { me } = await load('/auth/me')
  const rows = { Name: me.name, Number: me.user_id, Scopes: me.scopes.join(', ') }
  document.getElementById('profile').replaceChildren(
    ...Object.entries(rows).flatMap(([title, text]) => [element('dt', {}, title), element('dd', {}, String(text))]))
})
