/** The element's texts, with those of `view/later.js`; a page in another language changes them. */
export const TEXTS = {
  /** How numbers are written. */
  locale: "en",
  conversation: "Conversation",
  user: "You",
  assistant: "Assistant",
  title: "Private chat",
  promise: "The model runs in this browser. What you write stays on your device.",
  start: "Load the model",
  input: "Your message",
  placeholder: "Ask anything",
  send: "Send",
  stop: "Stop",
  clear: "New chat",
  copy: "Copy answer",
  copyQuestion: "Copy question",
  copyCode: "Copy code",
  edit: "Edit question",
  editing: "Sending makes another version of your question",
  cancel: "Cancel",
  again: "Regenerate",
  continue: "Continue",
  older: "Previous version",
  newer: "Next version",
  latest: "Go to the end",
  connecting: "Starting…",
  download: "Loading the model",
  compile: "Preparing the model",
  ready: "The model is ready",
  thinking: "The answer is being written",
  length: "Cut off at the token limit.",
  full: "Cut off: the context is full.",
  stopped: "Stopped.",
  forgotten: "The model no longer sees what is above: its context is full.",
  problem: "Something went wrong",
  retry: "Try again",
  processor: "Use the processor (slow)",
  attach: "Attach text files",
  attachments: "Attached",
  read: "Read aloud",
};

/**
 * Makes nodes of code; null leaves the text as it is.
 *
 * @callback CodeRenderer
 * @param {string} text
 * @param {string} language as the model named it, or empty
 * @returns {Node | null | Promise<Node | null>}
 */

/**
 * Makes nodes of a formula; null leaves the text as it is.
 *
 * @callback MathRenderer
 * @param {string} tex
 * @param {boolean} display whether it stands by itself, and not in a line of text
 * @returns {Node | null | Promise<Node | null>}
 */

/**
 * What a page brings for what the element shows as text: none of it is needed, and each is asked once, for a
 * text that is final.
 *
 * @type {{code: CodeRenderer | null, math: MathRenderer | null}}
 */
export const RENDERERS = { code: null, math: null };
