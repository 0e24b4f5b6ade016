// Measures an engine as a page sees it.

/** Tokens per answer. */
export const TOKENS = 48;
/** Requests at once. */
export const LOADS = [1, 2, 4];
/** How often each is measured. */
export const ROUNDS = 3;

/**
 * @typedef {object} Sample
 * @property {number} requests how many were answered at once
 * @property {boolean} drafts whether speculative decoding was on
 * @property {number} first_token_ms from the request to the first text, mean of all requests
 * @property {number} tokens_per_second of all requests together
 * @property {number} tokens of all requests together
 * @property {number} accepted_tokens how many of them were draft tokens
 * @property {number} drafted_tokens how many tokens were drafted
 */

/**
 * The medians of samples, and between which rates they lie. Reports of earlier versions of the page have one sample a
 * run, without `least` and `most`, or do not say how many tokens were drafted.
 *
 * @typedef {Sample & {samples?: number, tokens_per_second_least?: number, tokens_per_second_most?: number}} Run
 */

/**
 * Measures one sample after the other: each load once, and all of them again, so that no load has a better time than
 * the others.
 *
 * @param {import("./tabloom/index.js").Engine} engine
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Sample>}
 */
export async function* measure(engine, signal) {
  // One-off work, such as reading kernels in, is not measured.
  await answer(engine, 0, true, signal);
  for (let round = 0; round < ROUNDS; round++) {
    for (const requests of LOADS) {
      for (const drafts of [false, true]) yield await together(engine, requests, drafts, signal);
    }
  }
}

/**
 * The runs that samples are of, in order.
 *
 * @param {Sample[]} samples
 * @returns {Run[]}
 */
export function runsOf(samples) {
  const runs = Map.groupBy(samples, ({ requests, drafts }) => `${requests} ${drafts}`);
  return [...runs.values()].map((samples) => {
    const middle = (/** @type {keyof Sample} */ name) => round(median(samples.map((sample) => Number(sample[name]))));
    const rates = samples.map(({ tokens_per_second }) => tokens_per_second);
    return {
      ...samples[0],
      samples: samples.length,
      first_token_ms: middle("first_token_ms"),
      tokens_per_second: middle("tokens_per_second"),
      tokens_per_second_least: round(Math.min(...rates)),
      tokens_per_second_most: round(Math.max(...rates)),
      accepted_tokens: middle("accepted_tokens"),
      drafted_tokens: middle("drafted_tokens"),
    };
  });
}

/**
 * Whether an engine with a drafter has stopped drafting: it drafts as long as that pays, and learns that as it goes.
 *
 * @param {Run} run
 */
export function paused({ drafts, tokens, drafted_tokens }) {
  return drafts && drafted_tokens < tokens / 10;
}

/**
 * Between which rates a run's samples lie.
 *
 * @param {Run} run
 */
export function spread({ tokens_per_second: rate, tokens_per_second_least, tokens_per_second_most }) {
  return { least: tokens_per_second_least ?? rate, most: tokens_per_second_most ?? rate };
}

/**
 * How much faster a run is than one before, as a share of that; null where their samples overlap: that is noise.
 *
 * @param {Run} run
 * @param {Run} before
 */
export function change(run, before) {
  const [now, then] = [spread(run), spread(before)];
  if (now.least <= then.most && then.least <= now.most) return null;
  return run.tokens_per_second / before.tokens_per_second - 1;
}

/**
 * Tokens per second of each answer, over all runs.
 *
 * @param {Run[]} runs
 */
export function rateOfAnswers(runs) {
  const spent = runs.reduce((sum, run) => sum + run.requests / run.tokens_per_second, 0);
  return runs.length / spent;
}

/** @param {number[]} values */
function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return (low + high) / 2;
}

/**
 * @param {import("./tabloom/index.js").Engine} engine
 * @param {number} requests
 * @param {boolean} drafts
 * @param {AbortSignal} signal
 * @returns {Promise<Sample>}
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
  const accepted = sum(({ usage }) => usage.completion_tokens_details.accepted_prediction_tokens);
  const rejected = sum(({ usage }) => usage.completion_tokens_details.rejected_prediction_tokens);
  return {
    requests,
    drafts,
    first_token_ms: sum(({ first }) => first) / requests,
    tokens_per_second: tokens / seconds,
    tokens,
    accepted_tokens: accepted,
    drafted_tokens: accepted + rejected,
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
