"""detect: heads for boxes, masks, key points, turned boxes and lines of text, as exporters write them.

YOLOX-nano, if MILLRACE_YOLOX names its file, is compared with a decoder in NumPy."""
import os
import pathlib
import unittest

import numpy as np
import onnx
from onnx import helper
from PIL import Image

from harness import MILLRACE, PICTURES, call
from objects import HEAD, SIDE, ObjectsCase, rows_of, save, save_graph

YOLOX = pathlib.Path(os.environ.get("MILLRACE_YOLOX", "/nonexistent"))


def cells(width, height):
    grids = []
    for stride in (8, 16, 32):
        ys, xs = np.mgrid[:height // stride, :width // stride]
        grids.append(np.stack([xs.ravel(), ys.ravel(), np.full(xs.size, stride)], 1))
    return np.concatenate(grids)


class Heads(ObjectsCase):
    def columns(self, **more):
        """The output of a YOLOv8 network with one object of class 1 around the middle, and `more` numbers of it."""
        rows = [32, 28, 48, 40, 0, 0.9, *more.get("numbers", ())]
        return np.stack([np.array(rows, np.float32)] + [np.zeros(len(rows), np.float32)] * 83, axis=1)

    def test_masks(self):
        """The mask lies over the object's box in the upright picture, though that is turned or cut."""
        plane = np.where((np.arange(16) < 8) & (np.arange(16)[:, None] < 10), 1, -1)
        save(self.folder / "model.onnx", {"o": self.columns(numbers=[1]), "p": plane[None]})
        self.turned()
        for preprocess in self.WAYS:
            for row in self.detect("head: auto", preprocess).rows:
                one, = row["objects"]
                mask, x, y = self.mask_of(one, row["file"], preprocess)
                sure = (np.abs(x - 32) > 0.5) & (np.abs(y - 40) > 0.5)
                with self.subTest(preprocess, file=row["file"]):
                    self.assertTrue((mask == ((x < 32) & (y < 40)))[sure].all())
                    self.assertGreater(sure.sum(), 40)

    def test_key_points(self):
        """By the notes of the model, or as the pipeline says; key points may lie outside the box."""
        points = [(20, 10, 0.5), (40, 44, 0.75), (2, 60, 0.25)]
        save(self.folder / "model.onnx", {"o": self.columns(numbers=np.ravel(points))})
        model = onnx.load(self.folder / "model.onnx")
        helper.set_model_props(model, {"task": "pose", "kpt_shape": "[3, 3]", "names": "{0: 'cat', 1: 'dog'}"})
        onnx.save(model, self.folder / "noted.onnx")
        self.turned()
        for preprocess in self.WAYS:
            for options, file in (("head: yolov8-pose, points: 3", "model.onnx"), ("head: auto", "noted.onnx")):
                for row in self.detect(options, preprocess, file).rows:
                    one, = row["objects"]
                    at = np.reshape(one["points"], (3, 3))
                    back = self.way(row["file"], preprocess)(at[:, 0], at[:, 1])
                    self.assertLess(np.abs(np.stack([*back, at[:, 2]], 1) - points).max(), 1e-3)

    def test_turned_boxes(self):
        """Corners come back, of raw and of suppressed boxes; quadrilaterals keep their shape at the picture's edge."""
        angle, wide, tall = 0.5, 24, 8
        axes = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        want = (32, 28) + np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * (wide / 2, tall / 2) @ axes
        raw = np.zeros((7, 84), np.float32)
        raw[:, 5] = 32, 28, wide, tall, 0, 0.9, angle
        save(self.folder / "raw.onnx", {"o": raw})
        save(self.folder / "rows.onnx", {"o": rows_of([(32, 28, wide, tall, 0.9, 1, angle), (1, 1, 8, 2, 0.8, 1, 1)])})
        model = onnx.load(self.folder / "raw.onnx")
        helper.set_model_props(model, {"task": "obb", "names": "{0: 'plane', 1: 'ship'}"})
        onnx.save(model, self.folder / "noted.onnx")
        self.turned()
        for file in ("raw.onnx", "noted.onnx", "rows.onnx"):
            options = {"raw.onnx": "head: yolov8-obb", "rows.onnx": "head: end2end"}.get(file, "head: auto")
            for preprocess in self.WAYS:
                for row in self.detect(options, preprocess, file).rows:
                    one = row["objects"][0]
                    quad = np.reshape(one["quad"], (4, 2))
                    back = self.way(row["file"], preprocess)(*quad.T)
                    off = np.abs(np.stack(back, 1)[:, None] - want).max(2)
                    with self.subTest(file, preprocess=preprocess, picture=row["file"]):
                        self.assertLess(off.min(1).max(), 1e-3)
                        self.assertEqual(one["label"], {"noted.onnx": "ship"}.get(file))
                        tall = 100 if row["file"].endswith("a.png") else 200
                        self.assertAlmostEqual(one["left"], max(quad[:, 0].min(), 0), 3)
                        self.assertAlmostEqual(one["bottom"], min(quad[:, 1].max(), tall), 3)
                    if file == "rows.onnx" and preprocess == "fit: stretch":
                        beyond = row["objects"][1]
                        self.assertLess(min(beyond["quad"]), 0)
                        self.assertEqual((beyond["left"], beyond["top"]), (0, 0))

    def test_suppressed_exports(self):
        """Key points and masks of networks that have suppressed themselves."""
        points = [20, 10, 0.5, 40, 44, 0.75]
        save(self.folder / "pose.onnx", {"o": rows_of([(8, 4, 24, 36, 0.9, 0, *points)])})
        model = onnx.load(self.folder / "pose.onnx")
        helper.set_model_props(model, {"task": "pose", "kpt_shape": "[2, 3]"})
        onnx.save(model, self.folder / "pose.onnx")
        plane = np.where(np.arange(16) < 8, 1, -1)[None, None] * np.ones((1, 16, 1))
        rows = rows_of([(16, 16, 48, 48, 0.9, 0, 1), (0, 0, 9, 9, 0.8, 0, -1)])
        save(self.folder / "masks.onnx", {"p": plane, "o": rows})
        self.picture(width=64, height=64)
        one, = self.detect("score: 0.3", model="pose.onnx").rows[0]["objects"]
        self.assertLess(np.abs(np.subtract(one["points"], points)).max(), 1e-5)
        one, other = self.detect("score: 0.3", model="masks.onnx").rows[0]["objects"]
        self.assertEqual((one["mask_width"], one["mask_height"], one["mask"]), (8, 8, [0] + [4] * 16))
        self.assertEqual(other["mask"], [9])
        self.assertIn("as usual for yolov8-obb", self.inspected({"task": "obb"}, np.zeros((7, 84))))
        self.assertIn("shapes of head: end2end", self.inspected({"task": "obb"}, np.zeros((9, 7))))

    def inspected(self, notes, output):
        save(self.folder / "inspected.onnx", {"o": output})
        model = onnx.load(self.folder / "inspected.onnx")
        helper.set_model_props(model, notes)
        onnx.save(model, self.folder / "inspected.onnx")
        return call([MILLRACE, "inspect", self.folder / "inspected.onnx"]).stdout

    def test_a_row_for_each_object(self):
        """As torchvision exports them: a network gives as many rows as it finds objects, which may be none."""
        known = {"begin": np.zeros(4, int), "end": np.array([1, 1, 1, 8]), "shape": np.array([8]),
                 "zero": np.array([0]), "one": np.array([1]), "limit": np.array(100, np.float32),
                 "six": np.array([4, 1, 1]), "numbers": np.arange(8),
                 "all": rows_of([(8 * i, 4, 8 * i + 8, 36, 0.9 - i / 20, i) for i in range(8)]),
                 "sevens": rows_of([(0, 8 * i, 4, 8 * i + 8, 36, i, 0.9 - i / 20) for i in range(8)])}
        nodes = [("Slice", ["image", "begin", "end"], ["row"]), ("Reshape", ["row", "shape"], ["flat"]),
                 ("Greater", ["flat", "limit"], ["bright"]), ("NonZero", ["bright"], ["where"]),
                 ("Squeeze", ["where", "zero"], ["at"]), ("Gather", ["all", "at"], ["o"]),
                 ("Gather", ["sevens", "at"], ["seven"]),
                 ("Split", ["o", "six"], ["boxes", "column", "unused"]), ("Gather", ["numbers", "at"], ["labels"])]
        nodes = [helper.make_node(*one, **({"axis": 1} if one[0] == "Split" else {})) for one in nodes]
        nodes.append(helper.make_node("Squeeze", ["column", "one"], ["scores"]))
        nodes.append(helper.make_node("Transpose", ["boxes"], ["columns"]))
        shapes = {"o": ("n", 6), "seven": ("n", 7), "boxes": ("n", 4), "scores": ("n",), "labels": ("n",),
                  "columns": (4, "n")}
        for file, names in (("one.onnx", ["o"]), ("seven.onnx", ["seven"]),
                            ("three.onnx", ["labels", "boxes", "scores"]),
                            ("columns.onnx", ["labels", "columns", "scores"])):
            save_graph(self.folder / file, nodes, known, {name: shapes[name] for name in names}, integers=["labels"])
        want = [[0, 1, 2], [], [5], list(range(8)), [0, 3, 4, 6]]
        for i, bright in enumerate(want):
            picture = np.zeros((SIDE, SIDE, 3), np.uint8)
            picture[0, bright] = 255
            Image.fromarray(picture).save(self.folder / f"{i}.png")
        custom = "head: custom, custom: {boxes: boxes, scores: scores, classes: labels, suppress: false}"
        for file, options in (("one.onnx", "head: auto"), ("seven.onnx", "head: yolov7-end2end"),
                              ("three.onnx", custom),
                              ("columns.onnx", custom.replace("boxes: boxes", "boxes: columns"))):
            run = self.detect(options, model=file)
            self.assert_balanced(run)
            seen = [[(one["index"], one["left"]) for one in row["objects"]] for row in run.rows]
            self.assertEqual(seen, [[(index, 8 * index) for index in bright] for bright in want])
            seen = [[(round(one["score"], 6), one["top"], one["right"], one["bottom"]) for one in row["objects"]]
                    for row in run.rows]
            self.assertEqual(seen, [[(round(0.9 - index / 20, 6), 4, 8 * index + 8, 36) for index in bright]
                                    for bright in want])
            self.assertIn("batch", self.detect(f"{options}, batch: 4", model=file, code=78, verb="plan").err)
            self.assertIn("on the processors (device: cpu) take such outputs",
                          self.detect(f"{options}, device: 'sim:0'", model=file, code=78, verb="plan").err)

    def test_lines_of_text(self):
        """A map of where text is gives corners, in any direction; what is small or weak is left."""
        text = np.zeros((1, SIDE, SIDE), np.float32)
        text[0, 20:28, 10:30] = 0.75
        text[0, 40:50, 40:60] = 0.45  # above the mask's limit, below the score's
        text[0, 5:7, 5:30] = 1  # flat
        save(self.folder / "model.onnx", {"o": text})
        self.picture()
        grown = 20 * 8 * 1.6 / 56
        want = [(10 - grown) * 200 / 64, (20 - grown) * 100 / 64, (30 + grown) * 200 / 64, (28 + grown) * 100 / 64]
        for options in ("head: db, score: 0.5", "score: 0.5"):
            line, = self.detect(options).rows[0]["objects"]
            left, top, right, bottom = want
            self.assertLess(np.abs(np.array(line["quad"]) - [left, top, right, top, right, bottom, left, bottom]).max(),
                            1e-3)
            self.assertLess(np.abs(np.array([line[side] for side in ("left", "top", "right", "bottom")]) - want).max(),
                            1e-3)
            self.assertAlmostEqual(line["score"], 0.75 * 20 * 8 / (21 * 9), 5)  # over the corners' pixels too
        self.assertEqual(len(self.detect("score: 0.35").rows[0]["objects"]), 2)
        self.assertEqual(len(self.detect("score: 0.35, db: {mask: 0.5}").rows[0]["objects"]), 1)
        tight, = self.detect("score: 0.5, db: {unclip: 0.1}").rows[0]["objects"]
        self.assertAlmostEqual(tight["left"], (10 - grown / 16) * 200 / 64, 3)
        self.assertIn("a db head has one output with a value for each pixel for an input of 64x64",
                      self.with_model("head: db"))

    def with_model(self, options):
        """The message of a pipeline whose network has a head for boxes."""
        save(self.folder / "model.onnx", {"o": rows_of([(8, 4, 24, 36, 0.9, 1)])})
        return self.detect(options, code=78).err

    def test_pictures_of_their_own_sizes(self):
        """A network of any size that finds bright cells of 4 x 4 pixels; with `sides` as with each size alone."""
        nodes = [helper.make_node("AveragePool", ["image"], ["cells"], kernel_shape=[4, 4], strides=[4, 4]),
                 helper.make_node("ReduceMean", ["cells"], ["bright"], axes=[1], keepdims=1),
                 helper.make_node("Mul", ["bright", "share"], ["heat"]),
                 helper.make_node("Mul", ["heat", "none"], ["z"]),
                 *(helper.make_node("Concat", ["z"] * count, [name], axis=1)
                   for name, count in (("scale", 2), ("offset", 2), ("marks", 10)))]
        outputs = {name: ("N", count, "h", "w")
                   for name, count in (("heat", 1), ("scale", 2), ("offset", 2), ("marks", 10))}
        save_graph(self.folder / "faces.onnx", nodes, {"share": np.float32(1 / 255), "none": np.float32(0)}, outputs,
                   ("N", 3, "H", "W"))
        sizes = [(96, 64), (64, 160), (224, 32)]
        for i, (width, height) in enumerate(sizes):
            pixels = np.zeros((height, width, 3), np.uint8)
            for x, y in ((8, 12), (width - 4, height - 4)):
                pixels[y:y + 4, x:x + 4] = 255
            Image.fromarray(pixels).save(self.folder / f"{i}.png")
        options = "head: centerface, score: 0.5, iou: 0.1"
        sides = "fit: stretch, sides: {shorter: 32, least: 32x32, most: 256x256, multiple: 32}"
        rows = self.detect(options, sides, "faces.onnx").rows
        for row, (width, height) in zip(rows, sizes):
            alone = self.detect(options, f"fit: stretch, size: {width}x{height}", "faces.onnx").rows[row["seq"]]
            self.assertEqual(row["objects"], alone["objects"])
            places = sorted((one["left"], one["top"]) for one in row["objects"])
            self.assertEqual(places, sorted([(8, 12), (width - 4, height - 4)]))
        plan = self.detect(options, sides.replace("256x256", "4096x4096"), "faces.onnx", verb="plan", code=None)
        self.assertIn("3x32..4096x32..4096", plan.out)
        for i in range(3):
            (self.folder / f"{i}.png").unlink()
        self.picture("same.png", 96, 64)
        plan = self.detect(options, sides.replace("256x256", "4096x4096"), "faces.onnx", verb="plan", code=None)
        self.assertIn("3x32..128x32..128", plan.out)

    @unittest.skipUnless(YOLOX.exists(), "MILLRACE_YOLOX names no file")
    def test_yolox(self):
        """Every 40th picture of a real video, from the same tensors."""
        (self.folder / "model.onnx").write_bytes(YOLOX.read_bytes())
        text = HEAD.format(uri=f"{PICTURES / 'vtest.avi'}', every: '40") + (
            "  preprocess: {input: decode, fit: letterbox, place: top-left, order: bgr, antialias: false, pad: 114}\n"
            "  network: {type: infer, input: preprocess, model: model.onnx}\n"
            "  detect: {input: network, model: model.onnx, score: 0.3, iou: 0.45}\n"
            "  rows: {type: jsonl, input: detect, tensors: true, path: '${OUTPUT:--}'}\n")
        run = self.run_pipeline(text)
        self.assertEqual(len(run.rows), 20)
        grid, scale = cells(416, 416), np.array([768 / int(768 * (416 / 768)), 576 / int(576 * (416 / 768))] * 2)
        found = 0
        for row in run.rows:
            raw = np.array(row["tensors"][0]["data"], np.float32).reshape(-1, 85)
            scores = raw[:, 4:5] * raw[:, 5:]
            centre, extent = (raw[:, :2] + grid[:, :2]) * grid[:, 2:], np.exp(raw[:, 2:4]) * grid[:, 2:]
            boxes = np.hstack([centre - extent / 2, centre + extent / 2])
            want = []
            for at, index in sorted(zip(*np.nonzero(scores > 0.3)), key=lambda pair: -scores[pair]):
                box = boxes[at]
                for other, kept, _ in want:
                    inner = np.clip(np.minimum(box[2:], kept[2:]) - np.maximum(box[:2], kept[:2]), 0, None).prod()
                    both = (box[2:] - box[:2]).prod() + (kept[2:] - kept[:2]).prod() - inner
                    if other == index and inner / both > 0.45:
                        break
                else:
                    want.append((index, box, scores[at, index]))
            got = row["objects"]
            self.assertEqual([one["index"] for one in got], [index for index, *_ in want])
            for one, (_, box, score) in zip(got, want):
                box = np.clip(box * scale, 0, [768, 576, 768, 576])
                self.assertLess(np.abs(box - [one["left"], one["top"], one["right"], one["bottom"]]).max(), 0.01)
                self.assertLess(abs(score - one["score"]), 1e-5)
            found += len(got)
        self.assertGreater(found, 100)
