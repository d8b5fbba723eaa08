import { el, mark, names, panel, part } from "./dom.js";
import { bullet, legend, spark, stack } from "./draw.js";
import * as f from "./format.js";
import { history } from "./history.js";
import { Table } from "./table.js";
import { cause, stages } from "./words.js";

const quantile = (id, head, of, help) => ({ id, head, help, num: true, value: of, show: (r) => f.seconds(of(r)) });
const burn = (id, head, of) => ({
  id, head, num: true, value: of, help: "How fast the error budget is used up: 1 is as fast as it may",
  show: (r) => el("span", { class: of(r) > 1 ? "over" : "" }, f.factor(of(r))),
});

// slo is the spans of events: by resource, stage, client and subscription.
export function slo() {
  const resources = new Table({
    label: "Spans by resource", key: (r) => r.resource, empty: "No events in the last minute.", rows: 12,
    columns: [
      { id: "resource", head: "Resource", value: (r) => r.resource, show: (r) => names(r.resource) },
      { id: "met", head: "Objective", value: (r) => (r.met ? 1 : 0), show: (r) => mark(r.met ? "ok" : "critical", r.met ? "met" : "missed") },
      { id: "p99", head: "p99", num: true, value: (r) => r.spans.p99, show: (r) => f.seconds(r.spans.p99) },
      {
        id: "of", head: "of objective", num: false, value: (r) => r.spans.p99 / r.objective, help: "The line in the middle is the objective",
        show: (r) => el("span", { class: "against" }, bullet(r.spans.p99, r.objective, `p99 is ${f.percent(r.spans.p99 / r.objective)} of the objective`), el("small", {}, f.seconds(r.objective))),
      },
      { id: "trend", head: "Trend", help: "p99 since the page was opened", show: (r) => spark(history.of(`r ${r.resource}`), { limit: r.objective, label: `p99 of ${r.resource}` }) },
      quantile("p50", "p50", (r) => r.spans.p50),
      quantile("p999", "p99.9", (r) => r.spans.p999),
      quantile("max", "max", (r) => r.spans.max),
      { id: "late", head: "Late", num: true, value: (r) => r.late, show: (r) => el("span", {}, f.count(r.late), el("small", {}, ` / ${f.count(r.spans.count)}`)) },
      burn("b5", "Burn 5 m", (r) => r.burn.fiveMinutes),
      burn("b60", "1 h", (r) => r.burn.hour),
      burn("b360", "6 h", (r) => r.burn.sixHours),
      { id: "cause", head: "Waits for", value: (r) => r.cause ?? "", show: (r) => (r.cause && r.late ? cause(r.cause) : "–"), help: "What the slowest hundredth waited for most" },
      { id: "stages", head: "Slowest hundredth", show: (r) => stack(parts(r.stages), 1, sentence(r.stages), true), help: "Where the time of the slowest hundredth went" },
    ],
  });
  const held = el("div");
  const stageTable = new Table({
    label: "Stages of all events", key: (s) => s.stage, empty: "No events in the last minute.",
    columns: [
      { id: "stage", head: "Stage", show: (s) => names(stages[s.stage]?.[0] ?? s.stage, stages[s.stage]?.[1]) },
      { id: "share", head: "Share", num: true, value: (s) => s.share, show: (s) => (s.stage === "etcd" ? "–" : f.percent(s.share)) },
      quantile("p50", "p50", (s) => s.p50),
      quantile("p99", "p99", (s) => s.p99),
      quantile("p999", "p99.9", (s) => s.p999),
    ],
  });
  const clients = new Table({
    label: "Slowest clients", key: (c) => `${c.user}\n${c.userAgent}`, empty: "No events in the last minute.", rows: 6,
    columns: [
      { id: "client", head: "Client", value: f.client, show: (c) => names(c.userAgent || "(no user agent)", c.user) },
      quantile("p99", "p99", (c) => c.spans.p99),
      { id: "late", head: "Late", num: true, value: (c) => c.late, show: (c) => f.count(c.late) },
      { id: "watches", head: "Watches", num: true, value: (c) => c.watches, show: (c) => f.count(c.watches) },
      { id: "cause", head: "Waits for", value: (c) => c.cause ?? "", show: (c) => (c.cause ? cause(c.cause) : "–") },
    ],
  });
  const subscriptions = new Table({
    label: "Slowest subscriptions", key: (s) => `${s.resource}\n${s.selection}`, empty: "No events in the last minute.", rows: 6,
    columns: [
      { id: "subscription", head: "Subscription", value: (s) => s.resource, show: (s) => names(s.resource, s.selection || "everything") },
      quantile("p99", "p99", (s) => s.spans.p99),
      { id: "watches", head: "Watches", num: true, value: (s) => s.watches, show: (s) => f.count(s.watches) },
      { id: "events", head: "Events", num: true, value: (s) => s.events, show: (s) => f.count(s.events) },
    ],
  });
  const root = panel("slo", "Watch SLO", "An event's span is from its arrival from etcd until its last byte is handed to the network. Quantiles are of the last minute.",
    resources.root,
    el("div", { class: "columns" },
      part("What held the slowest hundredth", "all resources", held, stageTable.root),
      el("div", {}, part("Slowest clients", "", clients.root), part("Slowest subscriptions", "", subscriptions.root))));

  return {
    root,
    slo(r) {
      history.add("all", r.all.spans.p99);
      const kept = new Set(["all"]);
      for (const x of r.resources ?? []) {
        history.add(`r ${x.resource}`, x.spans.p99);
        kept.add(`r ${x.resource}`);
      }
      history.keep(kept);
      resources.update(r.resources);
      const all = r.all.stages ?? [];
      held.replaceChildren(stack(parts(all), 1, sentence(all)), legend(parts(all)));
      stageTable.update(all);
      clients.update(r.clients);
      subscriptions.update(r.subscriptions);
    },
  };
}

const parts = (list) => (list ?? []).filter((s) => s.stage !== "etcd")
  .map((s) => ({ name: stages[s.stage]?.[0] ?? s.stage, value: s.share, kind: stages[s.stage] ? s.stage : "other", text: f.percent(s.share) }));

const sentence = (list) => parts(list).filter((p) => p.value > 0).map((p) => `${p.name} ${p.text}`).join(", ") || "no events";
