"""An OpenTelemetry collector for tests: it keeps what it receives, decoded by the published messages."""
import http.server
import ssl
import threading

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest, ExportMetricsServiceResponse)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest, ExportTraceServiceResponse)

KINDS = {"/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
         "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse)}


def attributes(pairs):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in pairs}


class Collector:
    """`answers` are statuses with headers and bodies for the next requests; then 200. "stuck" never answers."""

    def __init__(self, port=0, certificate=None):
        self.requests, self.answers, self.stuck = [], [], threading.Event()
        self.headers = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer, headers, text = collector.answers.pop(0) if collector.answers else (200, {}, b"")
                collector.headers.append(dict(self.headers))
                if answer == "stuck":
                    collector.stuck.wait()
                    return
                if answer == 200:
                    assert self.headers["Content-Type"] == "application/x-protobuf"
                    collector.requests.append(KINDS[self.path][0].FromString(body))
                self.send_response(answer)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # a client that does not trust it
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.stuck.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def metrics(self, request=-1):
        """{name: (kind, {labels: point})} of one request for metrics, and the resource."""
        wanted = [one for one in self.requests if isinstance(one, ExportMetricsServiceRequest)][request]
        found = {}
        for metric in wanted.resource_metrics[0].scope_metrics[0].metrics:
            kind = metric.WhichOneof("data")
            points = getattr(metric, kind).data_points
            found[metric.name] = (metric, {tuple(sorted(attributes(one.attributes).items())): one for one in points})
        return found, attributes(wanted.resource_metrics[0].resource.attributes)

    def spans(self):
        """All spans, each with its resource's attributes."""
        return [(span, attributes(part.resource.attributes)) for request in self.requests
                if isinstance(request, ExportTraceServiceRequest) for part in request.resource_spans
                for scope in part.scope_spans for span in scope.spans]
