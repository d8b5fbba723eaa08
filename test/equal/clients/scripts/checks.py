"""Checks that all clients in Python share.

A client is an object with the attributes

    versions      the HTTP versions that it can speak, "2" and "1.1"
    streams       whether it can multiplex requests over one connection
    codings       the content codings that it decodes
    free_headers  whether a request may have any Accept-Encoding

and the methods

    request(method, path, body, headers, token, version) -> Answer
    watch(path, headers) -> an object with status, headers, next() and close()

where next() returns the next event, None at the end, and raises an exception when
the stream breaks. main() runs one behaviour and prints a line of JSON for each check.
"""

import concurrent.futures
import gzip
import json
import os
import re
import sys
import threading
import time
import traceback

URL = os.environ["CLIENT_URL"]
CA = os.environ["CLIENT_CA"]
TOKEN = os.environ["CLIENT_TOKEN"]
WEAK_TOKEN = os.environ["CLIENT_WEAK_TOKEN"]
NAMESPACE = os.environ["CLIENT_NAMESPACE"]
LISTS = os.environ["CLIENT_LISTS"]
REPEAT = int(os.environ["CLIENT_REPEAT"])

# WATCH_HEADERS are those of all watches: they ask for compression, which the server
# otherwise keeps for watch-lists.
WATCH_HEADERS = {"Authorization": f"Bearer {TOKEN}", "X-Millrace-Compress-Watch": "1"}

CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PATIENCE = 10
# SILENCE is how many seconds a watch may pass without an event.
SILENCE = 90


class Answer:
    """A complete response. Header names are in lower case."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {str(k).lower(): str(v) for k, v in headers.items()}
        self.body = bytes(body)

    def __str__(self):
        return f"{self.status} with {len(self.body)} bytes: {self.body[:100]!r}"


def want(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what} is {got!r}, want {wanted!r}")


def report(check, run, *args):
    """Run a check, print its result, and return whether it passed."""
    line = {"check": check}
    try:
        skip = run(*args)
        if skip:
            line["skip"] = skip
    except Exception as e:
        at = traceback.extract_tb(e.__traceback__)[-1]
        line["error"] = f"{type(e).__name__}: {e} ({os.path.basename(at.filename)}:{at.lineno})"[:2000]
    print(json.dumps(line), flush=True)
    return "error" not in line


def config_map(name, text="", **labels):
    return json.dumps({"metadata": {"name": name, "labels": labels}, "data": {"text": text}}).encode()


JSON_TYPE = {"Content-Type": "application/json"}
MERGE_TYPE = {"Content-Type": "application/merge-patch+json"}


def create(client, path, body):
    answer = client.request("POST", path, body, JSON_TYPE)
    if answer.status not in (200, 201, 409):
        raise AssertionError(f"create in {path}: {answer}")
    return answer


def patch_text(client, name, text):
    body = json.dumps({"data": {"text": text}}).encode()
    answer = client.request("PATCH", f"{CONFIG_MAPS}/{name}", body, MERGE_TYPE)
    want("status of PATCH", answer.status, 200)


# EARLY are requests that a server answers before it reads their bodies.
EARLY = [
    (405, "POST", CONFIG_MAPS + "/x", "application/json", TOKEN),
    (403, "POST", CONFIG_MAPS, "application/json", WEAK_TOKEN),
    (404, "POST", "/apis/none.example.com/v1/things", "application/json", TOKEN),
    (415, "PATCH", CONFIG_MAPS + "/x", "text/plain", TOKEN),
]
UNAUTHORIZED = (401, "POST", CONFIG_MAPS, "application/json", "nobody")
SIZES = [(2, "2 bytes", 10), (400 << 10, "400 KB", 4), (2 << 20, "2 MB", 2)]


def body_of(size):
    return b"{}" if size == 2 else b'{"a":"' + b"x" * (size - 8) + b'"}'


def early_one(client, case, body, version):
    status, method, path, content_type, token = case
    answer = client.request(method, path, body, {"Content-Type": content_type}, token=token, version=version)
    want("status", answer.status, status)
    if "json" in answer.headers.get("content-type", ""):
        want("code in the body", json.loads(answer.body)["code"], status)
    want("answer has a body", len(answer.body) > 0, True)


def early_again(client, case, body, version):
    """Call early_one up to three times, as long as connections of HTTP/1.1 break.

    After an early answer Go's server closes the connection if more than 256 KB of the body are
    unread: at once if the client sent "Expect: 100-continue", else after half a second. A
    client that is still sending may lose the answer, at kube-apiserver too.
    """
    attempts = 3 if version == "1.1" and len(body) > 256 << 10 else 1
    for attempt in range(attempts):
        try:
            return early_one(client, case, body, version)
        except AssertionError:
            raise
        except Exception:
            if attempt + 1 == attempts:
                raise


def many(count, run):
    """Call run count times, or until it fails."""
    for n in range(count):
        try:
            run()
        except Exception as e:
            raise AssertionError(f"number {n + 1} of {count} failed: {type(e).__name__}: {e}") from e


def at_once(count, run, patience=3 * PATIENCE):
    """Call run(0) to run(count-1) in parallel. Each may take patience seconds."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(run, n) for n in range(count)]
        failures = [f.exception(patience) for f in futures]
    failures = [f for f in failures if f]
    if failures:
        raise AssertionError(f"{len(failures)} of {count} failed, the first: {type(failures[0]).__name__}: {failures[0]}")


