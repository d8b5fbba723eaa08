import { el, svg } from "./dom.js";

// spark draws the last values of a series, with a dashed line at a limit.
export function spark(values, { limit = 0, width = 96, height = 22, label = "" } = {}) {
  const root = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  const top = Math.max(limit * 1.25, ...values, 1e-9);
  const y = (v) => (height - 2 - (v / top) * (height - 4)).toFixed(1);
  const x = (i) => (width - 3 - (values.length - 1 - i) * ((width - 6) / (points - 1))).toFixed(1);
  if (limit > 0) root.append(svg("line", { x1: 0, x2: width, y1: y(limit), y2: y(limit), class: "limit" }));
  if (values.length > 1) {
    const line = values.map((v, i) => `${x(i)},${y(v)}`).join(" ");
    root.append(
      svg("polygon", { points: `${x(0)},${height - 1} ${line} ${x(values.length - 1)},${height - 1}`, class: "area" }),
      svg("polyline", { points: line, class: "line" }),
    );
  }
  if (values.length > 0) {
    const last = values.at(-1);
    root.append(svg("circle", { cx: x(values.length - 1), cy: y(last), r: 2, class: limit > 0 && last > limit ? "last over" : "last" }));
  }
  return root;
}

// points are how many values a spark has at most.
export const points = 120;

// bullet shows a value against its objective, which is in the middle.
export function bullet(value, objective, label) {
  const part = Math.min(value / (2 * objective), 1);
  const over = value > objective;
  const root = svg("svg", { class: `bullet${over ? " over" : ""}`, viewBox: "0 0 100 14", width: 84, height: 14, preserveAspectRatio: "none", role: "img", "aria-label": label });
  root.append(
    svg("rect", { x: 0, y: 4, width: 100, height: 6, rx: 3, class: "track" }),
    svg("rect", { x: 0, y: 4, width: Math.max(2, part * 100).toFixed(1), height: 6, rx: 3, class: "bar" }),
    svg("line", { x1: 50, x2: 50, y1: 1, y2: 13, class: "goal" }),
  );
  return root;
}

// stack is a bar of parts: { name, value, kind, text }. What is left of total stays
// empty.
export function stack(parts, total, label, thin) {
  const shown = parts.filter((p) => p.value > 0);
  const sum = Math.max(total ?? 0, shown.reduce((n, p) => n + p.value, 0));
  const bar = el("div", { class: `stack${thin ? " thin" : ""}`, role: "img", "aria-label": label });
  for (const p of shown) {
    const piece = el("span", { class: `kind-${p.kind}`, title: `${p.name} ${p.text ?? ""}` });
    piece.style.width = `${((100 * p.value) / sum).toFixed(2)}%`;
    bar.append(piece);
  }
  return bar;
}

// legend names the parts of a stack.
export const legend = (parts) => el("ul", { class: "legend" }, parts.map((p) =>
  el("li", {}, el("i", { class: `kind-${p.kind}`, "aria-hidden": "true" }), el("span", {}, p.name), el("b", {}, p.text ?? ""))));
