"""run --trace: the file agrees with the summary, shows copies that overlap work, and is readable whatever happens to
the run."""
import json
import os
import signal
import subprocess
import time

import harness
from harness import pipeline

PIPELINE = pipeline(dict(lobby='uri: "lavfi:testsrc=size=320x240:duration=%s"'), name="shrink", decode="",
                    small='type: preprocess, size: 64x64, device: "sim:0?copy=400MB/s&compute=400MB/s"',
                    done='type: "null"')


class Trace:
    def __init__(self, path):
        whole = json.loads(path.read_text())
        self.events = whole["traceEvents"]
        self.lost = whole["otherData"]["events_lost"]
        self.groups, self.rows = {}, {}
        for event in self.events:
            if event["name"] == "process_name":
                self.groups[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                self.rows[event["tid"]] = event["args"]["name"]

    def spans(self, group, row=None):
        return [event for event in self.events if event["ph"] == "X" and self.groups[event["pid"]] == group
                and (row is None or self.rows[event["tid"]] == row)]


class TraceTest(harness.Case):
    def test_agrees_with_the_summary(self):
        path = self.folder / "trace.json"
        run = self.run_pipeline(self.write(PIPELINE % 4), "--trace", path, rows=False)
        trace = Trace(path)
        self.assertEqual(trace.lost, 0)
        for stage in run.summary["stages"]:
            calls = [event for event in trace.spans("shrink") if event["name"] == stage["id"]]
            self.assertEqual(len(calls), stage["calls"], stage["id"])
            # The summary prints six digits.
            self.assertAlmostEqual(sum(event["dur"] for event in calls) * 1e-6 / stage["busy_s"], 1, delta=1e-5)
        for row in ("upload", "compute", "download"):
            self.assertEqual(len(trace.spans("sim:0", row)), 100)
        self.assertEqual({event["args"]["bytes"] for event in trace.spans("sim:0", "upload")}, {320 * 240 * 3})

    def test_spans_of_a_row_do_not_overlap(self):
        path = self.folder / "trace.json"
        self.run_pipeline(self.write(PIPELINE % 4), "--trace", path, rows=False)
        trace = Trace(path)
        ends = {}
        for event in sorted((event for event in trace.events if event["ph"] == "X"), key=lambda event: event["ts"]):
            self.assertGreaterEqual(event["ts"], ends.get(event["tid"], 0) - 0.0005)
            ends[event["tid"]] = event["ts"] + event["dur"]

    def test_arrows_lead_from_source_to_sink(self):
        path = self.folder / "trace.json"
        self.run_pipeline(self.write(PIPELINE % 1), "--trace", path, rows=False)
        ways = {}
        for event in Trace(path).events:
            if event["ph"] in "stf":
                ways.setdefault(event["id"], []).append((event["ts"], "stf".index(event["ph"])))
        self.assertEqual(len(ways), 25)
        for steps in ways.values():
            # lobby, decode, a copy, small, a copy, done
            self.assertEqual("".join("stf"[phase] for _, phase in sorted(steps)), "sttttf")

    def test_drops_are_those_of_the_ledger(self):
        path = self.folder / "trace.json"
        text = pipeline(dict(fast='type: "null", frames: 20000'),
                        full='type: "null", queue: {size: 1, when_full: drop-newest}', done='type: "null"')
        run = self.run_pipeline(text, "--trace", path, "--workers", 2, rows=False)
        trace = Trace(path)
        drops = [event for event in trace.events if event["ph"] == "i"]
        dropped = sum(line["frames"] for line in run.ledger["dropped"])
        self.assertLessEqual(len(drops), dropped)
        self.assertGreaterEqual(len(drops) + trace.lost, dropped)
        self.assertEqual({(event["name"], event["args"]["stage"]) for event in drops} - {("queue full", "full")}, set())

    def test_a_killed_run_leaves_a_trace(self):
        path = self.folder / "trace.json"
        pipeline = self.write(PIPELINE % 3600)
        child = subprocess.Popen([harness.MILLRACE, "run", pipeline, "--trace", path], stdout=subprocess.DEVNULL)
        end = time.monotonic() + harness.TIMEOUT
        while time.monotonic() < end and not (path.exists() and path.stat().st_size > 10000):
            time.sleep(0.1)
        # A stopped process has finished the current write, which the system would interrupt in a killed one.
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        child.send_signal(signal.SIGKILL)
        child.wait()
        self.assertGreater(len(Trace(path).spans("shrink")), 10)

    def test_files_that_cannot_be_written(self):
        pipeline = self.write(PIPELINE % 1)
        run = self.run_pipeline(pipeline, "--trace", "/nowhere/trace.json", code=74, rows=False)
        self.assertIn("cannot write to /nowhere/trace.json: there is no folder /nowhere", run.err)
        run = self.run_pipeline(pipeline, "--trace", "/dev/full", code=74, rows=False)
        self.assertIn("cannot write to /dev/full: No space left on device", run.err)
        self.assertEqual(run.ledger["delivered"], 25)
        if os.geteuid() != 0:
            self.run_pipeline(pipeline, "--trace", "/etc/trace.json", code=77, rows=False)
