"""A camera of this machine whose driver does not return from a call, imitated by tests/fakes/camera.c."""
import json
import os
import pathlib
import re
import signal

import harness
from harness import MILLRACE, Controlled, call, pipeline

AT_ONCE = 4
FAKE_CAMERA = pathlib.Path(MILLRACE).parent / "tests/libfake_camera.so"


class Hung(Controlled):
    def setUp(self):
        super().setUp()
        if not FAKE_CAMERA.exists():
            self.skipTest(f"no {FAKE_CAMERA}: build the tests")
        self.hangs = self.folder / "hangs"
        self.fails = self.folder / "fails"
        self.fake = {"LD_PRELOAD": str(FAKE_CAMERA), "FAKE_CAMERA_HANGS_WHILE": str(self.hangs),
                     "FAKE_CAMERA_FAILS_WHILE": str(self.fails),
                     "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def begin(self, *arguments, options="", fails=False):
        """A run that has read pictures, and whose camera then hangs, or fails and hangs when it is opened again."""
        rows = self.folder / "out.jsonl"
        text = pipeline({"max": 2, "cam": f"uri: /dev/video0, stall: 500ms{options}"}, decode="",
                        out=f"type: jsonl, path: {rows}")
        log = self.folder / "log"
        with log.open("w") as to:
            child = self.spawn([MILLRACE, "run", self.write(text), "--audit", self.folder / "audit", *arguments],
                               environment=self.fake, stderr=to)
        self.wait_until(lambda: len(harness.rows_in(rows)) > 5, log, running=child)
        if fails:
            self.fails.touch()
        self.hangs.touch()
        self.wait_until(lambda: "cam: stalled: a call into its driver or library has not returned" in log.read_text(),
                        log, running=child)
        return child, log

    def connection(self):
        return json.loads(self.ctl("status", "--json").stdout)["status"]["sources"][0]["connection"]

    def test_it_is_seen_and_so_is_its_return(self):
        child, log = self.begin("--http", "127.0.0.1:0", "--set", "http.linger=0s")
        address = re.search(r"http://(\S+)", log.read_text())
        seen = self.connection()
        self.assertEqual(seen["state"], "stalled")
        self.assertEqual(seen["why"], "a call into its driver or library has not returned")
        self.assertIn("stalled since", self.ctl("status").stdout)
        for path, words in (("healthz", "the source cam is stalled"),
                            ("metrics", 'millrace_source_up{source="cam"} 0')):
            with self.subTest(path):
                done = call(["curl", "-s", f"http://{address[1].rstrip('/')}/{path}"])
                self.assertIn(words, done.stdout)
        self.hangs.unlink()
        self.wait_until(lambda: self.connection()["state"] == "live", log, running=child)
        self.ended(child, signal.SIGTERM)
        self.assertEqual(len(re.findall("cam: stalled", log.read_text())), 1, log.read_text())
        self.assertEqual(len(re.findall("cam: answers again after", log.read_text())), 1, log.read_text())
        states = [row["state"] for row in harness.rows_in(self.folder / "audit") if row["event"] == "source"]
        self.assertEqual(states, ["live", "stalled", "live", "ended"])

    def test_a_stop_ends_with_the_grace_time(self):
        child, log = self.begin("--grace", "1s")
        self.ended(child, signal.SIGINT, code=74)
        self.assertRegex(log.read_text(), "the run was asked to end more than 1 seconds ago, and the driver or library "
                                          "of the source cam has not returned from a call: the run ends without it")

    def test_still_pictures_come_while_opening_hangs(self):
        child, log = self.begin(fails=True, options=", open_timeout: 100ms, on_away: picture, "
                                                    "reconnect: {first: 100ms}")
        seen = self.connection()
        self.assertEqual(seen["state"], "stalled")
        self.wait_until(lambda: self.connection()["stills"] > seen["stills"], log, running=child)
        self.assertEqual(len(re.findall("cam: stalled: a call", log.read_text())), 1, log.read_text())
        self.fails.unlink()
        self.hangs.unlink()
        self.wait_until(lambda: self.connection()["state"] == "live", log, running=child)
        self.ended(child, signal.SIGTERM)

    def test_one_that_is_removed(self):
        child, log = self.begin()
        told = self.ctl("remove", "cam").stdout
        self.assertIn("cam is being removed, but a call into its driver or library has not returned since", told)
        self.hangs.unlink()
        self.wait_until(lambda: "removed" in self.ctl("status").stdout, log, running=child)
        self.ended(child, signal.SIGTERM)