def early(client):
    for version in client.versions:
        early_of(client, version)
        # These answers close the connection, which some clients cannot handle.
        for size, name, count in SIZES:
            report(f"401, {name}, HTTP/{version}", many, count * REPEAT,
                   lambda: early_again(client, UNAUTHORIZED, body_of(size), version))


def early_of(client, version):
    """Stop at the first failure: each further one may take the whole patience."""
    for size, name, count in SIZES:
        body = body_of(size)
        for case in EARLY:
            if not report(f"{case[0]}, {name}, HTTP/{version}", many, count * REPEAT,
                          lambda: early_again(client, case, body, version)):
                return
    too_large = (413, "POST", CONFIG_MAPS, "application/json", TOKEN)
    if report(f"413, 4 MB, HTTP/{version}", many, 2 * REPEAT,
              lambda: early_again(client, too_large, body_of(4 << 20), version)):
        report(f"405, 2 MB, ten at once, HTTP/{version}", at_once, 10,
               lambda n: early_again(client, EARLY[0], body_of(2 << 20), version))


# WATCH_CODINGS are pairs of an Accept-Encoding and the coding that a watch must then
# have. None lets the client choose.
WATCH_CODINGS = [
    ("gzip", "gzip"), ("identity", ""), ("gzip;q=0", ""), ("x-gzip", ""), ("notgzip", ""),
    ("identity;q=1, gzip;q=0", ""), (None, None),
]


def watch_path(name, **more):
    parameters = "".join(f"&{k}={v}" for k, v in more.items())
    return f"{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3D{name}{parameters}"


def next_text(stream, text):
    """Read events until one contains a text."""
    while True:
        event = stream.next()
        if event is None:
            raise AssertionError(f"watch ended before {text!r} came")
        if event["type"] not in ("ADDED", "MODIFIED"):
            raise AssertionError(f"unexpected event: {event}")
        if event["object"]["data"]["text"] == text:
            return


def watch_codings(client, name, accepted, coding):
    headers = {"Accept-Encoding": accepted} if accepted else {}
    stream = client.watch(watch_path(name, timeoutSeconds=30, resourceVersion=0), headers)
    try:
        want("status", stream.status, 200)
        if coding is not None:
            want("Content-Encoding", stream.headers.get("content-encoding", ""), coding)
        next_text(stream, "first")
        for n in range(5):
            patch_text(client, name, f"event {n}")
            next_text(stream, f"event {n}")
        patch_text(client, name, "first")
    finally:
        stream.close()


def to_the_end(stream):
    while stream.next() is not None:
        pass


def end_by_timeout(client, name, headers):
    stream = client.watch(watch_path(name, timeoutSeconds=1, resourceVersion=0), headers)
    try:
        next_text(stream, "first")
        to_the_end(stream)
    finally:
        stream.close()


def definition(kind):
    group = f"{NAMESPACE}.example.com"
    plural = kind.lower() + "s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return plural, group, json.dumps({
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }).encode()


