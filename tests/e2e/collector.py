"""An OpenTelemetry collector for tests: it keeps what it receives, decoded by the published messages."""
import threading

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest, ExportMetricsServiceResponse)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest, ExportTraceServiceResponse)

import posted

KINDS = {"/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
         "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse)}


def attributes(pairs):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in pairs}


class Collector(posted.Posted):
    """`answers` are statuses with headers and bodies for the next requests; then 200. "stuck" never answers, "gone"
    ends the connection instead, and "endless" does not stop."""

    def __init__(self, **how):
        self.requests, self.answers, self.stuck = [], [], threading.Event()
        self.headers = []
        super().__init__(**how)

    def take(self, handler, body):
        answer, headers, text = self.answers.pop(0) if self.answers else (200, {}, b"")
        self.headers.append(dict(handler.headers))
        if answer == "stuck":
            self.stuck.wait()
            return
        if answer == "gone":
            handler.close_connection = True
            return
        if answer == "endless":
            handler.send_response(200)
            handler.end_headers()
            while not self.stuck.is_set():
                handler.wfile.write(bytes(1 << 16))
        if answer == 200:
            assert handler.headers["Content-Type"] == "application/x-protobuf"
            self.requests.append(KINDS[handler.path][0].FromString(body))
        handler.answer(answer, headers, text)

    def close(self):
        self.stuck.set()
        super().close()

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
