import { html, write } from "./dom.js";

/** @import { Usage } from "./tabloom/index.js" */

/** An answer as it grows. What was guessed ahead is marked in it. */
export class Answer {
  #text = html("p", { class: "text" });
  // To be found by those who look for it, and not read out after every answer.
  #guesses = html("p", { class: "guesses", "aria-live": "off" });

  /** What the model has said. */
  content = "";

  /** @param {Element} item where it is shown */
  constructor(item) {
    item.append(this.#text, this.#guesses);
  }

  /**
   * Goes on with what the model says.
   *
   * @param {string} piece
   * @param {boolean} [guessed] whether it was guessed before it was drawn
   */
  add(piece, guessed = false) {
    if (!piece) return;
    this.content += piece;
    const last = this.#text.lastChild;
    if (last && last instanceof Element === guessed) last.textContent += piece;
    else this.#text.append(guessed ? html("span", { class: "guessed" }, piece) : piece);
  }

  /**
   * Adds what the model has not said.
   *
   * @param {string} note
   */
  note(note) {
    this.#text.append(this.content ? `\n${note}` : note);
  }

  /**
   * Tells how many guesses were right, if there were any.
   *
   * @param {Usage} usage
   */
  count({ completion_tokens_details: details }) {
    const { accepted_prediction_tokens: right, rejected_prediction_tokens: wrong } = details;
    if (right + wrong > 0) write(this.#guesses, `${right} of ${right + wrong} guessed tokens were right`);
  }
}
