"""train is killed while making vectors: the next run must use those that were written, make the others, and give the
same weights."""
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import digits
from harness import MILLRACE, Case, call, start

HEAD, LISTED, VECTOR = 64, 40, 4 * 900
PATIENCE = 120


class Killed(Case):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory(prefix="millrace-")
        cls.addClassCleanup(kept.cleanup)
        cls.kept = pathlib.Path(kept.name)
        files = digits.files(digits.cut(cls.kept), 300)
        broken = cls.kept / "broken.png"
        broken.write_bytes(files[0][0].read_bytes()[:100])
        cls.rows = [[path, label, "", part] for (path, label), part in zip(files, digits.parts(len(files)))]
        cls.rows.insert(40, [broken, "0", "", "train"])
        cls.pictures = len(files)
        cls.data = digits.write_list(cls.kept / "files.csv", cls.rows)
        cls.expected = cls.undisturbed(cls.data, cls.pictures)

    @classmethod
    def command(cls, data, head, cache):
        return [MILLRACE, "train", digits.PIPELINE, "--data", data, "--output", head, "--cache", cache, "--penalty",
                "0.0001", "--no-look-alikes", "--threads", "1", "--json"]

    @classmethod
    def undisturbed(cls, data, made):
        head = cls.kept / f"{data.stem}-head"
        done = call(cls.command(data, head, cls.kept / f"{data.stem}-cache"), check=True)
        told = json.loads(done.stdout)
        assert told["vectors"]["made"] == made, told["vectors"]
        return (head / "weights.npy").read_bytes(), told["left_out"]

    def setUp(self):
        super().setUp()
        self.head, self.cache = self.folder / "head", self.folder / "cache"

    def left(self, suffix):
        paths = list(self.cache.glob(f"*{suffix}"))
        self.assertEqual(len(paths), 1, suffix)
        return paths[0]

    def begin(self, data):
        process = start(self.command(data, self.head, self.cache), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def await_bytes(self, process, suffix, count):
        """Waits until a cache file has this many bytes, and stops the process there."""
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            if any(path.stat().st_size >= count for path in self.cache.glob(f"*{suffix}")):
                process.send_signal(signal.SIGSTOP)
                return
        self.fail(f"{suffix} has not become so large")

    def kill_at(self, data, suffix, count):
        """Kills it there; returns how many vectors are listed."""
        process = self.begin(data)
        self.await_bytes(process, suffix, count)
        process.kill()
        self.assertEqual(process.wait(), -signal.SIGKILL)
        self.assertEqual(list(self.cache.glob("*.vectors")), [])
        return (self.left(".part.made").stat().st_size - HEAD) // LISTED

    def finish(self, data, made, expected):
        done = call(self.command(data, self.head, self.cache))
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual(told["vectors"]["made"], made, done.stderr)
        self.assertEqual(((self.head / "weights.npy").read_bytes(), told["left_out"]), expected)
        self.assertEqual([path.name for path in self.cache.iterdir() if path.suffix != ".vectors"], [])
        return done.stderr

    def test_several_moments(self):
        for vectors in (1, 700, 2500):
            with self.subTest(vectors=vectors):
                self.cache = self.folder / f"cache-{vectors}"
                listed = self.kill_at(self.data, ".part.made", HEAD + vectors * LISTED)
                self.assertGreaterEqual(listed, vectors)
                said = self.finish(self.data, self.pictures - listed, self.expected)
                self.assertIn(f"a run was killed while it made vectors; kept of it: {listed}\n", said)

    def test_killed_twice(self):
        listed = self.kill_at(self.data, ".part.made", HEAD + 300 * LISTED)
        process = self.begin(self.data)
        self.await_bytes(process, ".vectors", HEAD + listed * VECTOR)  # until then the list is the first one's
        process.send_signal(signal.SIGCONT)
        self.await_bytes(process, ".part.made", HEAD + 300 * LISTED)
        process.kill()
        process.wait()
        listed += (self.left(".part.made").stat().st_size - HEAD) // LISTED
        self.finish(self.data, self.pictures - listed, self.expected)

    def test_a_flipped_byte(self):
        listed = self.kill_at(self.data, ".part.made", HEAD + 500 * LISTED)
        part = self.left(".part")
        data = bytearray(part.read_bytes())
        data[HEAD + 7 * VECTOR + 100] ^= 0x40
        part.write_bytes(data)
        said = self.finish(self.data, self.pictures - listed + 1, self.expected)
        self.assertIn(f"kept of it: {listed - 1}; not written whole, and made anew: 1\n", said)

    def test_one_that_waits_for_the_killed_one(self):
        first = self.begin(self.data)
        self.await_bytes(first, ".part.made", HEAD + 100 * LISTED)
        self.head = self.folder / "other"
        second = self.begin(self.data)
        self.assertIn("another program makes vectors for the same cache: waiting", second.stderr.readline())
        first.kill()
        told, said = second.communicate()
        self.assertEqual(second.returncode, 0, said)
        listed = int(re.search(r"kept of it: (\d+)", said)[1])
        self.assertGreaterEqual(listed, 100)
        self.assertEqual(json.loads(told)["vectors"]["made"], self.pictures - listed)
        self.assertEqual((self.head / "weights.npy").read_bytes(), self.expected[0])

    def test_a_video_of_which_some_pictures_are_there(self):
        video = self.kept / "moving.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25:duration=40",
                        "-pix_fmt", "yuv420p", video], check=True)
        rows = self.rows[::10]
        data = digits.write_list(self.kept / "video.csv", [*rows, [video, "3", "", "train"]])
        pictures = sum(path.name != "broken.png" for path, *_ in rows)
        expected = self.undisturbed(data, pictures + 1000)
        # Its vectors follow the pictures' vectors.
        listed = self.kill_at(data, ".part", HEAD + (len(rows) + 1 + 50) * VECTOR)
        self.assertGreater(listed, 0)
        self.finish(data, pictures + 1000 - listed, expected)
