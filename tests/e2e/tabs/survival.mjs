// What runs while a host dies, what it must come to, and by what that may be noticed.
import assert from "node:assert/strict";
import { STORY, text } from "./tabs.mjs";

/** Streams by name. */
const STREAMS = {
  // Beyond its end: drafts make the story itself a matter of a moment.
  greedy: { ...STORY.params, logprobs: true, top_logprobs: 2, ignore_eos: true, max_tokens: 260 },
  seeded: { ...STORY.params, temperature: 1, seed: 11, ignore_eos: true, max_tokens: 120 },
  "two choices": {
    ...STORY.params,
    n: 2,
    temperature: 1,
    seed: 12,
    ignore_eos: true,
    max_tokens: 90,
    logprobs: true,
    presence_penalty: 0.5,
    stop: ["never to be found"],
  },
};
const WHOLE = { ...STORY.params, n: 2, temperature: 1, seed: 13, ignore_eos: true, max_tokens: 90 };
/** Enough to be under way for a while. */
const INPUTS = Array.from({ length: 8 }, (_, i) => `${i} ${STORY.answer}`);

/** A moment on the clock that pages and workers have in common, in milliseconds. */
const now = () => performance.timeOrigin + performance.now();

function embeddings(tab) {
  return tab.run("embeddings", (input) => engine.embeddings.create({ input }), INPUTS);
}

/** Every answer as it is without a death, from an engine of its own. */
export async function undisturbed(session) {
  const visitor = await session.visitor();
  const [tab] = await visitor.tabs(1, { host: "private" });
  const expected = { whole: await tab.ask(WHOLE), embeddings: await embeddings(tab) };
  for (const [name, params] of Object.entries(STREAMS)) expected[name] = await tab.ask(params);
  assert.ok(text(expected.greedy).startsWith(STORY.answer));
  await visitor.close();
  return expected;
}

/**
 * Has `others` ask for every kind of answer, then `kill` the host in the middle. Returns when the
 * killing began, and the workers that were born since.
 */
export async function survive(others, kill, expected) {
  const [first] = others;
  const old = await first.hosts();
  const streaming = Object.entries(STREAMS).map(([name, params], i) => [others[i % others.length], name, params]);
  await Promise.all(streaming.map(([tab, name, params]) => tab.begin(name, params)));
  let answered = 0;
  const count = (answer) => {
    answered++;
    return answer;
  };
  const whole = first.ask(WHOLE).then(count);
  const vectors = embeddings(others.at(-1)).then(count);
  await Promise.all(streaming.map(([tab, name]) => tab.pieces(name, 8)));
  assert.equal(answered, 0, "answers before the host died");
  const killed = now();
  await kill();

  for (const [tab, name] of streaming) {
    assert.deepEqual(await tab.answer(name), expected[name], `${name} in ${tab.name}`);
    const { times } = await tab.stream(name);
    assert.ok(times.at(-1) > killed, `${name} had ended before the host died`);
  }
  assert.deepEqual(await whole, expected.whole);
  assert.deepEqual(await vectors, expected.embeddings);
  const known = new Set(old.map(({ id }) => id));
  const hosts = (await first.hosts()).filter((host) => host && !known.has(host.id));
  return { killed, hosts };
}

/** The same where locks and messages tell of the death: without a heartbeat silence says nothing. */
export async function notice(others, kill, expected) {
  const beat = (beats) => Promise.all(others.map((tab) => tab.page.evaluate((beats) => setHeartbeat(beats), beats)));
  await beat(false);
  const { killed, hosts } = await survive(others, kill, expected);
  await beat(true);
  assert.equal(hosts.length, 1, "new hosts");
  assert.ok(hosts[0].born > killed, "the next host began before the last was killed");
}

/** The host serves `count` tabs, and no answer is left in it. */
export async function settled(tab, count) {
  assert.equal((await tab.idle()).host.tabs.length, count);
}
