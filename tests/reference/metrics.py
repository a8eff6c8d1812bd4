"""Compares classifier figures with scikit-learn, SciPy and NumPy, within 1e-12: ties, absent classes, certain rows and
wrong rows.

A resample must be a union of whole groups, drawn as often as there are groups. Its accuracy must be possible for such a
union. The interval is compared with NumPy's percentiles of the resamples. Over data sets drawn again, 95 % of intervals
must hold the true accuracy, within chance. The interval of a share is compared with SciPy's."""
import warnings

import numpy as np
import scipy.optimize
import scipy.stats
from comparison import run
from scipy.special import log_softmax, softmax
from sklearn import metrics

WITHIN = 1e-12
warnings.filterwarnings("ignore")


def ours(scores, truth, group, seed=1):
    data = scores.astype(np.float64).tobytes() + truth.astype(np.int32).tobytes() + group.astype(np.int32).tobytes()
    found = {}
    for line in run(data, *scores.shape, group.max() + 1, seed).decode().splitlines():
        name, value = line.split()
        found.setdefault(name, []).append(float(value))
    return {name: np.array(values) for name, values in found.items()}


def same(what, got, want):
    got, want = np.asarray(got, float), np.asarray(want, float)
    assert got.shape == want.shape, (what, got.shape, want.shape)
    assert np.array_equal(np.isnan(got), np.isnan(want)), (what, got, want)
    off = np.nanmax(np.abs(got - want), initial=0)
    assert off <= WITHIN, (what, off)


def check(scores, truth, group):
    classes = scores.shape[1]
    labels, first = np.arange(classes), scores.argmax(1)
    got = ours(scores, truth, group)
    same("confusion", got["confusion"], metrics.confusion_matrix(truth, first, labels=labels).ravel())
    each = metrics.precision_recall_fscore_support(truth, first, labels=labels, zero_division=0)
    same("classes", got["class"].reshape(-1, 3), np.array(each[:3]).T)
    mean = metrics.precision_recall_fscore_support(truth, first, average="macro", zero_division=0)
    same("all", got["all"], [metrics.accuracy_score(truth, first), metrics.balanced_accuracy_score(truth, first),
                             *mean[:3]])
    curves = []
    for j in labels:
        own = truth == j
        area = metrics.roc_auc_score(own, scores[:, j]) if own.any() and not own.all() else np.nan
        precision = metrics.average_precision_score(own, scores[:, j]) if own.any() else np.nan
        curves.append((area, precision, len(np.unique(scores[:, j]))))
    same("curves", got["curve"].reshape(-1, 3), curves)
    same("loss", got["loss"], [metrics.log_loss(truth, scores, labels=labels)])
    same("error", got["error"], [calibration_error(scores, truth)])
    same("interval", got["interval"], np.percentile(got["resample"], [2.5, 97.5]))
    right = first == truth
    if len(np.unique(group)) == len(group):
        wilson = scipy.stats.binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
        same("share", got["share"], [wilson.low, wilson.high])
    return got


def calibration_error(scores, truth):
    first, score = scores.argmax(1), scores.max(1)
    at = np.minimum((score * 15).astype(int), 14)
    return sum(np.sum(at == b) / len(truth) * abs((first == truth)[at == b].mean() - score[at == b].mean())
               for b in np.unique(at))


def check_temperature(rng):
    logits = 3 * rng.normal(size=(500, 6))
    truth = np.array([rng.choice(6, p=p) for p in softmax(logits / 2.5, axis=1)])
    loss = lambda log_t: -log_softmax(logits / np.exp(log_t), axis=1)[np.arange(500), truth].mean()
    best = scipy.optimize.minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-12})
    got = ours(logits, truth, np.arange(500))["temperature"][0]
    assert abs(np.log(got) - best.x) < 1e-6, (got, np.exp(best.x))
    assert loss(np.log(got)) <= best.fun + 1e-15


def check_resamples(rng):
    """With two groups, a resample holds one group twice, or both groups."""
    truth = np.array([0, 0, 0, 1, 1, 1, 1])
    scores = np.eye(2)[[0, 0, 1, 1, 0, 0, 0]]
    group = np.array([0, 0, 0, 1, 1, 1, 1])
    got = ours(scores, truth, group)["resample"]
    assert set(np.round(got, 9)) == {round(2 / 3, 9), round(1 / 4, 9), round(3 / 7, 9)}
    assert abs((got == 3 / 7).mean() - 0.5) < 0.15
    held = 0
    for seed in range(200):
        right = rng.random(120) < 0.7
        scores = np.where(right[:, None], [0.9, 0.1], [0.1, 0.9])
        low, high = ours(scores, np.zeros(120, int), np.arange(120), seed)["interval"]
        held += low <= 0.7 <= high
    assert 175 <= held <= 200, held


def check_shares(rng):
    """If all rows in a group agree, the group counts once. If all rows are right, the interval must not be 1 to 1."""
    alike = np.repeat(rng.random(40) < 0.7, 5)
    scores, group = np.where(alike[:, None], [0.9, 0.1], [0.1, 0.9]), np.repeat(np.arange(40), 5)
    got = ours(scores, np.zeros(200, int), group)["share"]
    wilson = scipy.stats.binomtest(int(alike[::5].sum()), 40).proportion_ci(method="wilson")
    assert np.abs(got - [wilson.low, wilson.high]).max() < WITHIN, (got, wilson)
    got = ours(scores, np.zeros(200, int), np.zeros(200, int))["share"]  # one group shows how often one group is right
    assert got[1] - got[0] > 0.7, got
    got = ours(np.tile([0.9, 0.1], (200, 1)), np.zeros(200, int), group)["share"]
    wilson = scipy.stats.binomtest(40, 40).proportion_ci(method="wilson")
    assert np.abs(got - [wilson.low, wilson.high]).max() < WITHIN, (got, wilson)


def main():
    rng = np.random.default_rng(11)
    for rows, classes, groups in ((1, 2, 1), (2, 2, 1), (50, 3, 7), (400, 10, 40), (3000, 25, 300)):
        for kind in range(4):
            scores = softmax(3 * rng.normal(size=(rows, classes)), axis=1)
            truth = rng.integers(0, max(1, classes - (kind == 1)), rows)  # the last class is absent
            if kind == 2:  # many ties; sums that are exactly 1
                counts = rng.multinomial(8, np.full(classes, 1 / classes), rows)
                scores = counts / 8
            if kind == 3:  # certain predictions
                scores = np.eye(classes)[rng.integers(0, classes, rows)]
            check(scores, truth, rng.integers(0, groups, rows) if groups < rows else np.arange(rows))
    check_temperature(rng)
    check_resamples(rng)
    check_shares(rng)
    print("figures are within 1e-12 of scikit-learn's, SciPy's and NumPy's")


main()
