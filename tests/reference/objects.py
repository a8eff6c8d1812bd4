"""Compares the figures of objects with pycocotools: random pictures with crowds, equal scores, boxes that touch,
objects of all sizes, classes without objects, and pictures with more objects than count."""
import contextlib
import io
import subprocess
import sys

import numpy as np

try:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ModuleNotFoundError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PROGRAM = sys.argv[1]
RNG = np.random.default_rng(7)


def ours(truth, found, classes):
    rows = np.concatenate([truth, found]) if len(truth) + len(found) else np.empty((0, 9))
    done = subprocess.run([PROGRAM, *map(str, (len(truth), len(found), classes))], input=rows.tobytes(), check=True,
                          capture_output=True)
    values = np.array(done.stdout.split(), float)
    return values[:12], values[12:]


def theirs(truth, found, images, classes):
    """Category ids do not begin at 0, as in COCO."""
    def fields(row):
        return {"image_id": int(row[0]) + 10, "category_id": int(row[1]) * 3 + 1, "bbox": list(row[2:6])}
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {"images": [{"id": i + 10} for i in range(images)],
                        "categories": [{"id": k * 3 + 1} for k in range(classes)],
                        "annotations": [{"id": i + 1, **fields(row), "area": row[7], "iscrowd": int(row[8])}
                                        for i, row in enumerate(truth)]}
        coco.createIndex()
        if not len(found):
            return np.zeros(0), np.zeros(0)
        judge = COCOeval(coco, coco.loadRes([{**fields(row), "score": row[6]} for row in found]), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    each = judge.eval["precision"][:, :, :, 0, 2]
    mean = [np.mean(each[:, :, k][each[:, :, k] > -1]) if (each[:, :, k] > -1).any() else -1 for k in range(classes)]
    return judge.stats, np.array(mean)


def scene(images, classes, most, jitter, extra, levels):
    """Found objects are true ones moved by `jitter` of their size, and others. `levels`: how many scores there are."""
    truth, found = [], []
    for image in range(images):
        for _ in range(RNG.integers(0, most + 1)):
            side = np.exp(RNG.uniform(np.log(4), np.log(200), 2))
            place, label = RNG.uniform(0, 400, 2).round(1), RNG.integers(0, max(classes - 1, 1))
            crowd = RNG.random() < 0.15
            truth.append([image, label, *place, *side, 0, side.prod() * RNG.uniform(0.4, 1), crowd])
            for _ in range(RNG.integers(0, 3 + 2 * crowd)):
                moved = place + RNG.normal(0, jitter, 2) * side
                found.append([image, label if RNG.random() < 0.9 else RNG.integers(0, classes), *moved,
                              *side * np.exp(RNG.normal(0, jitter, 2)), RNG.integers(1, levels) / levels, 0, 0])
        for _ in range(RNG.integers(0, extra + 1)):
            found.append([image, RNG.integers(0, classes), *RNG.uniform(0, 400, 2), *RNG.uniform(2, 150, 2),
                          RNG.integers(1, levels) / levels, 0, 0])
    order = RNG.permutation(len(found))
    return np.array(truth, float).reshape(-1, 9), np.array(found, float).reshape(-1, 9)[order]


def compare(truth, found, images, classes, what):
    for got, wanted in zip(ours(truth, found, classes), theirs(truth, found, images, classes)):
        got = np.where(np.isnan(got), -1, got)[:len(wanted)]
        if not np.allclose(got, wanted, rtol=0, atol=1e-12):
            sys.exit(f"{what}: {got} instead of {wanted}")


count = 0
for images, classes, most, jitter, extra, levels in (
        (30, 4, 8, 0.1, 5, 10 ** 6), (30, 4, 8, 0.05, 5, 7), (60, 1, 3, 0.3, 2, 1000), (5, 12, 20, 0.15, 300, 50),
        (4, 2, 120, 0.02, 40, 10 ** 6), (20, 3, 2, 0, 0, 3), (10, 3, 0, 0, 5, 100)):
    for turn in range(4):
        truth, found = scene(images, classes, most, jitter, extra, levels)
        compare(truth, found, images, classes, (images, classes, turn))
        count += 1
one = np.array([[0, 0, 10, 10, 40, 40, 0, 1600, 0]], float)
same = one.copy()
same[0, 6] = 0.5
compare(one, same, 1, 1, "the same box")
assert np.allclose(ours(one, same, 1)[0][:3], 1)
assert ours(one, np.empty((0, 9)), 1)[0][0] == 0
assert np.isnan(ours(np.empty((0, 9)), same, 1)[0]).all()
print(f"{count} scenes have the figures of pycocotools")
