"""segment: maps of classes, from networks that answer with what the test chose."""
import json

import numpy as np
from onnx import helper

from objects import HEAD, SIDE, ObjectsCase, save, save_graph


class Segments(ObjectsCase):
    def segmented(self, preprocess, options, code=0, **how):
        text = HEAD.format(uri=self.folder / "*.png")
        text += f"  preprocess: {{input: decode, size: {SIDE}x{SIDE}, {preprocess}}}\n"
        text += f"  infer: {{input: preprocess, model: '{self.folder}/model.onnx'}}\n"
        text += f"  segment: {{input: infer, {options}}}\n"
        text += f"  rows: {{type: jsonl, input: segment, path: '{self.folder}/rows.jsonl'}}\n"
        run = self.run_pipeline(text, rows=False, code=code, **how)
        if code or "error" in run.err:
            return run.err
        self.assert_balanced(run)
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        (self.folder / "rows.jsonl").unlink()
        return rows

    def test_segments(self):
        """A map of scores, with classes first or last, and a map of classes; the largest score counts."""
        y, x = np.mgrid[:16, :16]
        kinds = np.where(x < 6, 1, np.where((x > 9) & (y > 11), 2, 0))
        logits = np.random.default_rng(5).uniform(-1, 1, (3, 16, 16)).astype(np.float32)
        np.put_along_axis(logits, kinds[None], 2.5, axis=0)
        logits[1, 3, 12] = np.nan
        share = np.exp(2.5) / np.nansum(np.exp(logits), axis=0)
        (self.folder / "labels.txt").write_text("ground\nroad\ntree\n")
        self.turned()
        for tensor, options in ((logits, ""), (logits.transpose(1, 2, 0), "channels: last, "), (kinds, "")):
            save(self.folder / "model.onnx", {"o": tensor})
            for preprocess in self.WAYS:
                labels = f"labels: {self.folder / 'labels.txt'}, without: [ground]"
                for row in self.segmented(preprocess, options + labels):
                    self.check_segments(row, preprocess, kinds, share if tensor.ndim == 3 else np.ones((16, 16)))
            for least, shown in (0.05, [2]), (0.2, []):
                row = self.segmented("fit: stretch", f"{options}classes: [2], least: {least}")[0]
                self.assertEqual([one["index"] for one in row["objects"]], shown)

    def check_segments(self, row, preprocess, kinds, share):
        seen = {one["label"]: one for one in row["objects"]}
        self.assertLessEqual(set(seen), {"road", "tree"})
        self.assertIn("road", seen)
        for label, one in seen.items():
            index = ("ground", "road", "tree").index(label)
            found = kinds == index
            self.assertAlmostEqual(one["score"], share[found].mean(), places=5)
            self.assertAlmostEqual(one["attributes"][0]["score"], found.mean(), places=6)
            mask, x, y = self.mask_of(one, row["file"], preprocess)
            sure = (np.abs(x % 4 - 2) < 1.9) & (np.abs(y % 4 - 2) < 1.9)
            want = found[np.clip(y // 4, 0, 15).astype(int), np.clip(x // 4, 0, 15).astype(int)]
            self.assertTrue((mask == want)[sure].all())
            self.assertGreater(sure.sum(), 3)

    def test_segments_refused(self):
        self.picture()
        (self.folder / "two.txt").write_text("a\nb\n")
        for shape, options, code, words in (
                ((3, 8, 8), f"labels: {self.folder / 'two.txt'}", 78, "2 labels, and the network has 3 classes"),
                ((3, 8, 8), "tensor: p", 78, "no tensor called p comes from infer"),
                ((3, 8, 8), "least: 2", 78, "least"),
                ((2, 3, 8, 8), "least: 0.5", 0, "a frame of infer has a tensor f32 2x3x8x8, and not a map")):
            save(self.folder / "model.onnx", {"o": np.zeros(shape)})
            with self.subTest(options):
                self.assertIn(words, self.segmented("fit: stretch", options, code, verb="plan" if code else "run"))

    def test_maps_without_classes(self):
        """The picture decides how many classes there are: none."""
        self.picture()
        nodes = [helper.make_node("ReduceMax", ["image"], ["most"], axes=[0, 2, 3], keepdims=0),
                 helper.make_node("Less", ["most", "zero"], ["chosen"]),
                 helper.make_node("Compress", ["values", "chosen"], ["o"], axis=1)]
        known = {"zero": np.float32(0), "values": np.zeros((1, 3, 8, 8), np.float32)}
        save_graph(self.folder / "model.onnx", nodes, known, {"o": (1, "classes", 8, 8)})
        self.assertIn("a frame of infer has a tensor f32 1x?x8x8, and not a map",
                      self.segmented("fit: stretch", "least: 0.5"))
