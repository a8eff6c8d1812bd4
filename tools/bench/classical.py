"""Classical features beside OpenCV and ImageHash: this project's kernels (bench_classical) and the peers take turns,
round after round, all on one thread; the median of the ratios within a round counts.

    tools/bench/classical.py build/bench_classical

hog, hog-color: a window of 64x128. hog-frame: from the luma of a 1080p frame in memory, made small by area. rgb,
hsv: three histograms of 32 bins of 256x256 pixels. phash: of 32x32. sharpness, change: of 1080p frames in memory."""
import argparse
import statistics
import time

import cv2
import imagehash
import numpy as np
from PIL import Image

from preprocess import Program

WIDTH, HEIGHT, SIDE, RING = 1920, 1080, 256, 40
TIMES = {"hog": 200, "hog-color": 200, "hog-frame": 40, "rgb": 200, "hsv": 200, "phash": 500, "sharpness": 40,
         "change": 40}


class Peers:
    """The same work by others; each method is one time of it."""

    def __init__(self):
        cv2.setNumThreads(1)
        rng = np.random.default_rng(1)
        self.ring = rng.integers(0, 256, (RING, HEIGHT, WIDTH), dtype=np.uint8)
        self.gray, self.color = self.ring[0, :128, :64].copy(), rng.integers(0, 256, (128, 64, 3), dtype=np.uint8)
        self.picture = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        self.tiny = Image.fromarray(self.ring[0, :32, :32].copy())
        self.descriptor = cv2.HOGDescriptor()

    def hog(self, _):
        self.descriptor.compute(self.gray)

    def hog_color(self, _):
        self.descriptor.compute(self.color)

    def hog_frame(self, i):
        self.descriptor.compute(cv2.resize(self.ring[i % RING], (64, 128), interpolation=cv2.INTER_AREA))

    def histograms(self, picture, levels):
        for channel in range(3):
            cv2.calcHist([picture], [channel], None, [32], [0, levels[channel]])

    def rgb(self, _):
        self.histograms(self.picture, (256, 256, 256))

    def hsv(self, _):
        self.histograms(cv2.cvtColor(self.picture, cv2.COLOR_RGB2HSV), (180, 256, 256))

    def phash(self, _):
        imagehash.phash(self.tiny)

    def sharpness(self, i):
        cv2.meanStdDev(cv2.Laplacian(self.ring[i % RING], cv2.CV_16S))

    def change(self, i):
        apart = cv2.absdiff(self.ring[i % RING], self.ring[(i + 1) % RING])
        _, above = cv2.threshold(apart, 15, 1, cv2.THRESH_BINARY)
        cv2.countNonZero(above)

    def measure(self, name, times):
        one = getattr(self, name.replace("-", "_"))
        wall, cpu = time.perf_counter(), time.process_time()
        for i in range(times):
            one(i)
        return time.perf_counter() - wall, time.process_time() - cpu


def hold(program, peers, rounds):
    """Returns {name: ([ours of each round], [theirs])}, in milliseconds of CPU time: other work does not count."""
    results = {name: ([], []) for name in TIMES}
    for turn in range(rounds + 1):
        for name, times in TIMES.items():
            for side, runner in enumerate((program, peers)):
                _, cpu = runner.measure(name, times)
                if turn:  # the first round warms up
                    results[name][side].append(1e3 * cpu / times)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="bench_classical of the build folder")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    program = Program(options.program)
    results = hold(program, Peers(), options.rounds)
    program.close()
    print(f"{'CPU ms':12}{'ours':>9}{'theirs':>9}{'ratio':>8}")
    for name, (ours, theirs) in results.items():
        ratio = statistics.median(b / a for a, b in zip(ours, theirs))
        print(f"{name:12}{statistics.median(ours):9.4f}{statistics.median(theirs):9.4f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
