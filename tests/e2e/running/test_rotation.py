"""A long run's result files and audit log: emptied while written (copytruncate), moved and reopened at SIGHUP
(logrotate), one per segment; and a closed terminal, which ends the run."""
import contextlib
import csv
import fcntl
import json
import os
import pathlib
import pty
import signal
import subprocess
import termios

from harness import MILLRACE, PATIENT, TIMEOUT, Controlled, pipeline

LASTING = pipeline(dict(cam='uri: "lavfi:testsrc2=size=32x32:rate=100", realtime: true'), decode="", phash="",
                   table="type: csv, path: table.csv", lines="type: jsonl, input: phash, path: LINES")
NODES = "nodes: {near: {sources: [cam], stages: [decode]}, far: {stages: [phash, table, lines]}}\n"


class Rotation(Controlled):
    def begin(self, lines="lines.jsonl", nodes="", **how):
        path = self.write(LASTING.replace("LINES", lines) + nodes)
        child = subprocess.Popen([MILLRACE, "run", path, "--audit", self.folder / "audit.jsonl", "--json", *PATIENT],
                                 **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                                    "text": True, **how})
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def grows(self, name, more=5):
        """Waits until a file has more whole lines."""
        path, had = self.folder / name, None

        def grown():
            nonlocal had
            lines = path.read_bytes().count(b"\n") if path.exists() else 0
            had = lines if had is None else had
            return lines >= had + more
        self.wait_until(grown)

    def end(self, child):
        out = self.ended(child, signal.SIGTERM)[0]
        return json.loads(out)

    def assert_rows(self, tables, lines, seqs):
        """Every frame is in one of these files, in order, and each table has a header."""
        found = []
        for name in tables:
            with open(self.folder / name, newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertIn("seq", rows[0], name)
            found += [int(row["seq"]) for row in rows]
        self.assertEqual(found, seqs)
        records = [json.loads(line) for name in lines for line in (self.folder / name).read_text().splitlines()]
        self.assertEqual([record["seq"] for record in records], seqs)

    def test_files_that_are_emptied_meanwhile(self):
        """Like logrotate's copytruncate: the next record is at the file's start."""
        child = self.begin()
        for name in ("table.csv", "lines.jsonl"):
            self.grows(name)
            os.truncate(self.folder / name, 0)
            self.grows(name)
        self.end(child)
        for name in ("table.csv", "lines.jsonl"):
            self.assertNotIn(b"\0", (self.folder / name).read_bytes())
        rows = list(csv.DictReader((self.folder / "table.csv").read_text().splitlines()))
        self.assertGreater(int(rows[0]["seq"]), 0)
        for line in (self.folder / "lines.jsonl").read_text().splitlines():
            json.loads(line)

    def moved_and_reopened(self, nodes=""):
        child, names = self.begin(nodes=nodes), ("table.csv", "lines.jsonl", "audit.jsonl")
        for name in names[:2]:
            self.grows(name)
        for name in names:
            (self.folder / name).rename(self.folder / f"{name}.1")
        for name in names[:2]:
            self.grows(f"{name}.1")
        child.send_signal(signal.SIGHUP)
        for name in names[:2]:
            self.grows(name)
        summary = self.end(child)
        self.assert_rows(("table.csv.1", "table.csv"), ("lines.jsonl.1", "lines.jsonl"),
                         list(range(summary["ledger"]["in"])))
        events = [[json.loads(line)["event"] for line in (self.folder / name).read_text().splitlines()]
                  for name in ("audit.jsonl.1", "audit.jsonl")]
        self.assertIn("run begins", events[0])
        self.assertNotIn("run ends", events[0])
        self.assertIn("signal", events[1])
        self.assertIn("run ends", events[1])

    def test_files_that_are_moved(self):
        self.moved_and_reopened()

    def test_files_of_nodes_that_are_moved(self):
        self.moved_and_reopened(NODES)

    def test_a_hangup_without_moved_files_changes_nothing(self):
        child = self.begin()
        for _ in range(3):
            self.grows("lines.jsonl")
            child.send_signal(signal.SIGHUP)
        summary = self.end(child)
        self.assert_rows(["table.csv"], ["lines.jsonl"], list(range(summary["ledger"]["in"])))

    def names(self):
        return sorted(path.name for path in self.folder.glob("lines-*.jsonl"))

    def test_segments(self):
        child = self.begin("'lines-{number}.jsonl', segment: 100ms")
        self.wait_until(lambda: len(self.names()) >= 4)
        summary, names = self.end(child), self.names()
        self.assertEqual(names, [f"lines-{number:06}.jsonl" for number in range(len(names))])
        self.assert_rows(["table.csv"], names, list(range(summary["ledger"]["in"])))
        # Another run continues the numbers, and may only touch existing files that exceed the limit.
        (self.folder / "lines-000001-2.jsonl").write_text("of another program\n")
        child = self.begin("'lines-{number}.jsonl', segment: 100ms, keep_bytes: 1KiB")
        self.wait_until(lambda: f"lines-{len(names) + 3:06}.jsonl" in self.names())
        self.end(child)
        kept = self.names()
        self.assertIn("lines-000001-2.jsonl", kept)
        self.assertNotIn("lines-000000.jsonl", kept)
        sizes = [(self.folder / name).stat().st_size for name in kept if name != "lines-000001-2.jsonl"]
        self.assertLess(sum(sizes), 1024 + 2 * max(sizes))

    def test_a_list_that_cannot_be_written(self):
        """A file that cannot be listed is not kept, neither open nor in the folder, however often that happens:
        records stay where they went before."""
        child = self.begin("'lines-{number}.jsonl', segment: 100ms")
        self.wait_until(lambda: len(self.names()) >= 2)
        files, [listed] = pathlib.Path(f"/proc/{child.pid}/fd"), self.folder.glob(".*.lines.files")

        def replaced():
            listed.unlink(missing_ok=True)
            with contextlib.suppress(FileExistsError):  # the run may just write it again
                listed.mkdir()
                return True
        self.wait_until(replaced, pause=0)
        tries, seen = set(), lambda: tries.add(self.folder.stat().st_mtime_ns) or len(tries)
        self.wait_until(lambda: seen() > 2)
        had = len(list(files.iterdir()))
        self.wait_until(lambda: seen() > 12)
        self.assertLess(len(list(files.iterdir())), had + 5)
        summary, names = self.end(child), self.names()
        self.assertTrue(all((self.folder / name).stat().st_size for name in names))
        self.assert_rows(["table.csv"], names, list(range(summary["ledger"]["in"])))

    def test_a_hangup_begins_a_segment(self):
        child = self.begin("'lines-{time}.jsonl'")
        self.wait_until(self.names)
        first = self.names()[0]
        self.grows(first)
        child.send_signal(signal.SIGHUP)
        self.wait_until(lambda: len(self.names()) == 2)
        (second,) = set(self.names()) - {first}
        self.grows(second)
        summary = self.end(child)
        self.assert_rows(["table.csv"], [first, second], list(range(summary["ledger"]["in"])))

    def test_names_that_cannot_work(self):
        for path, words in (("'rows-{tme}.jsonl'", "rows-{tme}.jsonl\"; did you mean {time}?"),
                            ("lines.jsonl, segment: 1h", "with segment the name of the file needs {time} or {number}, "
                             "such as results-{time}.jsonl"),
                            ("lines.jsonl, keep_for: 1h", "with keep_for the name of the file needs"),
                            ("'{source}.jsonl'", "all sources that come here share a file"),
                            ("'{number}{time}.jsonl'", "would run into those beside it")):
            self.millrace("check", self.write(LASTING.replace("LINES", path)), code=78, says=words)

    def test_a_terminal_that_is_closed(self):
        """While a terminal is open, a hangup is a request to reopen files."""
        near, far = pty.openpty()

        def take_terminal():
            os.setsid()
            fcntl.ioctl(far, termios.TIOCSCTTY, 0)
        child = self.begin(stdin=far, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=take_terminal)
        os.close(far)
        self.grows("lines.jsonl")
        (self.folder / "lines.jsonl").rename(self.folder / "old.jsonl")
        child.send_signal(signal.SIGHUP)
        self.grows("lines.jsonl")
        os.close(near)
        self.assertEqual(child.wait(TIMEOUT), 0)
