"""The command as process 1, as in a container: signals reach the run, its exit code is the container's, and processes
that lost their parent are collected."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from harness import MILLRACE, Case, call

NEW = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
RUN = ('version: 1\npipeline: first\nsources: {clock: {type: "null", rate: 20fps}}\n'
       "stages: {results: {type: jsonl, input: clock, path: rows.jsonl}}\n")


class FirstProcess(Case):
    def setUp(self):
        super().setUp()
        tried = call([*NEW, "true"]) if shutil.which("unshare") else None
        if not tried or tried.returncode:
            self.skipTest(f"no PID namespace can be made: {tried.stderr if tried else 'no unshare'}")

    def start(self):
        self.write(RUN)
        rows = self.folder / "rows.jsonl"
        rows.unlink(missing_ok=True)
        child = self.spawn([*NEW, MILLRACE, "run", "pipeline.yaml"], cwd=self.folder, stderr=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
        self.wait_until(lambda: rows.exists() and rows.stat().st_size, running=child)
        return child, self.children(child.pid)[0]

    @staticmethod
    def children(pid):
        return [int(one) for one in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def test_exit_codes(self):
        for words, code in ((["--version"], 0), (["nonsense"], 64), (["check", "/nowhere.yaml"], 66)):
            self.assertEqual(call([*NEW, MILLRACE, *words]).returncode, code)

    def test_a_parent_may_ignore_the_end_of_children(self):
        ignores = ("import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                   "os.execv(sys.argv[1], sys.argv[1:])")
        done = call([*NEW, sys.executable, "-c", ignores, MILLRACE, "nonsense"])
        self.assertEqual(done.returncode, 64, done.stderr)

    def test_signals(self):
        child, first = self.start()
        os.kill(first, signal.SIGTERM)
        self.ended(child)
        child, first = self.start()
        os.kill(self.children(first)[0], signal.SIGKILL)
        self.ended(child, code=128 + signal.SIGKILL)

    def test_orphans_are_collected(self):
        child, first = self.start()
        before = self.children(first)
        left = "(sleep 1h & sleep 1h &) >/dev/null 2>&1"
        self.checked(["nsenter", "-t", first, "-p", "--", "sh", "-c", left])
        self.wait_until(lambda: len(self.children(first)) == len(before) + 2, "orphans belong to process 1")
        for orphan in set(self.children(first)) - set(before):
            os.kill(orphan, signal.SIGKILL)
        self.wait_until(lambda: self.children(first) == before, "orphans are collected")
        os.kill(first, signal.SIGTERM)
        self.ended(child)
