"""`run --http`: metrics, health and the API, for one process and for nodes, with a real Prometheus, and with clients
that are slow, dead, many or not allowed."""
import concurrent.futures
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import jsonschema
import zmq

import harness
from harness import MILLRACE, ROOT, PATIENT, TIMEOUT, free_port, pipeline, rows_in
from screen import Screen

AT_ONCE = 4

MONITORING = ROOT / "pipelines/monitoring"
# Endless and paced, with two devices; sources can be added.
OPEN = pipeline(dict(max="4", cam='uri: "lavfi:testsrc=size=64x64:rate=50", realtime: true',
                     file='uri: "lavfi:testsrc=size=64x64:rate=50:duration=0.2"'), name="open",
                decode="input: sources.*", small='type: preprocess, size: 32x32, device: ["sim:0", "sim:1"]',
                results='type: jsonl, path: "-"').replace("max: {4}", "max: 4")
NODES = pipeline(dict(cam='uri: "lavfi:testsrc=size=64x64:rate=50", realtime: true'), name="nodes", decode="",
                 small="type: preprocess, size: 32x32", results='type: jsonl, path: "-"',
                 nodes=dict(near="stages: decode", middle="stages: small, replicas: 2", far="stages: results"))
SHORT = pipeline(dict(a='uri: "lavfi:testsrc=size=64x64:rate=100:duration=3", realtime: true',
                      b='uri: "lavfi:testsrc=size=64x64:rate=50:duration=1", realtime: true'), name="short",
                 decode="", results='type: "null"')
TOKEN = "0123456789abcdef-token"


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise unittest.SkipTest(f"no {program} (Debian's package prometheus)")


def samples(text):
    """{name: {labels as a text: value}} of Prometheus's text format."""
    found = {}
    for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.M):
        found.setdefault(name, {})[labels] = float(value)
    return found


def total(text, **labels):
    """The sum of millrace_frames_total over the series with these labels."""
    return sum(value for have, value in samples(text).get("millrace_frames_total", {}).items()
               if all(f'{name}="{label}"' in have for name, label in labels.items()))


class Answer:
    def __init__(self, code, headers, body):
        self.code, self.headers, self.body = code, headers, body

    @property
    def json(self):
        return json.loads(self.body)


class Http(harness.Controlled):
    def start(self, text, *arguments, http="127.0.0.1:0", wait=True):
        """A run that has delivered something, with the server's address."""
        self.out = self.folder / f"out-{len(list(self.folder.iterdir()))}.jsonl"
        self.log = self.folder / f"{self.out.stem}.log"
        child = self.spawn([MILLRACE, "run", self.write(text, f"{self.out.stem}.yaml"), "--json", *PATIENT, *arguments,
                            *(["--http", http] if http else []), *(["--output", self.out] if "jsonl" in text else [])],
                           stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True)
        if http and http.endswith(":0"):
            self.at = self.wait_until(lambda: re.search(r"http listens at (\S+)/", self.log.read_text()), self.log,
                                      child)[1]
        if wait:
            self.wait_until(lambda: self.get("/readyz").code == 200, self.log, child)
        return child

    def get(self, path, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.at + urllib.parse.quote(path, safe="/?=&"), headers=headers,
                                         data=body if body is None else body.encode())
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=getattr(self, "context", None)) as got:
                return Answer(got.status, got.headers, got.read().decode())
        except urllib.error.HTTPError as wrong:
            return Answer(wrong.code, wrong.headers, wrong.read().decode())

    def do(self, what, argument=None, code=200, **more):
        request = {"do": what, **({"argument": argument} if argument else {}), **more}
        answer = self.get("/api/v1/do", json.dumps(request), X_Millrace="1")
        self.assertEqual(answer.code, code, answer.body)
        return answer.json

    def ledger_of(self, child, end=None):
        """The ledger of a run that ends by itself, or by this command; its last numbers are scraped."""
        self.get("/metrics")  # from now on the run waits for a last scrape
        if end:
            self.do(end)
        scraped = self.wait_until(self.final, self.log)
        out, _ = child.communicate(timeout=TIMEOUT)
        self.assertEqual(child.returncode, 0, self.log.read_text())
        return scraped, json.loads(out)["ledger"]

    def final(self):
        """The metrics once the run has ended."""
        processes = self.get("/api/v1/processes").json
        return all(one["state"] in ("ended", "given up") for one in processes) and self.get("/metrics").body

    def assert_as_in_ledger(self, text, ledger):
        gone = {what: sum(line["frames"] for line in ledger[what]) for what in ("dropped", "absorbed")}
        for fate, frames in {"delivered": ledger["delivered"], **gone}.items():
            removed = samples(text)["millrace_removed_sources_frames_total"][f'fate="{fate}"']
            self.assertEqual(total(text, fate=fate) + removed, frames, fate)


