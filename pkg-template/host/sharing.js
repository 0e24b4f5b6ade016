// Loads of models whose weights other sites of the browser may have.

/** @import { Connection } from "./connection.js" */
/** @import { LoadedInfo, Request } from "./messages.js" */
/** @import { LoadOptions, Progress } from "../types.js" */

/** Where anybody can have all that a page can read. */
const PUBLIC = /^https:\/\/huggingface\.co\/[^?]*$/;

/**
 * What of a load is shared.
 *
 * @typedef {object} Shares
 * @property {(string | undefined)[]} urls of its models, one of them perhaps a drafter
 * @property {boolean} all whether other sites get what is not public, too
 */

/**
 * Loads a model. What other sites have stored keeps no load from going on: if files are not what they must be, the
 * model is loaded once more from its server alone.
 *
 * @param {Connection} connection
 * @param {Extract<Request, {type: "load"}>} load
 * @param {Shares} shares
 * @param {(progress: Progress) => void} onProgress
 * @returns {Promise<LoadedInfo>}
 */
export async function load(connection, load, { urls, all }, onProgress) {
  const { integrity, store = "cache" } = /** @type {LoadOptions} */ (load.options);
  // A signed address is nobody else's.
  const models = urls.flatMap((url) => (!url || url.includes("#") ? [] : url));
  if (models.length === 0) return connection.request(load, onProgress);
  connection.send({ type: "share", models, on: true, integrity: models[0] === urls[0] ? integrity : undefined });
  try {
    const info = await connection.request(load, onProgress);
    const offered = models.filter((url) => all || isPublic(url));
    if (info.stored && offered.length > 0) connection.send({ type: "offer", models: offered, store });
    return info;
  } catch (/** @type {any} */ error) {
    if (error.code !== "integrity") throw error;
    connection.send({ type: "share", models, on: false });
    return connection.request(load, onProgress);
  }
}

/**
 * Whether anybody can have what is at an address.
 *
 * @param {string} url
 */
export function isPublic(url) {
  return PUBLIC.test(url);
}
