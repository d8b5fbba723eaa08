import { advice, el, facts, mark, names, panel, part } from "./dom.js";
import * as f from "./format.js";
import { Table } from "./table.js";

// shapeOf tells a shape in two lines.
const shapeOf = (s) => [
  `${s.verb.toUpperCase()} ${s.resource}`,
  [s.version, s.scope, s.selectors, `revision ${s.revision}`, s.limit ? `limit ${s.limit}` : "", s.encoding].filter(Boolean).join(" · "),
];

const keyOf = (s) => JSON.stringify([s.verb, s.resource, s.version, s.scope, s.selectors, s.revision, s.limit, s.encoding, s.path, s.reason]);

const cost = [
  { id: "cpu", head: "CPU", num: true, value: (s) => s.cpu, show: (s) => f.seconds(s.cpu) },
  { id: "requests", head: "Requests", num: true, value: (s) => s.requests, show: (s) => f.count(s.requests) },
  { id: "passed", head: "Passed on", num: true, value: (s) => (s.passedOn ?? 0) / s.requests, show: (s) => f.percent((s.passedOn ?? 0) / s.requests), help: "Requests that the upstream, or Kubernetes' handlers, answered" },
  { id: "objects", head: "Objects", num: true, value: (s) => s.objects, show: (s) => f.count(s.objects) },
  { id: "scanned", head: "Scanned", num: true, value: (s) => s.scanned, show: (s) => f.count(s.scanned), help: "Objects that were looked at to find those" },
  { id: "bytes", head: "Returned", num: true, value: (s) => s.bytes, show: (s) => f.bytes(s.bytes) },
  { id: "mean", head: "Mean time", num: true, value: (s) => s.seconds / s.requests, show: (s) => f.seconds(s.seconds / s.requests) },
];

// lists is what GETs and LISTs cost.
export function lists() {
  const [row, set] = facts([
    ["requests", "Requests", "GETs and LISTs since the start"], ["cpu", "CPU"], ["objects", "Objects returned"], ["scanned", "Objects scanned"],
    ["bytes", "Returned", "Before TLS"], ["paced", "Held back", "Answered with 429 to pace relists"],
    ["transcoded", "From stored bytes", "Objects that were encoded without being decoded, of those that can be"],
  ]);
  const difference = el("div");
  const storms = el("ul", { class: "findings" });
  const shapes = new Table({
    label: "Most expensive requests", key: keyOf, empty: "No GET or LIST in the last ten minutes.", rows: 8,
    columns: [
      {
        id: "shape", head: "Request", value: (s) => shapeOf(s)[0],
        show: (s) => el("span", { class: "names long" }, names(...shapeOf(s)), (s.clients ?? []).slice(0, 3).map((c) => el("span", { class: "second" }, `by ${f.client(c)}`)), advice(s.advice)),
      },
      { id: "path", head: "Found by", value: (s) => s.path, show: (s) => names(s.path, s.reason) },
      ...cost,
    ],
  });
  const clients = new Table({
    label: "Most expensive clients", key: (c) => `${c.user}\n${c.userAgent}`, empty: "No GET or LIST in the last ten minutes.", rows: 8,
    columns: [
      {
        id: "client", head: "Client", value: f.client,
        show: (c) => el("span", { class: "names long" }, names(c.userAgent || "(no user agent)", c.user, `most: ${shapeOf(c.top).join(" · ")}`), advice(c.advice)),
      },
      ...cost,
    ],
  });
  const stormPart = part("Restart storms", "many clients of one kind that list the same", storms);
  const root = panel("lists", "LIST costs", "Of the last ten minutes, the most expensive by CPU first.",
    row, difference, stormPart, part("By request", "", shapes.root), part("By client", "", clients.root));
  return {
    root,
    lists(r) {
      const t = r.total;
      set("requests", f.count(t.requests));
      set("cpu", f.seconds(t.cpu));
      set("objects", f.count(t.objects));
      set("scanned", f.count(t.scanned), t.objects > 0 ? `${f.factor(t.scanned / t.objects)} for each returned` : "");
      set("bytes", f.bytes(t.bytes));
      set("paced", f.count(r.paced), r.pacing ? "pacing is on" : "pacing is off");
      setTranscoding(set, r.transcoding);
      difference.replaceChildren(...differenceOf(r.transcoding));
      stormPart.hidden = (r.storms ?? []).length === 0;
      storms.replaceChildren(...(r.storms ?? []).map((s) => storm(s, Date.parse(r.time))));
      shapes.update(r.shapes);
      clients.update(r.clients);
    },
  };
}

// setTranscoding tells how objects were encoded. t is absent if Kubernetes encodes all.
function setTranscoding(set, t) {
  if (!t) {
    set("transcoded", "off");
    return;
  }
  const others = t.compared + t.different + t.refuted + t.declined;
  const all = t.transcoded + others;
  set("transcoded", all > 0 ? f.percent(t.transcoded / all) : "–",
    `${f.count(t.transcoded)}; ${f.count(t.compared)} compared, ${f.count(t.different)} different, ${f.count(t.refuted)} refuted, ${f.count(t.declined)} declined, ${f.count(t.normalized)} normalized`);
}

// differenceOf tells the last object whose bytes differed from Kubernetes' encoding.
function differenceOf(t) {
  if (!t?.last) return [];
  const d = t.last;
  return [el("div", { class: `finding ${d.stopped ? "warning" : ""}` },
    mark(d.stopped ? "warning" : "idle"),
    el("div", {},
      el("p", {}, "Last object that is not sent as it is stored: ", el("code", {}, d.key), ` of ${d.form}, at ${d.place}, revision ${d.revision}.`),
      d.stopped ? el("p", { class: "advice" }, "Its fields were proven before, so Kubernetes encodes this form until the next start.") : null))];
}

function storm(s, at) {
  const began = Date.parse(s.began);
  const over = s.ended && Date.parse(s.ended) > 0;
  const when = over ? `ended ${f.seconds((at - Date.parse(s.ended)) / 1000)} ago, took ${f.seconds((Date.parse(s.ended) - began) / 1000)}` : `for ${f.seconds((at - began) / 1000)}`;
  return el("li", { class: `finding ${over ? "" : "warning"}` },
    mark(over ? "idle" : "warning"),
    el("div", {},
      el("h3", {}, `${s.userAgent || "(no user agent)"} lists `, el("code", {}, s.resource), el("span", { class: "tag" }, over ? "over" : "going on")),
      el("p", {}, `${f.count(s.clients)} of ${f.plural(s.fleet, "client")}, ${f.plural(s.requests, "request")}, ${f.bytes(s.bytes)}; ${when}.`),
      s.advice ? el("p", { class: "advice" }, s.advice) : null));
}
