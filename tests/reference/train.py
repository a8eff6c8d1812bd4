"""Compares classifiers from mr_classifier_fit with scikit-learn: the folded scaler, the chosen penalty, class weights,
nearest prototypes, k nearest, perceptrons, and rows whose neighbours disagree.

The data are 1,000 of scikit-learn's 8 x 8 digits, where some pixels are always black. A seed splits them. A
scikit-learn pipeline with StandardScaler gives the expected probabilities. Perceptrons train at random, so only their
accuracy is compared. Permuted labels must give chance."""
import os
import subprocess
import sys
import tempfile
import warnings

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # more threads only wait for each other

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

PROGRAM = sys.argv[1]
FOLDER = tempfile.TemporaryDirectory()
TRAIN, VALIDATION, TEST = range(3)


def ours(x, y, parts, kind, penalties="-", head=None, **environment):
    path = os.path.join(FOLDER.name, "rows")
    with open(path, "wb") as file:
        np.array([*x.shape, y.max() + 1], "u4").tofile(file)
        x.astype("f4").tofile(file)
        y.astype("i4").tofile(file)
        parts.astype("u1").tofile(file)
    words = [PROGRAM, path, kind, penalties] + ([head] if head else [])
    done = subprocess.run(words, capture_output=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr.decode()
    if "NOISE" in environment:
        return [line.split() for line in done.stdout.decode().splitlines()]
    return np.frombuffer(done.stdout, "f4").reshape(len(x), -1)


def share(scores, y, parts, part=TEST):
    chosen = parts == part
    return (scores[chosen].argmax(axis=1) == y[chosen]).mean()


def digits():
    x, y = (array[:1000] for array in load_digits(return_X_y=True))
    parts = np.random.default_rng(4).choice(3, len(x), p=[0.6, 0.2, 0.2])
    return x.astype("f4"), y, parts


def standardised(x, parts):
    return StandardScaler().fit(x[parts == TRAIN].astype("f8")).transform(x.astype("f8"))


def check_softmax(x, y, parts):
    """Each penalty alone gives scikit-learn's probabilities. The path chooses the one with the smallest log loss."""
    z, losses, path = standardised(x, parts), [], [0.001, 0.01, 0.1, 1.0]
    for c, weights in [(c, None) for c in path] + [(0.01, "balanced")]:
        model = LogisticRegression(C=c, tol=1e-9, max_iter=10000, class_weight=weights)
        theirs = model.fit(z[parts == TRAIN], y[parts == TRAIN]).predict_proba(z)
        environment = {"BALANCED": "1"} if weights else {}
        found = ours(x, y, parts, "softmax", str(c), DOUBLES="1", **environment)
        assert np.abs(found - theirs).max() < 3e-4, (c, weights, np.abs(found - theirs).max())
        if not weights:
            losses.append(log_loss(y[parts == VALIDATION], theirs[parts == VALIDATION]))
            single = ours(x, y, parts, "softmax", str(c))
            assert np.abs(single - theirs).max() < 5e-3, (c, np.abs(single - theirs).max())
    taken = ours(x, y, parts, "softmax", ",".join(map(str, path)))
    best = ours(x, y, parts, "softmax", str(path[int(np.argmin(losses))]))
    assert np.abs(taken - best).max() < 5e-3
    assert share(taken, y, parts) > 0.9


def check_weak_penalties(x, y, parts):
    """A weak penalty separates these rows. The objective is small, and single precision must still reach the
    minimum."""
    z, train = standardised(x, parts), parts == TRAIN
    for c in (10.0, 1000.0):
        model = LogisticRegression(C=c, tol=1e-12, solver="newton-cholesky", max_iter=1000).fit(z[train], y[train])
        theirs = log_loss(y[train], model.predict_proba(z)[train])
        found = log_loss(y[train], ours(x, y, parts, "softmax", str(c)).astype("f8")[train])
        assert theirs < 0.01 and abs(found / theirs - 1) < 0.003, (c, theirs, found)


def check_logistic(x, y, parts):
    z = standardised(x, parts)
    found = ours(x, y, parts, "logistic", "0.1", DOUBLES="1")
    for j in (0, 3, 8):
        model = LogisticRegression(C=0.1, tol=1e-9, max_iter=10000).fit(z[parts == TRAIN], y[parts == TRAIN] == j)
        assert np.abs(found[:, j] - model.predict_proba(z)[:, 1]).max() < 3e-4


def check_hinge(x, y, parts):
    """Scores must be a softmax of margins over one temperature. LinearSVC penalises the bias; intercept scaling makes
    that penalty small."""
    z, train = standardised(x, parts), parts == TRAIN
    found = np.log(ours(x, y, parts, "squared-hinge", "0.1", DOUBLES="1").astype("f8"))
    margins = [LinearSVC(C=0.1, dual=False, tol=1e-10, intercept_scaling=1e3, max_iter=100000).fit(
        z[train], y[train] == j).decision_function(z) for j in (0, 3, 8)]
    ours_apart = np.append(found[:, 0] - found[:, 3], found[:, 3] - found[:, 8])
    theirs = np.append(margins[0] - margins[1], margins[1] - margins[2])
    temperature = theirs @ ours_apart / (ours_apart @ ours_apart)
    assert np.abs(ours_apart * temperature - theirs).max() < 2e-3, np.abs(ours_apart * temperature - theirs).max()


def check_nearest(x, y, parts):
    train = parts == TRAIN
    for scaling, z in (("none", x.astype("f8")), ("standard", standardised(x, parts))):
        centres = NearestCentroid().fit(z[train], y[train])
        found = ours(x, y, parts, "prototypes", SCALING=scaling).argmax(axis=1)
        assert (found == centres.predict(z)).mean() > 0.999
        for k in (1, 5, 12):
            near = KNeighborsClassifier(k, algorithm="brute").fit(z[train], y[train]).predict_proba(z)
            scores = ours(x, y, parts, "neighbors", SCALING=scaling, K=str(k))
            differ = np.abs(scores - near).max(axis=1) > 1e-6  # only if two neighbours are equally far
            assert differ.mean() < (0.02 if scaling == "none" else 0.005), (scaling, k, differ.mean())


def check_perceptron(x, y, parts):
    z, train = standardised(x, parts), parts == TRAIN
    theirs = MLPClassifier((64, 32), random_state=1, max_iter=150).fit(z[train], y[train])
    ahead = theirs.score(z[parts == TEST], y[parts == TEST])
    for given in ({}, {"DOUBLES": "1"}):
        found = share(ours(x, y, parts, "perceptron", HIDDEN="64,32", **given), y, parts)
        assert found > ahead - 0.03, (given, found, ahead)


def check_files(x, y, parts):
    """weights.npy suffices to compute the scores: softmax of weights times raw pixels."""
    head = os.path.join(FOLDER.name, "head")
    scores = ours(x, y, parts, "softmax", "0.1", head)
    weights = np.load(os.path.join(head, "weights.npy")).astype("f8")
    logits = x.astype("f8") @ weights[:, :-1].T + weights[:, -1]
    wanted = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert np.abs(wanted / wanted.sum(axis=1, keepdims=True) - scores).max() < 2e-5
    assert open(os.path.join(head, "labels.txt")).read().split() == [str(j) for j in range(10)]
    head += "-near"
    ours(x, y, parts, "neighbors", "-", head)
    assert (np.load(os.path.join(head, "vectors.npy"))[:, :-1] == x[parts == TRAIN]).all()
    assert (np.load(os.path.join(head, "classes.npy"))[:, 0] == y[parts == TRAIN]).all()


def check_noise(x, y, parts):
    """At least 25 of 30 changed labels must be found. Found rows must match scikit-learn's neighbours, with two
    exceptions at most."""
    rng, y = np.random.default_rng(6), y.copy()
    changed = rng.choice(np.flatnonzero(parts != TEST), 30, replace=False)
    y[changed] = (y[changed] + rng.integers(1, 10, 30)) % 10
    seen = np.flatnonzero(parts != TEST)
    rows = ours(x, y, parts, "neighbors", NOISE="10")
    z = standardised(x, parts)[seen]
    near = KNeighborsClassifier(10).fit(z, y[seen]).kneighbors(return_distance=False)
    votes = np.array([np.bincount(y[seen][one], minlength=10) for one in near])
    wanted = {int(row): int(vote.argmax()) for row, vote in zip(seen, votes)
              if vote.max() >= 8 and vote.argmax() != y[row]}
    found = {int(row[0]): int(row[2]) for row in rows}
    assert len(set(found) & set(changed)) >= 25, len(set(found) & set(changed))
    assert len(set(found.items()) ^ set(wanted.items())) <= 2, (found, wanted)


def check_chance(x, y, parts):
    y = np.random.default_rng(8).permutation(y)
    for kind in ("softmax", "prototypes", "neighbors"):
        assert abs(share(ours(x, y, parts, kind), y, parts) - 0.1) < 0.05, kind


def main():
    warnings.simplefilter("ignore")  # constant features, and the last step of a perceptron
    rows = digits()
    checks = (check_softmax, check_weak_penalties, check_logistic, check_hinge, check_nearest, check_perceptron,
              check_files, check_noise, check_chance)
    for check in checks:
        check(*rows)
    print(f"{len(checks)} kinds of checks: as scikit-learn")


main()
