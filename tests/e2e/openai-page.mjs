// The official `openai` client in a page, with the engine in place of the network: the version that npm installs.
// The native server is asked by the one before.
import OpenAI from "openai";
import { contract } from "./openai.mjs";

/** The contract's names. */
export const names = Object.keys(contract);

/**
 * Checks one entry of the contract.
 *
 * @param {string} name
 * @param {import("tabloom").Engine} engine
 */
export async function check(name, engine) {
  const aborted = async () => (await engine.metrics()).request_success.abort;
  await contract[name]({ client: client(engine), OpenAI, model: engine.info.model, aborted });
}

/** @param {import("tabloom").Engine} engine */
export function client({ fetch }) {
  const nowhere = "https://nowhere.invalid/any/path/v1";
  return new OpenAI({
    fetch,
    baseURL: nowhere,
    apiKey: "none",
    maxRetries: 0,
    dangerouslyAllowBrowser: true,
  });
}
