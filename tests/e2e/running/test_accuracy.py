"""With known truth (`labels: true`) the summary says how often it was found; NumPy counts the same from the
records."""
import os
import subprocess

import numpy
from PIL import Image

import harness
from harness import pipeline

NAMES = ["blue", "green", "red"]
PIPELINE = pipeline(dict(shop="uri: pictures, labels: true"), decode="", histogram="bins: 4, size: 8x8",
                    classify="weights: weights.npy, labels: labels.txt, top_k: 2", results="type: jsonl")


class Accuracy(harness.Case):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(7)
        for name in NAMES:
            folder = self.folder / "pictures" / name
            folder.mkdir(parents=True)
            for number in range(12):
                noise = random.integers(0, 256, (8, 8, 3), numpy.uint8)
                Image.fromarray(noise).save(folder / f"{number}.png")
        # Random weights, so that some are right and some are not.
        numpy.save(self.folder / "weights.npy", random.normal(size=(3, 3 * 4 + 1)).astype(numpy.float32))
        (self.folder / "labels.txt").write_text("\n".join(NAMES) + "\n")

    def pipeline(self, more="", labels=None):
        if labels:
            (self.folder / "labels.txt").write_text("\n".join(labels) + "\n")
        return self.write(PIPELINE + more)

    def counted(self, rows):
        """top-1, top-2, and for each class (frames, right, listed), by NumPy."""
        truth = numpy.array([row["label"] for row in rows])
        found = numpy.array([[one["label"] for one in row["classes"]] for row in rows])
        right, listed = found[:, 0] == truth, (found == truth[:, None]).any(axis=1)
        by_class = [(int((truth == name).sum()), int(right[truth == name].sum()), int(listed[truth == name].sum()))
                    for name in NAMES]
        return right.mean(), listed.mean(), by_class

    def test_it_is_what_numpy_counts(self):
        run = self.run_pipeline(self.pipeline())
        self.assertEqual(len(run.rows), 36)
        top_1, top_2, by_class = self.counted(run.rows)
        self.assertGreater(top_1, 0)
        self.assertLess(top_1, top_2)
        told = run.summary["sources"][0]["accuracy"]
        self.assertEqual((told["frames"], told["k"]), (36, 2))
        self.assertEqual((told["right"], told["listed"]), (round(36 * top_1), round(36 * top_2)))
        self.assertAlmostEqual(told["top_1"], top_1, places=6)
        self.assertAlmostEqual(told["top_k"], top_2, places=6)
        self.assertEqual([one["label"] for one in told["classes"]], NAMES)
        self.assertEqual([(one["frames"], one["right"], one["listed"]) for one in told["classes"]], by_class)

    def test_it_is_printed(self):
        path = self.pipeline()
        top_1, top_2, by_class = self.counted(self.run_pipeline(path).rows)
        leader, follower = os.openpty()
        done = subprocess.run([harness.MILLRACE, "run", str(path), "--output", str(self.folder / "out.jsonl")],
                                      stdout=subprocess.DEVNULL, stderr=follower, timeout=harness.TIMEOUT,
                                      env={**os.environ, "TERM": "dumb"})
        os.close(follower)
        told = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:
                break
            if not piece:
                break
            told += piece
        os.close(leader)
        told = told.decode().replace("\r\n", "\n")
        self.assertEqual(done.returncode, 0, told)
        self.assertIn(f"shop: accuracy {100 * top_1:.2f}% ({round(36 * top_1)} of 36 right), "
                      f"{100 * top_2:.2f}% among the 2 best\n", told)
        for name, (frames, right, _) in zip(NAMES, by_class):
            self.assertRegex(told, rf"\n +{right} of {frames} right: {name}\n")
        # A terminal that cannot move back on a line is not asked to.
        self.assertNotIn("\x1b", told)

    def test_over_nodes_and_replicas(self):
        path = self.pipeline("nodes:\n  camera: {stages: [decode]}\n"
                             "  work: {stages: [histogram, classify], replicas: 2}\n"
                             "  end: {stages: [results]}\n")
        run = self.run_pipeline(path)
        top_1, top_2, _ = self.counted(run.rows)
        told = run.summary["accuracy"]
        self.assertEqual((told["frames"], told["k"]), (36, 2))
        self.assertEqual((told["right"], told["listed"]), (round(36 * top_1), round(36 * top_2)))
        self.assertAlmostEqual(told["top_1"], top_1, places=6)
        self.assertAlmostEqual(told["top_k"], top_2, places=6)

    def test_without_labels_or_with_others(self):
        path = self.pipeline(labels=["a", "b", "c"])
        accuracy = self.run_pipeline(path).summary["sources"][0]["accuracy"]
        self.assertEqual((accuracy["top_1"], accuracy["top_k"]), (0, 0))
        self.millrace("run", path, "--set", "stages.results.path=/dev/full", code=74)
        text = path.read_text()
        unknown = text.replace(", labels: true", "").replace("uri: pictures", "uri: pictures/red")
        self.assertIsNone(self.run_pipeline(self.write(unknown)).summary["sources"][0]["accuracy"])
        # Classes without labels are compared by number.
        by_number = text.replace(", labels: labels.txt", "")
        run = self.run_pipeline(self.write(by_number))
        truth = numpy.array([NAMES.index(row["label"]) for row in run.rows])
        found = numpy.array([row["classes"][0]["index"] for row in run.rows])
        self.assertAlmostEqual(run.summary["sources"][0]["accuracy"]["top_1"], (truth == found).mean(), places=6)
