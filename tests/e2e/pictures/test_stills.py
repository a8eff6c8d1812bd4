"""Folders with still pictures that several workers decode at once: results, numbers, outcomes and messages equal
one worker's, also with damaged files."""
import json
import re
import signal
import shutil
import zlib

import cv2
import numpy as np
from PIL import Image

import harness
from harness import pipeline


def stills(folder, source="", decode=""):
    return pipeline(dict(stills=f'uri: "{folder}/*"{source}'), name="stills", decode=decode,
                    preprocess="size: 32x32, interpolation: area", results='type: jsonl, features: true, path: "-"')


WORKERS = (2, 3, 16)
COUNT = 48


def picture(index):
    """With a separate size, aspect and content: small ones overtake large ones."""
    rng = np.random.default_rng(index)
    columns, rows = (1400, 900) if index % 5 == 0 else (64 + 8 * index, 240 - 3 * index)
    small = rng.integers(0, 256, (6, 8, 3), np.uint8)
    return cv2.resize(small, (columns, rows), interpolation=cv2.INTER_CUBIC)


def write_stills(folder):
    """Each picture's outcome by name: pictures that are cut off, empty, not pictures or only a header are dropped."""
    folder.mkdir()
    for index in range(COUNT):
        suffix = ("jpg", "jpg", "jpg", "png", "jpg", "bmp")[index % 6]
        path = folder / f"{index:02}.{suffix}"
        cv2.imwrite(str(path), picture(index))
        data = path.read_bytes()
        damages = {7: data[:len(data) // 2], 8: b"", 13: b"\xff\xd8\xff" + b"nothing" * 9, 19: data[:300],
                   21: data[:len(data) // 2], 25: data[:-len(data) // 3], 29: data[:len(data) // 2], 31: data + data,
                   33: data[:600] + b"\0" * 40 + data[640:], 38: data[:200] + b"\0" * 40 + data[240:]}
        path.write_bytes(damages.get(index, data))


def said(err):
    """decode's reports about files."""
    return [line for line in err.splitlines() if " decode: " in line and "/" in line]


class Stills(harness.Case):
    def setUp(self):
        super().setUp()
        write_stills(self.folder / "stills")

    def run_with(self, workers, decode="", source="", code=0):
        text = stills(folder=self.folder / "stills", decode=decode, source=source)
        run = self.run_pipeline(text, "--workers", str(workers), "--log", "info", code=code)
        self.assert_balanced(run)
        return run

    def expect_the_same(self, **options):
        one = self.run_with(1, **options)
        for workers in WORKERS:
            several = self.run_with(workers, **options)
            self.assertEqual(several.rows, one.rows)
            for what in ("in", "delivered", "dropped", "absorbed"):
                self.assertEqual(several.ledger[what], one.ledger[what])
            self.assertEqual(said(several.err), said(one.err))
        return one

    def test_damaged_ones_are_dropped(self):
        one = self.expect_the_same()
        self.assertEqual(one.ledger["in"], COUNT)
        self.assertGreaterEqual(sum(line["frames"] for line in one.ledger["dropped"] if line["reason"] == "corrupt"), 6)
        self.assertTrue(any("31.png" in line or "31.jpg" in line for line in said(one.err)), one.err)

    def test_texts_take_no_memory(self):
        """A PNG's compressed text and colour profile, which would expand to 400 MB each, are not expanded."""
        shutil.rmtree(self.folder / "stills")
        (self.folder / "stills").mkdir()
        packer = zlib.compressobj()
        packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(400)) + packer.flush()
        png = cv2.imencode(".png", picture(1))[1].tobytes()
        for kind in (b"zTXt", b"iCCP"):
            chunk = kind + b"a\0\0" + packed
            chunk = (len(chunk) - 4).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
            (self.folder / f"stills/{kind.decode()}.png").write_bytes(png[:33] + chunk + png[33:])
        (self.folder / "stills/plain.png").write_bytes(png)
        run = self.run_with(1)
        self.assertLess(run.summary["peak_bytes"], 350 << 20)
        features = [row["features"] for row in run.rows]
        self.assertEqual(features, [features[0]] * 3)

    def test_damaged_ones_are_kept(self):
        one = self.expect_the_same(decode=", damaged: keep")
        self.assertGreater(one.ledger["delivered"], self.run_with(1).ledger["delivered"])

    def test_reduced_ones(self):
        self.expect_the_same(decode=", reduced: auto")

    def test_avif(self):
        """A decoder that gives pictures only when no packet follows, among others. One file is cut off."""
        for index in range(0, COUNT, 3):
            path = self.folder / f"stills/{index:02}.avif"
            Image.fromarray(picture(index)).save(path)
            if index == 6:
                path.write_bytes(path.read_bytes()[:-200])
        one = self.expect_the_same()
        self.assertEqual(one.ledger["in"], COUNT + 16)
        self.assertEqual(sum(".avif" in row["file"] for row in one.rows), 15)

    def test_those_that_are_too_large(self):
        one = self.expect_the_same(decode=", max_pixels: 1000000")
        self.assertTrue(any("larger than max_pixels" in line for line in said(one.err)), one.err)

    def test_turns_of_which_some_are_chosen(self):
        one = self.expect_the_same(source=", every: 3, loop: 2")
        self.assertEqual(one.ledger["in"], 2 * COUNT)

    def test_nothing_can_be_decoded(self):
        shutil.rmtree(self.folder / "stills")
        (self.folder / "stills").mkdir()
        for index in range(9):
            (self.folder / "stills" / f"{index}.jpg").write_bytes(b"\xff\xd8\xff\xe0 none")
        one = self.expect_the_same(code=65)
        self.assertRegex(one.err, r"nothing could be decoded of 9 files, such as \S*/stills/8\.jpg: ")
        for index in range(1, 9):
            (self.folder / "stills" / f"{index}.jpg").unlink()
        one = self.expect_the_same(code=65)
        self.assertRegex(one.err, r"nothing could be decoded of \S*/stills/0\.jpg: ")

    def test_a_run_that_is_asked_to_end(self):
        text = stills(folder=self.folder / "stills", source=", loop: true")
        output = self.folder / "endless.jsonl"
        command = [harness.MILLRACE, "run", str(self.write(text)), "--workers", "4", "--output", str(output), "--json",
                   *harness.PATIENT]
        running = harness.start(command, stdout=harness.subprocess.PIPE, text=True)
        while not output.exists() or output.stat().st_size == 0:
            self.assertIsNone(running.poll())
        out = self.ended(running, signal.SIGTERM)[0]
        self.assertIn('"balanced":true', re.sub(r"\s", "", out))

    def test_a_run_that_is_asked_to_end_before_a_picture_was_complete(self):
        """More of it could have followed: damage is counted, but the run has not failed."""
        (self.folder / "garbage").mkdir()
        (self.folder / "garbage" / "1.jpg").write_bytes(b"\xff\xd8\xff" + bytes(range(200)))
        text = stills(folder=self.folder / "garbage", source=", loop: true")
        running = harness.start([harness.MILLRACE, "run", str(self.write(text)), "--json",
                                 "--output", str(self.folder / "none.jsonl")],
                                stdout=harness.subprocess.PIPE, stderr=harness.subprocess.PIPE, text=True)
        self.assertIn("1.jpg", running.stderr.readline())
        out, err = self.ended(running, signal.SIGTERM)
        ledger = json.loads(out)["ledger"]
        self.assertTrue(ledger["balanced"])
        self.assertEqual(ledger["delivered"], 0)
        self.assertNotIn("nothing could be decoded", err)

    def test_each_is_as_if_alone(self):
        """A picture with a separate aspect ratio and tables does not affect one without."""
        folder = self.folder / "others"
        folder.mkdir()
        cv2.imwrite(str(self.folder / "plain.jpg"), picture(3))
        plain = (self.folder / "plain.jpg").read_bytes()
        self.assertEqual(plain[2:4], b"\xff\xe0")
        bare = plain[:2] + plain[4 + int.from_bytes(plain[4:6], "big"):]  # without JFIF, and so without an aspect ratio
        tables = [at for at in range(len(bare)) if bare[at:at + 2] == b"\xff\xc4"]
        untabled = bare[:tables[0]] + bare[bare.index(b"\xff\xda"):]  # OpenCV writes the standard tables
        fine = cv2.imencode(".jpg", picture(4), [cv2.IMWRITE_JPEG_OPTIMIZE, 1, cv2.IMWRITE_JPEG_QUALITY,
                                                 30])[1].tobytes()
        wide = fine[:13] + b"\0\0\2\0\1" + fine[18:]  # an aspect ratio of 2:1
        alone = {}
        for name, data in (("bare", bare), ("untabled", untabled), ("wide", wide)):
            (folder / "0.jpg").write_bytes(data)
            alone[name] = self.run_in(folder, 1)[0]["features"]
        self.assertEqual(alone["bare"], alone["untabled"])
        order = ("wide", "bare", "wide", "untabled", "wide", "wide", "bare", "untabled", "untabled", "bare")
        for index, name in enumerate(order):
            (folder / f"{index}.jpg").write_bytes({"bare": bare, "untabled": untabled, "wide": wide}[name])
        for workers in (1, *WORKERS):
            rows = self.run_in(folder, workers)
            self.assertEqual([row["features"] for row in rows], [alone[name] for name in order])

    def test_tiffs_of_several_layouts(self):
        """A TIFF with subsampled chroma does not affect a later one with an odd number of rows in each strip."""
        folder = self.folder / "tiffs"
        folder.mkdir()
        for index, layout in enumerate(("yuv420p", "rgb24", "yuv422p", "rgb24", "gray", "rgb24")):
            self.checked(["ffmpeg", "-v", "error", "-f", "lavfi", "-i",
                          f"testsrc2=size=300x282,noise=alls=100:all_seed=1,format={layout}", "-frames:v", "1",
                          folder / f"{index}.tif"])
        for workers in (1, *WORKERS):
            self.assertEqual(len(self.run_in(folder, workers)), 6)

    def run_in(self, folder, workers):
        text = stills(folder=folder).replace("32x32", "32x32, fit: center-crop")
        return self.run_pipeline(text, "--workers", str(workers)).rows

    def test_the_plan_says_it(self):
        text = stills(folder=self.folder / "stills")
        for workers, words in ((1, "1 worker"), (4, "up to 4 workers")):
            run = self.run_pipeline(text, "--workers", str(workers), verb="plan", rows=False)
            row = next(line for line in run.out.splitlines() if line.split()[:2] == ["decode", "decode"])
            self.assertIn(words, row)
