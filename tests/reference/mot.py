"""Compares the figures of tracks with trackeval: random sequences with misses, doubles, switches, objects of other
classes, crowds, several sequences and classes, and sequences in which nothing is true or nothing is found."""
import contextlib
import io
import subprocess
import sys

import numpy as np

try:
    from scipy.optimize import linear_sum_assignment
    with contextlib.redirect_stdout(io.StringIO()):
        from trackeval.metrics import CLEAR, HOTA, Identity
except ModuleNotFoundError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PROGRAM = sys.argv[1]
RNG = np.random.default_rng(11)


def ours(truth, found, classes, sequence):
    rows = np.concatenate([np.array(sequence, float), truth.ravel(), found.ravel()])
    done = subprocess.run([PROGRAM, *map(str, (len(truth), len(found), classes, len(sequence)))],
                          input=rows.tobytes(), check=True, capture_output=True)
    return np.array(done.stdout.split(), float)


def overlaps(a, b):
    """Intersection over union, as trackeval's datasets compute it from left, top, width and height."""
    a, b = (np.concatenate([one[:, :2], one[:, :2] + one[:, 2:]], axis=1) for one in (a, b))
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=2)
    area = lambda box: np.prod(box[:, 2:] - box[:, :2], axis=1)
    either = area(a)[:, None] + area(b)[None] - shared
    return np.where(either > 0, shared / np.where(either > 0, either, 1), 0)


def sequence_data(truth, found, images, label):
    """What trackeval takes, after the preparation of its MOTChallenge data."""
    data = {"num_timesteps": len(images), "gt_ids": [], "tracker_ids": [], "similarity_scores": []}
    for image in images:
        true = truth[(truth[:, 0] == image) & ((truth[:, 1] == label) | (truth[:, 1] < 0))]
        given = found[(found[:, 0] == image) & (found[:, 1] == label) & (found[:, 6] > 0)]
        similar = overlaps(true[:, 2:6], given[:, 2:6])
        scores = np.where(similar < 0.5 - np.finfo(float).eps, 0, similar)
        rows, columns = linear_sum_assignment(-scores)
        gone = [k for i, k in zip(rows, columns) if scores[i, k] > np.finfo(float).eps and true[i, 7]]
        stays = np.setdiff1d(np.arange(len(given)), gone)
        counts = (true[:, 7] == 0) & (true[:, 1] >= 0)
        data["gt_ids"].append(true[counts, 6].astype(int))
        data["tracker_ids"].append(given[stays, 6].astype(int))
        data["similarity_scores"].append(similar[counts][:, stays])
    for name, key in (("gt", "gt_ids"), ("tracker", "tracker_ids")):
        known = {one: i for i, one in enumerate(sorted({int(one) for row in data[key] for one in row}))}
        data[key] = [np.array([known[int(one)] for one in row], int) for row in data[key]]
        data[f"num_{name}_ids"], data[f"num_{name}_dets"] = len(known), sum(map(len, data[key]))
    return data


def theirs(truth, found, classes, sequence):
    sequence = np.array(sequence)
    parts = [sequence_data(truth, found, np.flatnonzero(sequence == number), label)
             for number in sorted(set(sequence)) for label in range(classes)]
    made = []
    with contextlib.redirect_stdout(io.StringIO()):
        for metric in (CLEAR(), Identity(), HOTA()):
            made.append(metric.combine_sequences({i: metric.eval_sequence(one) for i, one in enumerate(parts)}))
    clear, identity, hota = made
    total = lambda key: sum(one[key] for one in parts)
    return np.array([total("num_gt_dets"), total("num_tracker_dets"), clear["CLR_TP"], clear["IDSW"],
                     total("num_gt_ids"), total("num_tracker_ids"), clear["MT"], clear["ML"], clear["MOTA"],
                     clear["MOTP"], identity["IDF1"], identity["IDP"], identity["IDR"], hota["HOTA"].mean(),
                     hota["DetA"].mean(), hota["AssA"].mean()])


def scene(lengths, classes, people, jitter, miss, swap, extra):
    truth, found, sequence = [], [], np.repeat(np.arange(len(lengths)), lengths)
    number = 0
    for image, place in enumerate(sequence):
        if image == 0 or place != sequence[image - 1]:
            at, way = RNG.uniform(0, 300, (people, 2)), RNG.normal(0, 4, (people, 2))
            size, labels = RNG.uniform(20, 60, (people, 2)), RNG.integers(-1, classes, people)
            names, crowds = np.arange(people) + 1000, RNG.random(people) < 0.1
        at = at + way
        for i in range(people):
            if RNG.random() < swap:
                number += 1
                names[i] = number
            if RNG.random() < 0.9:
                truth.append([image, labels[i], *at[i], *size[i], i + 1, crowds[i]])
            if RNG.random() > miss:
                box = [*(at[i] + RNG.normal(0, jitter, 2) * size[i]), *(size[i] * np.exp(RNG.normal(0, jitter, 2)))]
                found.append([image, max(labels[i], 0), *box, names[i] if RNG.random() < 0.95 else 0, 0])
        for k in range(RNG.integers(0, extra + 1)):
            found.append([image, RNG.integers(0, classes), *RNG.uniform(0, 300, 2), *RNG.uniform(20, 60, 2),
                          5000 + k, 0])
    shape = lambda rows: np.array(rows, float).reshape(-1, 8)
    return shape(truth), shape(found), sequence


count = 0
for case in (([40], 1, 8, 0.05, 0.1, 0.02, 1), ([30, 50], 1, 12, 0.1, 0.2, 0.05, 3),
             ([20, 20, 20], 3, 15, 0.15, 0.3, 0.1, 4), ([60], 1, 25, 0.02, 0, 0, 0), ([25], 2, 30, 0.3, 0.5, 0.3, 10),
             ([10], 1, 4, 0.05, 1, 0, 0), ([10], 1, 0, 0, 0, 0, 3)):
    for turn in range(4):
        truth, found, sequence = scene(*case)
        got, wanted = ours(truth, found, case[1], sequence), theirs(truth, found, case[1], sequence)
        if not np.allclose(got, wanted, rtol=0, atol=1e-9):
            sys.exit(f"{case}, turn {turn}: {got} instead of {wanted}")
        count += 1
print(f"{count} scenes have the figures of trackeval")
