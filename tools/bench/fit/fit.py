"""A softmax classifier of 100 classes fitted to 10,000 vectors of 1280 numbers, C = 0.01.

The fit alone: `fit_rows` of the tests, which reads the rows and runs the kernels of `train`, beside scikit-learn. Each
stops when no component of the gradient is above 1e-5; how far it then is above the least objective, which scikit-learn
finds in double precision with tol=1e-9, is printed. millrace is measured from outside, start and reading and all;
scikit-learn from inside, without imports.

The command: `train` with one worker and two; seconds of the fit as `train --json` tells them, and the bits of the
weights, which are the same."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import numpy as np
from scipy.special import logsumexp
from sklearn.preprocessing import StandardScaler

import contest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEER = pathlib.Path(__file__).resolve().parent / "scikit_fit.py"
ROWS, WIDTH, CLASSES, C = 10000, 1280, 100, 0.01
OTHERS = 500  # rows for validation, and for the test
SOFTMAX = 0

PIPELINE = """\
version: 1
pipeline: fit
sources:
  pictures: {uri: "*.png"}
stages:
  decode:   {input: pictures}
  hog:      {input: decode, size: 72x48, bins: 8}
  classify: {input: hog}
  results:  {type: jsonl, input: classify, path: "-"}
"""


def make_rows(folder):
    """Classes that overlap, cut off at 0 as features of a network are, with labels of which some are wrong."""
    random = np.random.default_rng(1)
    total = ROWS + 2 * OTHERS
    centres, classes = random.normal(size=(CLASSES, WIDTH)), random.integers(0, CLASSES, total)
    x = np.maximum(0, 0.25 * centres[classes] + random.normal(size=(total, WIDTH))).astype("f4")
    y = np.where(random.random(total) < 0.15, random.integers(0, CLASSES, total), classes).astype("i4")
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", x)
    rows, y_rows = StandardScaler().fit_transform(x[:ROWS].astype("f8")).astype("f4"), y[:ROWS]
    np.save(folder / "x.npy", rows)
    np.save(folder / "y.npy", y_rows)
    (folder / "rows").write_bytes(rows.tobytes() + y_rows.tobytes() + np.ones(ROWS).tobytes())
    parts = ["train"] * ROWS + ["validation"] * OTHERS + ["test"] * OTHERS
    (folder / "vectors.csv").write_text("label,split\n" + "".join(f"{label},{part}\n" for label, part in zip(y, parts)))
    (folder / "fit.yaml").write_text(PIPELINE)
    return rows.astype("f8"), y_rows


def objective(x, y, w, b):
    z = x @ w.T + b
    return (logsumexp(z, axis=1) - z[np.arange(ROWS), y]).mean() + (w ** 2).sum() / (2 * C * ROWS)


def scikit(folder, kind, tolerance, name):
    return contest.Contestant(name, [[sys.executable, str(PEER), str(folder), kind, tolerance, str(C),
                                      str(folder / f"{name}.npz")]], self_measured=True)


def millrace(build, folder, doubles, tolerance, threads, name):
    words = [build / "fit_rows", ROWS, WIDTH, CLASSES, SOFTMAX, C, int(doubles), threads, tolerance]
    line = " ".join(map(str, words)) + f" <'{folder}/rows' >'{folder}/{name}.raw'"
    return contest.Contestant(name, [["/bin/sh", "-c", "exec " + line]])


def parameters(folder, name):
    if (folder / f"{name}.npz").exists():
        found = np.load(folder / f"{name}.npz")
        return found["w"], found["b"]
    found = np.fromfile(folder / f"{name}.raw")
    return found[:-CLASSES].reshape(CLASSES, WIDTH), found[-CLASSES:]


def report_distances(x, y, folder, names, reference):
    w0, b0 = parameters(folder, reference)
    best = objective(x, y, w0, b0)
    print(f"\nleast objective {best:.10f}\n{'':24}{'above it':>12}{'coefficients off by':>21}")
    for name in names:
        w, b = parameters(folder, name)
        print(f"{name:24}{objective(x, y, w, b) - best:12.1e}{np.abs(w - w0).max() / np.abs(w0).max():21.1e}")


def fits(build, folder, x, y, rounds):
    contestants = [scikit(folder, "f4", "1e-5", "scikit-learn, f32"), scikit(folder, "f8", "1e-5", "scikit-learn, f64"),
                   millrace(build, folder, False, 1e-5, 1, "millrace, one worker"),
                   millrace(build, folder, False, 1e-5, 2, "millrace, two workers"),
                   millrace(build, folder, True, 1e-5, 1, "millrace, f64")]
    reference = scikit(folder, "f8", "1e-9", "the least")
    contest.measure(reference)
    contest.table("the fit alone", contest.hold(contestants, rounds), ROWS)
    report_distances(x, y, folder, [one.name for one in contestants], reference.name)


def train(build, folder, threads):
    """Seconds of the fit, and the weights."""
    head = folder / "head"
    done = subprocess.run([build / "millrace", "train", folder / "fit.yaml", "--data", folder / "vectors.csv",
                           "--vectors", folder / "vectors.npy", "--output", head, "--penalty", str(C), "--cache",
                           folder / "cache", "--json", "--threads", str(threads)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["fit_seconds"], (head / "weights.npy").read_bytes()


def commands(build, folder, rounds):
    seconds, weights = {1: [], 2: []}, set()
    for turn in range(rounds):
        for threads in (1, 2) if turn % 2 == 0 else (2, 1):
            took, bits = train(build, folder, threads)
            seconds[threads].append(took)
            weights.add(bits)
    print(f"\nthe fit of train\n{'':24}{'wall s':>8}{'of one':>8}")
    for threads, runs in seconds.items():
        ratio = statistics.median(run / one for run, one in zip(runs, seconds[1]))
        print(f"{threads} {'worker' if threads == 1 else 'workers':22}{statistics.median(runs):8.2f}{ratio:8.2f}")
    print("the weights have the same bits" if len(weights) == 1 else f"{len(weights)} different weights")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    given = parser.parse_args()
    build = given.build.resolve()
    folder = build / "bench" / "fit"
    x, y = make_rows(folder)
    fits(build, folder, x, y, given.rounds)
    commands(build, folder, given.rounds)


if __name__ == "__main__":
    main()
