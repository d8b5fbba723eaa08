"""The official client for Python, over urllib3 and HTTP/1.1."""

import json

import checks
import kubernetes
from kubernetes.client.exceptions import ApiException


class Stream:
    """The events of a Watch. Watch raises an exception for an ERROR event or a status."""

    headers = {}

    def __init__(self, call, **parameters):
        self.watch = kubernetes.watch.Watch()
        self.events = self.watch.stream(call, **parameters)
        self.status = 200
        self.over = False

    def next(self):
        if self.over:
            return None
        try:
            event = next(self.events, None)
        except ApiException as e:
            self.over = True
            return {"type": "ERROR", "object": {"code": e.status}}
        if event is None:
            return None
        return {"type": event["type"], "object": event["raw_object"]}

    def close(self):
        self.watch.stop()


class Client:
    versions = ["1.1"]
    codings = ["gzip"]
    free_headers = False

    def __init__(self):
        configuration = kubernetes.client.Configuration()
        configuration.host = checks.URL
        configuration.ssl_ca_cert = checks.CA
        configuration.proxy = None
        configuration.connection_pool_maxsize = 200
        self.configuration = configuration
        self.apis = {}

    def api(self, token=checks.TOKEN):
        if token not in self.apis:
            self.apis[token] = kubernetes.client.ApiClient(
                self.configuration, header_name="Authorization", header_value=f"Bearer {token}")
        return self.apis[token]

    def request(self, method, path, body=None, headers=None, token=checks.TOKEN, version=None):
        # This client serializes bodies itself.
        if body is not None and "json" in headers["Content-Type"]:
            body = json.loads(body)
        headers = {**self.api(token).default_headers, **(headers or {})}
        r = self.api(token).call_api(method, checks.URL + path, headers, body, _request_timeout=checks.PATIENCE)
        content = r.read()
        return checks.Answer(r.status, r.headers, content)

    def watch(self, path, headers):
        address, _, query = path.partition("?")
        given = dict(p.split("=", 1) for p in query.split("&"))
        names = {"timeoutSeconds": "timeout_seconds", "resourceVersion": "resource_version", "fieldSelector": "field_selector"}
        parameters = {names[k]: v.replace("%3D", "=") for k, v in given.items() if k in names}
        if "timeout_seconds" in parameters:
            parameters["timeout_seconds"] = int(parameters["timeout_seconds"])
        if address.startswith("/api/"):
            call = kubernetes.client.CoreV1Api(self.api()).list_namespaced_config_map
            return Stream(call, namespace=checks.NAMESPACE, **parameters)
        call = kubernetes.client.CustomObjectsApi(self.api()).list_namespaced_custom_object
        _, _, group, version, _, _, plural = address.split("/")
        return Stream(call, group=group, version=version, plural=plural, namespace=checks.NAMESPACE, **parameters)


checks.main(Client)
