"""httpx with HTTP/2, asynchronous: one connection for all requests."""

import ssl

import checks
import httpx
import run_in_loop


class Stream:
    def __init__(self, loop, response):
        self.loop = loop
        self.response = response
        self.status = response.status_code
        self.headers = {k.lower(): v for k, v in response.headers.items()}
        self.next = checks.LineReader(loop.iterate(response.aiter_bytes())).next

    def close(self):
        self.loop.run(self.response.aclose())


class Client:
    versions = ["2", "1.1"]
    codings = ["gzip", "zstd"]
    free_headers = True

    def __init__(self):
        self.loop = run_in_loop.Loop()
        self.clients = {v: self.loop.run(self.make(v == "2")) for v in self.versions}

    async def make(self, http2):
        limits = httpx.Limits(max_connections=200)
        verify = ssl.create_default_context(cafile=checks.CA)
        return httpx.AsyncClient(http2=http2, verify=verify, limits=limits, timeout=checks.PATIENCE, trust_env=False)

    def request(self, method, path, body=None, headers=None, token=checks.TOKEN, version="2"):
        headers = {"Authorization": f"Bearer {token}", **(headers or {})}
        r = self.loop.run(self.clients[version].request(method, checks.URL + path, content=body, headers=headers))
        checks.want("version", r.http_version, "HTTP/" + version)
        return checks.Answer(r.status_code, r.headers, r.content)

    def watch(self, path, headers):
        client = self.clients["2"]
        headers = {**checks.WATCH_HEADERS, **headers}
        request = client.build_request("GET", checks.URL + path, headers=headers, timeout=checks.SILENCE)
        return Stream(self.loop, self.loop.run(client.send(request, stream=True)))


checks.main(Client)
