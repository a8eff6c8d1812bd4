"""`millrace tap`: what passes a stage, while the run goes on."""
import json
import subprocess

import harness
from harness import MILLRACE, pipeline

TEXT = pipeline(dict(pattern='uri: "lavfi:testsrc=size=160x120:rate=50", realtime: true'), name="endless",
                decode="", hash="type: phash", small="type: preprocess, size: 4x2",
                results='type: jsonl, features: true, tensors: true, path: "${OUTPUT}"')


class Tap(harness.Controlled):
    def setUp(self):
        super().setUp()
        self.rows = self.folder / "rows.jsonl"
        self.child = self.spawn([MILLRACE, "run", self.write(TEXT), "--output", self.rows, *harness.PATIENT, "--json"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_until(lambda: self.rows.exists() and "\n" in self.rows.read_text(), "no rows", self.child)

    def tap(self, *arguments, code=0):
        done = self.millrace("tap", *arguments, code=code, environment=self.environment)
        return [json.loads(line) for line in done.stdout.splitlines()] if code == 0 else done.stderr

    def end(self):
        self.ctl("drain")
        ledger = json.loads(self.ended(self.child)[0])["ledger"]
        self.assertTrue(ledger["balanced"])
        self.assertEqual(ledger["in"], ledger["delivered"])
        return {row["seq"]: row for row in map(json.loads, self.rows.read_text().splitlines()) if "seq" in row}

    def test_records_and_tensors_are_those_that_pass(self):
        import numpy
        seen = self.tap("small", "--count", "5", "--every", "0.05", "--values", "24")
        hashes = self.tap("hash", "--count", "2", "--every", "0")
        taken = self.tap("results", "--count", "3", "--every", "0")
        rows = self.end()
        self.assertEqual(len(seen), 5)
        self.assertEqual([[one["name"] for one in row["record"]["tensors"]] for row in hashes], [["phash"]] * 2)
        self.assertEqual(len({one["record"]["seq"] for one in seen}), 5)
        for one in seen + hashes + taken:
            row = rows[one["record"]["seq"]]
            self.assertEqual(one["record"], {key: value for key, value in row.items() if key in one["record"]})
            self.assertEqual(one["record"]["pts"], row["pts"])
            self.assertIn("160x120" if one in hashes else "4x2", one["format"].replace("2x4", "4x2"))
        for one in seen:
            row, values = rows[one["record"]["seq"]]["features"], one["values"]
            self.assertEqual(values["count"], 24)
            # jsonl prints as many digits as a float needs, tap as many as a double needs.
            self.assertTrue(numpy.array_equal(numpy.float32(values["first"]), numpy.float32(row)))
            self.assertEqual((values["min"], values["max"]), (min(values["first"]), max(values["first"])))
            self.assertAlmostEqual(values["mean"], sum(row) / 24, places=4)

    def test_pictures(self):
        from PIL import Image, ImageChops, ImageStat
        folder = self.folder / "seen"
        seen = self.tap("decode", "--pictures", folder, "--count", "2", "--every", "0")
        self.assertEqual(len(list(folder.iterdir())), 2)
        for one in seen:
            self.assertNotIn("jpeg", one)
            seq, expected = one["record"]["seq"], self.folder / "pattern.png"
            subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc=size=160x120:rate=50", "-vf",
                            rf"select=eq(n\,{seq})", "-frames:v", "1", expected], check=True)
            picture = Image.open(folder / f"pattern-0-{seq:06d}-0.jpg").convert("L")
            self.assertEqual(picture.size, (160, 120))
            difference = ImageStat.Stat(ImageChops.difference(picture, Image.open(expected).convert("L")))
            self.assertLess(difference.mean[0], 6)
        self.end()

    def test_it_ends_with_the_run(self):
        process = self.spawn([MILLRACE, "tap", "decode", "--every", "0.1"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.assertIn('"stage":"decode"', process.stdout.readline())
        self.end()
        rest, errors = process.communicate(timeout=harness.TIMEOUT)
        self.assertEqual((process.returncode, errors), (0, ""))

    def test_refusals(self):
        self.assertIn('has no stage or source "nobody"\n', self.tap("nobody", code=64))
        self.assertIn('has no stage or source "dekode": did you mean "decode"?', self.tap("dekode", code=64))
        self.assertIn("name one stage", self.tap(code=64))
        self.assertIn("takes seconds", self.tap("decode", "--every", "x", code=64))
        packets = self.tap("pattern", "--count", "1")[0]
        self.assertTrue(packets["format"].startswith("packet"), packets)
        self.end()
