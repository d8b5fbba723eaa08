"""requests: HTTP/1.1, with a connection for each concurrent request."""

import checks
import requests
import requests.adapters


class Stream:
    def __init__(self, response):
        self.response = response
        self.status = response.status_code
        self.headers = {k.lower(): v for k, v in response.headers.items()}
        self.next = checks.LineReader(response.iter_content(chunk_size=None)).next

    def close(self):
        self.response.close()


class Client:
    versions = ["1.1"]
    codings = ["gzip", "zstd"] if "zstd" in requests.utils.DEFAULT_ACCEPT_ENCODING else ["gzip"]
    free_headers = True

    def __init__(self):
        self.session = requests.Session()
        self.session.verify = checks.CA
        self.session.trust_env = False
        self.session.mount("https://", requests.adapters.HTTPAdapter(pool_maxsize=200))

    def request(self, method, path, body=None, headers=None, token=checks.TOKEN, version=None):
        headers = {"Authorization": f"Bearer {token}", **(headers or {})}
        r = self.session.request(method, checks.URL + path, data=body, headers=headers, timeout=checks.PATIENCE)
        return checks.Answer(r.status_code, r.headers, r.content)

    def watch(self, path, headers):
        headers = {**checks.WATCH_HEADERS, **headers}
        r = self.session.get(checks.URL + path, headers=headers, stream=True, timeout=checks.SILENCE)
        return Stream(r)


checks.main(Client)
