// A second version of the package, and a worker whose script has the same address in both.
import assert from "node:assert/strict";
import { url } from "../browser.mjs";
import { policy } from "../server.mjs";

/** A file of the package. */
async function packaged(file) {
  const response = await fetch(`${url}tabloom/${file}`);
  assert.ok(response.ok, `${response.url}: ${response.status}`);
  return response.text();
}

/** The package, and the same with another version in it: their versions and folders. */
export const THIS = { version: JSON.parse(await packaged("package.json")).version, package: "tabloom/" };
export const OTHER = { version: "0.0.1-other", package: "packages/other/" };

const page = { "version.js": (await packaged("version.js")).replace(THIS.version, OTHER.version) };
assert.ok(page["version.js"].includes(OTHER.version));

/** A worker of the other version: what pages say of themselves is what the module is made for. */
const worker = `
  import "./probe.js";
  import "./packages/other/worker.js";
  const { stringify } = JSON;
  const known = (message) =>
    message?.version === "${OTHER.version}" ? { ...message, version: "${THIS.version}" } : message;
  JSON.stringify = (message) => stringify(known(message));
`;

/** The worker's script: the page's own version of it, as on a site that was updated while a tab was open. */
export const WORKER = "versioned.js";

/** @param {import("node:http").ServerResponse} response */
function versioned(response) {
  const asking = new URL(response.req.headers.referer ?? "").searchParams.get("package");
  response.writeHead(200, { "content-type": "text/javascript", "content-security-policy": policy });
  response.end(asking === OTHER.package ? worker : 'import "./observed.js";');
}

/** Serves both. */
export const BOTH = { [OTHER.package]: page, "": { [WORKER]: versioned } };
