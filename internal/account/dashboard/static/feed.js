import { el, facts, mark, names, panel, part } from "./dom.js";
import * as f from "./format.js";
import { Table } from "./table.js";

// feed is etcd, the probe and the process.
export function feed() {
  const feeds = new Table({
    label: "Feeds", key: (x) => `${x.prefix}\n${(x.endpoints ?? []).join()}`, empty: "There is no feed.",
    columns: [
      { id: "etcd", head: "etcd", value: (x) => x.prefix, show: (x) => names((x.endpoints ?? []).join(", ") || "embedded", x.prefix) },
      { id: "health", head: "Health", value: (x) => x.late, show: (x) => (x.error ? mark("critical", x.error) : x.late > 0 ? mark("warning", `late ${f.seconds(x.late)}`) : mark("ok", "in time")) },
      { id: "revision", head: "Revision", num: true, value: (x) => x.revision, show: (x) => String(x.revision), help: "What the cache has seen" },
      { id: "p50", head: "Answer p50", num: true, value: (x) => x.delivery.p50, show: (x) => f.seconds(x.delivery.p50), help: "How long etcd's watch took to answer" },
      { id: "p99", head: "p99", num: true, value: (x) => x.delivery.p99, show: (x) => f.seconds(x.delivery.p99) },
      { id: "max", head: "max", num: true, value: (x) => x.delivery.max, show: (x) => f.seconds(x.delivery.max) },
      { id: "events", head: "Events", num: true, value: (x) => x.events, show: (x) => f.count(x.events) },
      { id: "bytes", head: "Bytes", num: true, value: (x) => x.bytes, show: (x) => f.bytes(x.bytes) },
      { id: "restarts", head: "Restarts", num: true, value: (x) => x.restarts, show: (x) => f.count(x.restarts), help: "How often the watch broke" },
      { id: "loads", head: "Loads", num: true, value: (x) => x.loads, show: (x) => f.count(x.loads), help: "How often all was read anew" },
    ],
  });
  const [probe, setProbe] = facts([
    ["state", "Probe"], ["p50", "Write to client p50", "From the start of a write to its event at a client of this server"], ["p99", "p99"], ["max", "max"],
    ["commit", "After the answer p99", "From the answer to the write to its event: 0 when the event is first"], ["pending", "Pending", "How long the newest write has waited"],
  ]);
  const none = el("p", { class: "empty" }, "The server runs without --watch-probe.");
  const [process, setProcess] = facts([
    ["cpu", "CPU", "Processors in use"], ["p50", "Timer delay p50", "How late timers fired: this process was ready to run and did not"], ["p99", "p99"], ["max", "max"],
  ]);
  const root = panel("feed", "etcd, probe and process", "",
    feeds.root, el("div", { class: "columns" }, part("Probe", "through the server's listener", probe, none), part("Process", "of the last minute", process)));
  return {
    root,
    feed(r) {
      feeds.update(r.feeds);
    },
    slo(r) {
      probe.hidden = !r.probe;
      none.hidden = Boolean(r.probe);
      if (r.probe) {
        const { whole, commit, pending, error } = r.probe;
        setProbe("state", error ? "fails" : "works", error ?? `${f.count(whole.count)} in the last minute`, error ? "critical" : "");
        setProbe("p50", f.seconds(whole.p50));
        setProbe("p99", f.seconds(whole.p99));
        setProbe("max", f.seconds(whole.max));
        setProbe("commit", f.seconds(commit.p99));
        setProbe("pending", f.seconds(pending), "", pending > 5 ? "warning" : "");
      }
      const p = r.process;
      setProcess("cpu", p.cpu.toFixed(2), `of ${f.plural(p.processors, "processor")}`);
      setProcess("p50", f.seconds(p.delay.p50));
      setProcess("p99", f.seconds(p.delay.p99));
      setProcess("max", f.seconds(p.delay.max));
    },
  };
}
