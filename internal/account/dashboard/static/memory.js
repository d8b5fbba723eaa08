import { el, facts, names, panel } from "./dom.js";
import { legend, stack } from "./draw.js";
import * as f from "./format.js";
import { Table } from "./table.js";

const sum = (forms) => Object.values(forms ?? {}).reduce((n, x) => n + x, 0);
const largest = (forms) => Object.entries(forms ?? {}).sort((a, b) => b[1] - a[1]);

// memory is where the process's memory is.
export function memory() {
  const [row, set] = facts([
    ["resident", "Resident"], ["heap", "Go heap", "In use"], ["wire", "Wire cache", "Encoded bytes that are kept for the next reader"],
    ["goroutines", "Goroutines"],
  ]);
  const bar = el("div");
  const resources = new Table({
    label: "Memory by resource", key: (r) => r.resource, empty: "Nothing is stored.", rows: 12,
    columns: [
      { id: "resource", head: "Resource", value: (r) => r.resource, show: (r) => r.resource },
      { id: "objects", head: "Objects", num: true, value: (r) => r.objects, show: (r) => f.count(r.objects) },
      { id: "total", head: "Total", num: true, value: total, show: (r) => f.bytes(total(r)) },
      { id: "values", head: "Values", num: true, value: (r) => r.values, show: (r) => f.bytes(r.values), help: "Packed objects" },
      { id: "log", head: "Log", num: true, value: (r) => r.log, show: (r) => f.bytes(r.log), help: "What recent events hold beside them" },
      { id: "wire", head: "Wire", num: true, value: (r) => sum(r.forms), show: (r) => f.bytes(sum(r.forms)) },
      { id: "share", head: "", show: (r) => stack([...ofResource(r)], state.most, `values ${f.bytes(r.values)}, log ${f.bytes(r.log)}, wire ${f.bytes(sum(r.forms))}`, true) },
      { id: "forms", head: "Wire bytes by form", show: (r) => names(largest(r.forms).slice(0, 3).map(([k, n]) => `${k} ${f.bytes(n)}`).join(" · ") || "–") },
      { id: "indexes", head: "Indexes", show: (r) => names((r.indexes ?? []).join(" · ") || "–") },
    ],
  });
  const state = { most: 0 };
  const root = panel("memory", "Memory", "Objects are kept packed; wire bytes are what readers were sent, kept within a budget.", row, bar, resources.root);
  return {
    root,
    memory(r) {
      const all = r.resources ?? [];
      state.most = Math.max(0, ...all.map(total));
      set("resident", f.bytes(r.resident), `${f.percent(r.resident / r.limit)} of ${f.bytes(r.limit)}`);
      set("heap", f.bytes(r.heap));
      set("wire", f.bytes(r.wire), `of ${f.bytes(r.wireLimit)}`);
      set("goroutines", f.count(r.goroutines));
      const values = all.reduce((n, x) => n + x.values, 0);
      const log = all.reduce((n, x) => n + x.log, 0);
      const known = values + log + r.wire;
      const parts = [
        { name: "values", kind: "values", value: values }, { name: "log", kind: "log", value: log },
        { name: "wire cache", kind: "wire", value: r.wire },
        { name: "other heap", kind: "heap", value: Math.max(0, r.heap - known) },
        { name: "beyond the heap", kind: "rest", value: Math.max(0, r.resident - Math.max(r.heap, known)) },
      ].map((p) => ({ ...p, text: f.bytes(p.value) }));
      bar.replaceChildren(stack(parts, 0, parts.map((p) => `${p.name} ${p.text}`).join(", ")), legend(parts));
      resources.update(all);
    },
  };
}

const total = (r) => r.values + r.log + sum(r.forms);
const ofResource = (r) => [
  { name: "values", kind: "values", value: r.values, text: f.bytes(r.values) },
  { name: "log", kind: "log", value: r.log, text: f.bytes(r.log) },
  { name: "wire", kind: "wire", value: sum(r.forms), text: f.bytes(sum(r.forms)) },
];
