// Checks of Node's http2 and https. Neither decodes bodies, retries or follows GOAWAY
// by itself. This script does so in the way their users do.

import http2 from "node:http2";
import https from "node:https";
import fs from "node:fs";
import readline from "node:readline";
import zlib from "node:zlib";

const env = process.env;
const ca = fs.readFileSync(env.CLIENT_CA);
const token = env.CLIENT_TOKEN;
const repeat = Number(env.CLIENT_REPEAT);
const configMaps = `/api/v1/namespaces/${env.CLIENT_NAMESPACE}/configmaps`;
const patience = 10_000;
const decoders = { gzip: zlib.createGunzip, zstd: zlib.createZstdDecompress };

function want(what, got, wanted) {
  if (got !== wanted) throw new Error(`${what} is ${JSON.stringify(got)}, want ${JSON.stringify(wanted)}`);
}

async function report(check, run) {
  const line = { check };
  try {
    const skip = await run();
    if (typeof skip === "string") line.skip = skip;
  } catch (e) {
    line.error = `${e.code ?? e.name}: ${e.message}`.slice(0, 2000);
  }
  console.log(JSON.stringify(line));
  return !line.error;
}

function inTime(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} in ${patience} ms`)), patience);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Http2 has one session. It opens another one after GOAWAY.
class Http2 {
  version = "2";
  constructor(options = {}) {
    this.options = { ca, ...options };
  }
  session() {
    if (!this.current || this.current.closed || this.current.destroyed) {
      const session = http2.connect(env.CLIENT_URL, this.options);
      session.on("error", () => {});
      session.on("goaway", () => {
        if (this.current === session) this.current = undefined;
      });
      this.current = session;
    }
    return this.current;
  }

  // open resolves to the response once its headers have arrived.
  async open(method, path, headers, body) {
    for (;;) {
      try {
        return await this.openOnce(method, path, headers, body);
      } catch (e) {
        if (!e.refused) throw e;
      }
    }
  }

  openOnce(method, path, headers, body) {
    return new Promise((resolve, reject) => {
      const options = { endStream: body === undefined };
      const stream = this.session().request({ ":method": method, ":path": path, ...headers }, options);
      stream.on("response", (head) => resolve({ status: head[":status"], headers: head, stream }));
      stream.on("error", (e) => {
        // By RFC 9113, the server has not processed such a request.
        e.refused = stream.rstCode === http2.constants.NGHTTP2_REFUSED_STREAM || e.code === "ERR_HTTP2_GOAWAY_SESSION";
        reject(e);
      });
      stream.on("close", () => reject(new Error(`stream closed with code ${stream.rstCode} and no response`)));
      if (body !== undefined) stream.end(body);
    });
  }
}

// Http1 keeps a connection open for each concurrent request.
class Http1 {
  version = "1.1";
  agent = new https.Agent({ ca, keepAlive: true, maxSockets: 200 });
  open(method, path, headers, body) {
    return new Promise((resolve, reject) => {
      const request = https.request(env.CLIENT_URL + path, { method, headers, agent: this.agent });
      request.on("response", (r) => resolve({ status: r.statusCode, headers: r.headers, stream: r }));
      request.on("error", reject);
      request.end(body);
    });
  }
}

// Events reads the events of a watch from its response.
class Events {
  constructor(response) {
    this.status = response.status;
    this.headers = response.headers;
    this.stream = response.stream;
    this.chunks = decoded(response)[Symbol.asyncIterator]();
    this.rest = "";
  }
  async next() {
    for (;;) {
      const end = this.rest.indexOf("\n");
      if (end >= 0) {
        const line = this.rest.slice(0, end);
        this.rest = this.rest.slice(end + 1);
        return JSON.parse(line);
      }
      const { done, value } = await this.chunks.next();
      if (done) {
        want("text behind the last event", this.rest, "");
        return null;
      }
      this.rest += value;
    }
  }
  async text(text) {
    for (;;) {
      const event = await inTime(this.next(), `event with ${text}`);
      if (event === null) throw new Error(`watch ended before ${text} came`);
      if (event.object?.data?.text === text) return;
    }
  }
  async end() {
    while ((await this.next()) !== null);
  }
  close() {
    this.stream.destroy();
  }
}

function decoded({ headers, stream }) {
  const coding = headers["content-encoding"];
  if (!coding) return stream;
  const decoder = decoders[coding]({ flush: zlib.constants.Z_SYNC_FLUSH });
  stream.on("error", (e) => decoder.destroy(e));
  return stream.pipe(decoder);
}

const withToken = (t, more) => ({ authorization: `Bearer ${t}`, ...more });

async function ask(client, method, path, { body, headers = {}, as = token } = {}) {
  const response = await inTime(client.open(method, path, withToken(as, headers), body), "response");
  const chunks = [];
  const all = (async () => {
    for await (const chunk of decoded(response)) chunks.push(chunk);
  })();
  await inTime(all, "end of the body");
  return { status: response.status, headers: response.headers, body: Buffer.concat(chunks) };
}

// compressed asks for compression, which the server otherwise keeps for watch-lists.
const compressed = { "x-millrace-compress-watch": "1" };

const watch = async (client, path, headers = {}) =>
  new Events(await inTime(client.open("GET", path, withToken(token, { ...compressed, ...headers })), "response"));

const json = { "content-type": "application/json" };
const merge = { "content-type": "application/merge-patch+json" };

async function create(client, path, object) {
  const answer = await ask(client, "POST", path, { body: JSON.stringify(object), headers: json });
  if (![200, 201, 409].includes(answer.status)) throw new Error(`create in ${path}: ${answer.status} ${answer.body}`);
}

const createMap = (client, name) => create(client, configMaps, { metadata: { name }, data: { text: "first" } });

async function patch(client, name, text) {
  const body = JSON.stringify({ data: { text } });
  want("status of PATCH", (await ask(client, "PATCH", `${configMaps}/${name}`, { body, headers: merge })).status, 200);
}

async function many(count, run) {
  for (let n = 1; n <= count; n++) {
    try {
      await run(n);
    } catch (e) {
      throw new Error(`number ${n} of ${count} failed: ${e.code ?? e.name}: ${e.message}`);
    }
  }
}

const atOnce = (count, run) => Promise.all(Array.from({ length: count }, (_, n) => run(n)));

const earlyCases = [
  [405, "POST", configMaps + "/x", "application/json", token],
  [403, "POST", configMaps, "application/json", env.CLIENT_WEAK_TOKEN],
  [404, "POST", "/apis/none.example.com/v1/things", "application/json", token],
  [415, "PATCH", configMaps + "/x", "text/plain", token],
];
const unauthorized = [401, "POST", configMaps, "application/json", "nobody"];
const earlySizes = [[2, "2 bytes", 20], [400 << 10, "400 KB", 10], [2 << 20, "2 MB", 10]];

async function earlyOne(client, [status, method, path, type, as], size) {
  const answer = await ask(client, method, path, { body: Buffer.alloc(size, 32), headers: { "content-type": type }, as });
  want("status", answer.status, status);
  if ((answer.headers["content-type"] ?? "").includes("json")) want("code in the body", JSON.parse(answer.body).code, status);
  want("answer has a body", answer.body.length > 0, true);
}

async function early() {
  for (const client of [new Http2(), new Http1()]) {
    await earlyOf(client);
    // These answers close the connection, which some clients cannot handle.
    for (const [size, name, count] of earlySizes) {
      await report(`401, ${name}, HTTP/${client.version}`, () => many(count * repeat, () => earlyOne(client, unauthorized, size)));
    }
  }
}

// earlyOf stops at the first failure: each further one may take the whole patience.
async function earlyOf(client) {
  const version = `HTTP/${client.version}`;
  for (const [size, name, count] of earlySizes) {
    for (const one of earlyCases) {
      if (!(await report(`${one[0]}, ${name}, ${version}`, () => many(count * repeat, () => earlyOne(client, one, size))))) return;
    }
  }
  const large = [413, "POST", configMaps, "application/json", token];
  if (await report(`413, 4 MB, ${version}`, () => many(2 * repeat, () => earlyOne(client, large, 4 << 20)))) {
    // By default, Node refuses streams once a session holds more than 10 MB.
    const wide = client.version === "2" ? new Http2({ maxSessionMemory: 100 }) : client;
    await report(`405, 2 MB, ten at once, ${version}`, () => atOnce(10, () => earlyOne(wide, earlyCases[0], 2 << 20)));
  }
}

const watchPath = (name, more) => `${configMaps}?watch=1&fieldSelector=metadata.name%3D${name}&resourceVersion=0&${more}`;

async function watchCodings(client, accepted, coding) {
  const headers = accepted ? { "accept-encoding": accepted } : {};
  const events = await watch(client, watchPath("watched", "timeoutSeconds=30"), headers);
  try {
    want("status", events.status, 200);
    want("Content-Encoding", events.headers["content-encoding"] ?? "", coding);
    await events.text("first");
    await many(5, async (n) => {
      await patch(client, "watched", `event ${n}`);
      await events.text(`event ${n}`);
    });
    await patch(client, "watched", "first");
  } finally {
    events.close();
  }
}

async function endByTimeout(client, name, headers) {
  const events = await watch(client, watchPath(name, "timeoutSeconds=1"), headers);
  await events.text("first");
  await inTime(events.end(), "end of the watch");
}

async function endByDeletion(client, kind, headers) {
  const group = `${env.CLIENT_NAMESPACE}.example.com`;
  const plural = kind.toLowerCase() + "s";
  const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  await create(client, definitions, {
    metadata: { name: `${plural}.${group}` },
    spec: { group, scope: "Namespaced", names: { kind, plural }, versions: [{ name: "v1", served: true, storage: true, schema }] },
  });
  const path = `/apis/${group}/v1/namespaces/${env.CLIENT_NAMESPACE}/${plural}`;
  const served = async () => {
    while ((await ask(client, "GET", path)).status !== 200) await new Promise((r) => setTimeout(r, 50));
  };
  await inTime(served(), "definition");
  await create(client, path, { apiVersion: `${group}/v1`, kind, metadata: { name: "one" } });
  const events = await watch(client, `${path}?watch=1&resourceVersion=0&timeoutSeconds=60`, headers);
  want("first event", (await inTime(events.next(), "event")).type, "ADDED");
  want("status of DELETE", (await ask(client, "DELETE", `${definitions}/${plural}.${group}`)).status, 200);
  want("second event", (await inTime(events.next(), "event")).type, "DELETED");
  await inTime(events.end(), "end of the watch");
}

async function watches() {
  for (const client of [new Http2(), new Http1()]) {
    const version = `HTTP/${client.version}`;
    await createMap(client, "watched");
    const forms = [["gzip", "gzip"], ["identity", ""], ["gzip;q=0", ""], ["x-gzip", ""], ["notgzip", ""], ["identity;q=1, gzip;q=0", ""], [undefined, ""]];
    for (const [accepted, coding] of forms) {
      await report(`events, Accept-Encoding ${accepted ?? "by default"}, ${version}`, () => watchCodings(client, accepted, coding));
    }
    for (const coding of ["gzip", "identity"]) {
      const headers = { "accept-encoding": coding };
      await report(`end by timeoutSeconds, Accept-Encoding ${coding}, ${version}`, () => endByTimeout(client, "watched", headers));
    }
  }
  for (const [n, coding] of ["gzip", "identity"].entries()) {
    await report(`end by deletion of the definition, Accept-Encoding ${coding}`, () =>
      endByDeletion(new Http2(), `Kind${n}`, { "accept-encoding": coding }));
  }
}

// steady removes the version of the list itself, which changes with every write.
const steady = (body) =>
  body.toString("latin1").replace(/("metadata":\{"resourceVersion":")\d+/, "$1").replace(/"continue":"[^"]*"/, "");

async function lists() {
  for (const client of [new Http2(), new Http1()]) {
    for (const [what, path] of [["500 KB", "?limit=100"], ["3 MB", ""], ["one object of 900 KB", "/large"]]) {
      const get = (coding) => ask(client, "GET", env.CLIENT_LISTS + path, { headers: coding ? { "accept-encoding": coding } : {} });
      const identity = await get("identity");
      for (const coding of ["gzip", "zstd", undefined]) {
        await report(`${what}, Accept-Encoding ${coding ?? "by default"}, HTTP/${client.version}`, async () => {
          if (coding && !decoders[coding]) return `Node ${process.version} has no ${coding}`;
          const answer = await get(coding);
          want("status", answer.status, 200);
          want("Content-Encoding", answer.headers["content-encoding"], coding);
          want("body equals the identity one", steady(answer.body) === steady(identity.body), true);
        });
      }
    }
  }
}

async function streams() {
  const client = new Http2();
  await createMap(client, "streams");
  await report("120 watches", async () => {
    let begun = 0;
    let enough;
    const hundred = new Promise((resolve) => (enough = resolve));
    const change = hundred.then(() => patch(new Http2(), "streams", "last"));
    await atOnce(120, async () => {
      const response = await client.open("GET", watchPath("streams", "timeoutSeconds=10"), withToken(token));
      const events = new Events(response);
      want("status", events.status, 200);
      let event = await events.next();
      if (++begun === 100) enough();
      while (event && event.object.data.text !== "last") event = await events.next();
      want("watch has seen the last change", event !== null, true);
      await events.end();
    });
    await change;
  });
}

async function gone() {
  for (const client of [new Http2(), new Http1()]) {
    await report(`list of an old version, HTTP/${client.version}`, async () => {
      const answer = await ask(client, "GET", `${configMaps}?resourceVersion=5&resourceVersionMatch=Exact&limit=10`);
      want("status", answer.status, 410);
      want("reason", JSON.parse(answer.body).reason, "Expired");
    });
    await report(`watch from an old version, HTTP/${client.version}`, async () => {
      const events = await watch(client, `${configMaps}?watch=1&resourceVersion=5&timeoutSeconds=30`);
      want("status", events.status, 200);
      const event = await inTime(events.next(), "event");
      want("type", event.type, "ERROR");
      want("code", event.object.code, 410);
      want("event after the error", await inTime(events.next(), "end"), null);
    });
  }
}

async function goaway() {
  const client = new Http2();
  await createMap(client, "goaway");
  const get = async () => want("status", (await ask(client, "GET", `${configMaps}/goaway`)).status, 200);
  await report("GET, one after the other", () => many(100 * repeat, get));
  await report("GET, ten at once", () => atOnce(10, () => many(30 * repeat, get)));
  await report("PATCH, ten at once", () => atOnce(10, (n) => many(10 * repeat, (m) => patch(client, "goaway", `${n} ${m}`))));
  await patch(client, "goaway", "first");
  await report("ten watches to their end", () => atOnce(10, () => endByTimeout(client, "goaway", {})));
}

async function restart() {
  const client = new Http2();
  await createMap(client, "restart");
  const opened = [];
  for (const coding of ["gzip", "identity"]) {
    const events = await watch(client, watchPath("restart", "timeoutSeconds=60"), { "accept-encoding": coding });
    await events.text("first");
    opened.push([coding, events]);
  }
  let stop = false;
  let count = 0;
  const failures = [];
  const askers = [1, 2, 3, 4].map(async () => {
    for (; !stop; count++) {
      try {
        const answer = await ask(client, "GET", `${configMaps}/restart`);
        // A server that ends may answer 503 with Retry-After.
        if (answer.status !== 503 || !answer.headers["retry-after"]) want("status", answer.status, 200);
      } catch (e) {
        failures.push(`${e.code ?? e.name}: ${e.message}`);
      }
      await new Promise((r) => setTimeout(r, 20));
    }
  });
  console.log(JSON.stringify({ ready: true }));
  const told = new Promise((resolve) => readline.createInterface({ input: process.stdin }).once("line", resolve));
  for (const [coding, events] of opened) await report(`watch ends, Accept-Encoding ${coding}`, () => events.end());
  await told;
  stop = true;
  await Promise.all(askers);
  await report("requests", () => {
    want("number of requests is above 50", count > 50, true);
    if (failures.length) throw new Error(`${failures.length} of ${count} failed, the first: ${failures[0]}`);
  });
}

await { early, watch: watches, lists, streams, gone, goaway, restart }[process.argv[2]]();
process.exit(0);
