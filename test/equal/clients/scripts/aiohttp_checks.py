"""aiohttp: HTTP/1.1, asynchronous."""

import ssl

import aiohttp
import aiohttp.http
import checks
import run_in_loop


class Stream:
    def __init__(self, loop, response):
        self.response = response
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.headers.items()}
        self.next = checks.LineReader(loop.iterate(response.content.iter_any())).next

    def close(self):
        self.response.close()


class Client:
    versions = ["1.1"]
    codings = ["gzip", "zstd"] if aiohttp.http_parser.HAS_ZSTD else ["gzip"]
    free_headers = True

    def __init__(self):
        self.loop = run_in_loop.Loop()
        self.session = self.loop.run(self.make())

    async def make(self):
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=checks.CA), limit=200)
        return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(sock_read=checks.SILENCE))

    def request(self, method, path, body=None, headers=None, token=checks.TOKEN, version="1.1"):
        async def ask():
            async with self.session.request(method, checks.URL + path, data=body, headers=all_headers) as r:
                return checks.Answer(r.status, r.headers, await r.read())
        all_headers = {"Authorization": f"Bearer {token}", **(headers or {})}
        return self.loop.run(ask())

    def watch(self, path, headers):
        async def ask():
            return await self.session.get(checks.URL + path, headers=all_headers)
        all_headers = {**checks.WATCH_HEADERS, **headers}
        return Stream(self.loop, self.loop.run(ask()))


checks.main(Client)
