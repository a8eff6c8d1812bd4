"""Shared by the references: runs a program on raw data, and keeps the largest error for each kind of comparison."""
import os
import subprocess
import sys

import numpy as np

SEED = int(os.environ.get("MILLRACE_SEED", "20261121"))


def run(data, *words):
    """Returns the output of the program that the command line names."""
    return subprocess.run([sys.argv[1], *map(str, words)], input=data, capture_output=True, check=True).stdout


class Comparison:
    def __init__(self):
        self.worst, self.cases, self.failures = {}, 0, 0

    def check(self, name, got, want, tolerance, what):
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        error = float(np.abs(got - want).max()) if got.shape == want.shape else float("inf")
        self.worst[name] = max(self.worst.get(name, 0.0), error)
        self.cases += 1
        if not error <= tolerance:
            self.failures += 1
            print(f"{name}: {error:g} above {tolerance:g} for {what}")

    def end(self):
        """Prints all errors and returns the exit code."""
        for name, error in sorted(self.worst.items()):
            print(f"{name:26s} at most {error:.3g}")
        print(f"{self.cases} comparisons, {self.failures} failed")
        return 1 if self.failures else 0
