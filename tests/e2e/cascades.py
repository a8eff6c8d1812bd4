"""Cascades: detect, crop, more networks, gather. Their classes are those of a loop over cut-outs in Python. Shared by
the scripts about them.

The first pixel of a picture tells the drawn detector how many objects it has. They are squares of a grid, and noise."""
import subprocess

import numpy as np
import onnxruntime
from onnx import helper

from harness import Case, pipeline
from objects import save_graph

SIDE, CELL, CLASSES = 160, 16, 10
MOST = (SIDE // CELL) ** 2
RNG = np.random.default_rng(11)
WEIGHTS = RNG.normal(size=(3 * CELL * CELL, CLASSES)).astype(np.float32) / 2000
# Not whole pixels: left and top are rounded down, right and bottom up.
BOXES = np.array([[x + 0.25, y + 0.5, x + CELL - 0.75, y + CELL - 0.125]
                  for y in range(0, SIDE, CELL) for x in range(0, SIDE, CELL)], np.float32)
SCORES = (0.9 - 0.005 * np.arange(MOST)).astype(np.float32)


def save(path, nodes, known, output, shape=(3, SIDE, SIDE)):
    save_graph(path, nodes, known, {output[0]: ("N", *output[1:])}, ("N", *shape))


def save_detector(path):
    """Rows of left, top, right, bottom, score, class. The score is 0 from the row on that the first pixel says."""
    rows, rank, scores = (np.zeros((1, MOST, 6), np.float32) for _ in range(3))
    rows[0, :, :4], rank[0, :, 4], scores[0, :, 4] = BOXES, np.arange(MOST), SCORES
    rows[0, :, 5] = np.arange(MOST) % 3
    nodes = [helper.make_node("Slice", ["image", "from", "to", "axes"], ["pixel"]),
             helper.make_node("Squeeze", ["pixel", "last"], ["count"]),
             helper.make_node("Sub", ["count", "rank"], ["left"]),
             helper.make_node("Clip", ["left", "zero", "one"], ["there"]),
             helper.make_node("Mul", ["there", "scores"], ["score"]), helper.make_node("Add", ["rows", "score"], ["o"])]
    save(path, nodes, {"from": np.array([0, 0, 0]), "to": np.array([1, 1, 1]), "axes": np.array([1, 2, 3]),
                       "last": np.array([3]), "rank": rank, "zero": np.float32(0), "one": np.float32(1),
                       "scores": scores, "rows": rows}, ("o", MOST, 6))


def save_looker(path):
    save(path, [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["v"])],
         {"w": WEIGHTS}, ("v", CLASSES), (3, CELL, CELL))


def noise(count, seed):
    picture = np.random.default_rng(seed).integers(0, 255, (SIDE, SIDE, 3), np.uint8)
    picture[0, 0] = count
    return picture


def classes_in(picture, session):
    """The loop: one cut-out at a time."""
    found = []
    for left, top, right, bottom in BOXES[:picture[0, 0, 0]]:
        cut = picture[int(np.floor(top)):int(np.ceil(bottom)), int(np.floor(left)):int(np.ceil(right))]
        values = session.run(None, {"image": cut.transpose(2, 0, 1)[None].astype(np.float32)})[0][0]
        share = np.exp(values - values.max())
        found.append((int(values.argmax()), float((share / share.sum()).max())))
    return found


CASCADE = dict(
    decode="", tensor=f"type: preprocess, size: {SIDE}x{SIDE}, fit: stretch",
    detect="model: count.onnx, head: end2end, max: 100",
    look="type: join, join: {picture: decode, objects: detect}",
    crop="", small=f"type: preprocess, size: {CELL}x{CELL}, fit: stretch",
    features="model: look.onnx", classify="weights: head.npy, top_k: 2",
    gather="join: {frames: look, crops: classify}", rows='type: jsonl, path: "${OUTPUT:--}"')


def cascade(source, top="", nodes=(), **changes):
    return pipeline(source if isinstance(source, dict) else {"a": source}, top=top, nodes=nodes,
                    **{**CASCADE, **changes})


class CascadeCase(Case):
    def setUp(self):
        super().setUp()
        save_detector(self.folder / "count.onnx")
        save_looker(self.folder / "look.onnx")
        np.save(self.folder / "head.npy", np.eye(CLASSES, CLASSES + 1, dtype=np.float32))
        self.session = onnxruntime.InferenceSession(str(self.folder / "look.onnx"), providers=["CPUExecutionProvider"])

    def video(self, counts, name="clip.mkv"):
        made = [noise(count, i) for i, count in enumerate(counts)]
        subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{SIDE}x{SIDE}", "-r",
                        "25", "-i", "-", "-c:v", "ffv1", self.folder / name], input=b"".join(map(bytes, made)),
                       check=True)
        return made

    def check_rows(self, rows, pictures, part=False):
        """With `part`, some objects may lack a class."""
        self.assertEqual([(row["seq"], len(row["objects"])) for row in rows],
                         [(i, picture[0, 0, 0]) for i, picture in enumerate(pictures)])
        for row, picture in zip(rows, pictures):
            want = classes_in(picture, self.session)
            for i, (one, (index, score)) in enumerate(zip(row["objects"], want)):
                self.assertEqual(one["number"], i + 1)
                if part and "attributes" not in one:
                    continue
                self.assertEqual([(at["stage"], at["index"]) for at in one["attributes"]], [("classify", index)])
                self.assertAlmostEqual(one["attributes"][0]["score"], score, delta=1e-5)
