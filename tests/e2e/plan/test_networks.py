"""Networks as exporters write them: what plan knows about types, shapes, batches and last operators; the numbers must
equal ONNX Runtime's."""
import os
import pty
import subprocess

# ONNX Runtime builds send telemetry unless this is set before they are loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper, numpy_helper

from harness import MILLRACE, TIMEOUT, Case, call, free_port, pipeline, start

VALUE = helper.make_tensor_value_info
PICTURES = VALUE("x", T.FLOAT, ["n", 3, 8, 8])
MEAN = helper.make_node("ReduceMean", ["x"], ["m"], axes=[2, 3], keepdims=0)
WEIGHTS = {"w": np.linspace(-1, 1, 9, dtype="f4").reshape(3, 3), "w10": np.ones((3, 10), "f4")}
LOGITS = [MEAN, helper.make_node("MatMul", ["m", "w"], ["l"])]
TEN = [MEAN, helper.make_node("MatMul", ["m", "w10"], ["l"])]
HEAD = pipeline(dict(video='uri: "lavfi:testsrc2=size=32x24:rate=10:duration=0.8"'), name="networks", decode="",
                preprocess="size: 8x8, normalize: unit")


class Networks(Case):
    def save(self, name, nodes, outputs, inputs=(PICTURES,), opset=13, **more):
        used = {one for node in nodes for one in node.input}
        tensors = [numpy_helper.from_array(array, key) for key, array in WEIGHTS.items() if key in used]
        graph = helper.make_graph(nodes, name, list(inputs), list(outputs), tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        path = self.folder / f"{name}.onnx"
        onnx.save(model, path, **more)
        return path

    def results(self, stages, **more):
        """A pipeline's rows with these stages after `preprocess`; the last is called `last`."""
        tensors = ", tensors: true" if "type: infer" in stages else ""
        return self.run_pipeline(f"{HEAD}{stages}  results: {{type: jsonl, input: last{tensors}, features: true, "
                                 'path: "${OUTPUT:--}"}\n', **more)

    def plan(self, stages, *arguments, code=0):
        """plan's output with joined lines."""
        path = self.write(f"{HEAD}{stages}")
        done = self.millrace("plan", path, *arguments, code=code)
        return done.stderr + " ".join(done.stdout.split())

    def infer(self, path, more=""):
        return f"  last: {{type: infer, input: preprocess, model: {path}{more}}}\n"

    def test_outputs_of_all_types_of_numbers(self):
        kinds = {"f32": (T.FLOAT, "f32"), "f16": (T.FLOAT16, "f32"), "f64": (T.DOUBLE, "f32"), "u8": (T.UINT8, "u8"),
                 "i8": (T.INT8, "i32"), "i16": (T.INT16, "i32"), "u16": (T.UINT16, "i32"), "i32": (T.INT32, "i32"),
                 "u32": (T.UINT32, "i64"), "i64": (T.INT64, "i64"), "u64": (T.UINT64, "i64"), "bool": (T.BOOL, "u8")}
        scale = [helper.make_node("ReduceSum", ["x", "axes"], ["m"], keepdims=0)]
        WEIGHTS["axes"] = np.array([2, 3], "i8")
        path = self.save("types", scale + [helper.make_node("Cast", ["m"], [name], to=kind)
                                           for name, (kind, _) in kinds.items()],
                         [VALUE(name, kind, ["n", 3]) for name, (kind, _) in kinds.items()])
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for more in ("", ", batch: 3", ", batch: {size: 3}, device: sim:0"):
            rows = self.results(self.infer(path, more)).rows
            self.assertEqual(len(rows), 8)
            for row in rows:
                expected = session.run(None, {"x": np.reshape(row["features"], (1, 3, 8, 8)).astype("f4")})
                told = {one["name"]: one for one in row["tensors"]}
                self.assertEqual(list(told), list(kinds))
                for (name, (_, dtype)), values in zip(kinds.items(), expected):
                    self.assertEqual((told[name]["dtype"], told[name]["shape"]), (dtype, [3]), name)
                    np.testing.assert_allclose(told[name]["data"], values[0].astype("f8"), rtol=1e-7, err_msg=name)

    def test_memory_that_there_is_not(self):
        """A size that the network computes: the frame fails, and not the process."""
        WEIGHTS["sizes"] = np.array([1 << 20, 1 << 20, 1, 1], "i8")
        nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[1, 2, 3], keepdims=1),
                 helper.make_node("Identity", ["sizes"], ["computed"]),
                 helper.make_node("Expand", ["m", "computed"], ["large"]),
                 helper.make_node("ReduceMean", ["large"], ["one"], axes=[0, 1, 2], keepdims=1),
                 helper.make_node("Flatten", ["one"], ["y"])]
        path = self.save("large", nodes, [VALUE("y", T.FLOAT, [1, 1])], [VALUE("x", T.FLOAT, [1, 3, 8, 8])])
        run = self.results(self.infer(path))
        self.assertEqual(run.rows, [])
        self.assertIn("8 dropped by last (error)", run.err)
        self.assertIn("alloc", run.err)

    def test_bf16(self):
        """NumPy lacks bf16: the upper half of an f32, rounded to even."""
        path = self.save("bf16", [MEAN, helper.make_node("Cast", ["m"], ["y"], to=T.BFLOAT16)],
                         [VALUE("y", T.BFLOAT16, ["n", 3])])
        whole = self.save("whole", [MEAN], [VALUE("m", T.FLOAT, ["n", 3])])
        for more in ("", ", batch: 3"):
            exactly = self.results(self.infer(whole, more)).rows
            for row, exact in zip(self.results(self.infer(path, more)).rows, exactly):
                one, bits = row["tensors"][0], np.array(exact["tensors"][0]["data"], "f4").view("u4")
                rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000
                self.assertEqual(one["dtype"], "f32")
                np.testing.assert_array_equal(np.array(one["data"], "f4"), rounded.view("f4"))

    def test_half_precision_is_classified_and_a_vector(self):
        path = self.save("half", LOGITS + [helper.make_node("Cast", ["l"], ["y"], to=T.FLOAT16)],
                         [VALUE("y", T.FLOAT16, ["n", 3])])
        features = self.results(self.infer(path).replace("type: infer", "type: features")).rows
        inner = self.results(self.infer(path, ", tensor: l").replace("type: infer", "type: features")).rows
        classes = self.results(self.infer(path).replace("last", "network") +
                               "  last: {type: classify, input: network, top_k: 3}\n").rows
        for row, whole, found in zip(features, inner, classes):
            np.testing.assert_allclose(row["features"], whole["features"], rtol=1e-3)
            scores = np.exp(row["features"]) / np.sum(np.exp(row["features"]))
            self.assertEqual([one["index"] for one in found["classes"]], list(np.argsort(-scores)))
            np.testing.assert_allclose([one["score"] for one in found["classes"]], np.sort(scores)[::-1], rtol=1e-5)

    def test_an_input_without_a_shape(self):
        path = self.save("open", [helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)],
                         [VALUE("y", T.FLOAT, ["n", 3])], [VALUE("x", T.FLOAT, None)])
        for batch in (1, 4):
            rows = self.results(self.infer(path, f", batch: {batch}")).rows
            self.assertEqual(len(rows), 8)
            for row in rows:
                np.testing.assert_allclose(row["tensors"][0]["data"],
                                           np.reshape(row["features"], (3, 8, 8)).mean(axis=(1, 2)), rtol=1e-5)
        # The network accepts only rank 4, which plan finds out.
        self.plan(f"  gray: {{type: histogram, input: decode}}\n  last: {{type: infer, input: gray, model: {path}}}\n",
                  code=65)
        told = call([MILLRACE, "inspect", path]).stdout
        self.assertIn("its input declares no shape, so plan tries that of the frames", told)

    def test_shapes_and_kinds_that_no_frame_has(self):
        add = [helper.make_node("Add", ["x", "x"], ["y"])]
        scalar = self.save("scalar", add, [VALUE("y", T.FLOAT, [])], [VALUE("x", T.FLOAT, [])])
        self.assertIn('the input "x" of scalar.onnx is a single number', self.plan(self.infer(scalar), code=78))
        empty = self.save("empty", add, [VALUE("y", T.FLOAT, ["n", 0, 8])], [VALUE("x", T.FLOAT, ["n", 0, 8])])
        self.assertIn("f32 ?x0x8: with a dimension of 0 it holds nothing", self.plan(self.infer(empty), code=78))
        sequence = self.save("sequence", [helper.make_node("SequenceConstruct", ["x"], ["y"])],
                             [helper.make_tensor_sequence_value_info("y", T.FLOAT, None)])
        self.assertIn('the output "y" of sequence.onnx is a sequence, which', self.plan(self.infer(sequence), code=78))

    def test_outputs_that_have_no_item_for_each_frame(self):
        """One whose first size happens to equal the batch, and one declared for a batch of one."""
        turned = self.save("turned", TEN + [helper.make_node("Transpose", ["l"], ["y"], perm=[1, 0])],
                           [VALUE("y", T.FLOAT, [10, "n"])])
        mean = self.save("mean", TEN + [helper.make_node("ReduceMean", ["l"], ["y"], axes=[0], keepdims=0)],
                         [VALUE("y", T.FLOAT, [10])])
        fixed = self.save("fixed", LOGITS + [helper.make_node("Identity", ["l"], ["y"])], [VALUE("y", T.FLOAT, [1, 3])])
        for path, words in ((turned, "turned.onnx is 10x10 for a batch of 10, and 10x11 for one of 11"),
                            (mean, "mean.onnx is 10 for a batch of 10, and 10 for one of 11"),
                            (fixed, "fixed.onnx is declared as 1x3 and is 10x3")):
            self.assertIn(words, self.plan(self.infer(path, ", batch: 10"), code=78))
            self.assertEqual(len(self.results(self.infer(path)).rows), 8)

    def test_operators_across_a_batch_are_named(self):
        def node(kind, **more):
            return helper.make_node(kind, ["l"], ["y"], name="here", **more)
        dynamic = "DynamicQuantizeLinear"
        mixing = {dynamic: [helper.make_node(dynamic, ["l"], ["q", "s", "z"], name="here"),
                            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])],
                  "Softmax": [node("Softmax", axis=0)], "LpNormalization": [node("LpNormalization", axis=-2)],
                  "ReduceMax": [helper.make_node("ReduceMax", ["l"], ["r"], name="here", axes=[0]),
                                helper.make_node("Sub", ["l", "r"], ["y"])],
                  "MatMul": [helper.make_node("Transpose", ["l"], ["t"], perm=[1, 0]),
                             helper.make_node("MatMul", ["t", "l"], ["c"], name="here"),
                             helper.make_node("MatMul", ["l", "c"], ["y"])]}
        alone = {"last": [node("Softmax", axis=-1)], "max": [helper.make_node("ReduceMax", ["l"], ["r"], axes=[1]),
                                                             helper.make_node("Sub", ["l", "r"], ["y"])]}
        for name, nodes in {**mixing, **alone}.items():
            path = self.save(name, LOGITS + nodes, [VALUE("y", T.FLOAT, ["n", 3])])
            words = f'{name} at node "here" of {name}.onnx computes across the frames of a batch'
            for stage in ("infer", "features"):
                told = self.plan(self.infer(path, ", batch: 4").replace("infer", stage))
                (self.assertIn if name in mixing else self.assertNotIn)(words, told)
                self.assertNotIn("across", self.plan(self.infer(path).replace("infer", stage)))

    def test_outputs_as_long_as_the_values_say(self):
        """Lists with at most max_rows, also empty ones, in one process and in two."""
        def network(name, limit):
            WEIGHTS["limit"] = np.array(limit, "f4")
            return self.save(name, [helper.make_node("Greater", ["x", "limit"], ["g"]),
                                    helper.make_node("NonZero", ["g"], ["at"]),
                                    helper.make_node("Transpose", ["at"], ["rows"], perm=[1, 0])],
                             [VALUE("at", T.INT64, [4, "k"]), VALUE("rows", T.INT64, ["k", 4])])
        nodes = "nodes:\n  a: {stages: [decode, preprocess, last]}\n  b: {stages: results}\n"
        for name, limit in (("some", 0.6), ("none", 2)):
            run = self.results(self.infer(network(name, limit)))
            self.assertEqual(len(run.rows), 8)
            for row in run.rows:
                at, rows = row["tensors"]
                expected = np.nonzero(np.reshape(row["features"], (1, 3, 8, 8)) > WEIGHTS["limit"])
                count = len(expected[0])
                self.assertEqual(count > 0, name == "some")
                self.assertEqual((at["shape"], rows["shape"]), ([4, count], [count, 4]))
                self.assertEqual(at["data"], np.array(expected).flatten().tolist())
                self.assertEqual(rows["data"], np.array(expected).T.flatten().tolist())
            text = (self.folder / "pipeline.yaml").read_text()
            apart = self.run_pipeline(text + nodes)
            self.assertEqual([row["tensors"] for row in apart.rows], [row["tensors"] for row in run.rows])
        path = network("some", 0.6)
        whole = self.results(self.infer(path, ", outputs: [rows]")).rows
        short = self.results(self.infer(path, ", outputs: [rows], max_rows: 5"))
        self.assertEqual([line.split("last: ", 1)[1] for line in short.err.splitlines()],
                         ["a frame has more rows than max_rows (5): it keeps the first of them",
                          "8 frames had more rows than max_rows (5), and keep the first of them"])
        self.assertEqual([row["tensors"][0]["data"] for row in short.rows],
                         [row["tensors"][0]["data"][:20] for row in whole])
        self.assertIn("depend on values (NonZero): such outputs are made for one frame at a time; remove batch",
                      self.plan(self.infer(path, ", batch: 2"), code=78))
        self.assertIn("only infer and detect on the processors (device: cpu) take such outputs",
                      self.plan(self.infer(path, ", device: sim:0"), code=78))

    def test_rows_that_the_network_pads(self):
        """As in exports of Ultralytics with nms and dynamic: the batch alone is open, and no rows are left out."""
        WEIGHTS.update(some=np.array(0.6, "f4"), none=np.zeros((5, 4), "i8"), first=np.array([0]), fifth=np.array([5]))
        path = self.save("padded", [helper.make_node("Greater", ["x", "some"], ["g"]),
                                    helper.make_node("NonZero", ["g"], ["at"]),
                                    helper.make_node("Transpose", ["at"], ["rows"], perm=[1, 0]),
                                    helper.make_node("Concat", ["rows", "none"], ["long"], axis=0),
                                    helper.make_node("Slice", ["long", "first", "fifth", "first"], ["short"]),
                                    helper.make_node("Unsqueeze", ["short", "first"], ["y"])],
                         [VALUE("y", T.INT64, ["n", 5, 4])])
        for row in self.results(self.infer(path, ", max_rows: 2")).rows:
            expected = np.argwhere(np.reshape(row["features"], (1, 3, 8, 8)) > WEIGHTS["some"])[:5]
            self.assertEqual(row["tensors"][0]["shape"], [5, 4])
            self.assertEqual(row["tensors"][0]["data"][:4 * len(expected)], expected.flatten().tolist())
        self.assertIn("depend on values (NonZero): such outputs are made for one frame at a time; remove batch",
                      self.plan(self.infer(path, ", batch: 2"), code=78))

    def test_detections_that_the_network_selects_itself(self):
        """NonMaxSuppression, with which exported detectors end."""
        boxes = {"starts": [[0, 0, 0, 0], [0, 1, 0, 0]], "ends": [[1, 1, 8, 8], [1, 2, 8, 8]]}
        parts = [helper.make_node("Slice", ["x", f"starts{i}", f"ends{i}"], [f"part{i}"]) for i in range(2)]
        for i in range(2):
            for name, values in boxes.items():
                WEIGHTS[f"{name}{i}"] = np.array(values[i], "i8")
        WEIGHTS.update(shape0=np.array([1, 16, 4], "i8"), shape1=np.array([1, 4, 16], "i8"),
                       most=np.array([3], "i8"), overlap=np.array([0.3], "f4"), least=np.array([0.4], "f4"))
        path = self.save("nms", parts + [helper.make_node("Reshape", ["part0", "shape0"], ["boxes"]),
                                         helper.make_node("Reshape", ["part1", "shape1"], ["scores"]),
                                         helper.make_node("NonMaxSuppression",
                                                          ["boxes", "scores", "most", "overlap", "least"], ["y"])],
                         [VALUE("y", T.INT64, ["k", 3])], [VALUE("x", T.FLOAT, [1, 3, 8, 8])])
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        counts = set()
        for row in self.results(self.infer(path)).rows:
            expected = session.run(None, {"x": np.reshape(row["features"], (1, 3, 8, 8)).astype("f4")})[0]
            one = row["tensors"][0]
            counts.add(len(expected))
            self.assertEqual((one["dtype"], one["shape"]), ("i64", list(expected.shape)))
            self.assertEqual(one["data"], expected.flatten().tolist())
        self.assertGreater(max(counts), 1)

    def test_a_network_elsewhere(self):
        """The classifying node may be a machine without the network: it says what it cannot know."""
        network = "networks/of-the-other-machine.onnx"
        nodes = "nodes:\n  a: {stages: [decode, preprocess, network], listen: tcp://127.0.0.1:%d}\n" \
                "  b: {stages: last}\n"
        for stage in ("infer", "features"):
            for more, warns in (("", True), (", activation: softmax", False), (", activation: none", False)):
                text = self.classified(network, more).replace("infer", stage) + nodes % free_port()
                told = self.plan(text, "--node", "b")
                (self.assertIn if warns else self.assertNotIn)(
                    "stages.last: the network that it classifies the output of is not on this machine: "
                    "activation: auto is softmax\n    hint: write activation: none if it ends in softmax", told)

    def classified(self, path, more="", before="network"):
        network = self.infer(path).replace("last", "network")
        return network + f"  last: {{type: classify, input: {before}, top_k: 3{more}}}\n"

    def scores(self, name, row):
        """Scores for the picture in the row, or from the network's own output."""
        if len(row) == 3:
            return row if name in ("softmax", "reshaped", "sigmoid") else np.exp(row) / np.exp(row).sum()
        logits = np.reshape(row, (3, 8, 8)).mean(axis=(1, 2)) @ WEIGHTS["w"]
        return 1 / (1 + np.exp(-logits)) if name == "sigmoid" else np.exp(logits) / np.exp(logits).sum()

    def test_scores_are_not_made_twice(self):
        """activation: auto follows the network's last operator, also through other stages."""
        ends = {"softmax": [helper.make_node("Softmax", ["l"], ["y"], axis=-1)],
                "reshaped": [helper.make_node("Softmax", ["l"], ["p"], axis=-1),
                             helper.make_node("Identity", ["p"], ["y"])],
                "sigmoid": [helper.make_node("Sigmoid", ["l"], ["y"])],
                "log": [helper.make_node("LogSoftmax", ["l"], ["y"], axis=-1)],
                "logits": [helper.make_node("Identity", ["l"], ["y"])]}
        for name, nodes in ends.items():
            path = self.save(name, LOGITS + nodes, [VALUE("y", T.FLOAT, ["n", 3])])
            for stages in (self.classified(path), self.classified(path).replace("infer", "features"),
                           self.classified(path, before="joined") +
                           "  joined: {type: join, join: {a: network, b: preprocess}}\n"):
                for row in self.results(stages).rows:
                    np.testing.assert_allclose([one["score"] for one in row["classes"]],
                                               np.sort(self.scores(name, np.array(row["features"])))[::-1],
                                               rtol=1e-4, err_msg=name)
            told = self.plan(self.classified(path))
            twice = self.plan(self.classified(path, ", activation: softmax"))
            scored = {"softmax": "Softmax", "reshaped": "Softmax", "sigmoid": "Sigmoid"}.get(name)
            if scored:
                self.assertIn(f"activation: none, since what it classifies comes from {scored}", told)
                self.assertIn(f"comes from {scored} and is scores already: softmax on top", twice)
            else:
                self.assertNotIn("scores already", told + twice)

    def on_terminal(self, pipeline):
        """The summary that run shows a person."""
        shown, terminal = pty.openpty()
        run = start([MILLRACE, "run", self.write(pipeline)], stdout=subprocess.DEVNULL, stderr=terminal)
        os.close(terminal)
        told = b""
        while True:
            try:
                told += os.read(shown, 65536)
            except OSError:  # the terminal's other end is closed
                break
        os.close(shown)
        self.assertEqual(run.wait(timeout=TIMEOUT), 0, told)
        return told.decode().replace("\r\n", "\n")

    def test_nodes_tell_of_sources_and_classes_as_one_process_does(self):
        """The network is in one process, classify in another."""
        path = self.save("softmax", LOGITS + [helper.make_node("Softmax", ["l"], ["y"])],
                         [VALUE("y", T.FLOAT, ["n", 3])])
        labels = self.folder / "labels.txt"
        labels.write_text("tench\ncockatoo\nvelvet\n")
        whole = f"{HEAD}{self.classified(path, f', labels: {labels}')}  out: {{type: \"null\", input: last}}\n"
        nodes = "nodes:\n  a: {stages: [decode, preprocess, network]}\n  b: {stages: [last, out]}\n"
        one, several = self.on_terminal(whole), self.on_terminal(whole + nodes)
        row = one[one.index("  video: 8 frames, 8 delivered; most frequent classes"):]
        self.assertRegex(row, r"\n +8 x \w+ \(100% of frames, mean score 0\.\d\d\)\n")
        self.assertIn(row, several)
        self.assertNotIn("warning", several)

    def test_classes_and_scores_that_can_never_come(self):
        path = self.save("softmax", LOGITS + [helper.make_node("Softmax", ["l"], ["y"])],
                         [VALUE("y", T.FLOAT, ["n", 3])])
        labels = self.folder / "labels.txt"
        labels.write_text("tench, Tinca tinca\nsulphur-crested cockatoo, Kakatoe galerita\nvelvet\n")

        def record(more):
            return self.classified(path, f", labels: {labels}") + \
                f"  record: {{input: [video, last], path: {self.folder}/events, {more}}}\n"
        nothing = "so nothing would ever be recorded; write"
        for more, words in (("classes: cockatoo", f'last has no label "cockatoo", {nothing} the whole label: '
                                                  '"sulphur-crested cockatoo, Kakatoe galerita"'),
                            ("classes: velvte", 'did you mean "velvet"?'),
                            ("classes: cat", 'it has "tench, Tinca tinca", "sulphur-crested cockatoo, Kakatoe galeri", '
                                             '"velvet"'),
                            ("classes: velvet, score: 50", f"no score is above 1, {nothing} score: 0.5")):
            self.assertIn(words, self.plan(record(more), code=78))
        told = self.plan(record("classes: [velvet, cat]"))
        self.assertIn('warning: stages.record: last has no label "cat", which then starts no recording', told)
        self.assertNotIn("warning", self.plan(record("classes: velvet")))
        self.assertIn('last has no label "velvet", so nothing would ever be recorded; it gives none: add `labels`',
                      self.plan(record("classes: velvet").replace(f", labels: {labels}", ""), code=78))
        self.assertIn("no score is above 1, so no class would ever reach 50; write threshold: 0.5",
                      self.plan(self.classified(path, ", threshold: 50"), code=78))
        # Logits have no bound.
        logits = self.save("logits", LOGITS, [VALUE("l", T.FLOAT, ["n", 3])])
        self.plan(self.classified(logits, ", threshold: 50, activation: none"))

    def test_the_range_of_values(self):
        path = self.save("logits", LOGITS, [VALUE("l", T.FLOAT, ["n", 3])])
        torch = ("--set", "stages.preprocess.mean=[0.485, 0.456, 0.406]", "--set", "stages.preprocess.std=0.229",
                 "--set", "stages.preprocess.normalize=none")
        self.assertIn("these are fractions of 1, and values are 0..255 before mean and std\n"
                      "    hint: write normalize: imagenet, or mean: [123.7, 116.3, 103.5] and std: 58.4\n",
                      self.plan(self.infer(path), *torch))
        words = "gives values in 0..255: neither mean, std nor normalize is given"
        self.assertIn(words, self.plan(self.infer(path), "--set", "stages.preprocess.normalize=none"))
        self.assertNotIn(words, self.plan(self.infer(path)))

    def assert_dialects(self, path, data, whole):
        """Lengths that are 0 or missing, other spellings of the location, nested subgraphs."""
        model = onnx.load(str(path), load_external_data=False)
        for length, location in (("0", f"./{data.name}"), (None, data.name), ("0", f".\\{data.name}")):
            for tensor in model.graph.initializer:
                kept = {entry.key: entry.value for entry in tensor.external_data}
                del tensor.external_data[:]
                kept = {**kept, "location": location, "length": length}
                for key, value in kept.items():
                    if value is not None:
                        tensor.external_data.add(key=key, value=value)
            other = self.folder / "dialect.onnx"
            other.write_bytes(model.SerializeToString())
            self.assertEqual(self.results(self.infer(other, f", external_data: {data}")).rows,
                             self.results(self.infer(whole)).rows)
        for _ in range(20):
            graph = onnx.GraphProto()
            graph.node.add().attribute.add().g.CopyFrom(model.graph)
            model.graph.CopyFrom(graph)
        other.write_bytes(model.SerializeToString())
        # Each subgraph doubled the time. Such a graph computes nothing, so it is refused.
        call([MILLRACE, "plan", self.write(HEAD + self.infer(other, f", external_data: {data}"))])

    def test_weights_beside_the_model(self):
        """External weights come from the named file and no other. They count as part of a head's training network."""
        whole = self.save("whole", LOGITS, [VALUE("l", T.FLOAT, ["n", 3])])
        path = self.save("parts", LOGITS, [VALUE("l", T.FLOAT, ["n", 3])], save_as_external_data=True,
                         location="parts.onnx.data", size_threshold=0)
        data = self.folder / "parts.onnx.data"
        self.assertTrue(data.exists())
        told = self.plan(self.infer(path), code=65)
        self.assertIn('keeps weights in another file, "parts.onnx.data", which is not allowed unless external_data '
                      f'names it: write external_data: {data}, or make one file: python3 -c \'import onnx; '
                      'onnx.save(onnx.load("parts.onnx"), "one.onnx")\'', told)
        for more in ("", ", device: sim:0"):
            self.assertEqual(self.results(self.infer(path, f", external_data: {data}{more}")).rows,
                             self.results(self.infer(whole, more)).rows)
        features = self.infer(path, f", external_data: {data}").replace("infer", "features")
        self.assertEqual([row["features"] for row in self.results(features).rows],
                         [row["features"] for row in self.results(self.infer(whole).replace("infer", "features")).rows])
        self.assertIn("keeps all its weights itself; remove external_data",
                      self.plan(self.infer(whole, f", external_data: {data}"), code=65))
        self.assert_dialects(path, data, whole)
        other = self.folder / "other.data"
        other.write_bytes(data.read_bytes())
        self.assertIn('keeps weights in "parts.onnx.data", and external_data names other.data',
                      self.plan(self.infer(path, f", external_data: {other}"), code=65))
        data.write_bytes(data.read_bytes()[:20])
        self.assertIn("of parts.onnx.data, which has 20: they do not belong together",
                      self.plan(self.infer(path, f", external_data: {data}"), code=65))
        self.plan(self.infer(path, f", external_data: {self.folder}/none"), code=66)
