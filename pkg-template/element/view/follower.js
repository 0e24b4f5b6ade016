/** A reader this many pixels from the end is at the end. */
const NEAR = 64;

/** Keeps the end of a conversation in view as it grows, unless its reader has scrolled up. */
export class Follower {
  #log;
  #following = true;
  /** The last scroll position. */
  #top = 0;

  /**
   * @param {HTMLElement} log the element that scrolls
   * @param {() => void} [onScroll]
   */
  constructor(log, onScroll = () => {}) {
    this.#log = log;
    log.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = log;
      const distance = scrollHeight - scrollTop - clientHeight;
      // A text that grows moves the end away, too; only readers scroll up, unless there is less to scroll.
      const up = scrollTop < this.#top && distance >= 1;
      this.#following = !up && (this.#following || distance < NEAR);
      this.#top = scrollTop;
      onScroll();
    });
    const observer = new ResizeObserver(() => this.follow());
    observer.observe(log);
    // The messages; what a page makes of code and formulas takes other room than their text.
    observer.observe(/** @type {Element} */ (log.lastElementChild));
  }

  /** Whether the reader is at the end. */
  get following() {
    return this.#following;
  }

  /** Scrolls to the end, unless the reader has scrolled away. */
  follow() {
    if (this.#following) this.#log.scrollTop = this.#log.scrollHeight;
  }

  /** Scrolls to the end, wherever the reader is. */
  toEnd() {
    this.#following = true;
    this.follow();
  }
}
