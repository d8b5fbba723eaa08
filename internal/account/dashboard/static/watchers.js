import { facts, names, panel, part } from "./dom.js";
import * as f from "./format.js";
import { Table } from "./table.js";
import { state } from "./words.js";

// watchers is who watches, and who is behind.
export function watchers() {
  const [row, set] = facts([
    ["watches", "Watches"], ["subscriptions", "Subscriptions", "Watches that select the same share one"], ["clients", "Clients"],
    ["waiting", "Waiting", "Watches with something that they were not sent yet"],
    ["passed", "Passed on", "More watches, whose events another server or Kubernetes' handlers send"],
    ["events", "Events sent"], ["bytes", "Bytes sent"], ["expired", "Told to list again", "Watches whose place in the log was gone"],
  ]);
  const behind = new Table({
    label: "Watches furthest behind", key: (w) => w.id, empty: "No watch is behind.", rows: 12,
    columns: [
      { id: "client", head: "Client", value: f.client, show: (w) => names(w.userAgent || "(no user agent)", [w.user, w.address].filter(Boolean).join(" · ")) },
      { id: "resource", head: "Watches", value: (w) => w.resource, show: (w) => names(w.resource, w.selection) },
      { id: "state", head: "Waits for", value: (w) => w.state, show: (w) => state(w.state) },
      { id: "seconds", head: "Behind", num: true, value: (w) => w.behindSeconds, show: (w) => f.seconds(w.behindSeconds) },
      { id: "events", head: "Events", num: true, value: (w) => w.behindEvents, show: (w) => f.count(w.behindEvents) },
      { id: "bytes", head: "Bytes", num: true, value: (w) => w.behindBytes, show: (w) => f.bytes(w.behindBytes) },
      { id: "sent", head: "Sent", num: true, value: (w) => w.bytes, show: (w) => f.bytes(w.bytes) },
      { id: "age", head: "Age", num: true, value: (w) => w.age, show: (w) => f.seconds(w.age) },
      { id: "encoding", head: "Encoding", value: (w) => w.encoding, show: (w) => names(w.encoding, w.protocol) },
    ],
  });
  const resources = new Table({
    label: "Watches by resource", key: (r) => r.resource, empty: "Nothing is watched.", rows: 12,
    columns: [
      { id: "resource", head: "Resource", value: (r) => r.resource, show: (r) => r.resource },
      { id: "watches", head: "Watches", num: true, value: (r) => r.watches, show: (r) => f.count(r.watches) },
      { id: "subscriptions", head: "Subscr.", num: true, value: (r) => r.subscriptions, show: (r) => f.count(r.subscriptions) },
      { id: "events", head: "Log events", num: true, value: (r) => r.logEvents, show: (r) => f.count(r.logEvents), help: "Events that a watch can resume from" },
      { id: "bytes", head: "Log bytes", num: true, value: (r) => r.logBytes, show: (r) => f.bytes(r.logBytes) },
      { id: "seconds", head: "Reaches back", num: true, value: (r) => r.logSeconds, show: (r) => f.seconds(r.logSeconds) },
    ],
  });
  const passedOn = new Table({
    label: "Watches that are passed on", key: (w) => JSON.stringify([w.user, w.userAgent, w.resource, w.reason]), empty: "None.", rows: 8,
    columns: [
      { id: "client", head: "Client", value: f.client, show: (w) => names(w.userAgent || "(no user agent)", w.user) },
      { id: "resource", head: "Resource", value: (w) => w.resource, show: (w) => names(w.resource) },
      { id: "watches", head: "Watches", num: true, value: (w) => w.watches, show: (w) => f.count(w.watches) },
      { id: "reason", head: "Reason", value: (w) => w.reason, show: (w) => w.reason },
    ],
  });
  const passedPart = part("Passed on", "by client", passedOn.root);
  const root = panel("watchers", "Watchers", "A slow watch delays nobody. It keeps its place until its history is gone; then it is told to list again.",
    row, part("Furthest behind", "", behind.root), part("By resource", "and what a watch can resume from", resources.root), passedPart);
  return {
    root,
    watchers(r) {
      set("watches", f.count(r.watches));
      set("subscriptions", f.count(r.subscriptions));
      set("clients", f.count(r.clients));
      set("waiting", f.count(r.waiting));
      set("passed", f.count(r.passedOn));
      set("events", f.count(r.events));
      set("bytes", f.bytes(r.bytes));
      set("expired", f.count(r.expired));
      behind.update(r.behind);
      resources.update(r.byResource);
      passedPart.hidden = !r.passedOn;
      passedOn.update(r.passedOnBy ?? []);
    },
  };
}
