"""ctc: text from a network's tensor. The networks answer with values that the test chose, whatever the picture."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper
from PIL import Image, ImageDraw, ImageFont

import lettering
from harness import MILLRACE, MODELS, ROOT, TIMEOUT, Case, call, pipeline, rows_in
from objects import SIDE, save, save_graph
from watched import children_of

RECOGNIZER = MODELS / "ocr-characters.onnx"
RAPIDOCR = 0.0238, 0.0067  # wrong characters on the 24 pictures; without spaces
CHARACTERS = ["a", "b", "ch", "ß", "漢"]


def scores(*classes, count=len(CHARACTERS) + 2, least=0.0):
    """A row for each class: 0.9 there."""
    rows = np.full((len(classes), count), least, np.float32)
    rows[np.arange(len(classes)), classes] = 0.9
    return rows


def save_any(path, nodes, output, shape):
    """A network for pictures of any size."""
    save_graph(path, [helper.make_node(*one[:3], **one[3]) for one in nodes], {}, {"o": output}, shape)


class Text(Case):
    def setUp(self):
        super().setUp()
        Image.fromarray(np.zeros((SIDE, SIDE, 3), np.uint8)).save(self.folder / "a.png")
        (self.folder / "characters.txt").write_text("\n".join(CHARACTERS), encoding="utf-8")

    def read(self, options="", dictionary="characters.txt", code=0, verb="run"):
        text = f"""
version: 1
pipeline: text
sources: {{photos: {{uri: '{self.folder}/*.png'}}}}
stages:
  decode: {{input: photos}}
  preprocess: {{input: decode}}
  infer: {{input: preprocess, model: '{self.folder}/model.onnx'}}
  ctc: {{input: infer, dictionary: '{self.folder / dictionary}', {options}}}
  rows: {{type: jsonl, input: ctc, path: '{self.folder}/rows.jsonl'}}
