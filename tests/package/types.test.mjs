// The package's types in other people's projects: with those of two versions of OpenAI's client, and
// `<tabloom-chat>` in templates. Each project is strict and is checked under each way to resolve modules.
import assert from "node:assert/strict";
import { readFile, mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { install, root, tools } from "./project.mjs";

let project;

before(async () => {
  project = await install();
  const packages = join(project.folder, "node_modules");
  await mkdir(join(packages, "@types"));
  for (const name of ["openai", "openai-6", "@types/react", "csstype"]) {
    await symlink(join(tools, name), join(packages, name));
  }
  for (const [name, text] of Object.entries(STUBS)) {
    await mkdir(join(packages, name));
    const exports = { ".": { types: "./index.d.ts" }, "./elements": { types: "./index.d.ts" } };
    await project.write(`node_modules/${name}/package.json`, JSON.stringify({ name, type: "module", exports }));
    await project.write(`node_modules/${name}/index.d.ts`, text);
  }
});

after(() => project?.remove());

/** What of Vue and Svelte the types of the element need. */
const STUBS = {
  vue: `export interface HTMLAttributes { id?: string; class?: unknown }
export interface GlobalComponents {}
type Intersection<U> = (U extends any ? (of: U) => void : never) extends (of: infer I) => void ? I : never;
export type EmitFn<T> = Intersection<{ [K in keyof T]: T[K] extends (...a: infer A) => any ? (event: K, ...a: A) => void : never }[keyof T]>;`,
  svelte: `export interface HTMLAttributes<T extends EventTarget> { id?: string; onclick?: (event: MouseEvent & { currentTarget: T }) => void }
export interface SvelteHTMLElements { [name: string]: unknown }`,
};

/** A chat's parameters and answers, ours and OpenAI's. */
const CHAT = `
import OpenAI from "openai";
import { Engine, type ChatCompletion, type ChatCompletionChunk, type ChatMessage, type ChatMessageParam, type Completion, type Tool } from "tabloom";

declare const engine: Engine;
declare const flag: boolean;
const { completions } = engine.chat;
const messages = [{ role: "user", content: "Hi" }] as const;

// One answer or a stream, as \`stream\` says; where it is only known later, either.
const whole: ChatCompletion = await completions.create({ messages });
const also: ChatCompletion = await completions.create({ messages, stream: false, seed: null, stop: null });
const stream: AsyncIterable<ChatCompletionChunk> = await completions.create({ messages, stream: true });
const params = { messages: [{ role: "user" as const, content: "Hi" }], stream: true };
const either = await completions.create(params);
// @ts-expect-error: it may be a stream
either.choices;
const unsure = await completions.create({ messages, stream: flag });
// @ts-expect-error: it may be a whole answer
for await (const _ of unsure);
const text = await engine.completions.create({ prompt: ["a", "b"] as const, stream: true });
for await (const { choices } of text) void choices[0]?.text;
const { data } = await engine.embeddings.create({ input: "a" });
const vector: number[] = data[0]!.embedding;
const encoded: string = (await engine.embeddings.create({ input: "a", encoding_format: "base64" })).data[0]!.embedding;

// What is misspelt, or not supported, is refused where it is written.
// @ts-expect-error: temperature
await completions.create({ messages, temprature: 1 });
// @ts-expect-error: temperature, in a stream
await completions.create({ messages, temprature: 1, stream: true });
// @ts-expect-error: no such role
await completions.create({ messages: [{ role: "wizard", content: "Hi" }] });
// @ts-expect-error: no images
await completions.create({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "" } }] }] });
// @ts-expect-error: no such option
await completions.create({ messages }, { timeout: 5 });
// @ts-expect-error: no such option
await Engine.load("a", { progress_callback() {} });

// OpenAI's types go in…
declare const theirs: OpenAI.ChatCompletionMessageParam[];
declare const asked: OpenAI.ChatCompletionCreateParamsNonStreaming;
declare const streamed: OpenAI.ChatCompletionCreateParamsStreaming;
declare const any: OpenAI.ChatCompletionCreateParams;
declare const tools: OpenAI.ChatCompletionTool[];
declare const choice: OpenAI.ChatCompletionToolChoiceOption;
declare const format: NonNullable<OpenAI.ChatCompletionCreateParams["response_format"]>;
const conversation: readonly ChatMessageParam[] = theirs;
const one: ChatCompletion = await completions.create(asked);
for await (const { choices } of await completions.create(streamed)) void choices[0]?.delta.content;
await completions.create(any);
await completions.create({ messages: theirs, tools, tool_choice: choice, response_format: format });
const schema = { type: "object", properties: { city: { type: "string", enum: ["Rome", "Oslo"] } } } as const;
await engine.countTokens(theirs, { tools, signal: null });
await completions.create({ messages: theirs }, { signal: null });
await completions.create({ messages, response_format: { type: "json_object", schema } });
declare const texts: OpenAI.CompletionCreateParamsNonStreaming;
await engine.completions.create(texts);
declare const streamedTexts: OpenAI.CompletionCreateParamsStreaming;
for await (const { choices } of await engine.completions.create(streamedTexts)) void choices[0]?.text;
declare const anyTexts: OpenAI.CompletionCreateParams;
await engine.completions.create(anyTexts);
declare const inputs: OpenAI.EmbeddingCreateParams;
await engine.embeddings.create(inputs);
const tool: Tool = { type: "function", function: { name: "weather", parameters: schema } };

// … and our answers are OpenAI's.
const answer: OpenAI.ChatCompletion = whole;
const message: OpenAI.ChatCompletionMessage = whole.choices[0]!.message;
const next: OpenAI.ChatCompletionMessageParam[] = [...theirs, message, whole.choices[0]!.message];
await completions.create({ messages: [...messages, message, whole.choices[0]!.message] });
for await (const chunk of stream) {
  const piece: OpenAI.ChatCompletionChunk = chunk;
  void piece;
}
declare const ours: ChatMessage[];
const said: OpenAI.ChatCompletionMessageParam[] = ours;
const texted: OpenAI.Completion = await engine.completions.create({ prompt: "a", logprobs: 1 });
const echoed: Completion = await engine.completions.create({ prompt: "a", echo: true, logprobs: 1 });
// @ts-expect-error: the first token of a prompt has none
const logprobs: number[] | undefined = echoed.choices[0]?.logprobs?.token_logprobs;
const embedded: OpenAI.CreateEmbeddingResponse = await engine.embeddings.create({ input: ["a"] });
const card: OpenAI.Model = (await engine.models.list()).data[0]!;
const client = new OpenAI({ fetch: engine.fetch, apiKey: "none", dangerouslyAllowBrowser: true });
export { also, answer, card, client, conversation, embedded, encoded, logprobs, next, one, said, texted, tool, vector };
`;

/** Codes of errors are a union. */
const ERRORS = `
import { TabloomError, type ErrorCode, type FallbackReason } from "tabloom";

export function told(error: unknown): string {
  if (!(error instanceof TabloomError)) throw error;
  // @ts-expect-error: no such code
  if (error.code === "no_gup") return "";
  switch (error.code) {
    case "no_gpu":
      return "This browser has no WebGPU.";
    default:
      return error.message;
  }
}
declare const reason: FallbackReason;
export const code: ErrorCode = reason;
`;

const REACT = `
import type {} from "tabloom/react";
import { useRef } from "react";
import type { TabloomChat } from "tabloom/element";

export function Page() {
  const chat = useRef<TabloomChat>(null);
  return (
    <tabloom-chat
      ref={chat}
      id="chat"
      className="wide"
      model="smollm2-360m"
      quantize="w4"
      max-tokens={20}
      autoload
      ontabloom-ready={({ detail }) => console.log(detail.engine.info.context)}
    >
      <p slot="empty">Ask</p>
    </tabloom-chat>
  );
}

// @ts-expect-error: no such value
export const wrong = <tabloom-chat model="a" quantize="w2" />;
// @ts-expect-error: no such attribute
export const misspelt = <tabloom-chat modle="a" />;
`;

const TEMPLATES = `
import type {} from "tabloom/vue";
import type {} from "tabloom/svelte";
import type { GlobalComponents } from "vue";
import type { SvelteHTMLElements } from "svelte/elements";
import type { TabloomChat } from "tabloom/element";

type Vue = InstanceType<GlobalComponents["tabloom-chat"]>;
export const props: Vue["$props"] = { model: "smollm2-360m", device: "cpu", id: "chat" };
declare const vue: Vue;
const chat: TabloomChat = vue;
vue.$emit("tabloom-ready", new CustomEvent("tabloom-ready", { detail: { engine: chat.engine! } }));
export const svelte: SvelteHTMLElements["tabloom-chat"] = {
  model: "smollm2-360m",
  "ontabloom-error": ({ detail }) => console.error(detail.error.message),
  onclick: ({ currentTarget }) => currentTarget.focus(),
};
// @ts-expect-error: no such device
export const wrong: Vue["$props"] = { device: "tpu" };
`;

const CHAT_6 = CHAT.replace('"openai"', '"openai-6"');
const FILES = {
  "chat.ts": CHAT,
  "chat-6.ts": CHAT_6,
  "errors.ts": ERRORS,
  "react.tsx": REACT,
  "templates.ts": TEMPLATES,
};

// The samples of the package's README, as they stand.
const readme = await readFile(join(root, "pkg-template/README.md"), "utf8");
const samples = [...readme.matchAll(/^```js\n(.*?)^```/gms)];
assert.ok(samples.length >= 2);
for (const [at, [, sample]] of samples.entries()) FILES[`readme-${at}.ts`] = sample;

for (const resolution of ["bundler", "node16", "nodenext"]) {
  test(`types of OpenAI's package, of React, Vue and Svelte: ${resolution}`, async () => {
    for (const [file, text] of Object.entries(FILES)) await project.write(file, text);
    const compilerOptions = {
      strict: true,
      noUncheckedIndexedAccess: true,
      noEmit: true,
      types: [],
      jsx: "react-jsx",
      target: "es2022",
      module: resolution === "bundler" ? "esnext" : resolution,
      moduleResolution: resolution,
      lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable", "esnext.disposable"],
    };
    await project.write("tsconfig.json", JSON.stringify({ compilerOptions, files: Object.keys(FILES) }));
    project.run("node", [join(tools, "typescript/bin/tsc"), "-p", "."]);
  });
}

test("an older TypeScript reads all declarations", async () => {
  const { exports } = JSON.parse(await readFile(join(root, "pkg-template/package.json"), "utf8"));
  const entries = Object.keys(exports).filter((entry) => exports[entry].types && !/[*]|vue|svelte/.test(entry));
  const lines = entries.map((entry) => `import type {} from "tabloom${entry.slice(1)}";`);
  await project.write("older.ts", [...lines, 'import type {} from "tabloom/element/texts/de";', ""].join("\n"));
  const compilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: false,
    types: [],
    target: "es2022",
    module: "nodenext",
    lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable"],
  };
  await project.write("tsconfig.json", JSON.stringify({ compilerOptions, files: ["older.ts"] }));
  project.run("node", [join(tools, "typescript-5-6/bin/tsc"), "-p", "."]);
});

