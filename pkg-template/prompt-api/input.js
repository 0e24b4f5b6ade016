// The Prompt API's messages, checked, in the engine's terms.
import { unsupported } from "./errors.js";
import { callOf, resultOf } from "./tools.js";

/** @import { AssistantMessage, ChatMessage, ToolCall, ToolMessage } from "../types.js" */
/** @import { Content, Message } from "./convert.js" */

/** Stands for a text of the user that says nothing, which engines refuse: a space without width. */
const NOTHING = "\u200b";

/**
 * Checked messages; the model continues `prefix`, the last of them, unless it is empty.
 *
 * @typedef {{messages: ChatMessage[], prefix: string}} Input
 */

/**
 * @param {Message[]} prompt
 * @param {Set<string>} types of content that are expected
 * @param {boolean} late whether the conversation has messages already
 * @param {string} [hint] added to the user's last message
 * @returns {Input}
 */
export function messagesOf(prompt, types, late, hint = "") {
  const given = prompt.length > 0 ? prompt : [nothing()];
  check(given, types, late);
  const last = given[given.length - 1];
  const prefix = last?.prefix ? textOf(last.content) : "";
  const messages = (last?.prefix ? given.slice(0, -1) : given).flatMap(translated);
  const question = messages.findLast(({ role }) => role === "user");
  if (question) question.content += hint;
  return { messages, prefix };
}

/**
 * The messages with the prefix as the last of them.
 *
 * @param {Input} input
 */
export function whole({ messages, prefix }) {
  return prefix ? [...messages, said(prefix)] : messages;
}

/** @returns {Message} */
function nothing() {
  return { role: "user", content: [], prefix: false };
}

/**
 * @param {Message[]} messages
 * @param {Set<string>} types
 * @param {boolean} late
 */
function check(messages, types, late) {
  messages.forEach(({ role, content, prefix }, i) => {
    if (prefix && (role !== "assistant" || i < messages.length - 1)) {
      throw new DOMException("found prefix, expected it in a last message of the assistant", "SyntaxError");
    }
    if (role === "system" && (late || i > 0)) {
      throw new TypeError("found a message of the system, expected it first in a session");
    }
    for (const part of content) checkPart(part, role, types);
  });
}

/**
 * @param {Content} part
 * @param {string} role
 * @param {Set<string>} types
 */
function checkPart({ type, value }, role, types) {
  const kind = Object.prototype.toString.call(value);
  if (type === "text") {
    if (typeof value !== "string") throw new TypeError(`found ${kind} as text, expected a string`);
    return;
  }
  const of = { "tool-call": "assistant", "tool-response": "user" };
  const writer = type === "tool-call" || type === "tool-response" ? of[type] : null;
  if (writer && role !== writer) {
    throw new TypeError(`found ${type} in a message of the ${role}, expected it in one of the ${writer}`);
  }
  if (!types.has(type)) {
    throw unsupported(`found ${type}, expected text, or it in expectedInputs`);
  }
  const expected = type === "tool-call" ? /ToolCall\]$/ : /Tool(Success|Error)\]$/;
  if (!expected.test(kind)) throw new TypeError(`found ${kind} as ${type}, expected an object of its class`);
}

/**
 * @param {Message} message
 * @returns {ChatMessage[]}
 */
function translated({ role, content }) {
  const text = textOf(content);
  if (role === "system") return [{ role, content: text }];
  if (role === "assistant") return [said(text, valuesOf(content, "tool-call").map(callOf))];
  const results = valuesOf(content, "tool-response").map(resultOf);
  if (results.length > 0 && text === "") return results;
  return [...results, { role, content: text.trim() ? text : text + NOTHING }];
}

/**
 * A message of the assistant, which is over.
 *
 * @param {string} text
 * @param {ToolCall[]} [calls]
 * @param {string} [thoughts]
 * @returns {AssistantMessage}
 */
export function said(text, calls = [], thoughts = "") {
  return {
    role: "assistant",
    content: text || calls.length === 0 ? text : null,
    prefix: false,
    ...(thoughts && { reasoning_content: thoughts }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** @param {Content[]} content */
function textOf(content) {
  return valuesOf(content, "text").join("");
}

/**
 * @param {Content[]} content
 * @param {Content["type"]} type
 * @returns {any[]}
 */
function valuesOf(content, type) {
  return content.filter((part) => part.type === type).map(({ value }) => value);
}
