"""Stopping: Ctrl-C and SIGTERM drain and end with 0 and a complete ledger, a second one ends at once, SIGUSR1 tells
how it stands and changes nothing."""
import json
import os
import signal
import subprocess
import time

import harness

# Without end, at its own pace.
ENDLESS = """\
version: 1
pipeline: endless
sources:
  pattern: {uri: "lavfi:testsrc=size=160x120:rate=50", realtime: true}
stages:
  decode:  {input: pattern}
  results: {type: jsonl, input: decode, path: "-"}
"""
# As fast as possible, into a pipe that nobody empties.
STUCK = ENDLESS.replace(", realtime: true", "")


class Signals(harness.Case):
    def start(self, text, *arguments, stdout=subprocess.PIPE):
        child = harness.start([harness.MILLRACE, "run", self.write(text), *arguments], stdout=stdout,
                              stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def wait_for_rows(self, path, rows):
        end = time.monotonic() + 30
        while not path.exists() or path.read_text().count("\n") < rows:
            self.assertLess(time.monotonic(), end, "no results within 30 s")
            time.sleep(0.05)

    def test_draining(self):
        for what in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(what.name):
                output = self.folder / f"{what.name}.jsonl"
                child = self.start(ENDLESS, "--output", output, "--json")
                self.wait_for_rows(output, 10)
                child.send_signal(what)
                out, err = child.communicate(timeout=20)
                self.assertEqual(child.returncode, 0, err)
                ledger = json.loads(out)["ledger"]
                rows = [json.loads(line) for line in output.read_text().splitlines()]
                self.assertTrue(ledger["balanced"])
                self.assertEqual(ledger["in_flight"], 0)
                self.assertEqual(ledger["delivered"], len(rows))
                self.assertEqual([row["seq"] for row in rows], list(range(len(rows))))

    def test_second_signal(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        child = self.start(STUCK, stdout=write)
        os.close(write)
        time.sleep(1.5)
        child.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(child.poll(), "it cannot drain into a full pipe")
        child.send_signal(signal.SIGINT)
        start = time.monotonic()
        child.wait(timeout=10)
        self.assertLess(time.monotonic() - start, 2)
        self.assertNotEqual(child.returncode, 0)

    def test_summary_so_far(self):
        output = self.folder / "rows.jsonl"
        child = self.start(ENDLESS, "--output", output)
        self.wait_for_rows(output, 10)
        child.send_signal(signal.SIGUSR1)
        seen = output.read_text().count("\n")
        self.wait_for_rows(output, seen + 10)
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=20)
        self.assertEqual(child.returncode, 0, err)
        self.assertIn("delivered", err + out)


if __name__ == "__main__":
    harness.main()
