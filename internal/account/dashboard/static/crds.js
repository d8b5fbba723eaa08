import { facts, panel } from "./dom.js";
import * as f from "./format.js";
import { Table } from "./table.js";

const total = (c) => c.definitionBytes + c.objectBytes + c.compiledBytes;

// crds is what definitions of custom resources cost.
export function crds() {
  const [row, set] = facts([
    ["definitions", "Definitions"], ["served", "In use", "They have objects, or were asked for"], ["compiled", "Compiled", "Their schemas are in memory"],
    ["bytes", "Compiled bytes", "An estimate"],
  ]);
  const size = (id, head, of, help) => ({ id, head, help, num: true, value: of, show: (c) => f.bytes(of(c)) });
  const top = new Table({
    label: "Most expensive definitions", key: (c) => c.name, empty: "There are no definitions.", rows: 12,
    columns: [
      { id: "name", head: "Definition", value: (c) => c.name, show: (c) => c.name },
      { id: "objects", head: "Objects", num: true, value: (c) => c.objects, show: (c) => f.count(c.objects) },
      size("total", "Total", total),
      size("definition", "Definition", (c) => c.definitionBytes, "As it is stored"),
      size("held", "Objects' bytes", (c) => c.objectBytes, "In the cache"),
      size("compiled", "Compiled", (c) => c.compiledBytes, "Schemas, validators and rules, by an estimate"),
      { id: "webhook", head: "Conversion", value: (c) => (c.webhook ? 1 : 0), show: (c) => (c.webhook ? "webhook" : "none") },
    ],
  });
  const root = panel("crds", "Custom resources", "Schemas are compiled when they are needed, and dropped when nobody needs them.", row, top.root);
  return {
    root,
    crds(r) {
      set("definitions", f.count(r.definitions));
      set("served", f.count(r.served));
      set("compiled", f.count(r.compiled));
      set("bytes", f.bytes(r.compiledBytes), `of ${f.bytes(r.compiledLimit)}`);
      top.update(r.top);
    },
  };
}