def end_by_deletion(client, kind, headers):
    """Watch objects while their definition is deleted."""
    plural, group, body = definition(kind)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    create(client, definitions, body)
    path = f"/apis/{group}/v1/namespaces/{NAMESPACE}/{plural}"
    deadline = time.monotonic() + PATIENCE
    while client.request("GET", path).status != 200:
        want("definition is served in time", time.monotonic() < deadline, True)
        time.sleep(0.05)
    made = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "one"}}
    create(client, path, json.dumps(made).encode())
    stream = client.watch(f"{path}?watch=1&resourceVersion=0&timeoutSeconds={PATIENCE}", headers)
    try:
        want("first event", stream.next()["type"], "ADDED")
        want("status of DELETE", client.request("DELETE", f"{definitions}/{plural}.{group}").status, 200)
        seen = []
        while (event := stream.next()) is not None:
            seen.append(event["type"])
        want("an event tells that the object is deleted", "DELETED" in seen, True)
    finally:
        stream.close()


def watch(client):
    create(client, CONFIG_MAPS, config_map("watched", "first"))
    codings = WATCH_CODINGS if client.free_headers else [(None, None)]
    for accepted, coding in codings:
        report(f"events, Accept-Encoding {accepted or 'by default'}", watch_codings, client, "watched", accepted, coding)
    for n, (accepted, _) in enumerate(codings[:2]):
        headers = {"Accept-Encoding": accepted} if accepted else {}
        report(f"end by timeoutSeconds, Accept-Encoding {accepted}", end_by_timeout, client, "watched", headers)
        report(f"end by deletion of the definition, Accept-Encoding {accepted}", end_by_deletion, client, f"Kind{n}", headers)


LIST_VERSION = re.compile(rb'("metadata":\{"resourceVersion":")\d+')


def steady(body):
    """Remove the version of the list itself, which changes with every write."""
    return LIST_VERSION.sub(rb"\1", body, count=1)


def lists(client):
    plain = {"Accept-Encoding": "identity"}
    for version in client.versions:
        for what, path in (("500 KB", f"{LISTS}?limit=100"), ("3 MB", LISTS), ("one object of 900 KB", f"{LISTS}/large")):
            identity = client.request("GET", path, headers=plain, version=version)
            for coding in client.codings + [None]:
                def check():
                    headers = {"Accept-Encoding": coding} if coding else {}
                    answer = client.request("GET", path, headers=headers, version=version)
                    want("status", answer.status, 200)
                    got = answer.headers.get("content-encoding", "")
                    if got not in (coding, "") and coding:
                        raise AssertionError(f"Content-Encoding is {got}")
                    if coding and coding != "identity" and not got:
                        raise AssertionError("answer is not compressed")
                    a, b = steady(answer.body), steady(identity.body)
                    same = a == b or "continue" in path or tokenless(a) == tokenless(b)
                    want(f"body of {len(a)} bytes equals the identity one of {len(b)}", same, True)
                report(f"{what}, Accept-Encoding {coding or 'by default'}, HTTP/{version}", check)


CONTINUE = re.compile(rb'"continue":"[^"]*"')


def tokenless(body):
    """Remove the token for the next page, which contains the version of the list."""
    return CONTINUE.sub(b"", body, count=1)


def streams(client, writer):
    """Open more watches than a connection may have streams."""
    create(client, CONFIG_MAPS, config_map("streams", "first"))
    count, seconds = 120, 10
    began = threading.Semaphore(0)

    def one(n):
        stream = client.watch(watch_path("streams", timeoutSeconds=seconds, resourceVersion=0), {})
        try:
            want("status", stream.status, 200)
            event = stream.next()
            began.release()
            while event is not None and event["object"]["data"]["text"] != "last":
                event = stream.next()
            want("watch has seen the last change", event is not None, True)
            to_the_end(stream)
        finally:
            stream.close()

    def change():
        for _ in range(100):
            want("100 watches begin in time", began.acquire(timeout=PATIENCE), True)
        patch_text(writer, "streams", "last")

    def check():
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            changed = pool.submit(change)
            at_once(count, one, seconds + 2 * PATIENCE)
            changed.result(PATIENCE)

    report(f"{count} watches", check)


