// The page: signs in, reads reports while it is looked at, hands them to panels.

import { Failure, session } from "./api.js";
import { crds } from "./crds.js";
import { el, mark, say } from "./dom.js";
import { feed } from "./feed.js";
import { seconds } from "./format.js";
import { history } from "./history.js";
import { lists } from "./lists.js";
import { memory } from "./memory.js";
import { headlineOf, now } from "./now.js";
import { replica } from "./replica.js";
import { slo } from "./slo.js";
import { watchers } from "./watchers.js";

// Reports, by how often they are read, in milliseconds. What walks everything that
// is cached is read seldom.
const reports = { slo: 1500, watchers: 2000, feed: 2000, replica: 2000, lists: 4000, memory: 10_000, crds: 15_000 };
const retryMost = 15_000;
const titles = { now: "Now", replica: "Upstream", slo: "SLO", watchers: "Watchers", lists: "LISTs", memory: "Memory", crds: "CRDs", feed: "etcd" };

const $ = (id) => document.getElementById(id);
const api = session();
let panels = [];
let run = null; // AbortController of the reading that goes on
let paused = false;
let updated = 0;

// state is what the page shows instead of panels, or with them: live, connecting,
// signed-out, denied, absent, gone.
function show(state, failure) {
  document.body.dataset.state = state;
  const stale = state === "gone" && panels.length > 0;
  $("panels").hidden = !(state === "live" || stale);
  $("nav").hidden = $("panels").hidden;
  $("pause").hidden = $("panels").hidden;
  $("sign-out").hidden = !api.hasToken();
  gate(state === "live" || stale ? null : gates[state]?.(failure));
  const [status, words] = {
    connecting: ["idle", "Connecting"],
    "signed-out": ["idle", "Signed out"],
    denied: ["critical", "Not allowed"],
    absent: ["critical", "No reports here"],
    gone: ["critical", `Server does not answer: ${failure?.message ?? ""}. Trying again.`],
  }[state] ?? [];
  if (words) tell(status, words);
}

function tell(status, words) {
  const target = $("live-text");
  if (target.textContent !== words || target.dataset.status !== status) {
    target.dataset.status = status;
    target.replaceChildren(mark(status, words));
  }
  document.title = status === "critical" || status === "warning" ? `${status === "critical" ? "✕" : "▲"} Millrace` : "Millrace";
}

const rule = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: millrace-viewer
rules:
- nonResourceURLs: ["/debug/millrace/*"]
  verbs: ["get"]`;

const gates = {
  "signed-out": (failure) => ({
    title: "Sign in",
    text: api.hasToken() ? `The token was not accepted: ${failure.message}. It may have expired.` : "The server does not know who you are: the browser showed no certificate that it trusts.",
    form: true,
  }),
  denied: (failure) => ({ title: "You may not look at this", text: `${failure.message}. Bind this ClusterRole to the user, or sign in as another:`, code: rule, form: true, again: true }),
  absent: (failure) => ({ title: "This server has no reports", text: `${failure.message}. It may run with --read-path=kubernetes, or be another version.`, again: true }),
  gone: (failure) => ({ title: "The server does not answer", text: `${failure.message}. Trying again by itself.`, again: true }),
};

function gate(g) {
  $("gate").hidden = !g;
  if (!g) return;
  say($("gate-title"), g.title);
  say($("gate-text"), g.text);
  $("sign-in").hidden = !g.form;
  $("gate-code").hidden = !g.code;
  say($("gate-code"), g.code ?? "");
  $("gate-again").hidden = !g.again;
}

// build makes the panels of the reports that there are.
function build(paths) {
  const there = new Set(paths.map((p) => p.slice(p.lastIndexOf("/") + 1)));
  const makers = { now, replica, slo, watchers, lists, memory, crds, feed };
  const wanted = Object.keys(makers).filter((name) => there.has(name === "now" ? "slo" : name));
  panels = wanted.map((name) => makers[name]());
  $("panels").replaceChildren(...panels.map((p) => p.root));
  $("nav").replaceChildren(...wanted.map((name) => el("a", { href: `#${name}` }, titles[name])));
  return Object.keys(reports).filter((name) => there.has(name));
}

// start finds out who one is, then reads each report again and again.
async function start() {
  run?.abort();
  run = new AbortController();
  const { signal } = run;
  for (let wait = 1000; !signal.aborted; wait = Math.min(2 * wait, retryMost)) {
    try {
      const index = await api.get("", signal);
      const names = build(index.paths);
      show("live");
      if (!names.includes("slo")) tell("idle", "Live, without an SLO");
      for (const name of names) follow(name, signal);
      return;
    } catch (err) {
      if (!failed(err)) return;
    }
    await pause(wait, signal);
  }
}

// failed shows what went wrong, and reports whether to try again.
function failed(err) {
  if (!(err instanceof Failure)) throw err;
  if (err.kind === "ended") return false;
  show(err.kind, err);
  if (err.kind === "gone") return true;
  run.abort();
  panels = [];
  history.clear();
  if (err.kind === "signed-out") $("token").focus();
  return false;
}

async function follow(name, signal) {
  let wait = 1000;
  while (!signal.aborted) {
    const began = performance.now();
    try {
      const report = await api.get(name, signal);
      if (signal.aborted) return;
      wait = 1000;
      for (const p of panels) p[name]?.(report);
      updated = Date.now();
      show("live");
      if (name === "slo") {
        const [status, words] = headlineOf(report);
        tell(status, status === "ok" ? "All in time" : words);
      }
      await pause(Math.max(250, reports[name] - (performance.now() - began)), signal);
    } catch (err) {
      if (err.kind === "absent") return;
      if (signal.aborted || !failed(err)) return;
      await pause(wait, signal);
      wait = Math.min(2 * wait, retryMost);
    }
  }
}

const pause = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    resolve();
  }, { once: true });
});

// resume reads on when the page is seen again.
function resume() {
  if (document.hidden || paused) run?.abort();
  else if (panels.length > 0) {
    run?.abort();
    run = new AbortController();
    const there = new Set(panels.flatMap((p) => Object.keys(p)));
    for (const name of Object.keys(reports)) if (there.has(name)) follow(name, run.signal);
  } else if (["connecting", "gone"].includes(document.body.dataset.state)) start();
}

function age() {
  const since = (Date.now() - updated) / 1000;
  const live = document.body.dataset.state === "live" || document.body.dataset.state === "gone";
  say($("age"), updated === 0 || !live ? "" : paused ? "paused" : since < 5 ? "live" : `${seconds(Math.round(since))} old`);
  document.body.classList.toggle("stale", live && updated > 0 && !paused && since > 8);
}

function nextTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("millrace-theme", root.dataset.theme);
  } catch { /* it lasts as long as the page */ }
}

function signIn(event) {
  event.preventDefault();
  const token = $("token").value.trim();
  $("token").value = "";
  if (!token) return;
  api.use(token);
  panels = [];
  show("connecting");
  start();
}

function signOut() {
  run?.abort();
  api.use("");
  panels = [];
  history.clear();
  $("panels").replaceChildren();
  show("signed-out", new Failure("signed-out", ""));
  $("token").focus();
}

$("sign-in").addEventListener("submit", signIn);
$("sign-out").addEventListener("click", signOut);
$("gate-again").addEventListener("click", start);
$("theme").addEventListener("click", nextTheme);
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").ariaPressed = String(paused);
  say($("pause"), paused ? "Go on" : "Pause");
  resume();
  age();
});
document.addEventListener("visibilitychange", resume);
say($("host"), location.host);
setInterval(age, 1000);
show("connecting");
start();
