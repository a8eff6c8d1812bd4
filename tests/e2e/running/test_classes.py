"""Classes in real video: compared with the same network under ONNX Runtime's Python on frames that ffmpeg decoded. They
must be the same for any batch, worker count and device."""
import collections

import numpy as np

import clips
import harness
from harness import pipeline
import reference

# Resizing and colour conversion use floats here and doubles there, and samples may be rounded to 8 bits in between:
# this moves a score a little. A wrong matrix or range, or half a pixel of offset, moves it by several hundredths.
SCORE_TOLERANCE = 0.01
# The same arithmetic on frames in another order: only the network library may vary with the batch.
SAME_TOLERANCE = 1e-4


def setUpModule():
    harness.need_models()


class Classes(harness.Case):
    def classify(self, uri, *arguments, source="", pictures="", batch="", device="", network="lite0-features"):
        text = pipeline(dict(clip=f'uri: "{uri}"{source}'), name="classes", decode="input: sources.*",
                        preprocess="size: 224x224, fit: center-crop, crop_fraction: 0.875, mean: 127, "
                                   f"std: 128{pictures}{device}",
                        features=f"model: {harness.MODELS}/{network}.onnx, tensor: features{batch}{device}",
                        classify=f"weights: {harness.MODELS}/lite0-head.npy, labels: {harness.MODELS}/imagenet.txt, "
                                 f"top_k: 5{device}", results='type: jsonl, path: "-"')
        run = self.run_pipeline(text, *arguments)
        self.assert_balanced(run)
        return run

    ALONE = {}

    def alone(self, name="h264 4:2:0"):
        """A clip by itself, one frame at a time; it runs once for all cases."""
        if name not in self.ALONE:
            self.ALONE[name] = self.classify(clips.codec(name))
        return self.ALONE[name]

    def assert_scores(self, row, expected, tolerance):
        for one in row["classes"]:
            self.assertAlmostEqual(one["score"], expected[one["index"]], delta=tolerance, msg=row)
        found = [one["score"] for one in row["classes"]]
        self.assertEqual(found, sorted(found, reverse=True))
        best = np.sort(expected)[::-1]
        if best[0] - best[1] > 2 * tolerance:
            self.assertEqual(row["classes"][0]["index"], int(np.argmax(expected)), row)

    def assert_same(self, rows, others):
        self.assertEqual(len(rows), len(others))
        for row, other in zip(rows, others):
            self.assertEqual(row["seq"], other["seq"])
            self.assertEqual(row["classes"][0]["index"], other["classes"][0]["index"])
            for one, two in zip(row["classes"], other["classes"]):
                self.assertAlmostEqual(one["score"], two["score"], delta=SAME_TOLERANCE)

    def test_the_cockatoo(self):
        run = self.classify(clips.COCKATOO, source=", every: 8")
        self.assertEqual(len(run.rows), 35)
        first = collections.Counter(row["classes"][0]["label"] for row in run.rows)
        self.assertTrue(first.most_common(1)[0][0].startswith("sulphur-crested cockatoo"), first)
        for row in run.rows:
            self.assertEqual([one["label"] for one in row["classes"]],
                             [reference.labels()[one["index"]] for one in row["classes"]])
        for row, expected in zip(run.rows, reference.scores(clips.COCKATOO, every=8), strict=True):
            self.assert_scores(row, expected, SCORE_TOLERANCE)

    def test_subsampled_colour(self):
        """4:2:0, and more than 8 bits: chroma siting and depth matter."""
        for pix_fmt in ("yuv420p", "yuv422p", "yuv420p10le"):
            with self.subTest(pix_fmt):
                clip = clips.encoded(f"large-{pix_fmt}.mkv", *clips.H264, "-crf", "18", "-pix_fmt", pix_fmt,
                                     filters="scale=1280:720", frames=5)
                run = self.classify(clip)
                self.assertEqual(len(run.rows), 5)
                for row, expected in zip(run.rows, reference.scores(clip)):
                    self.assert_scores(row, expected, SCORE_TOLERANCE)

    def test_well_known_pictures(self):
        """Photographs whose subject is known without a second network."""
        for name, label in (("orange", "orange"), ("baboon", "baboon"), ("squirrel_cls", "fox squirrel")):
            with self.subTest(name):
                run = self.classify(harness.PICTURES / f"{name}.jpg")
                self.assertTrue(run.rows[0]["classes"][0]["label"].startswith(label), run.rows)

    def test_batches_change_nothing(self):
        clip = clips.codec("h264 4:2:0")
        for batch in (3, 8):
            with self.subTest(batch):
                together = f", batch: {{size: {batch}, timeout: 20ms}}"
                self.assert_same(self.classify(clip, batch=together).rows, self.alone().rows)
                self.assert_same(self.classify(clip, pictures=together, batch=together).rows, self.alone().rows)

    def test_workers_change_nothing(self):
        clip = clips.codec("h264 4:2:0")
        one, two = (self.classify(clip, "--workers", workers).rows for workers in (1, 2))
        self.assert_same(one, two)

    def test_a_simulated_accelerator_changes_nothing(self):
        rows = self.classify(clips.codec("h264 4:2:0"), device=", device: 'sim:0'").rows
        self.assert_same(rows, self.alone().rows)

    def test_many_sources(self):
        """Frames from several videos share batches; each video's results are its own, in order, as if alone."""
        names = ("h264 4:2:0", "vp9", "mjpeg", "hevc 10 bit")
        inputs = [word for name in names for word in ("--input", clips.codec(name))]
        run = self.classify("none", *inputs, batch=", batch: {size: 8, timeout: 20ms}")
        sources = list(dict.fromkeys(row["source"] for row in run.rows))
        self.assertEqual(len(sources), len(names))
        told = [source["id"] for source in run.summary["sources"]]
        self.assertEqual(sorted(told), sorted(sources))
        for name, source in zip(names, told):
            self.assert_in_order(run.of(source))
            self.assert_same(run.of(source), self.alone(name).rows)

    def test_the_int8_network(self):
        """Quantisation turns small input differences into larger score differences: only the class counts."""
        rows = self.classify(clips.COCKATOO, source=", every: 8", network="lite0-int8").rows
        expected = list(reference.scores(clips.COCKATOO, "lite0-int8.onnx", every=8))
        same = sum(row["classes"][0]["index"] == int(np.argmax(one)) for row, one in zip(rows, expected, strict=True))
        self.assertGreaterEqual(same, 0.9 * len(expected))

    def test_the_summary_names_the_classes(self):
        run = self.alone()
        first = collections.Counter(row["classes"][0]["label"] for row in run.rows)
        told = run.summary["sources"][0]["classes"]
        self.assertEqual({one["label"]: one["frames"] for one in told}, dict(first.most_common(len(told))))