def gone(client):
    def gone_list():
        path = f"{CONFIG_MAPS}?resourceVersion=5&resourceVersionMatch=Exact&limit=10"
        answer = client.request("GET", path)
        want("status", answer.status, 410)
        want("reason", json.loads(answer.body)["reason"], "Expired")

    def gone_watch():
        stream = client.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=5&timeoutSeconds=30", {})
        try:
            if stream.status == 410:
                return
            want("status", stream.status, 200)
            event = stream.next()
            want("type", event["type"], "ERROR")
            want("code", event["object"]["code"], 410)
            want("event after the error", stream.next(), None)
        finally:
            stream.close()

    report("list of an old version", gone_list)
    report("watch from an old version", gone_watch)


def goaway(client):
    """Send requests to a server that sends GOAWAY with a probability of up to 0.02."""
    create(client, CONFIG_MAPS, config_map("goaway", "first"))
    count, width = 100 * REPEAT, 10
    path = f"{CONFIG_MAPS}/goaway"

    def get():
        want("status", client.request("GET", path).status, 200)

    def put(n):
        patch_text(client, "goaway", f"change {n}")

    report("GET, one after the other", many, count, get)
    report("GET, ten at once", at_once, width, lambda n: many(count // width, get))
    report("PATCH, ten at once", at_once, width, lambda n: many(count // width // 2, lambda: put(n)))
    report("ten watches to their end", at_once, width, lambda n: end_by_timeout_of(client))


def end_by_timeout_of(client):
    stream = client.watch(watch_path("goaway", timeoutSeconds=1, resourceVersion=0), {})
    try:
        want("first event", stream.next()["type"], "ADDED")
        to_the_end(stream)
    finally:
        stream.close()


def restart(client):
    """Send requests while another server on the same port replaces the server.

    It prints a line "ready" when everything is open. A line on standard input says that the
    old server has been told to end and the new one serves.
    """
    create(client, CONFIG_MAPS, config_map("restart", "first"))
    # All requests use the old connections until the old server ends.
    stop = threading.Event()
    failures, counted = [], [0]

    def ask():
        while not stop.is_set():
            try:
                answer = client.request("GET", f"{CONFIG_MAPS}/restart")
                # A server that ends may answer 503 with Retry-After.
                if answer.status != 503 or "retry-after" not in answer.headers:
                    want("status", answer.status, 200)
            except Exception as e:
                failures.append(f"{type(e).__name__}: {e}")
            counted[0] += 1
            time.sleep(0.02)

    codings = ["gzip", "identity"] if client.free_headers else [None]
    opened = [client.watch(watch_path("restart", resourceVersion=0, timeoutSeconds=PATIENCE),
                           {"Accept-Encoding": c} if c else {}) for c in codings]
    for stream in opened:
        next_text(stream, "first")
    askers = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for a in askers:
        a.start()
    print(json.dumps({"ready": True}), flush=True)
    for coding, stream in zip(codings, opened):
        report(f"watch ends, Accept-Encoding {coding or 'by default'}", to_the_end, stream)
    sys.stdin.readline()
    stop.set()
    for a in askers:
        a.join(PATIENCE)

    def lost():
        want("number of requests is above 50", counted[0] > 50, True)
        if failures:
            raise AssertionError(f"{len(failures)} of {counted[0]} failed, the first: {failures[0]}")

    report("requests", lost)


BEHAVIOURS = {f.__name__: f for f in (early, watch, lists, streams, gone, goaway, restart)}


def main(make_client):
    client = make_client()
    run = BEHAVIOURS[sys.argv[1]]
    if run is streams:
        run(client, make_client())
    else:
        run(client)
    # Exit without waiting for threads that checks have left.
    sys.stdout.flush()
    os._exit(0)


class LineReader:
    """Splits the chunks of a stream into events."""

    def __init__(self, chunks):
        self.chunks = chunks
        self.rest = b""

    def next(self):
        while True:
            line, newline, rest = self.rest.partition(b"\n")
            if newline:
                self.rest = rest
                return json.loads(line)
            try:
                self.rest += next(self.chunks)
            except StopIteration:
                if self.rest:
                    raise AssertionError(f"stream ends within an event: {self.rest[-100:]!r}")
                return None