"""
        run = self.run_pipeline(text, code=code, rows=False, verb=verb)
        if code or verb != "run":
            return run.err
        self.assert_balanced(run)
        return [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()][0]["text"]

    def test_greedy(self):
        values = scores(0, 1, 1, 0, 1, 3, 6, 6, 5, 0, 4, 2)
        values[1] = scores(1, least=0.01) * 0.5
        save(self.folder / "model.onnx", {"o": values})
        one, = self.read("values: probabilities")
        self.assertEqual(one["text"], "aach 漢ßb")
        self.assertAlmostEqual(one["score"], (6 * 0.9 + 0.45) / 7, 5)
        self.assertEqual(self.read("values: probabilities, score: 0.9"), [])
        one, = self.read("blank: last, space: true, values: probabilities")
        self.assertEqual(one["text"], "ababß a漢ch")  # 5 is the space, 6 blank

    def test_spaces(self):
        """A space between two characters that is less probable than blank; not before, after or beside a space."""
        values = scores(0, 1, 0, 0, 2, 0, 6, 0, 5, 1, 0)
        for step, share in ((0, 0.1), (2, 0.04), (3, 0.06), (5, 0.1), (7, 0.1), (10, 0.1)):
            values[step, 6] = share
        save(self.folder / "model.onnx", {"o": values})
        self.assertEqual(self.read("values: probabilities")[0]["text"], "ab 漢a")
        one, = self.read("values: probabilities, space_score: 0.05")
        self.assertEqual(one["text"], "a b 漢a")
        self.assertAlmostEqual(one["score"], 0.9, 5)
        self.assertEqual(self.read("values: probabilities, space_score: 0.07")[0]["text"], "ab 漢a")
        save(self.folder / "model.onnx", {"o": np.log(np.maximum(values, 1e-4))})
        self.assertEqual(self.read("values: logits, space_score: 0.05")[0]["text"], "a b 漢a")
        self.assertIn("space_score needs beam: 1", self.read("space_score: 0.1, beam: 2", code=78, verb="plan"))
        self.assertIn("space_score needs a class for the space", self.read("space_score: 0.1, space: false", code=78,
                                                                           verb="plan"))

    def test_beam(self):
        """Two ways of writing "a" are together more probable than blank."""
        values = np.zeros((2, 7), np.float32)
        values[:, :2] = 0.6, 0.4
        save(self.folder / "model.onnx", {"o": values})
        self.assertEqual(self.read("values: probabilities"), [])
        one, = self.read("values: probabilities, beam: 5")
        self.assertEqual(one["text"], "a")
        self.assertAlmostEqual(one["score"], 0.64, 5)

    def test_logits(self):
        save(self.folder / "model.onnx", {"o": scores(0, 2) * 10})
        one, = self.read()
        self.assertEqual(one["text"], "b")
        self.assertAlmostEqual(one["score"], np.exp(9) / (np.exp(9) + 6), 5)

    def test_metadata(self):
        save(self.folder / "model.onnx", {"o": scores(0, 3, 6)})
        self.assertIn("has no characters in its metadata", self.read(dictionary="model.onnx", code=65))
        model = onnx.load(self.folder / "model.onnx")
        helper.set_model_props(model, {"character": "\n".join(CHARACTERS)})
        onnx.save(model, self.folder / "model.onnx")
        one, = self.read("values: probabilities", "model.onnx")
        self.assertEqual(one["text"], "ch ")

    def test_refused(self):
        save(self.folder / "model.onnx", {"o": scores(0, 1, count=9)})
        self.assertIn("characters.txt has 5 characters, with blank and space 7 classes, but infer gives 9",
                      self.read(code=78, verb="plan"))
        save(self.folder / "model.onnx", {"o": scores(0, 1, count=6)})
        self.assertIn("gives 6: write space: false", self.read(code=78, verb="plan"))
        self.assertEqual(self.read("space: false, values: probabilities")[0]["text"], "a")
        self.assertIn('no tensor called "x"', self.read("tensor: x", code=78, verb="plan"))
        save(self.folder / "model.onnx", {"o": np.zeros(7, np.float32)})
        self.assertIn("text is read from f32 tensors of steps x classes", self.read(code=78, verb="plan"))

    def test_weights_that_are_constants(self):
        """Paddle's exporter writes weights as nodes: `inspect` counts them."""
        values = numpy_helper.from_array(np.zeros((16, 3), np.float32), "w")
        nodes = [helper.make_node("Constant", [], ["weights"], value=values),
                 helper.make_node("MatMul", ["image", "weights"], ["o"])]
        save_graph(self.folder / "model.onnx", nodes, {}, {"o": (1, 3)}, (1, 16))
        self.assertIn("48 numbers in 1 tensors", call([MILLRACE, "inspect", str(self.folder / "model.onnx")]).stdout)

    def test_inspect_finds_maps(self):
        save_any(self.folder / "model.onnx", [("ReduceMean", ["image"], ["mean"], {"axes": [1], "keepdims": 1}),
                                              ("Sigmoid", ["mean"], ["o"], {})], ["n", 1, "h", "w"], ["n", 3, "h", "w"])
        text = call([MILLRACE, "inspect", str(self.folder / "model.onnx")]).stdout
        self.assertIn("its outputs have the shapes of head: db", text)
        self.assertIn("order: bgr, normalize: signed}  # as usual for db", text)

    def test_odd_values(self):
        for fill in (np.nan, np.inf, -np.inf):
            save(self.folder / "model.onnx", {"o": np.full((5, 7), fill, np.float32)})
            for beam in (1, 9):
                self.assertLessEqual(len(self.read(f"beam: {beam}")), 1)


