#!/usr/bin/env python3
"""Preprocessing of cold 1080p I420 frames to 224x224 f32 NCHW: this project's kernel beside OpenCV and libswscale.

  preprocess.py BENCH_PREPROCESS [--rounds 15] [--frames 40] [--json FILE]

BENCH_PREPROCESS is the program of that name in the build folder. Contestants take turns, one stretch of frames each,
out of rings of at least 512 MiB, on one thread each; a ratio is the median over the rounds of the ratios within a
round. OpenCV does what people do: cvtColor to RGB, resize, blobFromImage. libswscale ends with 8-bit RGB, without
normalising. Beside each stands how many source bytes it touches a second, as a share of what one core reads from the
same memory."""
import argparse
import json
import statistics
import subprocess
import time

import cv2
import numpy as np

WIDTH, HEIGHT, SIDE = 1920, 1080, 224
FRAME_BYTES = WIDTH * HEIGHT * 3 // 2
RING_FRAMES = 512 * 2**20 // FRAME_BYTES + 1
# Two source rows for every result of a plane: all that plain bilinear looks at.
BILINEAR_BYTES = 2 * SIDE * WIDTH + 2 * 2 * SIDE * WIDTH // 2

OPENCV = {"opencv-bilinear": cv2.INTER_LINEAR, "opencv-area": cv2.INTER_AREA}
KERNELS = ["bilinear", "bilinear-antialiased", "area"]
VARIANTS = [f"{name}-{isa}" for isa in ("avx2", "avx512") for name in KERNELS]
SWSCALE = [f"swscale-{kind}{planar}" for kind in ("bilinear", "area") for planar in ("", "-planar")]
# Who is compared with whom, and what is asked of the ratio.
CONTESTS = [("bilinear", "opencv-bilinear", 6.0), ("area", "opencv-area", 10.0),
            ("bilinear-antialiased", "swscale-bilinear", 3.0), ("area", "swscale-area", 2.0),
            ("bilinear-antialiased", "swscale-bilinear-planar", None), ("area", "swscale-area-planar", None)]


class OpenCV:
    """Takes its turns in this process."""

    def __init__(self):
        cv2.setNumThreads(1)
        words = np.random.default_rng(1).integers(0, 2**32, FRAME_BYTES * RING_FRAMES // 4 + 1, dtype=np.uint32)
        self.ring = words.view(np.uint8)[:FRAME_BYTES * RING_FRAMES].reshape(RING_FRAMES, HEIGHT * 3 // 2, WIDTH)
        self.position = 0

    def measure(self, name, frames):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(frames):
            rgb = cv2.cvtColor(self.ring[self.position], cv2.COLOR_YUV2RGB_I420)
            small = cv2.resize(rgb, (SIDE, SIDE), interpolation=OPENCV[name])
            cv2.dnn.blobFromImage(small, 1 / 128, (SIDE, SIDE), (127, 127, 127))
            self.position = (self.position + 1) % RING_FRAMES
        return time.perf_counter() - wall, time.process_time() - cpu


class Program:
    """Takes its turns in a process of its own that waits in between."""

    def __init__(self, path):
        self.process = subprocess.Popen([path, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, name, frames):
        self.process.stdin.write(f"{name} {frames}\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        return told["wall_s"], told["cpu_s"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def hold(program, opencv, rounds, frames):
    """Returns {name: [(wall, cpu) a frame, in ms, of each round]}."""
    order = [(name, program) for name in [*KERNELS, *VARIANTS, *SWSCALE, "read"]] + [(name, opencv) for name in OPENCV]
    results = {name: [] for name, _ in order}
    for turn in range(rounds + 1):
        for name, runner in order if turn % 2 == 0 else reversed(order):
            wall, cpu = runner.measure(name, frames)
            if turn:  # the first round warms up
                results[name].append((1e3 * wall / frames, 1e3 * cpu / frames))
    return results


def touched(name):
    return BILINEAR_BYTES if name.removesuffix("-avx512").removesuffix("-avx2") == "bilinear" else FRAME_BYTES


def median(results, name, which):
    return statistics.median(run[which] for run in results[name])


def ratio(results, name, peer, which=0):
    return statistics.median(theirs[which] / ours[which] for ours, theirs in zip(results[name], results[peer]))


def report(results):
    read = FRAME_BYTES / median(results, "read", 1) / 1e6
    print(f"one core reads {read:.1f} GB/s")
    print(f"{'':26}{'ms':>8}{'CPU ms':>8}{'GB/s':>7}{'of read':>9}")
    for name in results:
        wall = median(results, name, 0)
        cpu = median(results, name, 1)  # on a busy machine the wall clock measures the others
        rate = touched(name) / cpu / 1e6
        print(f"{name:26}{wall:8.3f}{cpu:8.3f}{rate:7.2f}{rate / read:9.1%}")
    for name, peer, goal in CONTESTS:
        asked = f", at least {goal:g} asked" if goal else ""
        print(f"{name} is {ratio(results, name, peer):.2f} times as fast as {peer} "
              f"({ratio(results, name, peer, 1):.2f} in CPU time){asked}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="bench_preprocess of the build folder")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--json", help="file for the figures of every round")
    options = parser.parse_args()
    program = Program(options.program)
    results = hold(program, OpenCV(), options.rounds, options.frames)
    program.close()
    report(results)
    if options.json:
        ratios = {f"{name} / {peer}": ratio(results, name, peer) for name, peer, _ in CONTESTS}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"ms": results, "ratios": ratios}, file)


if __name__ == "__main__":
    main()
