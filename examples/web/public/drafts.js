const fields = 'textarea, select, input:not([type=password], [autocomplete*=password], [type=hidden], [type=file], [type=checkbox], [type=radio])'

/** Keeps what is typed into forms with the attribute data-draft. @returns a function that forgets the drafts of the user, for a logout */
export function keepDrafts (client) {
  let owner // the user of this page: what another one types after a login in another tab is not kept
  const known = new Promise((resolve) => {
    const find = () => client.user && resolve(owner ??= client.user.user_id)
    client.subscribe(find)
    find()
  })
  for (const form of document.querySelectorAll('form[data-draft]')) {
    const filled = () => [...form.querySelectorAll(fields)].filter(({ name }) => name)
    const key = () => `draft ${JSON.stringify([owner, location.pathname + location.search, form.getAttribute('id')])}`
    form.setAttribute('autocomplete', 'off') // the browser would put its own copy back for any user
    form.addEventListener('reset', () => known.then(() => sessionStorage.removeItem(key())))
    form.addEventListener('input', () => known.then(() => {
      if (client.user && client.user.user_id !== owner) return
      sessionStorage.setItem(key(), JSON.stringify(Object.fromEntries(filled().map(({ name, value }) => [name, value]))))
    }))
    known.then(() => {
      const draft = JSON.parse(sessionStorage.getItem(key()) ?? '{}')
      for (const field of filled()) field.value ||= draft[field.name] ?? ''
    })
  }
  return () => known.then(() => {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(`draft [${JSON.stringify(owner)},`)) sessionStorage.removeItem(key)
  })
}
