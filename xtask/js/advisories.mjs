// Asks osv.dev for advisories on crates: node advisories.mjs '[{"name": …, "version": …}, …]'. Fails if there
// is one. Without the network it says that nothing was checked.
// Source: https://google.github.io/osv.dev/api/

const ADDRESS = process.env.OSV_ADDRESS ?? "https://api.osv.dev";

/** @type {{name: string, version: string}[]} */
const crates = JSON.parse(process.argv[2]);

/**
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<any>}
 */
async function ask(path, body) {
  const how = body && { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`${ADDRESS}/v1/${path}`, { ...how, signal: AbortSignal.timeout(20_000) });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

/** Every advisory on a crate: `{ name, version, id, informational }`. */
async function advisories() {
  const queries = crates.map(({ name, version }) => ({ package: { name, ecosystem: "crates.io" }, version }));
  const { results } = await ask("querybatch", { queries });
  /** @type {{name: string, version: string, id: string}[]} */
  const found = crates.flatMap((crate, at) =>
    (results[at].vulns ?? []).map((/** @type {{id: string}} */ { id }) => ({ ...crate, id })),
  );
  return Promise.all(
    found.map(async (one) => {
      const { affected = [] } = await ask(`vulns/${encodeURIComponent(one.id)}`);
      // Such as that nobody maintains it.
      const informational = affected.every((/** @type {any} */ it) => it.database_specific?.informational);
      return { ...one, informational };
    }),
  );
}

try {
  const found = await advisories();
  for (const { name, version, id, informational } of found) {
    console.log(`${name} ${version}: ${id}${informational ? ", for information" : ""}`);
  }
  process.exitCode = found.every(({ informational }) => informational) ? 0 : 1;
  if (found.length === 0) console.log(`no advisory on ${crates.length} crates`);
} catch (error) {
  const { message, cause } = /** @type {Error & {cause?: Error}} */ (error);
  console.log(`advisories were not checked: ${ADDRESS} cannot be asked (${cause?.message ?? message})`);
}
