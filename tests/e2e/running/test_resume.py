"""run --resume: a killed run continues, with no record duplicated or missing. The reference is the same pipeline,
run once to the end."""
import json
import pathlib
import random
import shutil
import signal
import subprocess
import time

import numpy

import clips
from harness import MILLRACE, PICTURES, TIMEOUT, Case, pipeline
from watched import children_of

AT_ONCE = 4

SEED = random.randrange(1 << 32)

PACED = ", realtime: true"
NODES = "nodes: {reader: {sources: [a]}, rest: {stages: [decode, phash, results]}}\n"


def sources(paced):
    """Two hurried samples."""
    return dict(a=f"uri: {clips.hurried()}/cockatoo.mp4, every: 2, duration: 1s{paced}",
                b=f"uri: {clips.hurried()}/realshort.mp4, loop: 3{paced}")


def several(paced="", kind="jsonl", **more):
    return pipeline(sources(paced), decode="", hog="size: 64x64",
                    results=f'type: {kind}, features: true, path: "${{OUTPUT}}"', **more)


def table(paced="", kind="csv"):
    """Three rows per frame, with commas and quotes in them."""
    return pipeline(sources(paced), decode="", hog="size: 64x64",
                    classify="weights: weights.npy, labels: labels.txt, top_k: 3",
                    results=f'type: {kind}, path: "${{OUTPUT}}"')


def remembering(paced=""):
    return pipeline(dict(a=f"uri: {clips.hurried()}/cockatoo.mp4, duration: 750ms{paced}"), decode="",
                    motion="threshold: 0.02", phash="", hog="input: motion, size: 64x64",
                    both="type: join, join: {hash: phash, hog: hog}",
                    results='type: jsonl, tensors: true, path: "${OUTPUT}"')


def reordered(clip, paced=""):
    """All but a few pictures are read after one that is shown later."""
    return pipeline(dict(a=f'uri: "{clip}"{paced}'), decode="", phash="",
                    results='type: jsonl, tensors: true, path: "${OUTPUT}"')


