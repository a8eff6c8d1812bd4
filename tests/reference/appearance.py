"""Tracks by boxes and features, on scenes whose true tracks are known.

The features of a box are those of its object, with noise; where others hide it, they are mixed with theirs. Each object
must get the same track as in the tracker below, which is written with NumPy and scipy from the descriptions in
stages/objects/tracker.h and appearance.h. trackeval judges what features change.
"""
import math
import sys

import numpy as np
from scipy.optimize import linear_sum_assignment

import track

LENGTH, STEP = 32, 1 / 30
OPTIONS = dict(confirm_time=0.1, lost=2.0, low=0.1, high=0.25, begin=0.35, dissimilar=0.3, reach=2.0, remember=10.0)


# ---- the same tracker, in another language -------------------------------------------------------------------------

class Follow:
    """One coordinate: place, speed and their covariance."""

    def __init__(self, place, place_std, speed_std):
        self.x, self.p = np.array([place, 0.0]), np.diag([place_std ** 2, speed_std ** 2])

    def predict(self, steps, place_std, speed_std):
        move = np.array([[1, steps], [0, 1]])
        self.x = move @ self.x
        self.p = move @ self.p @ move.T + np.diag([place_std ** 2, speed_std ** 2]) * steps

    def update(self, place, std):
        gain = self.p[:, 0] / (self.p[0, 0] + std ** 2)
        self.x = self.x + gain * (place - self.x[0])
        self.p = self.p - np.outer(gain, self.p[0])


def parts(box):
    return np.array([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2, (box[2] - box[0]) / (box[3] - box[1]),
                     box[3] - box[1]])


class Track:
    def __init__(self, box, now):
        values = parts(box)
        self.at = [Follow(v, 1e-2 if i == 2 else 2 * values[3] / 20, 1e-5 if i == 2 else 10 * values[3] / 160)
                   for i, v in enumerate(values)]
        self.state, self.id, self.born, self.surplus, self.ready, self.taken = "new", 0, now, 0, False, False
        self.mean, self.samples, self.sampled = None, 0, 0.0

    def box(self):
        x, y, ratio, height = (one.x[0] for one in self.at)
        height = max(height, 0)
        width = max(ratio, 0) * height
        return np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2])

    def see(self, box, look, number, now):
        self.seen, self.place, self.number = now, parts(box)[:2], number
        self.side = max(box[2] - box[0], box[3] - box[1])
        if look is not None:
            elapsed = now - self.sampled
            share = max(1 / (self.samples + 1), elapsed / (elapsed + 1)) if self.samples else 1
            unit = look / np.linalg.norm(look)
            self.mean = unit * share + (0 if self.mean is None else self.mean * (1 - share))
            self.samples, self.sampled = self.samples + 1, now


def away(a, b):
    """Cosine distance; NaN where one is missing."""
    return math.nan if a is None or b is None else 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def grown(box, share):
    size = (box[2:] - box[:2]) * share
    return np.concatenate([box[:2] - size, box[2:] + size])


def assigned(cost, limit):
    """Pairs at least total cost, where leaving a row alone costs the limit."""
    rows, columns = cost.shape
    alone = np.where(np.eye(rows, dtype=bool), limit, 1e6)
    return [(i, k) for i, k in zip(*linear_sum_assignment(np.hstack([np.minimum(cost, 1e6), alone]))) if k < columns]


