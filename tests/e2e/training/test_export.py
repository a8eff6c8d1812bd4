"""Classifiers as ONNX files: onnx's own checker, and ONNX Runtime in Python compared with millrace's rows."""
import hashlib
import json
import os
import pathlib
import shutil

import numpy as np

import onnx
import onnxruntime
from onnx import TensorProto, helper

import digits
from harness import MODELS, ROOT, Case

AT_ONCE = 4

# With options that spare the search for the best penalty.
KINDS = {"softmax": ("--penalty", "0.1"), "logistic": ("--penalty", "0.1"), "squared-hinge": ("--penalty", "0.1"),
         "prototypes": (), "neighbors": (), "perceptron": ("--hidden", "16")}
PIPELINE = """\
version: 1
pipeline: own
sources:
  pictures: {{uri: "{folder}"}}
stages:
  decode:     {{input: pictures}}
  preprocess: {{input: decode, size: 224x224, fit: center-crop, crop_fraction: 0.875, mean: 127, std: 128}}
  network:    {network}
  classify:   {{input: network, head: "{head}", top_k: 10}}
  given:      {{type: jsonl, input: preprocess, features: true, path: "{folder}/given.jsonl"}}
  results:    {{type: jsonl, input: classify, path: "${{OUTPUT:--}}"}}
"""


def rows_of(path):
    return {row["file"]: row for row in map(json.loads, pathlib.Path(path).read_text().splitlines())}


class Exports(Case):
    def session(self, path):
        """Runs the checker, and opens the file."""
        onnx.checker.check_model(onnx.load(path), full_check=True)
        onnxruntime.set_default_logger_severity(3)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.notes = session.get_modelmeta().custom_metadata_map
        self.assertEqual([output.name for output in session.get_outputs()], ["scores", "class"])
        return session

    def assert_told(self, session, inputs, told):
        """All rows' scores, and the first class, must be those in millrace's rows."""
        scores, best = session.run(None, {session.get_inputs()[0].name: np.array(inputs, np.float32)})
        labels = json.loads(self.notes["millrace.labels"])
        for row, found, first in zip(told, scores, best):
            self.assertEqual(labels[first], row["classes"][0]["label"])
            self.assertEqual(len(row["classes"]), len(labels))
            for one in row["classes"]:
                self.assertAlmostEqual(one["score"], float(found[one["index"]]), delta=1e-5)


