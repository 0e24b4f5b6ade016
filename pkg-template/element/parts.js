/**
 * Parts of `<tabloom-chat>`, for pages that build a chat of their own.
 *
 * @module tabloom/element/parts
 */

export { isGone } from "./answering.js";
export { Chat } from "./chat.js";
export { grow, html, icon } from "./dom.js";
export { History, checked } from "./history.js";
export { Rendered } from "./prose/render.js";
export { RENDERERS } from "./prose/renderers.js";
export { unquote } from "./quotes.js";
export { TEXTS } from "./texts.js";
export { titleOf } from "./title.js";
export { amountOf } from "./view/amount.js";
export { Follower } from "./view/follower.js";
export { Message } from "./view/message.js";
export { sentenceOf } from "./view/problems.js";
