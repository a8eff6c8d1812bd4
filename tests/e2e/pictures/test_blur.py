"""blur: hidden pixels by value, beside NumPy, Pillow and OpenCV; all other pixels stay; boxes in turned pictures; what
cannot be placed hides the whole picture; and what `require` lets out.

The networks answer with boxes that the test chose, as in objects.py. CenterFace, which tools/test makes, must find
no face in a picture whose face was hidden."""
import math
import pathlib
import subprocess
import unittest

import numpy as np
from PIL import Image, ImageFilter, ImageOps

from harness import CENTERFACE, Case, rows_in
from objects import HEAD, rows_of, save

ASTRONAUT = pathlib.Path("/usr/lib/python3/dist-packages/imageio/resources/images/astronaut.png")
OPENCV = pathlib.Path("/usr/share/doc/opencv-doc/examples/data")
WIDTH, HEIGHT = 200, 100
BLURRED = HEAD.replace("sources:", "require: blurred\nsources:")


def area_of(box, margin, width=WIDTH, height=HEIGHT):
    """The pixels of a grown box: left, top, right, bottom."""
    left, top, right, bottom = box
    grown = margin * max(right - left, bottom - top)
    return (max(math.floor(left - grown), 0), max(math.floor(top - grown), 0),
            min(math.ceil(right + grown), width), min(math.ceil(bottom + grown), height))


def touches(one, other, grown=0.3):
    """Whether a box meets what was hidden of another."""
    across, down = grown * (other["right"] - other["left"]), grown * (other["bottom"] - other["top"])
    return (one["left"] < other["right"] + across and one["right"] > other["left"] - across and
            one["top"] < other["bottom"] + down and one["bottom"] > other["top"] - down)


def pixelated(picture, area, blocks=3):
    left, top, right, bottom = area
    out, cell = picture.copy(), math.ceil(max(right - left, bottom - top) / blocks)
    for y in range(top, bottom, cell):
        for x in range(left, right, cell):
            part = np.s_[y:min(y + cell, bottom), x:min(x + cell, right)]
            mean = picture[part].reshape(-1, picture.shape[2]).mean(0)
            out[part] = np.floor(np.floor(256 * mean + 0.5) / 256 + 0.5)  # rounded to 1/256 first
    return out


