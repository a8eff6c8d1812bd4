"""Compares lines of text found in maps with OpenCV's findContours and minAreaRect, and with polygons' areas; upright
pictures with its warpPerspective; and what CTC reads with an implementation in Python over texts, not nodes."""
import collections
import itertools
import math
import subprocess
import sys

import numpy as np
try:
    import cv2
except ModuleNotFoundError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PROGRAM = sys.argv[1]
RNG = np.random.default_rng(11)


def run(*words, values):
    done = subprocess.run([PROGRAM, *map(str, words)], input=np.ascontiguousarray(values, np.float32).tobytes(),
                          capture_output=True, check=True)
    return done.stdout.decode().splitlines()


# ---- maps ------------------------------------------------------------------------------------------------------------

def find(score_map, score=0.5, most=1000, apart=0):
    lines = run("db", *score_map.shape[::-1], score, most, apart, values=score_map)
    cut = lines[-1:] == ["cut"]
    rows = np.array([list(map(float, line.split())) for line in lines[:len(lines) - cut]]).reshape(-1, 9)
    return rows[:, 0], rows[:, 1:].reshape(-1, 4, 2), cut


def area_and_perimeter(corners):
    x, y = corners.T
    area = abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2
    return area, np.linalg.norm(corners - np.roll(corners, 1, 0), axis=1).sum()


