"""Videos in train's and evaluate's lists: a row with a range stands for the pictures that ffprobe shows in it. Their
vectors must equal those for the same pictures in separate files."""
import base64
import io
import json
import pathlib
import re
import subprocess

import numpy
from PIL import Image

import digits
from harness import MILLRACE, call

NAMES = ("path", "label", "start", "end", "split", "group")


def ffmpeg(*arguments):
    subprocess.run(["ffmpeg", "-v", "error", "-y", *map(str, arguments)], check=True)


def times(path):
    """For all pictures, in display order, in seconds from the stream's start."""
    told = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries",
                           "frame=best_effort_timestamp_time:stream=start_time", "-of", "json", path], check=True,
                          capture_output=True, text=True).stdout
    told = json.loads(told)
    first = float(told["streams"][0]["start_time"])
    return [float(frame["best_effort_timestamp_time"]) - first for frame in told["frames"]]


def of_range(path, start=0.0, end=float("inf")):
    return [at for at in times(path) if start - 1e-6 <= at < end - 1e-6]


def made_at(path):
    """A cache's vectors, and their pictures' times. A record that ends a video has no vector."""
    kept = [(key[2] / 1e9, numpy.frombuffer(vector, numpy.float32)) for key, vector in digits.by_content(path).items()]
    kept = [one for one in kept if one[1].any()]
    return [at for at, _ in kept], numpy.array([vector for _, vector in kept])


