"""`millrace hub`: runs that report, end, die and come back; keys; messages that are no reports; the API; the page."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

import jsonschema
import zmq

import browser
import harness
import relay
from harness import MILLRACE, PATIENT, ROOT, TIMEOUT, pipeline, rows_in

OPEN = pipeline(dict(cam='uri: "lavfi:testsrc=size=64x64:rate=50", realtime: true'), name="open", decode="",
                small='type: preprocess, size: 32x32, device: ["sim:0"]', results='type: "null"')
NODES = pipeline(dict(cam='uri: "lavfi:testsrc=size=64x64:rate=50", realtime: true'), name="nodes", decode="",
                 small="type: preprocess, size: 32x32", results='type: "null"',
                 nodes=dict(near="stages: decode", middle="stages: small, replicas: 2", far="stages: results"))
SHORT = pipeline(dict(cam='uri: "lavfi:testsrc=size=64x64:rate=50:duration=1", realtime: true'), name="short",
                 decode="", results='type: "null"')
AT_ONCE = 4
TOKEN = "0123456789abcdef-token"


def messages():
    """proto/hub.proto in Python."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"-I{ROOT}/proto", f"--python_out={folder}", "hub.proto"], check=True)
        sys.path.insert(0, folder)
        import hub_pb2
        sys.path.remove(folder)
    return hub_pb2


