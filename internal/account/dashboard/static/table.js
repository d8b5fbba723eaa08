import { el, say } from "./dom.js";
import { count } from "./format.js";

const firstRows = 10;

// Table keeps its rows by their keys, so that a refresh moves nothing that did not
// change. Columns are { id, head, help, num, value(row), show(row) }: value is what
// it is sorted by, show gives text or a node.
export class Table {
  constructor({ label, columns, key, empty, rows = firstRows }) {
    Object.assign(this, { columns, key, label, limit: rows, byKey: new Map(), data: [], sort: null, all: false });
    this.heads = columns.map((c) => this.head(c));
    this.body = el("tbody");
    this.table = el("table", {}, el("caption", { class: "hidden" }, label), el("thead", {}, el("tr", {}, this.heads)), this.body);
    this.scroll = el("div", { class: "scroll", role: "region", "aria-label": label, tabIndex: 0 }, this.table);
    this.empty = el("p", { class: "empty" }, empty);
    this.more = el("button", { type: "button", class: "more", hidden: true });
    this.more.addEventListener("click", () => {
      this.all = !this.all;
      this.draw();
    });
    this.root = el("div", { class: "table" }, this.scroll, this.empty, this.more);
    this.draw();
  }

  head(column) {
    const arrow = el("span", { class: "arrow", "aria-hidden": "true" });
    const button = el("button", { type: "button", title: column.help ?? "" }, column.head, arrow);
    const th = el("th", { scope: "col", class: column.num ? "num" : "" }, column.value ? button : column.head);
    if (!column.value) th.title = column.help ?? "";
    button.addEventListener("click", () => this.turn(column));
    return th;
  }

  // turn sorts by a column: the better half first, then the other, then as the
  // server has it.
  turn(column) {
    const first = column.num ? -1 : 1;
    if (this.sort?.column !== column) this.sort = { column, way: first };
    else if (this.sort.way === first) this.sort = { column, way: -first };
    else this.sort = null;
    this.draw();
  }

  update(rows) {
    this.data = rows ?? [];
    this.draw();
  }

  sorted() {
    if (!this.sort) return this.data;
    const { column, way } = this.sort;
    const of = column.value;
    return this.data.toSorted((a, b) => {
      const x = of(a);
      const y = of(b);
      return way * (typeof x === "string" ? x.localeCompare(y) : x - y);
    });
  }

  draw() {
    this.columns.forEach((c, i) => {
      const way = this.sort?.column === c ? this.sort.way : 0;
      this.heads[i].ariaSort = way === 0 ? null : way > 0 ? "ascending" : "descending";
      const arrow = this.heads[i].querySelector(".arrow");
      if (arrow) say(arrow, way === 0 ? "" : way > 0 ? "↑" : "↓");
    });
    const rows = this.sorted();
    const shown = this.all ? rows : rows.slice(0, this.limit);
    const kept = new Map();
    shown.forEach((row, i) => {
      const key = this.key(row);
      const tr = kept.has(key) ? this.row() : (this.byKey.get(key) ?? this.row());
      kept.set(kept.has(key) ? `${key}\n${i}` : key, tr);
      this.columns.forEach((c, j) => put(tr.cells[j], c.show(row)));
      if (this.body.rows[i] !== tr) this.body.insertBefore(tr, this.body.rows[i] ?? null);
    });
    while (this.body.rows.length > shown.length) this.body.lastChild.remove();
    this.byKey = kept;
    this.scroll.hidden = rows.length === 0;
    this.empty.hidden = rows.length > 0;
    this.more.hidden = rows.length <= this.limit;
    say(this.more, this.all ? "Show fewer" : `Show all ${count(rows.length)}`);
    this.more.ariaExpanded = String(this.all);
  }

  row() {
    return el("tr", {}, this.columns.map((c, i) =>
      (i === 0 ? el("th", { scope: "row" }) : el("td", { class: c.num ? "num" : "" }))));
  }
}

function put(cell, content) {
  if (typeof content === "string") {
    if (cell.childElementCount > 0) cell.replaceChildren();
    say(cell, content);
  } else if (!cell.firstChild?.isEqualNode(content)) {
    cell.replaceChildren(content);
  }
}
