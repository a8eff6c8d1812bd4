"""Compares resizing of a single plane with OpenCV and Pillow, on random and odd sizes.

Each case has two comparisons. The first is with the reference in floating point, unrounded. The difference may be half
a code from our rounding, 1/32 from fixed-point weights and samples, and 1e-3 from the reference's single precision. The
second is with the reference in 8 bits. The difference may be at most 1: both programs round, and OpenCV's 8-bit weights
have only 11 bits. Nearest must be equal.

The references differ in two points:
- Pillow rounds and clips to 8 bits between two passes. Bicubic overshoots there, so bicubic is only compared with
  Pillow's floating point.
- OpenCV's area falls back to another filter if one axis shrinks and the other grows; these pairs are left out. If it
  enlarges, a whole-number position may come out slightly lower and select the previous pixel. These sizes are left out
  too."""
import math
import sys

import cv2
import numpy as np
from comparison import SEED, Comparison, run
from PIL import Image

NEAREST, BILINEAR, BICUBIC, AREA = range(4)
FLOAT_TOLERANCE = 0.5 + 1 / 32 + 1e-3


def ours(plane, to, interpolation, antialias, crop=0.0):
    height, width = plane.shape
    data = run(plane.tobytes(), interpolation, int(antialias), width, height, *to, crop)
    return np.frombuffer(data, np.uint8).reshape(to[1], to[0]).astype(np.float64)


def pillow(plane, to, method, mode, box=None):
    kind = np.float32 if mode == "F" else np.uint8
    made = np.asarray(Image.fromarray(plane.astype(kind)).resize(to, method, box=box)).astype(np.float64)
    return np.clip(made, 0, 255)


def draw_plane(rng, width, height):
    if rng.random() < 0.5:
        return rng.integers(0, 256, (height, width), dtype=np.uint8)
    y, x = np.mgrid[0:height, 0:width]
    return (127.5 + 127.5 * np.sin(x * rng.random()) * np.cos(y * rng.random())).astype(np.uint8)


def area_is_exact(size, to):
    """Returns whether OpenCV's area means the covered area; see the top."""
    if all(t <= s for s, t in zip(size, to)):
        return True
    if any(t < s for s, t in zip(size, to)):
        return False
    return all(math.floor(i * (1 / (t / s))) == i * s // t for s, t in zip(size, to) for i in range(t))


def compare_opencv(result, plane, to, what):
    height, width = plane.shape
    got = ours(plane, to, NEAREST, False)
    result.check("opencv nearest", got, cv2.resize(plane, to, interpolation=cv2.INTER_NEAREST).astype(float), 0.0, what)
    for name, method, flag in (("bilinear", BILINEAR, cv2.INTER_LINEAR), ("bicubic", BICUBIC, cv2.INTER_CUBIC),
                               ("area", AREA, cv2.INTER_AREA)):
        if method == AREA and not area_is_exact((width, height), to):
            continue
        got = ours(plane, to, method, False)
        exact = np.clip(cv2.resize(plane.astype(np.float32), to, interpolation=flag), 0, 255)
        result.check(f"opencv {name} float", got, exact, FLOAT_TOLERANCE, what)
        result.check(f"opencv {name} 8 bit", got, cv2.resize(plane, to, interpolation=flag).astype(float), 1.0, what)


def compare_pillow(result, plane, to, what):
    for name, method, flag in (("bilinear", BILINEAR, Image.Resampling.BILINEAR),
                               ("bicubic", BICUBIC, Image.Resampling.BICUBIC)):
        got = ours(plane, to, method, True)
        result.check(f"pillow {name} float", got, pillow(plane, to, flag, "F"), FLOAT_TOLERANCE, what)
        if method == BILINEAR:
            result.check(f"pillow {name} 8 bit", got, pillow(plane, to, flag, "L"), 1.0, what)


def compare_box(result, rng):
    """Scales by whole numbers, where Pillow's box equals the covered area."""
    to = tuple(int(n) for n in rng.integers(1, 40, 2))
    factor = rng.integers(1, 9, 2)
    plane = draw_plane(rng, to[0] * factor[0], to[1] * factor[1])
    got, what = ours(plane, to, AREA, True), (plane.shape, to)
    result.check("pillow box float", got, pillow(plane, to, Image.Resampling.BOX, "F"), FLOAT_TOLERANCE, what)
    result.check("pillow box 8 bit", got, pillow(plane, to, Image.Resampling.BOX, "L"), 1.0, what)


def compare_crop(result, rng):
    """A centred region with whole and fractional pixels, as resize(box=...) takes it."""
    width, height, side = (int(n) for n in rng.integers((20, 20, 5), (300, 300, 60)))
    plane, fraction = draw_plane(rng, width, height), float(rng.choice([0.875, 0.5, 0.95, 1.0]))
    edge = fraction * min(width, height)
    box = ((width - edge) / 2, (height - edge) / 2, (width + edge) / 2, (height + edge) / 2)
    got = ours(plane, (side, side), BILINEAR, True, fraction)
    exact = pillow(plane, (side, side), Image.Resampling.BILINEAR, "F", box)
    # Pillow keeps the box corners in single precision.
    result.check("pillow crop float", got, exact, FLOAT_TOLERANCE + 0.01, (plane.shape, side, fraction))


def draw_sizes(rng, case):
    if case % 8 == 0:  # shrink far, to 1/64
        to = tuple(int(n) for n in rng.integers(1, 12, 2))
        return tuple(int(n * f) for n, f in zip(to, rng.uniform(8, 64, 2))), to
    return tuple(int(n) for n in rng.integers(1, 200, 2)), tuple(int(n) for n in rng.integers(1, 200, 2))


def main():
    rng, result = np.random.default_rng(SEED), Comparison()
    print(f"seed {SEED}, OpenCV {cv2.__version__}, Pillow {Image.__version__}")
    for case in range(120):
        (width, height), to = draw_sizes(rng, case)
        plane, what = draw_plane(rng, width, height), f"{width}x{height} -> {to[0]}x{to[1]}"
        compare_opencv(result, plane, to, what)
        compare_pillow(result, plane, to, what)
        compare_box(result, rng)
        compare_crop(result, rng)
    return result.end()


if __name__ == "__main__":
    sys.exit(main())
