"""record: the files around events hold the source's pictures, by hash, each once; triggers that meet share a
file; the JSON beside each says what is in it."""
import json
import shutil
import signal
import subprocess
import time

import clips
from harness import MILLRACE, TIMEOUT, Case, call, pipeline, start
from test_full import Mounted
from test_video import Read, hashes


def recorded(uri, source, path, record, rows):
    return pipeline(dict(cam=f'uri: "{uri}"{source}'), name="record", decode="threads: 1", motion="threshold: 0.2",
                    record=f'input: [cam, motion], path: "{path}"{record}',
                    rows=f'type: jsonl, input: motion, path: "{rows}"')


RATE, GOP = 25, 25


def clip(*moments, seconds=16):
    """A small field differs in each picture, and half of the picture flickers for 0.4 s from each given moment."""
    moving = "+".join(f"between(T,{at},{at + 0.4})" for at in moments) or "0"
    luma = f"if(gt({moving},0)*gt(X,80),255*mod(N,2),if(lt(X,16)*lt(Y,16),mod(N*7,256),128))"
    name = "moves-" + "-".join(map(str, moments)) + ".mp4"
    return clips.made(name, f"{name} {luma} {seconds} 2", lambda path: clips.ffmpeg(
        "-f", "lavfi", "-i", f"nullsrc=size=160x96:rate={RATE}:duration={seconds}", "-vf",
        f"geq=lum='{luma}':cb=128:cr=128", "-c:v", "libx264", "-preset", "veryfast", "-g", GOP, "-keyint_min", GOP,
        "-sc_threshold", 0, "-bf", 2, "-pix_fmt", "yuv420p", path))


