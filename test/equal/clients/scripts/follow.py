"""Follows compressed watches with Python's decoders of gzip.

Each line of standard input is a number, the name of a decoder, and a path to watch. The
script prints the number and a line of the body as soon as it is decoded. At
the end of the body it prints the number and "END", with the error if there is one.
"""

import asyncio
import gzip
import http.client
import importlib
import json
import os
import queue
import ssl
import sys
import threading
import urllib.parse
import zlib

URL = os.environ["CLIENT_URL"]
CA = os.environ["CLIENT_CA"]
HEADERS = {
    "Authorization": "Bearer " + os.environ["CLIENT_TOKEN"],
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "X-Millrace-Compress-Watch": "1",
}
# SILENCE is how many seconds a watch may pass without an event.
SILENCE = 60

printing = threading.Lock()


def want_gzip(coding):
    if coding != "gzip":
        raise AssertionError(f"Content-Encoding is {coding!r}")


def lines_of(chunks):
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        raise AssertionError(f"the body ends within an event: {rest[-100:]!r}")


def ask(path):
    host = urllib.parse.urlsplit(URL).netloc
    connection = http.client.HTTPSConnection(host, context=ssl.create_default_context(cafile=CA), timeout=SILENCE)
    connection.request("GET", path, headers=HEADERS)
    response = connection.getresponse()
    want_gzip(response.headers["Content-Encoding"])
    return response


def with_zlib(path):
    """The decoder that urllib3, httpx and aiohttp use."""
    def chunks():
        response, decoder = ask(path), zlib.decompressobj(wbits=31)
        while chunk := response.read1(1 << 16):
            yield decoder.decompress(chunk)
        if not decoder.eof or decoder.unused_data:
            raise AssertionError(f"gzip ended: {decoder.eof}, then {len(decoder.unused_data)} bytes")
    return lines_of(chunks())


def with_gzipfile(path):
    """A decoder that reads until a buffer is full."""
    return (line.rstrip(b"\n") for line in gzip.GzipFile(fileobj=ask(path)))


def with_urllib3(path):
    pool = urllib3.PoolManager(ca_certs=CA, timeout=SILENCE)
    response = pool.request("GET", URL + path, headers=HEADERS, preload_content=False)
    want_gzip(response.headers["Content-Encoding"])
    return lines_of(response.stream(None, decode_content=True))


def requests_get(path):
    session = requests.Session()
    session.trust_env = False
    response = session.get(URL + path, headers=HEADERS, verify=CA, stream=True, timeout=SILENCE)
    want_gzip(response.headers["Content-Encoding"])
    return response


def with_requests(path):
    return lines_of(requests_get(path).iter_content(chunk_size=None))


def with_requests_lines(path):
    return requests_get(path).iter_lines()


def with_httpx(path, http2=True):
    verify = ssl.create_default_context(cafile=CA)
    with httpx.Client(http2=http2, verify=verify, timeout=SILENCE, trust_env=False) as client:
        with client.stream("GET", URL + path, headers=HEADERS) as response:
            want_gzip(response.headers["Content-Encoding"])
            yield from (line.encode() for line in response.iter_lines())


def with_httpx1(path):
    return with_httpx(path, http2=False)


def with_aiohttp(path):
    lines = queue.Queue()

    async def read():
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=CA))
        timeout = aiohttp.ClientTimeout(total=None, sock_read=SILENCE)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            async with session.get(URL + path, headers=HEADERS) as response:
                want_gzip(response.headers["Content-Encoding"])
                async for line in response.content:
                    lines.put(line.rstrip(b"\n"))

    def run():
        try:
            asyncio.run(read())
            lines.put(None)
        except Exception as e:
            lines.put(e)

    threading.Thread(target=run, daemon=True).start()
    while (line := lines.get()) is not None:
        if isinstance(line, Exception):
            raise line
        yield line


def with_pycurl(path):
    chunks, headers = queue.Queue(), []
    handle = pycurl.Curl()
    handle.setopt(pycurl.URL, URL + path)
    handle.setopt(pycurl.CAINFO, CA)
    handle.setopt(pycurl.NOSIGNAL, True)
    handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
    handle.setopt(pycurl.ACCEPT_ENCODING, "gzip")
    handle.setopt(pycurl.HTTPHEADER, [f"{k}: {v}" for k, v in HEADERS.items() if k != "Accept-Encoding"])
    handle.setopt(pycurl.HEADERFUNCTION, lambda line: headers.append(line.strip().lower()))
    handle.setopt(pycurl.WRITEFUNCTION, chunks.put)

    def run():
        try:
            handle.perform()
            chunks.put(b"")
        except pycurl.error as e:
            chunks.put(e)

    def take():
        chunk = chunks.get()
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    threading.Thread(target=run, daemon=True).start()
    yield from lines_of(iter(take, b""))
    want_gzip("gzip" if b"content-encoding: gzip" in headers else "")


def with_kubernetes(path):
    """The official client, told to accept gzip for lists. It does not decode watches."""
    configuration = kubernetes.client.Configuration()
    configuration.host, configuration.ssl_ca_cert, configuration.proxy = URL, CA, None
    api = kubernetes.client.ApiClient(configuration, header_name="Authorization", header_value=HEADERS["Authorization"])
    api.set_default_header("Accept-Encoding", "gzip")
    address, _, query = path.partition("?")
    given = dict(urllib.parse.parse_qsl(query))
    namespace = address.split("/")[4]
    call = kubernetes.client.CoreV1Api(api).list_namespaced_config_map
    parameters = {"resource_version": given["resourceVersion"], "field_selector": given["fieldSelector"]}
    for event in kubernetes.watch.Watch().stream(call, namespace=namespace, timeout_seconds=int(given["timeoutSeconds"]), **parameters):
        yield json.dumps({"type": event["type"], "object": event["raw_object"]}).encode()


def say(number, text):
    with printing:
        sys.stdout.buffer.write(number.encode() + b"\t" + text + b"\n")
        sys.stdout.buffer.flush()


def follow(number, decoder, path):
    try:
        for line in globals()["with_" + decoder](path):
            say(number, line)
        say(number, b"END")
    except Exception as e:
        say(number, f"END {type(e).__name__}: {e}".replace("\n", " ").encode())


def load(decoder):
    """Import a decoder's module. Threads that import at once can see a part of a module."""
    name = "gzip" if decoder == "gzipfile" else decoder.removesuffix("1").partition("_")[0]
    globals()[name] = importlib.import_module(name)


for request in sys.stdin:
    number, decoder, path = request.split()
    load(decoder)
    threading.Thread(target=follow, args=(number, decoder, path), daemon=True).start()
os._exit(0)