class Clips(digits.Kept):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Pictures shown in another order than decoded, with fractional times; a video whose times do not begin at 0;
        # and a lossless one.
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=96x80:r=30000/1001:d=4", "-c:v", "libx264", "-bf", 3, "-g", 25,
               cls.kept / "a.mp4")
        ffmpeg("-f", "lavfi", "-i", "mandelbrot=s=96x80:r=25", "-t", 3, "-c:v", "mpeg2video", "-bf", 2,
               "-output_ts_offset", 5, cls.kept / "b.ts")
        ffmpeg("-f", "lavfi", "-i", "testsrc=s=96x80:r=10:d=2", "-pix_fmt", "gray", "-c:v", "ffv1", cls.kept / "c.mkv")

    def setUp(self):
        super().setUp()
        self.head = self.folder / "head"
        self.cache = self.folder / "cache"

    def list(self, *rows, name="clips.csv"):
        return digits.write_list(self.kept / name, [[*row, *[""] * (len(NAMES) - len(row))] for row in rows], NAMES)

    def train(self, data, *arguments, code=0, pipeline=digits.PIPELINE):
        done = self.millrace("train", pipeline, "--data", data, "--output", self.head, "--cache", self.cache,
                             "--penalty", "0.1", "--no-look-alikes", "--json", *arguments, code=code)
        return json.loads(done.stdout) if not code else done.stderr

    def evaluate(self, data, *arguments, pipeline=digits.PIPELINE):
        """(file, time) for the scored pictures, in order, and what was reported."""
        scores = self.folder / "scores.jsonl"
        done = self.millrace("evaluate", pipeline, "--data", data, "--json", "--scores", scores, *arguments,
                             environment={"HEAD": str(self.head)})
        rows = [json.loads(line) for line in scores.read_text().splitlines()]
        return [(pathlib.Path(row["file"]).name, row.get("at")) for row in rows], json.loads(done.stdout)

    def assert_times(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            self.assertAlmostEqual(one, other, delta=2e-6)

    def test_ranges(self):
        """Each [start, end) must be exact to the picture: bounds between pictures, on one, and open ones."""
        a, b = times(self.kept / "a.mp4"), times(self.kept / "b.ts")
        rows = [("a.mp4", "x", 0.5, f"{a[40]:.6f}", "train"), ("a.mp4", "y", f"{a[40]:.6f}", 2, "train"),
                ("b.ts", "y", 1.5, "", "test"), ("b.ts", "x", "", 1.0, "test"), ("a.mp4", "y", 3, "", "train"),
                ("c.mkv", "x", "", "", "validation")]
        told = self.train(self.list(*rows))
        expected = (of_range(self.kept / "a.mp4", 0.5, a[40]) + of_range(self.kept / "a.mp4", a[40], 2) +
                    of_range(self.kept / "b.ts", 1.5) + of_range(self.kept / "b.ts", 0, 1) +
                    of_range(self.kept / "a.mp4", 3) + times(self.kept / "c.mkv"))
        self.assertEqual(told["vectors"]["rows"], len(expected))
        self.assertEqual(told["vectors"]["made"], len(expected))
        found, _ = made_at(told["vectors"]["cache"])
        self.assert_times(sorted(found), sorted(expected))
        self.assertEqual(sum(row["train"] for row in told["classes"]),
                         len(of_range(self.kept / "a.mp4", 0.5, 2)) + len(of_range(self.kept / "a.mp4", 3)))
        again = self.train(self.kept / "clips.csv")
        self.assertEqual(again["vectors"]["made"], 0)
        self.assertEqual(again["test"], told["test"])
        # Pictures leave the stages in any order and are stored in theirs: the bits must be the same for any number of
        # threads.
        weights = (self.head / "weights.npy").read_bytes()
        for threads in ("1", "4", "16"):
            self.cache = self.folder / threads
            self.train(self.kept / "clips.csv", "--threads", threads)
            self.assertEqual((self.head / "weights.npy").read_bytes(), weights)

        scored, evaluated = self.evaluate(self.kept / "clips.csv", "--part", "test")
        self.assertEqual([name for name, _ in scored], ["b.ts"] * len(scored))
        self.assert_times([at for _, at in scored], [at for at in b if at >= 1.5 - 1e-6] + [at for at in b if at < 1.0])
        self.assertEqual(evaluated["confusion"], told["test"]["confusion"])
        self.assertEqual(evaluated["log_loss"], told["test"]["log_loss"])

    def test_every_and_fps(self):
        """As the pipeline's own source chooses."""
        rows = [("a.mp4", "x", 0.5, 2, "train"), ("c.mkv", "y", 0.3, "", "train"), ("b.ts", "x", "", 2, "test")]
        data = self.list(*rows)
        wanted = [of_range(self.kept / "a.mp4", 0.5, 2), of_range(self.kept / "c.mkv", 0.3),
                  of_range(self.kept / "b.ts", 0, 2)]
        text = digits.PIPELINE.read_text()
        third = self.write(text.replace('digits}"}', 'digits}", every: 3}'))
        told = self.train(data, pipeline=third)
        self.assertEqual(told["vectors"]["rows"], sum(len(some[::3]) for some in wanted))
        scored, _ = self.evaluate(data, pipeline=third)
        self.assert_times([at for _, at in scored], [at for some in wanted for at in some[::3]])
        slow = self.write(text.replace('digits}"}', 'digits}", fps: 5}'))
        told = self.train(data, pipeline=slow)
        self.assertEqual(told["vectors"]["made"], told["vectors"]["rows"])  # none from every third
        # The first picture in each fifth of a second from the range's start.
        expected = []
        for (_, _, start, *_), some in zip(rows, wanted):
            slots = [int((at - (start or 0)) * 5 + 1e-6) for at in some]
            expected += [at for i, at in enumerate(some) if i == 0 or slots[i] != slots[i - 1]]
        scored, _ = self.evaluate(data, pipeline=slow)
        self.assert_times([at for _, at in scored], expected)

    def test_vectors_are_those_of_the_pictures(self):
        ffmpeg("-i", self.kept / "c.mkv", "-vf", "select='between(n,4,11)'", "-vsync", "0", self.folder / "%02d.png")
        told = self.train(self.list(("c.mkv", "x", 0.4, 0.8, "train"), ("c.mkv", "y", 0.8, 1.2, "train")))
        at, clips = made_at(told["vectors"]["cache"])
        order = numpy.argsort(at)
        self.assert_times([at[i] for i in order], [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1])
        self.cache = self.folder / "other"
        told = self.train(self.list(*[(self.folder / f"{i:02d}.png", "xy"[i > 4], "", "", "train")
                                      for i in range(1, 9)], name="pictures.csv"))
        numpy.testing.assert_array_equal(clips[order], made_at(told["vectors"]["cache"])[1])

    def test_one_video_is_one_group(self):
        """With any seed: all rows must be in one part, unless they name groups."""
        rows = [("a.mp4", "xy"[i % 2], i * 0.5, i * 0.5 + 0.5) for i in range(8)]
        data = self.list(*rows, ("c.mkv", "x", "", 1, "train"), ("c.mkv", "y", 1, "", "train"))
        for seed in range(1, 9):
            told = self.train(data, "--seed", str(seed))
            parts = [sum(row[part] for row in told["classes"]) for part in ("train", "validation", "test")]
            parts[0] -= 20
            self.assertEqual(sorted(parts), [0, 0, len(times(self.kept / "a.mp4"))])
        error = self.train(self.list(("a.mp4", "x", 0, 1, "train"), ("a.mp4", "y", 1, 2, "test")), code=65)
        self.assertIn("is for train in line 2, and for test in line 3: a video is in one part, unless", error)
        told = self.train(self.list(("a.mp4", "x", 0, 1, "train", "p"), ("a.mp4", "y", 1, 2, "train", "q"),
                                    ("a.mp4", "y", 2, 3, "test", "r")))
        self.assertEqual(told["test"]["rows"], len(of_range(self.kept / "a.mp4", 2, 3)))

    def test_left_out(self):
        (self.kept / "none.mp4").unlink(missing_ok=True)
        (self.kept / "bad.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(5000))
        rows = [("a.mp4", "x", 0, 1, "train"), ("a.mp4", "x", 0, 1, "train"), ("a.mp4", "x", 0.5, 1.5, "train"),
                ("a.mp4", "x", 1.4, 1.6, "train"), ("a.mp4", "x", 2, 3, "train"), ("a.mp4", "y", 2.9, 3.5, "train"),
                ("none.mp4", "x", 0, 1), ("bad.mp4", "y", "", 1), ("b.ts", "y", 7, 9, "test"),
                ("c.mkv", "y", 1, 90, "train")]
        told = self.train(self.list(*rows))
        self.assertEqual([(row["line"], row["reason"], row.get("as_line")) for row in told["left_out"]],
                         [(3, "copy", 2), (4, "overlaps", 2), (6, "contradicts", 7), (7, "contradicts", 6),
                          (8, "unreadable", None), (9, "damaged", None), (10, "damaged", None)])
        self.assertEqual(told["vectors"]["rows"], len(of_range(self.kept / "a.mp4", 0, 1)) +
                         len(of_range(self.kept / "a.mp4", 1.4, 1.6)) + len(of_range(self.kept / "c.mkv", 1)))
        done = self.millrace("train", digits.PIPELINE, "--data", self.kept / "clips.csv", "--output", self.head,
                             "--cache", self.cache, "--penalty", "0.1")
        self.assertIn("clips.csv:4: ", done.stdout)
        self.assertIn("a.mp4 from 0.5 s to 1.5 s", done.stdout)

    def test_look_alikes(self):
        """The same scene in two videos, one smaller, must name both times."""
        ffmpeg("-i", self.kept / "a.mp4", "-s", "88x72", "-t", 1, self.kept / "small.mp4")
        data = self.list(("a.mp4", "x", 0, 0.2, "train"), ("c.mkv", "y", 0, 1, "train"),
                         ("small.mp4", "x", 0, 0.2, "test"))
        done = self.millrace("train", digits.PIPELINE, "--data", data, "--output", self.head, "--cache", self.cache,
                             "--penalty", "0.1", "--json")
        told = json.loads(done.stdout)["look_alike"]
        pairs = {(pathlib.Path(row["file"]).name, round(row["at"], 3), pathlib.Path(row["other"]).name,
                  round(row["other_at"], 3)) for row in told["listed"]}
        for at in of_range(self.kept / "a.mp4", 0, 0.2):
            self.assertIn(("a.mp4", round(at, 3), "small.mp4", round(at, 3)), pairs)

    def small(self, picture):
        """As the page shows it: whole in a square of 128, with white around it."""
        scale = 128 / max(picture.size)
        width, height = (round(side * scale) for side in picture.size)
        square = Image.new("RGB", (128, 128), "white")
        square.paste(picture.resize((width, height), Image.BILINEAR), ((128 - width) // 2, (128 - height) // 2))
        return numpy.asarray(square, dtype=float)

    def test_the_page_shows_the_pictures_of_videos(self):
        """The picture at the stated time, as ffmpeg decodes it; and pictures too large for a page."""
        self.train(self.list(("a.mp4", "x", 1, 1.3, "train"), ("b.ts", "y", 0.5, 0.8, "train")))
        noise = numpy.random.default_rng(1).integers(0, 256, (600, 400, 3), dtype=numpy.uint8)
        noise[:300] //= 4
        Image.fromarray(noise).save(self.kept / "large.png")
        page = self.folder / "page.html"
        for label in "xy":  # one is wrong
            data = self.list(("a.mp4", "y", 1, 1.3), ("b.ts", "x", 0.5, 0.8), ("large.png", label), name="swapped.csv")
            if any(row["file"].endswith("large.png") for row in self.evaluate(data)[1]["surely_wrong"]):
                break
        wrong = {(pathlib.Path(row["file"]).name, row.get("at", 0)): row
                 for row in self.evaluate(data, "--page", page)[1]["surely_wrong"]}
        frames = {name: self.decoded(name) for name in ("a.mp4", "b.ts")}
        frames["large.png"] = [self.small(Image.fromarray(noise))]
        shown = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', page.read_text(), re.S)[1])
        rows = [row for row in shown["surely_wrong"] if row.get("picture")]
        self.assertEqual(len(rows), min(24, len(wrong)))
        self.assertGreaterEqual(len(rows), 10)
        for row in rows:
            name, at = pathlib.Path(row["file"]).name, row.get("at", 0)
            pixels = base64.b64decode(row["picture"].removeprefix("data:image/bmp;base64,"))
            shown = numpy.asarray(Image.open(io.BytesIO(pixels)).convert("RGB"), dtype=float)
            off = [abs(shown - one).mean() for one in frames[name]]
            moments = times(self.kept / name) if at else [0]
            best = int(numpy.argmin(off))
            self.assertAlmostEqual(moments[best], float(at or 0), delta=6e-4, msg=name)
            self.assertLess(off[best], 8, name)  # colours between chroma samples differ

    def decoded(self, name):
        ffmpeg("-i", self.kept / name, "-vsync", "0", self.folder / f"{name}-%03d.png")
        return [self.small(Image.open(path).convert("RGB")) for path in sorted(self.folder.glob(f"{name}-*.png"))]

    def test_a_run_reads_such_a_list(self):
        """Each video is an epoch, since times restart."""
        self.list(("a.mp4", "x", 1, 1.2), ("c.mkv", "y", 0.5, 0.8), ("none.mp4", "x"), ("b.ts", "", 2.8, ""))
        pipeline = self.write(f"""
version: 1
pipeline: clips
sources: {{clips: {{uri: "{self.kept}/clips.csv"}}}}
stages:
  decode: {{input: clips}}
  phash:  {{input: decode}}
  out:    {{type: jsonl, input: phash, path: "-"}}
""")
        done = call([MILLRACE, "run", pipeline])
        self.assertIn("none.mp4", done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        expected = [(0, "x", at) for at in of_range(self.kept / "a.mp4", 1, 1.2)]
        expected += [(1, "y", at) for at in of_range(self.kept / "c.mkv", 0.5, 0.8)]
        expected += [(3, None, at) for at in of_range(self.kept / "b.ts", 2.8)]
        self.assertEqual([(row.get("epoch", 0), row.get("label")) for row in rows], [one[:2] for one in expected])
        self.assert_times([row["pts"] for row in rows], [one[2] for one in expected])
        for key, words in (("loop: 2", "remove loop"), ("duration: 1s", "remove start and duration")):
            text = pathlib.Path(pipeline).read_text().replace('.csv"', f'.csv", {key}')
            done = call([MILLRACE, "run", self.write(text, "other.yaml")])
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
