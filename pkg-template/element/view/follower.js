/** A reader this many pixels from the end is at the end. */
const NEAR = 64;

/** Keys that scroll up. */
const UP = ["ArrowUp", "PageUp", "Home"];

/** Keeps the end of a conversation in view as it grows, unless its reader has scrolled up. */
export class Follower {
  #log;
  #onScroll;
  #following = false;
  /** The last scroll position. */
  #top = 0;

  /**
   * @param {HTMLElement} log the element that scrolls
   * @param {() => void} onScroll
   */
  constructor(log, onScroll) {
    this.#log = log;
    this.#onScroll = onScroll;
    log.addEventListener("scroll", () => {
      const { scrollTop } = log;
      const { distance } = this;
      // A text that grows moves the end away, too; only readers scroll up, unless there is less to scroll.
      const up = scrollTop < this.#top && distance >= 1;
      const down = scrollTop > this.#top;
      this.#following = !up && (this.#following || (down && distance < NEAR));
      this.#top = scrollTop;
      onScroll();
    });
    // A browser that scrolls smoothly has hardly begun when the next line would take the reader back.
    log.addEventListener("wheel", ({ deltaY }) => deltaY < 0 && this.#letGo(), { passive: true });
    log.addEventListener("keydown", ({ key }) => UP.includes(key) && this.#letGo());
    // Documents of tests without a browser have none.
    if (!globalThis.ResizeObserver) return;
    const observer = new ResizeObserver(() => {
      this.follow();
      onScroll();
    });
    observer.observe(log);
    // The messages; what a page makes of code and formulas takes other room than their text.
    observer.observe(/** @type {Element} */ (log.lastElementChild));
  }

  /** Whether the reader is at the end. */
  get following() {
    return this.#following;
  }

  /** How many pixels it is to the end. */
  get distance() {
    const { scrollHeight, scrollTop, clientHeight } = this.#log;
    return scrollHeight - scrollTop - clientHeight;
  }

  /** Scrolls to the end, unless the reader has scrolled away. */
  follow() {
    if (!this.#following) return;
    this.#log.scrollTop = this.#log.scrollHeight;
    // So that its own scrolling is not taken for the reader's.
    this.#top = this.#log.scrollTop;
  }

  /**
   * Scrolls there, and follows nothing.
   *
   * @param {number} top
   */
  stayAt(top) {
    this.#following = false;
    this.#log.scrollTop = this.#top = top;
    this.#onScroll();
  }

  /** Scrolls to the end, wherever the reader is. */
  toEnd() {
    this.#following = true;
    this.follow();
  }

  /** Follows no longer, if there is anything above. */
  #letGo() {
    if (this.#log.scrollTop === 0) return;
    this.#following = false;
    this.#onScroll();
  }
}
