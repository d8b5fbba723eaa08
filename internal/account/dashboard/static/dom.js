// Elements. What comes from the server gets into the page as text alone: nothing
// here parses markup.

const svgSpace = "http://www.w3.org/2000/svg";

// el makes an element. Properties are set as they are, but class, and those with
// a dash, which are attributes. Children are nodes or text.
export function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// svg makes an element of a drawing.
export function svg(tag, attributes = {}, ...children) {
  const e = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

function fill(e, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name === "class") e.className = value;
    else if (name.includes("-") || name === "role") e.setAttribute(name, value);
    else e[name] = value;
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

// say sets an element's text, unless it says so already.
export function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

const shapes = {
  ok: ["circle", { cx: 8, cy: 8, r: 6.5 }, "M5 8.2l2.1 2.1L11.2 6"],
  warning: ["path", { d: "M8 1.6L15 14.2H1z" }, "M8 6.2v3.6M8 11.9v.1"],
  critical: ["path", { d: "M5 1.2h6L14.8 5v6L11 14.8H5L1.2 11V5z" }, "M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8"],
  idle: ["circle", { cx: 8, cy: 8, r: 6 }, "M5.5 8h5"],
};

// mark is a status: a shape of its own for each, so that colour is not needed.
export function mark(status, words) {
  const [tag, attributes, inner] = shapes[status] ?? shapes.idle;
  const drawing = svg("svg", { viewBox: "0 0 16 16", class: `mark ${status}`, "aria-hidden": "true" },
    svg(tag, { ...attributes, class: "shape" }), svg("path", { d: inner, class: "sign" }));
  return words === undefined ? drawing : el("span", { class: `status ${status}` }, drawing, el("span", {}, words));
}

// facts is a row of figures with their names. The returned function sets them, by
// id, to text and a note.
export function facts(list) {
  const values = new Map();
  const root = el("dl", { class: "facts" }, list.map(([id, name, help]) => {
    const value = el("dd", {}, "–");
    const note = el("dd", { class: "note" });
    values.set(id, [value, note]);
    return el("div", { title: help ?? "" }, el("dt", {}, name), value, note);
  }));
  return [root, (id, text, note = "", status = "") => {
    const [value, small] = values.get(id);
    say(value, text);
    say(small, note);
    value.className = status;
  }];
}

// panel is a section of the page.
export function panel(id, title, lead, ...children) {
  return el("section", { id, class: "panel", "aria-labelledby": `${id}-title` },
    el("div", { class: "panel-head" }, el("h2", { id: `${id}-title` }, title), lead ? el("p", {}, lead) : null), ...children);
}

// part is a part of a panel.
export const part = (title, note, ...children) =>
  el("div", { class: "part" }, el("h3", {}, title, note ? el("small", {}, note) : null), ...children);

// breakable is a name that lines may break after its punctuation, but not within an address.
const breakable = (name) => typeof name !== "string" ? name :
  name.split(/(?<=[./:_-])(?!\d)/).flatMap((piece, i) => i > 0 ? [el("wbr"), piece] : [piece]);

// names is text in two lines, the second one quieter.
export const names = (first, ...rest) =>
  el("span", { class: "names" }, el("span", { class: "first" }, breakable(first)), rest.filter(Boolean).map((r) => el("span", { class: "second" }, breakable(r))));

// advice is a list of sentences.
export const advice = (sentences) => (sentences ?? []).map((s) => el("span", { class: "advice" }, s));
