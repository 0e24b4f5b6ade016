import { html, write } from "./dom.js";

/** A list of names with their values. */
export class Facts {
  #values;
  element;

  /** @param {string[]} names */
  constructor(names) {
    this.#values = names.map(() => html("dd"));
    const rows = names.map((name, i) => html("div", {}, html("dt", {}, name), this.#values[i]));
    this.element = html("dl", {}, ...rows);
  }

  /** @param {string[]} values */
  show(values) {
    for (const [i, value] of values.entries()) write(this.#values[i], value);
  }
}

/**
 * A row of a table: its name, a class whose colour marks it, whether it is the reader's own, and the
 * other cells.
 *
 * @typedef {{name: string, colour?: string, own?: boolean, cells: string[]}} Row
 */

/** A table whose first column names the rows. */
export class Table {
  #caption = html("caption");
  #body = html("tbody");
  #columns;
  element;

  /** @param {string[]} columns */
  constructor(columns) {
    this.#columns = columns;
    const head = columns.map((column) => html("th", { scope: "col" }, column));
    this.element = html("table", {}, this.#caption, html("thead", {}, html("tr", {}, ...head)), this.#body);
  }

  /**
   * @param {string} caption
   * @param {Row[]} rows
   */
  show(caption, rows) {
    write(this.#caption, caption);
    while (this.#body.childElementCount > rows.length) this.#body.lastElementChild?.remove();
    while (this.#body.childElementCount < rows.length) this.#body.append(this.#row());
    rows.forEach((row, i) => {
      const element = this.#body.children[i];
      const [name, ...cells] = element.children;
      element.className = [row.colour, row.own && "own"].filter(Boolean).join(" ");
      write(name, row.name);
      for (const [i, cell] of cells.entries()) write(cell, row.cells[i]);
    });
  }

  #row() {
    const [, ...others] = this.#columns;
    return html("tr", {}, html("th", { scope: "row" }), ...others.map(() => html("td")));
  }
}