@unittest.skipUnless(RECOGNIZER.exists(), f"no {RECOGNIZER}: tools/test makes it")
class Words(Case):
    """pipelines/text.yaml, with the networks of PP-OCRv4."""
    def test_words(self):
        """On these pictures RapidOCR 1.4.4, with the same networks, has the errors below."""
        truth = lettering.draw(self.folder, 24)
        run = self.run_pipeline(ROOT / "pipelines" / "text.yaml", "--input", self.folder / "*.png", rows=False,
                                environment={"PICTURES": str(self.folder / "read"),
                                             "OUTPUT": str(self.folder / "rows.jsonl")})
        self.assert_balanced(run)
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        wrong, letters = lettering.errors(truth, lettering.read_rows(rows))
        self.assertLessEqual(wrong, RAPIDOCR[0] - 0.003)  # which loses more spaces
        self.assertLessEqual(letters, RAPIDOCR[1] + 0.005)
        self.assertEqual(len(list((self.folder / "read").glob("*.png"))), 24)

    def test_words_side_by_side(self):
        """Words that are found apart, of which none must show the next one's first letter; and short ones that the
        network for directions is sure to find upside down. Upright, and turned by half."""
        truth = {name: lines for name, lines in lettering.draw(self.folder, 79).items()
                 if name in ("019.png", "042.png", "043.png", "052.png", "054.png", "067.png", "078.png")}
        for file in self.folder.glob("*.png"):
            if file.name in truth:
                Image.open(file).rotate(180).save(self.folder / f"turned-{file.name}")
            else:
                file.unlink()
        run = self.run_pipeline(ROOT / "pipelines" / "text.yaml", "--input", self.folder / "*.png", rows=False,
                                environment={"PICTURES": str(self.folder / "read"),
                                             "OUTPUT": str(self.folder / "rows.jsonl")})
        self.assert_balanced(run)
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        self.assertEqual(len(rows), 2 * len(truth))
        for file, lines in lettering.read_rows(rows).items():
            with self.subTest(file):
                want = "".join(truth[file.removeprefix("turned-")])
                got = "".join(text for _, text in lines)
                self.assertEqual(sorted(got.replace(" ", "")), sorted(want.replace(" ", "")))

    def test_transparent_pictures(self):
        """Dark letters and light ones with nothing behind them."""
        font = ImageFont.truetype(str(lettering.FONTS / "dejavu" / "DejaVuSans.ttf"), 32)
        for name, ink in (("dark", "black"), ("light", "white")):
            page = Image.new("RGBA", (360, 60))
            ImageDraw.Draw(page).text((20, 10), "Invoice 4711", font=font, fill=ink)
            page.save(self.folder / f"{name}.png")
        run = self.run_pipeline(ROOT / "pipelines" / "text.yaml", "--input", self.folder / "*.png", rows=False,
                                environment={"PICTURES": str(self.folder / "read"),
                                             "OUTPUT": str(self.folder / "rows.jsonl")})
        self.assert_balanced(run)
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        read = lettering.read_rows(rows)
        self.assertEqual(len(read), 2)
        for file, lines in read.items():
            with self.subTest(file):
                self.assertEqual("".join(text for _, text in lines).replace(" ", ""), "Invoice4711")

    def test_narrow_characters(self):
        """A character that is higher than wide stays upright; short words that run upwards are turned."""
        font = ImageFont.truetype(str(lettering.FONTS / "dejavu" / "DejaVuSerif.ttf"), 40)
        page, want = Image.new("RGB", (720, 360), "white"), ["I", "l", "i", "1", "t", "EXIT", "room", "4711"]
        for i, text in enumerate(want):
            tile = Image.new("RGB", (180, 180), "white")
            ImageDraw.Draw(tile).text((90, 90), text, font=font, fill="black", anchor="mm")
            page.paste(tile.rotate(90 if len(text) > 1 else 0), (i % 4 * 180, i // 4 * 180))
        page.save(self.folder / "a.png")
        self.run_pipeline(ROOT / "pipelines" / "text.yaml", "--input", self.folder / "a.png", rows=False,
                          environment={"PICTURES": str(self.folder / "read"),
                                       "OUTPUT": str(self.folder / "rows.jsonl")})
        (found,), = [list(lettering.read_rows([json.loads(line)]).values())
                     for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        read = {int(min(quad[1::2]) // 180 * 4 + min(quad[::2]) // 180): text for quad, text in found}
        got = [read.get(i, "").replace("l", "I").replace("1", "I") for i in range(len(want))]
        self.assertEqual(got, [text.replace("l", "I").replace("1", "I") for text in want])

    def test_turned_pages(self):
        """Lines run in all four directions, and lean from the upright. Corners of a long line that leans begin at its
        other end, and those of a short one do not; both count in one vote."""
        want = ["Invoice number 4711", " ".join(["the quick brown fox jumps over the lazy dog"] * 3)]
        font = ImageFont.truetype(str(lettering.FONTS / "dejavu" / "DejaVuSans.ttf"), 28)
        page = Image.new("RGB", (int(font.getlength(want[1])) + 60, 160), "white")
        for i, line in enumerate(want):
            ImageDraw.Draw(page).text((30, 20 + 70 * i), line, font=font, fill="black")
        for degrees in (0, 90, 180, 270, 88, 92, -88, -92):
            turned = page.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor="white")
            turned.save(self.folder / f"{degrees}.png")
        run = self.run_pipeline(ROOT / "pipelines" / "text.yaml", "--input", self.folder / "*.png", rows=False,
                                environment={"PICTURES": str(self.folder / "read"),
                                             "OUTPUT": str(self.folder / "rows.jsonl")})
        self.assert_balanced(run)
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        for file, lines in lettering.read_rows(rows).items():
            with self.subTest(file):
                text = "".join(text for _, text in lines).replace(" ", "")
                self.assertLessEqual(lettering.distance(sorted(text), sorted("".join(want).replace(" ", ""))), 4, text)
                self.assertIn("quickbrownfox", text)


class Upright(Case):
    """crop and straighten: a map of where text is, made from the picture, and what is cut out there."""
    def test_tilted(self):
        """A tilted rectangle, with a red, a green, a blue and a white quarter, comes out upright."""
        save_any(self.folder / "model.onnx", [("ReduceMax", ["image"], ["o"], {"axes": [1], "keepdims": 1})],
                 ["n", 1, "h", "w"], ["n", 3, "h", "w"])
        whole = Image.new("RGB", (400, 300))
        flag = Image.new("RGB", (160, 60))
        for at, colour in (((0, 0), "red"), ((80, 0), "lime"), ((80, 30), "blue"), ((0, 30), "white")):
            flag.paste(colour, (*at, at[0] + 80, at[1] + 30))
        for i, angle in enumerate((0, 20, -35, -90)):
            whole.paste(0, (0, 0, 400, 300))
            turned = flag.rotate(angle, expand=True, resample=Image.Resampling.BICUBIC)
            whole.paste(turned, (120, 60))
            whole.save(self.folder / f"{i}.{('png', 'jpg')[i % 2]}", quality=95)
        want = [[255, 0, 0], [0, 255, 0], [255, 255, 255], [0, 0, 255]]
        self.check_quarters("straighten", want)
        save(self.folder / "direction.onnx", {"o": np.float32([[0, 9]])})
        (self.folder / "directions.txt").write_text("0\n180\n")
        self.check_quarters("turned", want[::-1], f"""
  small: {{type: preprocess, input: straighten}}
  infer: {{input: small, model: '{self.folder}/direction.onnx'}}
  classify: {{input: infer, labels: '{self.folder}/directions.txt'}}
  facing: {{type: gather, join: {{frames: lines, crops: classify}}, upside_down: {{class: "180"}}}}
  again: {{type: crop, input: facing}}
  turned: {{type: straighten, input: again}}
""")
        self.save_scores("direction.onnx", [0.1, 0.95])
        self.check_quarters("turned", want[::-1], f"""
  small: {{type: preprocess, input: straighten, sides: {{least: 8x8, most: 640x8}}}}
  infer: {{input: small, model: '{self.folder}/direction.onnx'}}
  classify: {{input: infer}}
  facing: {{type: gather, join: {{frames: lines, crops: classify}}, upside_down: {{class: 1, score: 0.9}}}}
  again: {{type: crop, input: facing}}
  turned: {{type: straighten, input: again}}
""")
        self.check_quarters("facing", [], """
  facing: {type: gather, join: {frames: lines, crops: straighten}, upside_down: {class: "180"}}
""", code=78)

    def save_scores(self, name, scores):
        """A network for pictures of any width. Its scores come from a sigmoid, so no softmax may follow."""
        logits = numpy_helper.from_array(np.log(np.divide(scores, np.subtract(1, scores))).astype(np.float32))
        zero = numpy_helper.from_array(np.zeros((3, len(scores)), np.float32))
        save_any(self.folder / name, [("Constant", [], ["logits"], {"value": logits}),
                                      ("Constant", [], ["zero"], {"value": zero}),
                                      ("ReduceMean", ["image"], ["mean"], {"axes": [2, 3], "keepdims": 0}),
                                      ("MatMul", ["mean", "zero"], ["nothing"], {}),
                                      ("Add", ["nothing", "logits"], ["sum"], {}), ("Sigmoid", ["sum"], ["p"], {}),
                                      ("Identity", ["p"], ["o"], {})], ["n", len(scores)], ["n", 3, 8, "w"])

    def test_over_nodes(self):
        """Each picture's lines are cut out on one node, read on two processes of another, and put back on a third, of
        which one dies. The rows are those of one process."""
        save_any(self.folder / "model.onnx", [("ReduceMax", ["image"], ["o"], {"axes": [1], "keepdims": 1})],
                 ["n", 1, "h", "w"], ["n", 3, "h", "w"])
        read = [("ReduceMean", ["image"], ["rows"], {"axes": [2], "keepdims": 0}),
                ("Transpose", ["rows"], ["steps"], {"perm": [0, 2, 1]}),
                ("Constant", [], ["weights"], {"value": numpy_helper.from_array(np.eye(3, 4, 1, np.float32) * 99)}),
                ("MatMul", ["steps", "weights"], ["o"], {})]
        save_any(self.folder / "read.onnx", read, ["n", "w", 4], ["n", 3, "h", "w"])
        (self.folder / "characters.txt").write_text("r\ng\nb\n")
        frames, colours = [], np.random.default_rng(7).integers(0, 3, (40, 3, 2))
        for bars in colours:
            frame = np.zeros((200, 300, 3), np.uint8)
            for i, (left, right) in enumerate(bars[:len(frames) % 4]):
                top, wide = 20 + 60 * i, 60 + 20 * i
                frame[top:top + 30, 20:20 + wide, left] = frame[top:top + 30, 20 + wide:20 + 2 * wide, right] = 255
            frames.append(frame)
        subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "300x200", "-r", "20",
                        "-i", "-", "-c:v", "ffv1", self.folder / "a.mkv"], input=b"".join(map(bytes, frames)),
                       check=True)
        stages = dict(decode="", sized="type: preprocess, sides: {shorter: 1, least: 32x32, most: 640x640}, normalize: "
                      "unit", detect="model: model.onnx, head: db, db: {unclip: 0}",
                      lines="type: join, join: {pictures: decode, objects: detect}", crop="", straighten="",
                      line="type: preprocess, sides: {least: 32x16, most: 640x16}, fit: letterbox, place: top-left, "
                      "pad: 0, normalize: unit", recognize="type: infer, model: read.onnx",
                      ctc="dictionary: characters.txt, space: false", read="type: gather, join: {frames: lines, crops: "
                      "ctc}", rows="type: jsonl, path: '${OUTPUT:--}'")
        source = {"a": f"uri: '{self.folder}/a.mkv', realtime: true"}
        nodes = dict(one="stages: [decode, sized, detect, lines, crop]",
                     two="stages: [straighten, line, recognize], replicas: 2", three="stages: [ctc, read, rows]")
        alone = self.run_pipeline(pipeline(source, **stages)).rows
        read = [sorted(one["attributes"][0]["text"] for one in row["objects"]) for row in alone]
        self.assertEqual(read, [sorted(re.sub(r"(.)\1", r"\1", "".join("rgb"[part] for part in bar))
                                       for bar in bars[:i % 4]) for i, bars in enumerate(colours)])
        output = self.folder / "out.jsonl"
        path = self.write(pipeline(source, nodes=nodes, **stages))
        child = self.spawn([MILLRACE, "run", path, "--grace", "60s", "--output", output], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
        self.wait_until(lambda: len(rows_in(output)) >= 10, running=child)
        os.kill(self.wait_until(lambda: children_of(child.pid).get("two")), signal.SIGKILL)
        err = child.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(child.returncode, 0, err)
        self.assertEqual([row["objects"] for row in rows_in(output)], [row["objects"] for row in alone])

    def check_quarters(self, last, want, more="", code=0):
        shutil.rmtree(self.folder / "cut", ignore_errors=True)
        run = self.run_pipeline(f"""
version: 1
pipeline: text
sources: {{photos: {{uri: '{self.folder}/*.*g'}}}}
stages:
  decode: {{input: photos}}
  preprocess: {{input: decode, sides: {{shorter: 1, least: 32x32, most: 640x640}}, normalize: unit}}
  detect: {{input: preprocess, model: '{self.folder}/model.onnx', db: {{unclip: 0}}}}
  lines: {{type: join, join: {{picture: decode, objects: detect}}}}
  crop: {{input: lines}}
  straighten: {{input: crop}}
{more}
  images: {{input: {last}, path: '{self.folder}/cut'}}
""", rows=False, code=code)
        if code:
            self.assertIn("straighten gives no classes, which say what is upside down: let classify look at the "
                          "pictures", run.err)
            return
        self.assert_balanced(run)
        files = sorted((self.folder / "cut").iterdir())
        self.assertEqual(len(files), 4)
        for file in files:
            seen = np.asarray(Image.open(file).convert("RGB")).astype(int)
            height, width = seen.shape[:2]
            self.assertLess(abs(width - 160) + abs(height - 60), 6, (file, seen.shape))
            quarters = [seen[height * y // 4, width * x // 4].tolist() for y in (1, 3) for x in (1, 3)]
            self.assertLess(np.abs(np.subtract(quarters, want)).max(), 12, (file, quarters))


class Sizes(Case):
    """Pictures of different sizes, for networks that take any."""
    def save(self, *network):
        save_any(self.folder / "model.onnx", *network)

    def run_stages(self, sides, *stages, code=0, more=""):
        lines = "\n".join(f"  {one}" for one in stages)
        text = f"""
version: 1
pipeline: text
sources: {{photos: {{uri: '{self.folder}/*.png'}}}}
stages:
  decode: {{input: photos}}
  preprocess: {{input: decode, sides: {{{sides}}}, {more}}}
{lines.format(model=self.folder / "model.onnx", folder=self.folder)}
"""
        run = self.run_pipeline(text, code=code, rows=False, verb="run" if code == 0 else "plan")
        if code:
            return run.err
        self.assert_balanced(run)
        return [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]

    def test_lines_of_text(self):
        """Bright rectangles are found where they are, in pictures from 70x40 to 900x500."""
        self.save([("ReduceMean", ["image"], ["o"], {"axes": [1], "keepdims": 1})], ["n", 1, "h", "w"],
                  ["n", 3, "h", "w"])
        sizes = [(70, 40), (40, 70), (200, 200), (900, 500), (320, 100)]
        for i, (width, height) in enumerate(sizes):
            picture = np.zeros((height, width, 3), np.uint8)
            picture[height // 4:height // 2, width // 4:width * 3 // 4] = 255
            Image.fromarray(picture).save(self.folder / f"{i}.png")
        rows = self.run_stages("shorter: 160, least: 32x32, most: 640x640, multiple: 32",
                               "detect: {{input: preprocess, model: '{model}', db: {{mask: 0.5, unclip: 0}}}}",
                               "rows: {{type: jsonl, input: detect, path: '{folder}/rows.jsonl'}}",
                               more="normalize: unit")
        for row, (width, height) in zip(rows, sizes, strict=True):
            one, = row["objects"]
            want = width // 4, height // 4, width * 3 // 4, height // 2
            scale = max(1, width / 640, height / 640)
            got = [one[side] for side in ("left", "top", "right", "bottom")]
            self.assertLess(np.abs(np.subtract(got, want)).max(), 0.7 * scale, (got, want))

    def stripes(self, name, *columns):
        """A picture of 8 rows with red, green or blue columns."""
        picture = np.zeros((8, len(columns), 3), np.uint8)
        picture[:, np.arange(len(columns)), columns] = 255
        Image.fromarray(picture).save(self.folder / name)

    def test_reading(self):
        """Each picture is read as wide as it is, padded up to `least`."""
        self.save([("ReduceMean", ["image"], ["mean"], {"axes": [2], "keepdims": 0}),
                   ("Transpose", ["mean"], ["o"], {"perm": [0, 2, 1]})], ["n", "steps", 3], ["n", 3, 8, "w"])
        self.stripes("0.png", 1, 1, 0, 1, 2)
        self.stripes("1.png", *[2, 2, 0, 1] * 8)
        self.stripes("2.png", *[1, 2] * 200)
        (self.folder / "ab.txt").write_text("a\nb\n")
        stages = ("infer: {{input: preprocess, model: '{model}'}}",
                  "ctc: {{input: infer, dictionary: '{folder}/ab.txt', space: false, values: probabilities}}",
                  "rows: {{type: jsonl, input: ctc, tensors: true, path: '{folder}/rows.jsonl'}}")
        letterbox = "fit: letterbox, place: top-left, pad: [255, 0, 0], normalize: unit, interpolation: nearest"
        rows = self.run_stages("least: 16x8, most: 400x8", *stages, more=letterbox)
        self.assertEqual([row["text"][0]["text"] for row in rows], ["aab", "ba" * 8, "ab" * 200])
        self.assertEqual([row["tensors"][0]["shape"] for row in rows], [[16, 3], [32, 3], [400, 3]])

    def test_refused(self):
        self.save([("ReduceMean", ["image"], ["o"], {"axes": [1], "keepdims": 1})], ["n", 1, "h", "w"],
                  ["n", 3, "h", "w"])
        self.stripes("0.png", 1)
        infer = "infer: {{input: preprocess, model: '{model}'}}"
        sides = "least: 32x32, most: 64x64"
        self.assertIn("takes frames of different sizes only one at a time on the processors",
                      self.run_stages(sides, infer.replace("}}", ", batch: 4}}"), code=78))
        self.assertIn("only one at a time on the processors",
                      self.run_stages(sides, infer.replace("}}", ", device: 'sim:0'}}"), code=78))
        features = "features: {{input: preprocess, model: '{model}'}}"
        self.assertIn("features takes pictures of one size", self.run_stages(sides, features, code=78))
        self.assertIn("size and sides are both given", self.run_stages(sides, infer, more="size: 64x64", code=78))
        self.assertIn("nothing is cut off", self.run_stages(sides, infer, more="fit: center-crop", code=78))
        self.assertIn("least 32x32 is more than most 16x64",
                      self.run_stages("least: 32x32, most: 16x64", infer, code=78))
        self.assertIn("no multiples of 48", self.run_stages(f"{sides}, multiple: 48", infer, code=78))
        detect = "detect: {{input: preprocess, model: '{model}', head: end2end}}"
        self.assertIn("an end2end head has one output of N x 6", self.run_stages(sides, detect, code=78))
        save(self.folder / "model.onnx", {"o": np.zeros((3, 3), np.float32)})
        self.assertIn("tensor f32 3x32..64x32..64", self.run_stages(sides, infer, code=78))
