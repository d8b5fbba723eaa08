// Reports. The token, if one was given, is in this closure and nowhere else: what
// is stored for an origin could be read by what Kubernetes proxies under it.

const root = new URL("../debug/millrace/", import.meta.url);

// Failure is an answer that is no report. kind is "signed-out", "denied", "absent",
// "gone" or "ended" (by the page).
export class Failure extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const kinds = { 401: "signed-out", 403: "denied", 404: "absent" };
const timeout = 15_000;

// session reads reports for one who signed in, or for the client certificate.
export function session() {
  let token = "";

  async function get(name, signal) {
    const limit = AbortSignal.any([AbortSignal.timeout(timeout), ...(signal ? [signal] : [])]);
    let answer;
    try {
      answer = await fetch(new URL(name, root), {
        headers: { Accept: "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
        // With a token the certificate stays out, which would win.
        credentials: token ? "omit" : "same-origin",
        cache: "no-store", redirect: "error", referrerPolicy: "no-referrer", signal: limit,
      });
      if (answer.ok) return await answer.json();
    } catch (err) {
      if (signal?.aborted) throw new Failure("ended", "ended");
      throw new Failure("gone", err.name === "TimeoutError" ? `no answer within ${timeout / 1000} s` : "the connection failed");
    }
    const message = await said(answer);
    // Nobody in particular, which is a user of Kubernetes, is who has to sign in.
    const nobody = answer.status === 403 && !token && message.includes('"system:anonymous"');
    throw new Failure(nobody ? "signed-out" : (kinds[answer.status] ?? "gone"), message);
  }

  return {
    get,
    use: (given) => { token = given; },
    hasToken: () => token !== "",
  };
}

// said is what a Status, or a text, says.
async function said(answer) {
  const text = await answer.text().catch(() => "");
  try {
    return JSON.parse(text).message || answer.statusText;
  } catch {
    return text.trim().slice(0, 300) || answer.statusText || `status ${answer.status}`;
  }
}
