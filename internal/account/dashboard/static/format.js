// Numbers for people: three digits at most, with a unit.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

const three = (x) => (x < 9.995 ? x.toFixed(x < 0.995 ? 2 : 1) : String(Math.round(x)));

// seconds formats a time in seconds.
export function seconds(s) {
  if (!Number.isFinite(s)) return "–";
  const a = Math.abs(s);
  if (a === 0) return "0 ms";
  if (a < 0.9995e-3) return `${Math.max(1, Math.round(a * 1e6))} µs`;
  if (a < 0.9995) return `${three(a * 1e3)} ms`;
  if (a < 59.95) return `${a < 9.95 ? a.toFixed(1) : Math.round(a)} s`;
  const [big, small, first, second] = a < 3600 ? [60, 1, "min", "s"] : a < 86400 ? [3600, 60, "h", "min"] : [86400, 3600, "d", "h"];
  const rest = Math.floor((a % big) / small);
  return `${Math.floor(a / big)} ${first}${rest > 0 ? ` ${rest} ${second}` : ""}`;
}

// bytes formats a size; units are decimal.
export function bytes(n) {
  if (!Number.isFinite(n)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let i = 0;
  let x = Math.abs(n);
  while (x >= 999.5 && i < units.length - 1) {
    x /= 1000;
    i++;
  }
  return `${i === 0 ? Math.round(x) : three(x)} ${units[i]}`;
}

// count formats how many there are.
export function count(n) {
  if (!Number.isFinite(n)) return "–";
  if (Math.abs(n) < 99_999.5) return grouped.format(n);
  if (Math.abs(n) < 999_500) return `${Math.round(n / 1e3)} k`;
  if (Math.abs(n) < 999_500_000) return `${three(n / 1e6)} M`;
  return `${three(n / 1e9)} G`;
}

// rate formats so many a second.
export const rate = (n) => (Number.isFinite(n) ? `${n > 0 && n < 99.5 ? three(n) : count(n)}/s` : "–");

// byteRate formats so many bytes a second.
export const byteRate = (n) => (Number.isFinite(n) ? `${bytes(n)}/s` : "–");

// percent formats a share of 1.
export function percent(x) {
  if (!Number.isFinite(x)) return "–";
  const p = x * 100;
  return p > 0 && p < 1 ? "<1 %" : `${Math.round(p)} %`;
}

// factor formats a multiple, such as a burn rate.
export function factor(x) {
  if (!Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  return x < 0.05 ? "<0.1" : x < 9.95 ? x.toFixed(1) : count(Math.round(x));
}

// plural joins a number and a noun.
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// client names who asks.
export const client = (c) => [c.userAgent || "(no user agent)", c.user].filter(Boolean).join(" · ");