class Blur(Case):
    def noise(self, name="a.png", width=WIDTH, height=HEIGHT, **options):
        """Smooth noise, so that a blur is not only gray."""
        small = np.random.default_rng(5).integers(0, 255, (height // 5, width // 5, 3), np.uint8)
        picture = Image.fromarray(small).resize((width, height), Image.BICUBIC)
        picture.save(self.folder / name, **options)
        return np.array(picture)

    def blur(self, options, boxes, code=0, detect="", more="", name="*.png", fit="stretch", **how):
        """Runs it and returns the pictures; boxes are in 64x64 pixels."""
        save(self.folder / "model.onnx", {"o": rows_of(boxes)})
        text = BLURRED.format(uri=self.folder / name) + (
            f"  preprocess: {{input: decode, fit: {fit}}}\n"
            f"  detect: {{input: preprocess, model: model.onnx, head: end2end{detect}}}\n"
            "  both: {type: join, join: {pictures: decode, objects: detect}}\n"
            f"  blur: {{input: both{options}}}\n"
            f"  images: {{input: blur, path: '{self.folder}/out', overwrite: true}}\n") + more
        run = self.run_pipeline(text, code=code, rows=False, **how)
        if code:
            return run
        self.assert_balanced(run)
        return run, [np.array(Image.open(one)) for one in sorted((self.folder / "out").glob("*.png"))]

    def test_pixels(self):
        """Only the box changes, as each way says."""
        picture = self.noise()
        box = (50, 20, 110, 80)  # in the picture
        boxes = [(16, 12.8, 35.2, 51.2, 0.9, 0)]
        area = area_of(box, 0.1)
        left, top, right, bottom = area
        for device in ("cpu", "sim:0"):
            more = ", device: 'sim:0'" if device != "cpu" else ""  # the boxes are not known yet when blur is called
            _, (got,) = self.blur(f", margin: 0.1, device: '{device}'", boxes, detect=more)
            self.assertTrue(np.array_equal(got, pixelated(picture, area)))
            _, (got,) = self.blur(f", margin: 0.1, blocks: 7, device: '{device}'", boxes, detect=more)
            self.assertTrue(np.array_equal(got, pixelated(picture, area, 7)))
            _, (got,) = self.blur(f", margin: 0.1, how: fill, device: '{device}'", boxes)
            want = picture.copy()
            want[top:bottom, left:right] = 0
            self.assertTrue(np.array_equal(got, want))
        narrow = [(16, 12.8, 20.8, 51.2, 0.9, 0)]  # it grows by its longer side
        _, (got,) = self.blur(", margin: 0.1", narrow)
        self.assertTrue(np.array_equal(got, pixelated(picture, area_of((50, 20, 65, 80), 0.1))))

    def test_gaussian(self):
        picture = self.noise()
        _, (got,) = self.blur(", how: gaussian, margin: 0.1", [(16, 12.8, 35.2, 51.2, 0.9, 0)])
        left, top, right, bottom = area_of((50, 20, 110, 80), 0.1)
        inner = np.s_[top:bottom, left:right]
        sigma = 4 * math.ceil((right - left) / 16)  # a quarter of the side, in whole cells
        reach = math.ceil(4 * sigma)
        weights = np.exp(-np.arange(-reach, reach + 1) ** 2 / (2 * sigma ** 2))
        cells = pixelated(picture[inner], (0, 0, right - left, bottom - top), 16)  # they continue the edge
        padded = np.pad(cells, ((reach, reach), (reach, reach), (0, 0)), mode="edge")
        middle = np.s_[reach:-reach, reach:-reach]
        padded[middle] = picture[inner]
        pillow = Image.fromarray(padded.astype(np.uint8)).filter(ImageFilter.GaussianBlur(sigma))
        pillow = np.array(pillow, float)[middle]
        for axis in (0, 1):
            padded = np.apply_along_axis(lambda row: np.convolve(row, weights / weights.sum(), "valid"), axis, padded)
        for want in (padded, pillow):
            apart = np.abs(got[inner] - want)
            self.assertLess(apart.mean(), 1)
            self.assertLess(apart.max(), 7)
        rest = np.ones(picture.shape, bool)
        rest[inner] = False
        self.assertTrue(np.array_equal(got[rest], picture[rest]))

    def test_ellipse_and_classes(self):
        """An ellipse goes through the corners, also of a box at the picture's edge; other classes stay; the largest of
        two areas decides."""
        picture = self.noise()
        boxes = [(16, 16, 32, 48, 0.9, 0), (48, 16, 56, 48, 0.8, 1)]
        y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
        for margin, box, reach in ((0, boxes[0], 36), (0.3, boxes[0], 57), (0, (0, 16, 16, 48, 0.9, 0), 36)):
            _, (got,) = self.blur(f", how: fill, margin: {margin}, shape: ellipse, classes: [0]", [box, boxes[1]])
            changed = (got != picture).any(2)
            self.assertTrue((got[changed] == 0).all())
            centre = (box[0] + box[2]) / 2 * WIDTH / 64
            inside = ((x - centre) / reach) ** 2 + ((y - 50) / reach) ** 2 <= 1
            left, top, right, bottom = area_of([box[0] * WIDTH / 64, 25, box[2] * WIDTH / 64, 75], margin)
            self.assertTrue(inside[top:bottom, left:right].all())
            self.assertFalse((changed & ~inside).any())
            self.assertTrue((got[inside] == 0).all())
        _, (got,) = self.blur(", how: fill, margin: 0.1, shape: ellipse", [(24, 16, 28, 48, 0.9, 0)])
        left, top, right, bottom = area_of((75, 25, 87.5, 75), 0.1)
        self.assertFalse(got[top:bottom, left:right].any())
        boxes = [(16, 16, 32, 48, 0.9, 0), (20, 20, 24, 24, 0.95, 0)]
        _, (got,) = self.blur(", margin: 0", boxes)
        self.assertTrue(np.array_equal(got, pixelated(picture, (50, 25, 100, 75))))

    def test_turned(self):
        """Boxes are in the upright picture, pixels are stored as they were: each way to turn and mirror."""
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = orientation
            stored = self.noise(exif=exif)
            upright = np.array(Image.open(self.folder / "a.png").transpose(Image.Transpose(
                {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}[orientation]))) if orientation > 1 else stored
            _, (got,) = self.blur(", how: fill, margin: 0", [(8, 16, 24, 24, 0.9, 0)])
            shown = np.array(Image.fromarray(got).transpose(Image.Transpose(
                {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}[orientation]))) if orientation > 1 else got
            height, width = upright.shape[:2]
            left, top, right, bottom = area_of((width / 8, height / 4, width * 3 / 8, height * 3 / 8), 0, width, height)
            want = upright.copy()
            want[top:bottom, left:right] = 0
            with self.subTest(orientation):
                self.assertTrue(np.array_equal(shown, want))

    def test_hidden_whole(self):
        """Numbers that are none, more objects than max, and frames in which the named stage found nothing."""
        picture = self.noise()
        for odd in ((math.nan,) * 6, (math.inf, 8, 12, 16, 0.9, 0)):  # the network has overflowed
            run, (got,) = self.blur(", how: fill", [odd])
            self.assertFalse(got.any())
            self.assertIn("1 picture was hidden whole: objects are missing", run.err)
        boxes = [(x, 8, x + 4, 16, 0.9, 0) for x in range(0, 60, 5)]
        for options, detect, reason in (
                (", max: 3, how: fill", "", "more objects to hide than max"),
                (", how: fill", ", max: 12", "as many objects as its max allows, and may have left out others"),
                (", stages: [decode], how: fill", "", "no stage had searched for objects"),
                (", stages: [decode], how: fill, shape: ellipse", "", "no stage had searched for objects"),
                (", how: fill", ", every: 2", "no stage had searched for objects")):
            if "every" in detect:
                self.noise("b.png")
            run, pictures = self.blur(options, boxes, detect=detect)
            got = pictures[-1]
            self.assertFalse(got.any())
            self.assertIn("1 picture was hidden whole", run.err)
            self.assertIn(reason, run.err)
        # The best one lies in the letterbox's bar, so fewer than max are left of those that were found.
        _, pictures = self.blur(", how: fill", [(8, 0, 20, 4, 0.95, 0), *boxes], detect=", max: 4", fit="letterbox")
        self.assertFalse(pictures[-1].any())
        (self.folder / "b.png").unlink()
        for one in (self.folder / "out").glob("*.png"):
            one.unlink()
        _, (got,) = self.blur(", classes: [7]", boxes)
        self.assertTrue(np.array_equal(got, picture))
        _, (got,) = self.blur("", [(8, 8, 12, 16, 0, 0)])
        self.assertTrue(np.array_equal(got, picture))

    def test_tiles_that_were_lost(self):
        """If no tile arrives, nobody has searched the picture, whatever track expects; if all do, only the object is
        hidden."""
        picture = self.noise()
        save(self.folder / "model.onnx", {"o": rows_of([(16, 16, 32, 48, 0.9, 0)])})
        for shown, last, whole in (("tile", "gather", False), ("kept", "gather", True), ("kept", "track", True)):
            text = BLURRED.format(uri=self.folder / "*.png") + f"""\
  tile: {{input: decode, size: 640x640}}
  kept: {{type: filter, input: tile, classes: [nobody]}}
  preprocess: {{input: {shown}, size: 64x64, fit: stretch}}
  detect: {{input: preprocess, model: model.onnx, head: end2end}}
  gather: {{join: {{frames: decode, crops: detect}}, merge: {{}}}}
  track: {{input: gather}}
  blur: {{input: {last}, how: fill}}
  images: {{input: blur, path: '{self.folder}/out', overwrite: true}}
"""
            run = self.run_pipeline(text, rows=False)
            self.assert_balanced(run)
            got = np.array(Image.open(next((self.folder / "out").glob("*.png"))))
            with self.subTest(shown, last=last):
                self.assertEqual("pictures were lost in a cascade" in run.err, whole)
                self.assertEqual(not got.any(), whole)
                self.assertTrue(whole or np.array_equal(got[:, -30:], picture[:, -30:]))

    def test_tiles_that_nobody_searched(self):
        """`every` passes the tiles of a picture: it is hidden whole, or where track expects the object."""
        for name in ("a.png", "b.png"):
            picture = self.noise(name)
        save(self.folder / "model.onnx", {"o": rows_of([(16, 16, 32, 48, 0.9, 0)])})
        for last, whole in (("gather", True), ("track", False)):
            text = BLURRED.format(uri=self.folder / "*.png") + f"""\
  tile: {{input: decode, size: 640x640}}
  preprocess: {{input: tile, size: 64x64, fit: stretch}}
  detect: {{input: preprocess, model: model.onnx, head: end2end, every: 2}}
  gather: {{join: {{frames: decode, crops: detect}}, merge: {{}}}}
  track: {{input: gather, confirm: 0s}}
  blur: {{input: {last}, how: fill}}
  images: {{input: blur, path: '{self.folder}/out', overwrite: true}}
"""
            run = self.run_pipeline(text, rows=False)
            self.assert_balanced(run)
            first, second = [np.array(Image.open(one)) for one in sorted((self.folder / "out").glob("*.png"))]
            with self.subTest(last):
                self.assertTrue(first.any())
                self.assertEqual("1 picture was hidden whole: no stage had searched" in run.err, whole)
                self.assertEqual(not second.any(), whole)
                left, top, right, bottom = area_of((50, 25, 100, 75), 0)
                self.assertFalse(second[top:bottom, left:right].any())
                self.assertTrue(whole or np.array_equal(second[:, -30:], picture[:, -30:]))

    def test_objects_that_track_drops(self):
        """A picture without the objects that are not confirmed is hidden whole."""
        self.noise()
        save(self.folder / "model.onnx", {"o": rows_of([(8, 8, 12, 16, 0.9, 0)])})
        for options, whole in (("unconfirmed: keep", False), ("unconfirmed: drop", True),
                               ("unconfirmed: drop, confirm: 0s", False)):
            text = BLURRED.format(uri=self.folder / "*.png") + f"""\
  preprocess: {{input: decode, size: 64x64, fit: stretch}}
  detect: {{input: preprocess, model: model.onnx, head: end2end}}
  track: {{input: detect, {options}}}
  both: {{type: join, join: {{pictures: decode, objects: track}}}}
  blur: {{input: both, how: fill}}
  images: {{input: blur, path: '{self.folder}/out', overwrite: true}}
"""
            run = self.run_pipeline(text, rows=False)
            got = np.array(Image.open(next((self.folder / "out").glob("*.png"))))
            with self.subTest(options):
                self.assertEqual("1 picture was hidden whole: objects are missing" in run.err, whole)
                self.assertEqual(not got.any(), whole)

    def test_chroma(self):
        """In 4:2:0 the hidden chroma covers the box, and nothing of the box shows."""
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=red:s=200x100:r=5:d=0.4,format=yuv420p",
                        "-c:v", "ffv1", self.folder / "red.mkv"], check=True)
        _, pictures = self.blur(", how: fill, margin: 0", [(16.5, 16.5, 31.5, 31.5, 0.9, 0)], name="red.mkv")
        self.assertEqual(len(pictures), 2)
        for got in pictures:
            self.assertFalse(got[26:48, 54:96].any())  # a chroma sample inside the edge, which is interpolated
            self.assertEqual(got[20, 40].tolist(), got[90, 190].tolist())
            self.assertGreater(got[20, 40, 0], 250)

    def test_required(self):
        """What comes after blur may get out, and so may results from before it."""
        self.noise()
        boxes = [(16, 16, 32, 48, 0.9, 0)]
        self.blur("", boxes, more="  rows: {type: jsonl, input: detect, path: /dev/null}\n")
        (self.folder / "labels.txt").write_text("face\nplate\n")
        run = self.blur(", classes: [fase]", boxes, code=78, verb="plan", detect=", labels: labels.txt")
        self.assertIn('stages.blur: detect has no label "fase", so it would never be hidden; did you mean '
                      '"face"?', run.err)
        run = self.blur("", boxes, code=78, verb="plan", more="  copy: {type: images, input: both, path: copy}\n")
        self.assertIn("stages.copy.input: pictures that are not blurred could get out here (require): photos -> decode "
                      "-> both -> copy", run.err)

    # The network finds faces in these of the 93 stills of opencv-doc and imageio, among them a circuit board and a
    # butterfly, and in the astronaut, which is in test_faces.
    STILLS = ("aero3.jpg", "basketball1.png", "basketball2.png", "board.jpg", "butterfly.jpg", "graf3.png",
              "left06.jpg", "leuvenB.jpg", "messi5.jpg", "right06.jpg", "sudoku.png")

    @unittest.skipUnless(CENTERFACE.exists() and OPENCV.exists(), f"no {CENTERFACE}: tools/test makes it")
    def test_stills(self):
        """Where something was hidden that the network takes for a face, it finds none again, in pictures with large,
        small and weak ones, whatever the way and the shape. The last picture is no such still, but a smaller one,
        mirrored; in it the network finds a face again in an ellipse with a Gaussian blur."""
        (self.folder / "in").mkdir()
        for name in self.STILLS:
            (self.folder / "in" / name).symlink_to(OPENCV / name)
        with Image.open(OPENCV / "board.jpg") as board:  # an ellipse with the means of whole cells was a face again
            small = board.resize((round(board.width * 0.85), round(board.height * 0.85)), Image.Resampling.LANCZOS)
            ImageOps.mirror(small).save(self.folder / "in" / "z.png")
        last = len(self.STILLS)

        def search(folder, score, more=""):
            rows = self.folder / f"{folder.name}.jsonl"
            text = HEAD.format(uri=folder) + (
                "  preprocess: {input: decode, fit: stretch, sides: {shorter: 32, least: 32x32, most: 1280x1280, "
                "multiple: 32}}\n"
                f"  detect: {{input: preprocess, model: '{CENTERFACE}', head: centerface, score: {score}, iou: 0.3}}\n"
                f"  rows: {{type: jsonl, input: detect, path: '{rows}'}}\n") + more
            self.run_pipeline(text, rows=False)
            return {row["seq"]: row["objects"] for row in rows_in(rows)}

        ways = [(how, shape) for how in ("pixelate", "gaussian", "fill") for shape in ("box", "ellipse")]
        hidden = search(self.folder / "in", 0.2, "  both: {type: join, join: {pictures: decode, objects: detect}}\n" +
                        "".join(f"  {how}-{shape}: {{type: blur, input: both, how: {how}, shape: {shape}}}\n"
                                f"  {how}-{shape}-out: {{type: images, input: {how}-{shape}, "
                                f"path: '{self.folder}/{how}-{shape}', name: '{{seq}}.png'}}\n" for how, shape in ways))
        self.assertGreater(sum(map(len, hidden.values())), 20)
        for how, shape in ways:
            again = search(self.folder / f"{how}-{shape}", 0.1)
            with self.subTest(how, shape=shape):
                self.assertEqual([(sorted((self.folder / "in").iterdir())[seq].name, one["score"])
                                  for seq, found in again.items() for one in found for was in hidden[seq]
                                  if one["score"] > 0.2 and touches(one, was, 0.4 if shape == "box" else 0.78) and
                                  (seq < last or (how, shape) != ("gaussian", "ellipse"))], [])

    @unittest.skipUnless(CENTERFACE.exists() and ASTRONAUT.exists(), f"no {CENTERFACE}: tools/test makes it")
    def test_faces(self):
        """No face is found above the threshold in pictures whose face was hidden, whatever the way."""
        (self.folder / "a.png").write_bytes(ASTRONAUT.read_bytes())

        def count(uri):
            text = HEAD.format(uri=uri) + (
                "  preprocess: {input: decode, size: 512x512, fit: stretch}\n"
                f"  detect: {{input: preprocess, model: '{CENTERFACE}', head: centerface, score: 0.2, iou: 0.3}}\n"
                "  rows: {type: jsonl, input: detect, path: '${OUTPUT:--}'}\n")
            return [len(row["objects"]) for row in self.run_pipeline(text).rows]

        self.assertEqual(count(self.folder / "a.png"), [1])
        for options in ("", ", how: gaussian", ", how: fill", ", shape: ellipse, blocks: 6",
                        ", how: gaussian, shape: ellipse", ", shape: ellipse"):
            text = HEAD.format(uri=self.folder / "a.png") + (
                "  preprocess: {input: decode, size: 512x512, fit: stretch}\n"
                f"  detect: {{input: preprocess, model: '{CENTERFACE}', head: centerface, score: 0.2, iou: 0.3}}\n"
                "  both: {type: join, join: {pictures: decode, objects: detect}}\n"
                f"  blur: {{input: both{options}}}\n"
                f"  images: {{input: blur, path: '{self.folder}/out', overwrite: true}}\n")
            self.run_pipeline(text, rows=False)
            with self.subTest(options):
                self.assertEqual(count(f"{self.folder}/out/*.png"), [0])
