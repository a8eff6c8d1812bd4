"""detect: boxes come back to the source's picture, whatever preprocess did; heads, classes and limits are checked.

Most networks here answer with boxes that the test chose, whatever the picture: where these lie in the source's picture
is computed here again. YOLOX-nano, if MILLRACE_YOLOX names its file, is compared with a decoder in NumPy."""
import contextlib
import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import unittest
import urllib.error
import urllib.request

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from harness import MILLRACE, PICTURES, TIMEOUT, Case, call, main

YOLOX = pathlib.Path(os.environ.get("MILLRACE_YOLOX", "/nonexistent"))
SIDE = 64
HEAD = "version: 1\npipeline: objects\nsources: {{photos: {{uri: '{uri}'}}}}\nstages:\n  decode: {{input: photos}}\n"


def cells(width, height):
    grids = []
    for stride in (8, 16, 32):
        ys, xs = np.mgrid[:height // stride, :width // stride]
        grids.append(np.stack([xs.ravel(), ys.ravel(), np.full(xs.size, stride)], 1))
    return np.concatenate(grids)


def save(path, outputs, shape=(1, 3, SIDE, SIDE), dtype=TensorProto.FLOAT):
    """A network whose outputs are constants, to which it adds nothing of the picture."""
    nodes = [helper.make_node("ReduceMax", ["image"], ["most"], axes=[1, 2, 3], keepdims=1),
             helper.make_node("Sub", ["most", "most"], ["nothing"]),
             helper.make_node("Squeeze", ["nothing", "last"], ["zero"])]
    initializers, infos = [numpy_helper.from_array(np.array([3]), "last")], []
    for name, values in outputs.items():
        initializers.append(numpy_helper.from_array(values[None].astype(np.float32), f"{name}_values"))
        nodes.append(helper.make_node("Add", [f"{name}_values", "zero"], [name]))
        infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, (shape[0], *values.shape)))
    graph = helper.make_graph(nodes, "constant", [helper.make_tensor_value_info("image", dtype, shape)], infos,
                              initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def rows_of(boxes):
    """The output of a network that has suppressed itself: left, top, right, bottom, score, class."""
    return np.array(boxes, np.float32)


class Objects(Case):
    def picture(self, name="a.png", width=200, height=100, **options):
        Image.fromarray(np.random.default_rng(3).integers(0, 255, (height, width, 3), np.uint8)).save(
            self.folder / name, **options)

    def detect(self, options, preprocess="fit: stretch", model="model.onnx", more="", code=0, **how):
        text = HEAD.format(uri=self.folder / "*.png")
        text += f"  preprocess: {{input: decode, {preprocess}}}\n"
        text += f"  detect: {{input: preprocess, model: '{self.folder / model}', {options}}}\n"
        text += f"  rows: {{type: jsonl, input: detect, path: '{self.folder}/rows.jsonl'}}\n" + more
        run = self.run_pipeline(text, code=code, rows=False, **how)
        if code == 0:
            run.rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
            (self.folder / "rows.jsonl").unlink()
        return run

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

    def columns(self, **more):
        """The output of a YOLOv8 network with one object of class 1 around the middle, and `more` numbers of it."""
        rows = [32, 28, 48, 40, 0, 0.9, *more.get("numbers", ())]
        return np.stack([np.array(rows, np.float32)] + [np.zeros(len(rows), np.float32)] * 83, axis=1)

    def ways(self, file):
        """Preprocessing, and from a point in the upright picture to one in the network's input."""
        width, height = {"a.png": (200, 100), "b.png": (100, 200)}[file]
        side, least = max(width, height), min(width, height)
        return {"fit: stretch": lambda x, y: (x * 64 / width, y * 64 / height),
                "fit: letterbox, place: top-left": lambda x, y: (x * 64 / side, y * 64 / side),
                "fit: center-crop": lambda x, y: ((x - (width - least) / 2) * 64 / least,
                                                  (y - (height - least) / 2) * 64 / least)}

    def turned(self):
        self.picture()
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned a quarter clockwise
        self.picture("b.png", exif=exif)

    def test_masks(self):
        """The mask lies over the object's box in the upright picture, though that is turned or cut."""
        plane = np.where((np.arange(16) < 8) & (np.arange(16)[:, None] < 10), 1, -1)
        save(self.folder / "model.onnx", {"o": self.columns(numbers=[1]), "p": plane[None]})
        self.turned()
        for preprocess in self.ways("a.png"):
            for row in self.detect("head: auto", preprocess).rows:
                one, = row["objects"]
                wide, tall = one["mask_width"], one["mask_height"]
                mask = np.repeat(np.arange(len(one["mask"])) % 2, one["mask"]).reshape(tall, wide)
                x = one["left"] + (np.arange(wide) + 0.5) * (one["right"] - one["left"]) / wide
                y = one["top"] + (np.arange(tall) + 0.5) * (one["bottom"] - one["top"]) / tall
                x, y = self.ways(row["file"].rsplit("/", 1)[-1])[preprocess](*np.meshgrid(x, y))
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
        for preprocess in self.ways("a.png"):
            for options, file in (("head: yolov8-pose, points: 3", "model.onnx"), ("head: auto", "noted.onnx")):
                for row in self.detect(options, preprocess, file).rows:
                    one, = row["objects"]
                    at = np.reshape(one["points"], (3, 3))
                    back = self.ways(row["file"].rsplit("/", 1)[-1])[preprocess](at[:, 0], at[:, 1])
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
            for preprocess in self.ways("a.png"):
                for row in self.detect(options, preprocess, file).rows:
                    one = row["objects"][0]
                    quad = np.reshape(one["quad"], (4, 2))
                    back = self.ways(row["file"].rsplit("/", 1)[-1])[preprocess](*quad.T)
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
        self.assertIn("shapes of a end2end head", self.inspected({"task": "obb"}, np.zeros((9, 7))))

    def test_a_row_for_each_object(self):
        """As torchvision exports them: a network gives as many rows as it finds objects, which may be none."""
        known = {"begin": np.zeros(4, int), "end": np.array([1, 1, 1, 8]), "shape": np.array([8]),
                 "zero": np.array([0]), "one": np.array([1]), "limit": np.array(100, np.float32),
                 "six": np.array([4, 1, 1]), "numbers": np.arange(8),
                 "all": rows_of([(8 * i, 4, 8 * i + 8, 36, 0.9 - i / 20, i) for i in range(8)])}
        nodes = [("Slice", ["image", "begin", "end"], ["row"]), ("Reshape", ["row", "shape"], ["flat"]),
                 ("Greater", ["flat", "limit"], ["bright"]), ("NonZero", ["bright"], ["where"]),
                 ("Squeeze", ["where", "zero"], ["at"]), ("Gather", ["all", "at"], ["o"]),
                 ("Split", ["o", "six"], ["boxes", "column", "unused"]), ("Gather", ["numbers", "at"], ["labels"])]
        nodes = [helper.make_node(*one, **({"axis": 1} if one[0] == "Split" else {})) for one in nodes]
        nodes.append(helper.make_node("Squeeze", ["column", "one"], ["scores"]))
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, SIDE, SIDE))
        kinds = {"o": (TensorProto.FLOAT, ("n", 6)), "boxes": (TensorProto.FLOAT, ("n", 4)),
                 "scores": (TensorProto.FLOAT, ("n",)), "labels": (TensorProto.INT64, ("n",))}
        nodes.append(helper.make_node("Transpose", ["boxes"], ["columns"]))
        kinds["columns"] = (TensorProto.FLOAT, (4, "n"))
        for file, names in (("one.onnx", ["o"]), ("three.onnx", ["labels", "boxes", "scores"]),
                            ("columns.onnx", ["labels", "columns", "scores"])):
            outputs = [helper.make_tensor_value_info(name, *kinds[name]) for name in names]
            graph = helper.make_graph(nodes, "rows", [image], outputs,
                                      [numpy_helper.from_array(values, name) for name, values in known.items()])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
                      self.folder / file)
        want = [[0, 1, 2], [], [5], list(range(8)), [0, 3, 4, 6]]
        for i, bright in enumerate(want):
            picture = np.zeros((SIDE, SIDE, 3), np.uint8)
            picture[0, bright] = 255
            Image.fromarray(picture).save(self.folder / f"{i}.png")
        custom = "head: custom, custom: {boxes: boxes, scores: scores, classes: labels, suppress: false}"
        for file, options in (("one.onnx", "head: auto"), ("three.onnx", custom),
                              ("columns.onnx", custom.replace("boxes: boxes", "boxes: columns"))):
            run = self.detect(options, model=file)
            self.assert_balanced(run)
            seen = [[(one["index"], one["left"]) for one in row["objects"]] for row in run.rows]
            self.assertEqual(seen, [[(index, 8 * index) for index in bright] for bright in want])
            self.assertIn("batch", self.detect(f"{options}, batch: 4", model=file, code=78, verb="plan").err)
            self.assertIn("on the processors (device: cpu) take such outputs",
                          self.detect(f"{options}, device: 'sim:0'", model=file, code=78, verb="plan").err)

    def inspected(self, notes, output):
        save(self.folder / "inspected.onnx", {"o": output})
        model = onnx.load(self.folder / "inspected.onnx")
        helper.set_model_props(model, notes)
        onnx.save(model, self.folder / "inspected.onnx")
        return call([MILLRACE, "inspect", self.folder / "inspected.onnx"]).stdout

    def test_agnostic(self):
        boxes = np.zeros((6, 84), np.float32)
        boxes[:, 0], boxes[:, 1] = (32, 28, 20, 20, 0.9, 0.8), (33, 28, 20, 20, 0, 0.7)
        save(self.folder / "model.onnx", {"o": boxes})
        self.picture(width=64, height=64)
        seen = {options: [(one["index"], round(one["score"], 2)) for one in self.detect(options).rows[0]["objects"]]
                for options in ("agnostic: false", "agnostic: true", "agnostic: true, classes: [1]")}
        self.assertEqual(list(seen.values()), [[(0, 0.9), (1, 0.8)], [(0, 0.9)], [(1, 0.8)]])

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
            for preprocess in self.ways("a.png"):
                labels = f"labels: {self.folder / 'labels.txt'}, without: [ground]"
                for row in self.segmented(preprocess, options + labels):
                    self.check_segments(row, preprocess, kinds, share if tensor.ndim == 3 else np.ones((16, 16)))
            for least, shown in (0.05, [2]), (0.2, []):
                row = self.segmented("fit: stretch", f"{options}classes: [2], least: {least}")[0]
                self.assertEqual([one["index"] for one in row["objects"]], shown)

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
        graph = helper.make_graph(
            nodes, "chosen", [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, SIDE, SIDE))],
            [helper.make_tensor_value_info("o", TensorProto.FLOAT, (1, "classes", 8, 8))],
            [numpy_helper.from_array(value, name) for name, value in known.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
                  self.folder / "model.onnx")
        self.assertIn("a frame of infer has a tensor f32 1x?x8x8, and not a map",
                      self.segmented("fit: stretch", "least: 0.5"))

    def check_segments(self, row, preprocess, kinds, share):
        seen = {one["label"]: one for one in row["objects"]}
        self.assertLessEqual(set(seen), {"road", "tree"})
        self.assertIn("road", seen)
        for label, one in seen.items():
            index = ("ground", "road", "tree").index(label)
            found = kinds == index
            self.assertAlmostEqual(one["score"], share[found].mean(), places=5)
            self.assertAlmostEqual(one["attributes"][0]["score"], found.mean(), places=6)
            wide, tall = one["mask_width"], one["mask_height"]
            mask = np.repeat(np.arange(len(one["mask"])) % 2, one["mask"]).reshape(tall, wide)
            x = one["left"] + (np.arange(wide) + 0.5) * (one["right"] - one["left"]) / wide
            y = one["top"] + (np.arange(tall) + 0.5) * (one["bottom"] - one["top"]) / tall
            x, y = self.ways(row["file"].rsplit("/", 1)[-1])[preprocess](*np.meshgrid(x, y))
            sure = (np.abs(x % 4 - 2) < 1.9) & (np.abs(y % 4 - 2) < 1.9)
            want = found[np.clip(y // 4, 0, 15).astype(int), np.clip(x // 4, 0, 15).astype(int)]
            self.assertTrue((mask == want)[sure].all())
            self.assertGreater(sure.sum(), 3)

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
        graph = helper.make_graph(
            nodes, "finder", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("N", 3, SIDE, SIDE))],
            [helper.make_tensor_value_info("o", TensorProto.FLOAT, ("N", 1, 6))],
            [numpy_helper.from_array(value, name) for name, value in known.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)

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
                 (70, 5, 90, 9, 0.9, 1), (5, 5, 5, 9, 0.9, 1), (1, 1, 9, 9, np.nan, 1), (1, 1, 9, 9, 0.25, 1),
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

    def test_pictures_of_their_own_sizes(self):
        """A network of any size that finds bright cells of 4 x 4 pixels; with `sides` as with each size alone."""
        nodes = [helper.make_node("AveragePool", ["image"], ["cells"], kernel_shape=[4, 4], strides=[4, 4]),
                 helper.make_node("ReduceMean", ["cells"], ["bright"], axes=[1], keepdims=1),
                 helper.make_node("Mul", ["bright", "share"], ["heat"]),
                 helper.make_node("Mul", ["heat", "none"], ["z"]),
                 *(helper.make_node("Concat", ["z"] * count, [name], axis=1)
                   for name, count in (("scale", 2), ("offset", 2), ("marks", 10)))]
        info = lambda name, *dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        graph = helper.make_graph(
            nodes, "faces", [info("image", "N", 3, "H", "W")],
            [info("heat", "N", 1, "h", "w"), info("scale", "N", 2, "h", "w"), info("offset", "N", 2, "h", "w"),
             info("marks", "N", 10, "h", "w")],
            [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("share", 1 / 255),
                                                                                            ("none", 0))])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
                  self.folder / "faces.onnx")
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

    def moving(self, frames=40, gap=()):
        """A network that reads its one box from the picture: the first pixel is the centre's column."""
        nodes = [helper.make_node("Slice", ["image", "zero4", "one4"], ["pixel"]),
                 helper.make_node("Squeeze", ["pixel", "last"], ["column"]),
                 helper.make_node("Mul", ["column", "moves"], ["shift"]),
                 helper.make_node("Add", ["box", "shift"], ["o"])]
        known = {"zero4": np.array([0, 0, 0, 0]), "one4": np.array([1, 1, 1, 1]), "last": np.array([3]),
                 "moves": np.array([[[1, 0, 1, 0, 0, 0]]], np.float32),
                 "box": np.array([[[-8, 20, 8, 44, 0.9, 0]]], np.float32)}
        graph = helper.make_graph(nodes, "moving",
                                  [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, SIDE, SIDE))],
                                  [helper.make_tensor_value_info("o", TensorProto.FLOAT, (1, 1, 6))],
                                  [numpy_helper.from_array(values, name) for name, values in known.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
                  self.folder / "moving.onnx")
        pictures = np.zeros((frames, SIDE, SIDE, 3), np.uint8)
        pictures[:, 0, 0] = (10 + np.arange(frames))[:, None]
        for i in gap:
            pictures[i, 0, 0] = 200  # the box lies outside
        subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{SIDE}x{SIDE}",
                        "-r", "20", "-i", "-", "-c:v", "ffv1", self.folder / "moving.mkv"],
                       input=pictures.tobytes(), check=True)

    def test_tracks(self):
        """An object that moves, hides for half a second, and comes again in each turn of a loop."""
        self.moving(gap=range(15, 25))
        text = HEAD.format(uri=f"{self.folder}/moving.mkv', loop: '2") + (
            "  preprocess: {input: decode, size: 64x64}\n"
            "  detect: {input: preprocess, model: moving.onnx, head: end2end}\n"
            "  track: {input: detect, confirm: 100ms, lost: 1s}\n"
            "  rows: {type: jsonl, input: track, path: '${OUTPUT:--}'}\n")
        for options in ("", ", lost: 300ms"):
            run = self.run_pipeline(text.replace(", lost: 1s", options or ", lost: 1s"))
            self.assert_balanced(run)
            tracks = [[one["track"] for one in row["objects"]] for row in run.rows]
            second = 1000000001
            again = 1 if not options else 2
            self.assertEqual(len(tracks), 80)
            self.assertEqual(tracks[:15], [[None]] * 2 + [[1]] * 13)
            self.assertEqual(tracks[15:25], [[]] * 10)
            self.assertEqual(tracks[27:40], [[again]] * 13)
            self.assertEqual(tracks[40:55], [[None]] * 2 + [[second]] * 13)
        self.assertEqual(list(run.rows[0]["objects_by_stage"]), ["track", "detect"])
        text = text.replace("lost: 1s", "lost: 300ms")
        newest = self.run_pipeline(text.replace("input: track,", "input: track, by_stage: false,"))
        for row in run.rows:
            del row["objects_by_stage"]
        self.assertEqual(newest.rows, run.rows)
        confirmed = self.run_pipeline(text.replace("lost: 300ms", "lost: 300ms, unconfirmed: drop"))
        self.assert_balanced(confirmed)
        self.assertEqual([row["objects"] for row in confirmed.rows],
                         [[one for one in row["objects"] if one["track"]] for row in run.rows])

    def test_tracks_that_coast(self):
        """An object that is not found stays where it should be, with its number, for as long as asked."""
        self.moving(gap=range(15, 25))
        text = HEAD.format(uri=self.folder / "moving.mkv") + (
            "  preprocess: {input: decode, size: 64x64}\n"
            "  detect: {input: preprocess, model: moving.onnx, head: end2end}\n"
            "  track: {input: detect, confirm: 100ms, lost: 1s, coast: 300ms}\n"
            "  rows: {type: jsonl, input: track, path: '${OUTPUT:--}'}\n")
        run = self.run_pipeline(text)
        self.assert_balanced(run)
        tracks = [[one["track"] for one in row["objects"]] for row in run.rows]
        self.assertEqual(tracks[2:], [[1]] * 19 + [[]] * 4 + [[1]] * 15)
        lefts = [row["objects"][0]["left"] for row in run.rows[:21]]
        self.assertLess(np.abs(np.diff(lefts) - 1).max(), 0.3)
        run = self.run_pipeline(text.replace("300ms}", "2s}"), code=78, verb="check", rows=False)
        self.assertIn("coast must be at most lost", run.err)

    def test_classes_of_objects(self):
        """filter and record look at the newest objects; the plan knows the labels of a detector."""
        gap = range(15, 25)
        self.moving(gap=gap)
        (self.folder / "labels.txt").write_text("dog\ncat\n")
        text = HEAD.format(uri=f"{self.folder}/moving.mkv") + (
            "  preprocess: {input: decode, size: 64x64}\n"
            "  detect: {input: preprocess, model: moving.onnx, head: end2end, labels: labels.txt}\n"
            "  track: {input: detect, confirm: 100ms}\n"
            "  filter: {input: track, classes: [dog]}\n"
            "  rows: {type: jsonl, input: filter, path: rows.jsonl}\n"
            "  record: {input: [photos, track], path: events, name: '{number}.mkv', before: 0s, after: 100ms, "
            "classes: [dog], score: 0.8}\n")
        run = self.run_pipeline(text, rows=False)
        self.assert_balanced(run)
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        self.assertEqual([row["seq"] for row in rows], [i for i in range(40) if i not in gap])
        events = [json.loads(path.read_text()) for path in sorted((self.folder / "events").glob("*.json"))]
        self.assertEqual([event["trigger_count"] for event in events], [15, 15])
        for event, first in zip(events, (0, 25)):
            self.assertEqual([(one["stage"], one["label"], one["seq"]) for one in event["triggers"]][0],
                             ("track", "dog", first))
        for old, new, words in (
                ("filter: {input: track, classes: [dog]", "filter: {input: track, classes: [horse]",
                 'detect has no label "horse", so no frame would ever pass; it has "dog", "cat"'),
                ("classes: [dog], score", "classes: [dogs], score", 'detect has no label "dogs", so nothing would ever '
                 "be recorded"),
                ("labels: labels.txt", "labels: labels.txt, classes: [cat]", 'detect has no label "dog"'),
                ("score: 0.8", "score: 80", "no score is above 1, so nothing would ever be recorded; write score: 0.8"),
                ("filter: {input: track", "filter: {input: decode", "no frame that comes here has classes or objects")):
            with self.subTest(new):
                self.assertIn(old, text)
                self.assertIn(words, self.run_pipeline(text.replace(old, new), code=78, verb="plan", rows=False).err)

    def test_a_preview_tells_of_objects(self):
        self.moving(4)
        text = HEAD.format(uri=f"{self.folder}/moving.mkv', realtime: true, loop: 'true") + (
            "  preprocess: {input: decode, size: 64x64}\n"
            "  detect: {input: preprocess, model: moving.onnx, head: end2end}\n"
            "  shown: {type: join, join: {picture: decode, found: detect}}\n"
            "  look: {type: preview, input: shown, listen: '127.0.0.1:0'}\n")
        log = self.folder / "log"
        with log.open("w") as to:
            child = self.spawn([MILLRACE, "run", self.write(text), "--log", "info"], stderr=to, stdout=to)
        port = self.wait_until(lambda: re.search(r"listens at http://127\.0\.0\.1:(\d+)/", log.read_text()), log,
                               child)[1]

        def row():
            with contextlib.suppress(urllib.error.HTTPError):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/photos.json") as answer:
                    return json.load(answer)
        found = self.wait_until(row, log, child)["objects"]
        self.assertEqual([(one["top"], one["number"]) for one in found], [(20, 1)])
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(TIMEOUT), 0)

    def evaluate(self, *more, code=0, model="model.onnx", text=None, data="truth.json"):
        self.write(text or (HEAD.format(uri="nothing.png") + (
            "  preprocess: {input: decode, fit: stretch, size: 64x64}\n"
            f"  detect: {{input: preprocess, model: {model}, head: end2end, labels: labels.txt}}\n"
            "  rows: {type: jsonl, input: detect, path: rows.jsonl}\n")))
        done = call([MILLRACE, "evaluate", self.folder / "pipeline.yaml", "--data", self.folder / data, *more])
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if "--json" in more else done.stdout + done.stderr

    def test_evaluated(self):
        """Against COCO's annotations; the pipeline's own outputs are not written."""
        boxes = [(8, 4, 24, 36, 0.9, 1), (0, 0, 64, 64, 0.8, 0), (30, 20, 40, 30, 0.01, 1), (30, 20, 40, 30, 0.9, 2)]
        save(self.folder / "model.onnx", {"o": rows_of(boxes)})
        (self.folder / "labels.txt").write_text("cat\ndog\nhen\n")
        (self.folder / "photos").mkdir()
        for name in ("photos/1.png", "photos/2.png", "photos/\u00e9 3.png"):
            self.picture(name, 64, 64)
        truth = {"images": [{"id": 7, "file_name": "photos/2.png"}, {"id": 3, "file_name": "photos/\u00e9 3.png"},
                            {"id": 9, "file_name": "photos/1.png"}],
                 "categories": [{"id": 5, "name": "dog"}, {"id": 2, "name": "cat"}, {"id": 8, "name": "cow"}],
                 "annotations": [{"id": 1, "image_id": 7, "category_id": 5, "bbox": [8, 4, 16, 32], "area": 512},
                                 {"id": 2, "image_id": 7, "category_id": 2, "bbox": [0, 0, 64, 64], "area": 4096},
                                 {"id": 3, "image_id": 9, "category_id": 2, "bbox": [0, 0, 64, 32], "area": 2048},
                                 {"id": 4, "image_id": 3, "category_id": 5, "bbox": [30, 20, 10, 10]}]}
        path = self.folder / "truth.json"
        path.write_text(json.dumps(truth))
        found = self.evaluate("--json")
        self.assertEqual((found["pictures"], found["missing_pictures"], found["objects"], found["found"],
                          found["found_of_other_classes"]), (3, 0, 4, 9, 3))
        self.assertEqual([(one["name"], one["objects"], one["found"]) for one in found["classes"]],
                         [("cat", 2, 3), ("dog", 2, 6), ("cow", 0, 0)])
        with contextlib.suppress(ModuleNotFoundError), contextlib.redirect_stdout(None):
            from pycocotools.coco import COCO
            from pycocotools.cocoeval import COCOeval
            coco = COCO()
            coco.dataset = {**truth, "annotations": [{"area": 100, "iscrowd": 0, **one}
                                                     for one in truth["annotations"]]}
            coco.createIndex()
            given = [{"image_id": image, "category_id": (2, 5)[index], "score": float(np.float32(score)),
                      "bbox": [left, top, right - left, bottom - top]}
                     for image in (7, 3, 9) for left, top, right, bottom, score, index in boxes if index < 2]
            judge = COCOeval(coco, coco.loadRes(given), "bbox")
            judge.evaluate()
            judge.accumulate()
            judge.summarize()
            for name, want in zip(("precision", "precision_50", "precision_75", "precision_small", "precision_medium",
                                   "precision_large", "recall_1", "recall_10", "recall_100", "recall_small",
                                   "recall_medium", "recall_large"), judge.stats):
                self.assertAlmostEqual(-1 if found[name] is None else found[name], want, 12, name)
        self.assertIn("mAP        0.397; at an overlap of 0.5 0.583", self.evaluate())
        self.assertFalse((self.folder / "rows.jsonl").exists())
        fewer = self.evaluate("--json", "--set", "stages.detect.score=0.5")
        self.assertEqual((fewer["found"], fewer["classes"][1]["found"]), (6, 3))

    def test_evaluation_refused(self):
        save(self.folder / "model.onnx", {"o": rows_of([(8, 4, 24, 36, 0.9, 1)])})
        (self.folder / "labels.txt").write_text("cat\ndog\n")
        self.picture(width=64, height=64)
        path = self.folder / "truth.json"
        image, category = {"id": 1, "file_name": "a.png"}, {"id": 1, "name": "owl"}
        one = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}
        whole = {"images": [image], "categories": [category], "annotations": [one]}
        for change, code, words in (
                ({}, 65, "none of the objects that detect gives has a class of the data, such as \"owl\""),
                ({"images": 1}, 65, 'it has no list "images"'),
                ({"images": []}, 65, "annotations[0] has an image_id that no image has"),
                ({"images": [], "annotations": []}, 65, "it lists no images, or no categories"),
                ({"images": [{"id": "1", "file_name": "a.png"}]}, 65, 'images[0] needs a whole number "id"'),
                ({"images": [image, image]}, 65, "two of images have the id 1"),
                ({"images": [image, {**image, "id": 2}]}, 65, "two images have the file"),
                ({"images": [{"id": 1, "file_name": "b.png"}]}, 66, "b.png: No such file"),
                ({"annotations": [{**one, "category_id": 4}]}, 65, "has a category_id that no category has"),
                ({"annotations": [{**one, "bbox": [1, 2, 3]}]}, 65, 'needs a "bbox" of four numbers'),
                ({"annotations": [{**one, "bbox": [1, 2, -3, 4]}]}, 65, 'needs a "bbox" of four numbers'),
                ({"annotations": [[]]}, 65, "annotations[0] has an image_id that no image has")):
            path.write_text(json.dumps({**whole, **change}))
            with self.subTest(change):
                self.assertIn(words, self.evaluate(code=code))
        path.write_text("{")
        self.assertIn("it is not JSON", self.evaluate(code=65))
        path.write_text(json.dumps(whole))
        for more, code, words in (
                (("--page", "a.html"), 64, "--vectors, --part, --page and --scores are not for objects"),
                (("--stage", "decode"), 78, "decode gives no objects"),
                (("--stage", "cow"), 78, 'no stage has the id "cow"')):
            with self.subTest(more):
                self.assertIn(words, self.evaluate(*more, code=code))
        text = HEAD.format(uri="nothing.png") + "  rows: {type: jsonl, input: decode, path: rows.jsonl}\n"
        self.assertIn("no stage is of type detect", self.evaluate(code=78, text=text))

    TRACKED = ("  preprocess: {input: decode, size: 64x64}\n"
               "  detect: {input: preprocess, model: moving.onnx, head: end2end}\n"
               "  track: {input: detect, confirm: 100ms, lost: 300ms}\n"
               "  rows: {type: jsonl, input: track, path: rows.jsonl}\n")

    def test_tracks_evaluated(self):
        """Against MOTChallenge's text: tracks are confirmed in the third frame, and switch after a gap."""
        self.moving(gap=range(15, 25))
        truth = self.folder / "gt.txt"
        truth.write_text("".join(f"{i + 1},7,{2 + i},20,16,24,1,1,1\n" for i in range(40)) +
                         "3,8,10,10,10,10,0,1,1\n5,9,300,10,10,10,1,3,1\n\n")
        text = HEAD.format(uri=self.folder / "moving.mkv") + self.TRACKED
        found = self.evaluate("--json", data="gt.txt", text=text)
        self.assertEqual([found[key] for key in ("stage", "pictures", "missing_pictures", "objects", "tracks", "found",
                                                 "found_tracks", "matched", "switches")],
                         ["track", 40, 0, 40, 1, 26, 2, 26, 1])
        self.assertEqual((found["mota"], found["mostly_tracked"], found["mostly_lost"]), (25 / 40, 0, 0))
        self.assertAlmostEqual(found["idf1"], 13 / 33, 12)
        self.assertAlmostEqual(found["association"], (13 * 13 / 40 * 2) / 26, 9)
        self.assertAlmostEqual(found["detection"], 26 / 40, 9)
        self.assertAlmostEqual(found["hota"], (26 / 40 * 13 / 40) ** 0.5, 9)
        self.assertIn("MOTA       0.625; 14 missed, 0 wrong, 1 switches; MOTP 1.000\n",
                      self.evaluate(data="gt.txt", text=text))
        self.assertFalse((self.folder / "rows.jsonl").exists())
        for lines, code, words in (("1,2,3,4,5\n", 65, "gt.txt:1: a line has frame, id, left"),
                                   ("1,1,2,3,4,5,1,1\n0,1,2,3,4,5,1,1\n", 65, "gt.txt:2: frames are whole numbers"),
                                   ("1,-1,2,3,4,5,1,1\n", 65, "files of detections have -1 there"),
                                   ("1,1,2,3,-4,5,1,1\n", 65, "the width and the height are at least 0"),
                                   ("1,1,2,3,4,5\n1,1,9,3,4,5\n", 65, "two objects with one track and class"),
                                   ("\n", 65, "it has no objects"),
                                   ("1,1,2,3,4,5,1,1\n", 78, "those of detect have none: name a stage after track"),
                                   ("1,1,2,3,4,5,1,1\n ", 78, "its source has no end, and the truth has one")):
            with self.subTest(lines):
                truth.write_text(lines)
                endless = lines.endswith(" ")
                more = () if code != 78 else ("--set", "sources.photos.loop=true") if endless else ("--stage", "detect")
                self.assertIn(words, self.evaluate(*more, data="gt.txt", text=text, code=code))

    def test_tracks_of_pictures_evaluated(self):
        """Against COCO's annotations with tracks: each video is followed for itself, at its rate."""
        self.moving(2)
        images, annotations = [], []
        for i in range(20):
            pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
            pixels[0, 0] = 10 + i // 2
            Image.fromarray(pixels).save(self.folder / f"{i}.png")
            images.append({"id": i, "file_name": f"{i}.png", "video_id": i % 2, "frame_id": i // 2})
            annotations.append({"id": i, "image_id": i, "category_id": 1, "bbox": [2 + i // 2, 20, 16, 24],
                                "track_id": 0})
        truth = {"images": images[::-1], "annotations": annotations, "categories": [{"id": 1, "name": "owl"}],
                 "videos": [{"id": 0, "fps": 20}, {"id": 1, "fps": 10}]}
        (self.folder / "truth.json").write_text(json.dumps(truth))
        text = HEAD.format(uri="nothing.png") + self.TRACKED
        found = self.evaluate("--json", text=text)
        self.assertEqual([found[key] for key in ("sequences", "pictures", "objects", "tracks", "found", "found_tracks",
                                                 "switches")], [2, 20, 20, 2, 17, 2, 0])
        self.assertEqual(found["mota"], 17 / 20)
        self.assertIn("mAP        1.000", self.evaluate("--stage", "detect", text=text))
        annotations[2]["image_id"] = 0
        (self.folder / "truth.json").write_text(json.dumps(truth))
        self.assertIn("/0.png has two objects with one track and class", self.evaluate(text=text, code=65))
        for track, words in ((None, "annotations[2] has no track_id, and others have one"), (-1, "a track below 0"),
                             (2**63 - 1, "one that is too large")):
            annotations[2].update(image_id=2, track_id=track)
            (self.folder / "truth.json").write_text(json.dumps(truth))
            self.assertIn(words, self.evaluate(text=text, code=65))

    def test_tracks_refused(self):
        self.moving(2)
        text = HEAD.format(uri=self.folder / "moving.mkv") + (
            "  track: {input: decode}\n  rows: {type: jsonl, input: track}\n")
        run = self.run_pipeline(text, code=78, verb="check", rows=False)
        self.assertIn("no frame that comes here has objects: name a stage after detect as its input", run.err)

    def test_refused(self):
        self.picture()
        (self.folder / "three.txt").write_text("a\nb\nc\n")
        save(self.folder / "model.onnx", {"o": np.zeros((len(cells(SIDE, SIDE)), 7))})
        save(self.folder / "pair.onnx", {"boxes": np.zeros((9, 4)), "scores": np.zeros((9, 3))})
        save(self.folder / "odd.onnx", {"o": np.zeros((5, 5))})
        self.assertIn("hint: `tools/demo faces` makes build/faces of the source tree",
                      self.detect("score: 0.5", model="build/faces/none.onnx", code=66, verb="plan").err)
        for options, model, words in (
                ("head: yolov8", "model.onnx", "a yolov8 head has one output of (4 + classes) x 84 for an input of "
                 '64x64; the network gives "o" tensor f32 84x7'),
                ("score: 0.3", "pair.onnx", "fit several heads (ssd, rtdetr): write head"),
                ("score: 0.3", "odd.onnx", "fit no head by their shapes, for an input of 64x64: write head"),
                (f"labels: {self.folder / 'three.txt'}", "model.onnx", "3 labels, and the network finds 2 classes"),
                ("classes: [cow]", "model.onnx", 'classes: "cow" is no name without labels, and not a number below 2: '
                 "write labels: FILE"),
                ("classes: [2]", "model.onnx", 'classes: "2" is no name without labels, and not a number below 2'),
                ("outputs: [o, o]", "model.onnx", 'names "o" twice'),
                ("outputs: [none]", "model.onnx", 'has no output "none"; its outputs are: o'),
                ("head: custom", "pair.onnx", "head: custom and custom: {boxes: ...} belong together"),
                ("custom: {boxes: boxes, scores: scores}", "pair.onnx", "belong together"),
                ("head: custom, custom: {boxes: boxes}", "pair.onnx", "names of two outputs, boxes and scores"),
                ("head: custom, custom: {boxes: no, scores: scores}", "pair.onnx", 'output "no" is not an f32 output'),
                ("score: 2", "model.onnx", "score")):
            with self.subTest(options, model=model):
                run = self.detect(options, model=model, code=78, verb="plan")
                self.assertIn(words, run.err)

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


if __name__ == "__main__":
    main()
