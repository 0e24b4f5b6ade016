// A session of W3C WebDriver (https://www.w3.org/TR/webdriver2/): what the tests need of it.

/** What stands for an element in JSON. */
const ELEMENT = "element-6066-11e4-a52e-4f735466cecf";

/** Longest wait for an answer of the driver: it answers when a page is loaded, or a script has run. */
const PATIENCE = 90_000;

/** A browser that a driver has started. Its windows take commands one after another. */
export class Session {
  #address;
  /** The window that takes commands. */
  #window = "";
  /** @type {Promise<any>} the end of the last command */
  #turn = Promise.resolve();

  /** @param {string} address */
  constructor(address) {
    this.#address = address;
  }

  /**
   * @param {string} driver its address
   * @param {object} capabilities
   */
  static async open(driver, capabilities) {
    const { sessionId } = await call("POST", `${driver}/session`, { capabilities: { alwaysMatch: capabilities } });
    return new Session(`${driver}/session/${sessionId}`);
  }

  /** Opens a window; gives its handle. */
  async newWindow() {
    const { handle } = await this.#inTurn(() => this.#call("POST", "/window/new", { type: "window" }));
    return handle;
  }

  go(window, url) {
    return this.#in(window, "POST", "/url", { url });
  }

  reload(window) {
    return this.#in(window, "POST", "/refresh", {});
  }

  /** Runs the body of a function, which has its `arguments`; gives what it returns. */
  run(window, script, args) {
    return this.#in(window, "POST", "/execute/sync", { script, args });
  }

  /** Clicks where an element is, as a visitor does. */
  click(window, element) {
    return this.#in(window, "POST", `/element/${element[ELEMENT]}/click`, {});
  }

  /** Focuses an element and types. */
  type(window, element, text) {
    return this.#in(window, "POST", `/element/${element[ELEMENT]}/value`, { text });
  }

  closeWindow(window) {
    return this.#in(window, "DELETE", "/window");
  }

  close() {
    return this.#inTurn(() => this.#call("DELETE", ""));
  }

  /** A command for one of the windows. */
  #in(window, method, path, body) {
    return this.#inTurn(async () => {
      if (window !== this.#window) await this.#call("POST", "/window", { handle: window });
      this.#window = window;
      return this.#call(method, path, body);
    });
  }

  #inTurn(command) {
    const done = this.#turn.then(command);
    this.#turn = done.catch(() => {});
    return done;
  }

  #call(method, path, body) {
    return call(method, `${this.#address}${path}`, body);
  }
}

/** Waits until a driver takes sessions. */
export async function whenReady(driver) {
  for (const end = Date.now() + PATIENCE; ; ) {
    const status = await call("GET", `${driver}/status`).catch((error) => ({ ready: false, message: `${error}` }));
    if (status.ready) return;
    if (Date.now() > end) throw new Error(`the driver at ${driver} takes no session: ${status.message}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function call(method, url, body) {
  const headers = { "content-type": "application/json" };
  const signal = AbortSignal.timeout(PATIENCE);
  const response = await fetch(url, { method, headers, body: body && JSON.stringify(body), signal });
  const { value } = /** @type {{value: any}} */ (await response.json());
  if (!response.ok) throw new Error(`${value.error}: ${value.message} (${method} ${new URL(url).pathname})`);
  return value;
}
