// Measures an engine as a page sees it.

/** Tokens per answer. */
export const TOKENS = 48;
/** Requests at once. */
export const LOADS = [1, 2, 4];

/**
 * @typedef {object} Run
 * @property {number} requests how many were answered at once
 * @property {boolean} drafts whether speculative decoding was on
 * @property {number} first_token_ms from the request to the first text, mean of all requests
 * @property {number} tokens_per_second of all requests together
 * @property {number} tokens of all requests together
 * @property {number} accepted_tokens how many of them were draft tokens
 */

/**
 * Measures one run after the other.
 *
 * @param {import("./tabloom/index.js").Engine} engine
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Run>}
 */
export async function* measure(engine, signal) {
  // One-off work, such as reading kernels in, is not measured.
  await answer(engine, 0, true, signal);
  for (const requests of LOADS) {
    for (const drafts of [false, true]) yield await together(engine, requests, drafts, signal);
  }
}

/**
 * @param {import("./tabloom/index.js").Engine} engine
 * @param {number} requests
 * @param {boolean} drafts
 * @param {AbortSignal} signal
 * @returns {Promise<Run>}
 */
async function together(engine, requests, drafts, signal) {
  const began = performance.now();
  const all = Array.from({ length: requests }, (_, i) => answer(engine, i, drafts, signal));
  // None is left running when one fails.
  const ended = await Promise.allSettled(all);
  const seconds = (performance.now() - began) / 1000;
  const answers = ended.map((end) => {
    if (end.status === "rejected") throw end.reason;
    return end.value;
  });
  const sum = (/** @type {(answer: any) => number} */ part) =>
    answers.reduce((total, answer) => total + part(answer), 0);
  const tokens = sum(({ usage }) => usage.completion_tokens);
  return {
    requests,
    drafts,
    first_token_ms: round(sum(({ first }) => first) / requests),
    tokens_per_second: round(tokens / seconds),
    tokens,
    accepted_tokens: sum(({ usage }) => usage.completion_tokens_details.accepted_prediction_tokens),
  };
}

/**
 * @param {import("./tabloom/index.js").Engine} engine
 * @param {number} i
 * @param {boolean} drafts
 * @param {AbortSignal} signal
 */
async function answer(engine, i, drafts, signal) {
  const began = performance.now();
  let [first, usage] = [0, /** @type {any} */ (null)];
  // No two prompts begin alike: a hit in the prefix cache would shorten the time to the first token.
  const content = `${crypto.randomUUID().slice(0, 8)} ${i}: Tell me a story about a fox.`;
  const chunks = await engine.chat.completions.create(
    {
      messages: [{ role: "user", content }],
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0,
      max_completion_tokens: TOKENS,
      ignore_eos: true,
      speculative_decoding: drafts,
    },
    { signal },
  );
  for await (const chunk of chunks) {
    if (chunk.choices[0]?.delta.content) first ||= performance.now() - began;
    usage = chunk.usage ?? usage;
  }
  return { first, usage };
}

/** @param {number} value to three digits */
function round(value) {
  return Number(value.toPrecision(3));
}
