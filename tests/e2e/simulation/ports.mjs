// MessagePorts and BroadcastChannels of the simulated browser.
import { Target } from "./events.mjs";
import { Line } from "./world.mjs";

/** @typedef {import("./realm.mjs").Realm} Realm */

/** One end of a pair, in a realm that it may be sent on to. */
export class Port extends Target {
  /** @type {Port} */
  peer;
  closed = false;
  #sent = null;
  #line = new Line();
  #early = [];
  #started = false;
  #listener = null;

  /** @param {Realm} realm */
  constructor(realm) {
    super();
    this.realm = realm;
    realm.ports.add(this);
  }

  /** What was sent last, for reports. */
  get last() {
    return this.#sent ? `(last sent: ${JSON.stringify(this.#sent).slice(0, 80)})` : "";
  }

  postMessage(message, transferred = []) {
    const data = structuredClone(message);
    if (this.closed) return;
    this.#sent = data;
    const event = Object.assign(new Event("message"), { data, ports: transferred });
    for (const port of transferred) port.realm.ports.delete(port);
    const { world, browser } = this.realm;
    const { peer } = this;
    for (let times = browser.times(data); times > 0; times--) {
      // Between two that live none is lost; but one that is on its way when the browser moves a worker may be.
      world.send(this.#line, () => (peer !== this.peer && world.chance(0.5) ? peer : this.peer).#arrive(event));
    }
  }

  set onmessage(listener) {
    this.#listener = listener;
    this.#started ||= listener !== null;
    if (this.#started) for (const event of this.#early.splice(0)) this.realm.later(0, () => this.#dispatch(event));
  }

  close() {
    this.closed = true;
    this.realm.ports.delete(this);
  }

  /** @param {Realm} realm that has it from now on */
  move(realm) {
    this.realm.ports.delete(this);
    this.realm = realm;
    realm.ports.add(this);
  }

  #arrive(event) {
    if (this.closed) return;
    if (this.#started) this.realm.task(() => this.#dispatch(event));
    else this.#early.push(event);
  }

  #dispatch(event) {
    if (this.closed) return;
    this.#listener?.(event);
    this.dispatchEvent(event);
  }
}

/** @param {Realm} realm */
export function channelPair(realm) {
  const [a, b] = [new Port(realm), new Port(realm)];
  a.peer = b;
  b.peer = a;
  return [a, b];
}

/** A BroadcastChannel. */
export class Channel extends Target {
  /** @type {((event: any) => void) | null} */
  onmessage = null;
  closed = false;
  #line = new Line();

  /**
   * @param {Realm} realm
   * @param {string} name
   */
  constructor(realm, name) {
    super();
    this.realm = realm;
    this.name = name;
    const { world, browser } = realm;
    // Each engine of a page listens in the lobby.
    const isOpen = [...realm.channels].some((other) => other.name === name);
    if (isOpen && !/lobby/.test(name)) world.blame(`${realm.name} has the channel ${name} twice`);
    realm.channels.add(this);
    world.send(realm.up, () => {
      if (this.closed) return;
      browser.channels.add(this);
      if (browser.climate.strikes("rubbish")) browser.babble(name);
    });
  }

  postMessage(message) {
    if (this.closed) throw new DOMException("the channel is closed", "InvalidStateError");
    const data = structuredClone(message);
    const { world, browser } = this.realm;
    browser.channels.hear(this.name, data);
    for (let times = browser.times(data); times > 0; times--) {
      world.send(this.realm.up, () =>
        browser.channels.broadcast(this.name, data, (channel) => channel !== this && !channel.loses()),
      );
    }
  }

  close() {
    this.closed = true;
    this.realm.channels.delete(this);
    this.realm.browser.channels.delete(this);
  }

  /**
   * WebKit loses what its network process carries when that ends, and registers channels anew with the next. What
   * other scripts say in a page's name is heard by the page as well: otherwise nothing would help.
   */
  loses() {
    return !this.realm.isLeft && this.realm.browser.climate.strikes("loss");
  }

  /** The standard has nothing reach a page that was left. */
  receive(data) {
    if (this.realm.isLeft) return;
    this.realm.world.send(this.#line, () => {
      if (this.closed) return;
      this.realm.task(() => this.#dispatch(Object.assign(new Event("message"), { data })));
    });
  }

  #dispatch(event) {
    if (this.closed) return;
    this.dispatchEvent(event);
    if (!event.cancelBubble) this.onmessage?.(event);
  }
}

/** The channels of a site, by name. */
export class Channels {
  /** @type {Map<string, Set<Channel>>} */
  #open = new Map();
  /** What anybody who listens knows, by channel: the last chat, and the numbers of the last messages. */
  #heard = new Map();

  get names() {
    return [...this.#open.keys()];
  }

  /** @param {Channel} channel */
  add(channel) {
    const { name } = channel;
    if (!this.#open.has(name)) this.#open.set(name, new Set());
    this.#open.get(name)?.add(channel);
  }

  /** @param {Channel} channel */
  delete(channel) {
    const others = this.#open.get(channel.name);
    others?.delete(channel);
    if (others?.size === 0) this.#open.delete(channel.name);
  }

  hear(name, { type, id, asked, said }) {
    const heard = this.heard(name);
    if (type === "chat") heard.chat = id;
    this.#heard.set(name, { ...heard, asked: asked ?? heard.asked, said: said ?? heard.said });
  }

  heard(name) {
    return this.#heard.get(name) ?? { chat: undefined, asked: 0, said: 0 };
  }

  /** How many channels have a name. */
  count(name) {
    return this.#open.get(name)?.size ?? 0;
  }

  broadcast(name, data, to = (/** @type {Channel} */ _channel) => true) {
    for (const channel of this.#open.get(name) ?? []) if (to(channel)) channel.receive(structuredClone(data));
  }
}
