"""`millrace ctl`: asks a run for its state, and changes it, through the control socket."""
import contextlib
import errno
import fcntl
import json
import os
import pathlib
import resource
import signal
import socket
import stat
import subprocess
import time

import harness
from harness import MILLRACE, TIMEOUT, call, pipeline

# Endless, paced, on two devices.
ENDLESS = pipeline(dict(pattern='uri: "lavfi:testsrc=size=160x120:rate=100", realtime: true'), name="endless",
                   decode="", small='type: preprocess, size: 32x32, device: ["sim:0", "sim:1"]',
                   large='type: preprocess, input: decode, size: 64x64, device: "sim:2"',
                   results='type: jsonl, input: [small, large], path: "-"')


NODES = ENDLESS + ("nodes: {near: {stages: decode}, middle: {stages: [small, large], replicas: 2}, "
         "far: {stages: results}}\n")


class Control(harness.Controlled):
    def start(self, *arguments, text=ENDLESS):
        """A run that has delivered something, with what ctl says about it."""
        out = self.folder / f"out-{len(list(self.folder.iterdir()))}.jsonl"
        child = self.spawn([MILLRACE, "run", self.write(text), "--output", out, "--json", *harness.PATIENT, *arguments],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_until(lambda: out.exists() and "\n" in out.read_text(), "no results", child)
        return child

    def start_own(self):
        """A run with a separate control socket."""
        path = self.folder / "own" / "control"
        return path, self.start("--control", path)

    def drain(self, path, child):
        self.ctl("--control", path, "drain")
        return self.end_of(child)

    def status(self, *arguments):
        return json.loads(self.ctl(*arguments, "--json", "status").stdout)

    def shares(self, stage="small"):
        stages = {one["id"]: one for one in self.status()["status"]["stages"]}
        return {share["name"]: share for share in stages[stage]["devices"]}

    def end_of(self, child):
        out = self.ended(child)[0]
        ledger = json.loads(out)["ledger"]
        self.assertTrue(ledger["balanced"])
        self.assertEqual(ledger["in_flight"], 0)
        return ledger

    def test_each_process_of_nodes_is_asked_by_itself(self):
        here = self.runtime / "here"
        child = self.start("--control", here, text=NODES)
        for name, ran in (("near", {"decode"}), ("middle.0", {"small", "large"}), ("middle.1", {"small", "large"}),
                          ("far", {"results"})):
            with self.subTest(name):
                # Results come before all nodes that work have begun.
                self.wait_until(lambda: not call([MILLRACE, "ctl", "--control", f"{here}.{name}", "status"]).returncode)
                stages = {one["id"] for one in self.status("--control", f"{here}.{name}")["status"]["stages"]}
                self.assertEqual(stages & {"decode", "small", "large", "results"}, ran)
        self.ctl("--control", here, "status", code=66)
        self.ended(child, signal.SIGTERM)

    def test_a_device_is_disabled_and_enabled_again(self):
        log = self.folder / "audit.jsonl"
        child = self.start("--audit", log)
        self.wait_until(lambda: self.shares()["sim:1"]["frames"] > 5)
        self.ctl("disable", "sim:1")
        disabled = self.shares()
        self.assertEqual(disabled["sim:1"]["state"], "disabled")
        for _ in range(2):  # at first it may still get a frame that was assigned before
            disabled = self.shares()
            self.wait_until(lambda: self.shares()["sim:0"]["frames"] > disabled["sim:0"]["frames"] + 50)
        self.assertEqual(self.shares()["sim:1"]["frames"], disabled["sim:1"]["frames"])
        self.assertIn("has no other device", self.ctl("disable", "sim:0", code=69).stderr)
        self.assertIn("large (", self.ctl("disable", "sim:2", code=69).stderr)
        self.assertIn("does not use a device \"sim:7\"", self.ctl("enable", "sim:7", code=64).stderr)
        self.ctl("enable", "sim:1")
        self.wait_until(lambda: self.shares()["sim:1"]["frames"] > disabled["sim:1"]["frames"] + 5)
        self.assertEqual(self.shares()["sim:1"]["state"], "works")
        self.ctl("drain")
        ledger = self.end_of(child)
        self.assertEqual(ledger["dropped"], [])
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        changes = [(one["do"], one["argument"], one["status"]) for one in entries if one["event"] == "control"]
        self.assertEqual(changes, [("disable", "sim:1", "ok"), ("disable", "sim:0", "not available"),
                                   ("disable", "sim:2", "not available"), ("enable", "sim:7", "wrong usage"),
                                   ("enable", "sim:1", "ok"), ("drain", None, "ok")])

    def test_what_a_person_sees(self):
        child = self.start()
        told = self.ctl("status").stdout
        self.assertRegex(told, r"^endless: \d+ frames in ")
        self.assertRegex(told, r"\n  small on sim:1: \d+ frames, \d+%")
        self.assertIn("ledger:", told)
        answer = self.status()
        self.assertEqual((answer["millrace"], answer["ok"], answer["pid"]), (1, True, child.pid))
        self.assertEqual(answer["status"]["pipeline"], "endless")
        self.assertEqual(self.ctl("log", "debug").stdout, "")
        self.assertIn("error, warning, info", self.ctl("log", "loud", code=64).stderr)
        self.ctl("stop")
        self.end_of(child)

    def test_two_runs_do_not_meet(self):
        first, second = self.start(), self.start()
        wrong = self.ctl("status", code=64).stderr
        self.assertIn("2 runs can be reached", wrong)
        for child in (first, second):
            self.assertRegex(wrong, rf"\n  {child.pid}  run ")
            self.assertEqual(self.status("--pid", child.pid)["pid"], child.pid)
        self.ctl("--pid", first.pid, "drain")
        self.end_of(first)
        self.assertEqual(self.status()["pid"], second.pid)
        self.ctl("drain")
        self.end_of(second)
        self.assertEqual(list((self.runtime / "millrace").iterdir()), [])
        self.assertIn("no run of yours can be reached", self.ctl("status", code=69).stderr)

    def ask_early(self, do):
        """The answers of a run that is asked twice as soon as it listens; the run then ends."""
        path = self.folder / "own" / "control"
        child = self.spawn([MILLRACE, "run", self.write(ENDLESS), "--output", self.folder / "early.jsonl", "--json",
                            "--control", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def asked():
            with contextlib.suppress(FileNotFoundError, ConnectionError):  # it is not listening yet
                return self.talk(path, b'{"millrace": 1, "do": "%s"}\n' % do.encode() * 2)

        answers = self.wait_until(asked, pause=0)
        self.end_of(child)
        return [answer.get("text") for answer in answers if answer["ok"]]

    def test_asked_to_end_before_it_has_started(self):
        for do in ("drain", "stop"):
            early = 2 * ["the pipeline has not started yet, and ends as soon as it has\n"]
            self.assertTrue(any(self.ask_early(do) == early for _ in range(20)))

    def test_what_a_killed_run_leaves_is_cleaned_up(self):
        path = self.folder / "own" / "control"
        for arguments, sockets in (((), self.runtime / "millrace"), (("--control", path), path.parent)):
            child = self.start(*arguments)
            child.send_signal(signal.SIGKILL)
            child.wait()
            self.assertEqual(len(list(sockets.iterdir())), 1)
        self.assertIn("no run of yours can be reached", self.ctl("status", code=69).stderr)
        self.assertEqual(list((self.runtime / "millrace").iterdir()), [])
        self.assertIn("the run that listened at", self.ctl("--control", path, "status", code=69).stderr)
        child = self.start("--control", path)
        self.assertEqual(self.status("--control", path)["pid"], child.pid)
        self.millrace("run", self.folder / "pipeline.yaml", "--control", path, code=69, says="another run listens")
        self.drain(path, child)
        self.assertEqual(list(path.parent.iterdir()), [])

    def test_a_run_that_begins_is_not_taken_for_a_dead_one(self):
        """A run's socket exists before the run listens; until then the run holds the folder's lock."""
        folder = self.runtime / "millrace"
        folder.mkdir(mode=0o700)
        path, lock = folder / "4711.sock", os.open(folder, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with socket.socket(socket.AF_UNIX) as begins:
            begins.bind(str(path))
            child = self.spawn([MILLRACE, "ctl", "status"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            waits = f"{child.pid} "
            self.wait_until(lambda: child.poll() is not None or any(
                "->" in line and waits in line for line in pathlib.Path("/proc/locks").read_text().splitlines()))
            self.assertIsNone(child.poll())
            self.assertTrue(path.exists())
            begins.listen()
            begins.settimeout(TIMEOUT)
            fcntl.flock(lock, fcntl.LOCK_UN)
            begins.accept()[0].close()
        self.assertTrue(path.exists())

    def test_nobody_else_may_enter(self):
        path, child = self.start_own()
        self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.drain(path, child)
        path.parent.chmod(0o755)
        pipeline = self.folder / "pipeline.yaml"
        for where, code, said in ((path, 77, "open to other users"), (pathlib.Path("/" + "long/" * 30), 64, "too long"),
                                  (self.write("", "file"), 77, ""),
                                  (self.folder / "no/such/folder", 74, "cannot make")):
            done = call([MILLRACE, "run", pipeline, "--control", where])
            if where.name == "file":
                where.parent.chmod(0o700)
                done, code, said = call([MILLRACE, "run", pipeline, "--control", where]), 64, "is not a socket"
            self.assertEqual(done.returncode, code, (where, done.stderr))
            self.assertIn(said, done.stderr)
            self.assertRegex(done.stderr, r"^millrace: error: ")

    def test_where_a_run_listens_by_default(self):
        """A run listens in the first usable folder; `ctl` finds it from another environment."""
        session, user, mine = self.folder / "session", os.geteuid(), self.environment
        session.mkdir(mode=0o700)
        (session / "millrace").mkdir(mode=0o755)  # open to others, so not this one
        default = "/run/millrace" if user == 0 else f"/tmp/millrace-{user}"
        self.environment = {"MILLRACE_CONTROL": "", "XDG_RUNTIME_DIR": str(self.folder / "none")}
        child = self.start()
        folder = default if not os.path.isdir(f"/run/user/{user}") else f"/run/user/{user}/millrace"
        self.assertTrue(os.path.exists(f"{folder}/{child.pid}.sock"))
        self.environment["XDG_RUNTIME_DIR"] = str(session)
        self.assertEqual(self.status("--pid", child.pid)["pid"], child.pid)
        other = self.start()
        self.assertTrue(os.path.exists(f"{folder}/{other.pid}.sock"))
        (session / "millrace").chmod(0o700)
        third = self.start()
        self.assertTrue((session / f"millrace/{third.pid}.sock").exists())
        self.assertEqual(self.status("--pid", other.pid)["pid"], other.pid)
        for one in (child, other, third):
            self.ctl("--pid", one.pid, "drain")
            self.end_of(one)
        self.environment = {**mine, "MILLRACE_CONTROL": "/proc/none"}
        child = self.start()
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=TIMEOUT)
        self.assertIn("`millrace ctl` cannot reach this run: cannot make the folder /proc/none", err)
        self.environment["MILLRACE_CONTROL"] = str(self.folder / ("x" * 108))
        child = self.start()
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=TIMEOUT)
        self.assertIn("`millrace ctl` cannot reach this run: the folder in MILLRACE_CONTROL is too long", err)
        self.assertIn("MILLRACE_CONTROL is too long", self.ctl("status", code=64).stderr)

    def test_it_can_be_off(self):
        child = self.start("--control", "off")
        self.assertFalse((self.runtime / "millrace").exists())
        child.send_signal(signal.SIGTERM)
        self.end_of(child)

    def talk(self, path, *lines):
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(TIMEOUT)
            one.connect(str(path))
            for line in lines:
                one.sendall(line)
            one.shutdown(socket.SHUT_WR)
            got = b""
            while more := one.recv(65536):
                got += more
        return [json.loads(line) for line in got.splitlines()]

    def test_the_protocol(self):
        path, child = self.start_own()
        first, second = self.talk(path, b'{"millrace": 1, "do": "sta', b'tus"}\n{"millrace": 1, "do": "log", ',
                                  b'"argument": "error"}\n')
        self.assertEqual(first["status"]["pipeline"], "endless")
        self.assertEqual(second, {"millrace": 1, "ok": True, "pid": child.pid})
        for line, code in ((b"{\n", 76), (b"[1]\n", 76), (b"\n", 76), (b'{"do": "status"}\n', 76),
                           (b'{"millrace": 2, "do": "status"}\n', 76), (b'{"millrace": 1, "do": "dance"}\n', 64),
                           (b'{"millrace": 1}\n', 64), (b'{"millrace": 1, "do": "drain", "argument": "x"}\n', 64),
                           (b'{"millrace": 1, "do": "disable"}\n', 64), (b'{"millrace": 1, "do": 5}\n', 64)):
            (answer,) = self.talk(path, line)
            self.assertEqual((answer["ok"], answer["exit_code"]), (False, code), (line, answer))
            self.assertTrue(answer["error"])
        # An endless request is not waited for, and silent clients delay nobody.
        silent = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for one in silent:
            one.connect(str(path))
            self.addCleanup(one.close)
        self.assertEqual(self.talk(path, b"x" * 4096), [])
        self.drain(path, child)

    def connect(self, path):
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(TIMEOUT)
        one.connect(str(path))
        self.addCleanup(one.close)
        return one

    def test_a_run_that_stands_still_holds_nobody_up(self):
        """Not even when as many connections wait as the system lets."""
        path, child = self.start_own()
        self.addCleanup(child.send_signal, signal.SIGCONT)
        child.send_signal(signal.SIGSTOP)
        for _ in range(1 << 17):
            with socket.socket(socket.AF_UNIX) as one:
                one.setblocking(False)
                if one.connect_ex(str(path)) == errno.EAGAIN:
                    break
        else:
            self.fail("the system lets any number wait")
        for command in (["ctl", "--control", path, "status"], ["top", "--once", "--control", path]):
            self.millrace(*command, code=75, says="does not answer: thousands of connections wait")
        self.millrace("run", self.folder / "pipeline.yaml", "--output", "-", "--control", path, code=75,
                      says="does not answer")

    def test_no_client_keeps_signals_waiting(self):
        """One client that asks much and reads little; and as many as allowed that read nothing."""
        path, child = self.start_own()
        slow = self.connect(path)
        slow.sendall(140 * b'{"millrace": 1, "do": "status"}\n')
        # The first answers are in flight, and more than the socket can hold. Those after the end are refusals.
        got = slow.recv(8192)
        child.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionResetError):  # it has ended without reading all requests
            while child.poll() is None:
                got += slow.recv(4096)
                time.sleep(0.1)
        self.end_of(child)
        self.assertLess(got.count(b'"ok":true'), 60)

    def test_clients_that_take_nothing_are_let_go(self):
        path, child = self.start_own()
        for _ in range(8):
            self.connect(path).sendall(140 * b'{"millrace": 1, "do": "status"}\n')
        self.wait_until(lambda: call([MILLRACE, "ctl", "--control", path, "status"]).returncode == 0)
        self.drain(path, child)

    def test_answers_are_whole_however_they_are_taken(self):
        path, child = self.start_own()
        one = self.connect(path)
        one.sendall(100 * b'{"millrace": 1, "do": "status"}\n')
        one.shutdown(socket.SHUT_WR)
        got = b""
        while more := one.recv(5000):
            got += more
        answers = [json.loads(line) for line in got.splitlines()]
        self.assertEqual([answer["ok"] for answer in answers], 100 * [True])
        self.drain(path, child)

    def test_without_descriptors_clients_wait(self):
        """Clients wait, and the run does not keep checking for them."""
        path, child = self.start_own()
        used = max(map(int, os.listdir(f"/proc/{child.pid}/fd"))) + 1
        _, most = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
        # A client takes a free descriptor below the highest one.
        free = used - len(os.listdir(f"/proc/{child.pid}/fd"))
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (used, most))
        clients = [self.connect(path) for _ in range(free + 1)]
        thread = next(task for task in pathlib.Path(f"/proc/{child.pid}/task").iterdir()
                      if (task / "comm").read_text() == "mr-signals\n")
        busy_ns = lambda: int((thread / "schedstat").read_text().split()[0])
        before, begin = busy_ns(), time.monotonic_ns()
        time.sleep(1)
        self.assertLess(busy_ns() - before, (time.monotonic_ns() - begin) / 4)
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (most, most))
        clients[-1].sendall(b'{"millrace": 1, "do": "status"}\n')
        self.assertTrue(json.loads(clients[-1].makefile().readline())["ok"])
        for one in clients:
            one.close()
        self.drain(path, child)

    def test_more_clients_than_are_served_at_a_time_are_all_answered(self):
        """The run may cut off clients that have not asked yet; one that asks waits until others are answered."""
        path, child = self.start_own()
        for _ in range(8):
            self.connect(path).sendall(140 * b'{"millrace": 1, "do": "status"}\n')
        asked = [harness.start([MILLRACE, "ctl", "--control", path, "log", "error"], stderr=subprocess.PIPE, text=True)
                 for _ in range(16)]
        for one in asked:
            _, err = one.communicate(timeout=TIMEOUT)
            self.assertEqual((one.returncode, err), (0, ""))
        self.drain(path, child)

    def test_a_request_at_the_end_is_answered(self):
        """No status may say that an existing run "ended without an answer"."""
        path, answers = self.folder / "own" / "control", []
        child = self.start("--control", path)
        self.ctl("--control", path, "drain")
        while child.poll() is None:
            done = call([MILLRACE, "ctl", "--control", path, "status"])
            answers.append((done.returncode, done.stderr))
        self.end_of(child)
        for code, told in answers:
            self.assertIn(code, (0, 66, 69), told)
            if code:
                self.assertRegex(told, "no control socket|has ended")

    def test_a_socket_of_another_user_is_not_asked(self):
        if os.geteuid():
            self.skipTest("only root can make one")
        folder = self.runtime / "millrace"
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        with socket.socket(socket.AF_UNIX) as other:
            # Only who listens counts. That user may have no way through the folders above, where TMPDIR is.
            other.bind(str(folder / "4711.sock"))
            os.chown(folder / "4711.sock", 65534, 65534)
            os.seteuid(65534)
            try:
                other.listen()
            finally:
                os.seteuid(0)
            self.assertIn("no run of yours", self.ctl("status", code=69).stderr)
            self.assertIn("another user", self.ctl("--pid", "4711", "status", code=77).stderr)

    def test_usage(self):
        """Wrong usage is found without a run."""
        for arguments, said in (((), "say what to do"), (("status", "a", "b"), 'takes no argument: unexpected "a"'),
                                (("enable", "sim:0", "sim:1"), 'one command at a time: unexpected "sim:1"'),
                                (("add",), "add takes a source"), (("add", "door", "uri"), "options as KEY=VALUE"),
                                (("statsu",), 'no command "statsu": did you mean "status"?'),
                                (("dance",), "there are status, disable, enable, .*, trigger"),
                                (("--pid", "x", "status"), "--pid takes a number"),
                                (("--pid", "1", "--control", "y", "status"), "either --control or --pid")):
            self.assertRegex(self.ctl(*arguments, code=64).stderr, said)
        told = self.ctl("--control", self.folder / "none", "status", code=66).stderr
        self.assertIn("there is no control socket", told)
        self.assertIn("disable DEVICE", self.ctl("--help").stdout)
