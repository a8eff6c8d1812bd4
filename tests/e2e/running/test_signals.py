"""Stopping: Ctrl-C and SIGTERM drain and end with 0 and a complete ledger, a second one ends at once, and
SIGUSR1 reports the state and changes nothing."""
import json
import os
import pathlib
import signal
import subprocess
import time

import numpy as np
import onnx

import harness
from harness import pipeline
from watched import children_of

AT_ONCE = 4

# Endless and paced.
ENDLESS = pipeline(dict(pattern='uri: "lavfi:testsrc=size=160x120:rate=50", realtime: true'), name="endless", decode="",
                   results='type: jsonl, path: "-"')
# As fast as possible, into a pipe that nobody empties; the other file shows that frames are in flight.
STUCK = ENDLESS.replace(", realtime: true", "") + "  others:  {type: jsonl, input: decode, path: OTHERS}\n"
STUCK_NODES = "nodes: {camera: {stages: decode}, center: {stages: [results, others]}}\n"


def full_pipe():
    """The two ends of a full pipe."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, bytes(4096))
    except BlockingIOError:
        os.set_blocking(write, True)
    return read, write


def state_of(pid):
    """The process's state, such as T for one that is stopped."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def cpu_s(child):
    """The processor time that the process has used."""
    fields = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Signals(harness.Case):
    def start(self, text, *arguments, stdout=subprocess.PIPE, grace=harness.PATIENT):
        return self.spawn([harness.MILLRACE, "run", self.write(text), *grace, *arguments], stdout=stdout,
                          stderr=subprocess.PIPE, text=True)

    def wait_for_rows(self, path, rows):
        self.wait_until(lambda: path.exists() and path.read_text().count("\n") >= rows, "no results")

    def test_draining(self):
        for what in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(what.name):
                output = self.folder / f"{what.name}.jsonl"
                child = self.start(ENDLESS, "--output", output, "--json")
                self.wait_for_rows(output, 10)
                out = self.ended(child, what)[0]
                ledger = json.loads(out)["ledger"]
                rows = [json.loads(line) for line in output.read_text().splitlines()]
                self.assertTrue(ledger["balanced"])
                self.assertEqual(ledger["in_flight"], 0)
                self.assertEqual(ledger["delivered"], len(rows))
                self.assertEqual([row["seq"] for row in rows], list(range(len(rows))))

    def assert_early_end(self, text):
        """Asks a run to end as early as possible, even before it has begun."""
        child = self.start(text, "--output", self.folder / "early.jsonl", "--json")
        self.wait_until(lambda: harness.blocks(child.pid, signal.SIGTERM), "signals are not blocked")
        out = self.ended(child, signal.SIGTERM)[0]
        ledger = json.loads(out)["ledger"]
        self.assertTrue(ledger["balanced"])
        self.assertEqual(ledger["in_flight"], 0)

    def test_a_summary_that_nobody_reads_keeps_no_signal_waiting(self):
        read, write = full_pipe()
        self.addCleanup(os.close, read)
        output, told = self.folder / "unread.jsonl", self.folder / "told"
        with open(told, "w") as stdout:
            child = self.spawn([harness.MILLRACE, "run", self.write(ENDLESS), *harness.PATIENT, "--json", "--output",
                                output], stdout=stdout, stderr=write)
        os.close(write)
        self.wait_for_rows(output, 10)
        child.send_signal(signal.SIGUSR1)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(timeout=harness.TIMEOUT), 0)
        self.assertTrue(json.loads(told.read_text())["ledger"]["balanced"])

    def test_signals_before_it_has_begun(self):
        for _ in range(5):
            self.assert_early_end(ENDLESS)

    def test_signals_before_nodes_have_begun(self):
        self.assert_early_end(ENDLESS + STUCK_NODES.replace(", others", ""))

    def test_an_interrupt_of_the_whole_terminal_while_nodes_start(self):
        """Signals that reach node processes before they leave the terminal's group are not for them."""
        for _ in range(3):
            child = self.spawn([harness.MILLRACE, "run", self.write(ENDLESS + STUCK_NODES.replace(", others", "")),
                                *harness.PATIENT, "--output", self.folder / "early.jsonl"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.wait_until(lambda: harness.blocks(child.pid, signal.SIGCHLD), "it does not watch over nodes")
            os.killpg(child.pid, signal.SIGINT)
            self.ended(child)

    def test_a_hangup_while_nodes_start(self):
        """Nodes reopen files when they run; none may be ended."""
        output = self.folder / "early.jsonl"
        child = self.spawn([harness.MILLRACE, "run", self.write(ENDLESS + STUCK_NODES.replace(", others", "")),
                            *harness.PATIENT, "--output", output], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
        self.wait_until(lambda: harness.blocks(child.pid, signal.SIGCHLD), "it does not watch over nodes")
        while not (output.exists() and output.read_text().count("\n") > 3):
            child.send_signal(signal.SIGHUP)
            self.assertIsNone(child.poll())
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        err = child.communicate(timeout=harness.TIMEOUT)[1]
        self.assertEqual((child.returncode, err), (0, ""))

    def test_nodes_that_die_before_they_begin(self):
        """Then the run is asked to end. Only the one that writes is started again: no rows come, and no file is missed.
        On a slow machine both may be started again."""
        for number in range(5):
            output = self.folder / f"rows{number}.jsonl"
            child = self.start(ENDLESS + STUCK_NODES.replace(", others", ""), "--output", output)
            nodes = self.wait_until(lambda: len(found := children_of(child.pid)) == 2 and found, "no nodes", child,
                                    pause=0)
            for node in nodes.values():
                os.kill(node, signal.SIGKILL)
            for _ in nodes:
                self.assertIn("was ended by signal 9; it is started again", child.stderr.readline())
            self.ended(child, signal.SIGTERM)

    def test_a_node_that_was_stopped_when_it_left_the_terminal(self):
        """A stop of the terminal's processes may reach it, and what continues them not."""
        output = self.folder / "rows.jsonl"
        child = self.start(ENDLESS + STUCK_NODES.replace(", others", ""), "--output", output)
        self.wait_for_rows(output, 3)
        node = children_of(child.pid)["center"]
        os.kill(node, signal.SIGSTOP)
        self.wait_until(lambda: state_of(node) == "T", "it does not stop")
        child.send_signal(signal.SIGCONT)
        self.wait_until(lambda: state_of(node) != "T", "it does not go on")
        self.wait_for_rows(output, output.read_text().count("\n") + 3)
        self.ended(child, signal.SIGTERM)

    def test_a_hangup_under_nohup(self):
        """test_rotation covers the other effects."""
        output = self.folder / "kept.jsonl"
        child = self.spawn(["nohup", harness.MILLRACE, "run", self.write(ENDLESS), "--output", output],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for_rows(output, 3)
        child.send_signal(signal.SIGHUP)
        self.wait_for_rows(output, output.read_text().count("\n") + 20)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(timeout=harness.TIMEOUT), 0)

    def test_second_signal(self):
        read, write = full_pipe()
        self.addCleanup(os.close, read)
        others = self.folder / "others.jsonl"
        control = self.folder / "control"
        log = self.folder / "audit.jsonl"
        child = self.start(STUCK.replace("OTHERS", str(others)), "--control", control, "--audit", log, stdout=write)
        os.close(write)
        self.wait_for_rows(others, 1)
        self.assertTrue(control.exists())
        child.send_signal(signal.SIGINT)
        self.wait_until(lambda: any(one["event"] == "signal" for one in harness.rows_in(log)), "it is not taken", child)
        time.sleep(0.6)  # two that come together are one
        # Both wait for a stopped run to continue, and arrive in numerical order: USR1, TERM.
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        for one in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCONT):
            child.send_signal(one)
        self.assertTrue(any("delivered" in line for line in child.stderr))
        child.wait(timeout=harness.TIMEOUT)
        self.assertEqual(child.returncode, 128 + signal.SIGTERM)
        self.assertFalse(control.exists())

    def test_signals_that_come_together(self):
        """Like coreutils' `timeout`, which sends SIGTERM to the run and then to its group; also with nodes."""
        for more in ("", STUCK_NODES.replace(", others", "")):
            output = self.folder / f"rows{len(more)}.jsonl"
            child = self.spawn(["timeout", "--preserve-status", "1h", harness.MILLRACE, "run",
                                self.write(ENDLESS + more), *harness.PATIENT, "--output", output, "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.wait_for_rows(output, 1)
            out, err = self.ended(child, signal.SIGTERM)  # `timeout` then does as when the time is over
            ledger = json.loads(out)["ledger"]
            self.assertEqual((ledger["balanced"], ledger["in_flight"]), (True, 0), err)
            child = self.start(ENDLESS + more, "--output", self.folder / f"more{len(more)}.jsonl", "--json")
            self.wait_until(lambda: harness.blocks(child.pid, signal.SIGTERM), "signals are not blocked")
            # Two of one kind could already be one; these both wait for a stopped run to continue.
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED)
            for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
                child.send_signal(one)
            out, err = self.ended(child)

    def test_what_is_inherited(self):
        """Whoever starts a run may ignore SIGCHLD and block the signals that ask it to end."""
        prepared = ("env", "--ignore-signal=CHLD", "--block-signal=TERM,INT,CHLD", harness.MILLRACE, "run")
        finite = ENDLESS.replace("rate=50", "rate=50:duration=0.5") + STUCK_NODES.replace(", others", "")
        done = harness.call([*prepared, self.write(finite), "--json", "--output", self.folder / "finite.jsonl"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["ledger"]["delivered"], 25, done.stderr)
        for more in ("", STUCK_NODES.replace(", others", "")):
            output = self.folder / f"rows{len(more)}.jsonl"
            child = self.spawn([*prepared, self.write(ENDLESS + more), *harness.PATIENT, "--output", output],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.wait_for_rows(output, 3)
            child.send_signal(signal.SIGTERM)
            self.assertEqual(child.wait(timeout=harness.TIMEOUT), 0)

    def assert_given_up(self, text):
        """A run whose results nobody reads still ends when asked, and reports what it could not write."""
        read, write = full_pipe()
        self.addCleanup(os.close, read)
        others = self.folder / "others.jsonl"
        child = self.start(text.replace("OTHERS", str(others)), "--json", stdout=write, grace=("--grace", "12s"))
        os.close(write)
        self.wait_for_rows(others, 1)
        err = self.ended(child, signal.SIGTERM)[1]
        ledger = json.loads(next(line for line in err.splitlines() if line.startswith("{")))["ledger"]
        self.assertTrue(ledger["balanced"], ledger)
        self.assertEqual((ledger["delivered"], ledger["in_flight"], ledger["absorbed"]), (0, 0, []), ledger)
        self.assertEqual(ledger["in"], sum(line["frames"] for line in ledger["dropped"]), ledger)
        self.assertGreater(ledger["in"], 0)
        self.assertEqual({line["reason"] for line in ledger["dropped"]} - {"stopped", "cancelled"}, set())
        self.assertIn("is still waiting after the run was asked to end: frames in flight are dropped", err)

    def test_results_that_nobody_reads(self):
        self.assert_given_up(STUCK)

    def test_results_of_nodes_that_nobody_reads(self):
        self.assert_given_up(STUCK + STUCK_NODES)

    def test_a_call_that_never_returns(self):
        """A network with an endless loop is abandoned after twice the grace time."""
        made, value = onnx.helper, onnx.numpy_helper.from_array
        tensor = [made.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
                  for name, shape in (("x", [1, 3, 8, 8]), ("y", [1, 192]), ("i", [1, 192]), ("o", [1, 192]))]
        flags = [made.make_tensor_value_info(name, onnx.TensorProto.BOOL, []) for name in ("a", "b")]
        body = made.make_graph([made.make_node("Identity", ["a"], ["b"]), made.make_node("Identity", ["i"], ["o"])],
                               "body", [made.make_tensor_value_info("n", onnx.TensorProto.INT64, []), flags[0],
                                        tensor[2]], [flags[1], tensor[3]])
        nodes = [made.make_node("Constant", [], ["most"], value=value(np.array(2**62, np.int64))),
                 made.make_node("Constant", [], ["go"], value=value(np.array(True))),
                 made.make_node("Flatten", ["x"], ["flat"]),
                 made.make_node("Loop", ["most", "go", "flat"], ["y"], body=body)]
        model = made.make_model(made.make_graph(nodes, "g", tensor[:1], tensor[1:2]), ir_version=8,
                                opset_imports=[made.make_opsetid("", 13)])
        (self.folder / "loop.onnx").write_bytes(model.SerializeToString())
        child = self.start(pipeline(dict(s='uri: "lavfi:testsrc=size=16x16:rate=10:duration=9"'), decode="",
                                    pre="type: preprocess, size: 8x8", infer=f'model: "{self.folder}/loop.onnx"',
                                    out=f'type: jsonl, path: "{self.folder}/out.jsonl"'), 
                           grace=("--grace", "1s"), stdout=subprocess.DEVNULL)
        self.wait_until(lambda: cpu_s(child) > 1, "the network has not begun")
        err = self.ended(child, signal.SIGTERM, code=70)[1]
        self.assertIn("a call of a stage has not returned", err)

    def signals_of(self, text):
        """The audit log's entries about signals, by process, of a run that ends."""
        log, output = self.folder / "audit.jsonl", self.folder / "audited.jsonl"
        child = self.start(text, "--output", output, "--audit", log, stdout=subprocess.DEVNULL)
        self.wait_for_rows(output, 1)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(timeout=harness.TIMEOUT), 0)
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        signals = {one["pid"]: one for one in entries if one["event"] == "signal"}
        self.assertEqual({(one["signal"], one["does"]) for one in signals.values()}, {("SIGTERM", "drains")})
        self.assertEqual({one["user"] for one in signals.values()}, {os.getuid()})
        return {pid: one["sender"] for pid, one in signals.items()}, child.pid

    def test_signals_are_entered_in_the_audit_log(self):
        senders, pid = self.signals_of(ENDLESS)
        self.assertEqual(senders, {pid: os.getpid()})

    def test_signals_to_nodes_are_entered_in_the_audit_log(self):
        """Signals that reach all processes, and signals that the supervisor forwards."""
        senders, pid = self.signals_of(ENDLESS + STUCK_NODES.replace(", others", ""))
        self.assertEqual(senders.pop(pid), os.getpid())
        self.assertEqual(set(senders.values()), {pid})

    def test_summary_so_far(self):
        output = self.folder / "rows.jsonl"
        child = self.start(ENDLESS, "--output", output)
        self.wait_for_rows(output, 10)
        child.send_signal(signal.SIGUSR1)
        seen = output.read_text().count("\n")
        self.wait_for_rows(output, seen + 10)
        out, err = self.ended(child, signal.SIGTERM)
        self.assertIn("delivered", err + out)