class Metrics(Http):
    def test_the_last_scrape_has_the_ledger(self):
        child = self.start(SHORT)
        self.assertEqual(self.get("/metrics").headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        text, ledger = self.ledger_of(child)
        self.assertGreater(ledger["delivered"], 300)
        self.assert_as_in_ledger(text, ledger)
        self.assertEqual(samples(text)["millrace_source_ended"], {'source="a"': 1, 'source="b"': 1})

    def test_promtool_accepts_them(self):
        need("promtool")
        child = self.start(NODES)
        done = subprocess.run(["promtool", "check", "metrics"], input=self.get("/metrics").body, text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        opened = self.get("/metrics", Accept="application/openmetrics-text; version=1.0.0, text/plain;q=0.5")
        self.assertIn("application/openmetrics-text", opened.headers["Content-Type"])
        self.assertTrue(opened.body.endswith("\n# EOF\n"))
        self.assertIn("# TYPE millrace_frames counter\nmillrace_frames_total{", opened.body)
        self.ledger_of(child, "drain")

    def test_the_rules_and_the_dashboard_fit(self):
        need("promtool")
        self.checked(["promtool", "check", "rules", MONITORING / "alerts.yml"])
        self.checked(["promtool", "test", "rules", MONITORING / "alerts-test.yml"])
        child = self.start(OPEN)
        self.wait_until(lambda: total(self.get("/metrics").body))
        names = set(re.findall(r"^# TYPE (\w+)", self.get("/metrics").body, re.M))
        self.ledger_of(child, "stop")
        dashboard = json.loads((MONITORING / "dashboard.json").read_text())
        told = (MONITORING / "alerts.yml").read_text() + "".join(
            target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", []))
        used = {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bmillrace_\w+", told)}
        # Of cuts, nodes and connections there are none here.
        self.assertEqual({name for name in used - names if not re.search("_(node|cut|service)", name)},
                         set())

    def test_a_prometheus_sums_up_the_ledger(self):
        need("prometheus")
        own, port = f"127.0.0.1:{harness.free_port()}", harness.free_port()
        config = self.write("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
                            f"scrape_configs: [{{job_name: m, static_configs: [{{targets: ['{own}']}}]}}]\n", "p.yml")
        self.spawn(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/tsdb",
                    f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def asked(path):
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=TIMEOUT) as got:
                    return json.load(got)["data"]

        # It begins to scrape five seconds after its start.
        self.wait_until(lambda: "connection refused" in str(asked("targets")))
        child = self.start(SHORT, http=own, wait=False)
        ledger = json.loads(child.communicate(timeout=TIMEOUT)[0])["ledger"]
        query = "query?query=" + urllib.parse.quote("sum by (fate) (max_over_time(millrace_frames_total[5m]))")

        def found():
            return {one["metric"]["fate"]: int(one["value"][1]) for one in asked(query)["result"]}

        # Prometheus may store the last scrape after the run has ended.
        self.wait_until(lambda: found() == {"delivered": ledger["delivered"]}, lambda: str(found()))

    def test_removed_sources_take_their_series_along(self):
        child = self.start(OPEN)
        self.wait_until(lambda: samples(self.get("/metrics").body)["millrace_source_ended"].get('source="file"'))
        self.do("add", "more", options={"uri": "lavfi:testsrc=size=64x64:rate=50", "realtime": "true"})
        self.wait_until(lambda: total(self.get("/metrics").body, source="more"))
        self.do("remove", "cam")
        self.wait_until(lambda: not total(self.get("/metrics").body, source="cam"))
        self.assertGreater(total(self.get("/metrics").body, source="file"), 0)
        text, ledger = self.ledger_of(child, "drain")
        self.assertNotIn('source="cam"', text)
        self.assert_as_in_ledger(text, ledger)

    def test_nodes_share_one_port(self):
        child = self.start(NODES)
        names = {one["name"]: one for one in self.get("/api/v1/processes").json}
        self.assertEqual(sorted(names), ["far", "middle.0", "middle.1", "near"])
        os.kill(names["middle.0"]["pid"], signal.SIGKILL)
        self.wait_until(lambda: 'millrace_node_restarts_total{node="middle.0"} 1' in self.get("/metrics").body)
        self.wait_until(lambda: self.get("/readyz").code == 200)
        os.kill(names["near"]["pid"], signal.SIGKILL)
        self.wait_until(lambda: 'millrace_node_restarts_total{node="near"} 1' in self.get("/metrics").body)
        self.wait_until(lambda: self.get("/readyz").code == 200)
        answer = self.do("log", "warning", node="middle")
        self.assertEqual([one["name"] for one in answer["processes"]], ["middle.0", "middle.1"])
        self.assertIn("no node", self.do("log", "warning", node="none", code=400)["error"])
        self.assertIn("does not use", self.do("disable", "sim:7", code=400)["error"])
        # The lines of nodes are there, too. A busy machine restarts the other end later than its silence is seen.
        lost = re.compile(r"warning: middle\.1: decode->middle: near: (connection lost: .+"
                          r"|silent: no heartbeat from it)")
        lines = self.wait_until(lambda: (found := [one["line"] for one in self.get("/api/v1/log").json]) and
                                any(map(lost.fullmatch, found)) and found)
        self.assertIn("warning: node near was ended by signal 9; it is started again in 0.1 s", lines)
        text, ledger = self.ledger_of(child, "drain")
        self.assert_as_in_ledger(text, ledger)
        self.assertIn('millrace_stage_seconds_count{node="far",stage="results"}', text)

    def test_a_node_that_stands_still(self):
        """Reading goes on, and a change has the answers of the others."""
        self.start(NODES)
        pids = {one["name"]: one["pid"] for one in self.get("/api/v1/processes").json}
        self.addCleanup(lambda: [os.kill(pids[name], signal.SIGCONT) for name in ("far", "middle.1")])
        for name in ("far", "middle.1"):
            os.kill(pids[name], signal.SIGSTOP)
        began = time.monotonic()
        self.assertIn("millrace_frames_total", self.get("/metrics").body)
        self.assertEqual(len(self.get("/api/v1/processes").json), 4)
        self.assertLess(time.monotonic() - began, 1)
        answer = self.do("log", "warning")
        self.assertLess(time.monotonic() - began, 4.5)  # not three seconds for each of the two
        self.assertEqual({one["name"]: bool(one["answer"]) for one in answer["processes"]},
                         {"near": True, "middle.0": True, "middle.1": False, "far": False})
        self.assertIn("has not answered for 3 s", self.do("log", "warning", node="far", code=503)["error"])


class Health(Http):
    def test_each_means_what_the_document_says(self):
        text = pipeline(dict(max="2", cam='uri: "lavfi:testsrc=size=64x64:rate=50", realtime: true'), name="health",
                        decode="input: sources.*", results='type: "null"').replace("max: {2}", "max: 2")
        child = self.start(text)
        self.assertEqual([self.get(path).code for path in ("/livez", "/readyz", "/healthz")], [200, 200, 200])
        self.do("add", "broken", options={"uri": "lavfi:nosuchfilter"}, code=422)
        self.get("/metrics")  # the end waits for another one
        self.do("drain")
        self.wait_until(lambda: self.get("/readyz").code == 503)
        self.assertEqual(self.get("/readyz").body, "the run is ending\n")
        self.assertEqual(self.get("/livez").body, "ok\n")
        self.wait_until(self.final, self.log)
        self.assertEqual(child.wait(TIMEOUT), 0, self.log.read_text())

    def test_a_run_that_was_asked_to_end_waits_within_its_grace_time(self):
        runs = []
        for text in (OPEN, NODES):
            runs.append((self.start(text + "http: {linger: 1h}\n", "--grace", "16s"), self.log))
            self.get("/metrics")
        for child, _ in runs:
            child.terminate()
        for child, log in runs:
            child.communicate(timeout=TIMEOUT)
            self.assertEqual(child.returncode, 0, log.read_text())
            self.assertNotIn("are lost", log.read_text())

    def test_a_run_that_has_ended_refuses_changes(self):
        child = self.start(OPEN, "--control", "off")
        self.get("/metrics")
        self.do("drain")
        self.wait_until(lambda: self.get("/api/v1/processes").json[0]["state"] == "ended", self.log, child)
        for what in ("drain", "stop", "status"):
            self.assertIn("has ended", self.do(what, code=503)["error"])
        self.get("/metrics")
        child.communicate(timeout=TIMEOUT)
        self.assertEqual(child.returncode, 0, self.log.read_text())

    def test_a_run_that_waits_for_a_service_is_alive(self):
        """A restart would lose frames, and the service would still be away."""
        text = pipeline(dict(cam='uri: "lavfi:testsrc=size=16x16"'), name="waits", top="http: {stall: 1s, linger: 0s}",
                        decode="", results=f'type: webhook, url: "http://127.0.0.1:{free_port()}/", '
                                           "send_bytes: 4KiB, backlog: 8KiB")
        child = self.start(text, wait=False)
        self.wait_until(lambda: "results is away" in self.get("/healthz").body, self.log, child)
        self.stays_alive(child)
        child.kill()

    def stays_alive(self, child):
        """While frames are in flight and none moves, for longer than `stall`. Returns the ledger."""
        seen, steady = None, time.monotonic()
        while time.monotonic() - steady < 2.5 or not seen["in_flight"]:
            self.assertIsNone(child.poll(), self.log.read_text())
            now = self.get("/api/v1/status").json["ledger"]
            seen, steady = (seen, steady) if now == seen else (now, time.monotonic())
            self.assertEqual(self.get("/livez").body, "ok\n")
            time.sleep(0.2)
        return seen

    def untaken(self):
        return next(row["untaken"] for row in self.get("/api/v1/stages").json if row["id"] == "out")

    def test_a_run_that_waits_for_a_program_is_alive(self):
        """One that has not come, and one that takes no more, even if the source gives no more."""
        for reader in (False, True):
            endpoint = f"ipc://{self.folder}/rows{int(reader)}"
            text = pipeline(dict(max="2", made='type: "null", frames: 20, format: RGB24 640x480'), name="waits",
                            top="http: {stall: 1s, linger: 0s}",
                            out=f'type: zmq.push, input: sources.*, payload: raw, endpoint: "{endpoint}"')
            child = self.start(text.replace("max: {2}", "max: 2"), wait=False)
            with contextlib.ExitStack() as after:
                if reader:
                    context = after.enter_context(zmq.Context())
                    puller = after.enter_context(context.socket(zmq.PULL))
                    puller.rcvhwm = 1
                    puller.connect(endpoint)
                    self.wait_until(lambda: self.get("/api/v1/status").json["ledger"]["delivered"], self.log, child)
                self.wait_until(self.untaken, self.log, child)
                ledger = self.stays_alive(child)
                self.assertGreater(self.untaken(), 0)
                self.assertLessEqual(self.untaken(), ledger["in_flight"])
                self.assertEqual(bool(ledger["delivered"]), reader)
            child.kill()
            child.wait()

    def test_a_run_that_stands_still_is_not_alive(self):
        fifo = self.folder / "rows"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        text = pipeline(dict(cam='uri: "lavfi:testsrc=size=16x16"'), name="still", top="http: {stall: 1s, linger: 0s}",
                        decode="", results=f'type: csv, path: "{fifo}"')
        child = self.start(text)
        self.wait_until(lambda: self.get("/livez").code == 503, self.log, child)
        self.assertIn("none has moved", self.get("/livez").body)
        self.assertEqual(self.get("/readyz").code, 200)
        os.close(reader)
        child.kill()


class Requests(Http):
    def test_changes_and_the_end_do_not_wait_for_taps(self):
        child = self.start(OPEN)
        self.wait_until(lambda: samples(self.get("/metrics").body)["millrace_source_ended"].get('source="file"'))
        tap = json.dumps({"do": "tap", "argument": "file", "options": {"wait": "10"}})  # no frame comes
        with concurrent.futures.ThreadPoolExecutor() as pool:
            taps = [pool.submit(self.get, "/api/v1/do", tap, X_Millrace="1") for _ in range(3)]
            self.assertEqual(concurrent.futures.wait(taps, timeout=0.3).done, set())
            self.do("log", "warning")
            self.assertFalse(all(one.done() for one in taps))
            self.do("stop")
        self.wait_until(self.final, self.log)
        child.communicate(timeout=TIMEOUT)
        self.assertEqual(child.returncode, 0, self.log.read_text())


class OnATerminal(Http):
    def test_log_lines_above_the_progress_are_kept(self):
        text = pipeline(dict(cam='uri: "lavfi:testsrc=size=64x64:rate=50", realtime: true'), decode="",
                        results='type: "null"')
        screen = Screen(self, [MILLRACE, "run", str(self.write(text)), *PATIENT, "--log", "debug", "--http",
                               "127.0.0.1:0"])
        self.wait_until(lambda: screen.read() and re.search(r"frames \d+", screen.text))
        self.at = re.search(r"http listens at (\S+)/", screen.text)[1]
        os.kill(screen.pid, signal.SIGHUP)  # there is no list of sources to read again
        lines = self.wait_until(lambda: [one for one in self.get("/api/v1/log").json
                                         if "sources_from" in one["line"]])
        self.wait_until(lambda: screen.read() and "sources_from" in screen.text)
        self.assertEqual(len(lines), 1)
        os.kill(screen.pid, signal.SIGTERM)
        self.assertEqual(screen.ended(), 0)


class Api(Http):
    def test_it_is_as_described(self):
        child = self.start(OPEN, "--audit", self.folder / "audit.jsonl")
        described = self.get("/api/v1/openapi.json").json
        self.assertEqual(described, json.loads((ROOT / "tools/millrace/http/openapi.json").read_text()))
        routes = re.findall(r'\{\.path = "(/[^"*]*)"', (ROOT / "tools/millrace/http/run_http.c").read_text())
        lists = re.search(r"lists\[\] = \{(.*?)\}", (ROOT / "tools/millrace/http/api.c").read_text())[1]
        routes += [f"/api/v1/{name}" for name in (*re.findall(r'"(\w+)"', lists), "processes")]
        self.assertEqual(sorted(described["paths"]), sorted(set(routes) - {"/api/v1/", "/", "/icon.svg"}))
        for path, methods in described["paths"].items():
            content = methods["get"]["responses"]["200"]["content"] if "get" in methods else {}
            if "application/json" in content:
                answer = self.get(path)
                self.assertEqual(answer.code, 200, path)
                self.assert_fits(answer.json, content["application/json"]["schema"], described)
        answers = [self.do("disable", "sim:1"), self.do("enable", "sim:1"), self.do("log", "info"), self.do("status"),
                   self.do("add", "x", options={"uri": "lavfi:testsrc=size=64x64:duration=1"}),
                   self.do("set", "x", options={"every": "2"}), self.do("remove", "x"),
                   self.do("dance", code=400), self.do("trigger", "cam", code=400), self.do("disable", code=400)]
        for answer in answers:
            self.assert_fits(answer, {"$ref": "#/components/schemas/Answer"}, described)
        self.ledger_of(child, "drain")
        done = [row["do"] for row in rows_in(self.folder / "audit.jsonl") if row["event"] == "control"]
        self.assertEqual(done, ["disable", "enable", "log", "add", "set", "remove", "trigger", "drain"])

    def assert_fits(self, value, schema, described):
        resolver = jsonschema.RefResolver.from_schema(described)
        jsonschema.Draft202012Validator(schema, resolver=resolver).validate(value)

    def test_events_come(self):
        child = self.start(OPEN)
        with urllib.request.urlopen(self.at + "/api/v1/events", timeout=TIMEOUT) as stream:
            kinds, frames = [], []
            while len(frames) < 3:
                line = stream.readline().decode()
                if line.startswith("event: "):
                    kinds.append(line[7:].strip())
                if line.startswith("data: ") and kinds[-1] == "status":
                    frames.append(json.loads(line[6:]))
        self.assertEqual(sorted(one["ledger"]["in"] for one in frames), [one["ledger"]["in"] for one in frames])
        self.assertEqual(frames[-1]["sources"]["all"], 2)
        self.assertLessEqual({"decode", "small", "results"}, {one["id"] for one in frames[-1]["stages"]})
        self.ledger_of(child, "stop")

    def test_results_come(self):
        for text in (OPEN, NODES):
            child = self.start(text)
            for _ in range(2):  # a client may leave, and another one come
                with urllib.request.urlopen(self.at + "/api/v1/results?stage=results", timeout=TIMEOUT) as stream:
                    found = [json.loads(line[6:]) for line in itertools.islice(
                        (line for line in stream if line.startswith(b"data: ")), 3)]
            answers = [next(one["answer"] for one in answer["processes"] if one["answer"]["ok"])
                       if "processes" in answer else answer for answer in found]
            places = [(answer["sample"]["record"]["source"], answer["sample"]["record"]["seq"]) for answer in answers]
            self.assertEqual(len(set(places)), 3, places)
            with urllib.request.urlopen(self.at + "/api/v1/results?stage=none", timeout=TIMEOUT) as stream:
                told = [line for line in stream if line.startswith(b"data: ")]
            self.assertEqual(len(told), 1)
            self.assertIn(b'"ok":false', told[0])
            self.assertEqual(self.get("/api/v1/results").code, 400)
            self.assertEqual(self.do("tap", "results", options={"wait": "5"})["ok"], True)
            self.ledger_of(child, "drain")


class Permission(Http):
    def test_pages_of_other_sites_are_refused(self):
        child = self.start(OPEN)
        self.assertEqual(self.get("/metrics", Host="evil.example").code, 403)
        self.assertEqual(self.get("/api/v1/do", '{"do": "stop"}').code, 403)
        self.assertEqual(self.get("/api/v1/do", '{"do": "stop"}', X_Millrace="1", Origin="http://evil.example").code,
                         403)
        self.assertEqual(self.get("/api/v1/do", "stop", X_Millrace="1").code, 400)
        self.assertEqual(self.get("/api/v1/do").code, 405)
        self.assertIn("default-src 'none'", self.get("/livez").headers["Content-Security-Policy"])
        self.ledger_of(child, "stop")

    def test_one_address_has_one_run(self):
        child = self.start(OPEN)
        host = self.at.removeprefix("http://")
        self.checked([MILLRACE, "run", self.write(SHORT, "other.yaml"), "--http", host], code=69,
                     says=f"{host} is in use")
        self.ledger_of(child, "stop")

    def test_a_unix_socket(self):
        path = self.folder / "http.sock"
        child = self.start(SHORT, "--log", "info", http=f"unix:{path}", wait=False)
        self.wait_until(lambda: "http listens at unix:" in self.log.read_text(), self.log, child)
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(path))
            asking.sendall(b"GET /api/v1/log HTTP/1.1\r\nHost: any\r\n\r\n")
            answer = asking.makefile().read()
        self.assertTrue(answer.startswith("HTTP/1.1 200"), answer)
        self.assertIn(f'"line":"info: http listens at unix:{path}"', answer)
        self.ended(child)
        self.assertFalse(path.exists())

    def test_other_machines_need_a_token_and_tls(self):
        names = {"certificate": "http.crt", "key": "http.key", "token_file": "http.token"}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", "http.key", "-out", "http.crt", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost"], cwd=self.folder, check=True, capture_output=True)
        files = ", ".join(f"{key}: {name}" for key, name in names.items())
        top = "http: {listen: '0.0.0.0:0', linger: 0s, " + files + "}"
        for word, code in ("plan", 66), ("check", 0):  # the token is not there yet
            self.checked([MILLRACE, word, self.write(OPEN.replace("pipeline: open", f"pipeline: open\n{top}"))],
                         code=code, says=["http.token"] if code else ())
        self.write(TOKEN + "\n", "http.token").chmod(0o600)
        child = self.start(OPEN.replace("pipeline: open", f"pipeline: open\n{top}"), http=None, wait=False)
        found = self.wait_until(lambda: re.search(r"listens at https://[^/]+:(\d+)/", self.log.read_text()), self.log,
                                child)
        self.at = f"https://localhost:{found[1]}"
        self.context = ssl.create_default_context(cafile=self.folder / "http.crt")
        self.wait_until(lambda: self.get("/readyz").code == 200, self.log, child)
        self.assertEqual(self.get("/metrics").code, 401)
        self.assertEqual(self.get("/metrics", Authorization="Bearer " + TOKEN[:-1]).code, 401)
        self.assertIn("millrace_frames_total", self.get("/metrics", Authorization=f"Bearer {TOKEN}").body)
        self.assertEqual(self.get(f"/api/v1/log?token={TOKEN}").code, 200)
        self.assertEqual(self.get("/api/v1/do", '{"do": "stop"}', X_Millrace="1").code, 401)
        plain = socket.create_connection(("localhost", int(found[1])))
        plain.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertNotIn(b"200 OK", plain.recv(1000))
        plain.close()
        self.assertEqual(self.get("/api/v1/do", '{"do": "stop"}', X_Millrace="1", Authorization=f"Bearer {TOKEN}").code,
                         200)
        child.wait(timeout=TIMEOUT)
        (self.folder / "http.token").chmod(0o644)
        self.checked([MILLRACE, "run", self.write(SHORT.replace(
            "pipeline: short", f"pipeline: short\n{top}"), "open.yaml")], code=77, says="http.token")


class BadClients(Http):
    def test_none_holds_the_run_up(self):
        child = self.start(OPEN)
        host, port = self.at.removeprefix("http://").split(":")
        clients = []
        for i in range(300):
            client = socket.create_connection((host, int(port)))
            clients.append(client)
            with_host = f"HTTP/1.1\r\nHost: {host}\r\n"
            client.sendall([f"GET /metrics {with_host}", f"GET /api/v1/events {with_host}\r\n",
                            f"POST /api/v1/do {with_host}X-Millrace: 1\r\nContent-Length: 99\r\n\r\n{{",
                            f"GET /api/v1/status {with_host}\r\n", "\0\xff" * 50, ""][i % 6].encode("latin-1"))
        for client in clients[::2]:  # in the midst of it
            client.close()
        before = self.rows()
        self.wait_until(lambda: self.rows() > before + 20, self.log, child)
        for client in clients[1::2]:
            client.close()
        self.assertEqual(self.wait_until(lambda: self.get("/livez"), self.log, child).code, 200)
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            codes = list(pool.map(lambda _: self.get("/metrics").code, range(100)))
        self.assertEqual(set(codes), {200})
        self.wait_until(lambda: len(os.listdir(f"/proc/{child.pid}/fd")) < 60, "descriptors are left")
        text, ledger = self.ledger_of(child, "drain")
        self.assertTrue(ledger["balanced"])
        self.assert_as_in_ledger(text, ledger)

    def rows(self):
        return len(rows_in(self.out))
