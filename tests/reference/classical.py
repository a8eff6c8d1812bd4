"""Compares classical features with OpenCV, SciPy, NumPy, colorsys and ImageHash, on random and odd sizes.

Integer results must be equal. Histograms use OpenCV's HSV conversion and NumPy's counts; a share is one division. The
perceptual hash of a 32 x 32 picture is compared with ImageHash, which computes in double precision. Counts of changed
samples are compared with OpenCV. Sharpness is a variance of integers, exact in both programs; it must agree within one
rounding to single precision.

HOG must be within PEOPLE_TOLERANCE of OpenCV's HOGDescriptor for the default window, where values are 0 to about 0.3.
It must be within HOG_TOLERANCE for any layout: blocks may have only a few pixels, and values reach 1. OpenCV's
arctangent is off by up to 0.01 degrees, 1/1000 of the smallest bin used here. That share of a vote may move to the next
bin. Single precision sums also differ in order. A direction between two bins causes no jump, since a vote is shared.
The choice among three channels can jump if two gradients have the same length. OpenCV takes the last channel (R, G, B)
in the columns that it computes eight at a time, and the first channel in the rest. So the widths of colour pictures
must be multiples of eight.

HSV is also compared with colorsys, in double precision: hue within 1 of 180 steps, saturation within 1 of 255. Each
colour is tested alone, by the histogram of a picture with only that colour."""
import colorsys
import sys

import cv2
import imagehash
import numpy as np
import scipy.ndimage
from comparison import SEED, Comparison, run
from PIL import Image

PEOPLE_TOLERANCE, HOG_TOLERANCE = 2e-4, 2e-3
PEOPLE = ((64, 128), (16, 16), (8, 8), (8, 8), 9)  # HOGDescriptor's defaults


def ours(kind, dtype, samples, *numbers):
    return np.frombuffer(run(np.ascontiguousarray(samples).tobytes(), kind, *numbers), dtype)


def draw_planes(rng, channels, width, height):
    """Draws noise, waves or a flat picture: votes, ties and empty blocks need all three."""
    kind = rng.integers(0, 4)
    if kind == 0:
        return np.full((channels, height, width), rng.integers(0, 256), np.uint8)
    if kind == 1:
        y, x = np.mgrid[0:height, 0:width]
        waves = [127.5 + 127.5 * np.sin(x * rng.random() + c) * np.cos(y * rng.random()) for c in range(channels)]
        return np.array(waves).astype(np.uint8)
    return rng.integers(0, 256, (channels, height, width), dtype=np.uint8)


def interleaved_bgr(planes):
    return np.ascontiguousarray(planes[::-1].transpose(1, 2, 0))


# ---- gradients -----------------------------------------------------------------------------------------------

def draw_hog(rng, channels):
    """Draws (window, block, stride, cell, bins) as HOGDescriptor takes them."""
    layout = draw_layout(rng)
    while channels == 3 and layout[0][0] % 8:
        layout = draw_layout(rng)
    return layout


def draw_layout(rng):
    cell = tuple(int(n) for n in rng.integers(2, 9, 2))
    block = tuple(c * int(n) for c, n in zip(cell, rng.integers(1, 4, 2)))
    stride = tuple(int(n) for n in rng.integers(1, 9, 2))
    if rng.random() < 0.7:  # OpenCV's strides must be multiples of the cell
        stride = cell
    window = tuple(b + s * int(n) for b, s, n in zip(block, stride, rng.integers(0, 6, 2)))
    return window, block, stride, cell, int(rng.integers(4, 19))


def compare_hog(result, rng, layout, channels):
    window, block, stride, cell, bins = layout
    full, gamma = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    planes = draw_planes(rng, channels, *window)
    picture = planes[0] if channels == 1 else interleaved_bgr(planes)
    peer = cv2.HOGDescriptor(window, block, stride, cell, bins, 1, -1, cv2.HOGDESCRIPTOR_L2HYS, 0.2, gamma, 64, full)
    want = peer.compute(picture, stride, (0, 0)).ravel()
    got = ours("hog", np.float32, planes, *window, channels, *block, *stride, *cell, bins, int(full), int(gamma))
    name, tolerance = ("hog of people", PEOPLE_TOLERANCE) if layout is PEOPLE else ("hog", HOG_TOLERANCE)
    result.check(f"{name}, opencv", got, want, tolerance, (layout, channels, full, gamma))


# ---- colours -------------------------------------------------------------------------------------------------

def bins_of(values, bins, levels):
    return values.astype(np.int64) * bins // levels


