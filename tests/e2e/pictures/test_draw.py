"""draw: pixels of boxes equal those that NumPy paints; letters equal Pillow's, in three scripts; turned pictures are
drawn on upright; refusals; drawn pictures go to encode and video."""
import colorsys
import re
import subprocess

import numpy as np
from PIL import Image, ImageDraw, ImageFont, features

import clips
from harness import Case
from objects import rows_of, save

WIDTH, HEIGHT = 128, 96
# In 0..64 of the picture, score and class: the later ones are drawn first. Edges lie on odd pixels, and outside.
BOXES = [(3.5, 5, 20.5, 31, 0.9, 0), (15, 20, 60, 62.5, 0.8, 1), (-9, 40, 12, 90, 0.7, 2), (30, 2, 30.4, 3, 0.6, 3)]
MATRICES = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}


def color(number):
    """The colour of a class: hues by the golden ratio, with three shades in turn."""
    saturation, value = ((0.85, 1.0), (0.55, 1.0), (0.95, 0.7))[number % 3]
    hue = (0.6180339887498949 * number + 0.02) % 1
    return [int(255 * c + 0.5) for c in colorsys.hsv_to_rgb(hue, saturation, value)]


def codes(rgb, layout, matrix="bt601", full=False):
    """The colour's numbers in the planes, for 8 bits or more."""
    depth = 10 if "10" in layout else 8
    unit, most = 2 ** (depth - 8), 2 ** depth - 1
    kr, kb = MATRICES[matrix]
    r, g, b = (c / 255 for c in rgb)
    y = kr * r + (1 - kr - kb) * g + kb * b
    u, v = (b - y) / (2 - 2 * kb), (r - y) / (2 - 2 * kr)
    if full:
        found = y * most, 128 * unit + u * most, 128 * unit + v * most
    else:
        found = (16 + 219 * y) * unit, (128 + 224 * u) * unit, (128 + 224 * v) * unit
    return [int(np.floor(np.clip(c, 0, most) + 0.5)) for c in found]


def covered(box, thickness, width=WIDTH, height=HEIGHT):
    """The pixels of a box's lines, which lie inside."""
    left, right = (int(np.floor(box[i] * width / 64 + 0.5)) for i in (0, 2))
    top, bottom = (int(np.floor(box[i] * height / 64 + 0.5)) for i in (1, 3))
    left, right, top, bottom = max(left, 0), min(right, width), max(top, 0), min(bottom, height)
    mask = np.zeros((height, width), bool)
    mask[top:bottom, left:right] = True
    mask[top + thickness:bottom - thickness, left + thickness:right - thickness] = False
    return mask


def painted(plane, mask, code):
    """The plane with a code as far as its samples are covered."""
    rows, columns = mask.shape[0] // plane.shape[0], mask.shape[1] // plane.shape[1]
    cells = 255 * mask.reshape(plane.shape[0], rows, plane.shape[1], columns).sum((1, 3))
    cover = np.floor(cells / (rows * columns) + 0.5) / 255
    return np.floor(plane * (1 - cover) + code * cover + 0.5)