class Record(Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("ffmpeg"):
            self.skipTest("no ffmpeg")
        self.path, self.rows = self.folder / "events", self.folder / "rows.jsonl"

    def text(self, uri, record="", source="", **more):
        return recorded(uri=uri, path=self.path, rows=self.rows, record=record, source=source, **more)

    def recorded(self, uri, record="", code=0, arguments=()):
        run = self.run_pipeline(self.text(uri, record), *arguments, rows=False, code=code)
        if code == 0:
            self.assert_balanced(run)
        return run, self.found()

    def found(self):
        """The JSON files in order, each with the video's first and last picture."""
        return [json.loads(path.read_text()) for path in sorted(self.path.glob("*.json"))]

    def check(self, uri, one, first, last):
        """The file has the source's pictures first to last, and nothing else."""
        found = hashes(self.path / one["file"])
        self.assertEqual(found, hashes(uri)[first:last + 1])
        self.assertTrue(one["complete"])
        self.assertEqual(one["packets"]["count"], last + 1 - first)
        self.assertEqual(one["packets"]["first_pts_ns"], first * 1000000000 // RATE)

    def seqs(self):
        return [json.loads(line)["seq"] for line in self.rows.read_text().splitlines()]

    def test_two_events_are_two_files(self):
        uri = clip(6, 12)
        for workers in (1, 2, 16):
            with self.subTest(workers=workers):
                shutil.rmtree(self.path, ignore_errors=True)
                _, found = self.recorded(uri, ", before: 1500ms, after: 1s, name: '{source}-{number}.mp4'",
                                         arguments=("--workers", workers))
                self.assertEqual([one["file"] for one in found], ["cam-000000.mp4", "cam-000001.mp4"])
                triggers = [[trigger["seq"] for trigger in one["triggers"]] for one in found]
                self.assertEqual(triggers[0] + triggers[1], self.seqs()[1:])
                for one, at in zip(found, (6, 12), strict=True):
                    self.assertTrue(at * RATE <= one["triggers"][0]["seq"] <= at * RATE + 2)
                    self.assertEqual(one["triggers"][0]["stage"], "motion")
                    # From the last key frame that is at least 1.5 s earlier to one second after the last trigger.
                    # Packets decoded before pictures shown earlier are included.
                    first = (one["triggers"][0]["seq"] - RATE * 3 // 2) // GOP * GOP
                    last = one["triggers"][-1]["seq"] + RATE
                    count = len(hashes(self.path / one["file"]))
                    self.assertTrue(last <= first + count - 1 <= last + 5, (first, count, last))
                    packets = Read(self.path / one["file"]).times
                    self.assertEqual(len(packets), len(set(packets)))
                    self.assertEqual(one["packets"]["first_pts_ns"], first * 1000000000 // RATE)
                    self.assertEqual(one["packets"]["count"], count)
                    self.assertTrue(one["complete"])
                    whole, mine = hashes(uri), hashes(self.path / one["file"])
                    self.assertEqual(mine[:last + 1 - first], whole[first:last + 1])

    def test_events_that_meet_share_a_file(self):
        """The second overlaps the first; the third only overlaps what was kept open."""
        uri = clip(5, 7, 9.3)
        _, found = self.recorded(uri, ", before: 2s, after: 1s")
        self.assertEqual(len(found), 1)
        packets = Read(self.path / found[0]["file"]).times
        self.assertEqual(len(packets), len(set(packets)))
        for before, after in zip(packets, packets[1:]):
            self.assertAlmostEqual(after - before, 1 / RATE, delta=1e-3)
        self.assertEqual(found[0]["packets"]["first_pts_ns"], 3 * 1000000000)
        self.assertGreaterEqual(len(packets), (9.3 + 1 - 3) * RATE)

    def test_no_packet_is_in_two_files(self):
        """Files limited to two seconds follow each other without a gap."""
        uri = clip(4, 5, 6, 7, 8)
        _, found = self.recorded(uri, ", before: 1s, after: 1s, longest: 2s, name: '{source}-{number}.mkv'")
        self.assertGreaterEqual(len(found), 3)
        joined = sum((hashes(self.path / one["file"]) for one in found), [])
        first = found[0]["packets"]["first_pts_ns"] * RATE // 1000000000
        self.assertEqual(joined, hashes(uri)[first:first + len(joined)])
        for one, other in zip(found, found[1:]):
            self.assertEqual(one["packets"]["last_seq"] + 1, other["packets"]["first_seq"])

    def test_little_memory_keeps_what_it_can(self):
        uri = clip(6)
        _, found = self.recorded(uri, ", before: 5s, after: 1s, memory: 64KiB")
        self.assertEqual(len(found), 1)
        self.assertGreaterEqual(found[0]["packets"]["count"], RATE)

    def test_nothing_happens(self):
        _, found = self.recorded(clip(seconds=3))
        self.assertEqual((found, list(self.path.iterdir())), ([], []))

    def test_the_oldest_are_removed_with_what_is_beside_them(self):
        """Another source's files stay, and the numbers there do not matter."""
        others = ["cam-123456-2.json", "cam-123456-2.mp4"]
        self.path.mkdir()
        for name in others:
            (self.path / name).write_text("{}")
        self.recorded(clip(6, 12), ", before: 1s, after: 1s, name: '{source}-{number}.mp4', keep_for: 1ms")
        self.assertEqual(sorted(path.name for path in self.path.iterdir()),
                         ["cam-000001.json", "cam-000001.mp4"] + others)

    def test_what_cannot_work_is_refused(self):
        uri = clip(seconds=3)
        for change, words in ((("[cam, motion]", "motion"), "gives no packets"),
                              (("path: ", "before: 30s, path: "), "keep must be at least as long as before"),
                              (("path: ", "name: '{source}.mp4', path: "), "name needs {time} or {number}"),
                              (("path: ", "name: '{source}.m3u8', path: "), "a recording is one file")):
            with self.subTest(words):
                text = self.text(uri).replace(change[0], change[1], 1)
                run = self.run_pipeline(text, rows=False, code=78, verb="plan")
                self.assertIn(words, run.err)

    def test_a_process_that_is_killed_leaves_what_can_be_read(self):
        path = self.write(self.text(clip(1, 2, 3, 4, 5, 6), ", before: 1s, after: 1s", ", realtime: true"))
        run = start([MILLRACE, "run", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.kill)
        self.wait_until(lambda: any(file.stat().st_size > 4000 for file in self.path.glob("*.mp4")))
        run.send_signal(signal.SIGKILL)
        run.wait()
        (one,) = self.found()
        self.assertFalse(one["complete"])
        self.assertEqual(sorted(one["packets"]), ["epoch", "first_pts_ns", "first_seq"])  # no outdated count
        self.assertGreaterEqual(one["trigger_count"], 1)
        found = hashes(self.path / one["file"])
        first = one["packets"]["first_pts_ns"] * RATE // 1000000000
        self.assertGreaterEqual(len(found), RATE)
        self.assertEqual(found[:-3], hashes(clip(1, 2, 3, 4, 5, 6))[first:first + len(found) - 3])

    def test_a_full_disk_is_waited_for(self):
        """Files follow each other without a gap when there is room."""
        uri, disk = clip(4, 5, 6, 7, 8), Mounted(self)
        self.path = disk.folder / "events"
        self.assertEqual(call(["mount", "-o", "remount,nr_inodes=6", disk.folder]).returncode, 0)
        options = ", before: 1s, after: 1s, longest: 2s, name: '{source}-{number}.mkv', on_full: wait"
        path = self.write(self.text(uri, options))
        told = self.folder / "told"
        with open(told, "w") as file:
            run = start([MILLRACE, "run", path], stdout=subprocess.DEVNULL, stderr=file)
        self.addCleanup(run.kill)
        self.wait_until(lambda: "waiting until there is room" in told.read_text(), told, run)
        self.assertEqual(call(["mount", "-o", "remount,nr_inodes=100", disk.folder]).returncode, 0)
        self.assertEqual(run.wait(TIMEOUT), 0, told.read_text())
        found = self.found()
        self.assertGreaterEqual(len(found), 3)
        joined = sum((hashes(self.path / one["file"]) for one in found), [])
        first = found[0]["packets"]["first_pts_ns"] * RATE // 1000000000
        self.assertEqual(joined, hashes(uri)[first:first + len(joined)])
        self.assertTrue(all(one["complete"] for one in found))
        self.assertGreaterEqual(len(joined), (8.4 + 1 - 3) * RATE)

    def test_a_person_triggers(self):
        """A trigger names the stage's or the source's id; other ids do nothing."""
        control = self.folder / "own" / "control"
        text = self.text(clip(1), ", before: 10s, after: 500ms, name: '{source}-{number}.mp4'",
                         ", realtime: true, loop: true")
        path = self.write(text.replace("[cam, motion]", "cam"))
        run = start([MILLRACE, "run", path, "--control", control], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.kill)
        deadline = time.monotonic() + TIMEOUT
        for count, name in enumerate(("record", "cam"), 1):
            while call([MILLRACE, "ctl", "--control", control, "trigger", name]).returncode:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            while sum(one["trigger_count"] for one in self.found()) < count:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
        for name in ("decode", "nobody"):
            self.millrace("ctl", "--control", control, "trigger", name, code=64,
                          says=f'"{name}" is neither a stage that can be triggered nor a source of one')
        # The wanted pictures are on disk, although the file stays open for further triggers.
        counts = (0, None)
        while counts[0] == 0 or counts[0] != counts[1]:
            self.assertLess(time.monotonic(), deadline, counts)
            time.sleep(0.05)
            one = self.found()[0]
            self.assertFalse(one["complete"])
            counts = one["packets"]["count"], one["packets"]["count"] and len(Read(self.path / one["file"]).times)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(TIMEOUT), 0)
        for one in self.found():
            self.assertTrue(one["complete"])
            self.assertEqual({trigger["stage"] for trigger in one["triggers"]}, {"ctl"})
            self.assertEqual(len(hashes(self.path / one["file"])), one["packets"]["count"])

    def test_a_class_triggers(self):
        """Classes from three histogram bins: bright pictures are the event's."""
        import numpy
        weights = self.folder / "weights.npy"
        numpy.save(weights, numpy.array([[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0],
                                         [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]], "f4"))
        labels = self.folder / "labels.txt"
        labels.write_text("bright\ndull\n")
        options = ", before: 1s, after: 1s, classes: [bright], score: 2, name: '{source}-{number}.mp4'"
        text = self.text(clip(6), options)
        text = text.replace("  record: {input: [cam, motion]",
                            "  histogram: {input: decode, bins: 4}\n  classify: {input: "
                            f"histogram, weights: \"{weights}\", labels: \"{labels}\", activation: none}}\n"
                            "  record: {input: [cam, classify]")
        self.run_pipeline(text, rows=False)
        (one,) = self.found()
        for trigger in one["triggers"]:
            self.assertEqual((trigger["stage"], trigger["label"]), ("classify", "bright"))
            self.assertTrue(6 * RATE <= trigger["seq"] <= 6.4 * RATE + 1)