def compare_histogram(result, rng):
    width, height, bins = (int(n) for n in rng.integers((1, 1, 1), (90, 90, 257)))
    planes = draw_planes(rng, 3, width, height)
    hsv = cv2.cvtColor(interleaved_bgr(planes), cv2.COLOR_BGR2HSV).transpose(2, 0, 1)
    pixels = width * height
    for space, channels, levels in ((0, planes, (256, 256, 256)), (1, hsv, (180, 256, 256))):
        counts = [np.bincount(bins_of(c, bins, n).ravel(), minlength=bins) for c, n in zip(channels, levels)]
        got = ours("histogram", np.float32, planes, width, height, space, bins, 0)
        want = (np.concatenate(counts) / pixels).astype(np.float32)
        result.check("histogram, numpy", got, want, 0.0, (width, height, space, bins))
        few = bins % 32 + 1
        boxes = np.zeros(few**3)
        places = [bins_of(c, few, n).ravel() for c, n in zip(channels, levels)]
        np.add.at(boxes, (places[0] * few + places[1]) * few + places[2], 1)
        got = ours("histogram", np.float32, planes, width, height, space, few, 1)
        result.check("boxes of colours, numpy", got, (boxes / pixels).astype(np.float32), 0.0, (width, space, few))


def compare_opencv_histogram(result, rng):
    """calcHist divides a range in floating point. The division is exact if the bins divide the range."""
    planes = draw_planes(rng, 3, 61, 47)
    got = ours("histogram", np.float32, planes, 61, 47, 0, 32, 0).reshape(3, 32)
    for channel in range(3):
        counts = cv2.calcHist([planes[channel]], [0], None, [32], [0, 256]).ravel()
        result.check("histogram, opencv", got[channel], (counts / (61 * 47)).astype(np.float32), 0.0, channel)


def compare_colorsys(result, rng):
    for _ in range(40):
        color = rng.integers(0, 256, 3).astype(np.uint8)
        h, s, v = colorsys.rgb_to_hsv(*(color / 255.0))
        hue = int(np.argmax(ours("histogram", np.float32, color, 1, 1, 1, 180, 0)[:180]))
        one = ours("histogram", np.float32, color, 1, 1, 1, 256, 0).reshape(3, 256)
        saturation, value = (int(np.argmax(c)) for c in one[1:])
        turn = abs(hue - h * 180) % 180
        result.check("hue, colorsys", min(turn, 180 - turn), 0, 1.0, color)
        result.check("saturation, colorsys", saturation, s * 255, 1.0, color)
        result.check("value, colorsys", value, v * 255, 1e-9, color)


# ---- hash, sharpness, change ---------------------------------------------------------------------------------

def compare_phash(result, rng):
    plane = draw_planes(rng, 1, 32, 32)[0]
    got = ours("phash", np.uint8, plane).tobytes().hex()
    result.check("phash, imagehash", int(got != str(imagehash.phash(Image.fromarray(plane)))), 0, 0, got)


def compare_sharpness(result, rng):
    width, height = (int(n) for n in rng.integers(1, 400, 2))
    plane, scale = draw_planes(rng, 1, width, height)[0], float(np.float32(rng.choice([1.0, 255 / 219])))
    got = ours("sharpness", np.float32, plane, width, height, repr(scale))
    exact = cv2.Laplacian(plane, cv2.CV_64F).var() * scale**2
    result.check("sharpness, opencv", got, [exact], 1e-6 * exact + 1e-9, (width, height))
    # SciPy's "mirror" is the same border, but it cannot mirror a side of one pixel.
    if min(width, height) > 1:
        exact = scipy.ndimage.laplace(plane.astype(np.float64), mode="mirror").var() * scale**2
        result.check("sharpness, scipy", got, [exact], 1e-6 * exact + 1e-9, (width, height))


def compare_change(result, rng):
    count, noise = int(rng.integers(1, 5000)), int(rng.integers(0, 255))
    a, b = rng.integers(0, 256, (2, count), dtype=np.uint8)
    _, above = cv2.threshold(cv2.absdiff(a, b), noise, 255, cv2.THRESH_BINARY)
    got = ours("change", np.uint32, np.stack([a, b]), count, noise)
    result.check("change, opencv", got, [cv2.countNonZero(above)], 0, (count, noise))


def main():
    rng, result = np.random.default_rng(SEED), Comparison()
    print(f"seed {SEED}, OpenCV {cv2.__version__}, SciPy {scipy.__version__}, ImageHash {imagehash.__version__}")
    for case in range(60):
        for channels in (1, 3):
            compare_hog(result, rng, PEOPLE if case % 6 == 0 else draw_hog(rng, channels), channels)
        compare_histogram(result, rng)
        compare_opencv_histogram(result, rng)
        compare_phash(result, rng)
        compare_sharpness(result, rng)
        compare_change(result, rng)
    compare_colorsys(result, rng)
    return result.end()


if __name__ == "__main__":
    sys.exit(main())
