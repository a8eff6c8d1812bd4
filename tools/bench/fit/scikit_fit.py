"""Peer: scikit-learn's multinomial logistic regression on one thread. Called as FOLDER TYPE TOLERANCE C RESULT: x.npy
and y.npy of the folder are fitted in f4 or f8, and the parameters written to RESULT. Reading and imports are not
counted."""
import json
import os
import sys
import time
import warnings

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from sklearn.linear_model import LogisticRegression

folder, kind, tolerance, c, result = sys.argv[1:]
x, y = np.load(f"{folder}/x.npy").astype(kind), np.load(f"{folder}/y.npy")
warnings.simplefilter("ignore")  # f4 may not reach its tolerance
start, cpu = time.monotonic(), time.process_time()
model = LogisticRegression(C=float(c), tol=float(tolerance), max_iter=20000).fit(x, y)
print(json.dumps({"wall": time.monotonic() - start, "cpu": time.process_time() - cpu}))
np.savez(result, w=model.coef_.astype("f8"), b=model.intercept_.astype("f8"))
