"""A full disk: sinks fail clearly, or wait for room, and what they have written is whole. Runs on a small
file system that is really full, if one can be mounted, and with a write() that reports it."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile

from disks import Disk, Mounted
from harness import MILLRACE, ROOT, TIMEOUT, Case, pipeline

AT_ONCE = 4


def full(sink, path):
    return pipeline(dict(made='uri: "lavfi:testsrc=size=64x48:rate=50", duration: 20s'), name="full", decode="",
                    out=f'{sink}, path: "{path}"')


def full_nodes(path):
    return pipeline(dict(made='type: "null", frames: 3000, format: RGB24 16x16'), name="full",
                    small="type: preprocess, size: 8x8", out=f'type: jsonl, path: "{path}"',
                    nodes=dict(near="stages: [small]", far="stages: [out]"))


KINDS = {"jsonl": "type: jsonl", "csv": "type: csv", "images": "type: images"}


class Preloaded(Disk):
    def __init__(self, case):
        super().__init__(case)
        self.flag = case.folder / "full"
        options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        self.environment = {"LD_PRELOAD": case.shim, "ASAN_OPTIONS": options, "FULL_FOLDER": str(self.folder),
                            "FULL_WHILE": str(self.flag)}

    def fill(self):
        self.flag.touch()

    def empty(self):
        self.flag.unlink()


class Full:
    """The tests, for both kinds of disk."""

    def setUp(self):
        super().setUp()
        self.disk = self.KIND(self)

    def text(self, kind, more=""):
        path = self.disk.folder / f"results.{kind}"
        return full(sink=KINDS[kind] + more, path=path), path

    def start(self, text, *arguments):
        told = open(self.folder / "told", "w+")
        self.addCleanup(told.close)
        return self.spawn([MILLRACE, "run", self.write(text, "running.yaml"), "--json", "--log", "info", *arguments],
                          stdout=told, stderr=told, env={**os.environ, **self.disk.environment})

    def told(self):
        return (self.folder / "told").read_text()

    def wait_for(self, words, running):
        self.wait_until(lambda: words in self.told(), self.told, running)

    def end_of(self, running, code=0):
        self.assertEqual(running.wait(TIMEOUT), code, self.told())
        ledger = json.loads(self.told()[self.told().index("{"):self.told().rindex("}") + 1])["ledger"]
        self.assertTrue(ledger["balanced"], self.told())
        self.assertEqual(ledger["in_flight"], 0, self.told())
        return ledger

    def content(self, path):
        return {one.name: one.read_bytes() for one in path.iterdir()} if path.is_dir() else path.read_bytes()

    def reference(self, text, written):
        """The content that an unhindered run writes."""
        path = self.folder / written.name
        text = text.replace(f'path: "{written}"', f'path: "{path}"')
        self.millrace("run", self.write(text, "reference.yaml"), "--quiet")
        return self.content(path)

    def test_it_fails_and_what_is_written_is_whole(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.disk.fill()
                text, path = self.text(kind)
                running = self.start(text)
                if kind == "csv":  # the header may not fit, so that nothing begins
                    self.assertEqual(running.wait(TIMEOUT), 74, self.told())
                else:
                    ledger = self.end_of(running, 74)
                self.assertIn("No space left on device; with on_full: wait the run would wait", self.told())
                reference = self.reference(text, path)
                if kind == "images":
                    self.assertLessEqual(self.content(path).items(), reference.items())
                    self.assertEqual(len(self.content(path)), ledger["delivered"])
                    shutil.rmtree(path)
                else:
                    self.assertTrue(reference.startswith(self.content(path)))
                    self.assertTrue(self.content(path)[-1:] in (b"", b"\n"))
                    path.unlink()
                self.disk.empty()

    def test_it_waits_and_goes_on(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.disk.fill()
                text, path = self.text(kind, ", on_full: wait")
                running = self.start(text)
                self.wait_for("waiting until there is room", running)
                self.disk.empty()
                ledger = self.end_of(running)
                self.assertEqual(ledger["delivered"], 1000)
                self.assertEqual(self.told().count("waiting until there is room"), 1)
                self.assertIn("again", self.told())
                self.assertEqual(self.content(path), self.reference(text, path))
                shutil.rmtree(path) if kind == "images" else path.unlink()

    def test_a_stop_ends_the_waiting(self):
        self.disk.fill()
        text, path = self.text("jsonl", ", on_full: wait")
        running = self.start(text)
        self.wait_for("waiting until there is room", running)
        running.terminate()
        ledger = self.end_of(running)
        rows = path.read_text()
        self.assertGreater(sum(line["frames"] for line in ledger["dropped"]), 0)
        self.assertEqual(rows.count("\n"), ledger["delivered"])
        self.assertTrue(not rows or rows.endswith("\n"))

    def test_behind_a_reliable_cut_it_waits_unless_told_otherwise(self):
        self.disk.fill()
        path = self.disk.folder / "results.jsonl"
        text = full_nodes(path=path)
        running = self.start(text)
        self.wait_for("waiting until there is room", running)
        self.disk.empty()
        self.end_of(running)
        self.assertEqual(path.read_bytes(), self.reference(text, path))

    def test_a_run_that_was_stopped_while_it_waited_goes_on_later(self):
        self.disk.fill()
        text, path = self.text("jsonl", ", on_full: wait")
        checkpoint = self.folder / "checkpoint"
        running = self.start(text, "--resume", checkpoint)
        self.wait_for("waiting until there is room", running)
        running.terminate()
        self.end_of(running)
        self.disk.empty()
        self.end_of(self.start(text, "--resume", checkpoint))
        self.assertEqual(path.read_bytes(), self.reference(text, path))


class OnAMountedDisk(Full, Case):
    KIND = Mounted

    def test_the_checkpoint_may_lie_there_too(self):
        text, path = self.text("jsonl", ", on_full: wait")
        self.disk.fill()
        running = self.start(text, "--resume", self.disk.folder / "checkpoint")
        self.wait_for("waiting until there is room", running)
        self.wait_for("no checkpoint could be written", running)
        self.disk.empty()
        self.end_of(running)
        self.assertEqual(path.read_bytes(), self.reference(text, path))
        self.assertTrue(json.loads((self.disk.folder / "checkpoint").read_text())["complete"])


class WithAFailingWrite(Full, Case):
    KIND = Preloaded

    @classmethod
    def setUpClass(cls):
        shared = tempfile.TemporaryDirectory(prefix="millrace-")
        cls.addClassCleanup(shared.cleanup)
        cls.shim = f"{shared.name}/full_disk.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", cls.shim, ROOT / "tests/e2e/full_disk.c",
                        "-ldl"], check=True)

    def test_folders_in_names_wait_for_room(self):
        """No folder can be made while the disk is full."""
        self.disk.fill()
        path = self.disk.folder / "results.images"
        text = full(sink="type: images, name: '{source}/{seq}.png', on_full: wait", path=path)
        running = self.start(text)
        self.wait_for("waiting until there is room", running)
        self.assertEqual(list(path.iterdir()), [])
        self.disk.empty()
        self.assertEqual(self.end_of(running)["delivered"], 1000)
        self.assertEqual(self.told().count("waiting until there is room"), 1)
        self.assertEqual(sorted(one.name for one in (path / "made").iterdir()), [f"{i:06}.png" for i in range(1000)])
        shutil.rmtree(path)
        self.disk.fill()
        self.end_of(self.start(text.replace("on_full: wait", "on_full: fail")), 74)
        self.assertIn("results.images/made/000000.png: No space left on device; with on_full: wait the run would wait",
                      self.told())


class Limited(Case):
    """A file size limit (ulimit -f) acts like a full disk: it does not kill anything."""

    def start(self, text, limit, *arguments):
        """With a limit in KiB for each file, which can be lifted. Messages go through a pipe, which has no limit."""
        told = open(self.folder / "told", "w+")
        self.addCleanup(told.close)
        reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=told)
        running = self.spawn(["bash", "-c", f'ulimit -S -f {limit}; exec "$@"', "-", MILLRACE, "run", self.write(text),
                              "--json", "--log", "info", *arguments], stdout=reader.stdin, stderr=reader.stdin)
        reader.stdin.close()
        self.addCleanup(reader.wait)
        return running

    def end_of(self, running, code=0):
        """Waits until the reader has also seen the end."""
        self.assertEqual(running.wait(TIMEOUT), code, self.told())
        self.wait_until(lambda: '"exit_code"' in self.told(), self.told)

    def told(self):
        return (self.folder / "told").read_text()

    def text(self, kind, more=""):
        return full(sink=KINDS[kind] + more, path=self.folder / f"results.{kind}")

    def wait_for(self, words, running):
        self.wait_until(lambda: words in self.told(), self.told, running)

    def lift(self, *processes):
        for one in processes:
            _, most = resource.prlimit(one, resource.RLIMIT_FSIZE)
            resource.prlimit(one, resource.RLIMIT_FSIZE, (most, most))

    def test_it_fails_and_what_is_written_is_whole(self):
        for kind in KINDS:
            with self.subTest(kind):
                running = self.start(self.text(kind), 0 if kind == "images" else 20)
                self.end_of(running, 74)
                self.assertIn("File too large; with on_full: wait the run would wait", self.told())
                path = self.folder / f"results.{kind}"
                if kind == "images":
                    self.assertEqual(list(path.iterdir()), [])
                else:
                    self.assertGreater(path.stat().st_size, 19000)
                    self.assertEqual(path.read_bytes()[-1:], b"\n")

    def test_it_waits_and_goes_on(self):
        running = self.start(self.text("jsonl", ", on_full: wait"), 20)
        self.wait_for("waiting until there is room", running)
        self.lift(running.pid)
        self.assertEqual(running.wait(TIMEOUT), 0, self.told())
        rows = (self.folder / "results.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(row)["seq"] for row in rows], list(range(1000)))

    def test_a_node_waits_and_goes_on(self):
        running = self.start(full_nodes(path=self.folder / "results.jsonl"), 20)
        self.wait_for("waiting until there is room", running)
        children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        self.lift(running.pid, *map(int, children))
        self.assertEqual(running.wait(TIMEOUT), 0, self.told())
        rows = (self.folder / "results.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(row)["seq"] for row in rows], list(range(3000)))
        self.assertNotIn("started again", self.told())

    def test_what_is_beside_the_results_stops_nothing(self):
        """Traces and the audit log: every frame is delivered, and what is missing is reported."""
        path = self.folder / "results.jsonl"
        running = self.start(self.text("jsonl").replace(str(path), "/dev/null"), 0, "--trace", self.folder / "trace",
                             "--audit", self.folder / "audit")
        self.end_of(running, 74)
        self.assertIn('"ledger":{"in":1000,"delivered":1000,', self.told())
        self.assertIn("the audit log cannot be written: File too large", self.told())
        self.assertIn(f"{self.folder}/trace: File too large", self.told())