class Tracker:
    def __init__(self, **options):
        self.__dict__.update(OPTIONS, **options)
        self.tracks, self.next, self.now = [], 1, 0.0

    def match(self, boxes, scores, looks, used, states, least, below, by_score, by_look, limit):
        rows = [t for t in self.tracks if not t.taken and t.state in states]
        columns = [k for k in range(len(boxes)) if not used[k] and least <= scores[k] < below]
        cost = np.empty((len(rows), len(columns)))
        for i, t in enumerate(rows):
            growth = 0.5 * (1 - 1 / max((self.now - t.seen) / STEP, 1))
            for j, k in enumerate(columns):
                overlap = track.overlaps(grown(t.box(), growth)[None], grown(boxes[k], growth)[None])[0, 0]
                cost[i, j] = 1 - overlap * (scores[k] if by_score else 1)
                look = away(t.mean, looks[k]) / self.dissimilar if by_look else math.nan
                if cost[i, j] < limit and not math.isnan(look):
                    cost[i, j] = math.inf if look > 1 else (cost[i, j] / limit + look) / 2 * limit
        for i, j in assigned(np.where(cost < limit, cost, math.inf), limit):
            t, k = rows[i], columns[j]
            height = t.at[3].x[0]
            for c, value in enumerate(parts(boxes[k])):
                t.at[c].update(value, 0.1 if c == 2 else height / 20)
            t.see(boxes[k], looks[k] if scores[k] >= self.high else None, k, self.now)
            t.taken = used[k] = True
            self.confirm(t)

    def confirm(self, t):
        t.surplus += not t.id
        t.ready = not t.id and self.now - t.born >= self.confirm_time - 1e-9
        t.state = "found" if t.id or t.ready else "new"

    def lose(self):
        for t in [t for t in self.tracks if not t.taken]:
            if not t.id:
                t.surplus -= 1
                if t.surplus > 0:
                    continue
            t.state = "lost" if self.now - t.seen <= self.lost + 1e-9 else "gone"
            if not t.id or self.now - t.seen > self.remember + 1e-9:
                self.tracks.remove(t)

    def drop_doubles(self):
        for t in [t for t in reversed(self.tracks) if t.state == "lost"]:
            if any(o.state == "found" and not away(t.mean, o.mean) > self.dissimilar and
                   track.overlaps(t.box()[None], o.box()[None])[0, 0] > 0.85 for o in self.tracks):
                self.tracks.remove(t)

    def recognise(self):
        ready = [t for t in self.tracks if t.ready]
        lost = [t for t in self.tracks if t.state in ("lost", "gone")]
        cost = np.full((len(ready), len(lost)), math.inf)
        for i, t in enumerate(ready):
            for k, old in enumerate(lost):
                reach = (1 + self.reach * (self.now - old.seen)) * max(t.side, old.side)
                look = away(t.mean, old.mean)
                if np.hypot(*(t.place - old.place)) <= reach and look <= self.dissimilar:
                    cost[i, k] = look / self.dissimilar
        for i, k in assigned(cost, 1 + 1e-9):
            t, old = ready[i], lost[k]
            t.id = old.id
            t.mean = t.mean / np.linalg.norm(t.mean) + old.mean / np.linalg.norm(old.mean)
            t.samples += old.samples
            self.tracks.remove(old)
        for t in ready:
            if not t.id:
                t.id, self.next = self.next, self.next + 1
            t.ready = False

    def update(self, now, boxes, scores, looks):
        looks = list(looks)
        for k, box in enumerate(boxes):
            shared = np.clip(np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2]), 0, None).prod(1)
            shared[k] = 0
            if shared.max() > 0.5 * (box[2:] - box[:2]).prod():
                looks[k] = None
        steps = min(now - self.now, 2 * self.lost) / STEP
        self.now, used = now, [False] * len(boxes)
        for t in self.tracks:
            t.taken, height = False, t.at[3].x[0]
            if t.state in ("lost", "gone"):
                t.at[3].x[1] = 0
            for c, one in enumerate(t.at):
                one.predict(steps, 1e-2 if c == 2 else height / 20, 1e-5 if c == 2 else height / 160)
        given = (boxes, scores, looks, used)
        self.match(*given, ("found", "lost"), self.high, math.inf, True, True, 0.8)
        self.match(*given, ("found",), self.high, math.inf, False, False, 0.5)
        self.match(*given, ("found",), self.low, self.high, False, False, 0.5)
        self.match(*given, ("new",), self.high, math.inf, True, False, 0.7)
        self.lose()
        for k in range(len(boxes)):
            if not used[k] and scores[k] >= self.begin:
                t = Track(boxes[k], now)
                t.see(boxes[k], looks[k], k, now)
                self.tracks.append(t)
                self.confirm(t)
        self.recognise()
        self.drop_doubles()
        ids = np.zeros(len(boxes), int)
        for t in self.tracks:
            if t.seen == now:
                ids[t.number] = t.id
        return ids


# ---- scenes --------------------------------------------------------------------------------------------------------

