"""otlp: what an OpenTelemetry collector receives, decoded by the published messages: numbers as in the ledger, in whose
name, and what happens if the collector is away, slow, refuses or is not who it should be."""
import base64
import json
import os
import re
import socketserver
import subprocess
import threading
import urllib.request

import harness
from collector import Collector, ExportMetricsServiceResponse, attributes
from harness import MILLRACE, TIMEOUT, free_port, pipeline

SHORT = pipeline(dict(a='uri: "lavfi:testsrc=size=64x64:rate=100:duration=1"',
                      b='uri: "lavfi:testsrc=size=64x64:rate=50:duration=1"'), name="short",
                 decode="", out='type: "null"')
NODES = pipeline(dict(cam='uri: "lavfi:testsrc=size=64x64:rate=50:duration=1"'), name="nodes", decode="",
                 small="type: preprocess, size: 32x32", out='type: "null"',
                 nodes=dict(near="stages: decode", middle="stages: small, replicas: 2", far="stages: out"))


class Settings(socketserver.BaseRequestHandler):
    """A server of gRPC begins with a frame of HTTP/2, whatever it is asked."""

    def handle(self):
        self.request.recv(65536)
        self.request.sendall(bytes((0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 64, 0)))


class Otlp(harness.Case):
    def setUp(self):
        super().setUp()
        self.collector = self.collect()

    def collect(self, **how):
        made = Collector(**how)
        self.addCleanup(made.close)
        return made

    def run_to(self, url, *arguments, text=SHORT, environment=(), code=0):
        """The summary of a run, and what it has printed."""
        path = self.write(text)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        done = subprocess.run([MILLRACE, "run", path, "--json", *(["--otlp", url] if url else []), *arguments],
                              capture_output=True, text=True, timeout=TIMEOUT, env={**plain, **dict(environment)})
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if done.stdout else None, done.stderr

    def assert_as_in_ledger(self, summary, collector=None):
        metrics, resource = (collector or self.collector).metrics()
        sums = {}
        for labels, point in metrics["millrace_frames"][1].items():
            fate = dict(labels)["fate"]
            sums[fate] = sums.get(fate, 0) + point.as_int
        wanted = {what: sum(line["frames"] for line in summary["ledger"][what]) for what in ("dropped", "absorbed")}
        wanted["delivered"] = summary["ledger"]["delivered"]
        self.assertEqual(sums, {fate: frames for fate, frames in wanted.items() if frames})
        return metrics, resource


