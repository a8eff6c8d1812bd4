"""Compares linear classifiers with scikit-learn: multinomial logistic regression, one against the rest, and support
vector machines with a squared hinge.

scikit-learn's lbfgs must run in double precision with tol=1e-9. With its default it stops 4e-5 above the optimum, too
far for a reference. Its objective is ours times C and the sum of row weights, so parameters are compared directly.
LinearSVC penalises the bias of a machine. So SciPy minimises our objective, and LinearSVC is compared with a bias that
it hardly penalises. In double precision the objective must be within 2e-10 of the optimum. Coefficients must be within
1e-5, relative to the largest. In single precision the limits are 1e-6 and 1e-3. Any number of threads must give the
bits that one thread gives."""
import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # more threads only wait for each other

import numpy as np
import scipy.optimize
from comparison import run
from scipy.special import expit, logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

SOFTMAX, LOGISTIC, HINGE = range(3)
WITHIN = {False: (1e-6, 1e-3), True: (2e-10, 1e-5)}  # objective, coefficients


def draw(seed, count, width, classes):
    rng = np.random.default_rng(seed)
    centres, y = rng.normal(size=(classes, width)), rng.integers(0, classes, count)
    y[:classes] = np.arange(classes)
    x = np.maximum(0, centres[y] * 0.5 + rng.normal(size=(count, width))).astype(np.float32)
    return x, y.astype(np.int32), rng.uniform(0.2, 3.0, count)


def ours(x, y, weights, classes, loss, c, doubles, threads, tolerance):
    data = x.tobytes() + y.tobytes() + weights.tobytes()
    made = run(data, *x.shape, classes, loss, c, int(doubles), threads, tolerance)
    found = np.frombuffer(made)
    return found[:-classes].reshape(classes, -1), found[-classes:], made


def objective(x, y, v, loss, c, w, b):
    z = x.astype(np.float64) @ w.T + b
    own = np.arange(w.shape[0]) == y[:, None]
    margin = np.where(own, z, -z)
    if loss == SOFTMAX:
        each = logsumexp(z, axis=1) - z[own]
    elif loss == LOGISTIC:
        each = -np.log(expit(margin)).sum(axis=1)
    else:
        each = (np.maximum(0, 1 - margin) ** 2).sum(axis=1)
    return (v * each).sum() / v.sum() + (w ** 2).sum() / (2 * c * v.sum())


def reference(x, y, v, classes, loss, c):
    x = x.astype(np.float64)
    if loss == SOFTMAX and classes > 2:
        model = LogisticRegression(C=c, tol=1e-9, max_iter=20000).fit(x, y, v)
        return model.coef_, model.intercept_
    if loss == SOFTMAX:  # scikit-learn has one row for two classes; we put half into each, with half the penalty
        model = LogisticRegression(C=2 * c, tol=1e-9, max_iter=20000).fit(x, y, v)
        return np.vstack([-model.coef_, model.coef_]) / 2, np.append(-model.intercept_, model.intercept_) / 2
    rows = []
    for j in range(classes):
        if loss == LOGISTIC:
            model = LogisticRegression(C=c, tol=1e-9, max_iter=20000).fit(x, y == j, v)
            rows.append(np.append(model.coef_[0], model.intercept_[0]))
        else:
            rows.append(machine(x, np.where(y == j, 1.0, -1.0), v, c))
    rows = np.array(rows)
    return rows[:, :-1], rows[:, -1]


def machine(x, sign, v, c):
    def value(p):
        inside = np.maximum(0, 1 - sign * (x @ p[:-1] + p[-1]))
        slope = -2 * v * sign * inside
        total = v.sum()
        return ((v * inside ** 2).sum() + p[:-1] @ p[:-1] / (2 * c)) / total, \
            np.append(x.T @ slope + p[:-1] / c, slope.sum()) / total
    return scipy.optimize.minimize(value, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B",
                                   options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 20000, "maxfun": 40000}).x


def check_machine():
    """LinearSVC must agree with our objective: C has its own unit there, and the bias is almost free."""
    x, y, _ = draw(5, 400, 12, 2)
    ones = np.ones(len(x))
    w, b, _ = ours(x, y, ones, 2, HINGE, 2.0, True, 2, 1e-10)
    model = LinearSVC(C=2.0, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=100000).fit(x, y)
    assert np.abs(w[1] - model.coef_[0]).max() < 1e-4 * np.abs(w).max(), np.abs(w[1] - model.coef_[0]).max()
    assert abs(b[1] - model.intercept_[0]) < 1e-4 * max(1.0, abs(b[1]))


def main():
    cases = 0
    for seed, (count, width, classes, c) in enumerate(
            [(300, 5, 2, 1.0), (1100, 24, 7, 0.05), (257, 3, 3, 10.0), (3000, 32, 10, 0.02)]):
        x, y, v = draw(seed, count, width, classes)
        for loss in (SOFTMAX, LOGISTIC, HINGE):
            w0, b0 = reference(x, y, v, classes, loss, c)
            best = objective(x, y, v, loss, c, w0, b0)
            if loss == SOFTMAX:  # all biases can share any constant
                b0 = b0 - b0.mean()
            for doubles in (False, True):
                within = WITHIN[doubles]
                w, b, raw = ours(x, y, v, classes, loss, c, doubles, 1, 1e-10 if doubles else 1e-8)
                above = objective(x, y, v, loss, c, w, b) - best
                if loss == SOFTMAX:
                    b = b - b.mean()
                scale = max(np.abs(w0).max(), np.abs(b0).max())
                off = max(np.abs(w - w0).max(), np.abs(b - b0).max()) / scale
                assert above < within[0] and off < within[1], (seed, loss, doubles, above, off)
                for threads in (2, 5):
                    assert ours(x, y, v, classes, loss, c, doubles, threads, 1e-10 if doubles else 1e-8)[2] == raw
                cases += 1
    check_machine()
    print(f"{cases} fits are within their tolerances of scikit-learn's and SciPy's")


main()
