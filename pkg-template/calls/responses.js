// OpenAI's Responses API as chats: a request becomes one, its answer a response. Nothing is stored.
import { TabloomError } from "../error.js";
import { Answer } from "./responses-answer.js";
import { translated } from "./responses-request.js";

/** @import { ChatCompletion, ChatCompletionChunk, ChatCompletionParams } from "../types.js" */
/** @import { Event } from "./responses-answer.js" */
/** @import { Names } from "./responses-request.js" */

/**
 * The response, or its events where the request is for a stream.
 *
 * @param {any} params an object, otherwise unchecked
 * @param {(chat: ChatCompletionParams) => Promise<any>} complete
 * @returns {Promise<object | AsyncIterator<Event>>}
 */
export async function respond(params, complete) {
  const { chat, names } = translated(params);
  const answer = await complete(chat).catch((error) => {
    throw renamed(error, names);
  });
  return params.stream ? streamed(params, answer) : whole(params, answer);
}

/**
 * @param {any} params
 * @param {ChatCompletion} completion
 */
function whole(params, completion) {
  const [{ message, logprobs, finish_reason }] = completion.choices;
  const { reasoning_content, content, tool_calls = [] } = message;
  const calls = tool_calls.map((call, index) => ({ ...call, index }));
  const answer = new Answer(params, completion);
  answer.add({ reasoning_content, content, tool_calls: calls }, logprobs?.content);
  answer.end(finish_reason, completion.usage);
  return answer.response;
}

/**
 * The events of a response. As a plain iterator it can be left while an event is waited for.
 *
 * @param {any} params
 * @param {AsyncIterator<ChatCompletionChunk>} chunks
 * @returns {AsyncIterator<Event>}
 */
function streamed(params, chunks) {
  /** @type {Answer | undefined} */
  let answer;
  /** @type {ChatCompletionChunk["choices"][0]["finish_reason"]} */
  let reason = null;
  /** @type {ChatCompletionChunk["usage"]} */
  let usage;
  /** @type {Event[]} */
  let events = [];
  let over = false;

  async function read() {
    const { value: chunk, done } = await chunks.next();
    over = done === true;
    if (over) return answer?.end(reason, usage) ?? [];
    const begun = answer ? [] : (answer = new Answer(params, chunk)).begin();
    usage = chunk.usage ?? usage;
    const [choice] = chunk.choices;
    reason = choice?.finish_reason ?? reason;
    return [...begun, ...answer.add(choice?.delta ?? {}, choice?.logprobs?.content)];
  }

  return {
    async next() {
      while (events.length === 0 && !over) {
        events = await read().catch((error) => {
          // Before the response has begun, and for what is no error of the engine, there is no event.
          if (!answer || !(error instanceof TabloomError)) throw error;
          over = true;
          return answer.fail(error);
        });
      }
      const value = events.shift();
      return value ? { value, done: false } : { value: undefined, done: true };
    },
    async return() {
      await chunks.return?.();
      return { value: undefined, done: true };
    },
  };
}

/**
 * An error about the chat, as one about the request.
 *
 * @param {unknown} error
 * @param {Names} names
 */
function renamed(error, names) {
  if (!(error instanceof TabloomError) || error.param === null) return error;
  const { code, message, param, details } = error;
  const found = names.find(([chat]) => param.startsWith(chat));
  if (!found) return error;
  const own = found[1] + param.slice(found[0].length);
  return new TabloomError({ code, message: message.replace(param, () => own), param: own, details });
}
