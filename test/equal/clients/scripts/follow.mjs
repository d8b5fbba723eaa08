// Follows compressed watches with Node's decoders of gzip, and with Kubernetes' client for
// Node. follow.py has the protocol.

import http2 from "node:http2";
import https from "node:https";
import fs from "node:fs";
import readline from "node:readline";
import zlib from "node:zlib";

const env = process.env;
const ca = fs.readFileSync(env.CLIENT_CA);
const headers = {
  authorization: `Bearer ${env.CLIENT_TOKEN}`,
  accept: "application/json",
  "accept-encoding": "gzip",
  "x-millrace-compress-watch": "1",
};

function wantGzip(coding) {
  if (coding !== "gzip") throw new Error(`Content-Encoding is ${coding}`);
}

function gunzip(stream, options) {
  const decoder = zlib.createGunzip(options);
  stream.on("error", (e) => decoder.destroy(e));
  return stream.pipe(decoder);
}

function overHttp1(path) {
  return new Promise((resolve, reject) => {
    https.get(env.CLIENT_URL + path, { ca, headers }, (response) => {
      wantGzip(response.headers["content-encoding"]);
      resolve(response);
    }).on("error", reject);
  });
}

let session;
function overHttp2(path) {
  session ??= http2.connect(env.CLIENT_URL, { ca });
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":path": path, ...headers });
    stream.on("response", (head) => {
      wantGzip(head["content-encoding"]);
      resolve(stream);
    });
    stream.on("error", reject);
  });
}

const decoders = {
  gunzip: async (path) => gunzip(await overHttp1(path)),
  gunzip2: async (path) => gunzip(await overHttp2(path)),
  syncflush: async (path) => gunzip(await overHttp1(path), { flush: zlib.constants.Z_SYNC_FLUSH }),
  // fetch is undici's. The variable NODE_EXTRA_CA_CERTS must name the authority.
  fetch: async (path) => {
    const response = await fetch(env.CLIENT_URL + path, { headers });
    wantGzip(response.headers.get("content-encoding"));
    return response.body;
  },
  // The decoder of browsers. It refuses bytes behind the first member.
  decompressionstream: async (path) => {
    const body = (await overHttp1(path)).iterator({ destroyOnReturn: false });
    const source = new ReadableStream({
      async pull(controller) {
        const { done, value } = await body.next();
        if (done) controller.close();
        else controller.enqueue(new Uint8Array(value));
      },
    });
    return source.pipeThrough(new DecompressionStream("gzip"));
  },
};

// followKubernetes uses the watch of Kubernetes' client, which asks for gzip by itself and
// hands out events that it has parsed.
async function followKubernetes(number, path) {
  const { KubeConfig, Watch } = await import("../../../../bin/node/node_modules/@kubernetes/client-node/dist/index.js");
  const config = new KubeConfig();
  config.loadFromClusterAndUser(
    { name: "tested", server: env.CLIENT_URL, caFile: env.CLIENT_CA },
    { name: "administrator", token: env.CLIENT_TOKEN },
  );
  const [address, query] = path.split("?");
  const parameters = Object.fromEntries(new URLSearchParams(query));
  await new Promise((resolve, reject) => {
    const hand = (type, object, event) => process.stdout.write(`${number}\t${JSON.stringify(event)}\n`);
    const done = (error) => (error ? reject(error) : resolve());
    new Watch(config).watch(address, parameters, hand, done);
  });
  console.log(`${number}\tEND`);
}

async function follow(number, decoder, path) {
  try {
    if (decoder === "kubernetes") return await followKubernetes(number, path);
    let rest = Buffer.alloc(0);
    for await (const chunk of await decoders[decoder](path)) {
      rest = Buffer.concat([rest, chunk]);
      for (let end; (end = rest.indexOf("\n")) >= 0; rest = rest.subarray(end + 1)) {
        process.stdout.write(`${number}\t${rest.subarray(0, end)}\n`);
      }
    }
    console.log(`${number}\tEND${rest.length ? " within an event" : ""}`);
  } catch (e) {
    console.log(`${number}\tEND ${e.code ?? e.name}: ${e.message} ${e.cause ?? ""}`.replaceAll("\n", " "));
  }
}

readline.createInterface({ input: process.stdin }).on("line", (line) => follow(...line.split(" ")));