class Digits(Exports):
    def setUp(self):
        super().setUp()
        rows = digits.files(digits.cut(), 40)
        self.list = digits.write_list(self.folder / "digits.csv", [[path, label, "", part] for (path, label), part
                                                                   in zip(rows, digits.parts(len(rows)))])

    def train(self, *words, name="head"):
        self.head = self.folder / name
        done = self.millrace("train", digits.PIPELINE, "--data", self.list, "--output", self.head, "--cache",
                             self.folder / "cache", "--no-look-alikes", "--json", *words)
        return json.loads(done.stdout)

    def results(self, *heads):
        """The vectors, and the rows of the pipeline with each of these heads: one run has a branch for each."""
        text = digits.PIPELINE.read_text().replace("top_k: 3", "top_k: 10")
        text += f'  given: {{type: jsonl, input: hog, features: true, path: "{self.folder}/given.jsonl"}}\n'
        for head in heads:
            text += (f'  classify-{head.name}: {{type: classify, input: hog, head: "{head}", top_k: 10}}\n'
                     f'  told-{head.name}: {{type: jsonl, input: classify-{head.name}, '
                     f'path: "{self.folder}/{head.name}.jsonl"}}\n')
        self.millrace("run", self.write(text), "--input", self.list, "--set", f"stages.results.path={self.folder}/rows",
                      "--set", f"stages.classify.head={heads[0]}")
        given = rows_of(self.folder / "given.jsonl")
        self.assertEqual(len(given), 400)
        told = [rows_of(self.folder / f"{head.name}.jsonl") for head in heads]
        self.assertEqual([one.keys() for one in told], len(heads) * [given.keys()])
        return [row["features"] for row in given.values()], [[one[file] for file in given] for one in told]

    def test_every_kind(self):
        trained = {kind: self.train("--model", kind, *words, "--export", "onnx", name=kind)
                   for kind, words in KINDS.items()}
        given, rows = self.results(*(self.folder / kind for kind in KINDS))
        for kind, result in zip(KINDS, rows, strict=True):
            with self.subTest(kind=kind):
                told, head = trained[kind], self.folder / kind
                model = head / "model.onnx"
                self.assertEqual(told["onnx"]["file"], str(model))
                self.assertIsNone(told["onnx"]["network"])
                self.assertGreaterEqual(told["onnx"]["rows"], 30)
                self.assertLessEqual(told["onnx"]["largest_difference"], 1e-5)
                session = self.session(model)
                self.assertEqual([put.shape for put in session.get_inputs()], [["batch", 900]])
                self.assertEqual([out.shape for out in session.get_outputs()], [["batch", 10], ["batch"]])
                self.assertEqual(self.notes["millrace.kind"], kind)
                self.assertEqual(json.loads(self.notes["millrace.labels"]), [str(i) for i in range(10)])
                self.assertEqual(self.notes["millrace.digest"], told["vectors"]["digest"])
                self.assertIn("hog.cell = 4x4", self.notes["millrace.stages"])
                self.assertEqual(json.loads(self.notes["millrace.figures"])["rows"],
                                 json.loads((head / "head.json").read_text())["figures"]["rows"])
                self.assert_told(session, given, result)
                self.millrace("inspect", head, model)  # the folder is still a classifier's

    def test_a_classify_that_has_labels(self):
        """As for a network's own classes: they are replaced, and so are weights."""
        labels, weights = self.folder / "labels.txt", self.folder / "weights.npy"
        labels.write_text("this\nthat\n")
        np.save(weights, np.zeros((2, 901), np.float32))
        classify = f"{{type: classify, input: hog, labels: {labels}, weights: {weights}, activation: none}}"
        told = self.train("--export", "onnx", "--set", f"stages.classify={classify}", "--penalty", "0.1")
        self.assertLessEqual(told["onnx"]["largest_difference"], 1e-5)
        given, (rows,) = self.results(self.head)
        self.assert_told(self.session(self.head / "model.onnx"), given, rows)

    def test_a_head_that_is_there(self):
        self.train("--model", "perceptron", "--hidden", "16,8")
        self.assertFalse((self.head / "model.onnx").exists())
        files = [self.folder / name for name in ("pipeline.onnx", "folder.onnx")]
        done = self.millrace("export", digits.PIPELINE, "--data", self.list, "--output", files[0], "--set",
                             f"stages.classify.head={self.head}", "--json")
        self.assertEqual(json.loads(done.stdout)["rows"], 64)
        done = self.millrace("export", self.head, "--output", files[1])
        self.assertIn("64 random vectors", done.stdout)
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())
        given, (rows,) = self.results(self.head)
        self.assert_told(self.session(files[0]), given, rows)

    def test_refused(self):
        self.train()
        output = self.folder / "x.onnx"
        for words, told in (((self.head,), "name the file to write"),
                            ((digits.PIPELINE, "--output", output), "name pictures to compare on"),
                            ((self.head, "--output", output, "--data", self.list), "are for a pipeline")):
            self.assertIn(told, self.millrace("export", *words, code=64).stderr)
        self.assertIn("--export takes onnx", self.millrace("train", digits.PIPELINE, "--export", "tflite",
                                                           code=64).stderr)
        done = self.millrace("export", ROOT / "pipelines/classify-video.yaml", "--data", self.list, "--output", output,
                             code=78)
        self.assertIn("classify has no head to export: name the folder that `millrace train` wrote, with "
                      "--set stages.classify.head=FOLDER", done.stderr)
        self.assertIn("there is no folder", self.millrace("export", self.head, "--output", self.folder / "no/x.onnx",
                                                          code=74).stderr)
        self.assertIn("it has no head.json", self.millrace("export", self.folder, "--output", output, code=65).stderr)
        self.assertFalse(output.exists())
        # Root could replace a device with a file.
        os.mkfifo(self.folder / "pipe")
        self.assertIn("pipe is not a regular file", self.millrace("export", self.head, "--output", self.folder / "pipe",
                                                                  code=74).stderr)
        self.assertTrue((self.folder / "pipe").is_fifo())

    def test_not_written_if_it_tells_something_else(self):
        # Logits that rounding alone decides: another summing order gives other scores.
        head, rng = self.folder / "rough", np.random.default_rng(1)
        head.mkdir()
        weights = np.tile(1e8 * rng.normal(size=900), (2, 1)) * (1 + 1e-7 * rng.normal(size=(2, 900)))
        np.save(head / "weights.npy", np.hstack([weights, np.zeros((2, 1))]).astype("f4"))
        (head / "labels.txt").write_text("a\nb\n")
        files = {name: hashlib.sha256((head / name).read_bytes()).hexdigest() for name in ("weights.npy", "labels.txt")}
        (head / "head.json").write_text(json.dumps({"format": 1, "version": "0.1.0", "kind": "softmax", "width": 900,
                                                    "classes": 2, "files": files}))
        done = self.millrace("export", head, "--output", self.folder / "x.onnx", code=65)
        self.assertRegex(done.stderr, r"x.onnx was not written: of \d+ of 64 rows its scores differ from those of "
                                      r"classify by up to .*, and 1e-04 is allowed")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["digits.csv", "rough"])


