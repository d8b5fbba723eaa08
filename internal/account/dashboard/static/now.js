import { el, facts, mark, panel } from "./dom.js";
import { spark } from "./draw.js";
import * as f from "./format.js";
import { history, perSecond } from "./history.js";
import { cause, severity } from "./words.js";

// now is what is wrong, and the figures that tell most.
export function now() {
  const headline = el("p", { class: "headline" });
  const list = el("ol", { class: "findings" });
  const [row, set] = facts([
    ["p99", "p99, all events", "99 of 100 spans of the last minute were shorter"],
    ["late", "Late", "Spans of the last minute beyond their objective"],
    ["events", "Events", "Delivered to watches"],
    ["sent", "Sent", "Bytes of events delivered to watches"],
    ["watches", "Watches", "Open watches, and what they share"],
    ["behind", "Behind", "Watches with something that they were not sent yet"],
    ["etcd", "etcd", "How long etcd's watch took to answer, p99 of the last minute"],
    ["cpu", "CPU", "Processors in use, of those that may be used"],
    ["memory", "Memory", "Resident, of what the process may have"],
  ]);
  const trend = el("div", { class: "trend" });
  row.firstChild.append(trend);
  const root = panel("now", "What is wrong now", "", headline, list, row);
  const events = perSecond();
  const sent = perSecond();
  let shown = "";
  let eventReport = null;
  let readCauses = []; // of a replica

  function showCauses() {
    if (!eventReport) return;
    const { met } = eventReport;
    const causes = [...(eventReport.causes ?? []), ...readCauses];
    const text = JSON.stringify([causes, met]);
    if (text === shown) return;
    shown = text;
    headline.replaceChildren(mark(...headlineOf({ met, causes })));
    list.replaceChildren(...causes.map(finding));
  }

  return {
    root,
    replica(r) {
      readCauses = r.causes ?? [];
      showCauses();
    },
    slo(r) {
      eventReport = r;
      showCauses();
      const all = r.all;
      set("p99", f.seconds(all.spans.p99), all.objective > 0 ? `objective ${f.seconds(all.objective)}` : "", all.met ? "" : "critical");
      trend.replaceChildren(spark(history.of("all"), { limit: all.objective, width: 150, height: 30, label: "p99 of the last minutes" }));
      set("late", f.count(all.late), `of ${f.count(all.spans.count)}`, all.late > 0 && !all.met ? "critical" : "");
      const at = Date.parse(r.time);
      set("events", f.rate(events(all.events, at)), `${f.count(all.events)} in all`);
      set("sent", f.byteRate(sent(all.bytes, at)), `${f.bytes(all.bytes)} in all`);
      const p = r.process;
      set("cpu", p.cpu.toFixed(1), `of ${p.processors} · delay ${f.seconds(p.delay.p99)}`, p.cpu > 0.9 * p.processors ? "warning" : "");
    },
    watchers(r) {
      set("watches", f.count(r.watches), `${f.plural(r.subscriptions, "subscription")} · ${f.plural(r.clients, "client")}`);
      const worst = Math.max(0, ...(r.behind ?? []).map((w) => w.behindSeconds));
      set("behind", f.count(r.waiting), worst > 0 ? `furthest ${f.seconds(worst)}` : "", worst > 10 ? "warning" : "");
    },
    feed(r) {
      const feeds = r.feeds ?? [];
      const late = Math.max(0, ...feeds.map((x) => x.late));
      const p99 = Math.max(0, ...feeds.map((x) => x.delivery.p99));
      const broken = feeds.some((x) => x.error) || late > 0;
      set("etcd", late > 0 ? `late ${f.seconds(late)}` : f.seconds(p99), broken ? "not in time" : "in time", broken ? "critical" : "");
    },
    memory(r) {
      set("memory", f.bytes(r.resident), `of ${f.bytes(r.limit)}`, r.resident > 0.9 * r.limit ? "warning" : "");
    },
  };
}

// headlineOf is the status in a few words, for the page and for who hears it.
export function headlineOf(r) {
  const n = (r.causes ?? []).length;
  if (n === 0) return r.met ? ["ok", "Nothing: every objective is met."] : ["warning", "An objective was missed in the last minute; no cause is seen now."];
  const worst = r.causes.some((c) => c.severity === "critical") ? "critical" : "warning";
  return [worst, `${f.plural(n, "cause")}${r.met ? "; every objective is still met." : "; events are late."}`];
}

function finding(c) {
  const status = severity(c.severity);
  const concerns = [c.resource, c.client].filter(Boolean);
  return el("li", { class: `finding ${status}` },
    mark(status),
    el("div", {},
      el("h3", {}, cause(c.cause), el("span", { class: "tag" }, status), concerns.map((x) => el("code", {}, x))),
      el("p", {}, c.message),
      c.advice ? el("p", { class: "advice" }, c.advice) : null));
}