def covered(boxes):
    """How much of each box the others before it hide: shares, those of which hide most, and which."""
    low, high = np.maximum(boxes[:, None, :2], boxes[None, :, :2]), np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = np.prod(np.clip(np.nan_to_num(high - low), 0, None), axis=2)
    area = np.nan_to_num(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1), nan=1)
    share = np.tril(shared / area[:, None], -1)
    return share.max(axis=1), share.argmax(axis=1)


def looks_of(rng, identity, truth, found, noise):
    """The features of a frame's detections. `noise`: the expected length of what is added to a unit vector."""
    share, other = covered(truth)
    looks = []
    for number in found[2]:
        unit = identity[number] if number >= 0 else rng.normal(0, 1 / math.sqrt(LENGTH), LENGTH)
        if number >= 0:
            unit = (1 - share[number]) * unit + share[number] * identity[other[number]]
        looks.append((unit + rng.normal(0, noise / math.sqrt(LENGTH), LENGTH)).astype(np.float32) * rng.uniform(1, 9))
    return looks


def identities(rng, people, common):
    """Unit vectors; `common`: how much they have in common, as a network's features do."""
    own = rng.normal(size=(people, LENGTH))
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    shared = rng.normal(size=LENGTH)
    mixed = (1 - common) ** 0.5 * own + common ** 0.5 * shared / np.linalg.norm(shared)
    return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


def found_in(rng, truth, identity, noise):
    """All frames: boxes, scores, true numbers and features, without those that are not there."""
    frames = []
    for i in range(truth.shape[1]):
        there = np.flatnonzero(~np.isnan(truth[:, i, 0]))
        if not len(there):
            frames.append((np.empty((0, 4)), np.empty(0), np.empty(0, int), []))
            continue
        boxes, scores, number = track.detections(rng, truth[there, i])
        boxes, scores = boxes.astype(np.float32).astype(float), scores.astype(np.float32).astype(float)
        number = np.where(number >= 0, there[number], -1)
        frames.append((boxes, scores, number, looks_of(rng, identity, truth[:, i], (boxes, scores, number), noise)))
    return frames


def standing(x, y, height=100):
    return np.stack([x - 20, y - height, x + 20, y], axis=-1)


def crossing(rng, fps):
    """Two people meet, stand before each other for two seconds, and go on or turn round."""
    t, truth = np.arange(8 * fps) / fps, []
    back = rng.random() < 0.5
    for side in (-1, 1):
        way = np.where(t < 3, 3 - t, np.where(t < 5, 0, (t - 5) * (1 if back else -1))) * 60
        truth.append(standing(384 + side * (way + 3), 300 + side * 2 + 0 * t))
    return np.array(truth)


def pillar(rng, fps):
    """A few people; each is hidden for four to seven seconds, and comes again near to where it went."""
    t, truth = np.arange(20 * fps) / fps, []
    for i in range(4):
        gone, hidden = rng.uniform(4, 8), rng.uniform(4, 7)
        x = 90 + 190 * i + 12 * np.sin(t * rng.uniform(0.3, 1)) + rng.uniform(-60, 60) * (t > gone + hidden / 2)
        boxes = standing(x, 350 + 0 * t)
        boxes[(t > gone) & (t < gone + hidden)] = np.nan
        truth.append(boxes)
    return np.array(truth)


def crowd(rng, fps):
    """People who walk about; half of them are away for a while."""
    truth = track.walks(rng, 12, 20, fps)
    for boxes in truth[::2]:
        gone = rng.uniform(3, 12)
        boxes[int(gone * fps):int((gone + rng.uniform(1, 7)) * fps)] = np.nan
    return truth


def away_for_a_moment(rng, fps):
    """People who stand; each is away three times, and comes again where it was."""
    t, truth = np.arange(20 * fps) / fps, []
    for i in range(4):
        boxes = standing(90 + 190 * i + 4 * np.sin(t * rng.uniform(0.3, 1)), 350 + 0 * t)
        for gone in rng.uniform((3, 8, 13), (5, 10, 15)):
            boxes[(t > gone) & (t < gone + rng.uniform(0.5, 1.5))] = np.nan
        truth.append(boxes)
    return np.array(truth)


