// Words for what the server names shortly.

// stages are in the order of an event's way.
export const stages = {
  etcd: ["etcd", "from etcd to this server; before the span"],
  decode: ["decode", "from its arrival until it is in the cache"],
  dispatch: ["dispatch", "until the writer of a watch takes it"],
  encode: ["encode", "encoding and compressing its frames"],
  client: ["client", "a client that does not read: its window is used up"],
  connection: ["connection", "a connection that takes no more bytes"],
};

const causes = {
  etcd: "etcd is slow",
  decode: "Decoding",
  dispatch: "Dispatch",
  encode: "Encoding",
  client: "Clients do not read",
  connection: "Network is full",
  cpu: "Not enough CPU",
  size: "Large objects",
  unreadable: "Unreadable objects",
  panic: "Panic",
};

export const cause = (c) => causes[c] ?? (c || "–");
export const severity = (s) => (s === "critical" ? "critical" : "warning");

// states of a watch.
const states = { initial: "initial events", following: "following", client: "client does not read", connection: "connection is full" };

export const state = (s) => states[s] ?? s;
