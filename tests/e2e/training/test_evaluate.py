"""millrace evaluate: figures compared with scikit-learn's on the same scores, and a self-contained page."""
import html.parser
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import xml.etree.ElementTree
import unittest

import numpy
import sklearn.metrics as metrics
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

import digits
from harness import MILLRACE, call

STRANGE = '<b>&"one"'


class Page(html.parser.HTMLParser):
    """Its elements, and whether each is closed."""
    EMPTY = {"meta", "img", "br", "rect", "line", "polyline", "circle"}

    def __init__(self, text):
        super().__init__()
        self.open, self.sources, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.sources += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in self.EMPTY or self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


def drawn(path):
    """What the page's script makes of its data, which it has from nowhere else."""
    text = path.read_text()
    data, script = re.fullmatch(r'.*<script id="data"[^>]*>(.*?)</script>\n<script>(.*?)</script>\n</body>\n</html>\n',
                                text, re.S).groups()
    browser = (f"const data_ = {{textContent: {json.dumps(data)}}}, main = {{}}; "
               "const document = {title: '', getElementById: () => data_, querySelector: () => main};"
               f"{script};console.log(main.innerHTML)")
    return text, subprocess.run(["node", "-"], input=browser, capture_output=True, text=True, check=True).stdout


class Evaluation(digits.Kept):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rows = digits.files(digits.cut(), 20)
        split = digits.parts(len(rows))
        # Two pictures per group. The class of nines has a strange name, and eights are only for training.
        cls.rows = [[path, STRANGE if label == "9" else label, f"group {i // 2}",
                     "train" if label == "8" else split[i // 2]]
                    for i, (path, label) in enumerate(rows)]
        cls.list = digits.write_list(cls.kept / "digits.csv", cls.rows)
        cls.head = cls.kept / "head"
        done = call([MILLRACE, "train", digits.PIPELINE, "--data", cls.list, "--output", cls.head, "--penalty", "0.01",
                     "--cache", cls.kept / "cache", "--json"])
        assert done.returncode == 0, done.stderr
        cls.trained = json.loads(done.stdout)

    def evaluate(self, *arguments, data=None, code=0):
        done = self.millrace("evaluate", digits.PIPELINE, "--data", data or self.list, *arguments, code=code,
                             environment={"HEAD": str(self.head)})
        return done

    def test_a_pipeline_with_nodes(self):
        """It runs in one process, and reports the same."""
        nodes = "nodes: {reader: {sources: [pictures], stages: [decode]}, center: {stages: [hog, classify, results]}}\n"
        path = self.folder / "nodes.yaml"
        path.write_text(pathlib.Path(digits.PIPELINE).read_text().replace("stages:\n", nodes + "stages:\n"))
        one = [json.loads(self.evaluate("--json").stdout),
               json.loads(call([MILLRACE, "evaluate", path, "--data", self.list, "--json"],
                               environment={"HEAD": str(self.head)}).stdout)]
        self.assertEqual(one[0]["log_loss"], one[1]["log_loss"])
        self.assertEqual(one[0]["right"], one[1]["right"])
        note = "all stages ran in this process, and not on the pipeline's nodes"
        for pipeline, said in ((path, True), (digits.PIPELINE, False)):
            told = call([MILLRACE, "evaluate", pipeline, "--data", self.list], environment={"HEAD": str(self.head)})
            self.assertEqual(note in told.stdout, said, told.stdout)

    def test_what_is_forced_is_said(self):
        """In every summary: in run (test_heads), as text and JSON, on the page, and beside an exported file."""
        other = ("--set", "stages.hog.gamma=false")
        self.assertIn("hog.gamma is false, and was true", self.evaluate(*other, code=78).stderr)
        self.assertNotIn("forced", json.loads(self.evaluate("--json").stdout))
        page, force = self.folder / "page.html", (*other, "--force")
        told = self.evaluate(*force, "--page", page).stdout
        self.assertRegex(told, "forced     classify: the classifier in .* hog.gamma is false, and was true")
        self.assertIn("hog.gamma is false, and was true", page.read_text())
        for given in (force, (*other, "--set", "stages.classify.force=true")):
            self.assertIn("hog.gamma is false", json.loads(self.evaluate(*given, "--json").stdout)["forced"])
        self.assertNotIn("forced", json.loads(self.evaluate("--force", "--json").stdout))
        done = call([MILLRACE, "export", digits.PIPELINE, "--data", self.list, "--output", self.folder / "x.onnx",
                     *force], environment={"HEAD": str(self.head)})
        if "ONNX Runtime" not in done.stderr:
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("hog.gamma is false, and was true", done.stdout)

    def test_as_scikit_learn(self):
        scores = self.folder / "scores.jsonl"
        told = json.loads(self.evaluate("--part", "test", "--json", "--scores", scores).stdout)
        rows = [json.loads(line) for line in scores.read_text().splitlines()]
        self.assertEqual([row["file"] for row in rows], [str(row[0]) for row in self.rows if row[3] == "test"])
        truth, score = numpy.array([row["truth"] for row in rows]), numpy.array([row["scores"] for row in rows])
        first, labels = score.argmax(axis=1), range(score.shape[1])
        self.assertNotIn(8, truth)
        near = {"delta": 1e-12}
        self.assertAlmostEqual(told["accuracy"], metrics.accuracy_score(truth, first), **near)
        self.assertAlmostEqual(told["balanced_accuracy"], metrics.recall_score(truth, first, labels=numpy.unique(truth),
                                                                               average="macro"), **near)
        for name, function in (("precision", metrics.precision_score), ("recall", metrics.recall_score),
                               ("f1", metrics.f1_score)):
            self.assertAlmostEqual(told[name], function(truth, first, average="macro", zero_division=0), **near)
            each = function(truth, first, labels=labels, average=None, zero_division=0)
            for one, value in zip(told["classes"], each):
                self.assertAlmostEqual(one[name], value, **near)
        self.assertEqual(told["confusion"], metrics.confusion_matrix(truth, first, labels=labels).tolist())
        chosen = numpy.clip(score[numpy.arange(len(truth)), truth], 2.0**-52, 1 - 2.0**-52)
        self.assertAlmostEqual(told["log_loss"], -numpy.log(chosen).mean(), **near)
        for j, one in enumerate(told["classes"]):
            if one["rows"] == 0:
                self.assertIsNone(one["roc_area"])
                continue
            self.assertAlmostEqual(one["roc_area"], metrics.roc_auc_score(truth == j, score[:, j]), **near)
            self.assertAlmostEqual(one["average_precision"], metrics.average_precision_score(truth == j, score[:, j]),
                                   **near)
        self.check_temperature(told, truth, score)
        # train has reported the same for the same pictures.
        for name in ("accuracy", "log_loss", "confusion", "intervals"):
            self.assertEqual(told[name], self.trained["test"][name])

    def check_temperature(self, told, truth, score):
        """Fitted to the validation part, as scipy does; the figures with it are for the requested part."""
        scores = self.folder / "validation.jsonl"
        self.evaluate("--part", "validation", "--scores", scores)
        rows = [json.loads(line) for line in scores.read_text().splitlines()]
        classes = numpy.array([row["truth"] for row in rows])
        logits = numpy.log(numpy.array([row["scores"] for row in rows]))

        def loss(temperature):
            return -log_softmax(logits / temperature, axis=1)[numpy.arange(len(rows)), classes].mean()

        fitted = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-10}).x
        tempered = told["temperature"]
        self.assertEqual(tempered["rows"], len(rows))
        self.assertAlmostEqual(tempered["fitted"], fitted, delta=1e-5 * fitted)
        # train has fitted the same to the logits, whose scores are in single precision.
        self.assertAlmostEqual(tempered["fitted"], self.trained["temperature"], delta=1e-4 * fitted)
        made = softmax(numpy.log(score) / tempered["fitted"], axis=1)
        chosen = numpy.clip(made[numpy.arange(len(truth)), truth], 2.0**-52, 1 - 2.0**-52)
        self.assertAlmostEqual(tempered["log_loss"], -numpy.log(chosen).mean(), delta=1e-12)
        surest, right = made.max(axis=1), made.argmax(axis=1) == truth
        bins = numpy.minimum((surest * 15).astype(int), 14)
        error = sum(abs(right[bins == i].sum() - surest[bins == i].sum()) for i in range(15)) / len(truth)
        self.assertAlmostEqual(tempered["calibration_error"], error, delta=1e-12)

    @unittest.skipUnless(shutil.which("node"), "without node, which runs the page's script")
    def test_page(self):
        path = self.folder / "page.html"
        done = self.evaluate("--page", path)
        self.assertIn("--part test", done.stdout)
        file, text = drawn(path)
        self.assertNotIn("://", re.sub(r"base64,[^\"]*", "", file))
        self.assertNotIn("<b>&", file)
        page = Page(text)
        self.assertEqual(page.open, [])
        self.assertGreater(len(page.sources), 0)
        self.assertTrue(all(source.startswith("data:image/bmp;base64,") for source in page.sources))
        self.assertNotIn("<b>", text)
        self.assertIn(STRANGE, page.text)
        self.assertIn("log loss at temperature", page.text)
        plots = re.findall(r"<svg.*?</svg>", text, re.S)
        self.assertEqual(len(plots), 4)
        shapes = [xml.etree.ElementTree.fromstring(svg.replace("&ndash;", "-")) for svg in plots]
        # The confusion's row and column names must be complete.
        names = [text.text for text in shapes[3].iter("text")]
        for label in [*"012345678", STRANGE]:
            self.assertGreaterEqual(names.count(label), 2, label)
        self.assertIn("say little: --part test leaves them out", page.text)
        self.evaluate("--page", path, "--part", "test")
        self.assertNotIn("say little", drawn(path)[1])
        self.assertNotRegex(page.text, "nan|NaN|undefined|null")

    def test_scores_are_whole_or_not_there(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

        scores = self.folder / "scores.jsonl"
        self.millrace("evaluate", digits.PIPELINE, "--data", self.list, "--scores", scores, code=74,
                      says=f"cannot write {scores}: File too large", environment={"HEAD": str(self.head)},
                      preexec_fn=limit)
        self.assertEqual(list(self.folder.iterdir()), [])
        os.mkfifo(self.folder / "pipe")
        self.assertIn("pipe is not a regular file", self.evaluate("--page", self.folder / "pipe", code=74).stderr)
        self.assertTrue((self.folder / "pipe").is_fifo())
        self.evaluate("--scores", scores)
        rows = scores.read_text().splitlines()
        self.assertEqual(len(rows), len(self.rows))
        self.assertEqual([line for line in self.evaluate("--scores", "/dev/stdout").stdout.splitlines()
                          if line.startswith("{")], rows)

    def test_a_seed_of_more_than_53_bits(self):
        seed = 2**53 + 1
        rows = [[*row[:2], "", ""] for row in self.rows]
        data, head = digits.write_list(self.folder / "free.csv", rows), self.folder / "seeded"
        done = self.millrace("train", digits.PIPELINE, "--data", data, "--output", head, "--penalty", "0.01", "--cache",
                             self.kept / "cache", "--seed", str(seed), "--json")
        trained = json.loads(done.stdout)["test"]
        done = call([MILLRACE, "evaluate", digits.PIPELINE, "--data", data, "--part", "test", "--json"],
                    environment={"HEAD": str(head)})
        told = json.loads(done.stdout)
        self.assertEqual((told["rows"], told["right"], told["log_loss"]),
                         (trained["rows"], trained["right"], trained["log_loss"]))

    def test_untrained_names_and_refusals(self):
        other = digits.write_list(self.folder / "other.csv", [[self.rows[0][0], "zero", "", ""]])
        self.assertIn('the pipeline knows no class "zero"', self.evaluate(data=other, code=65).stderr)
        one = digits.write_list(self.folder / "one.csv", [row for row in self.rows if row[1] == "3"])
        self.assertEqual(json.loads(self.evaluate("--json", data=one).stdout)["rows"], 20)
        self.assertIn("--part takes", self.evaluate("--part", "tests", code=64).stderr)
        page = self.folder / "nothing" / "page.html"
        self.assertIn("cannot write", self.evaluate("--page", page, code=74).stderr)
        pipeline = self.write(digits.PIPELINE.read_text().replace('head: "${HEAD:-../build/head}"',
                                                                  f'weights: "{self.head}/weights.npy"'))
        self.millrace("evaluate", pipeline, "--data", one, "--part", "test", code=64, says="has no head")
        # Without labels the classes are numbers.
        digit = digits.write_list(self.folder / "digit.csv", [[self.rows[0][0], "1", "", ""]])
        done = call([MILLRACE, "evaluate", pipeline, "--data", digit, "--json"])
        self.assertEqual(json.loads(done.stdout)["rows"], 1, done.stderr)