def on_host(name):
    """Words before a command, with which it sees another name of the machine, and that name."""
    words = ["unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$@"', "sh"]
    may = subprocess.run([*words, "true"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    return (words, name) if may else ([], socket.gethostname())


class Hub(harness.Controlled):
    def start_hub(self, *arguments, listen="tcp://127.0.0.1:*", http="127.0.0.1:0", prefix=()):
        self.log = self.folder / f"hub-{len(list(self.folder.iterdir()))}.log"
        child = self.spawn([*prefix, MILLRACE, "hub", "--listen", listen, "--http", http, *arguments],
                           stderr=self.log.open("w"))
        found = self.wait_until(lambda: re.search(r"http listens at (\S+)/\n(?:.*\n)*.*hub listens at (\S+)",
                                                  self.log.read_text()), self.log, child)
        self.at, self.endpoint = found[1], found[2]
        return child

    def start_run(self, text, *arguments, hub=True, prefix=()):
        name = f"run-{len(list(self.folder.iterdir()))}"
        self.run_log = self.folder / f"{name}.log"
        return self.spawn([*prefix, MILLRACE, "run", self.write(text, f"{name}.yaml"), "--json", *PATIENT, *arguments,
                           *(["--hub", self.endpoint] if hub else [])], stdout=subprocess.PIPE,
                          stderr=self.run_log.open("w"), text=True)

    def get(self, path, code=200, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.at + path, headers=headers, data=body)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as got:
                found, text = got.status, got.read().decode()
        except urllib.error.HTTPError as wrong:
            found, text = wrong.code, wrong.read().decode()
        self.assertEqual(found, code, text)
        return json.loads(text) if path.startswith("/api") and code == 200 else text

    def states(self):
        return sorted(run["state"] for run in self.get("/api/v1/runs"))

    def wait_for(self, *states):
        return self.wait_until(lambda: self.states() == sorted(states) and self.get("/api/v1/runs"),
                               lambda: self.get("/api/v1/runs"))

    def reporters(self, count=1):
        """Sockets that report what a test makes up."""
        context = zmq.Context()
        self.addCleanup(context.destroy, linger=0)
        made = [context.socket(zmq.PUSH) for _ in range(count)]
        for one in made:
            one.connect(self.endpoint)
        return made


class Runs(Hub):
    def test_from_the_start_to_the_end(self):
        there, host = on_host("millrace-box")
        self.start_hub("--lost", "3s", listen="tcp://127.0.0.2:*")
        run, nodes = self.start_run(OPEN, "--http", "127.0.0.1:0", prefix=there), self.start_run(NODES)
        self.wait_until(lambda: len(self.get("/api/v1/runs")) == 2 and
                        all(run["delivered_per_s"] > 20 for run in self.get("/api/v1/runs")), self.log)
        found = {one["pipeline"]: self.get("/api/v1/runs/" + one["id"]) for one in self.get("/api/v1/runs")}
        one, many = found["open"], found["nodes"]
        self.assertEqual((one["host"], many["host"]), (host, socket.gethostname()))
        self.assertEqual((one["state"], one["well"], one["why"], one["node"]), ("runs", True, None, None))
        self.assertEqual(one["sources"], {"all": 1, "up": 1, "failed": 0})
        self.assertEqual([device["name"] for device in one["devices"]], ["sim:0"])
        self.assertGreater(one["devices"][0]["bytes"], 0)
        self.assertEqual(sorted(process["name"] for process in many["processes"]),
                         ["far", "middle.0", "middle.1", "near"])
        self.assertIsNone(many["page"])
        with urllib.request.urlopen(one["page"] + "api/v1/status", timeout=TIMEOUT) as page:
            self.assertEqual(json.load(page)["pipeline"], "open")
        # A process that dies is started again, which the hub shows.
        os.kill(next(process["pid"] for process in many["processes"] if process["name"] == "middle.0"),
                signal.SIGKILL)
        self.wait_until(lambda: [process["restarts"] for process in
                                 self.get("/api/v1/runs/" + many["id"])["processes"]].count(1) == 1, self.log)
        # One is killed, and one ends by itself.
        run.kill()
        nodes.terminate()
        self.assertEqual(nodes.wait(TIMEOUT), 0)
        self.wait_for("ended", "lost")
        status = self.get("/api/v1/status")
        self.assertEqual((status["runs"]["lost"], status["runs"]["ended"], status["runs"]["failed"]), (1, 1, 0))
        ended = self.get("/api/v1/runs/" + many["id"])
        ledger = ended["ledger"]
        self.assertEqual(ledger["in"], ledger["delivered"] + ledger["dropped"] + ledger["absorbed"])
        self.assertEqual(ended["exit_code"], 0)

    def test_an_exit_code_and_two_runs_of_one_name(self):
        self.start_hub()
        children = [self.start_run(SHORT), self.start_run(SHORT.replace('"null"', "jsonl, path: /dev/full"))]
        codes = [child.wait(TIMEOUT) for child in children]
        self.assertEqual(codes[0], 0)
        self.assertNotEqual(codes[1], 0)
        runs = self.wait_for("ended", "ended")
        self.assertEqual({run["pid"]: run["exit_code"] for run in runs},
                         {child.pid: code for child, code in zip(children, codes)})
        done = next(run for run in runs if run["exit_code"] == 0)
        self.assertEqual((done["pipeline"], done["ledger"]["delivered"]), ("short", 50))

    def test_a_hub_that_stands_still_ends_and_starts_again(self):
        hub = self.start_hub(listen=f"tcp://127.0.0.1:{harness.free_port()}")
        child = self.start_run(OPEN, "--log", "info")
        first = self.wait_for("runs")[0]
        hub.send_signal(signal.SIGSTOP)
        before = self.progress(child)
        self.wait_until(lambda: self.progress(child) > before + 100, self.run_log, child)
        hub.kill()
        hub.wait()
        self.wait_until(lambda: "is not connected" in self.run_log.read_text(), self.run_log, child)
        before = self.progress(child)
        self.wait_until(lambda: self.progress(child) > before + 100, self.run_log, child)
        self.start_hub(listen=self.endpoint)
        again = self.wait_for("runs")[0]
        self.assertEqual((first["id"], first["pid"]), (again["id"], again["pid"]))
        self.assertGreater(again["ledger"]["delivered"], first["ledger"]["delivered"])
        # A hub that stands still when the run ends delays the end by half a second at most.
        child.terminate()
        self.assertEqual(child.wait(TIMEOUT), 0)
        self.wait_for("ended")

    def progress(self, child):
        return json.loads(self.ctl("--json", "status").stdout)["status"]["ledger"]["delivered"]

    def test_without_a_hub(self):
        self.endpoint = f"tcp://127.0.0.1:{harness.free_port()}"
        child = self.start_run(SHORT)
        self.assertEqual(child.wait(TIMEOUT), 0, self.run_log.read_text())
        self.assertEqual(json.load(child.stdout)["ledger"]["delivered"], 50)

    def test_digests_and_resumed_runs_do_not_depend_on_it(self):
        plain, told = (json.loads(self.millrace("plan", "--json", self.write(text)).stdout)["digest"] for text in
                       (OPEN, OPEN + "hub: {endpoint: ipc:///run/millrace/none}\n"))
        self.assertEqual(plain, told)


class Keys(Hub):
    def setUp(self):
        super().setUp()
        for name in ("hub", "run", "other"):
            self.millrace("keygen", name, "--output", self.folder)

    def keyed(self, name):
        return OPEN + f"hub: {{key: {self.folder}/{name}.key, server: {self.folder}/hub.pub}}\n"

    def test_only_known_runs_are_shown(self):
        audit = self.folder / "audit.jsonl"
        self.start_hub("--key", self.folder / "hub.key", "--allow", self.folder / "run.pub", "--audit", audit,
                       listen="tcp://0.0.0.0:*")
        self.endpoint = self.endpoint.replace("0.0.0.0", "127.0.0.1")
        stranger, bare, known = (self.start_run(text) for text in (self.keyed("other"), OPEN, self.keyed("run")))
        self.wait_until(lambda: self.get("/api/v1/status")["refused"] > 1, self.log)
        self.assertEqual([run["pid"] for run in self.wait_for("runs")], [known.pid])
        for child in (stranger, bare, known):
            child.terminate()
            self.assertEqual(child.wait(TIMEOUT), 0)
        self.assertEqual(self.wait_for("ended")[0]["pid"], known.pid)
        events = {row["event"] for row in rows_in(audit)}
        self.assertLessEqual({"peer accepted", "peer refused"}, events)

    def test_a_run_is_allowed_later(self):
        allowed = self.folder / "runs.allow"
        allowed.write_text((self.folder / "run.pub").read_text())
        hub = self.start_hub("--key", self.folder / "hub.key", "--allow", allowed)
        later = self.start_run(self.keyed("other"))
        key = re.search('public-key = "(.*)"', (self.folder / "other.pub").read_text()).group(1)
        self.wait_until(lambda: f"key not allowed: {key}" in self.log.read_text(), self.log)
        allowed.write_text("")
        hub.send_signal(signal.SIGHUP)
        self.wait_until(lambda: "continues with the keys that it had" in self.log.read_text(), self.log)
        allowed.write_text("".join((self.folder / f"{name}.pub").read_text() for name in ("run", "other")))
        hub.send_signal(signal.SIGHUP)
        self.assertEqual([run["pid"] for run in self.wait_for("runs")], [later.pid])

    def test_what_is_refused(self):
        def refused(code, says, *arguments):
            self.millrace("hub", *arguments, code=code, says=says)

        refused(78, "can be reached from other machines", "--listen", "tcp://0.0.0.0:9200")
        refused(78, "needs a `key`", "--allow", self.folder / "run.pub")
        refused(66, "none.key", "--listen", "tcp://0.0.0.0:9200", "--key", self.folder / "none.key", "--allow",
                self.folder / "run.pub")
        refused(64, "--http: 0.0.0.0:9201 is reached from other machines", "--http", "0.0.0.0:9201")
        refused(64, "add --token, --certificate and --certificate-key", "--http", "0.0.0.0:9201")
        refused(64, "--listen tcp://HOST:PORT says where", "--port", "9200")
        refused(64, "--certificate-key: without", "--certificate-key", "x")
        refused(64, "takes a duration", "--lost", "0s")
        refused(64, "takes no", "pipeline.yaml")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            refused(69, f"{port} is in use by another program", "--listen", f"tcp://127.0.0.1:{port}")
            refused(69, "in use by another program or stage: choose another port, or port 0", "--listen",
                    "tcp://127.0.0.1:*", "--http", f"127.0.0.1:{port}")
        self.endpoint = "tcp://127.0.0.1:9200"
        child = self.start_run(self.keyed("none"))
        self.assertEqual(child.wait(TIMEOUT), 66)
        self.assertIn("none.key", self.run_log.read_text())


class Messages(Hub):
    def test_what_is_no_report_is_counted_and_ignored(self):
        hub_pb2 = messages()
        hub = self.start_hub("--most", "3")
        good = hub_pb2.Report(version=1, id=5, host="box", pipeline="lobby")
        wrong = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 1000, bytes(30000), good.SerializeToString()[:-3] + b"\xff",
                 hub_pb2.Report(version=1, id=6, host="x" * 500).SerializeToString(),
                 hub_pb2.Report(version=1, id=6, host="\x1b[2J").SerializeToString(),
                 hub_pb2.Report(version=1, id=6, page="javascript:alert(1)").SerializeToString(),
                 hub_pb2.Report(version=1, id=6, processes=[hub_pb2.Process()] * 65).SerializeToString(),
                 hub_pb2.Report(version=9, id=6).SerializeToString()]
        sender, = self.reporters()
        for message in wrong:
            sender.send(message)
        sender.send_multipart([good.SerializeToString()] * 3)
        sender.send(good.SerializeToString())
        self.wait_for("runs")
        status = self.get("/api/v1/status")
        self.assertEqual(status["messages"], {"taken": 1, "malformed": len(wrong), "stale": 0, "full": 0})
        # A message that is too long ends the connection, which the sender makes again.
        sender.send(bytes(100000))
        other, = self.reporters()
        for number in range(6, 10):
            other.send(hub_pb2.Report(version=1, id=number, host="box", pipeline="lobby").SerializeToString())
        self.wait_until(lambda: self.get("/api/v1/status")["messages"]["full"] == 2, self.log)
        self.assertEqual(len(self.get("/api/v1/runs")), 3)
        # Programs that speak no ZeroMQ, and such that say nothing.
        port = int(self.endpoint.rsplit(":", 1)[1])
        strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for one in strangers[::2]:
            one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        last = hub_pb2.Report(version=1, id=5, host="box", pipeline="lobby", elapsed_ns=1,
                              state=hub_pb2.ENDED, exit_code=70)
        other.send(last.SerializeToString())
        self.wait_for("ended", "runs", "runs")
        for one in strangers:
            one.close()
        self.ended(hub, signal.SIGTERM)
        self.assertIn("a message was ignored", self.log.read_text())

    def test_it_is_as_described(self):
        self.start_hub()
        described = self.get("/api/v1/openapi.json")
        source = (ROOT / "tools/millrace/hub/hub_http.c").read_text()
        routes = {path.replace("*", "{id}") for path in re.findall(r'\.path = "(/[^"]*)"', source)}
        self.assertEqual(set(described["paths"]), routes - {"/", "/icon.svg"})
        self.start_run(NODES)
        run = self.wait_until(lambda: self.get("/api/v1/runs"), self.log)[0]
        for path, methods in described["paths"].items():
            content = methods["get"]["responses"]["200"].get("content", {})
            if "application/json" in content:
                answer = self.get(path.replace("{id}", run["id"]))
                jsonschema.Draft202012Validator({**content["application/json"]["schema"],
                                                 "components": described["components"]}).validate(answer)
        self.get("/api/v1/runs/" + "0" * 16, 404)
        self.get("/api/v1/runs/x", 404)
        self.get("/api/v1/runs", 405, body=b"{}", X_Millrace="1")
        for path in ("/livez", "/readyz", "/healthz"):
            self.assertEqual(self.get(path), "ok\n")
        self.assertIn('millrace_hub_runs{state="runs"} 1\n', self.get("/metrics"))
        self.assertIn("# EOF", self.get("/metrics", Accept="application/openmetrics-text"))
        self.get("/api/v1/runs", 403, Host="evil.example.com")
        with urllib.request.urlopen(self.at + "/api/v1/events", timeout=TIMEOUT) as stream:
            times = [json.loads(line[6:])["time"] for line in (stream.readline() for _ in range(7))
                     if line.startswith(b"data: ")]
        self.assertEqual(len(set(times)), 2)

    def test_a_token_is_asked_for(self):
        token = self.folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        self.start_hub("--token", token)
        self.get("/api/v1/runs", 401)
        self.get("/", 401)
        self.get("/livez")
        self.get("/api/v1/runs?token=" + TOKEN)
        self.get("/api/v1/runs", Authorization="Bearer " + TOKEN)


def make_up(hub_pb2, count, hosts):
    """Reports of runs that do not exist: of each ten one is not well, one drains, and one has failed."""
    for number in range(count):
        kind = number % 10
        yield hub_pb2.Report(
            version=1, id=number + 1, host=f"box{number % hosts:02d}", pipeline=f"pipeline-{number % 25}",
            digest="d" * 64, pid=1000 + number, program="0.1.0",
            page=f"https://box{number % hosts:02d}.example.com:{9100 + kind}/",
            state=hub_pb2.DRAINS if kind == 1 else hub_pb2.ENDED if kind == 2 else hub_pb2.RUNS,
            exit_code=70 if kind == 2 else 0, well=kind != 0, why="" if kind else f"the source cam{number} is away",
            elapsed_ns=10 ** 9 * (100 + number), cpu_ns=10 ** 9 * number, delivered=25 * number, dropped=number,
            **{"in": 26 * number}, sources=4, sources_up=4 if kind else 3,
            processes=[hub_pb2.Process(state="runs", pid=1000 + number)],
            devices=[hub_pb2.Device(name=f"cuda:{number % 4}", state="works", bytes=10 ** 8 * (number % 7 + 1),
                                    busy_ns=number * 10 ** 8, frames=number)])


class Many(Hub):
    def test_two_hundred_runs(self):
        hub_pb2 = messages()
        self.start_hub()
        senders = self.reporters(200)
        for sender, report in zip(senders, make_up(hub_pb2, 200, 20)):
            sender.send(report.SerializeToString())
        self.wait_until(lambda: len(self.get("/api/v1/runs")) == 200 and
                        self.get("/api/v1/status")["peers"] == 200, self.log)
        status = self.get("/api/v1/status")
        self.assertEqual(status["runs"], {"runs": 160, "drains": 20, "ended": 20, "lost": 0, "failed": 20,
                                          "unwell": 20})
        self.assertEqual(len({run["host"] for run in self.get("/api/v1/runs")}), 20)


@unittest.skipUnless(browser.PROGRAM, "needs chromium")
class Page(Hub):
    def setUp(self):
        super().setUp()
        self.browser = browser.Browser(self.folder)
        self.addCleanup(self.browser.close)

    def shot(self, name):
        """For people who look at them: MILLRACE_SCREENSHOTS names a folder."""
        if os.environ.get("MILLRACE_SCREENSHOTS"):
            self.browser.screenshot(os.path.join(os.environ["MILLRACE_SCREENSHOTS"], name + ".png"))

    def texts(self, selector):
        return self.browser.run(f"[...document.querySelectorAll({selector!r})].map(one => one.textContent)")

    def choose(self, name, value):
        self.browser.run(f"(one => {{ one.value = {value!r}; one.dispatchEvent(new Event('change')); "
                         f"one.dispatchEvent(new Event('input')); }})(document.querySelector('#{name}'))")

    def test_runs_are_seen(self):
        hub_pb2 = messages()
        self.start_hub("--lost", "1h")
        child = self.start_run(OPEN, "--http", "127.0.0.1:0")
        sender, = self.reporters()
        for report in make_up(hub_pb2, 12, 3):
            sender.send(report.SerializeToString())
        page = self.browser
        page.open(self.at + "/")
        page.until("document.querySelectorAll('#groups > details').length", lambda count: count == 4)
        page.until("document.querySelector('#rate').textContent", lambda text: text and float(text.split()[0]) > 0)
        self.assertIn("12 run, 2 not well, 0 lost, 1 ended (1 failed)", self.texts("#health")[0])
        rows = self.texts("#groups tbody tr")
        self.assertEqual(len(rows), 13)
        self.assertTrue(any("the source cam10 is away" in row for row in rows), rows)
        links = page.run("[...document.querySelectorAll('#groups a')].map(one => one.href)")
        self.assertIn(self.wait_until(lambda: [run["page"] for run in self.get("/api/v1/runs")
                                               if run["pid"] == child.pid][0]), links)
        self.assertIn("https://box01.example.com:9101/", links)
        self.shot("hub")
        # By pipeline, by device, and one run alone, with the keyboard.
        self.choose("by", "pipeline")
        self.assertIn("open", self.texts("#groups summary b"))
        self.choose("by", "device")
        self.assertIn("cuda:1 of box01", self.texts("#groups summary b"))
        self.choose("which", "trouble")
        self.assertEqual(len(self.texts("#groups tbody tr")), 3)
        self.choose("which", "all")
        self.choose("find", "open")
        page.until("document.querySelectorAll('#groups tbody tr').length", lambda count: count == 1)
        page.run("document.querySelector('#groups .name').click()")
        page.until("document.querySelector('#h-look').textContent", lambda text: text.startswith("open on "))
        self.assertTrue(any("sim:0" in row for row in self.texts("#seen tr")), self.texts("#seen tr"))
        self.assertEqual(page.run("document.activeElement.id"), "close")
        self.shot("hub-run")
        self.assertEqual(page.barriers(), [])
        page.run("document.querySelector('#close').click()")
        self.assertTrue(page.run("document.querySelector('#look').hidden"))
        # Rows stay the same elements, so the focus stays where it is.
        page.run("document.querySelector('#groups .name').focus()")
        before = self.get("/api/v1/status")["version"]
        self.wait_until(lambda: self.get("/api/v1/status")["version"] > before + 1)
        page.run("new Promise(done => setTimeout(done, 2500))")
        self.assertEqual(page.run("document.activeElement.textContent"), "open")
        # A narrow screen needs no sideways scrolling of the page itself; dark, if the reader wants that.
        self.choose("find", "")
        self.choose("by", "host")
        page.size(390, 800)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 390)
        self.shot("hub-phone")
        self.assertEqual(page.barriers(), [])
        page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.assertNotEqual(page.run("getComputedStyle(document.querySelector('header')).backgroundColor"),
                            "rgb(255, 255, 255)")
        page.size(1300, 1000)
        self.shot("hub-dark")
        self.assertEqual(page.barriers(), [])
        self.assertEqual(page.messages, [])

    def test_connections_that_are_lost(self):
        self.start_hub()
        between, page = relay.Relay(self, int(self.at.rsplit(":", 1)[1])), self.browser
        health = "document.querySelector('#health').textContent"
        page.open(between.address + "/")
        for happens in (between.lose, between.refuse):
            page.until(health, lambda text: "ended" in text)
            happens()
            page.until(health, lambda text: text == "not connected to the hub")
            between.pass_on()
        page.until(health, lambda text: "ended" in text)

    def test_a_thousand_runs(self):
        hub_pb2 = messages()
        self.start_hub("--lost", "1h")
        sender, = self.reporters()
        for report in make_up(hub_pb2, 1000, 40):
            sender.send(report.SerializeToString())
        self.wait_until(lambda: len(self.get("/api/v1/runs")) == 1000, self.log)
        page = self.browser
        page.open(self.at + "/")
        page.until("document.querySelectorAll('#groups > details').length", lambda count: count == 40)
        self.assertEqual(self.texts("#groups tbody tr"), [])  # groups are closed
        page.run("document.querySelector('#groups details').open = true")
        page.until("document.querySelectorAll('#groups tbody tr').length", lambda count: count == 25)
        self.shot("hub-thousand")
        self.choose("by", "pipeline")
        page.until("document.querySelectorAll('#groups > details').length", lambda count: count == 25)
        page.run("document.querySelectorAll('#groups details').forEach(one => one.open = true)")
        page.until("document.querySelectorAll('#groups tbody tr').length", lambda count: count == 220)  # 200, 20 "more"
        self.choose("find", "cam770")
        self.choose("find", "pipeline-20")
        page.until("document.querySelectorAll('#groups > details').length", lambda count: count == 1)
        took = page.run("(start => { document.querySelector('#find').dispatchEvent(new Event('input')); "
                        "return performance.now() - start; })(performance.now())")
        self.assertLess(took, 1000)
