// Serves the demo page's folder on 127.0.0.1: node serve.mjs FOLDER PORT [--watch]. Prints the address
// once it listens. With --watch, www/ and pkg-template/ are served as they are in the repository, and
// play/, which git ignores, as /play/; pages reload when a file there is saved. TABLOOM_SOURCES names
// another repository.
import { createServer } from "node:http";
import { existsSync, readFileSync, watch } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import compression from "compression";
import sirv from "sirv";

/** What the page and its worker may do. The worker has the same policy: it inherits none from its page. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self'",
  "connect-src 'self' https://huggingface.co https://*.hf.co https://*.xethub.hf.co",
  "img-src 'self' data:",
  "style-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types worker tabloom",
].join("; ");

/** How many ports above the wanted one are tried before any free one is taken. */
const PORTS_TRIED = 20;
const IDLE_MS = 120_000;

const [folder, port, mode] = process.argv.slice(2);
const watching = mode === "--watch";
const root = process.env.TABLOOM_SOURCES ?? fileURLToPath(new URL("../../", import.meta.url));
/** What is served as it is; `play` holds whatever somebody tries, if it is there. */
const SOURCES = ["www", "pkg-template", "play"].filter((name) => existsSync(join(root, name)));

/** @typedef {import("node:http").IncomingMessage} Request */
/** @typedef {import("node:http").ServerResponse} Response */
/** @typedef {(request: Request, response: Response, next?: () => void) => void} Handler */

/**
 * Answers with the files of a folder, ranges of them included, as they are at that moment.
 *
 * @param {string} folder
 * @returns {Handler}
 */
const files = (folder) =>
  sirv(folder, {
    dev: true,
    extensions: ["html"], // a folder is its index.html
    setHeaders(response) {
      response.setHeader("Cache-Control", "no-store");
      response.setHeader("Content-Security-Policy", POLICY);
      response.setHeader("Referrer-Policy", "no-referrer");
      response.setHeader("X-Content-Type-Options", "nosniff");
    },
  });

/** Scripts, styles, pages and the engine go out as sites' hosts send them: in Brotli. A model's files stay as they are. */
const compressed = compression({
  filter: (request, response) => !request.headers.range && TEXTS.test(`${response.getHeader("Content-Type")}`),
});
const TEXTS = /^(?:text\/(?!event-stream)|image\/svg|application\/(?:wasm|javascript|manifest\+json))/;

const built = files(folder);
/** @type {Handler} */
const served = watching ? edited() : (request, response) => built(request, response, missing(response));
/** @type {Handler} */
const handler = (request, response) => compressed(request, response, () => served(request, response));

/**
 * The repository's files where it has them, and otherwise what was built.
 *
 * @returns {Handler}
 */
function edited() {
  const [page, template, play] = ["www", "pkg-template", "play"].map((name) => files(join(root, name)));
  /** @type {Set<Response>} */
  const open = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let pending;
  const tell = () => {
    for (const response of open) response.write("data: changed\n\n");
  };
  const changed = () => {
    clearTimeout(pending);
    pending = setTimeout(tell, 100);
  };
  for (const name of SOURCES) watch(join(root, name), { recursive: true }, changed);
  return (request, response) => {
    const path = new URL(`${request.url}`, "http://localhost").pathname;
    if (path === "/changes") {
      response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      response.flushHeaders();
      open.add(response.on("close", () => open.delete(response)));
    } else if (path === "/reload.js") {
      response.setHeader("Content-Type", "text/javascript");
      response.end('new EventSource("/changes").onmessage = () => location.reload();');
    } else if (path === "/" || path === "/index.html") {
      response.writeHead(200, { "Content-Type": "text/html;charset=utf-8", "Content-Security-Policy": POLICY });
      response.end(`${readFileSync(join(root, "www/index.html"))}<script type="module" src="/reload.js"></script>`);
    } else if (path === "/sw.js") {
      // The service worker would answer with what was kept.
      missing(response)();
    } else if (path.startsWith("/tabloom/")) {
      below("/tabloom", template, request, response);
    } else if (path.startsWith("/play/")) {
      below("/play", play, request, response);
    } else {
      page(request, response, () => built(request, response, missing(response)));
    }
  };
}

/**
 * Answers with the files of a folder that is served below a path, and otherwise with what was built.
 *
 * @param {string} prefix
 * @param {Handler} handle
 * @param {Request} request
 * @param {Response} response
 */
function below(prefix, handle, request, response) {
  const { url } = request;
  request.url = url?.slice(prefix.length);
  handle(request, response, () => {
    request.url = url;
    built(request, response, missing(response));
  });
}

/** @param {Response} response */
const missing = (response) => () => {
  response.statusCode = 404;
  response.end();
};

const server = createServer({ keepAliveTimeout: IDLE_MS }, (request, response) => {
  if (request.method === "GET" || request.method === "HEAD") return handler(request, response);
  response.writeHead(405, { Allow: "GET, HEAD" }).end();
});

const ports = [...Array(PORTS_TRIED + 1).keys()].map((step) => Number(port) + step);
if (Number(port) === 0) ports.length = 1;
else ports.push(0);
const listen = () => server.listen(ports.shift(), "127.0.0.1");
server.on("error", (/** @type {NodeJS.ErrnoException} */ error) => {
  if (error.code !== "EADDRINUSE" || ports.length === 0) throw error;
  listen();
});
server.on("listening", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`http://127.0.0.1:${port}/`);
});
listen();
// Whoever started this holds its standard input: it ends with them.
process.stdin.on("end", () => process.exit()).resume();
