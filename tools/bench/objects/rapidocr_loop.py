"""Reads all pictures in a folder with RapidOCR, on one thread, without its network for the direction of lines. Prints
JSON: seconds, and what was found.

    rapidocr_loop.py FOLDER"""
import json
import pathlib
import sys
import time

import cv2
from rapidocr_onnxruntime import RapidOCR

cv2.setNumThreads(1)
reader = RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1)
files = sorted(pathlib.Path(sys.argv[1]).glob("*.png"))
reader(cv2.imread(str(files[0])), use_cls=False)
begin, cpu = time.perf_counter(), time.process_time()
found = {}
for file in files:
    lines, _ = reader(cv2.imread(str(file)), use_cls=False)
    found[file.name] = [([float(number) for corner in quad for number in corner], text)
                        for quad, text, _ in lines or []]
print(json.dumps({"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu, "found": found}))
