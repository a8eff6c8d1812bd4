"""--jobs: a limited number of videos is open at a time, in order; results are the same as without it."""
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

import clips
import harness
from harness import MILLRACE, PATIENT, call, pipeline, start

COUNT, FRAMES = 12, 60  # the first clip's frame count; each later clip has one more frame
BATCHES = {"phash": "type: phash, batch: 8"}


def threads_of(process):
    """Names of threads that existed at the same time: those in two listings."""
    def listing():
        found = {}
        for task in pathlib.Path(f"/proc/{process}/task").iterdir():
            try:
                found[task.name] = (task / "comm").read_text().strip()
            except OSError:  # it has ended
                pass
        return found.items()

    return [name for _, name in listing() & listing()]


def open_clips(process):
    names = set()
    for descriptor in pathlib.Path(f"/proc/{process}/fd").iterdir():
        try:
            names.add(os.path.basename(os.readlink(descriptor)))
        except OSError:
            pass
    return {name for name in names if name.endswith(".mp4")}


class Jobs(harness.Case):
    def setUp(self):
        super().setUp()
        (self.folder / "clips").mkdir()
        for i in range(COUNT):
            clip = clips.encoded(f"job{i}.mp4", *clips.H264, "-pix_fmt", "yuv420p", filters="scale=64:48",
                                 frames=FRAMES + i)
            shutil.copy(clip, self.folder / "clips" / f"c{i}.mp4")
        self.frames = {f"c{i}": FRAMES + i for i in range(COUNT)}

    def pipeline(self, top="", threads=1, more="", **stages):
        return pipeline(dict(clip="uri: clips" + more), top=top, decode=f"threads: {threads}", **stages,
                        results='type: jsonl, path: "${OUTPUT:--}"')

    def check(self, run, frames=None):
        self.assert_balanced(run)
        self.assertEqual({source["id"]: source["in"] for source in run.summary["sources"]}, frames or self.frames)
        self.assertEqual(run.ledger["delivered"], run.ledger["in"])
        for id in self.frames:
            self.assert_in_order(run.of(id))

    def rows_of(self, run):
        return sorted(json.dumps(row, sort_keys=True) for row in run.rows)

    def test_the_same_rows(self):
        expected = self.run_pipeline(self.pipeline(**BATCHES), "--jobs", COUNT)
        self.check(expected)
        for workers in (1, 2, 8):
            for jobs, threads in ((1, 1), (2, 2), (5, 1), (40, 1)):
                with self.subTest(workers=workers, jobs=jobs):
                    run = self.run_pipeline(self.pipeline(threads=threads, **BATCHES), "--jobs", jobs,
                                            "--workers", workers)
                    self.check(run)
                    self.assertEqual(self.rows_of(run), self.rows_of(expected))

    def test_one_after_the_other(self):
        run = self.run_pipeline(self.pipeline(), "--jobs", 1)
        self.assertEqual([row["source"] for row in run.rows], [id for id, n in self.frames.items() for _ in range(n)])

    def running(self, text, *arguments):
        """A run whose results go into a small pipe, and the end to read them from."""
        fifo = self.folder / "fifo"
        if not fifo.exists():
            os.mkfifo(fifo)
        end = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 4096)
        child = self.spawn([MILLRACE, "run", self.write(text), "--output", fifo, "--json", *PATIENT, *arguments],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return child, end

    def watch(self, child, end, enough):
        """Waits until `enough` clips are being read, in a run whose results nobody takes."""
        readable = select.poll()
        readable.register(end, select.POLLIN)
        until = time.monotonic() + harness.TIMEOUT
        while time.monotonic() < until and not (readable.poll(10) and len(open_clips(child.pid)) >= enough):
            self.assertIsNone(child.poll())

    def end(self, child, end, each=lambda: None):
        os.set_blocking(end, True)
        rows = b""
        while piece := os.read(end, 4096):
            rows += piece
            each()
        os.close(end)
        out, err = child.communicate(timeout=harness.TIMEOUT)
        run = harness.Run(subprocess.CompletedProcess([], child.returncode, out, err),
                          [json.loads(row) for row in rows.decode().splitlines()])
        self.assertEqual(run.code, 0, err)
        return run

    def test_no_more_at_a_time(self):
        for jobs, threads in ((1, 1), (2, 2), (5, 1)):
            with self.subTest(jobs=jobs):
                most = {"threads": 0, "decoders": 0, "files": 0}

                def look():
                    names = threads_of(child.pid)
                    most["threads"] = max(most["threads"], sum(name in self.frames for name in names))
                    most["decoders"] = max(most["decoders"], names.count("decode"))
                    most["files"] = max(most["files"], len(open_clips(child.pid)))

                child, end = self.running(self.pipeline(threads=threads), "--jobs", jobs)
                self.watch(child, end, jobs)
                look()
                self.check(self.end(child, end, look))
                told = self.plan("--jobs", jobs, text=self.pipeline(threads=threads))["processes"][0]["threads"]
                decoders = sum(thread["count"] for thread in told if thread["stage"] == "decode")
                self.assertEqual(most, {"threads": jobs, "decoders": decoders, "files": jobs})
                self.assertEqual(decoders, 0 if threads == 1 else (1 + threads) * jobs)

    def test_a_folder_by_itself_is_bounded(self):
        for workers, at_a_time in ((1, 2), (3, 3), (40, COUNT)):
            told = self.plan("--workers", workers)
            self.assertEqual(told["jobs"], {"at_a_time": at_a_time, "of": COUNT})
        inputs = [word for i in range(3) for word in ("--input", self.folder / f"clips/c{i}.mp4")]
        self.assertEqual(self.plan(*inputs, "--workers", 1)["jobs"], {"at_a_time": 0, "of": 0})
        self.assertEqual(self.plan(*inputs, "--jobs", 2)["jobs"], {"at_a_time": 2, "of": 3})
        self.assertEqual(self.plan(text=self.pipeline(top="jobs: 4"))["jobs"]["at_a_time"], 4)
        self.assertEqual(self.plan("--jobs", 3, text=self.pipeline(top="jobs: 4"))["jobs"]["at_a_time"], 3)
        for clock in (", realtime: true", ", loop: true"):  # these run in parallel
            self.assertEqual(self.plan("--workers", 2, text=self.pipeline(more=clock))["jobs"]["of"], 0)

    def plan(self, *arguments, text=None):
        return self.planned(text or self.pipeline(), *arguments)

    def test_the_plan_counts_them(self):
        for jobs in (1, 2, 5, COUNT):
            told = self.plan("--jobs", jobs, "--workers", 2)
            threads = told["processes"][0]["threads"]
            self.assertEqual(sum(thread["count"] for thread in threads if thread["what"] == "source"), jobs)
            decode = told["stages"][0]
            self.assertEqual(len(decode["instances"]), jobs)
            row, = [row for row in told["memory_rows"] if row["of"] == "decode"]
            self.assertEqual(row["bytes"], jobs * decode["pools"][0]["most_bytes"])
        text = call([MILLRACE, "plan", self.write(self.pipeline()), "--jobs", 5]).stdout
        self.assertIn("5 of 12 sources at a time (jobs)", text)

    def test_no_more_memory_than_planned(self):
        told = self.plan("--jobs", 2)
        run = self.run_pipeline(self.pipeline(), "--jobs", 2)
        self.assertLessEqual(run.summary["buffers"]["host_bytes"], told["memory"]["host"]["bytes"])

    def test_one_is_broken(self):
        for broken in ("c0", "c7"):
            path = self.folder / f"clips/{broken}.mp4"
            whole = path.read_bytes()
            path.write_bytes(whole[:300])
            for jobs in (1, 5, 40):
                with self.subTest(broken=broken, jobs=jobs):
                    run = self.run_pipeline(self.pipeline(**BATCHES), "--jobs", jobs, code=65)
                    self.check(run, {**self.frames, broken: 0})
                    self.assertIn(f"warning: sources.{broken}: ", run.err)
                    failed = [source["id"] for source in run.summary["sources"] if source["error"]]
                    self.assertEqual(failed, [broken])
            path.write_bytes(whole)

    def test_all_are_broken(self):
        for i in range(COUNT):
            (self.folder / f"clips/c{i}.mp4").write_bytes(b"no video")
        run = self.run_pipeline(self.pipeline(), code=65)
        self.assertIn("sources.clip: none of its 12 videos can be read", run.err)

    def test_it_is_asked_to_end(self):
        for jobs in (1, 5):
            with self.subTest(jobs=jobs):
                child, end = self.running(self.pipeline(**BATCHES), "--jobs", jobs, "--workers", 2)
                self.watch(child, end, jobs)
                child.send_signal(signal.SIGTERM)
                run = self.end(child, end)
                self.assert_balanced(run)
                frames = {source["id"]: source["in"] for source in run.summary["sources"]}
                self.assertEqual(frames["c11"], 0)
                self.assertEqual(len(run.rows), run.ledger["delivered"])

    def test_it_goes_on(self):
        """The next run does what a stopped run left, one clip after another."""
        checkpoint, results = self.folder / "checkpoint", self.folder / "results"
        text = self.pipeline().replace('"${OUTPUT:--}"', f'"{results}"')
        arguments = ["--resume", checkpoint, "--jobs", 2, "--json"]
        child = start([MILLRACE, "run", self.write(text), *arguments], stdout=subprocess.PIPE,
                      stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + harness.TIMEOUT
        while time.monotonic() < until and child.poll() is None and not (results.exists() and results.stat().st_size):
            time.sleep(0.001)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=harness.TIMEOUT)
        run = self.run_pipeline(text, *arguments[:-1], rows=False)
        self.assert_balanced(run)
        rows = [json.loads(row) for row in results.read_text().splitlines()]
        told = {id: [row["seq"] for row in rows if row["source"] == id] for id in self.frames}
        self.assertEqual(told, {id: list(range(count)) for id, count in self.frames.items()})

    def test_what_cannot_be(self):
        run = self.run_pipeline(self.pipeline(more=", loop: true"), "--jobs", 2, code=78, verb="plan", rows=False)
        self.assertIn('jobs: 2 of 12 sources run at a time, and "c0" never ends: others would never start', run.err)
        nodes = self.pipeline() + "nodes: {a: {stages: [decode]}, b: {stages: [results]}}\n"
        run = self.run_pipeline(nodes, "--jobs", 2, code=78, verb="plan", rows=False)
        self.assertIn("jobs: 2: with nodes all sources are open at once", run.err)
        self.run_pipeline(nodes, "--jobs", 2, "--one-process")
        for wrong in ("0", "-1", "many", "10001"):
            self.millrace("run", self.write(self.pipeline()), "--jobs", wrong, code=64,
                          says="--jobs takes a number from 1 to 10000")
