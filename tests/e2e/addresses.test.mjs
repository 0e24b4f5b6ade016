// Which address a name, an address or files stand for: names are encoded once, a signature is kept apart.
// No browser is needed for this.
import assert from "node:assert/strict";
import { test } from "node:test";
import { nameOf } from "../../pkg-template/models/address.js";
import { addresses } from "../../pkg-template/models/inventory.js";
import { identify } from "../../pkg-template/models/source.js";

const SHA = "1".repeat(40);
const HUB = "https://hub.example/";
const ODD = "m 1+é%#?.gguf";
const ENCODED = "m%201%2B%C3%A9%25%23%3F.gguf";

/** What the hub was asked. */
const asked = [];
globalThis.fetch = /** @type {any} */ (
  async (address) => {
    asked.push(`${address}`);
    return Response.json({ sha: SHA, siblings: [{ rfilename: ODD.replace("1", "Q4_0") }] });
  }
);

const at = (path) => `https://a.example/${path}`;
const resolved = (path) => `${HUB}org/name/resolve/${path}`;

/** @type {[string | URL, string, string?][]} what is given, the address, and the name where it differs */
const ADDRESSES = [
  [at("m"), at("m/")],
  [at("m/"), at("m/")],
  [new URL(at("m//")), at("m/")],
  [at("m#top"), at("m/")],
  [at("x.gguf"), at("x.gguf")],
  [at("x.GGUF?download=true"), at("x.GGUF?download=true")],
  [at("m?download=true"), at("m/?download=true")],
  [at("m/?v=2"), at("m/?v=2")],
  // Names that are not encoded are; those that are stay as they are.
  [at("my model/é+1.gguf"), at("my%20model/%C3%A9+1.gguf")],
  [at("my%20model/%C3%A9%2B1.gguf"), at("my%20model/%C3%A9%2B1.gguf")],
  [at("100%.gguf"), at("100%25.gguf")],
  [at("100%25.gguf"), at("100%25.gguf")],
  // Azure, AWS, Google, CloudFront, Hugging Face.
  [
    at("m?sv=2024-11-04&se=2026-12-01&sp=r&sig=a%2Bb%3D"),
    at("m/#sv=2024-11-04&se=2026-12-01&sp=r&sig=a%2Bb%3D"),
    at("m/"),
  ],
  [at("x.gguf?X-Amz-Date=1&X-Amz-Signature=ab"), at("x.gguf#X-Amz-Date=1&X-Amz-Signature=ab"), at("x.gguf")],
  [at("x.gguf?X-Goog-Expires=1&X-Goog-Signature=ab"), at("x.gguf#X-Goog-Expires=1&X-Goog-Signature=ab"), at("x.gguf")],
  [
    at("x.gguf?Expires=1&Signature=a~b&Key-Pair-Id=K"),
    at("x.gguf#Expires=1&Signature=a~b&Key-Pair-Id=K"),
    at("x.gguf"),
  ],
  [at("m/?token=secret"), at("m/#token=secret"), at("m/")],
  [at("m/?access_token=secret"), at("m/#access_token=secret"), at("m/")],
  // These sign nothing.
  [at("m/?design=new&signal=5"), at("m/?design=new&signal=5")],
];

test("addresses keep their query, and a signature apart from their name", async () => {
  for (const [given, address, name = address] of ADDRESSES) {
    const { url } = await identify(given);
    assert.equal(url, address, `${given}`);
    assert.equal(nameOf(url), name, `${given}`);
    assert.deepEqual(await addresses(given, {}), [name], `${given}`);
  }
});

/** @type {[string, string, string?][]} a name, the address, and what the hub is asked for */
const NAMES = [
  [`org/name@${SHA}`, resolved(`${SHA}/`)],
  [`org/name@${SHA}/sub dir/100%`, resolved(`${SHA}/sub%20dir/100%25/`)],
  [`hf:org/name@${SHA}/${ODD}`, resolved(`${SHA}/${ENCODED}`)],
  [`hf:org/name/${ODD}`, resolved(`${SHA}/${ENCODED}`), "main"],
  ["hf:org/name@v1.0/sub dir/a+b.gguf", resolved(`${SHA}/sub%20dir/a%2Bb.gguf`), "v1.0"],
  ["org/name@refs/pr/3", resolved(`${SHA}/m%20Q4_0%2B%C3%A9%25%23%3F.gguf`), "refs%2Fpr%2F3"],
  ["org/name@refs/pr/3/sub dir", resolved(`${SHA}/sub%20dir/`), "refs%2Fpr%2F3"],
  ["hf:org/name@refs/convert/gguf/a.gguf", resolved(`${SHA}/a.gguf`), "refs%2Fconvert%2Fgguf"],
  ["hf:org/name@feature%2Fx/a.gguf", resolved(`${SHA}/a.gguf`), "feature%2Fx"],
];

test("names of a hub are plain, and are encoded once", async () => {
  for (const [name, address, revision] of NAMES) {
    asked.length = 0;
    const { url } = await identify(name, { hub: HUB, store: "none" });
    assert.equal(url, address, name);
    const expected = revision ? [`${HUB}api/models/org/name/revision/${revision}`] : [];
    assert.deepEqual(asked, expected, name);
  }
  await assert.rejects(identify("org/name", { hub: `${HUB}?token=secret` }), (/** @type {any} */ error) => {
    assert.deepEqual([error.code, error.param], ["invalid_request", "hub"]);
    return !error.message.includes("secret");
  });
});

test("files keep their names", async () => {
  const bytes = new Uint8Array(3);
  for (const [files, address, names] of /** @type {[any, RegExp, string[]][]} */ ([
    [new File([bytes], ODD), /^local:[0-9a-f]{32}\/(.*)$/, [ODD]],
    [
      { "my model é%#?/config.json": bytes, "my model é%#?/a 1.safetensors": bytes },
      /^local:[0-9a-f]{32}\/(.*)\/$/,
      ["config.json", "a 1.safetensors"],
    ],
    [
      {
        "m/config.json": bytes,
        "m/model.safetensors": bytes,
        "m/draft/config.json": bytes,
        "m/draft/medusa_lm_head.pt": bytes,
      },
      /^local:[0-9a-f]{32}\/(.*)\/$/,
      ["config.json", "model.safetensors", "draft/config.json", "draft/medusa_lm_head.pt"],
    ],
  ])) {
    const { url, files: found } = await identify(files);
    const [, encoded] = address.exec(url) ?? [];
    assert.ok(!/[ #?é]/.test(encoded), url);
    const plain = files instanceof File ? ODD : Object.keys(files)[0].split("/")[0];
    assert.equal(decodeURIComponent(encoded), plain);
    assert.deepEqual([...(found?.keys() ?? [])], names);
  }
});