class Draw(Case):
    def draw(self, source, options, after, boxes=BOXES, code=0, detect=""):
        """Draws constant objects on all pictures of a source."""
        save(self.folder / "model.onnx", {"o": rows_of(boxes)})
        (self.folder / "labels.txt").write_text("cat\ndog\nhen\nowl\n")
        text = f"""version: 1
pipeline: drawn
sources: {{pictures: {{uri: '{source}'}}}}
stages:
  decode: {{input: pictures}}
  small:  {{type: preprocess, input: decode, fit: stretch}}
  detect: {{input: small, model: '{self.folder}/model.onnx', head: end2end, labels: '{self.folder}/labels.txt'{detect}}}
  joined: {{type: join, join: {{picture: decode, objects: detect}}}}
  draw:   {{input: joined, {options}}}
{after}"""
        return self.run_pipeline(text, code=code, rows=False)

    def clip(self, layout, *options):
        path = self.folder / f"{layout}.mkv"
        clips.ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={WIDTH}x{HEIGHT}:rate=5", "-frames:v", 3, "-c:v", "ffv1",
                     "-pix_fmt", layout, *options, path)
        return path

    def check_planes(self, path, layout, matrix="bt601", full=False, device="", name="plain", like=None):
        """Lossless H.264 of the drawn pictures against those of ffmpeg, which NumPy paints on."""
        out = self.folder / "out"
        after = f"  encode: {{input: draw, codec: h264, lossless: true}}\n  video:  {{input: encode, path: '{out}', " \
                f"name: '{layout}-{name}.mkv'}}\n"
        more = f"device: '{device}', " if device else ""
        self.assert_balanced(self.draw(path, f"{more}label: '', thickness: 3", after))
        before, after = list(clips.planes(like or path)), list(clips.planes(out / f"{layout}-{name}.mkv"))
        self.assertEqual(len(after), 3)
        unit = 4 if "10" in layout else 1
        for wanted, got in zip(before, after):
            wanted = [plane * unit for plane in wanted]
            for box in reversed(BOXES):
                for i, code in enumerate(codes(color(box[5]), layout, matrix, full)):
                    wanted[i] = painted(wanted[i], covered(box, 3), code)
            for plane, (want, have) in enumerate(zip(wanted, got)):
                self.assertEqual(np.abs(want - have[:want.shape[0], :want.shape[1]] * unit).max(), 0, (layout, plane))

    def test_boxes_in_each_layout(self):
        for layout in ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv422p10le"):
            with self.subTest(layout):
                self.check_planes(self.clip(layout), layout)
        with self.subTest("full range"):
            self.check_planes(self.clip("yuv420p", "-color_range", "pc"), "yuv420p", full=True, name="full")
        with self.subTest("nv12"):
            path = self.folder / "nv12.nut"
            clips.ffmpeg("-i", self.clip("yuv420p"), "-c:v", "rawvideo", "-pix_fmt", "nv12", path)
            self.check_planes(path, "nv12", like=self.folder / "yuv420p.mkv")
        with self.subTest("bt709"):
            path = self.clip("yuv420p", "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709")
            self.check_planes(path, "yuv420p", "bt709", name="bt709")

    def test_boxes_on_an_accelerator(self):
        self.check_planes(self.clip("yuv420p"), "yuv420p", device="sim:0")

    def photo(self, name="a.png", size=(WIDTH, HEIGHT), mode="RGB", **options):
        pixels = np.random.default_rng(5).integers(0, 255, (size[1], size[0], 3), np.uint8)
        Image.fromarray(pixels).convert(mode).save(self.folder / name, **options)
        return pixels

    def images(self, options, boxes=BOXES, rotate=False):
        """The drawn pictures as Pillow reads them, by file."""
        out = self.folder / "drawn"
        after = f"  images: {{input: draw, path: '{out}', name: '{{source}}-{{seq}}.png', overwrite: true, " \
                f"rotate: {str(rotate).lower()}}}\n"
        run = self.draw(self.folder / "*.png", options, after, boxes)
        self.assert_balanced(run)
        self.messages = run.err
        return [np.array(Image.open(path)) for path in sorted(out.iterdir())]

    def test_boxes_in_rgb(self):
        """RGB, gray, and pictures with an alpha channel, which stays."""
        wanted = self.photo().astype(float)
        for box in reversed(BOXES):
            wanted[covered(box, 2)] = color(box[5])
        self.photo("b.png", mode="L")
        self.photo("c.png", mode="RGBA")
        rgb, gray, alpha = self.images("label: '', thickness: 2")
        self.assertTrue((rgb == wanted).all())
        self.assertTrue((alpha[..., :3] == wanted).all() and (alpha[..., 3] == 255).all())
        wanted = np.array(Image.open(self.folder / "b.png"))
        for box in reversed(BOXES):
            wanted[covered(box, 2)] = codes(color(box[5]), "gray", full=True)[0]
        self.assertTrue((gray == wanted).all())

    def letters(self, font, text, size):
        """Coverage of a line as Pillow draws it, from the pen's place at the left of its box."""
        pillow = ImageFont.truetype(str(font), size, layout_engine=ImageFont.Layout.RAQM)
        canvas = Image.new("L", (400, 80))
        ImageDraw.Draw(canvas).text((20, 50), text, 255, pillow, anchor="ls")
        return np.array(canvas).astype(int)

    def check_text(self, text, file, font, size=20):
        """The label's letters are where Pillow draws them, all shifted alike, and as dark."""
        (self.folder / "labels.txt").write_text(text)
        self.photo(size=(400, 200))
        save(self.folder / "model.onnx", {"o": rows_of([(0, 40, 60, 60, 0.9, 0)])})
        drawn, = self.images(f"label: '{text}', font: '{font}', font_size: {size}, boxes: false",
                             [(0, 40, 60, 60, 0.9, 0)])
        self.assertNotIn("no font", self.messages)
        ground = np.array(color(0))
        line = drawn[125 - (5 * size + 3) // 4:125].astype(float)
        ink = 0 if ground @ (0.299, 0.587, 0.114) > 128.5 else 255
        clear = np.abs(ink - ground).argmax()
        got = (line[..., clear] - ground[clear]) / (ink - ground[clear]) * 255
        want = self.letters(file, text, size)
        rows, columns = np.where(want > 0)
        want = want[rows.min():rows.max() + 1, columns.min():columns.max() + 1]
        rows, columns = np.where(got[:, :want.shape[1] + 2 * (size // 4)] > 2)
        got = got[rows.min():rows.min() + want.shape[0], columns.min():columns.min() + want.shape[1]]
        self.assertEqual(got.shape, want.shape, text)
        self.assertLess(np.abs(got - want).mean(), 0.5, text)
        self.assertLess(np.abs(got - want).max(), 40, text)  # where letters touch, coverage adds up

    def fonts(self, command, *arguments):
        """Files, in fontconfig's order."""
        return subprocess.run([command, *arguments], capture_output=True, text=True, check=True).stdout.split("\n")

    def test_letters_equal_pillows(self):
        if not features.check("raqm"):
            self.skipTest("this Pillow lays out no complex scripts")
        sans = self.fonts("fc-match", "--format=%{file}", "DejaVu Sans")[0]
        self.check_text("Person 12 AVAq", sans, "DejaVu Sans")
        self.check_text("Person 12 AVAq", sans, sans, 33)
        self.check_text("شخص", sans, "Sans")          # joined, from right to left
        self.check_text("شخص 12 car", sans, "Sans")   # both directions
        have = [line.partition(":")[0] for line in self.fonts("fc-list", ":charset=4eba:scalable=true", "file")]
        chinese = [one for one in self.fonts("fc-match", "--sort", "--format=%{file}\\n", "Sans") if one in have]
        if not chinese:
            self.skipTest("no font here has Chinese characters")
        self.check_text("行人", chinese[0], "Sans")      # in another font than the one named
        self.check_text("行人", chinese[0], chinese[0])

    def test_turned_pictures(self):
        """What is drawn on a picture with any orientation, shown, equals what is drawn on the upright one."""
        pixels = self.photo("0.png", (120, 90))
        turns = {1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
                 4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90,
                 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270}
        for number, turn in turns.items():
            exif = Image.Exif()
            exif[0x0112] = number
            picture = Image.fromarray(pixels)
            (picture.transpose(turn) if turn is not None else picture).save(self.folder / f"{number}.png", exif=exif)
        upright, *turned = self.images("caption: 'upright {seq}'".replace("{seq}", "Ag"), rotate=True)
        self.assertEqual(len(turned), 8)
        self.assertGreater((upright != pixels).sum(), 1000)
        for number, one in enumerate(turned, 1):
            self.assertTrue(np.array_equal(one, upright), number)

    def test_cut_outs(self):
        """crop and images: a folder for each class, whose files name the object's number in its frame."""
        pixels = self.photo()
        out = self.folder / "cut"
        boxes = [(3.5, 5, 20.5, 31, 0.9, 0), (15, 20, 60, 62.5, 0.8, 1), (40, 10, 50, 20, 0.7, 1)]
        name = "{label}/{seq}-{track}.png"
        after = f"  crop: {{input: joined}}\n  images: {{input: crop, path: '{out}', name: '{name}'}}\n" \
                "  'null': {input: draw}\n"
        self.assert_balanced(self.draw(self.folder / "a.png", "label: ''", after, boxes))
        found = {str(path.relative_to(out)): np.array(Image.open(path)) for path in out.rglob("*.png")}
        self.assertEqual(len(found), 3)
        for left, top, right, bottom, _, index in boxes:
            left, right = int(left * WIDTH / 64), int(np.ceil(right * WIDTH / 64))
            top, bottom = int(top * HEIGHT / 64), int(np.ceil(bottom * HEIGHT / 64))
            folder = ("cat", "dog")[index]
            same = [file for file, one in found.items() if file.startswith(folder) and
                    np.array_equal(one, pixels[top:bottom, left:right])]
            self.assertEqual(len(same), 1, (folder, list(found)))
        run = self.draw(self.folder / "a.png", "label: ''",
                        f"  images: {{input: decode, path: '{out}', name: '{name}', overwrite: true}}\n"
                        "  'null': {input: draw}\n", code=78)
        self.assertIn("name has {track}, and the pictures from decode have no objects: put crop", run.err)

    def test_words(self):
        """Tokens without a value leave out their words; unknown characters are reported once."""
        self.photo()
        self.photo("b.png")
        self.images("label: '{label} \U0010fffd'")
        self.assertEqual(self.messages.count("no font has the character U+10FFFD: install one"), 1, self.messages)
        plain = self.images("label: '{label}'")
        tracked = self.images("label: '{label} #{track} {text} {zones}'")
        self.assertTrue(np.array_equal(plain, tracked))

    def test_more_than_fits(self):
        """What is left out is said at once, and counted in the end."""
        boxes = [(x % 60, x // 160, x % 60 + 4, x // 160 + 4, 0.9, 0) for x in range(9600)]
        run = self.draw(self.clip("yuv420p"), "label: '', thickness: 1", "  'null': {input: draw}\n", boxes,
                        detect=", max: 10000")
        self.assert_balanced(run)
        first = re.findall(r"a frame has more to draw than a call has room for: (\d+) shapes are left out", run.err)
        self.assertEqual(len(first), 1, run.err)
        self.assertGreater(int(first[0]), 1000)
        self.assertIn("3 frames of pictures had more to draw than a call has room for: "
                      f"{3 * int(first[0])} shapes were left out", run.err)

    def test_refusals(self):
        self.photo()
        null = "  null: {input: draw}\n".replace("null:", "'null':")
        for options, words in {
            "label: '{name}'": "may hold {label}, {index}, {track}, {number}, {score}, {speed}, {distance}, "
                               "{zones}, {class}, {text}, and no other brace",
            "caption: '{clock}'": "may hold {source}, {time}, {utc}, {position}, {seq}, {objects}",
            "font: 'No Such Font'": "there is no font \"No Such Font\": fontconfig would take \"",
            "font: /nowhere/font.ttf": "/nowhere/font.ttf: no font can be read there",
            "boxes: false, points: false, label: '', masks: 0": "all that could be drawn is switched off",
        }.items():
            with self.subTest(options):
                run = self.draw(self.folder / "a.png", options, null, code=None)
                self.assertIn(words, run.err)
                self.assertIn(run.code, (66, 78) if "font" in options else (78,), run.err)
        run = self.run_pipeline(f"version: 1\npipeline: p\nsources: {{a: {{uri: '{self.folder}/a.png'}}}}\nstages:\n"
                                f"  decode: {{input: a}}\n  draw: {{input: decode}}\n{null}", code=78, rows=False)
        self.assertIn("no frame that comes here has objects", run.err)
        (self.folder / "fonts.conf").write_text("<?xml version='1.0'?><fontconfig></fontconfig>")
        path = self.write((self.folder / "pipeline.yaml").read_text().replace("draw: {input: decode}",
                                                                            "draw: {input: decode, caption: hello}"))
        run = self.run_pipeline(path, code=66, rows=False,
                                environment={"FONTCONFIG_FILE": str(self.folder / "fonts.conf")})
        self.assertIn("fontconfig finds no font: install one, such as fonts-dejavu-core", run.err)
