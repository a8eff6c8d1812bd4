"""Makes network inputs (3x224x224) from folders of JPEG photos. Compares millrace with whole and reduced decoding,
OpenCV loops, and the floor: ffmpeg decodes at 1/4 (12 megapixels) or whole (1 megapixel) and discards the pictures.

The floor and millrace are measured from outside, the command's start included; OpenCV from inside, without imports."""
import argparse
import pathlib
import sys

import cv2
import numpy as np

import contest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEER = pathlib.Path(__file__).resolve().parent / "opencv_photos.py"
STILLS = pathlib.Path("/usr/share/doc/opencv-doc/examples/data")
NAMES = ("aloeL", "building", "fruits", "baboon", "squirrel_cls", "home", "board", "leuvenA", "messi5", "starry_night")
# Columns, rows, copies of each still, and log2 of the floor's decoding scale.
SIZES = {"12 megapixels": (4000, 3000, 12, 2), "1 megapixel": (1152, 864, 100, 0)}
SIDE = 224
QUALITY, NOISE = 90, 2

PIPELINE = """\
version: 1
pipeline: photos
sources:
  photos: {{uri: "{folder}/*.jpg"}}
stages:
  decode:     {{input: photos, reduced: {reduced}}}
  preprocess: {{input: decode, size: {side}x{side}, fit: center-crop, crop_fraction: 0.875, mean: 127, std: 128}}
  end:        {{type: "null", input: preprocess}}
"""


def photos(folder, width, height, times):
    """Makes stills in photo size, with camera noise: noise costs decoding time just as detail does."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    for index, name in enumerate(NAMES):
        first = folder / f"{index}-00.jpg"
        if not first.exists():
            large = cv2.resize(cv2.imread(str(STILLS / f"{name}.jpg")), (width, height),
                               interpolation=cv2.INTER_LANCZOS4)
            noisy = np.clip(large + random.normal(0, NOISE, (height, width, 1)), 0, 255).astype(np.uint8)
            cv2.imwrite(str(first), noisy, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        for again in range(1, times):
            path = folder / f"{index}-{again:02}.jpg"
            if not path.exists():
                path.symlink_to(first.name)
    return sorted(map(str, folder.glob("*.jpg")))


def millrace(build, folder, reduced):
    path = folder.parent / f"{folder.name}-{reduced}.yaml"
    path.write_text(PIPELINE.format(folder=folder, reduced=reduced, side=SIDE))
    return contest.Contestant(f"millrace, reduced: {reduced}", [[str(build / "millrace"), "run", str(path), "--quiet"]])


def opencv(files, threads):
    return contest.Contestant(f"OpenCV, {threads} loop{'s' if threads > 1 else ''}",
                              [[sys.executable, str(PEER), str(threads), str(SIDE), *files]], self_measured=True,
                              environment={"PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"})


def floor(folder, scale):
    return contest.Contestant("floor", [["ffmpeg", "-nostdin", "-v", "error", "-threads", "1", "-lowres", str(scale),
                                         "-pattern_type", "glob", "-i", f"{folder}/*.jpg", "-f", "null", "-"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    given = parser.parse_args()
    for title, (width, height, times, scale) in SIZES.items():
        folder = given.build.resolve() / "bench" / f"photos-{width}x{height}"
        files = photos(folder, width, height, times)
        contestants = [opencv(files, 1), opencv(files, 2), millrace(given.build, folder, "off"),
                       millrace(given.build, folder, "auto"), floor(folder, scale)]
        contest.table(f"{len(files)} photos of {title}", contest.hold(contestants, given.rounds), len(files))


if __name__ == "__main__":
    main()
