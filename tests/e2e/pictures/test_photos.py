"""Photographs as people have them: turned by tags, with many endings, beside videos and other files, in HEIC; and as
`images` writes them. References: Pillow, and heif-enc's source."""
import contextlib
import io
import json
import os
import shutil
import struct
import subprocess
import zlib

import cv2
import numpy as np
from PIL import Image, ImageOps, PngImagePlugin

import clips
import harness
from harness import MILLRACE, call, pipeline, start


def exported(uri, path, name, options="", decode=""):
    return pipeline(dict(photos=f'uri: "{uri}"'), name="photos", decode=decode,
                    out=f'type: images, path: "{path}", name: "{name}"{options}')


def as_rows(uri):
    return pipeline(dict(photos=f'uri: "{uri}"'), name="photos", decode="",
                    tensors="type: preprocess, size: 24x24, interpolation: area",
                    results='type: jsonl, features: true, path: "-"')


WIDTH, HEIGHT = 64, 48


def drawing(width=WIDTH, height=HEIGHT):
    """No two of its eight orientations look alike."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width)
    pixels[..., 1] = np.linspace(0, 255, height)[:, None]
    pixels[:height // 3, :width // 6] = 255
    return Image.fromarray(pixels)


def difference(one, other):
    """The mean and the largest."""
    one, other = (np.asarray(each.convert("RGB"), np.int16) for each in (one, other))
    assert one.shape == other.shape, (one.shape, other.shape)
    error = np.abs(one - other)
    return error.mean(), error.max()


def save(path, orientation, picture=None, **options):
    exif = Image.Exif()
    exif[274] = orientation
    (picture or drawing()).save(path, exif=exif, **options)


class Photos(harness.Case):
    def images(self, uri, name="{seq}.png", options="", code=0, decode=""):
        folder = self.folder / f"out-{len(list(self.folder.iterdir()))}"
        text = exported(uri=uri, path=folder, name=name, options=options, decode=decode)
        run = self.run_pipeline(text, rows=False, code=code)
        if code == 0:
            self.assert_balanced(run)
        return sorted(folder.iterdir()) if folder.exists() else [], run

    def rows(self, uri, *arguments, code=0):
        run = self.run_pipeline(as_rows(uri=uri), *arguments, code=code)
        if code == 0:
            self.assert_balanced(run)
        return run


class Upright(Photos):
    FORMATS = {"jpg": {"quality": 95}, "png": {}, "webp": {"lossless": True}, "tif": {}, "avif": {"quality": 95}}

    def test_each_orientation_of_each_format(self):
        (self.folder / "in").mkdir()
        files = []
        for ending, options in self.FORMATS.items():
            for orientation in range(1, 9):
                files.append(self.folder / f"in/{len(files):02}.{ending}")
                save(files[-1], orientation, **options)
        written, _ = self.images(self.folder / "in", options=", rotate: true")
        self.assertEqual(len(written), len(files))
        for file, seen in zip(files, written):
            with self.subTest(file=file.name), Image.open(file) as stored, Image.open(seen) as upright:
                mean, _ = difference(upright, ImageOps.exif_transpose(stored))
                self.assertLess(mean, 2 if file.suffix in (".jpg", ".avif") else 0.01)

    def test_orientations_in_texts_of_png(self):
        """ImageMagick writes EXIF as digits, other programs write XMP. Pillow reads both."""
        (self.folder / "in").mkdir()
        exif = Image.Exif()
        exif[274] = 6
        digits = f"\nexif\n{len(exif.tobytes()):8}\n{exif.tobytes().hex()}\n"
        for name, add in (("digits", lambda to: to.add_text("Raw profile type exif", digits, zip=True)),
                          ("xmp", lambda to: to.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="8"/>'))):
            texts = PngImagePlugin.PngInfo()
            add(texts)
            drawing().save(self.folder / f"in/{name}.png", pnginfo=texts)
        written, _ = self.images(self.folder / "in", options=", rotate: true")
        for file, seen in zip(sorted((self.folder / "in").iterdir()), written, strict=True):
            with self.subTest(file=file.name), Image.open(file) as stored, Image.open(seen) as upright:
                self.assertNotEqual(ImageOps.exif_transpose(stored).size, stored.size)
                self.assertEqual(difference(upright, ImageOps.exif_transpose(stored))[0], 0)

    def test_preprocess_turns_them(self):
        """Stored so that all are displayed alike."""
        (self.folder / "in").mkdir()
        back = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # Pillow's transpositions, which undo the tag
        for orientation, method in back.items():
            stored = drawing() if method is None else drawing().transpose(Image.Transpose(method))
            for ending, options in (("png", {}), ("tif", {}), ("webp", {"lossless": True})):
                save(self.folder / f"in/{orientation}.{ending}", orientation, stored, **options)
        features = np.array([row["features"] for row in self.rows(self.folder / "in").rows])
        self.assertEqual(len(features), 24)
        self.assertLess(np.abs(features - features[0]).max(), 1)

    def test_other_tags_are_as_none(self):
        (self.folder / "in").mkdir()
        for value in (0, 9, 255):
            save(self.folder / f"in/{value}.png", value)
        written, _ = self.images(self.folder / "in", options=", rotate: true")
        for seen in written:
            with Image.open(seen) as upright:
                self.assertEqual(difference(upright, drawing()), (0, 0))


def gray_png(path, picture, depth, transparent):
    """A PNG with few bits of gray, which Pillow does not write. Pixels with one value are transparent."""
    rows = np.asarray(picture) >> (8 - depth)
    bits = np.unpackbits(rows[..., None], axis=2)[..., -depth:].reshape(len(rows), -1)
    data = b"".join(b"\0" + np.packbits(row).tobytes() for row in bits)
    header = struct.pack(">IIBBBBB", *picture.size, depth, 0, 0, 0, 0)
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n")
        for name, body in ((b"IHDR", header), (b"tRNS", struct.pack(">H", transparent)),
                           (b"IDAT", zlib.compress(data)), (b"IEND", b"")):
            out.write(struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)))


class Transparent(Photos):
    """Reference: Pillow's alpha_composite over white or black."""

    @staticmethod
    def clear(picture):
        """More and more transparent to the right; colour and gray keep what stands behind transparent pixels."""
        picture.putalpha(Image.linear_gradient("L").rotate(90).resize(picture.size))
        return picture

    def save_all(self):
        """Each file's largest and mean difference from the reference."""
        folder = self.folder / "in"
        folder.mkdir()
        colour, gray = self.clear(drawing()), self.clear(drawing().convert("L"))
        odd = self.clear(drawing(63, 47))
        colour.save(folder / "0.png")
        gray.save(folder / "1.png")
        gray.convert("RGBA").quantize(16).save(folder / "2.png")
        hidden = drawing()
        hidden.putpixel((3, 3), (1, 2, 3))
        hidden.save(folder / "3.png", transparency=(255, 255, 255))
        wide = np.asarray(colour, np.uint16)[..., [2, 1, 0, 3]] * 257
        cv2.imwrite(str(folder / "4.png"), wide)
        colour.save(folder / "5.webp", lossless=True, exact=True)
        odd.save(folder / "6.webp", quality=100)
        colour.save(folder / "7.tif")
        drawing().save(folder / "8.png")
        bits = drawing().convert("L").point(lambda value: value > 100 and 255)
        bits.convert("1").save(folder / "9.png", transparency=0)
        bits.convert("1").save(folder / "a.png", transparency=1)
        for name, depth in (("b", 2), ("c", 4)):
            gray_png(folder / f"{name}.png", drawing().convert("L"), depth, 1)
        return [(1, 0.6)] * 6 + [(40, 3)] + [(1, 0.6)] * 6

    def over(self, file, colour):
        """The picture over a colour."""
        picture = (file if isinstance(file, Image.Image) else Image.open(file)).convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, colour), picture)

    def test_backgrounds(self):
        bounds = self.save_all()
        files = sorted((self.folder / "in").iterdir())
        for background in ("white", "black"):
            written, _ = self.images(self.folder / "in", decode=f"background: {background}")
            for file, seen, (most, mean) in zip(files, written, bounds, strict=True):
                with self.subTest(file=file.name, background=background), Image.open(seen) as got:
                    errors = difference(got, self.over(file, background))
                    self.assertLessEqual(errors[0], mean)
                    self.assertLessEqual(errors[1], most)
                    self.assertEqual(got.convert("RGBA").getextrema()[3], (255, 255))

    def test_heif(self):
        """libheif has AVIF's alpha, and HEIC's. Without an option, pictures are as Pillow's convert("RGB") has them."""
        (self.folder / "in").mkdir()
        for name, picture in (("dark", drawing().point(lambda value: value // 2)),
                              ("light", drawing(63, 47).point(lambda value: 127 + value // 2))):
            self.clear(picture).save(self.folder / f"in/{name}.avif", quality=95, subsampling="4:4:4")
            picture.save(self.folder / "source.png")
            if shutil.which("heif-enc"):
                subprocess.run(["heif-enc", "-q", "95", "-p", "chroma=444", "-o", self.folder / f"in/{name}.heic",
                                self.folder / "source.png"], check=True, capture_output=True)
        files = sorted((self.folder / "in").iterdir())
        for background in ("none", "white", "black", "contrast"):
            written, _ = self.images(self.folder / "in", decode=f"background: {background}")
            for file, seen in zip(files, written, strict=True):
                whole = Image.open(file if file.suffix == ".avif" else file.with_suffix(".avif"))
                colour = background
                if background == "contrast":
                    colour = {"dark": "white", "light": "black"}[file.stem]
                want = whole.convert("RGB") if background == "none" else self.over(whole, colour)
                with self.subTest(file=file.name, background=background), Image.open(seen) as got:
                    self.assertLessEqual(difference(got, want)[0], 2.5)
        if not shutil.which("heif-enc"):
            self.skipTest("heif-enc (libheif-examples) is not there: AVIF alone was compared")

    def test_without_one_stored_colours_are_seen(self):
        """As OpenCV and Pillow see them."""
        self.save_all()
        for row, file in zip(self.rows(self.folder / "in").rows, sorted((self.folder / "in").iterdir())):
            if file.name not in ("0.png", "1.png"):
                continue
            seen = np.array(row["features"]).reshape(3, 24, 24)
            pictures = [np.asarray(Image.open(file).convert("RGB")), cv2.imread(str(file))[..., ::-1]]
            for picture in pictures:
                small = cv2.resize(picture, (24, 24), interpolation=cv2.INTER_AREA).transpose(2, 0, 1)
                self.assertLess(np.abs(seen - small).max(), 1.1)

    def test_contrast(self):
        """White behind black letters, black behind white ones; half transparent ones count half."""
        (self.folder / "in").mkdir()
        letters, light = [], []
        for at, (mode, ink, behind) in enumerate((("RGBA", 0, 255), ("RGBA", 255, 0), ("LA", 30, 255), ("LA", 200, 0),
                                                  ("P", 0, 255), ("P", 255, 0))):
            picture = Image.new("RGBA", (40, 30), (0, 0, 0, 0) if ink < 128 else (90, 90, 90, 0))
            picture.paste((ink, ink, ink, 255), (10, 10, 20, 20))
            picture = picture.quantize(8) if mode == "P" else picture.convert(mode)
            picture.save(self.folder / f"in/{at}.png")
            letters.append(ink)
            light.append(behind)
        written, _ = self.images(self.folder / "in", decode="background: contrast")
        for seen, ink, behind in zip(written, letters, light, strict=True):
            with Image.open(seen) as got:
                got = np.asarray(got.convert("L"), np.int16)
            self.assertLessEqual(abs(got[15, 15] - ink), 1)
            self.assertEqual(got[0, 0], behind)

    def test_refused(self):
        drawing().save(self.folder / "a.png")
        _, run = self.images(self.folder / "a.png", decode="background: red", code=78)
        self.assertIn("red", run.err)
        self.assertIn("contrast", run.err)


class Written(Photos):
    def setUp(self):
        super().setUp()
        save(self.folder / "turned.png", 6)

    def one(self, name, options=""):
        written, _ = self.images(self.folder / "turned.png", name, options)
        self.assertEqual([path.name for path in written], [name.replace("{seq}", "000000")])
        return written[0]

    def test_the_ending_chooses_the_kind(self):
        for name, kind in (("{seq}.jpg", "JPEG"), ("{seq}.JPEG", "JPEG"), ("{seq}.webp", "WEBP"), ("{seq}.png", "PNG")):
            with self.subTest(name), Image.open(self.one(name)) as seen:
                self.assertEqual((seen.format, seen.mode, seen.size), (kind, "RGB", (WIDTH, HEIGHT)))
                self.assertLess(difference(seen, drawing())[0], 3)

    def test_quality(self):
        noise = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
        Image.fromarray(noise).save(self.folder / "turned.png")
        for ending in ("jpg", "webp"):
            small, large = (self.one(f"{{seq}}.{ending}", f", quality: {quality}") for quality in (10, 95))
            self.assertLess(small.stat().st_size * 2, large.stat().st_size)

    def test_jpeg_tells_its_orientation_or_is_turned(self):
        upright = drawing().transpose(Image.Transpose.ROTATE_270)
        for options, tag in (("", 6), (", rotate: true", None)):
            with Image.open(self.one("{seq}.jpg", options)) as seen:
                self.assertEqual(seen.getexif().get(274), tag)
                self.assertLess(difference(ImageOps.exif_transpose(seen), upright)[0], 3)
        for name in ("{seq}.webp", "{seq}.png"):
            with Image.open(self.one(name, ", rotate: true")) as seen:
                self.assertEqual(seen.size, (HEIGHT, WIDTH))
                self.assertLess(difference(seen, upright)[0], 3)

    def test_odd_sizes_are_turned_exactly(self):
        for orientation in range(2, 9):
            file = self.folder / f"odd-{orientation}.png"
            save(file, orientation, drawing(63, 47))
            (seen,), _ = self.images(file, "{seq}.jpg", ", rotate: true, quality: 100")
            with Image.open(seen) as turned, Image.open(file) as stored:
                self.assertLess(difference(turned, ImageOps.exif_transpose(stored))[0], 2)

    def test_alpha_stays_in_webp(self):
        picture = drawing()
        picture.putalpha(Image.linear_gradient("L").resize(picture.size))
        picture.save(self.folder / "alpha.png")
        (seen,), _ = self.images(self.folder / "alpha.png", "{seq}.webp")
        with Image.open(seen) as written:
            self.assertEqual(written.mode, "RGBA")
            error = np.abs(np.asarray(written, np.int16)[..., 3] - np.asarray(picture, np.int16)[..., 3])
            self.assertEqual(error.max(), 0)

    def test_refused(self):
        for name, options, said in (("{seq}.gif", "", "name must end in .png, .jpg, .jpeg or .webp"),
                                    ("{seq}", "", "name must end in"),
                                    ("{seq}.jpg", ", compression: 3", "set quality"),
                                    ("{seq}.png", ", quality: 80", "set compression")):
            with self.subTest(name=name, options=options):
                _, run = self.images(self.folder / "turned.png", name, options, code=78)
                self.assertIn(said, run.err)

    def test_a_file_of_that_name_ends_the_run(self):
        """A file that appears during the run stays unchanged."""
        out = self.folder / "out"
        text = exported(uri="lavfi:testsrc=size=64x48:rate=20\", realtime: \"true", path=out, name="{seq}.jpg")
        run = start([MILLRACE, "run", self.write(text)], stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        self.wait_until((out / "000000.jpg").exists, running=run)
        number, mine = 0, None
        while not mine:  # the run may be that far already
            number += 40
            with contextlib.suppress(FileExistsError), open(out / f"{number:06}.jpg", "x") as mine:
                mine.write("mine")
        self.assertEqual(run.wait(timeout=harness.TIMEOUT), 74)
        self.assertIn(f"{number:06}.jpg: File exists", run.stderr.read())
        run.stderr.close()
        self.assertEqual((out / f"{number:06}.jpg").read_text(), "mine")
        self.assertEqual([path.name for path in out.glob("*.part")], [])
        for path in sorted(out.iterdir())[:number]:
            with Image.open(path) as seen:
                seen.load()

    def test_parts_of_earlier_runs_are_replaced(self):
        (self.folder / "out").mkdir()
        text = exported(uri=self.folder / "turned.png", path=self.folder / "out", name="{seq}.jpg",
                        options=", overwrite: true")
        (self.folder / "out/000000.jpg").write_text("mine")
        (self.folder / "out/000000.jpg.part").write_text("left behind")
        self.run_pipeline(text, rows=False)
        self.assertEqual([path.name for path in (self.folder / "out").iterdir()], ["000000.jpg"])
        with Image.open(self.folder / "out/000000.jpg") as seen:
            self.assertEqual(seen.format, "JPEG")


class Avif(Photos):
    def test_layouts_and_animations(self):
        gray = drawing().convert("L")
        drawing().save(self.folder / "animated.avif", save_all=True, append_images=[drawing().rotate(180)])
        for name, picture, options in (("444.avif", drawing(), {"subsampling": "4:4:4"}), ("animated.avif", None, {}),
                                       ("422.avif", drawing(), {"subsampling": "4:2:2"}),
                                       ("gray.avif", gray, {"subsampling": "4:0:0"})):
            with self.subTest(name):
                if picture:
                    picture.save(self.folder / name, quality=95, **options)
                written, _ = self.images(f"{self.folder}/{name[:-1]}[f]")
                with Image.open(written[0]) as seen:
                    self.assertLess(difference(seen, picture or drawing())[0], 4)


class Folders(Photos):
    def setUp(self):
        super().setUp()
        self.photos = self.folder / "photos"
        (self.photos / "sub/deep").mkdir(parents=True)

    def names(self, uri):
        run = self.rows(uri)
        return [row["file"].rsplit("/", 1)[1] for row in run.rows], run

    def test_endings(self):
        jpeg = io.BytesIO()
        drawing().save(jpeg, "JPEG")
        endings = ["jfif", "jif", "jfi", "jpe", "pjpeg", "pjp", "JPG"]
        for ending in endings:
            (self.photos / f"a.{ending}").write_bytes(jpeg.getvalue())
        for ending in ("avif", "dib", "apng", "mpo", "j2k", "jpx", "icb", "xbm"):
            kind = {"dib": "BMP", "apng": "PNG", "icb": "TGA", "jpx": "JPEG2000"}.get(ending)
            picture = drawing().convert("1") if ending == "xbm" else drawing()
            picture.save(self.photos / f"a.{ending}", kind)
            endings.append(ending)
        names, run = self.names(self.photos)
        self.assertEqual(names, sorted(f"a.{ending}" for ending in endings))
        self.assertIn("leaves out 1 folder", run.err)

    def fill(self):
        for name in ("a.JPG", "sub/s.jpg", "sub/deep/d.jpg"):
            drawing().save(self.photos / name)
        (self.photos / "b.txt").write_text("text")
        (self.photos / "c.CR2").write_text("raw")
        (self.photos / ".hidden.txt").write_text("hidden")
        (self.photos / "__MACOSX").mkdir()
        shutil.copy(clips.one_frame(), self.photos / "v.MOV")

    def test_what_is_left_out_is_said(self):
        self.fill()
        said = "reads 1 picture and leaves out 1 video, 2 files of other kinds (.cr2 .txt) and 1 folder"
        text = as_rows(uri=self.photos)
        names, run = self.names(self.photos)
        self.assertEqual(names, ["a.JPG"])
        self.assertIn(f"photos: {self.photos}: {said}", run.err)
        self.assertEqual(run.summary["sources"][0]["note"], said)
        shown = call([MILLRACE, "plan", self.write(text)])
        self.assertIn(f"photos {said}", " ".join(shown.stdout.split()))
        self.assertIn(said, [source["note"] for source in self.planned(text)["sources"]])
        (self.photos / "broken.jpg").write_text("text" * 100)
        printed = call([MILLRACE, "run", self.write(text), "--fail-on-loss"])
        self.assertIn(said.replace("1 picture", "2 pictures"), " ".join(printed.stderr.partition("ledger")[2].split()))

    def test_kinds_of_tiff(self):
        """TIFFs that libavcodec would decode to black are named; those that it reads equal Pillow's."""
        for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
            drawing().save(self.photos / f"{compression}.tif", compression=compression)
        drawing().convert("YCbCr").save(self.photos / "ycbcr.tif")
        drawing().convert("CMYK").save(self.photos / "cmyk.tif")
        drawing().save(self.photos / "x.jpeg.tif", compression="jpeg")
        drawing().save(self.photos / "x.big.tif", big_tiff=True)
        read = sorted(path for path in self.photos.glob("*.tif") if not path.name.startswith("x."))
        files, run = self.images(self.photos)
        self.assertEqual(len(files), len(read))
        for file, source in zip(files, read):
            self.assertLess(difference(Image.open(file), Image.open(source))[0], 1.5, source)
        self.assertIn("2 dropped by decode (not a picture that is read)", run.err)
        for name, kind in (("x.jpeg.tif", "TIFF with JPEG compression"), ("x.big.tif", "BigTIFF")):
            self.assertIn(f"{name} is a {kind}, which is not supported: make a PNG of it",
                          self.images(self.photos / name, code=65)[1].err)

    def test_a_jpeg_whose_height_follows_its_scan(self):
        """TIFFs as scanners write them. libavcodec cannot read them, with any max_pixels."""
        jpeg = io.BytesIO()
        drawing().save(jpeg, "JPEG")
        data = bytearray(jpeg.getvalue())
        at = data.index(b"\xff\xc0")
        data[at + 5:at + 7] = bytes(2)
        (self.photos / "a.jpg").write_bytes(data)
        drawing().save(self.photos / "b.jpg")
        names, run = self.names(self.photos)
        self.assertEqual(names, ["b.jpg"])
        self.assertIn("a.jpg is damaged", run.err)
        self.assertNotIn("max_pixels", run.err)

    def test_what_is_no_file_is_left_out(self):
        drawing().save(self.photos / "a.png")
        os.mkfifo(self.photos / "b.png")
        (self.photos / "c.png").mkdir()
        for uri in (self.photos, f"{self.photos}/*.png"):
            names, run = self.names(uri)
            self.assertEqual(names, ["a.png"])
            self.assertRegex(run.err, "leaves out 1 pipe, socket or device and [12] folders?\n")

    def test_nested_folders_match_two_stars(self):
        self.fill()
        everything, run = self.names(f"{self.photos}/**/*.jpg")
        self.assertEqual(everything, ["d.jpg", "s.jpg"])
        self.assertNotIn("leaves out", run.err)
        self.assertEqual(self.names(f"{self.photos}/**/*.JPG")[0], ["a.JPG"])
        self.assertEqual(self.names(f"{self.photos}/**/deep/*")[0], ["d.jpg"])
        (self.photos / "b.txt").unlink(), (self.photos / "c.CR2").unlink()
        names, run = self.names(f"{self.photos}/**")
        self.assertEqual(sorted(names), ["a.JPG", "d.jpg", "s.jpg"])
        self.assertIn("leaves out 1 video", run.err)
        folder = os.open(self.photos, os.O_RDONLY)
        for _ in range(20):  # deeper than the longest path
            os.mkdir("d" * 240, dir_fd=folder)
            inner = os.open("d" * 240, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
        os.close(folder)
        names, run = self.names(f"{self.photos}/**/*.jpg")
        self.assertEqual(names, ["d.jpg", "s.jpg"])
        self.assertIn("leaves out 1 folder", run.err)

    def test_files_are_named_without_detours(self):
        """Relative to the pipeline, if ".." leads where it seems to."""
        self.fill()
        for folder in ("yaml", "deep/yaml"):
            (self.folder / folder).mkdir(parents=True)
        (self.folder / "link").symlink_to("deep/yaml")
        for folder, uri, expected in (("yaml", "../photos", "photos/a.JPG"),
                                      ("deep/yaml", "../../photos", "photos/a.JPG"),
                                      ("yaml", "../photos/*.JPG", "photos/a.JPG"),
                                      ("yaml", "../photos/a.JPG", "photos/a.JPG"),
                                      ("link", "../../photos", "link/../../photos/a.JPG")):
            with self.subTest(folder=folder, uri=uri):
                path = self.folder / folder / "photos.yaml"
                path.write_text(as_rows(uri=uri))
                done = call([MILLRACE, "run", path.relative_to(self.folder)], cwd=self.folder)
                files = [json.loads(line)["file"] for line in done.stdout.splitlines()]
                self.assertEqual(files, [expected], done.stderr)

    def test_an_empty_folder_says_what_it_holds(self):
        (self.photos / "b.txt").write_text("text")
        run = self.rows(self.photos, code=65)
        self.assertIn("no images and no videos, but 1 file of another kind (.txt) and 1 folder", run.err)
        self.assertIn(f'"{self.photos}/**"', run.err)

    def test_contents_count_not_names(self):
        shutil.copy(clips.one_frame(), self.photos / "movie.png")
        drawing().save(self.photos / "gif.jpg", "GIF")
        drawing().save(self.photos / "animated.webp", save_all=True, append_images=[drawing().rotate(180)])
        (self.photos / "text.jpg").write_text("text" * 100)
        run = self.run_pipeline(as_rows(uri=self.photos), "--log", "info")
        self.assertEqual([row["file"].rsplit("/", 1)[1] for row in run.rows], ["gif.jpg"])
        self.assertIn("animated.webp is an animated WebP, which is not supported", run.err)
        self.assertIn("movie.png is not a picture (QuickTime / MOV)", run.err)
        self.assertIn("text.jpg is damaged", run.err)
        self.assertEqual({line["reason"]: line["frames"] for line in run.summary["sources"][0]["dropped"]},
                         {"corrupt": 1, "not a picture that is read": 2})
        alone = self.rows(self.photos / "animated.webp", code=65)
        self.assertIn("is an animated WebP, which is not supported", alone.err)

    def test_a_glob_of_pictures_and_videos(self):
        self.fill()
        names, run = self.names(f"{self.photos}/[av]*")
        self.assertEqual(names, ["a.JPG"])
        self.assertIn("leaves out 1 video", run.err)
        self.assertNotIn("damaged", run.err)


class Heic(Photos):
    def setUp(self):
        super().setUp()
        if not shutil.which("heif-enc"):
            self.skipTest("heif-enc (libheif-examples) is not there")
        drawing(128, 96).save(self.folder / "source.png")
        self.encode("source.png", "a.heic")

    def encode(self, source, to, *options):
        subprocess.run(["heif-enc", "-q", "95", *options, "-o", self.folder / to, self.folder / source], check=True,
                       capture_output=True)

    def assert_is_drawing(self, path, expected=None):
        (seen,), _ = self.images(path, options=", rotate: true")
        with Image.open(seen) as picture:
            self.assertLess(difference(picture, expected or drawing(128, 96))[0], 4)

    def test_it_is_read(self):
        self.assert_is_drawing(self.folder / "a.heic")
        shutil.copy(self.folder / "a.heic", self.folder / "b.jpg")
        self.assert_is_drawing(self.folder / "b.jpg")

    def test_it_is_turned_once(self):
        for quarters in (1, 2, 3):
            self.turn("a.heic", "turned.heic", quarters)
            self.assert_is_drawing(self.folder / "turned.heic", drawing(128, 96).rotate(90 * quarters, expand=True))

    def turn(self, source, to, quarters):
        """Adds an irot property to the first item: both the property list and the list of uses grow."""
        data = (self.folder / source).read_bytes()
        box = lambda name, body: (len(body) + 8).to_bytes(4, "big") + name + body
        at = lambda name, begin=0: data.index(name, begin) - 4
        size = lambda where: int.from_bytes(data[where:where + 4], "big")
        meta, iprp, ipco, ipma = (at(name) for name in (b"meta", b"iprp", b"ipco", b"ipma"))
        store = data[ipco + 8:ipco + size(ipco)]
        count, where = 0, 0
        while where < len(store):
            where += int.from_bytes(store[where:where + 4], "big")
            count += 1
        uses = bytearray(data[ipma + 8:ipma + size(ipma)])
        self.assertEqual(uses[:4], b"\0\0\0\0")
        uses[10] += 1  # first item: version and flags, items, item id, properties
        uses.insert(11 + uses[10] - 1, 0x80 | count + 1)
        properties = box(b"iprp", box(b"ipco", store + box(b"irot", bytes([quarters]))) + box(b"ipma", bytes(uses)))
        longer = len(properties) - size(iprp)
        body = data[meta + 8:iprp] + properties + data[iprp + size(iprp):meta + size(meta)]
        self.assertIn(b"iloc", body)
        moved = bytearray(data[:meta] + box(b"meta", body) + data[meta + size(meta):])
        self.move(moved, longer)
        (self.folder / to).write_bytes(moved)

    def move(self, data, by):
        """The first item's place, in a version 0 or 1 list with four-byte offsets and lengths."""
        where = data.index(b"iloc") + 4
        version = data[where]
        self.assertEqual(data[where + 4], 0x44)
        base = data[where + 5] >> 4
        where += 8 + 2 + (2 if version else 0) + 2 + base + 2
        offset = int.from_bytes(data[where:where + 4], "big") + by
        data[where:where + 4] = offset.to_bytes(4, "big")

    def test_without_libheif_it_is_named(self):
        """A library that cannot be loaded comes before Debian's."""
        (self.folder / "none").mkdir()
        (self.folder / "none/libheif.so.1").write_text("no library")
        run = self.run_pipeline(as_rows(uri=self.folder / "a.heic"), code=65,
                                environment={"LD_LIBRARY_PATH": str(self.folder / "none")})
        self.assertIn("a.heic: is a picture of HEIC, which needs libheif1: apt-get install libheif1, or convert it "
                      "with heif-convert", run.err)
        self.assertNotIn("cut off", run.err)

    def test_beside_others(self):
        (self.folder / "in").mkdir()
        for name, source in (("a.heic", "a.heic"), ("b.HEIC", "a.heic"), ("c.png", "source.png")):
            shutil.copy(self.folder / source, self.folder / "in" / name)
        drawing(128, 96).save(self.folder / "in/d.avif", quality=95)
        one = self.rows(self.folder / "in", "--workers", 1).rows
        features = np.array([row["features"] for row in one])
        self.assertEqual(len(features), 4)
        self.assertLess(np.abs(features - features[2]).mean(), 4)
        self.assertEqual(self.rows(self.folder / "in", "--workers", 3).rows, one)

    def test_other_kinds(self):
        """Gray, R'G'B', with a thumbnail, several pictures, and AVIF from the same program."""
        drawing(128, 96).convert("L").save(self.folder / "gray.png")
        drawing(128, 96).rotate(180).save(self.folder / "other.png")
        rgb = ("-L", "-p", "chroma=444", "--matrix_coefficients", "0")
        for name, source, *options in (("gray.heic", "gray.png"), ("rgb.heic", "source.png", *rgb),
                                       ("thumb.heic", "source.png", "-t", "16"), ("b.avif", "source.png", "-A")):
            with self.subTest(name):
                self.encode(source, name, *options)
                expected = drawing(128, 96).convert("L") if source == "gray.png" else None
                self.assert_is_drawing(self.folder / name, expected)
        self.encode("other.png", "two.heic", self.folder / "source.png")
        self.assert_is_drawing(self.folder / "two.heic")

    def test_larger_than_allowed(self):
        text = as_rows(uri=self.folder / "a.heic").replace("input: photos}", "input: photos, max_pixels: 12287}")
        run = self.run_pipeline(text, code=65)
        self.assertIn("a.heic is 128x96, larger than max_pixels (12287) allows", run.err)
        self.run_pipeline(text.replace("12287", "12288"))

    def test_a_damaged_one(self):
        data = (self.folder / "a.heic").read_bytes()
        (self.folder / "in").mkdir()
        (self.folder / "in/cut.heic").write_bytes(data[:len(data) * 2 // 3])
        shutil.copy(self.folder / "a.heic", self.folder / "in/whole.heic")
        run = self.rows(self.folder / "in")
        self.assertEqual(len(run.rows), 1)
        self.assertEqual(run.ledger["dropped"][0]["frames"], 1)
