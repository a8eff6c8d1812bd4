"""A short tools/soak/live.py: it runs, and sources that come and go leave nothing behind."""
import json
import sys

import streams
from harness import MILLRACE, ROOT, Case, call


class Soak(Case):
    def run_parts(self, *arguments):
        return call([sys.executable, ROOT / "tools/soak/live.py", "--millrace", MILLRACE, *arguments])

    def test_changes(self):
        streams.rtsp(self, f"/a={streams.pattern()}")  # skips if there is no server
        found = self.folder / "found.json"
        done = self.run_parts("--parts", "changes", "--reconnects", "5", "--bad", "3", "--size", "320x240", "--json",
                              found)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        [line] = [json.loads(text) for text in found.read_text().splitlines()]
        self.assertEqual((line["part"], line["wrong"]), ("changes", []))
        self.assertEqual(line["before"]["descriptors"], line["after"]["descriptors"])

    def test_parts_are_named(self):
        done = self.run_parts("--parts", "none")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no part none; parts are faults, ", done.stderr)