def ours(program, frames, fps, features, times=1, **options):
    """As track.follow. `times`: how often the features are repeated, for measurements of time."""
    o = {**OPTIONS, **options}
    lines = []
    for i, (boxes, scores, _, looks) in enumerate(frames):
        lines.append(f"{round(i * 1e9 / fps)} {len(boxes)}")
        for box, score, look in zip(boxes, scores, looks):
            numbers = "" if not features else "none" if look is None else " ".join(f"{value:.9g}" for value in look)
            lines.append(" ".join(f"{value:.9g}" for value in (*box, score)) + " 0 " + numbers)
    given = [str(round(o[key] * 1e9)) for key in ("confirm_time", "lost")] + [str(o[key]) for key in
                                                                             ("low", "high", "begin")]
    if features:
        given += [str(o["dissimilar"]), str(o["reach"]), str(round(o["remember"] * 1e9)), str(LENGTH), str(times)]
    done = track.subprocess.run([program, *given], input="\n".join(lines), capture_output=True, text=True, check=True)
    return [np.array(line.split(), int) for line in done.stdout.splitlines()], float(done.stderr)


def theirs(frames, fps, **options):
    tracker = Tracker(**options)
    return [tracker.update(round(i * 1e9 / fps) / 1e9, boxes, scores, looks)
            for i, (boxes, scores, _, looks) in enumerate(frames)]


# Scenes, the noise of features, the least IDF1 and HOTA with features, in shares of the best possible ones, and the
# least HOTA that they must add to boxes alone. In the last scene boxes alone are enough, and features must not
# spoil it. There a single picture often looks like another person, but the mean of a track does not.
CASES = ((crossing, 0.5, 0.90, 0.89, 0.05), (pillar, 0.5, 0.98, 0.97, 0.05), (crowd, 0.5, 0.95, 0.95, 0.05),
         (away_for_a_moment, 1.0, 0.94, 0.91, -0.1))
SEEDS = range(200, 206)


def check_equal(program):
    """Our tracks are those of the tracker above, object by object, also where features are missing."""
    rng = np.random.default_rng(7)
    for make, *_ in CASES:
        for seed in SEEDS[:2]:
            truth = make(np.random.default_rng(seed), 10)
            frames = found_in(rng, truth, identities(rng, len(truth), 0.3), rng.choice([0.3, 0.8]))
            for *_, looks in frames:
                for k in np.flatnonzero(rng.random(len(looks)) < 0.1):
                    looks[k] = None
            mine, reference = ours(program, frames, 10, True)[0], theirs(frames, 10)
            assert len(mine) == len(reference) and all((a == b).all() for a, b in zip(mine, reference)), (make, seed)
            print(f"{make.__name__}: {len(frames)} frames with {max(map(max, filter(len, mine)))} tracks are equal")


def check_quality(program):
    for make, noise, identity, whole, gain in CASES:
        best, without, with_features = [], [], []
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            truth = make(rng, 20)
            frames = found_in(rng, truth, identities(rng, len(truth), 0.3), noise)
            best.append(track.judge(truth, frames, [number + 1 for _, _, number, _ in frames]))
            without.append(track.judge(truth, frames, ours(program, frames, 20, False)[0]))
            with_features.append(track.judge(truth, frames, ours(program, frames, 20, True)[0]))
        shares = [{key: sum(one[key] for one in tried) / sum(one[key] for one in best) for key in ("IDF1", "HOTA")}
                  for tried in (without, with_features)]
        print(f"{make.__name__}: of the best possible IDF1 and HOTA, boxes alone reach {shares[0]['IDF1']:.3f} and "
              f"{shares[0]['HOTA']:.3f}, with features {shares[1]['IDF1']:.3f} and {shares[1]['HOTA']:.3f}")
        assert shares[1]["IDF1"] >= identity and shares[1]["HOTA"] >= whole, shares
        assert shares[1]["HOTA"] > shares[0]["HOTA"] + gain, shares


def measure(program):
    """The time for 20 objects with features of 1,280 numbers."""
    rng = np.random.default_rng(1)
    truth = track.walks(rng, 20, 10, 30)
    frames = found_in(rng, truth, identities(rng, 20, 0.3), 0.5)
    for features in (False, True):
        time = min(ours(program, frames, 30, features, times=1280 // LENGTH)[1] for _ in range(2))
        print(f"20 objects {'with features' if features else 'by boxes alone'}: {time:.1f} us a frame")


def main():
    check_equal(sys.argv[1])
    check_quality(sys.argv[1])
    measure(sys.argv[1])


if __name__ == "__main__":
    main()
