"""train is killed while making vectors: the next run must use those that were written, make the others, and give the
same weights."""
import json
import signal
import subprocess
import time

import digits
from harness import MILLRACE, call, start

PATIENCE = 120


class Killed(digits.Kept):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files = digits.files(digits.cut(), 150)
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

    def begin(self, data):
        process = start(self.command(data, self.head, self.cache), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def stop_at(self, data, count):
        """Stops it once it has made that many vectors."""
        process = self.begin(data)
        end = time.monotonic() + PATIENCE
        while sum(path.stat().st_size for path in self.cache.glob("*.made")) < 64 + count * digits.RECORD.size:
            self.assertIsNone(process.poll(), process.stderr)
            self.assertLess(time.monotonic(), end, "the vectors have not come")
        process.send_signal(signal.SIGSTOP)
        return process

    def kill_at(self, data, count):
        """Returns how many vectors the cache has."""
        process = self.stop_at(data, count)
        process.kill()
        self.assertEqual(process.wait(), -signal.SIGKILL)
        return self.kept_in_cache()

    def kept_in_cache(self):
        (vectors,) = self.cache.glob("*.vectors")
        return len(digits.by_content(vectors))

    def finish(self, data, made, expected):
        done = self.checked(self.command(data, self.head, self.cache))
        told = json.loads(done.stdout)
        self.assertEqual(told["vectors"]["made"], made, done.stderr)
        self.assertEqual(((self.head / "weights.npy").read_bytes(), told["left_out"]), expected)
        self.assertEqual({path.suffix for path in self.cache.iterdir()}, {".vectors", ".made"})
        return done.stderr

    def test_killed_twice_and_damaged(self):
        self.assertGreaterEqual(self.kill_at(self.data, 1), 1)
        kept = self.kill_at(self.data, 700)
        (vectors,) = self.cache.glob("*.vectors")
        data = bytearray(vectors.read_bytes())
        data[7 * 3600 + 100] ^= 0x40
        half = data[:1800]
        vectors.write_bytes(data[:len(data) // 3600 * 3600] + half)
        said = self.finish(self.data, self.pictures - kept + 1, self.expected)
        self.assertIn("the file was damaged; what is not as it was written is made anew", said)

    def test_one_that_waits_for_the_killed_one(self):
        first = self.stop_at(self.data, 100)
        self.head = self.folder / "other"
        second = self.begin(self.data)
        self.assertIn("another program makes vectors for the same cache: waiting", second.stderr.readline())
        first.kill()
        first.wait()
        told, said = second.communicate()
        self.assertEqual(second.returncode, 0, said)
        # A record more than a vector may have been written when the first one was stopped.
        self.assertLessEqual(json.loads(told)["vectors"]["made"], self.pictures - 99)
        self.assertEqual((self.head / "weights.npy").read_bytes(), self.expected[0])

    def test_a_video_of_which_some_pictures_are_there(self):
        video = self.kept / "moving.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25:duration=12",
                        "-pix_fmt", "yuv420p", video], check=True)
        rows = self.rows[::10]
        data = digits.write_list(self.kept / "video.csv", [*rows, [video, "3", "", "train"]])
        pictures = sum(path.name != "broken.png" for path, *_ in rows)
        expected = self.undisturbed(data, pictures + 300)
        # Its vectors follow the pictures' vectors. They are made again, and kept once. Two records
        # end the video and the broken picture.
        self.assertGreater(self.kill_at(data, len(rows) + 50), pictures)
        self.finish(data, 300, expected)
        self.assertEqual(self.kept_in_cache(), pictures + 300 + 2)
