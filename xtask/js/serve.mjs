// Serves the demo page's folder on 127.0.0.1: node serve.mjs FOLDER PORT [--watch]. Prints the address
// once it listens. With --watch, www/ and pkg-template/ are served as they are in the repository, and
// pages reload when a file there is saved.
import { createServer } from "node:http";
import { readFileSync, watch } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
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
const source = (name) => fileURLToPath(new URL(`../../${name}/`, import.meta.url));

/** Answers with the files of a folder, ranges of them included, as they are at that moment. */
const files = (root) =>
  sirv(root, {
    dev: true,
    extensions: ["html"], // a folder is its index.html
    setHeaders(response) {
      response.setHeader("Cache-Control", "no-store");
      response.setHeader("Content-Security-Policy", POLICY);
      response.setHeader("Referrer-Policy", "no-referrer");
      response.setHeader("X-Content-Type-Options", "nosniff");
    },
  });

const built = files(folder);
const handler = watching ? edited() : (request, response) => built(request, response, missing(response));

/** The repository's files where it has them, and otherwise what was built. */
function edited() {
  const [page, template] = [files(source("www")), files(source("pkg-template"))];
  const open = new Set();
  let pending;
  const changed = () => {
    clearTimeout(pending);
    pending = setTimeout(() => open.forEach((response) => response.write("data: changed\n\n")), 100);
  };
  for (const name of ["www", "pkg-template"]) watch(source(name), { recursive: true }, changed);
  return (request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    if (path === "/changes") {
      response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      open.add(response.on("close", () => open.delete(response)));
    } else if (path === "/reload.js") {
      response.setHeader("Content-Type", "text/javascript");
      response.end('new EventSource("/changes").onmessage = () => location.reload();');
    } else if (path === "/" || path === "/index.html") {
      response.writeHead(200, { "Content-Type": "text/html;charset=utf-8", "Content-Security-Policy": POLICY });
      response.end(`${readFileSync(join(source("www"), "index.html"))}<script type="module" src="/reload.js"></script>`);
    } else if (path === "/sw.js") {
      // The service worker would answer with what was kept.
      missing(response)();
    } else if (path.startsWith("/tabloom/")) {
      const url = request.url;
      request.url = url.slice("/tabloom".length);
      template(request, response, () => {
        request.url = url;
        built(request, response, missing(response));
      });
    } else {
      page(request, response, () => built(request, response, missing(response)));
    }
  };
}

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
server.on("error", (error) => {
  if (error.code !== "EADDRINUSE" || ports.length === 0) throw error;
  listen();
});
server.on("listening", () => console.log(`http://127.0.0.1:${server.address().port}/`));
listen();
// Whoever started this holds its standard input: it ends with them.
process.stdin.on("end", () => process.exit()).resume();