def expected(score_map, score=0.5):
    """As PaddleOCR's program, with outer contours only, and without rounding. Sides within a hundredth of a
    limit may be either way: (score, corners, whether it is sure)."""
    mask = cv2.dilate((score_map > 0.3).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours, levels = cv2.findContours(mask * 255, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    found = []
    for contour, (_, _, _, parent) in zip(contours, levels[0] if levels is not None else []):
        if parent >= 0:
            continue
        rectangle = cv2.minAreaRect(contour)
        if min(rectangle[1]) < 2.99:
            continue
        corners = cv2.boxPoints(rectangle)
        filled = np.zeros(score_map.shape, np.uint8)
        cv2.fillPoly(filled, [np.floor(corners).astype(np.int32)], 1)
        mean = cv2.mean(score_map, filled)[0]
        area, perimeter = area_and_perimeter(corners)
        grown = cv2.boxPoints((rectangle[0], np.array(rectangle[1]) + 2 * area * 1.6 / perimeter, rectangle[2]))
        short = min(rectangle[1]) + 2 * area * 1.6 / perimeter
        if mean > score - 0.03 and short > 4.99:
            found.append((mean, grown, mean > score + 0.03 and min(rectangle[1]) > 3.01 and short > 5.01))
    return found


def distance(a, b):
    """Between two rectangles, whichever corner comes first."""
    return min(np.abs(np.roll(turned, k, 0) - b).max() for turned in (a, a[::-1]) for k in range(4))


def same(score_map, what):
    """Rectangles of equal area may differ, so the areas are compared where corners do."""
    scores, quads, _ = find(score_map)
    assert (np.diff(scores) <= 0).all()
    want, matched = expected(score_map), set()
    for score, quad in zip(scores, quads):
        best = min(range(len(want)), key=lambda i: np.abs(want[i][1].mean(0) - quad.mean(0)).max(), default=None)
        assert best is not None and best not in matched, (what, quad, want)
        matched.add(best)
        gap = abs(area_and_perimeter(quad)[0] / area_and_perimeter(want[best][1])[0] - 1)
        assert distance(quad, want[best][1]) < 0.02 or gap < 1e-3, (what, quad, want[best][1])
        assert abs(score - want[best][0]) < 0.05, (what, score, want[best])
        x, y = quad.T
        assert np.dot(x, np.roll(y, -1)) > np.dot(y, np.roll(x, -1)), "not clockwise"
    missing = [one for i, one in enumerate(want) if one[2] and i not in matched]
    assert not missing, (what, missing)
    return len(scores)


def drawn(width, height, count):
    score_map = np.zeros((height, width), np.float32)
    for _ in range(count):
        middle = RNG.uniform(20, (width - 20, height - 20))
        box = cv2.boxPoints((middle, RNG.uniform(4, (90, 24)), RNG.uniform(-90, 90)))
        cv2.fillPoly(score_map, [np.round(box).astype(np.int32)], float(RNG.uniform(0.4, 1)))
    score_map[:2] = score_map[-2:] = score_map[:, :2] = score_map[:, -2:] = 0
    return score_map


def maps():
    total = sum(same(drawn(320, 240, count), f"drawn {count}") for count in (1, 3, 10, 30) for _ in range(10))
    for share in (0.02, 0.1, 0.2, 0.3):
        noise = np.where(RNG.random((150, 200)) < share, RNG.uniform(0.5, 1, (150, 200)), 0).astype(np.float32)
        noise[0] = noise[-1] = noise[:, 0] = noise[:, -1] = 0
        total += same(noise, f"noise {share}")
    smooth = cv2.GaussianBlur(drawn(400, 300, 12), (0, 0), 3)
    total += same(smooth, "smooth")
    print(f"{total} lines of text: equal to OpenCV's")


def extents(corners, middle, axes):
    at = (corners - middle) @ axes.T
    return at.min(0), at.max(0)


def parted(boxes, number):
    """A box that grew, cut half-way to those beside it on its line. boxes: corners before that, and by how much."""
    corners, by = boxes[number]
    along = (corners[1] - corners[0]) / np.linalg.norm(corners[1] - corners[0])
    axes, middle = np.array([along, [-along[1], along[0]]]), corners.mean(0)
    low, high = extents(corners, middle, axes)
    ends = [low - by, high + by]
    for k, (others, grows) in enumerate(boxes):
        begin, end = extents(others, middle, axes)
        for a, b in ((0, 1), (1, 0)):
            shared = min(high[b] + by, end[b] + grows) - max(low[b] - by, begin[b] - grows)
            side_by_side = shared >= min(high[b] - low[b] + 2 * by, end[b] - begin[b] + 2 * grows) / 2
            is_line = high[a] - low[a] >= high[b] - low[b] or end[a] - begin[a] >= end[b] - begin[b]
            if k == number or not side_by_side or not is_line:
                continue
            if (begin[a] + end[a]) / 2 > high[a]:
                ends[1][a] = min(ends[1][a], max(high[a], (high[a] + begin[a]) / 2))
            elif (begin[a] + end[a]) / 2 < low[a]:
                ends[0][a] = max(ends[0][a], min(low[a], (low[a] + end[a]) / 2))
    return np.array([(ends[i][0], ends[k][1]) for i, k in ((0, 0), (1, 0), (1, 1), (0, 1))]) @ axes + middle


def words(angle, upright):
    """Rows of words, a character of which may stand apart."""
    score_map, turn = np.zeros((400, 400), np.float32), cv2.getRotationMatrix2D((200, 200), angle, 1)
    for row in range(60, 340, 34):
        at = 40
        while at < 340:
            width, high = RNG.uniform(5, 60), RNG.uniform(8, 13)
            box = np.array([(at, row), (at + width, row), (at + width, row + high), (at, row + high)])
            box = (box if upright else box[:, ::-1]) @ turn[:, :2].T + turn[:, 2]
            cv2.fillPoly(score_map, [np.round(box).astype(np.int32)], 0.9)
            at += width + RNG.uniform(5, 30)
    score_map[:2] = score_map[-2:] = score_map[:, :2] = score_map[:, -2:] = 0
    return score_map


def beside():
    """Words of a line do not grow into each other; without `apart` they do."""
    changed = total = 0
    for angle, upright in itertools.product((0, 7, -31), (True, False)):
        score_map = words(angle, upright)
        contours = cv2.findContours(cv2.dilate((score_map > 0.3).astype(np.uint8) * 255, np.ones((2, 2), np.uint8)),
                                    cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]
        boxes = [(cv2.boxPoints(one).astype(float), np.prod(one[1]) * 1.6 / 2 / sum(one[1]))
                 for one in map(cv2.minAreaRect, contours) if min(one[1]) >= 3]
        _, got, _ = find(score_map, apart=1)
        _, before, _ = find(score_map)
        assert len(got) == len(before) == len(boxes)
        for number in range(len(boxes)):
            want = parted(boxes, number)
            nearest = got[np.abs(got.mean(1) - want.mean(0)).max(1).argmin()]
            assert distance(nearest, want) < 0.05, (angle, upright, nearest, want)
            changed += min(distance(want, quad) for quad in before) > 0.2
            total += 1
    assert 100 < changed < total, (changed, total)
    print(f"{total} words, of which {changed} would reach into others: equal to Python's")


def odd_maps():
    assert find(np.full((64, 96), np.nan, np.float32))[0].size == 0
    assert find(np.full((1, 1), 1, np.float32))[0].size == 0
    scores, quads, cut = find(np.full((64, 96), np.inf, np.float32))
    assert scores.tolist() == [1] and not cut and np.ptp(quads[0][:, 0]) > 96
    part = np.zeros((40, 40), np.float32)
    part[10:20, 5:30] = 0.9
    part[12:15, 8:20] = np.nan
    scores, quads, cut = find(part)
    assert len(scores) == 1 and scores[0] < 0.9
    assert len(find(part, apart=1)[0]) == 1
    dots = np.zeros((2000, 2000), np.float32)
    for y, x in itertools.product(range(3), repeat=2):
        dots[y::6, x::6] = 1
    scores, quads, cut = find(dots, 0.5, 100)  # 111,556 regions of 3x3
    assert cut and len(scores) == 100 and len({tuple(quad[0]) for quad in quads}) == 100
    fine = np.zeros((2000, 2000), np.float32)
    fine[::3, ::3] = 1  # more runs than are looked at
    scores, quads, cut = find(fine)
    assert cut and not len(scores)


def upright():
    """Compares with OpenCV's warpPerspective, which counts from centres of pixels and rounds places to 1/32."""
    for width, height, corners in ((80, 20, ((30, 40), (110, 40), (110, 60), (30, 60))),
                                   (90, 30, ((40.3, 60.2), (120.7, 20.5), (133.1, 47.3), (52.7, 87))),
                                   (60, 60, ((-8, 10), (60, -5.5), (70, 65), (3, 80)))):  # beyond the edges
        picture = cv2.GaussianBlur(RNG.integers(0, 256, (120, 160)).astype(np.float32), (0, 0), 2)
        picture = np.clip((picture - picture.mean()) * 6 + 128, 0, 255).astype(np.uint8)
        got = np.array(run("warp", 160, 120, width, height, *np.ravel(corners), values=picture)[0].split(), float)
        matrix = cv2.getPerspectiveTransform(np.float32(corners) - 0.5, np.float32(
            [(-0.5, -0.5), (width - 0.5, -0.5), (width - 0.5, height - 0.5), (-0.5, height - 0.5)]))
        want = cv2.warpPerspective(picture, matrix, (width, height), flags=cv2.INTER_CUBIC,
                                   borderMode=cv2.BORDER_REPLICATE)
        assert np.abs(got.reshape(height, width) - want).max() <= 3, np.abs(got.reshape(height, width) - want).max()
    print("upright pictures: equal to OpenCV's")


# ---- CTC -------------------------------------------------------------------------------------------------------------

def read(values, blank, beam, kind):
    first, *rest = run("ctc", *values.shape, blank, beam, kind, values=values)[0].split()
    return float(first), tuple(map(int, rest))


def soften(logits):
    exact = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return exact / exact.sum(1, keepdims=True)


def greedy(scores, blank):
    best = scores.argmax(1)
    kept = [i for i, one in enumerate(best) if one != blank and (i == 0 or best[i - 1] != one)]
    return np.mean([scores[i, best[i]] for i in kept]) if kept else 0, tuple(int(best[i]) for i in kept)


def follow(scores, blank, beam):
    """Prefix beam search over texts: two probabilities for each."""
    texts = {(): (1.0, 0.0)}
    for row in scores:
        after = collections.defaultdict(lambda: [0.0, 0.0])
        for text, (ended, open_) in texts.items():
            after[text][0] += (ended + open_) * row[blank]
            for i, value in enumerate(row):
                if i == blank:
                    continue
                if text and text[-1] == i:
                    after[text][1] += open_ * value
                    after[text + (i,)][1] += ended * value
                else:
                    after[text + (i,)][1] += (ended + open_) * value
        texts = dict(sorted(after.items(), key=lambda one: -sum(one[1]))[:beam])
    text, both = next(iter(texts.items()))
    return sum(both) ** (1 / len(text)) if text else 0, text


def all_ways(scores, blank):
    """The most probable text of all."""
    texts = collections.Counter()
    for way in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        text = tuple(one for i, one in enumerate(way) if one != blank and (i == 0 or way[i - 1] != one))
        texts[text] += math.prod(scores[i, one] for i, one in enumerate(way))
    return texts.most_common(1)[0]


def ctc():
    texts = collections.Counter()
    for turn in range(100):
        steps, classes, blank = int(RNG.integers(1, 13)), int(RNG.integers(2, 9)), int(RNG.integers(0, 2))
        blank *= classes - 1
        logits = (RNG.standard_normal((steps, classes)) * RNG.choice([0.3, 1, 4])).astype(np.float32)
        scores = soften(logits)
        for kind, values in (("logits", logits), ("probabilities", scores)):
            for beam in (1, 2, 3, 10):
                score, text = read(values, blank, beam, kind)
                want_score, want = greedy(scores, blank) if beam == 1 else follow(scores, blank, beam)
                assert text == want and abs(score - want_score) < 1e-5, (turn, kind, beam, text, want)
                texts[beam, text == greedy(scores, blank)[1]] += 1
        if classes ** steps <= 64:  # so no text is left out
            likely, whole = all_ways(scores, blank)
            score, text = read(logits, blank, 64, "logits")
            assert text == likely and (not text or abs(score - whole ** (1 / len(text))) < 1e-5)
    assert texts[10, False] > 20, "the beam hardly ever found another text"
    long = (RNG.standard_normal((400, 6625)) * 3).astype(np.float32)
    score, text = read(long, 0, 5, "logits")
    want_score, want = follow(soften(long)[:40], 0, 5)
    assert read(long[:40], 0, 5, "logits")[1] == want
    assert text and 0 < score < 1


def odd_values():
    for fill in (np.nan, np.inf, -np.inf, 0, 3e38, -3e38):
        for beam, kind in itertools.product((1, 10), ("logits", "probabilities")):
            score, text = read(np.full((5, 4), fill, np.float32), 0, beam, kind)
            assert 0 <= score <= 1 and len(text) <= 5, (fill, beam, kind, score, text)
    mixed = np.array([[np.nan, np.nan, 9, np.nan], [9, np.nan, 0, 1]], np.float32)
    assert read(mixed, 0, 1, "logits")[1] == read(mixed, 0, 10, "logits")[1] == (2,)


maps()
beside()
odd_maps()
upright()
ctc()
odd_values()
print("CTC: equal to Python's")
