"""ctc: text from a network's tensor. The networks answer with values that the test chose, whatever the picture."""
import json

import numpy as np
import onnx
from onnx import helper
from PIL import Image

from harness import Case, main
from test_objects import SIDE, save

CHARACTERS = ["a", "b", "ch", "ß", "漢"]


def scores(*classes, count=len(CHARACTERS) + 2, least=0.0):
    """A row for each class: 0.9 there."""
    rows = np.full((len(classes), count), least, np.float32)
    rows[np.arange(len(classes)), classes] = 0.9
    return rows


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

    def test_odd_values(self):
        for fill in (np.nan, np.inf, -np.inf):
            save(self.folder / "model.onnx", {"o": np.full((5, 7), fill, np.float32)})
            for beam in (1, 9):
                self.assertLessEqual(len(self.read(f"beam: {beam}")), 1)


if __name__ == "__main__":
    main()
