"""Peer: OpenCV loops that read photos and make network inputs. Called as THREADS SIZE PHOTO...: runs THREADS loops at
once, each with a share of the photos. Imports are not counted."""
import json
import sys
import threading
import time

import cv2
import numpy as np

CROP = 0.875


def tensor(path, size):
    photo = cv2.imread(path, cv2.IMREAD_COLOR)
    height, width = photo.shape[:2]
    side = int(CROP * min(width, height))
    top, left = (height - side) // 2, (width - side) // 2
    small = cv2.resize(photo[top:top + side, left:left + side], (size, size), interpolation=cv2.INTER_AREA)
    return cv2.dnn.blobFromImage(small, 1 / 128, mean=(127, 127, 127), swapRB=True)


def loop(photos, size, sums):
    sums.append(sum(float(np.mean(tensor(photo, size))) for photo in photos))


threads, size, *photos = sys.argv[1:]
threads, size = int(threads), int(size)
cv2.setNumThreads(2 if threads == 1 else 1)
start, cpu, sums = time.monotonic(), time.process_time(), []
running = [threading.Thread(target=loop, args=(photos[index::threads], size, sums)) for index in range(threads)]
for one in running:
    one.start()
for one in running:
    one.join()
assert len(sums) == threads
print(json.dumps({"wall": time.monotonic() - start, "cpu": time.process_time() - cpu}))
