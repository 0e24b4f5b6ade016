// The native server, as the official `openai` client sees it: the version before that of the tests in a page.
import { after, before, test } from "node:test";
import OpenAI from "openai-6";
import { contract } from "../e2e/openai.mjs";
import { sample, start } from "./server.mjs";

let server;

before(async () => {
  server = await start();
});

after(() => server?.stop());

for (const [name, check] of Object.entries(contract)) {
  test(name, async () => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
    const aborted = () => sample(server.url, /^vllm:request_success_total.*"abort"/);
    await check({ client, OpenAI, model: "model", aborted });
  });
}
