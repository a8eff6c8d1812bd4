"""`millrace top`: what runs do now, on a terminal and in a pipe."""
import os
import re
import signal
import subprocess
import termios
import time

import harness
from harness import MILLRACE, pipeline
from screen import Screen

TEXT = pipeline(dict(pattern='uri: "lavfi:testsrc=size=160x120:rate=50", realtime: true'), name="endless",
                decode="", small="type: preprocess, size: 32x32", results='type: "null"')


class Top(harness.Controlled):
    def run_it(self, *arguments):
        child = self.spawn([MILLRACE, "run", self.write(TEXT), *harness.PATIENT, *arguments], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
        self.wait_until(lambda: self.ctl("status", "--pid", str(child.pid), code=None).returncode == 0, "no run", child)
        return child

    def test_in_a_pipe_it_prints_one_page(self):
        self.assertIn("no run of yours can be reached", self.millrace("top", code=69,
                                                                      environment=self.environment).stderr)
        child = self.run_it()
        page = self.millrace("top", code=0, environment=self.environment).stdout
        self.assertIn(f"endless  pid {child.pid}  run ", page)
        self.assertRegex(page, r"\n  pattern +runs +\d+\.\d ")
        for stage in ("pattern", "decode", "small", "results"):
            self.assertRegex(page, rf"\n  {stage} +\w+ +cpu +")
        rate = float(re.search(r", (\d+\.\d) frames/s", page)[1])
        self.assertGreater(rate, 0)
        self.assertLess(rate, 200)
        self.assertNotIn("\x1b", page)
        only = self.millrace("top", "--once", "--pid", str(child.pid), code=0, environment=self.environment).stdout
        self.assertIn(f"pid {child.pid}", only)

    def test_on_a_terminal(self):
        child = self.run_it()
        screen = Screen(self, [MILLRACE, "top", "--interval", "1"], lines=9)
        screen.until(lambda page: "1 run " in page and "endless" in page, "no page")
        self.assertIn("\x1b[?1049h", screen.text)
        self.assertFalse(termios.tcgetattr(screen.end)[3] & termios.ECHO)
        self.assertNotIn("results", screen.page())  # there is no room
        screen.press(b"\x1b[6~")
        screen.until(lambda page: "results" in page and "millrace top" in page, "it does not scroll")
        screen.press(b"g")
        screen.size(40, 100)
        screen.until(lambda page: "endless" in page and "results" in page, "it does not use a larger terminal")
        screen.press(b"p")
        screen.until(lambda page: "paused" in page, "it does not pause")
        screen.press(b"p")
        # A second run comes, and one stops answering.
        other = self.run_it()
        screen.until(lambda page: "2 runs" in page and f"pid {other.pid}" in page, "no second run")
        os.kill(child.pid, signal.SIGSTOP)
        screen.until(lambda page: "the run does not answer" in page and f"pid {child.pid}" in page, "it is not said")
        os.kill(child.pid, signal.SIGCONT)
        screen.until(lambda page: "2 runs" in page and "does not answer" not in page, "it does not come back")
        for run in (child, other):
            run.send_signal(signal.SIGTERM)
            run.communicate()
        screen.until(lambda page: "no run of yours can be reached" in page, "the end is not seen")
        screen.press(b"q")
        self.assertEqual(screen.ended(), 0)
        self.assertTrue(screen.text.endswith("\x1b[?25h\x1b[?1049l"), repr(screen.text[-40:]))

    def test_a_signal_gives_the_terminal_back(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            screen = Screen(self, [MILLRACE, "top"])
            screen.until(lambda page: True, "")
            while "\x1b[?1049h" not in screen.text:
                self.assertTrue(screen.read())
            os.kill(screen.pid, number)
            self.assertEqual(screen.ended(), 0)
            self.assertTrue(screen.text.endswith("\x1b[?25h\x1b[?1049l"), repr(screen.text[-40:]))

    def test_a_signal_spoils_no_write(self):
        """Each of these signals redraws the page; nobody reads it, so some come while a write waits."""
        screen = Screen(self, [MILLRACE, "top"])
        screen.until(lambda page: "no run of yours" in page, "no page")
        for _ in range(3000):
            os.kill(screen.pid, signal.SIGWINCH)
            time.sleep(0.0005)
        screen.press(b"q")
        self.assertEqual(screen.ended(), 0)

    def test_usage(self):
        self.assertIn("not both", self.millrace("top", "--pid", "1", "--control", "x", code=64).stderr)
        self.assertIn("it takes no \"x\"", self.millrace("top", "x", code=64).stderr)