test("the guides name the versions of other packages that are tested", async () => {
  const versions = ["openai", "openai-6", "@openai/agents"].map(async (name) => {
    const { version } = JSON.parse(await readFile(join(tools, name, "package.json"), "utf8"));
    return version;
  });
  const page = await readFile(join(root, "docs/guides/openai-sdk.md"), "utf8");
  for (const version of await Promise.all(versions)) assert.ok(page.includes(version), version);
  const { devDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const major = (name) => /(\d+)\.\d+\.\d+$/.exec(devDependencies[name])[1];
  const names = (text, name) => assert.ok(text.includes(`\`${name}\` ${major(name)}`), `${name} ${major(name)}`);
  for (const name of ["ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible"]) names(page, name);
  const [before, compatible, openai] = ["ai-6", "ai-6-openai-compatible", "ai-6-openai"].map(major);
  assert.ok(page.includes(`version ${before} with ${compatible} and ${openai}`));
  const chats = await readFile(join(root, "docs/guides/chat-libraries.md"), "utf8");
  for (const name of ["ai", "@ai-sdk/react"]) names(chats, name);
});

test("the codes of errors are those of the reference", async () => {
  const [types, page] = await Promise.all(
    ["pkg-template/types/errors.d.ts", "docs/reference/errors.md"].map((path) => readFile(join(root, path), "utf8")),
  );
  const codes = [...types.matchAll(/\| "(\w+)"/g)].map(([, code]) => code);
  const [ours, servers] = page.split("### `invalid_api_key`");
  const headings = [...ours.matchAll(/^### `(\w+)`$/gm)].map(([, code]) => code);
  assert.ok(headings.length > 30 && servers);
  assert.deepEqual(codes.toSorted(), headings.toSorted());
});
