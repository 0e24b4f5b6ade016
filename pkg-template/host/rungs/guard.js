import { crashed } from "../../error.js";

/** What a host says that may have any value, or none. */
const PLAIN = ["accepted", "alive", "value", "end"];

/** More choices than any answer has. */
const CHOICES = 1000;

/**
 * Keeps from a page what no host says: any script of the site can write to the channel. Ends `life` where one speaks
 * in the page's name.
 *
 * @param {BroadcastChannel} channel without listeners
 * @param {AbortController} life
 */
export function guard(channel, life) {
  let greeted = false;
  channel.addEventListener("message", (event) => {
    if (!isAnswer(event.data)) event.stopImmediatePropagation();
    const { type, asked } = event.data ?? {};
    greeted ||= type === "here";
    // The host takes it for the page's next message.
    if (greeted && asked) life.abort(crashed("another script speaks for this page"));
  });
}

/** @param {any} message */
function isAnswer(message) {
  const { type, epoch, error, progress, value, tokens } = message ?? {};
  if (type === "here") return Number.isSafeInteger(epoch);
  if (type === "error" || type === "failed") return typeof error?.code === "string";
  if (type === "progress") return typeof progress?.stage === "string";
  if (type !== "chunk") return PLAIN.includes(type);
  const choices = value?.choices;
  return Array.isArray(tokens) && Array.isArray(choices) && choices.every((choice) => choice?.index < CHOICES);
}
