/**
 * Parts of `<tabloom-chat>`, for pages that build a chat of their own.
 *
 * @module tabloom/element/parts
 */

export { html, icon } from "./dom.js";
export { PENCIL } from "./icons.js";
export { PROSE } from "./prose/style.js";
export { codeOf, copy } from "./view/copy.js";
export { Follower } from "./view/follower.js";
export { Message } from "./view/message.js";
