"""JPEG decoded at reduced size: what preprocess makes of it, compared with ffmpeg's -lowres and arithmetic in double
precision; and how far that is from whole pictures."""
import functools
import subprocess

import cv2
import numpy as np
from PIL import Image

import clips
import harness
from harness import pipeline
import reference


def shrunk(uri, reduced, decode, size, options, more):
    return pipeline(dict(photos=f'uri: "{uri}"'), decode=f"reduced: {reduced}{decode}",
                    preprocess=f"size: {size}x{size}{options}", results='type: jsonl, features: true, path: "-"') + more


CROP = ", fit: center-crop, crop_fraction: 0.875"
WIDTH, HEIGHT = 1003, 757  # 0.875 of the shorter side is 662: 1/8 down to 41 pixels, 1/4 down to 82
SIZES = {41: 3, 42: 2, 82: 2, 83: 0}  # result size: log2 of the scale
# The tolerance of tests/kernels: a sample is within 1/32 code, and the steepest matrix adds luma and chroma.
TOLERANCE = (1.17 + 2.15) / 32
# README's bounds, out of 255, for opencv-doc's stills.
MEAN, MOST = 4, 32


@functools.cache
def photo():
    """A picture with edges and some noise, like a camera's."""
    picture = cv2.imread(str(harness.PICTURES / "fruits.jpg"))
    picture = cv2.resize(picture, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC).astype(float)
    picture += np.random.default_rng(7).normal(0, 6, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def write_opencv(sampling):
    return lambda path: cv2.imwrite(str(path), photo(), [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling])


def write_pillow(mode="RGB", **options):
    return lambda path: Image.fromarray(photo()[..., ::-1]).convert(mode).save(path, quality=90, **options)


# Each can be reduced, in as many planes as ffmpeg gives.
KINDS = {
    "4:2:0": write_opencv(cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420),
    "4:2:2": write_opencv(cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422),
    "4:4:0": write_opencv(cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440),
    "4:4:4": write_opencv(cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444),
    "gray": write_pillow("L"),
    "progressive": write_pillow(progressive=True),
    "restarts": write_pillow(restart_marker_blocks=5),
    "a code of its own": write_pillow(optimize=True),
    "quality 100": lambda path: Image.fromarray(photo()[..., ::-1]).save(path, quality=100, subsampling=0),
    "EXIF with a thumbnail": write_pillow(exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"
                                               b"\xff\xd8\xff\xc3\0\x0b\x08\xff\xd9"),
}


@functools.cache
def planes(path, scale):
    """ffmpeg's decoded planes, as floats."""
    layout = clips.stream(path)["pix_fmt"]
    raw = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-noautorotate", "-lowres", str(scale), "-i", path, "-f",
                          "rawvideo", "-pix_fmt", layout, "pipe:1"], capture_output=True).stdout
    rows, columns = -(-HEIGHT // (1 << scale)), -(-WIDTH // (1 << scale))
    half_x, half_y = ("420" in layout or "422" in layout), ("420" in layout or "440" in layout)
    of_chroma = (-(-rows // (1 + half_y)), -(-columns // (1 + half_x)))
    shapes = [(rows, columns)] + [of_chroma] * (0 if "gray" in layout else 2)
    taken, at = [], 0
    for shape in shapes:
        taken.append(np.frombuffer(raw, np.uint8, shape[0] * shape[1], at).reshape(shape).astype(float))
        at += shape[0] * shape[1]
    assert at == len(raw), (layout, at, len(raw))
    return taken


def expected(path, scale, size, fraction=0.875):
    """The whole picture's middle, from planes decoded at reduced size."""
    side, picture, out = fraction * min(WIDTH, HEIGHT), planes(path, scale), []
    steps = (np.arange(size) + 0.5) * side / size
    for plane in picture:
        # Whole-picture pixels per sample, on each axis.
        wide, high = ((1 << scale) * (1 + (mine < luma))
                      for mine, luma in zip(plane.shape[::-1], picture[0].shape[::-1]))
        across = reference.weights(plane.shape[1], ((WIDTH - side) / 2 + steps) / wide, side / size / wide)
        down = reference.weights(plane.shape[0], ((HEIGHT - side) / 2 + steps) / high, side / size / high)
        out.append(down @ plane @ across.T)
    return reference.to_rgb(*(out if len(out) == 3 else (*out, *[np.full_like(out[0], 128)] * 2)),
                            reference.MATRICES["smpte170m"], full=True)


class Reduced(harness.Case):
    def tensors(self, uri, size, reduced="auto", options=CROP, decode="", more="", code=0):
        run = self.run_pipeline(shrunk(uri=uri, size=size, reduced=reduced, options=options, decode=decode,
                                       more=more.format(folder=self.folder)), code=code)
        self.assert_balanced(run)
        return [np.array(row["features"]).reshape(3, size, size) for row in run.rows]

    def plan(self, uri, size=41, options=CROP, decode="", more=""):
        told = self.planned(shrunk(uri=uri, size=size, reduced="auto", options=options, decode=decode,
                                   more=more.format(folder=self.folder)))
        return next(stage for stage in told["stages"] if stage["id"] == "decode")

    def file(self, name, write):
        path = self.folder / name
        write(path)
        return path

    def same(self, path, size, **options):
        """Whether `reduced: auto` gives exactly what whole pictures do."""
        auto, off = (self.tensors(path, size, reduced, **options) for reduced in ("auto", "off"))
        self.assertEqual(len(auto), len(off))
        return all((one == other).all() for one, other in zip(auto, off))

    def test_kinds(self):
        for index, write in enumerate(KINDS.values()):
            self.file(f"{index}.jpg", write)
        for size, scale in SIZES.items():
            tensors = self.tensors(f"{self.folder}/*.jpg", size)
            self.assertEqual(len(tensors), len(KINDS))
            for index, (kind, seen) in enumerate(zip(KINDS, tensors)):
                with self.subTest(kind, size=size):
                    path = self.folder / f"{index}.jpg"
                    np.testing.assert_allclose(seen, expected(path, scale, size), atol=TOLERANCE)
                    # Another scale gives something else.
                    self.assertGreater(np.abs(seen - expected(path, 3 if scale == 2 else 2, size)).max(), 0.5)

    def test_kinds_that_stay_whole(self):
        """CMYK; a subsampling that libavcodec cannot decode reduced; another codec."""
        kinds = {"cmyk.jpg": write_pillow("CMYK"), "picture.png": lambda path: cv2.imwrite(str(path), photo())}
        for name, write in kinds.items():
            with self.subTest(name):
                self.assertTrue(self.same(self.file(name, write), 24))

    def test_4_1_1(self):
        """The chroma is converted: the picture is reduced like the others, and about the same."""
        path = self.file("411.jpg", write_opencv(cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411))
        auto, off = (self.tensors(path, 41, reduced)[0] for reduced in ("auto", "off"))
        self.assertTrue((auto != off).any())
        self.assertLess(np.abs(auto - off).mean(), MEAN)

    def test_turned_pictures(self):
        """The picture is turned as the file says, whole or not; a roi is measured in the displayed picture."""
        exif = Image.Exif()
        exif[0x0112] = 6  # the first row is the right side
        path = self.file("turned.jpg", write_pillow(exif=exif))
        plain = self.file("plain.jpg", write_pillow())
        seen, = self.tensors(path, 41)
        np.testing.assert_allclose(seen, np.rot90(expected(plain, 3, 41), -1, (1, 2)), atol=TOLERANCE)
        roi = ", roi: {{x: 7, y: 300, width: 700, height: 703}}, interpolation: area"
        auto, off = (self.tensors(path, 24, reduced, roi.replace("{{", "{").replace("}}", "}"))[0]
                     for reduced in ("auto", "off"))
        self.assertTrue((auto != off).any())
        self.assertLess(np.abs(auto - off).mean(), MEAN)

    def test_a_folder_of_sizes(self):
        """Each picture is reduced by size, also if sizes alternate."""
        scales = [3, 0, 2, 3, 2, 0]
        for index, scale in enumerate(scales):
            side = {0: 150, 2: 400, 3: 900}[scale]
            picture = cv2.resize(photo(), (side + index, side))
            cv2.imwrite(str(self.folder / f"{index}.jpg"), picture)
        auto, off = (self.tensors(f"{self.folder}/*.jpg", 32, reduced) for reduced in ("auto", "off"))
        self.assertEqual([bool((one != other).any()) for one, other in zip(auto, off)], [scale > 0 for scale in scales])
        for one, other in zip(auto, off):
            self.assertLess(np.abs(one - other).mean(), MEAN)

    def test_bounds(self):
        """The difference to whole pictures that the document states, for plain stills: 1/8 and 1/4 of at least 480
        lines, with as little left to shrink as possible."""
        for path in sorted(harness.PICTURES.glob("*.jpg")):
            if min(cv2.imread(str(path)).shape[:2]) >= 480:
                (self.folder / path.name).symlink_to(path)
        for size in (26, 52):
            for interpolation in ("bilinear", "bicubic"):
                options = f"{CROP}, interpolation: {interpolation}"
                auto, off = (self.tensors(f"{self.folder}/*.jpg", size, reduced, options)
                             for reduced in ("auto", "off"))
                self.assertGreater(len(off), 30)
                difference = np.array([np.abs(one - other) for one, other in zip(auto, off)])
                self.assertTrue(difference.any(axis=(1, 2, 3)).all())
                self.assertLess(difference.mean(axis=(1, 2, 3)).max(), MEAN)
                self.assertLess(difference.max(), MOST)

    def test_what_depends_on_single_pixels(self):
        path = self.file("photo.jpg", write_pillow())
        for options in (", interpolation: nearest", ", antialias: false", ", interpolation: bicubic, antialias: false"):
            with self.subTest(options):
                self.assertTrue(self.same(path, 24, options=CROP + options))

    def test_another_reader(self):
        """A stage that needs whole pictures, one that shrinks less, and another process."""
        path = self.file("photo.jpg", write_pillow())
        for reader in ("seen: {{input: decode, type: 'null'}}",
                       "look: {{input: decode, type: phash}}\n  out: {{input: look, type: 'null'}}"):
            with self.subTest(reader):
                self.assertTrue(self.same(path, 24, more="  " + reader))
                self.assertIn(f"since {reader.split(':')[0]} takes them whole",
                              self.plan(path, more="  " + reader)["note"])
        larger = "  larger: {{input: decode, type: preprocess, size: 640x480}}\n  out: {{input: larger, type: 'null'}}"
        self.assertTrue(self.same(path, 24, more=larger))
        self.assertIn("at 1/8 or 1/4", self.plan(path, more=larger)["note"])
        nodes = "nodes:\n  camera: {{stages: [decode]}}\n  center: {{stages: [preprocess, results]}}"
        self.assertIn("since preprocess takes them whole", self.plan(path, more=nodes)["note"])

    def test_the_plan_tells(self):
        path = self.file("photo.jpg", write_pillow())
        self.assertIn("decodes JPEG at 1/8 or 1/4 of its size", self.plan(path)["note"])
        png = self.file("photo.png", lambda to: cv2.imwrite(str(to), photo()))
        self.assertIn("these are png", self.plan(png)["note"])
        self.assertIn("for device: cpu", self.plan(path, decode=", device: sim:0")["note"])
        self.assertTrue(self.same(path, 24, decode=", device: sim:0"))

    def test_devices_behind(self):
        """The device gets the small picture, and the result is the same."""
        path = self.file("photo.jpg", write_pillow())
        here, there = (self.tensors(path, 41, options=CROP + device)[0] for device in ("", ", device: sim:0"))
        self.assertTrue((here == there).all())

    def test_damage(self):
        """A file that ends early is corrupt, or kept with the missing part gray, like whole pictures."""
        whole = self.file("photo.jpg", write_pillow())
        path = self.file("cut.jpg", lambda to: to.write_bytes(whole.read_bytes()[:whole.stat().st_size // 2]))
        self.assertEqual(self.tensors(path, 41, code=65), [])
        kept, = self.tensors(path, 41, decode=", damaged: keep")
        np.testing.assert_allclose(kept, expected(path, 3, 41), atol=TOLERANCE)

    def test_wide_pixels(self):
        """Pixels twice as high as wide: a displayed square has half as many rows."""
        path = self.file("wide.jpg", write_pillow(dpi=(100, 200)))
        self.assertEqual(clips.stream(path)["sample_aspect_ratio"], "1:2")
        self.assertFalse(self.same(path, 31))
        self.assertTrue(self.same(path, 62))  # it would be 1/4 if pixels were square
        self.assertFalse(self.same(path, 62, options=CROP + ", sar: false"))

    def test_videos(self):
        """Motion JPEG: every frame."""
        path = self.folder / "motion.avi"
        clips.ffmpeg("-f", "lavfi", "-i", "testsrc2=size=640x480:rate=25", "-frames:v", "9", "-c:v", "mjpeg", "-q:v",
                     "3", path)
        auto, off = (self.tensors(path, 24, reduced) for reduced in ("auto", "off"))
        self.assertEqual((len(auto), len(off)), (9, 9))
        self.assertTrue(all((one != other).any() for one, other in zip(auto, off)))