class Metrics(Otlp):
    def test_the_last_ones_are_the_ledger(self):
        summary, _ = self.run_to(self.collector.url + "/")
        metrics, resource = self.assert_as_in_ledger(summary)
        self.assertEqual([resource[name] for name in ("service.name", "millrace.pipeline", "service.version")],
                         ["millrace", "short", metrics["millrace_build_info"][1].popitem()[0][0][1]])
        self.assertRegex(resource["service.instance.id"], r"^.+/short$")
        frames, points = metrics["millrace_frames"]
        self.assertEqual((frames.sum.aggregation_temporality, frames.sum.is_monotonic), (2, True))
        for point in points.values():
            self.assertLess(point.start_time_unix_nano, point.time_unix_nano)
        seconds, points = metrics["millrace_stage_seconds"]
        stages = {stage["id"]: stage for stage in summary["stages"]}
        self.assertEqual(seconds.unit, "s")
        for labels, point in points.items():
            durations = stages[dict(labels)["stage"]]["latency"]
            self.assertEqual((point.count, list(point.bucket_counts)), (durations["count"], durations["buckets"]))
            self.assertEqual(len(point.bucket_counts), len(point.explicit_bounds) + 1)
            self.assertEqual(point.explicit_bounds[0], 2 ** 14 / 1e9)
            self.assertAlmostEqual(point.sum, durations["sum_s"], 5)
        self.assertEqual({dict(labels)["source"]: point.as_int for labels, point
                          in metrics["millrace_source_frames"][1].items()}, {"a": 100, "b": 50})

    def test_nodes_are_sent_together(self):
        summary, _ = self.run_to(self.collector.url, text=NODES)
        metrics, resource = self.assert_as_in_ledger(summary)
        self.assertEqual({dict(labels)["node"] for labels in metrics["millrace_node_restarts"][1]},
                         {"near", "middle.0", "middle.1", "far"})
        self.assertNotIn("millrace.process", resource)

    def test_variables(self):
        """The environment names the collector, the headers and the resource."""
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.url, "OTEL_SERVICE_NAME": "cameras",
                     "OTEL_EXPORTER_OTLP_HEADERS": "api-key=s%20e, x-b = 2",
                     "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,deployment.environment=a%2Cb,host.name=h"}
        self.run_to(None, environment=variables)
        _, resource = self.collector.metrics()
        self.assertEqual([resource[name] for name in ("service.name", "deployment.environment", "host.name")],
                         ["cameras", "a,b", "h"])
        headers = self.collector.headers[-1]
        self.assertEqual((headers["api-key"], headers["x-b"]), ("s e", "2"))
        asked = len(self.collector.headers)
        self.run_to("off", environment=variables)
        self.run_to(None, environment={**variables, "OTEL_SDK_DISABLED": "true"})
        self.assertEqual(len(self.collector.headers), asked)

    def test_variables_for_one_signal(self):
        """They count before those for all, and the endpoint is the whole URL. A signal can be turned off."""
        other, follow = self.collect(), ("--trace-sample", "1")
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.url, "OTEL_EXPORTER_OTLP_HEADERS": "to=all",
                     "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": other.url + "/v1/traces",
                     "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "to=traces"}

        def sent():
            found = [(len(one.spans()) > 0, sum("metrics" in str(type(part)).lower() for part in one.requests) > 0,
                      {headers["to"] for headers in one.headers}) for one in (self.collector, other)]
            for one in (self.collector, other):
                one.requests.clear()
                one.headers.clear()
            return found

        self.run_to(None, *follow, environment=variables)
        self.assertEqual(sent(), [(False, True, {"all"}), (True, False, {"traces"})])
        self.run_to(None, *follow, environment={**variables, "OTEL_METRICS_EXPORTER": "none"})
        self.assertEqual(sent(), [(False, False, set()), (True, False, {"traces"})])
        summary, _ = self.run_to(None, *follow, environment={**variables, "OTEL_TRACES_EXPORTER": "console"})
        self.assertEqual(sent(), [(False, True, {"all"}), (False, False, set())])
        self.assertNotIn("lost spans", str(summary))
        # The pipeline's own words count more.
        self.run_to(self.collector.url, *follow, environment={**variables, "OTEL_METRICS_EXPORTER": "none"})
        self.assertEqual(sent(), [(True, True, {"all", "traces"}), (False, False, set())])
        del variables["OTEL_EXPORTER_OTLP_ENDPOINT"]
        self.run_to(None, *follow, environment=variables)
        self.assertEqual(sent()[1], (True, False, {"traces"}))
        self.run_to(None, environment=variables)
        self.assertEqual(sent(), [(False, False, set())] * 2)
        metrics = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": self.collector.url + "/v1/metrics"}
        self.assertIn("traces have nowhere to go", self.run_to(None, *follow, environment=metrics, code=64)[1])

    def test_a_whole_url(self):
        """One signal's URL in place of the collector's."""
        for end in ("/v1/traces", "/v1/metrics/", "//"):
            self.run_to(self.collector.url + end, "--trace-sample", "1")
            self.assertTrue(self.collector.spans())
            self.collector.metrics()
            self.collector.requests.clear()

    def test_a_port_for_grpc(self):
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Settings)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        _, log = self.run_to(None, environment={
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
        self.assertIn("ask for the protocol grpc, but metrics are sent as http/protobuf", log)
        self.assertIn("the answer is not HTTP/1: is it a port for gRPC", log)

    def test_headers_from_a_file(self):
        path = self.write("Authorization: Bearer a:b \nX-Site: lobby\n", "headers")
        run = ["--set", f"otlp.headers_file={path}"]
        self.assertIn("others may read or change it", self.run_to(self.collector.url, *run, code=77)[1])
        path.chmod(0o600)
        self.run_to(self.collector.url, *run)
        headers = self.collector.headers[-1]
        self.assertEqual((headers["Authorization"], headers["X-Site"]), ("Bearer a:b", "lobby"))
        _, log = self.run_to(f"http://collector.invalid:{free_port()}", *run)
        self.assertIn("headers are sent without encryption", log)
        secret = "s" * 20000
        path.write_text(f"\nX-Long: {secret}\n")
        self.run_to(self.collector.url, *run)
        self.assertEqual(self.collector.headers[-1]["X-Long"], secret)

    def test_wrong_lists(self):
        """Entries are refused by their number: a message never has what may be a secret."""
        known = {"OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.url}
        for name, value, wanted in (
                ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,Authorization: Bearer hidden==", 'entry 2: what stands before "="'),
                ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,,hidden", 'entry 3 has no "=": write NAME=VALUE'),
                ("OTEL_EXPORTER_OTLP_HEADERS", "a=hidden%0Ab: c", "entry 1: the value must be one line"),
                ("OTEL_RESOURCE_ATTRIBUTES", "a=1,hidden", 'entry 2 has no "="')):
            log = self.run_to(None, environment={**known, name: value}, code=78)[1]
            self.assertIn(f"{name}: {wanted}", log)
            self.assertNotIn("hidden", log)
        path = self.write("A: b\nAuthorization Bearer hidden\n", "headers")
        path.chmod(0o600)
        log = self.run_to(self.collector.url, "--set", f"otlp.headers_file={path}", code=78)[1]
        self.assertIn('headers: entry 2 has no ":"', log)
        self.assertNotIn("hidden", log)
        self.assertEqual(self.collector.headers, [])

    def test_a_password_in_the_clear(self):
        _, log = self.run_to(None, environment={
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://me:hidden@collector.invalid:{free_port()}"})
        self.assertIn("user and password are sent without encryption", log)
        self.assertNotIn("hidden", log)


class Traces(Otlp):
    def traces(self, collector=None):
        """{trace id: [(span, its attributes, the process)]}, each of which is one tree."""
        found = {}
        for span, resource in (collector or self.collector).spans():
            found.setdefault(span.trace_id.hex(), []).append(
                (span, attributes(span.attributes), resource.get("millrace.process")))
        for spans in found.values():
            by_id = {span.span_id: (span, process) for span, _, process in spans}
            self.assertEqual(len(by_id), len(spans))
            self.assertEqual([span.name for span, _, _ in spans if not span.parent_span_id], ["frame"])
            for span, _, process in spans:
                self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano)
                if span.parent_span_id:
                    parent, where = by_id[span.parent_span_id]
                    apart = 0 if where == process else 10 ** 6  # each process finds the date for itself
                    self.assertLessEqual(parent.start_time_unix_nano, span.start_time_unix_nano + apart)
        return found

    def test_one_over_all_nodes(self):
        self.run_to(self.collector.url, "--trace-sample", "1", text=NODES)
        found = self.traces()
        self.assertEqual(len(found), 50)
        numbers = set()
        for spans in found.values():
            ends = {process: about for span, about, process in spans if span.name == "frame"}
            middle = next(process for process in ends if process.startswith("middle."))
            self.assertEqual(set(ends), {"near", middle, "far"})
            self.assertEqual({about["millrace.fate"] for about in ends.values()}, {"delivered"})
            numbers.add(ends["near"]["millrace.seq"])
            parents = {span.span_id: process for span, _, process in spans}
            self.assertEqual([parents[span.parent_span_id] for span, _, process in spans
                              if span.name == "frame" and process == "far"], [middle])
            for stage, process in dict(cam="near", decode="near", small=middle, out="far").items():
                calls = [(where, about) for span, about, where in spans if span.name == stage]
                self.assertEqual([where for where, _ in calls], [process], stage)
                self.assertEqual([calls[0][1][f"millrace.{name}"] for name in ("source", "stage", "device")],
                                 ["cam", stage, "cpu"])
            self.assertIn("queue of small", [span.name for span, _, _ in spans])
        self.assertEqual(numbers, set(range(50)))

    def test_pictures_that_are_shown_in_another_order(self):
        """A packet's number and its picture's differ: the trace crosses the cut all the same."""
        clip = self.folder / "b.mp4"
        self.checked(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x64:rate=25:duration=1", "-c:v",
                      "libx264", "-bf", "3", clip])
        self.run_to(self.collector.url, "--trace-sample", "1", text=pipeline(
            dict(cam=f"uri: {clip}"), decode="", out='type: "null"', nodes=dict(near="stages: decode",
                                                                                far="stages: out")))
        found = self.traces()
        self.assertEqual(len(found), 25)
        for spans in found.values():
            self.assertEqual({process for _, _, process in spans}, {"near", "far"})

    def test_a_share(self):
        """The run, the source and the number choose the frames: another run of that number has the same ones."""
        chosen = []
        for share in "0.2", "0.2", "0.4":
            collector = self.collect()
            summary, _ = self.run_to(collector.url, "--trace-sample", share, environment={"MILLRACE_RUN": "5"})
            found = self.traces(collector)
            self.assertEqual(summary["spans"], {"ended": sum(map(len, found.values())), "lost": 0})
            chosen.append(set(found))
        self.assertEqual(chosen[0], chosen[1])
        self.assertLess(chosen[1], chosen[2])
        self.assertTrue(10 < len(chosen[0]) < 60, len(chosen[0]))

    def test_dropped_frames_say_why(self):
        """On another node: its span has the reason too."""
        summary, _ = self.run_to(self.collector.url, "--trace-sample", "1", text=pipeline(
            dict(a='uri: "lavfi:testsrc=size=64x48:rate=100:duration=1", realtime: true'),
            devices=dict(slow='device: "sim:0?call=50ms"'), decode="",
            small="type: preprocess, size: 32x32, device: slow, in_flight: 1, queue: {size: 1, when_full: drop-newest}",
            out='type: "null"', nodes=dict(near="stages: decode", far="stages: [small, out]")))
        dropped = {"near": 0, "far": 0}
        for spans in self.traces().values():
            for span, about, process in spans:
                if about.get("millrace.fate") == "dropped":
                    dropped[process] += 1
                    self.assertEqual([about["millrace.reason"], about["millrace.stage"], span.status.code,
                                      span.status.message], ["queue full", "small", 2, "queue full"])
                elif span.name == "small":
                    self.assertEqual(about["millrace.device"], "sim:0")
        frames = sum(line["frames"] for line in summary["ledger"]["dropped"])
        self.assertGreater(frames, 0)
        self.assertEqual(dropped, {"near": frames, "far": frames})

    def test_nowhere_to_go(self):
        self.assertIn("traces have nowhere to go", self.run_to(None, "--trace-sample", "1", code=64)[1])
        self.run_to("off", "--trace-sample", "1")


class Failures(Otlp):
    def test_a_collector_that_is_away(self):
        summary, log = self.run_to(f"http://127.0.0.1:{free_port()}")
        self.assertEqual(summary["ledger"]["in"], 150)
        self.assertEqual(log.count("otlp: "), 1, log)

    def test_a_collector_that_never_answers(self):
        self.collector.answers = [("stuck", {}, b"")] * 9
        summary, log = self.run_to(self.collector.url, "--set", "otlp.timeout=500ms")
        self.assertEqual(summary["ledger"]["in"], 150)

    def test_a_collector_that_has_not_answered_gets_no_long_last_try(self):
        """The first request is broken off, and the others have no answer: the end does not wait for `timeout`."""
        self.collector.answers = [("gone", {}, b"")] + [("stuck", {}, b"")] * 9
        summary, log = self.run_to(self.collector.url, "--set", "otlp.timeout=10m", "--set", "otlp.interval=100ms",
                                   text=SHORT.replace('duration=1"', 'duration=1", realtime: true'))
        self.assertEqual(summary["ledger"]["in"], 150)
        self.assertEqual(log.count("otlp: "), 1, log)

    def test_answers_that_would_hold_up_the_end(self):
        """An answer without an end is broken off. A collector that wants to be asked tomorrow is not waited for."""
        for answer in ("endless", {}, b""), (429, {"Retry-After": "86400"}, b""):
            self.collector.answers = [answer] * 9
            summary, log = self.run_to(self.collector.url, "--set", "otlp.timeout=10m")
            self.assertEqual(summary["ledger"]["in"], 150)
            self.assertEqual(log.count("otlp: "), answer[0] == 429, log)

    def test_busy_then_taken(self):
        self.collector.answers = [(503, {}, b""), (429, {"Retry-After": "1"}, b"")]
        summary, log = self.run_to(self.collector.url, "--set", "otlp.interval=100ms", text=SHORT.replace(
            'duration=1"', 'duration=1", realtime: true'))
        self.assert_as_in_ledger(summary)
        self.assertEqual(log.count("otlp: "), 1, log)

    def test_refused(self):
        """Other answers are final, redirects too; what is rejected in part is said."""
        other = self.collect()
        for answer in (400, {}), (500, {}), (307, {"Location": other.url}):
            self.collector.answers = [(*answer, b"")]
            _, log = self.run_to(self.collector.url)
            self.assertIn(f"answers {answer[0]}", log)
        self.assertEqual((self.collector.requests, other.headers), ([], []))
        part = ExportMetricsServiceResponse()
        part.partial_success.rejected_data_points = 3
        part.partial_success.error_message = "old ones " * 1000  # longer than what is kept of an answer
        self.collector.answers = [(200, {}, part.SerializeToString())]
        _, log = self.run_to(self.collector.url)
        self.assertRegex(log, r"rejects 3 of \d+ data points: old ones")

    def test_tls(self):
        """The certificate's issuer and name are verified."""
        key, pem = self.folder / "key", self.folder / "pem"
        self.checked(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                      "-keyout", key, "-out", pem, "-days", "2", "-subj", "/CN=c", "-addext",
                      "subjectAltName=DNS:localhost"])
        safe = self.collect(certificate=(pem, key))
        url = f"https://localhost:{safe.port}"
        self.run_to(url)
        self.run_to(f"https://127.0.0.1:{safe.port}", "--set", f"otlp.ca_file={pem}")
        self.assertEqual(safe.headers, [])
        summary, _ = self.run_to(url, "--set", f"otlp.ca_file={pem}")
        self.assert_as_in_ledger(summary, safe)

    def test_the_state(self):
        """/metrics and the API say how it stands."""
        self.collector.answers = [(400, {}, b"")] * 1000
        log = self.folder / "log"
        child = self.spawn([MILLRACE, "run", self.write(pipeline(
            dict(a='uri: "lavfi:testsrc=size=64x64:rate=50", realtime: true'), decode="", out='type: "null"')),
            "--http", "127.0.0.1:0", "--set", "http.linger=0s", "--set", "otlp.interval=100ms", "--trace-sample", "1"],
            stderr=log.open("w"), env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT":
                                       self.collector.url.replace("://", "://me:secret@")})
        at = self.wait_until(lambda: re.search(r"http listens at (\S+)/", log.read_text()), log, child)[1]

        def get(path):
            with urllib.request.urlopen(at + path, timeout=TIMEOUT) as answer:
                return answer.read().decode()

        def state():
            return next(one for one in json.loads(get("/api/v1/status"))["otlp"] if one["signal"] == "metrics")

        self.wait_until(lambda: not state()["up"], log, child)
        self.assertRegex(state()["message"], "answers 400")
        self.assertEqual(state()["endpoint"], self.collector.url + "/v1/metrics")
        self.assertNotIn("secret", get("/api/v1/status") + get("/metrics") + log.read_text())
        self.assertEqual(self.collector.headers[-1]["Authorization"],
                         "Basic " + base64.b64encode(b"me:secret").decode())
        self.wait_until(lambda: re.search("^millrace_lost_spans_total [1-9]", get("/metrics"), re.M), log, child)
        self.assertIn('millrace_otlp_up{signal="metrics"} 0\n', get("/metrics"))
        self.collector.answers = []
        self.wait_until(lambda: state()["up"], log, child)
        now = state()
        self.assertIsNone(now["message"])
        self.assertGreater(now["sent"], 0)
        self.assertGreater(now["rejected"], 0)
        self.ended(child, sign=15)
