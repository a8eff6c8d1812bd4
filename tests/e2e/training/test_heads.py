"""Classifier folders as the command accepts them: classify with the option head compared with NumPy, what is refused
and what can be forced, and inspect. The folder is written here, by hand: its form is documented (stages/README.md,
classify)."""
import hashlib
import json

import numpy as np
from PIL import Image

import harness
from harness import MILLRACE, call

PIPELINE = """\
version: 1
pipeline: heads
sources:
  pictures: {{uri: "{pictures}"}}
stages:
  decode: {{input: pictures}}
  histogram: {{input: decode, bins: 8, size: 24x24}}
  classify: {{input: histogram, head: "{head}", top_k: 4{more}}}
  results: {{type: jsonl, input: classify, path: "${{OUTPUT:--}}"}}
"""
LABELS = ["red", "green", "blue"]


class Heads(harness.Case):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(2)
        self.pictures, self.head = self.folder / "pictures", self.folder / "head"
        self.pictures.mkdir()
        for i in range(12):
            picture = rng.integers(0, 120, (24, 24, 3), dtype=np.uint8)
            picture[..., i % 3] += 130
            Image.fromarray(picture).save(self.pictures / f"{i:02}.png")
        self.weights = rng.normal(size=(3, 25)).astype("f4")

    def save(self, labels=LABELS, **card):
        self.head.mkdir(exist_ok=True)
        np.save(self.head / "weights.npy", self.weights)
        (self.head / "labels.txt").write_text("\n".join(labels) + "\n")
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                 for path in self.head.iterdir() if path.name != "head.json"}
        card = {"format": 1, "version": "0.1.0", "kind": "softmax", "width": 24, "classes": len(labels),
                "files": files, **card}
        (self.head / "head.json").write_text(json.dumps(card))

    def run_head(self, more="", code=0):
        return self.run_pipeline(PIPELINE.format(pictures=self.pictures, head=self.head, more=more), code=code)

    def histogram(self, row):
        picture = np.asarray(Image.open(row["file"]))
        return np.concatenate([np.histogram(picture[..., c], bins=8, range=(0, 256))[0] for c in range(3)]) / (24 * 24)

    def assert_scores(self, run, activation):
        self.assert_balanced(run)
        self.assertEqual(len(run.rows), 12)
        for row in run.rows:
            logits = self.weights[:, :-1].astype("f8") @ self.histogram(row) + self.weights[:, -1]
            wanted = activation(logits)
            for one in row["classes"]:
                self.assertEqual(one["label"], LABELS[one["index"]])
                self.assertAlmostEqual(one["score"], wanted[one["index"]], delta=1e-5)

    def test_the_head_brings_the_way_to_scores(self):
        self.save()
        self.assert_scores(self.run_head(), lambda z: np.exp(z) / np.exp(z).sum())
        self.save(kind="logistic")
        self.assert_scores(self.run_head(), lambda z: 1 / (1 + np.exp(-z)))

    def test_more_classes_than_are_evaluated(self):
        """classify reports the best 1,000 of 1,001: for the first picture without the last class, for the second with
        it. Figures would be for other classes than the pipeline's."""
        self.weights = np.zeros((1001, 25), "f4")
        self.weights[1000, 0], self.weights[1000, -1] = 100, -1  # dark red, which the first picture lacks
        self.save([f"c{i:04}" for i in range(1001)])
        data = self.folder / "data.csv"
        data.write_text(f"path,label\n{self.pictures}/00.png,c0000\n{self.pictures}/01.png,c0001\n")
        path = self.write(PIPELINE.format(pictures=self.pictures, head=self.head, more=""))
        self.millrace("evaluate", path, "--data", data, code=65,
                      says="classify has more than 1000 classes; so many are evaluated")

    def test_scores_that_are_not_numbers(self):
        """A unit that overflows, and has no weight afterwards: no class can be given for the first picture."""
        first = np.zeros((1, 25), "f4")
        first[0, 5:8] = first[0, -1] = 3.4e38  # bright red
        self.head.mkdir()
        np.save(self.head / "layer-1.npy", first)
        np.save(self.head / "layer-2.npy", np.zeros((3, 2), "f4"))
        self.save(kind="perceptron", units=[1, 3])
        data = self.folder / "data.csv"
        data.write_text("path,label\n" + "".join(f"{self.pictures}/{i:02}.png,red\n" for i in range(12)))
        path = self.write(PIPELINE.format(pictures=self.pictures, head=self.head, more=""))
        done = self.millrace("evaluate", path, "--data", data, code=65)
        self.assertRegex(done.stderr, r"classify gives no classes for 4 of 12 pictures, since the logits are not "
                                      r"finite; the first is .*/0[0369].png")

    def test_another_pipeline_is_refused_unless_it_is_overruled(self):
        self.save(digest="0" * 64, stages="decode <- source.out at in\nhistogram <- decode.out at in\nhistogram.bins "
                                          "= 16\n")
        run = self.run_head(code=78)
        self.assertIn("pipeline.yaml:8:", run.err)
        self.assertIn("was trained on vectors of another pipeline", run.err)
        self.assertIn("histogram.bins is 8, and was 16", run.err)
        run = self.run_head(", force: true")
        self.assertEqual(len(run.rows), 12)
        (forced,) = run.summary["forced"]
        self.assertEqual(forced["stage"], "classify")
        self.assertIn("histogram.bins is 8, and was 16", forced["why"])
        text = self.millrace("run", self.folder / "pipeline.yaml", "--output", self.folder / "results.jsonl")
        self.assertIn("classify: forced: the classifier in", text.stdout + text.stderr)
        plan = call([MILLRACE, "plan", self.folder / "pipeline.yaml"])
        self.assertIn("forced: the classifier in", plan.stdout)

    def test_force_on_the_command_line(self):
        """The same as the option, in every verb that accepts a head, and in each process with several nodes."""
        self.save(digest="0" * 64, stages="decode <- source.out at in\nhistogram <- decode.out at in\nhistogram.bins "
                                          "= 16\n")
        self.run_head(code=78)
        path, why = self.folder / "pipeline.yaml", "histogram.bins is 8, and was 16"
        out = ("--output", self.folder / "results.jsonl")
        done = self.millrace("run", path, "--force", "--json", *out)
        (forced,) = json.loads(done.stdout)["forced"]
        self.assertIn(why, forced["why"])
        self.assertIn(why, call([MILLRACE, "plan", path, "--force"]).stdout)
        self.assertEqual(call([MILLRACE, "plan", path]).returncode, 78)
        nodes = ("nodes: {reader: {sources: [pictures], stages: [decode]}, "
                 "center: {stages: [histogram, classify, results]}}\n")
        path.write_text(path.read_text().replace("stages:\n", nodes + "stages:\n"))
        self.assertEqual(call([MILLRACE, "run", path, *out]).returncode, 78)
        self.millrace("run", path, "--force", *out, says=why)
        self.assertEqual(len((self.folder / "results.jsonl").read_text().splitlines()), 12)

    def test_what_force_does_not_overrule(self):
        """Files that do not match the card."""
        self.save()
        (self.head / "labels.txt").write_text("a\nb\n")
        self.run_head(code=65)
        self.millrace("run", self.folder / "pipeline.yaml", "--force", code=65, says="labels.txt is not the file")

    def test_what_was_changed_is_refused(self):
        self.save()
        weights = np.load(self.head / "weights.npy")
        weights[1, 3] += 1
        np.save(self.head / "weights.npy", weights)
        run = self.run_head(code=65)
        self.assertIn("weights.npy is not the file that head.json was written with", run.err)
        self.millrace("inspect", self.head, code=65, says="weights.npy is not the file")

    def test_a_card_of_others_ends_no_process(self):
        """Nested a million deep; without a card's counts; with numbers that do not fit."""
        self.save(figures=[])
        card = (self.head / "head.json").read_text()
        for deep in ("[" * 10 ** 6 + "]" * 10 ** 6, '/* " */' + '{"a":' * 10 ** 5 + "1" + "}" * 10 ** 5, "[" * 10 ** 6):
            (self.head / "head.json").write_text(card.replace('"figures": []', f'"figures": {deep}'))
            self.millrace("inspect", self.head, code=65, says="its values are nested more than 64 deep")
        (self.head / "head.json").write_text(card)
        (told,) = json.loads(call([MILLRACE, "inspect", self.head, "--json"]).stdout)
        self.assertEqual(told["rows"], {"train": 0, "validation": 0, "test": 0})
        self.assertEqual(told["constant_features"], 0)
        self.save(rows={"train": -1, "validation": 1e300}, tried=[{"steps": 2 ** 40, "c": "x"}])
        (told,) = json.loads(call([MILLRACE, "inspect", self.head, "--json"]).stdout)
        self.assertEqual(told["rows"], {"train": 0, "validation": 0, "test": 0})
        self.assertEqual(told["penalties"][0]["steps"], 2 ** 31 - 1)
        self.save(digest="0" * 64, stages="a\n" * 2 ** 20)  # compared in linear time
        self.assertIn("; and ", self.run_head(code=78).err)

    def test_inspect_shows_the_card(self):
        self.save(pipeline="heads", seed="18446744073709551615", figures={"accuracy": 0.875}, split="by hand",
                  rows={"train": 7, "validation": 3, "test": 2}, chosen=1, warnings=["few rows"],
                  tried=[{"c": 0.5, "objective": 1.25, "validation": None, "steps": 3, "end": "gradient"},
                         {"c": 2, "objective": 1.125, "validation": 0.5, "steps": 4, "end": "steps"}])
        done = call([MILLRACE, "inspect", self.head, "--json"])
        (card,) = json.loads(done.stdout)
        self.assertEqual((card["kind"], card["classifier"], card["features"], card["classes"]),
                         ("head", "softmax", 24, LABELS))
        self.assertEqual(card["figures"], {"accuracy": 0.875})
        self.assertEqual(card["seed"], 2 ** 64 - 1)
        self.assertEqual(card["rows"], {"train": 7, "validation": 3, "test": 2})
        self.assertEqual([one["chosen"] for one in card["penalties"]], [False, True])
        self.assertEqual([one["validation"] for one in card["penalties"]], [None, 0.5])
        self.assertEqual((card["pipeline"], card["split"], card["warnings"]), ("heads", "by hand", ["few rows"]))
        text = call([MILLRACE, "inspect", self.head]).stdout
        for part in ("softmax", "red, green, blue", "7 for training",
                     "C = 0.5: objective 1.25 after 3 steps (it is at its minimum)\n",
                     "C = 2: objective 1.125 after 4 steps (as many steps as were allowed), log loss of validation 0.5",
                     "few rows", "test           accuracy             0.875\n", "head: "):
            self.assertIn(part, text)
        for end, words in (("progress", "(it hardly fell any more)"),
                           ("precision", "(no step made it smaller)"),
                           ("patience", "(several epochs were no better on validation)"),
                           ("of another version", "(of another version)"), ("", "after 3 steps\n")):
            self.save(tried=[{"c": 0.5, "objective": 1.25, "validation": None, "steps": 3, "end": end}])
            self.assertIn(words, call([MILLRACE, "inspect", self.head]).stdout)