def is_at_work(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def lines_of(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


class Parts:
    """Files for a name with {number} as if they were one; in a table only the first header counts."""

    def __init__(self, folder, pattern):
        self.path, self.files = folder / pattern, lambda: sorted(folder.glob(pattern.replace("{number}", "*")))

    def __str__(self):
        return str(self.path)

    def exists(self):
        return bool(self.files())

    def read_bytes(self):
        """A killed run can leave an empty file, even as the first."""
        texts = [text for text in (path.read_bytes() for path in self.files()) if text]
        header = b"source,epoch" if self.path.suffix == ".csv" else None
        return b"".join(text.partition(b"\n")[2] if n and header and text.startswith(header) else text
                        for n, text in enumerate(texts))

    def read_text(self):
        return self.read_bytes().decode()


class Resume(Case):
    def setUp(self):
        super().setUp()
        self.output, self.checkpoint = self.folder / "results.jsonl", self.folder / "checkpoint"

    def command(self, pipeline):
        return [MILLRACE, "run", pipeline, "--resume", self.checkpoint, "--output", self.output, "--json"]

    def reference(self, text):
        whole = self.folder / "whole.jsonl"
        self.millrace("run", self.write(text, "whole.yaml"), "--output", whole)
        return sorted(whole.read_text().splitlines())

    def finish(self, pipeline, code=0):
        done = self.checked(self.command(pipeline), code=code)
        return json.loads(done.stdout) if code == 0 else done.stderr

    def amid(self, pipeline, more, *arguments, **pipes):
        """A run that has written more lines or has ended."""
        wanted = lines_of(self.output) + more
        running = self.spawn([*self.command(pipeline), *arguments], **{"stdout": -3, "stderr": -3, **pipes})
        self.wait_until(lambda: running.poll() is not None or lines_of(self.output) >= wanted, pause=0.005)
        return running

    def kill_after(self, pipeline, more, sign=signal.SIGKILL):
        """Kills a run after it has written more lines; False if it ended before."""
        running = self.amid(pipeline, more)
        ended = running.poll()
        if ended is None:
            running.send_signal(sign)
        code = running.wait(TIMEOUT)
        self.assertIn(code, (0, -sign) if sign == signal.SIGKILL else (0,))
        return ended is None and code != 0 if sign == signal.SIGKILL else not self.is_complete()

    def stop_after(self, pipeline, more):
        """Asks a run to end after it has written more lines; True if it had not ended by itself."""
        running = self.amid(pipeline, more, stderr=-1, text=True)
        going = running.poll() is None
        told = self.ended(running, signal.SIGTERM)[1]
        self.assertNotIn("a->rest (stopped)", told)  # the cut did not wait for a picture that does not come
        return going

    def is_complete(self):
        return json.loads(self.checkpoint.read_text())["complete"]

    def kill_amid(self, pipeline, more, sign=signal.SIGKILL):
        """Like kill_after; if a run ended before the test could see it, starts another."""
        until = time.monotonic() + TIMEOUT
        while not self.kill_after(pipeline, more, sign):
            self.assertLess(time.monotonic(), until)
            self.output.unlink()
            self.checkpoint.unlink()

    def check(self, text, kills, **segments):
        """Kills the paced pipeline again and again; in the end it has written what one run writes."""
        chance = random.Random(SEED)
        expected, pipeline = self.reference(text()), self.write(text(PACED, **segments))
        killed = sum(self.kill_after(pipeline, chance.randint(0, 2 * len(expected) // kills)) for _ in range(kills))
        self.assertGreater(killed, 0)
        ledger = self.finish(pipeline)["ledger"]
        self.assertTrue(ledger["balanced"], ledger)
        self.assertEqual(sorted(self.output.read_text().splitlines()), expected, f"seed {SEED}")
        self.assertTrue(self.is_complete())

    def test_killed_again_and_again(self):
        self.check(several, 12)

    def make_classes(self):
        numpy.save(self.folder / "weights.npy", numpy.random.default_rng(SEED).normal(size=(5, 1765)).astype("f4"))
        (self.folder / "labels.txt").write_text('a, b\nsay "c"\n"\nplain\n,\n')

    def test_tables(self):
        self.make_classes()
        self.check(table, 6)

    def test_a_table_that_was_torn(self):
        """A power cut can leave part of a row, or some of a frame's rows: the frame comes again, whole."""
        self.make_classes()
        for kind in ("csv", "jsonl, results: classes"):
            with self.subTest(kind):
                self.tear(kind)
                self.output.unlink()
                self.checkpoint.unlink()

    def tear(self, kind):
        expected = self.reference(table(kind=kind))
        pipeline = self.write(table(PACED, kind))
        for cut in (1, 40, 200):
            self.kill_amid(pipeline, 20)
            checkpoint = json.loads(self.checkpoint.read_text())
            checkpoint["sources"] = {name: {**source, "epoch": None, "seq": None, "ended": False}
                                     for name, source in checkpoint["sources"].items()}
            self.checkpoint.write_text(json.dumps(checkpoint))
            self.output.write_bytes(self.output.read_bytes()[:-cut])
        self.finish(pipeline)
        self.assertEqual(sorted(self.output.read_text().splitlines()), expected)

    def test_segments(self):
        """Each row is in one file, whichever was being written; another run's must stay."""
        self.make_classes()
        for text, kind in ((several, "jsonl"), (table, "csv")):
            with self.subTest(kind):
                self.output = Parts(self.folder, "part-{number}." + kind)
                other = self.folder / f"part-000007.{kind}"
                segments = f"{kind}, segment: 50ms"
                self.check(text, 4, kind=segments)
                self.assertGreater(len(self.output.files()), 5)
                if kind == "csv":
                    continue
                # Rows for the same frames in an earlier run's files are not this run's.
                expected = sorted(self.output.read_text().splitlines())
                for path in self.output.files():
                    path.rename(self.folder / f"kept-{path.name}")
                (self.folder / f"kept-part-000000.{kind}").rename(other)
                before = other.read_bytes()
                self.checkpoint.unlink()
                pipeline = self.write(text(PACED, segments))
                self.kill_after(pipeline, 20)
                self.finish(pipeline)
                self.assertEqual(other.read_bytes(), before)
                other.unlink()
                self.assertEqual(sorted(self.output.read_text().splitlines()), expected, f"seed {SEED}")
                self.checkpoint.unlink()

    def test_files_that_were_moved(self):
        """logrotate, followed by a kill: the moved file's rows are known."""
        expected = self.reference(several())
        pipeline = self.write(several(PACED))
        for turn in range(6):
            running = self.amid(pipeline, 5)
            if running.poll() is None:
                moved = self.output.rename(self.folder / f"moved-{turn}.jsonl")
                running.send_signal(signal.SIGHUP)
                self.wait_until(lambda: running.poll() is not None or lines_of(self.output), pause=0.005)
                if not self.output.exists():  # it had done all before it saw that
                    moved.rename(self.output)
                running.kill()
            running.wait()
        self.finish(pipeline)
        rows = [line for path in (*self.folder.glob("moved-*.jsonl"), self.output)
                for line in path.read_text().splitlines()]
        self.assertEqual(sorted(rows), expected, f"seed {SEED}")

    def test_stages_that_remember_see_all_again(self):
        self.check(remembering, 6)

    def test_what_is_complete_stays_as_it_is(self):
        pipeline = self.write(several())
        self.finish(pipeline)
        before = self.output.read_text()
        again = self.finish(pipeline)
        self.assertEqual(again["ledger"]["in"], 0)
        self.assertEqual(self.output.read_text(), before)

    def test_a_half_line_is_cut_off(self):
        pipeline, expected = self.write(several(PACED)), self.reference(several())
        self.kill_amid(pipeline, 20)
        whole = self.output.read_bytes().rpartition(b"\n")[0] + b"\n"
        self.output.write_bytes(whole + b'{"source":"a","seq":4,"pt')
        self.finish(pipeline)
        self.assertEqual(sorted(self.output.read_text().splitlines()), expected)
        self.assertTrue(self.output.read_bytes().startswith(whole))

    def test_stopped_in_order(self):
        pipeline, expected = self.write(several(PACED)), self.reference(several())
        self.kill_amid(pipeline, 15, signal.SIGTERM)
        told = json.loads(self.checkpoint.read_text())
        self.assertGreaterEqual(max(source["seq"] for source in told["sources"].values()), 0)
        ledger = self.finish(pipeline)["ledger"]
        self.assertIn("done before", [line["reason"] for line in ledger["absorbed"]])
        self.assertEqual(sorted(self.output.read_text().splitlines()), expected)

    def test_stopped_before_pictures_that_are_shown_earlier(self):
        clip = clips.encoded("reordered.mp4", "-c:v", "mpeg4", "-q:v", "5", "-bf", "2", "-r", "100",
                             filters="scale=160:90,setpts=N/100/TB", frames=120)
        expected = self.reference(reordered(clip=clip))
        for nodes in ("", NODES):
            pipeline = self.write(reordered(clip=clip, paced=PACED) + nodes)
            stopped = sum(self.stop_after(pipeline, more) for more in (1, 7, 5, 12, 9, 11))
            self.assertGreater(stopped, 1)
            self.finish(pipeline)
            self.assertEqual(sorted(self.output.read_text().splitlines()), expected)
            self.output.unlink()
            for left in self.folder.glob("checkpoint*"):
                left.unlink()

    def test_nodes_are_gone_with_who_watches_over_them(self):
        """Nodes end at once: anything else would affect the next run's files."""
        nodes, audit = dict(reader="stages: [decode]", rest="stages: [hog, results]"), self.folder / "audit"
        expected, pipeline = self.reference(several(nodes=nodes)), self.write(several(PACED, nodes=nodes))
        running = self.amid(pipeline, 10, "--audit", audit)
        nodes = children_of(running.pid)
        self.assertEqual(set(nodes), {"reader", "rest"})
        running.kill()
        running.wait()
        self.wait_until(lambda: not any(map(is_at_work, nodes.values())), pause=0.005)
        events = {json.loads(line)["event"] for line in audit.read_text().splitlines()}
        self.assertFalse(events & {"signal", "run ends"}, events)
        self.assertTrue(self.finish(pipeline)["ledger"]["balanced"])
        self.assertEqual(sorted(self.output.read_text().splitlines()), expected)

    def test_folders_of_pictures(self):
        for i, name in enumerate(("orange.jpg", "baboon.jpg", "squirrel_cls.jpg") * 12):
            if not (PICTURES / name).exists():
                self.skipTest(f"no {PICTURES / name}")
            (self.folder / "in").mkdir(exist_ok=True)
            shutil.copy(PICTURES / name, self.folder / "in" / f"{i}.jpg")
        text = several().replace(
            f"{clips.hurried()}/cockatoo.mp4, every: 2, duration: 1s", f"{self.folder}/in, every: 3, loop: 2")
        pipeline, expected = self.write(text), self.reference(text)
        for _ in range(5):
            self.kill_after(pipeline, 5)
        self.finish(pipeline)
        self.assertEqual(sorted(self.output.read_text().splitlines()), expected)

    def test_what_cannot_go_on_is_refused(self):
        text = several(PACED)
        pipeline = self.write(text)
        self.kill_amid(pipeline, 10)
        kept = self.output.read_text()
        self.assertIn("the options of source a have changed",
                      self.finish(self.write(text.replace("every: 2", "every: 3")), 65))
        self.assertIn("no source c", self.finish(self.write(text.replace("a: {uri", "c: {uri")), 65))
        twice = text.replace("input: hog", "input: [hog, hig]")
        twice = twice.replace("  results", "  hig: {type: hog, input: decode, size: 64x64}\n  results")
        self.assertIn("on several paths", self.finish(self.write(twice), 78))
        self.assertEqual(self.output.read_text(), kept)
        self.write(text)
        self.output.write_text("{}\n" + kept)
        self.assertIn(f"{self.output}:1: not a record", self.finish(pipeline, 65))
        self.output.unlink()
        self.assertIn(f"{self.output} does not exist any more", self.finish(pipeline, 66))
        self.checkpoint.write_text("{}")
        self.assertIn("is no checkpoint", self.finish(pipeline, 65))
        self.checkpoint.unlink()
        self.finish(pipeline)
        self.millrace("run", pipeline, "--resume", self.folder / "other", "--output", "-", code=78)
        self.assertFalse((self.folder / "other").exists())

    def test_a_damaged_checkpoint_settles_nothing(self):
        pipeline = self.write(several(PACED))
        self.kill_amid(pipeline, 10)
        kept, checkpoint = self.output.read_text(), json.loads(self.checkpoint.read_text())
        for name, value, said in (("seq", -1, "sources.a.seq is -1"), ("epoch", -1, "sources.a.epoch is -1"),
                                  ("epoch", 1 << 32, "sources.a.epoch is 4294967296"),
                                  ("seq", 1 << 63, "sources.a.seq is 9223372036854775808"),
                                  ("seq", 3.5, "sources.a.seq is 3.5"), ("seq", "12", "sources.a.seq is no number"),
                                  ("seq", None, "sources.a.seq is no number"),
                                  ("ended", "yes", "sources.a.ended is neither")):
            with self.subTest(said):
                damaged = json.loads(json.dumps(checkpoint))
                damaged["sources"]["a"].update({"epoch": 0, "seq": 3, name: value})
                self.checkpoint.write_text(json.dumps(damaged))
                self.assertIn(said, self.finish(pipeline, 65))
        del damaged["sources"]["a"]["seq"]
        damaged["sources"]["a"]["ended"] = False
        self.checkpoint.write_text(json.dumps(damaged))
        self.assertIn("sources.a.seq is missing", self.finish(pipeline, 65))
        self.assertEqual(self.output.read_text(), kept)
        self.checkpoint.write_text(json.dumps(checkpoint))
        self.finish(pipeline)

    def test_two_runs_keep_off_one_checkpoint(self):
        pipeline = self.write(several(PACED))
        first = self.spawn(self.command(pipeline), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_until(self.checkpoint.exists)
        first.send_signal(signal.SIGSTOP)  # it cannot end before the second one begins
        self.millrace("run", pipeline, "--resume", self.checkpoint, "--output", self.folder / "second.jsonl",
                      code=74, says=f"{self.checkpoint} is in use by another run (process {first.pid})")
        self.assertFalse((self.folder / "second.jsonl").exists())
        first.kill()
        first.wait()
        lock = self.folder / "checkpoint.lock"
        self.assertTrue(lock.exists())
        self.finish(self.write(several(PACED)))
        self.assertFalse(lock.exists())
