"""Lost frames: the line that reports them, and --fail-on-loss."""
import json
import math

import clips
import harness
from harness import MILLRACE, call, pipeline

NODES = "nodes: {reads: {stages: [decode]}, writes: {stages: [results]}}\n"


class Loss(harness.Case):
    def test_equal_cameras_get_equal_shares(self):
        """The model takes 50 of 400 frames a second, here and on another node."""
        like, rows = 'uri: "lavfi:testsrc=size=64x48:rate=100:duration=2", realtime: true', self.folder / "shared.jsonl"
        for nodes in ({}, dict(cameras="stages: [decode]", model="stages: [phash, jsonl]")):
            done = call([MILLRACE, "run", self.write(pipeline(
                {f"s{i}": like for i in range(1, 5)}, devices=dict(slow='device: "sim:0?call=20ms"'), decode="",
                phash="device: slow, in_flight: 1, queue: {size: 2, when_full: drop-oldest}", jsonl=f'path: "{rows}"',
                nodes=nodes)), "--quiet"])
            self.assertEqual(done.returncode, 0, done.stderr)
            got = [json.loads(row)["source"] for row in rows.read_text().splitlines()]
            shares = [got.count(f"s{i}") for i in range(1, 5)]
            self.assertGreater(min(shares), 4, shares)
            self.assertGreaterEqual(2 * min(shares), max(shares), shares)  # one may have begun late
            rows.unlink()

    def run_clip(self, *arguments, uri=None, options="", more="", output=None):
        text = pipeline(dict(clip=f"uri: \"{uri or clips.damaged('mp4')}\"{options}"), decode="",
                        results=f"type: jsonl, path: \"{output or self.folder / 'rows.jsonl'}\"") + more
        return call([MILLRACE, "run", self.write(text), *arguments])

    def lost(self):
        """For the damaged clip: how many frames are dropped, and how many come in."""
        ledger = json.loads(self.run_clip("--json").stdout)["ledger"]
        lost = sum(line["frames"] for line in ledger["dropped"])
        self.assertEqual(ledger["absorbed"], [])
        self.assertGreater(lost, 1)
        return lost, ledger["in"]

    def test_the_last_line_tells(self):
        lost, of = self.lost()
        line = f"LOST {lost} of {of} frames: {lost} dropped by decode (corrupt)"
        for arguments in ((), ("--json",)):
            done = self.run_clip(*arguments)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(done.stderr.splitlines()[-1], line)
        self.assertEqual(self.run_clip("--quiet", "--log", "error").stderr, "")
        # If the summary goes to standard error, nothing else may.
        done = self.run_clip("--json", "--log", "error", output="-")
        self.assertEqual(json.loads(done.stderr)["exit_code"], 0)

    def test_nothing_is_told_of_a_whole_clip(self):
        done = self.run_clip("--fail-on-loss", uri=clips.codec("h264 4:2:0"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_a_file_has_no_more(self):
        """Announced frames that are missing are lost too."""
        video, short = harness.PICTURES / "vtest.avi", self.folder / "short.avi"
        if not video.exists():
            self.skipTest(f"no {video}")
        short.write_bytes(video.read_bytes()[:400_000])
        probe = ["ffprobe", "-v", "quiet", "-select_streams", "v:0", "-show_entries",
                 "stream=nb_frames,nb_read_packets", "-of", "csv=p=0"]
        announced = int(call([*probe, video]).stdout.strip().split(",")[0])
        read = int(call([*probe, "-count_packets", short]).stdout.strip().split(",")[-1])
        self.assertLess(read, announced // 10)
        for more in ("", NODES):
            for limit, code in (("99%", 0), ("50%", 65)):
                with self.subTest(more=more, limit=limit):
                    done = self.run_clip("--fail-on-loss", limit, "--json", uri=short, more=more)
                    self.assertEqual(done.returncode, code, done.stderr)
                    ledger = json.loads(done.stdout)["ledger"]
                    lost = announced - read + sum(line["frames"] for line in ledger["dropped"])
                    self.assertIn(f"LOST {lost} of {announced} frames: {announced - read} not read (clip ends early)",
                                  done.stderr)
                    self.assertTrue(ledger["balanced"])

    def test_what_is_absorbed_is_not_lost(self):
        done = self.run_clip("--fail-on-loss", "--json", uri=clips.codec("h264 4:2:0"), options=", every: 3")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreater(len(json.loads(done.stdout)["ledger"]["absorbed"]), 0)

    def test_how_much_may_be_lost(self):
        lost, of = self.lost()
        above, below = math.ceil(lost / of * 100), math.floor(lost / of * 100)
        for limit, code in ((None, 65), ("0", 65), (str(lost), 0), (str(lost - 1), 65), (f"{above}%", 0),
                            (f"{below}%", 65), ("100%", 0), (f"{lost / of * 100 + 0.01:.4f}%", 0)):
            forms = [("--fail-on-loss",)]
            if limit is not None:
                forms = [("--fail-on-loss", limit), (f"--fail-on-loss={limit}",)]
            for form in forms:
                with self.subTest(form):
                    done = self.run_clip(*form)
                    self.assertEqual(done.returncode, code, done.stderr)
                    told = f"error: {lost} of {of} frames were lost, and --fail-on-loss allows {limit or 'none'}\n"
                    self.assertEqual(told.replace("allows 0\n", "allows none\n") in done.stderr, code == 65,
                                     done.stderr)
                    self.assertIn(f"LOST {lost} of {of} frames", done.stderr)

    def test_programs_are_told(self):
        lost, of = self.lost()
        done = self.run_clip("--fail-on-loss", "1", "--json")
        summary = json.loads(done.stdout)
        self.assertEqual((done.returncode, summary["exit_code"]), (65, 65))
        self.assertEqual(summary["error"], f"{lost} of {of} frames were lost, and --fail-on-loss allows 1")
        done = self.run_clip("--fail-on-loss", "--quiet", "--log", "error")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (65, 1), done.stderr)

    def test_over_all_nodes(self):
        lost, of = self.lost()
        for limit, code in ((lost, 0), (lost - 1, 65)):
            done = self.run_clip("--fail-on-loss", limit, "--json", more=NODES)
            self.assertEqual(done.returncode, code, done.stderr)
            summary = json.loads(done.stdout)
            self.assertEqual(summary["exit_code"], code)
            self.assertEqual(summary["error"] is None, code == 0)
            self.assertIn(f"LOST {lost} of {of} frames: {lost} dropped by decode (corrupt)\n", done.stderr)
            self.assertIn("is damaged; those that depend on it are dropped, too (damaged: mark", done.stderr)
        done = self.run_clip("--fail-on-loss", "100%", more=NODES)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.splitlines()[-1],
                         f"LOST {lost} of {of} frames: {lost} dropped by decode (corrupt)")

    def test_what_is_no_limit_is_refused(self):
        for limit in ("x", "-1", "1.5", "101%", "5%%", "1e", "nan", "0x10", "%"):
            with self.subTest(limit):
                done = self.run_clip(f"--fail-on-loss={limit}")
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertIn("--fail-on-loss takes", done.stderr)
