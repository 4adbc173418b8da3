/** How forms are sent by scripts: once at a time, and what went wrong is said on the page. */

/** In milliseconds. Then the page says that it waits. */
const patience = 5000

/** Shows what is wrong with the fields of a form, and moves the focus to the first one. @param errors messages by the names of the fields */
export function showErrors (form, errors) {
  const wrong = [...form.elements].filter(({ name }) => name && Object.hasOwn(errors, name))
  for (const field of form.elements) {
    const message = document.getElementById(`${field.name}-error`)
    if (message === null) continue
    message.textContent = wrong.includes(field) ? errors[field.name] : ''
    if (wrong.includes(field)) field.setAttribute('aria-invalid', 'true')
    else field.removeAttribute('aria-invalid')
  }
  wrong[0]?.focus()
}

/** Runs a function, and shows the message of its error on the page. @returns whether it succeeded */
export async function withMessage (run) {
  const message = document.getElementById('message')
  message.textContent = ''
  try {
    await run()
    return true
  } catch (error) {
    message.textContent = error.message
    // The form may be long. A wrong field says so itself, and has the focus.
    if (!document.activeElement?.matches('[aria-invalid=true]')) message.scrollIntoView({ block: 'nearest' })
    return false
  }
}

/**
 * Calls a function when a form is sent. Meanwhile, its button says so and keeps the focus, which a disabled button would lose,
 * and the form cannot be sent again. After a success, this lasts until the page is left.
 * @param run leads to another page, or throws what is to be said. It is given the button
 */
export function onSubmit (form, run) {
  const buttons = [...form.querySelectorAll('button')]
  const waiting = document.getElementById('waiting')
  let end

  function begin (button) {
    const { textContent: text, dataset: { busy = 'Saving...' } } = button
    const name = button.getAttribute('aria-label')
    const timer = setTimeout(() => { waiting.textContent = 'The service has not answered yet. This page waits for it.' }, patience)
    for (const each of buttons) each.setAttribute('aria-disabled', 'true')
    button.textContent = busy
    button.removeAttribute('aria-label')
    end = () => {
      clearTimeout(timer)
      waiting.textContent = ''
      for (const each of buttons) each.removeAttribute('aria-disabled')
      button.textContent = text
      if (name !== null) button.setAttribute('aria-label', name)
      end = undefined
    }
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (end !== undefined) return
    const button = event.submitter ?? buttons[0]
    begin(button)
    if (!await withMessage(() => run(button))) end?.()
  })
  // The browser shows the page as it was left.
  window.addEventListener('pageshow', ({ persisted }) => { if (persisted) end?.() })
}