class Joined(Exports):
    def setUp(self):
        super().setUp()
        digits.need()
        if not (MODELS / "lite0-features.onnx").exists():
            self.skipTest("there is no model: tools/models makes it")
        cut = digits.cut()
        self.pictures, self.head = self.folder / "pictures", self.folder / "head"
        for label in ("0", "1", "7"):
            (self.pictures / label).mkdir(parents=True)
            for path in sorted((cut / label).iterdir())[:6]:
                shutil.copy(path, self.pictures / label / path.name)

    def pipeline(self, network):
        return self.write(PIPELINE.format(folder=self.folder, network=network, head=self.head))

    def check(self, network, name, nodes):
        """Trains after that stage, and compares the file with the pipeline's results."""
        pipeline = self.pipeline(network)
        self.millrace("train", pipeline, "--data", self.pictures, "--output", self.head, "--cache",
                      self.folder / "cache", "--no-look-alikes", "--export", "onnx")
        output = self.folder / "rows.jsonl"
        self.millrace("run", pipeline, "--input", f"{self.pictures}/*/*.png", "--set", f"stages.results.path={output}")
        given, told = rows_of(self.folder / "given.jsonl"), rows_of(output)
        session = self.session(self.head / "model.onnx")
        self.assertEqual(session.get_inputs()[0].name, name)
        tensors = [np.reshape(given[file]["features"], (3, 224, 224)) for file in told]
        self.assertEqual(len(tensors), 18)
        self.assert_told(session, tensors, told.values())
        kinds = [node.op_type for node in onnx.load(self.head / "model.onnx").graph.node]
        self.assertEqual(kinds[-len(nodes):], nodes)
        prepared = json.loads(self.notes["millrace.input"])
        self.assertEqual((prepared["format"], prepared["fit"], prepared["order"], prepared["interpolation"]),
                         ("tensor f32 3x224x224", "center-crop", "rgb", "bilinear"))
        self.assertEqual((prepared["mean"], prepared["std"], prepared["crop_fraction"]), ([127] * 3, [128] * 3, 0.875))

    def test_features(self):
        self.check(f"{{type: features, input: preprocess, model: \"{MODELS}/lite0-features.onnx\", tensor: features, "
                   "normalize: l2}", "images",
                   ["Flatten", "Reshape", "LpNormalization", "Gemm", "Softmax", "ArgMax"])

    def test_an_inner_tensor_is_where_the_network_ends(self):
        self.check(f"{{type: features, input: preprocess, model: \"{MODELS}/lite0.onnx\", tensor: _conv_head.relu6, "
                   "pool: average}", "images",
                   ["Clip", "GlobalAveragePool", "Reshape", "Gemm", "Softmax", "ArgMax"])
        # The network's thousand classes, 4 bytes each for 1280 numbers, must not be in the file; three others are.
        whole = (MODELS / "lite0.onnx").stat().st_size
        self.assertLess((self.head / "model.onnx").stat().st_size, whole - 4 * 990 * 1280)

    def test_logits_of_infer(self):
        self.check(f"{{type: infer, input: preprocess, model: \"{MODELS}/lite0.onnx\"}}", "images",
                   ["Gemm", "Reshape", "Gemm", "Softmax", "ArgMax"])
        self.check_the_file_as_a_network()

    def check_the_file_as_a_network(self):
        """A classifier is trained on another's scores."""
        first = self.folder / "first.onnx"
        (self.head / "model.onnx").rename(first)
        labels = (self.head / "labels.txt").read_text().splitlines()
        self.assertIn(f"a file with {len(labels)} lines: \"{labels[0]}\", \"{labels[1]}\"",
                      self.millrace("inspect", first).stdout)
        pipeline = self.pipeline(f"{{type: features, input: preprocess, model: \"{first}\", tensor: scores}}")
        self.millrace("train", pipeline, "--data", self.pictures, "--output", self.head, "--cache",
                      self.folder / "cache", "--no-look-alikes", "--export", "onnx")
        model = onnx.load(self.head / "model.onnx")
        onnx.checker.check_model(model, full_check=True)
        self.assertEqual([output.name for output in model.graph.output], ["millrace.2.scores", "millrace.2.class"])
        keys = [note.key for note in model.metadata_props]
        self.assertEqual(len(keys), len(set(keys)))

    def test_networks_that_cannot_be_joined(self):
        def network(version, **changed):
            nodes = [helper.make_node("Flatten", ["x"], ["out"], axis=1)]
            value = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])]
            graph = helper.make_graph(nodes, "flat", value, [helper.make_tensor_value_info("out", TensorProto.FLOAT,
                                                                                          ["n", 192])])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=6)
            onnx.save(model, self.folder / "flat.onnx")
        text = PIPELINE.replace("size: 224x224", "size: 8x8")
        pipeline = self.write(text.format(folder=self.folder, head=self.head, network="{type: features, input: "
                                          f"preprocess, model: \"{self.folder}/flat.onnx\"}}"))
        network(10)
        words = ("train", pipeline, "--data", self.pictures, "--output", self.head, "--cache", self.folder / "cache",
                 "--no-look-alikes", "--penalty", "0.1", "--export", "onnx")
        done = self.millrace(*words, code=65)
        self.assertIn("flat.onnx is of operator set 10, and can be joined from 11 on", done.stderr)
        self.assertIn("the head is in", done.stderr)
        self.assertEqual(sorted(path.name for path in self.head.iterdir()), ["head.json", "labels.txt", "weights.npy"])
        network(11)
        self.millrace(*words)
        self.session(self.head / "model.onnx")
