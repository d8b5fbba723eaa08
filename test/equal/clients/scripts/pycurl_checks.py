"""libcurl through pycurl, whose wheels contain a newer libcurl than the system has."""

import io
import queue
import threading

import checks
import pycurl


class Stream:
    """A transfer in its own thread, which passes on the received chunks."""

    def __init__(self, handle):
        self.headers, self.status = {}, None
        self.handle = handle
        self.chunks = queue.Queue()
        self.begun = threading.Event()
        self.closed = False
        self.next = checks.LineReader(iter(self.take, b"")).next
        handle.setopt(pycurl.HEADERFUNCTION, self.header)
        handle.setopt(pycurl.WRITEFUNCTION, self.write)
        handle.setopt(pycurl.NOPROGRESS, False)
        handle.setopt(pycurl.XFERINFOFUNCTION, lambda *_: self.closed)
        threading.Thread(target=self.run, daemon=True).start()
        if not self.begun.wait(checks.PATIENCE):
            raise AssertionError("no response came")
        if self.status is None:
            self.take()

    def run(self):
        try:
            self.handle.perform()
            self.chunks.put(b"")
        except pycurl.error as e:
            self.chunks.put(e)
        self.begun.set()

    def header(self, line):
        name, colon, value = line.decode().partition(":")
        if colon:
            self.headers[name.strip().lower()] = value.strip()
        elif line.startswith(b"HTTP/"):
            self.status = int(line.split()[1])
        elif not line.strip():
            self.begun.set()

    def write(self, chunk):
        self.chunks.put(chunk)

    def take(self):
        chunk = self.chunks.get(timeout=2 * checks.PATIENCE)
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    def close(self):
        self.closed = True


class Client:
    versions = ["2", "1.1"]
    codings = ["gzip"]
    free_headers = True

    def __init__(self):
        self.local = threading.local()

    def handle(self, method, path, headers, version="2"):
        handle = pycurl.Curl()
        handle.setopt(pycurl.URL, checks.URL + path)
        handle.setopt(pycurl.CUSTOMREQUEST, method)
        handle.setopt(pycurl.CAINFO, checks.CA)
        handle.setopt(pycurl.NOSIGNAL, True)
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS if version == "2" else pycurl.CURL_HTTP_VERSION_1_1)
        headers = dict(headers)
        # With the empty string, libcurl accepts all codings that it supports.
        handle.setopt(pycurl.ACCEPT_ENCODING, headers.pop("Accept-Encoding", ""))
        handle.setopt(pycurl.HTTPHEADER, [f"{k}: {v}" for k, v in headers.items()])
        return handle

    def request(self, method, path, body=None, headers=None, token=checks.TOKEN, version="2"):
        handle = self.handle(method, path, {"Authorization": f"Bearer {token}", **(headers or {})}, version)
        # Each thread keeps its connections open between requests.
        if not hasattr(self.local, "multi"):
            self.local.multi = {}
        received, answered = io.BytesIO(), {}

        def header(line):
            name, colon, value = line.decode().partition(":")
            if colon:
                answered[name.strip().lower()] = value.strip()

        handle.setopt(pycurl.WRITEFUNCTION, received.write)
        handle.setopt(pycurl.HEADERFUNCTION, header)
        handle.setopt(pycurl.TIMEOUT, checks.PATIENCE)
        if body is not None:
            handle.setopt(pycurl.POSTFIELDS, body)
        multi = self.local.multi.setdefault(version, pycurl.CurlMulti())
        self.perform(multi, handle)
        checks.want("version", handle.getinfo(pycurl.INFO_HTTP_VERSION),
                    pycurl.CURL_HTTP_VERSION_2_0 if version == "2" else pycurl.CURL_HTTP_VERSION_1_1)
        return checks.Answer(handle.getinfo(pycurl.RESPONSE_CODE), answered, received.getvalue())

    def perform(self, multi, handle):
        multi.add_handle(handle)
        try:
            running = 1
            while running:
                _, running = multi.perform()
                if running:
                    multi.select(0.02)
            _, _, failed = multi.info_read()
            if failed:
                raise ConnectionError(f"curl {failed[0][1]}: {failed[0][2]}")
        finally:
            multi.remove_handle(handle)

    def watch(self, path, headers):
        return Stream(self.handle("GET", path, {**checks.WATCH_HEADERS, **headers}))


checks.main(Client)
