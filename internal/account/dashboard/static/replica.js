import { el, facts, mark, panel, part } from "./dom.js";
import * as f from "./format.js";
import { Table } from "./table.js";

const sum = (counts) => Object.values(counts ?? {}).reduce((a, b) => a + b, 0);
const rows = (counts) => Object.entries(counts ?? {}).map(([name, count]) => ({ name, count })).toSorted((a, b) => b.count - a.count || a.name.localeCompare(b.name));

// replica is the upstream of a replica, and what it is spared.
export function replica() {
  const [row, set] = facts([
    ["upstream", "Upstream", "The API server that this one stands in front of"],
    ["state", "Followed", "Resources, or etcd clusters, whose changes arrive"],
    ["reads", "Reads answered here", "GET, LIST and WATCH"],
    ["passed", "Passed on", "Requests that the upstream answered, of all kinds"],
    ["watches", "Watches here", "Open watches of clients, and how many this replica has open instead"],
    ["events", "Events sent", "To watches of clients"],
    ["bytes", "Bytes sent", "In place of the upstream"],
    ["spared", "CPU spared, at least", "An estimate: what a stock API server takes for as many GETs, LISTs, bytes and events, by the lowest figures of benchmarks"],
    ["cpu", "CPU of GETs and LISTs", "What they took here"],
  ]);
  const counted = (label, head, empty) => new Table({
    label, key: (x) => x.name, empty, rows: 8,
    columns: [
      { id: "name", head, value: (x) => x.name, show: (x) => x.name },
      { id: "count", head: "Requests", num: true, value: (x) => x.count, show: (x) => f.count(x.count) },
    ],
  });
  const passed = counted("Not answered here, by reason", "Reason", "Everything was answered here.");
  const asked = counted("Requests to the upstream, by how the user was named", "User named by", "The upstream was asked nothing.");
  const refused = counted("Requests refused here, by reason", "Reason", "Nothing was refused.");
  const followed = new Table({
    label: "What is followed", key: (x) => x.name, empty: "Nothing is followed yet: a resource is, from its first read on.", rows: 12,
    columns: [
      { id: "name", head: "Resource", value: (x) => x.name, show: (x) => x.name },
      { id: "state", head: "State", value: (x) => (x.error ? 1 + x.broken : 0), show: (x) => (x.error ? mark(x.broken > 0 ? "critical" : "warning", x.broken > 0 ? `broken for ${f.seconds(x.broken)}: ${x.error}` : x.refused ? `not followed: ${x.error}` : x.error) : mark("ok", "follows")) },
      { id: "objects", head: "Objects", num: true, value: (x) => x.objects, show: (x) => f.count(x.objects) },
      { id: "revision", head: "Revision", num: true, value: (x) => x.revision, show: (x) => String(x.revision) },
      { id: "heard", head: "Heard", num: true, value: (x) => x.heard, show: (x) => (x.heard ? `${f.seconds(x.heard)} ago` : "–") },
    ],
  });
  const reads = new Table({
    label: "GETs and LISTs, by resource", key: (x) => x.resource, empty: "No GET or LIST in the last ten minutes.", rows: 8,
    columns: [
      { id: "resource", head: "Resource", value: (x) => x.resource, show: (x) => x.resource },
      { id: "requests", head: "Requests", num: true, value: (x) => x.requests, show: (x) => f.count(x.requests) },
      { id: "cache", head: "Cache", num: true, value: (x) => x.requests - x.shared - x.passedOn, show: (x) => f.count(x.requests - x.shared - x.passedOn) },
      { id: "shared", head: "Shared", num: true, value: (x) => x.shared, show: (x) => f.count(x.shared), help: "Answered with the upstream's answer to another client" },
      { id: "passed", head: "Passed on", num: true, value: (x) => x.passedOn, show: (x) => f.count(x.passedOn) },
      { id: "part", head: "Of all", num: true, value: (x) => x.passedOn / x.requests, show: (x) => f.percent(x.passedOn / x.requests), help: "Passed on" },
    ],
  });
  const root = panel("replica", "Upstream", "What this replica holds of it, and what it is spared.", row,
    followed.root, part("GETs and LISTs", "by resource, in the last ten minutes", reads.root),
    el("div", { class: "columns" }, part("Not answered here", "by reason", passed.root), part("Upstream asked", "for clients", asked.root), part("Refused here", "by reason", refused.root)));
  let feeds = 0;
  return {
    root,
    replica(r) {
      const broken = r.followed.filter((x) => x.error && !x.refused).length;
      feeds = r.followed.filter((x) => !x.refused).length;
      set("upstream", r.version, `${r.upstream} · here ${r.ownVersion}${r.skew ? ` · ${r.skew}` : ""}`);
      set("state", f.count(feeds), broken ? `${broken} not in time` : `through ${r.source === "etcd" ? "etcd" : "the API"}, at depth ${r.depth}`, broken ? "critical" : "");
      set("reads", f.count(sum(r.answered)), rows(r.answered).map((x) => `${f.count(x.count)} ${x.name}`).join(" · "));
      set("passed", f.count(sum(r.asked)), `${f.count(sum(r.passedOn))} for a reason below`);
      set("bytes", f.bytes(r.spared.requestBytes + r.spared.eventBytes), `${f.bytes(r.spared.eventBytes)} to watches`);
      set("spared", f.seconds(r.spared.cpu), "estimated");
      reads.update(r.reads);
      passed.update(rows(r.passedOn));
      asked.update(rows(r.asked));
      refused.update(rows(r.refused));
      followed.update(r.followed);
    },
    watchers(r) {
      set("watches", f.count(r.watches), `${f.count(feeds)} at the source`);
      set("events", f.count(r.events));
    },
    lists(r) {
      set("cpu", f.seconds(r.total.cpu), f.plural(r.total.requests, "request"));
    },
  };
}
