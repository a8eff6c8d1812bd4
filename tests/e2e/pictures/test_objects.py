"""detect: boxes come back to the source's picture, whatever preprocess did; classes and limits are checked."""
import csv
import json

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

from objects import HEAD, SIDE, ObjectsCase, rows_of, save, save_graph


class Objects(ObjectsCase):
    def test_the_way_back(self):
        boxes = [(8, 4, 24, 36, 0.9, 1), (0, 0, 64, 64, 0.8, 0), (30, 20, 31.5, 22.25, 0.7, 2)]
        save(self.folder / "model.onnx", {"o": rows_of(boxes)})
        self.turned()
        ways = {  # for the upright picture's size: a point's place in it, from 0..64
            "fit: stretch": lambda w, h: lambda x, y: (x * w / 64, y * h / 64),
            "fit: letterbox, place: top-left": lambda w, h: lambda x, y: (
                x * w / int(w * 64 / max(w, h)), y * h / int(h * 64 / max(w, h))),
            "fit: letterbox": lambda w, h: lambda x, y: (
                (x - (64 - round(w * 64 / max(w, h))) // 2) * w / round(w * 64 / max(w, h)),
                (y - (64 - round(h * 64 / max(w, h))) // 2) * h / round(h * 64 / max(w, h))),
            "fit: center-crop": lambda w, h: lambda x, y: (
                (w - min(w, h)) / 2 + x * min(w, h) / 64, (h - min(w, h)) / 2 + y * min(w, h) / 64),
            "roi: {x: 10, y: 20, width: 50, height: 70}": lambda w, h: lambda x, y: (
                10 + x * 50 / 64, 20 + y * 70 / 64),
        }
        for preprocess, way in ways.items():
            run = self.detect("head: end2end", preprocess)
            self.assert_balanced(run)
            for row, (width, height) in zip(run.rows, ((200, 100), (100, 200))):
                back = way(width, height)
                want = []
                for left, top, right, bottom, score, index in boxes:
                    (left, top), (right, bottom) = back(left, top), back(right, bottom)
                    want.append((np.clip(left, 0, width), np.clip(top, 0, height), np.clip(right, 0, width),
                                 np.clip(bottom, 0, height), score, index))
                got = [(one["left"], one["top"], one["right"], one["bottom"], one["score"], one["index"])
                       for one in row["objects"]]
                want = [one for one in want if one[2] > one[0] and one[3] > one[1]]
                with self.subTest(preprocess, file=row["file"]):
                    self.assertEqual(np.shape(got), np.shape(want))
                    self.assertLess(np.abs(np.array(got) - want).max(), 1e-3)

    def save_finder(self, path):
        """A network that finds one object: the box around the pixels whose red exceeds 128."""
        reduce = lambda of, to, axis: helper.make_node("ReduceMax", [of], [to], axes=[axis], keepdims=0)
        nodes = [helper.make_node("Slice", ["image", "first", "second", "channel"], ["red4"]),
                 helper.make_node("Squeeze", ["red4", "channel"], ["red"]),
                 helper.make_node("Greater", ["red", "half"], ["over"]),
                 helper.make_node("Cast", ["over"], ["mask"], to=TensorProto.FLOAT), reduce("mask", "columns", 1),
                 reduce("mask", "rows", 2), reduce("rows", "any", 1)]
        for name, line in (("left", "columns"), ("top", "rows"), ("right", "columns"), ("bottom", "rows")):
            last = name in ("right", "bottom")
            nodes += [helper.make_node("ArgMax", [line], [f"{name}_at"], axis=1, keepdims=1,
                                       select_last_index=int(last)),
                      helper.make_node("Cast", [f"{name}_at"], [f"{name}_f"], to=TensorProto.FLOAT),
                      helper.make_node("Add", [f"{name}_f", "one" if last else "zero"], [name])]
        nodes += [helper.make_node("Unsqueeze", ["any", "last"], ["score"]),
                  helper.make_node("Sub", ["score", "score"], ["class"]),
                  helper.make_node("Concat", ["left", "top", "right", "bottom", "score", "class"], ["row"], axis=1),
                  helper.make_node("Unsqueeze", ["row", "channel"], ["o"])]
        known = {"first": np.array([0]), "second": np.array([1]), "channel": np.array([1]), "last": np.array([1]),
                 "half": np.float32(128), "one": np.float32(1), "zero": np.float32(0)}
        save_graph(path, nodes, known, {"o": ("N", 1, 6)}, ("N", 3, SIDE, SIDE))

    def test_tiles(self):
        """Each tile shows at most one square, some of it cut; each square is found once, where it is."""
        squares = [(4, 6, 20, 30), (100, 40, 130, 68), (178, 76, 192, 95)]
        picture = np.zeros((100, 200, 3), np.uint8)
        for left, top, right, bottom in squares:
            picture[top:bottom, left:right] = 255
        Image.fromarray(picture).save(self.folder / "a.png")
        exif = Image.Exif()
        exif[0x0112] = 8  # to be turned a quarter counterclockwise
        Image.fromarray(picture).save(self.folder / "b.png", exif=exif)
        self.save_finder(self.folder / "model.onnx")
        text = HEAD.format(uri=self.folder / "*.png") + f"""\
  tile: {{input: decode, size: {SIDE}x{SIDE}, overlap: 0.5, whole: false}}
  preprocess: {{input: tile, size: {SIDE}x{SIDE}, fit: stretch}}
  detect: {{input: preprocess, batch: 4, model: '{self.folder}/model.onnx', head: end2end}}
  gather: {{join: {{frames: decode, crops: detect}}, merge: {{}}}}
  rows: {{type: jsonl, input: gather, path: '{self.folder}/rows.jsonl'}}
"""
        run = self.run_pipeline(text, rows=False)
        self.assert_balanced(run)
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        turned = [(top, 200 - right, bottom, 200 - left) for left, top, right, bottom in squares]
        for row, want in zip(rows, (squares, turned)):
            got = [tuple(one[side] for side in ("left", "top", "right", "bottom")) for one in row["objects"]]
            self.assertEqual(sorted(got), sorted(want))
            self.assertTrue(all("parent" not in one for one in row["objects"]))

    def test_what_is_no_object(self):
        """Boxes that are not finite, lie outside, or have no area, and classes that are not wanted."""
        boxes = [(8, 4, 24, 36, 0.9, 1), (np.nan, 0, 5, 5, 0.9, 1), (0, 0, np.inf, 5, 0.9, 1), (-20, -9, -3, 9, 0.9, 1),
                 (70, 5, 90, 9, 0.9, 1), (5, 5, 5, 9, 0.9, 1), (1, 1, 9, 9, np.nan, 1), (1, 1, 9, 9, np.inf, 1),
                 (1, 1, 9, 9, 0.25, 1),
                 (40, 40, 90, 90, 0.5, 3), (2, 2, 9, 9, 0.6, 0), (3, 3, 9, 9, 0.4, -1),
                 *((3, 3, 9, 9, 0.8, index) for index in (3e9, np.nan, 2 ** 20, np.inf))]
        save(self.folder / "model.onnx", {"o": rows_of(boxes)})
        (self.folder / "labels.txt").write_text("cat\ndog\nhen\nowl\n")
        self.picture(width=64, height=64)
        labels = f"labels: {self.folder / 'labels.txt'}"
        seen = [[(one["label"], one["left"], one["right"]) for one in self.detect(options).rows[0]["objects"]]
                for options in (labels, f"{labels}, classes: [dog, 3]", f"{labels}, max: 2", "score: 0.95")]
        self.assertEqual(seen, [[("dog", 8, 24), ("cat", 2, 9), ("owl", 40, 64)], [("dog", 8, 24), ("owl", 40, 64)],
                                [("dog", 8, 24), ("cat", 2, 9)], []])

    def test_numbers_that_are_none(self):
        """A network that overflows has not searched: the log says so once, and in the end for how many frames."""
        for name in ("a.png", "b.png"):
            self.picture(name, 64, 64)
        box = (8, 4, 24, 36, 0.9, 1)
        for boxes, found, odd in (([box, (1, 1, np.inf, 9, 0.8, 1)], 1, True), ([(1, 1, 9, 9, np.inf, 1)], 0, True),
                                  ([(np.nan,) * 6] * 3, 0, True), ([(1, 1, 9, 9, np.nan, 1), box], 1, False),
                                  ([(*box[:4], 0.1, 1), (*box[:4], -np.inf, 1), (np.inf, 4, 24, 36, 0.1, 1)], 0,
                                   False)):
            save(self.folder / "model.onnx", {"o": rows_of(boxes)})
            with self.subTest(boxes):
                run = self.detect("head: end2end")
                self.assertEqual([len(row["objects"]) for row in run.rows], [found, found])
                self.assertEqual(run.err.count("model.onnx gives scores or boxes that are NaN or infinite"), odd)
                self.assertEqual(run.err.count("in 2 frames scores or boxes were NaN or infinite"), odd)

    def test_labels_in_the_metadata(self):
        """Those of exporters, of `millrace export`, and in another stage."""
        boxes = [(8, 4, 24, 36, 0.9, 1), (2, 2, 9, 9, 0.6, 0)]
        save(self.folder / "bare.onnx", {"o": rows_of(boxes)})
        self.picture(width=64, height=64)
        for key, note in (("names", "{0: 'cat', 1: \"dog's\"}"), ("millrace.labels", '["cat", "dog\'s"]')):
            model = onnx.load(self.folder / "bare.onnx")
            helper.set_model_props(model, {key: note, "task": "detect"})
            onnx.save(model, self.folder / "model.onnx")
            for options in ("score: 0.25", f"labels: {self.folder / 'model.onnx'}, classes: [cat, dog's]"):
                seen = [one["label"] for one in self.detect(options).rows[0]["objects"]]
                self.assertEqual(seen, ["dog's", "cat"])
            self.assertIn('classes: "dogs" is neither one of the labels nor a number below 1048576: did you mean '
                          '"dog\'s"?', self.detect("classes: [dogs]", code=78, verb="plan").err)
        self.assertIn("bare.onnx has no labels in its metadata",
                      self.detect(f"labels: {self.folder / 'bare.onnx'}", code=65, verb="plan").err)
        helper.set_model_props(model, {"names": "{1: 'cat'}"})
        onnx.save(model, self.folder / "model.onnx")
        self.assertIn("model.onnx: the labels in its metadata are no list of texts with the numbers 0, 1, ...; name a "
                      "file", self.detect("score: 0.25", code=65, verb="plan").err)

    def test_agnostic(self):
        boxes = np.zeros((6, 84), np.float32)
        boxes[:, 0], boxes[:, 1] = (32, 28, 20, 20, 0.9, 0.8), (33, 28, 20, 20, 0, 0.7)
        save(self.folder / "model.onnx", {"o": boxes})
        self.picture(width=64, height=64)
        seen = {options: [(one["index"], round(one["score"], 2)) for one in self.detect(options).rows[0]["objects"]]
                for options in ("agnostic: false", "agnostic: true", "agnostic: true, classes: [1]")}
        self.assertEqual(list(seen.values()), [[(0, 0.9), (1, 0.8)], [(0, 0.9)], [(1, 0.8)]])

    def test_more_objects_than_max(self):
        """The best are kept, and frames with more are counted."""
        side = np.arange(50)
        boxes = [(x, y, x + 1, y + 1, 0.3 + (50 * x + y) / 5000, 0) for x in side for y in side]
        save(self.folder / "model.onnx", {"o": rows_of(boxes)})
        for name in "ab":
            self.picture(f"{name}.png", 64, 64)
        run = self.detect("head: end2end, max: 10")
        best = sorted((one[4] for one in boxes), reverse=True)[:10]
        for row in run.rows:
            self.assertTrue(np.allclose([one["score"] for one in row["objects"]], best))
        self.assertIn("2 frames had more objects than max (10), and keep the best", run.err)

    def test_tables_and_batches(self):
        save(self.folder / "model.onnx", {"o": rows_of([(8, 4, 24, 36, 0.5, 1), (0, 0, 64, 64, 0.25, 0)])},
             ("N", 3, SIDE, SIDE))
        for i in range(7):
            self.picture(f"{i}.png", 64 + i, 64)
        table = self.folder / "table.csv"
        run = self.detect("score: 0.2, batch: {size: 3}",
                          more=f"  table: {{type: csv, input: detect, results: objects, path: '{table}'}}\n")
        self.assertEqual([[one["right"] for one in row["objects"]] for row in run.rows],
                         [[24 * (64 + i) / 64, 64 + i] for i in range(7)])
        with table.open(newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([(line["rank"], line["index"], line["score"], line["number"], line["parent"], line["quad"],
                           line["zones"]) for line in lines[:2]],
                         [("1", "1", "0.5", "1", "", "", ""), ("2", "0", "0.25", "2", "", "", "")])
        self.assertEqual([[one["number"] for one in row["objects"]] for row in run.rows], [[1, 2]] * 7)
        self.assertEqual(set(run.rows[0]["objects"][0]), {"index", "label", "score", "track", "left", "top", "right",
                                                          "bottom", "number"})
        self.assertEqual(len(lines), 14)
        self.assertEqual([float(line["right"]) for line in lines[::2]], [24 * (64 + i) / 64 for i in range(7)])

    def test_devices(self):
        """A simulated accelerator gives the same objects, later."""
        save(self.folder / "model.onnx", {"o": rows_of([(8, 4, 24, 36, 0.5, 1), (0, 0, 64, 64, 0.25, 0)])},
             ("N", 3, SIDE, SIDE))
        for i in range(5):
            self.picture(f"{i}.png", 64 + i, 64)
        rows = [self.detect(f"score: 0.2, batch: {{size: 2}}, device: '{device}'").rows for device in ("cpu", "sim:0")]
        self.assertEqual(*rows)
        self.assertEqual([len(row["objects"]) for row in rows[1]], [2] * 5)

    def test_refused(self):
        self.picture()
        (self.folder / "three.txt").write_text("a\nb\nc\n")
        save(self.folder / "model.onnx", {"o": np.zeros((84, 7))})
        save(self.folder / "pair.onnx", {"boxes": np.zeros((9, 4)), "scores": np.zeros((9, 3))})
        save(self.folder / "odd.onnx", {"o": np.zeros((5, 5))})
        self.assertIn("hint: `tools/demo faces` makes build/faces of the source tree",
                      self.detect("score: 0.5", model="build/faces/none.onnx", code=66, verb="plan").err)
        for options, model, words in (
                ("head: yolov8", "model.onnx", "a yolov8 head has one output of (4 + classes) x 84 for an input of "
                 '64x64; the network gives "o" tensor f32 84x7'),
                ("score: 0.3", "pair.onnx", "fit several heads (ssd, rtdetr): write head"),
                ("score: 0.3", "odd.onnx", "fit no head by their shapes, for an input of 64x64: write head: "
                 "rtdetr, or custom, and in custom what each of them is"),
                (f"labels: {self.folder / 'three.txt'}", "model.onnx", "3 labels, and the network finds 2 classes"),
                ("classes: [cow]", "model.onnx", 'classes: "cow" is no name without labels, and not a number below 2: '
                 "write labels: FILE"),
                ("classes: [2]", "model.onnx", 'classes: "2" is no name without labels, and not a number below 2'),
                ("outputs: [o, o]", "model.onnx", 'names "o" twice'),
                ("outputs: [none]", "model.onnx", 'has no output "none"; its outputs are: o'),
                ("head: custom", "pair.onnx", "head: custom and custom: {boxes: ...} belong together"),
                ("custom: {boxes: boxes, scores: scores}", "pair.onnx", "belong together"),
                ("head: custom, custom: {scores: scores}", "pair.onnx", "custom needs the names of outputs"),
                ("head: custom, custom: {boxes: boxes}", "pair.onnx", 'output "boxes" is not an f32 output of N x 5 or '
                 "5 x N, where the fifth number is a score, but tensor f32 9x4"),
                ("head: custom, custom: {boxes: boxes, background: true}", "pair.onnx", "background is about scores"),
                ("head: custom, custom: {boxes: no, scores: scores}", "pair.onnx", 'the network has no output "no"; it '
                 'gives "boxes" tensor f32 9x4, "scores" tensor f32 9x3'),
                ("score: 2", "model.onnx", "score")):
            with self.subTest(options, model=model):
                run = self.detect(options, model=model, code=78, verb="plan")
                self.assertIn(words, run.err)
