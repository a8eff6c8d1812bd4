"""A small server with Kubernetes' API, for the real kubectl."""
import http.server
import json
import re
import urllib.parse


def condition(kind, status="True", **more):
    return {"conditions": [{"type": kind, "status": status, **more}]}


def pod(node, replica, phase, host=None, container=None, **more):
    """A pod as the API shows it."""
    status = {"phase": phase, **more}
    if container:
        status["containerStatuses"] = [{"name": "millrace", "restartCount": 0, "state": {}, **container}]
    return {"apiVersion": "v1", "kind": "Pod", "status": status, "spec": {"nodeName": host} if host else {},
            "metadata": {"name": f"{node}-{replica}-x", "labels": {"millrace/node": node},
                         "creationTimestamp": "2026-01-01T00:00:00Z",
                         "annotations": {"batch.kubernetes.io/job-completion-index": str(replica)}}}


class Api(http.server.ThreadingHTTPServer):
    """The few parts of Kubernetes' API that kubectl uses here: objects are kept as they come."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), ApiHandler)
        self.objects, self.changes, self.forbidden, self.refused = {}, [], False, None

    def close(self):
        self.shutdown()
        self.server_close()


RESOURCES = {"v1": (("configmaps", "ConfigMap"), ("services", "Service"), ("pods", "Pod")),
             "batch/v1": (("jobs", "Job"),)}
VERBS = ["create", "delete", "get", "list", "patch"]


class ApiHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, answer):
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def fail(self, code, reason, message):
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
                           "message": message, "metadata": {}})

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null")

    def discover(self, path):
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            batch = {"groupVersion": "batch/v1", "version": "v1"}
            return {"kind": "APIGroupList", "apiVersion": "v1",
                    "groups": [{"name": "batch", "versions": [batch], "preferredVersion": batch}]}
        version = {"/api/v1": "v1", "/apis/batch/v1": "batch/v1"}.get(path)
        return version and {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [
            {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": VERBS}
            for name, kind in RESOURCES[version]]}

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        found = self.discover(url.path)
        match = re.fullmatch(r"/apis?/(?:batch/)?v1/namespaces/([^/]+)/(\w+)(?:/(.*))?", url.path)
        if found:
            return self.answer(200, found)
        if not match:
            return self.fail(404, "NotFound", "no such path")
        space, kind, name = match.groups()
        if self.server.forbidden:
            return self.fail(403, "Forbidden", "you cannot")
        if name:
            one = self.server.objects.get((space, kind, name))
            return self.answer(200, one) if one else self.fail(404, "NotFound", f"{kind} {name} not found")
        wanted = dict(urllib.parse.parse_qsl(url.query)).get("labelSelector", "=").split("=")
        items = [one for (s, k, _), one in self.server.objects.items() if (s, k) == (space, kind) and
                 (one["metadata"]["labels"].get(wanted[0]) == wanted[1])]
        version = "batch/v1" if kind == "jobs" else "v1"
        self.answer(200, {"kind": "List", "apiVersion": version, "metadata": {}, "items": items})

    def do_POST(self):
        space, kind = re.search(r"/namespaces/([^/]+)/(\w+)", self.path).groups()
        one = self.body()
        if one["metadata"]["name"] == self.server.refused:
            return self.fail(403, "Forbidden", "a quota is exceeded")
        self.server.objects[(space, kind, one["metadata"]["name"])] = one
        self.server.changes.append(("create", space, kind, one["metadata"]["name"]))
        self.answer(201, one)

    def do_DELETE(self):
        self.body()
        space, kind, name = re.search(r"/namespaces/([^/]+)/(\w+)/([^?]+)", self.path).groups()
        self.server.changes.append(("delete", space, kind, name))
        one = self.server.objects.pop((space, kind, name), None)
        return self.answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}}) if one \
            else self.fail(404, "NotFound", f"{kind} {name} not found")
