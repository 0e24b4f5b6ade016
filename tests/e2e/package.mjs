// A bare page that has imported the package, as any page would.
import { readFileSync } from "node:fs";
import { launch } from "./browser.mjs";
import { serve } from "./server.mjs";
import { WEBKIT } from "./webkit.mjs";

/** Where engines run: WebKitGTK has no WebGPU. */
export const DEVICE = WEBKIT ? "cpu" : "gpu";

/** What transformers answers with the built-in model's weights, greedily. */
export const goldens = JSON.parse(readFileSync(new URL("../goldens/embedded.json", import.meta.url), "utf8"));

/** A page that has imported the package. */
export const HTML = `<!doctype html>
<title>The package in use</title>
<script type="module">
  import { Engine, TabloomError } from "./tabloom/index.js";

  /** What a promise is rejected with. */
  async function failure(promise) {
    try {
      await promise;
      return "no failure";
    } catch (error) {
      const { name, code, message, param, details } = error;
      return { typed: error instanceof TabloomError, name, code, message, param, details };
    }
  }

  /** The whole greedy answer. */
  async function answer(engine, messages) {
    const completion = await engine.chat.completions.create({ messages, temperature: 0 });
    return completion.choices[0].message.content;
  }

  Object.assign(globalThis, { Engine, failure, answer });
</script>`;

/**
 * Opens the page in a browser of its own, served together with `folders`.
 *
 * @param {Parameters<typeof serve>[0]} [folders]
 */
export async function openPackage(folders = {}) {
  const server = await serve({ ...folders, "": { "bare.html": HTML, ...folders[""] } });
  const browser = await launch();
  const page = await browser.newPage();
  await page.goto(`${server.url}bare.html`);
  await page.waitForFunction(() => globalThis.Engine);
  return {
    browser,
    page,
    server,
    async close() {
      await browser.close();
      await server.close();
    },
  };
}
