// OpenAI's HTTP API over an engine. A request leaves the page only where the engine's fallback answers.
import { TabloomError } from "../error.js";
import { unread } from "../found.js";
import { iterable } from "../iterable.js";
import { plain } from "./arguments.js";

/** What follows an origin and a base path. */
const ROUTE = /\/v1\/(?:(chat\/completions|completions|embeddings|responses)|models(?:\/(.+))?)$/;

/** HTTP status by error code, as in `examples/serve`. */
const STATUS = new Map(
  Object.entries({
    invalid_request: 400,
    context_length_exceeded: 400,
    no_token_allowed: 400,
    template: 400,
    not_found: 404,
    model_not_found: 404,
    method_not_allowed: 405,
    queue_full: 429,
    aborted: 499,
    closed: 503,
    device_lost: 503,
    device_lost_again: 503,
    out_of_memory: 503,
  }),
);

/** @import { ChatCompletionParams, CreateChatCompletion, CreateCompletion } from "../types.js" */
/** @import { CreateEmbedding, EngineInfo, ModelList } from "../types.js" */

/**
 * What answers: of an engine, what OpenAI's API has.
 *
 * @typedef {object} Engine
 * @property {EngineInfo} info
 * @property {{completions: {create: CreateChatCompletion}}} chat
 * @property {{create: CreateCompletion}} completions
 * @property {{create: CreateEmbedding}} embeddings
 * @property {{list: () => Promise<ModelList>}} models
 */

/**
 * Answers a request as a server with OpenAI's API would.
 *
 * @param {Engine} engine
 * @param {RequestInfo | URL} input
 * @param {RequestInit} [init]
 * @returns {Promise<Response>}
 */
export async function answer(engine, input, init) {
  /** @type {AbortSignal | undefined} */
  let signal;
  try {
    const request = await given(async () => new Request(input, init));
    signal = request.signal;
    signal.throwIfAborted();
    return await route(engine, request);
  } catch (error) {
    signal?.throwIfAborted();
    const { status, body } = failure(error);
    return Response.json(body, { status });
  }
}

/**
 * What the page gives to be asked.
 *
 * @template T
 * @param {() => Promise<T>} get
 * @returns {Promise<T>}
 */
async function given(get) {
  try {
    return await get();
  } catch (thrown) {
    throw unread("request", thrown, "what fetch takes");
  }
}

/**
 * @param {Engine} engine
 * @param {Request} request
 */
async function route(engine, request) {
  const { pathname } = new URL(request.url);
  const found = ROUTE.exec(pathname);
  if (!found) {
    const expected = "one of OpenAI's API, as /v1/chat/completions: a base address ends with /v1";
    throw refused("not_found", `found the path ${pathname}, expected ${expected}`);
  }
  const [, task, id] = found;
  const method = task ? "POST" : "GET";
  if (request.method !== method) {
    throw refused("method_not_allowed", `found ${request.method} ${pathname}, expected ${method}`);
  }
  if (!task) return models(engine, id);
  const params = parse(await given(() => request.text()));
  await known(engine, params.model);
  const { signal } = request;
  if (task === "embeddings") return Response.json(await engine.embeddings.create(params, { signal }));
  if (task === "responses") {
    const { respond } = await import("./responses.js");
    const chat = (/** @type {ChatCompletionParams} */ chat) => engine.chat.completions.create(chat, { signal });
    const answer = await plain(params, (copy) => respond(copy, chat));
    return params.stream ? events(/** @type {AsyncIterator<object>} */ (answer), "") : Response.json(answer);
  }
  /** @type {any} */
  const completions = task === "completions" ? engine.completions : engine.chat.completions;
  const answer = await completions.create(params, { signal });
  return params.stream ? events(answer) : Response.json(answer);
}

/**
 * @param {Engine} engine
 * @param {string} [id] of one model, encoded as in the address
 */
async function models(engine, id) {
  return Response.json(id === undefined ? await engine.models.list() : await known(engine, decoded(id)));
}

/**
 * The model with this name, or the engine's model where there is no name.
 *
 * @param {Engine} engine
 * @param {unknown} name
 */
async function known(engine, name) {
  const { data } = await engine.models.list();
  const { info } = engine;
  // The engine refuses a name that is no text.
  const isMeant = typeof name !== "string" || name === info.model || name === info.name;
  if (isMeant) return data[0];
  const expected = [info.model, info.name]
    .filter((it) => it !== null)
    .map((it) => `"${it}"`)
    .join(" or ");
  throw refused("model_not_found", `found model "${name}", expected ${expected}`, "model");
}

/** @param {string} id */
function decoded(id) {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}

/**
 * @param {string} text
 * @returns {any} an object
 */
function parse(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (/** @type {any} */ error) {
    throw refused("invalid_request", `found a body that is no JSON: ${error.message}`);
  }
  if (typeof value === "object" && value !== null) return value;
  const message = `found ${text.slice(0, 40)} as the body, expected a JSON object`;
  throw refused("invalid_request", message, "request");
}

/**
 * A body of server-sent events, each written when the body is read.
 *
 * @param {AsyncIterator<object>} chunks those with a type are named by it
 * @param {string} [last] what is written after them
 */
function events(chunks, last = "data: [DONE]\n\n") {
  const encoder = new TextEncoder();
  const event = (/** @type {any} */ value) =>
    `${value.type ? `event: ${value.type}\n` : ""}data: ${JSON.stringify(value)}\n\n`;
  const body = new ReadableStream(
    {
      async pull(controller) {
        try {
          const { value, done } = await chunks.next();
          controller.enqueue(encoder.encode(done ? last : event(value)));
          if (done) controller.close();
        } catch (error) {
          controller.enqueue(encoder.encode(event(failure(error).body)));
          controller.close();
        }
      },
      async cancel() {
        await chunks.return?.();
      },
    },
    { highWaterMark: 0 },
  );
  const response = new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-cache" },
  });
  iterable(/** @type {ReadableStream} */ (response.body));
  return response;
}

/**
 * OpenAI's error object, and its status. Throws what is no error of the engine.
 *
 * @param {unknown} error
 */
function failure(error) {
  if (!(error instanceof TabloomError)) throw error;
  const { code, message, param } = error;
  const status = STATUS.get(code) ?? 500;
  return { status, body: { error: { message, type: kind(status), param, code } } };
}

/** @param {number} status */
function kind(status) {
  if (status >= 500) return "server_error";
  if (status === 429) return "rate_limit_error";
  return status === 499 ? "aborted" : "invalid_request_error";
}

/**
 * @param {import("../types.js").ErrorCode} code
 * @param {string} message
 * @param {string} [param]
 */
function refused(code, message, param) {
  return new TabloomError({ code, message, param });
}
