import { html, write } from "./dom.js";

/** Names with their figures, and what there is to add to each. */
export class Facts {
  #values;
  element;

  /** @param {string[]} names */
  constructor(names) {
    this.#values = names.map(() => [html("dd"), html("dd", { class: "more" })]);
    const rows = names.map((name, i) => html("div", {}, html("dt", {}, name), ...this.#values[i]));
    this.element = html("dl", { class: "facts" }, ...rows);
  }

  /** @param {[value: string, more?: string][]} values */
  show(values) {
    for (const [i, [value, more = ""]] of values.entries()) {
      write(this.#values[i][0], value);
      write(this.#values[i][1], more);
    }
  }
}

/**
 * A row of a table: its name, a class whose colour marks it, whether it is the reader's own, and the
 * other cells, or one for all of them.
 *
 * @typedef {{name: string, colour?: string, own?: boolean, cells: string[]}} Row
 */

/** A table whose first column names the rows. Where there is no room each row stands on its own. */
export class Table {
  #caption = html("caption");
  #body = html("tbody", { role: "rowgroup" });
  #columns;
  element;

  /** @param {string[]} columns */
  constructor(columns) {
    this.#columns = columns;
    const head = columns.map((column) => html("th", { scope: "col", role: "columnheader" }, column));
    const rows = html("thead", { role: "rowgroup" }, html("tr", { role: "row" }, ...head));
    // Another `display` may take the roles away.
    this.element = html("table", { role: "table" }, this.#caption, rows, this.#body);
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
      const [first] = /** @type {HTMLTableCellElement[]} */ (cells);
      first.colSpan = 1 + cells.length - row.cells.length;
      first.classList.toggle("whole", first.colSpan > 1);
      for (const [i, cell] of cells.entries()) {
        cell.toggleAttribute("hidden", i >= row.cells.length);
        write(cell, row.cells[i] ?? "");
      }
    });
  }

  #row() {
    const cells = this.#columns.slice(1).map((name) => html("td", { role: "cell", "data-name": name }));
    return html("tr", { role: "row" }, html("th", { scope: "row", role: "rowheader" }), ...cells);
  }
}
