"""Networks that answer with what the test chose, and pipelines around them: shared by the scripts about objects."""
import functools
import json
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from harness import Case

SIDE = 64
HEAD = "version: 1\npipeline: objects\nsources: {{photos: {{uri: '{uri}'}}}}\nstages:\n  decode: {{input: photos}}\n"


def save_graph(path, nodes, known, outputs, shape=(1, 3, SIDE, SIDE), integers=()):
    """A network that takes `image`, has constants `known`, and gives `outputs`, a map to shapes."""
    def info(name, dims):
        return helper.make_tensor_value_info(name, TensorProto.INT64 if name in integers else TensorProto.FLOAT, dims)
    graph = helper.make_graph(nodes, "drawn", [info("image", shape)], [info(*one) for one in outputs.items()],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def save(path, outputs, shape=(1, 3, SIDE, SIDE)):
    """A network whose outputs are constants, to which it adds nothing of the picture."""
    nodes = [helper.make_node("ReduceMax", ["image"], ["most"], axes=[1, 2, 3], keepdims=1),
             helper.make_node("Sub", ["most", "most"], ["nothing"]),
             helper.make_node("Squeeze", ["nothing", "last"], ["zero"]),
             *(helper.make_node("Add", [f"{name}_values", "zero"], [name]) for name in outputs)]
    known = {f"{name}_values": values[None].astype(np.float32) for name, values in outputs.items()}
    save_graph(path, nodes, {"last": np.array([3]), **known},
               {name: (shape[0], *values.shape) for name, values in outputs.items()}, shape)


def rows_of(boxes):
    """The output of a network that has suppressed itself: left, top, right, bottom, score, class."""
    return np.array(boxes, np.float32)


class ObjectsCase(Case):
    def picture(self, name="a.png", width=200, height=100, **options):
        Image.fromarray(np.random.default_rng(3).integers(0, 255, (height, width, 3), np.uint8)).save(
            self.folder / name, **options)

    def turned(self):
        self.picture()
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned a quarter clockwise
        self.picture("b.png", exif=exif)

    # Preprocessing, and from a point in an upright picture of w x h pixels to one in the network's input.
    WAYS = {"fit: stretch": lambda w, h, x, y: (x * 64 / w, y * 64 / h),
            "fit: letterbox, place: top-left": lambda w, h, x, y: (x * 64 / max(w, h), y * 64 / max(w, h)),
            "fit: center-crop": lambda w, h, x, y: ((x - (w - min(w, h)) / 2) * 64 / min(w, h),
                                                    (y - (h - min(w, h)) / 2) * 64 / min(w, h))}

    def way(self, file, preprocess):
        return functools.partial(self.WAYS[preprocess], *((200, 100) if file.endswith("a.png") else (100, 200)))

    def mask_of(self, one, file, preprocess):
        """An object's mask, and where its pixels lie in the network's input."""
        wide, tall = one["mask_width"], one["mask_height"]
        mask = np.repeat(np.arange(len(one["mask"])) % 2, one["mask"]).reshape(tall, wide)
        x = one["left"] + (np.arange(wide) + 0.5) * (one["right"] - one["left"]) / wide
        y = one["top"] + (np.arange(tall) + 0.5) * (one["bottom"] - one["top"]) / tall
        return mask, *self.way(file, preprocess)(*np.meshgrid(x, y))

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

    def moving(self, frames=40, gap=()):
        """A network that reads its one box from the picture: the first pixel is the centre's column."""
        nodes = [helper.make_node("Slice", ["image", "zero4", "one4"], ["pixel"]),
                 helper.make_node("Squeeze", ["pixel", "last"], ["column"]),
                 helper.make_node("Mul", ["column", "moves"], ["shift"]),
                 helper.make_node("Add", ["box", "shift"], ["o"])]
        known = {"zero4": np.array([0, 0, 0, 0]), "one4": np.array([1, 1, 1, 1]), "last": np.array([3]),
                 "moves": np.array([[[1, 0, 1, 0, 0, 0]]], np.float32),
                 "box": np.array([[[-8, 20, 8, 44, 0.9, 0]]], np.float32)}
        save_graph(self.folder / "moving.onnx", nodes, known, {"o": (1, 1, 6)})
        pictures = np.zeros((frames, SIDE, SIDE, 3), np.uint8)
        pictures[:, 0, 0] = (10 + np.arange(frames))[:, None]
        for i in gap:
            pictures[i, 0, 0] = 200  # the box lies outside
        subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{SIDE}x{SIDE}",
                        "-r", "20", "-i", "-", "-c:v", "ffv1", self.folder / "moving.mkv"],
                       input=pictures.tobytes(), check=True)
