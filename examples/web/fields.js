/** What a form says about wrong fields: each has a message of its own, and the first one has the focus. */
import { html } from './html.js'

/** The attributes of a field. @param errors messages by the names of the wrong fields */
export const attributesOf = (name, errors) => html`id="${name}" name="${name}" aria-describedby="${name}-error"${Object.hasOwn(errors, name) && html` aria-invalid="true"`}${Object.keys(errors)[0] === name && html` autofocus`}`

/** The message of a field. Scripts fill it in, too, so it is also there when it is empty. */
export const messageOf = (name, errors) => html`<p id="${name}-error" class="error">${errors[name]}</p>`
