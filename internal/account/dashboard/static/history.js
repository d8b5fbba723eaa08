import { points } from "./draw.js";

// history keeps what the page has seen of each series since it was opened.
class History {
  #series = new Map();

  add(name, value) {
    const s = this.#series.get(name) ?? [];
    s.push(value);
    if (s.length > points) s.shift();
    this.#series.set(name, s);
  }

  of(name) {
    return this.#series.get(name) ?? [];
  }

  // keep forgets all series but those named.
  keep(names) {
    for (const name of this.#series.keys()) if (!names.has(name)) this.#series.delete(name);
  }

  clear() {
    this.#series.clear();
  }
}

export const history = new History();

// perSecond returns a function that makes a rate of a growing number and the time
// in milliseconds; it is NaN before it was told twice. A restart of the server
// begins anew.
export function perSecond() {
  let before;
  let last = NaN;
  return (value, at) => {
    if (before && at <= before.at) return last;
    last = before && value >= before.value ? (1000 * (value - before.value)) / (at - before.at) : NaN;
    before = { value, at };
    return last;
  };
}
