"""millrace inspect MODEL.onnx: it reports what Python's onnx and ONNX Runtime report; the pipeline that it prints
is checked, planned and run unchanged."""
import collections
import json
import os

# ONNX Runtime builds send telemetry unless this is set before they are loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from harness import MILLRACE, MODELS, Case, call, need_models

FLOAT = TensorProto.FLOAT
TYPES = {FLOAT: "f32", TensorProto.UINT8: "u8", TensorProto.INT64: "i64", TensorProto.FLOAT16: "f16",
         TensorProto.DOUBLE: "f64", TensorProto.BOOL: "bool", TensorProto.INT32: "i32",
         TensorProto.STRING: "string"}
RUNTIME = {"f32": "tensor(float)", "u8": "tensor(uint8)", "i64": "tensor(int64)", "f16": "tensor(float16)",
           "f64": "tensor(double)", "bool": "tensor(bool)", "i32": "tensor(int32)",
           "string": "tensor(string)"}
AS_PRINTED = "a pipeline with it, to be saved as a file; check, plan and run take it as it is\n\n"


def shape_of(value):
    return [one.dim_param or one.dim_value or None for one in value.type.tensor_type.shape.dim]


class InspectModel(Case):
    def save(self, name, nodes, inputs, outputs, weights=(), **more):
        def value(one):
            return helper.make_tensor_value_info(*one) if isinstance(one, tuple) else one
        tensors = [numpy_helper.from_array(array, key) for key, array in weights]
        graph = helper.make_graph(nodes, name, list(map(value, inputs)), list(map(value, outputs)), tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], **more)
        model.ir_version = 8
        path = self.folder / f"{name}.onnx"
        onnx.save(model, path)
        return path

    def told(self, path):
        done = self.millrace("inspect", path, "--json")
        (told,) = json.loads(done.stdout)
        return told

    def assert_like_onnx(self, path, told):
        model = onnx.load(path)
        graph, given = model.graph, {one.name for one in model.graph.initializer}
        self.assertEqual(told["bytes"], path.stat().st_size)
        self.assertEqual((told["producer"], told["producer_version"], told["ir_version"], told["graph"]),
                         (model.producer_name, model.producer_version, model.ir_version, graph.name))
        self.assertEqual([(one["domain"], one["version"]) for one in told["operator_sets"]],
                         [(one.domain or "ai.onnx", one.version) for one in model.opset_import])
        self.assertEqual(told["nodes"], len(graph.node))
        self.assertEqual({one["name"]: one["nodes"] for one in told["operators"]},
                         collections.Counter(node.op_type for node in graph.node))
        self.assertEqual(told["weights"], len(graph.initializer))
        self.assertEqual(told["numbers"], sum(int(np.prod(one.dims, dtype=object)) for one in graph.initializer))
        for values, real in ((told["inputs"], [one for one in graph.input if one.name not in given]),
                             (told["outputs"], graph.output)):
            self.assertEqual([one["name"] for one in values], [one.name for one in real])
            for one, other in zip(values, real):
                if other.type.WhichOneof("value") == "tensor_type":
                    self.assertEqual(one["kind"], "tensor")
                    self.assertEqual(one["type"], TYPES[other.type.tensor_type.elem_type])
                    declared = other.type.tensor_type.HasField("shape")
                    self.assertEqual(one["shape"], shape_of(other) if declared else None)

    def assert_like_the_runtime(self, path, told):
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for values, real in ((told["inputs"], session.get_inputs()), (told["outputs"], session.get_outputs())):
            self.assertEqual([(one["name"], RUNTIME[one["type"]], one["shape"]) for one in values],
                             [(one.name, one.type, list(one.shape)) for one in real])

    def assert_usable(self, path, told, stages):
        """The text ends with the pipeline, which is planned and run."""
        self.assertEqual([one["type"] for one in told["stages"] if one["can"]], stages, told["stages"])
        text = self.millrace("inspect", path)
        printed = text.stdout.partition(AS_PRINTED)[2]
        self.assertEqual(printed, told["pipeline"])
        for verb in ("check", "plan"):
            done = self.run_pipeline(printed, verb=verb, rows=False)
            self.assertNotIn("warning", done.err)
        run = self.run_pipeline(printed)
        self.assert_balanced(run)
        self.assertGreater(len(run.rows), 0)
        return run

    def inspected(self, path, stages, runtime=True):
        told = self.told(path)
        self.assert_like_onnx(path, told)
        if runtime:
            self.assert_like_the_runtime(path, told)
        return told, self.assert_usable(path, told, stages)

    def test_the_classifier(self):
        need_models()
        told, run = self.inspected(MODELS / "lite0.onnx", ["infer", "features", "classify"])
        self.assertIn("tensor: \"logits\", top_k: 5}  # add labels: a file with 1000 lines", told["pipeline"])
        self.assertEqual(len(run.rows[0]["classes"]), 5)

    def test_the_features(self):
        need_models()
        told, run = self.inspected(MODELS / "lite0-features.onnx", ["infer", "features", "classify"])
        self.assertIn("type: features", told["pipeline"])
        self.assertEqual(len(run.rows[0]["features"]), 1280)

    def test_sizes_that_are_free(self):
        """As in text detection and recognition: any size, or any width."""
        weight = [("w", np.ones((1, 3, 1, 1), "f4"))]
        node = [helper.make_node("Conv", ["x", "w"], ["y"])]
        told, run = self.inspected(self.save("detect", node, [("x", FLOAT, ["DynamicDimension.0", 3, "h", "w_"])],
                                             [("y", FLOAT, ["DynamicDimension.0", 1, "h", "w_"])], weight,
                                             producer_name="PaddlePaddle", producer_version="2.0"),
                                   ["infer", "features"])
        self.assertEqual(told["inputs"][0]["shape"], ["DynamicDimension.0", 3, "h", "w_"])
        self.assertEqual([one["shape"] for one in run.rows[0]["tensors"]], [[1, 320, 320]])
        self.inspected(self.save("recognize", node, [("x", FLOAT, [None, 3, 48, None])],
                                 [("y", FLOAT, [None, 1, 48, None])], weight), ["infer", "features"])

    def detector(self, outputs, size=(640, 640)):
        """What is said about a network with these outputs; None: a size that is free, as for 640 x 640 pixels."""
        path = self.save("detector", [helper.make_node("Identity", [f"{name}_given"], [name]) for name in outputs],
                         [("image", FLOAT, [1, 3, *size])],
                         [(name, FLOAT, [1, *dims]) for name, dims in outputs.items()],
                         [(f"{name}_given", np.zeros([one or (8400 if len(dims) == 2 else 160) for one in (1, *dims)],
                                                     "f4")) for name, dims in outputs.items()])
        told = self.told(path)
        return next(one for one in told["stages"] if one["type"] == "detect"), told["pipeline"] or ""

    def test_heads(self):
        """Why none is named; and heads of networks that take any size."""
        pair = {"boxes": (90, 4), "scores": (90, 21)}
        for outputs, size, why in (
                (pair, (64, 64), "fit several heads (ssd, rtdetr): write head"),
                ({"o": (300, 84)}, (640, 640), "for an input of 640x640: write head: rtdetr, or custom"),
                ({"o": (300, 3)}, (640, 640), "for an input of 640x640: write head: custom"),
                ({f"o{i}": (9, 4) for i in range(9)}, (64, 64), "it has 9 outputs, and a head has at most 8"),
                ({"o": (None, 85)}, (None, None), "takes any size, so the shapes of its outputs tell no head")):
            use, _ = self.detector(outputs, size)
            self.assertFalse(use["can"])
            self.assertIn(why, use["why_not"])
        planes = {name: (count, None, None) for name, count in zip("abcd", (1, 2, 2, 10))}
        for outputs, head in (({"o": (84, None)}, "yolov8"), (planes, "centerface"),
                              ({"o": (116, None), "p": (32, None, None)}, "yolov8-seg")):
            use, pipeline = self.detector(outputs, (None, None))
            self.assertEqual(use["how"], f"its outputs have the shapes of head: {head}")
            self.assertIn(f"head: {head}", pipeline)
            self.assertIn("size: 640x640", pipeline)

    def test_a_model_by_its_name(self):
        path = self.save("plain", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["n", 5])],
                         [("y", FLOAT, ["n", 5])])
        by_name = self.millrace("inspect", "plain", environment={"MILLRACE_MODELS": str(self.folder)})
        self.assertEqual(by_name.stdout, self.millrace("inspect", path).stdout)
        self.millrace("inspect", "plain", code=64, says="no model of that name here")

    def test_layouts_and_types_of_pictures(self):
        flat = [helper.make_node("Cast", ["x"], ["f"], to=FLOAT),
                helper.make_node("ReduceMean", ["f"], ["y"], axes=[1, 2], keepdims=0)]
        told, run = self.inspected(self.save("last", flat, [("x", TensorProto.UINT8, ["n", 24, 32, 3])],
                                             [("y", FLOAT, ["n", 3])]), ["infer", "features", "classify"])
        self.assertIn("size: 32x24", told["pipeline"])
        self.assertEqual(len(run.rows[0]["features"]), 3)
        gray = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["m"]),
                helper.make_node("Softmax", ["m"], ["p"])]
        told, run = self.inspected(self.save("digits", gray, [("x", FLOAT, ["n", 1, 28, 28])],
                                             [("p", FLOAT, ["n", 10])], [("w", np.zeros((784, 10), "f4"))]),
                                   ["infer", "features", "classify"])
        self.assertIn("order: gray", told["pipeline"])
        self.assertIn("activation: auto is none", told["stages"][2]["how"])
        self.assertAlmostEqual(run.rows[0]["classes"][0]["score"], 0.1, delta=1e-6)

    def test_several_inputs_and_outputs(self):
        nodes = [helper.make_node("Sub", ["a", "b $ \"c\""], ["d"]), helper.make_node("Cast", ["a"], ["words"],
                                                                                        to=TensorProto.STRING)]
        path = self.save("two $HOME \"files\"", nodes, [("a", FLOAT, ["n", 5]), ("b $ \"c\"", FLOAT, ["n", 5])],
                         [("d", FLOAT, ["n", 5]), ("words", TensorProto.STRING, ["n", 5])])
        told = self.told(path)
        self.assert_like_onnx(path, told)
        self.assert_like_the_runtime(path, told)
        self.assertIn('outputs: ["d"]', told["pipeline"] or told["no_pipeline"])
        self.assert_usable(path, told, ["infer", "classify"])

    def test_what_no_frame_brings(self):
        """As in speech models: a state and a number besides the samples; and values that are not tensors."""
        path = self.save("speech", [helper.make_node("Identity", ["input"], ["output"]),
                                    helper.make_node("Identity", ["state"], ["stateN"])],
                         [("input", FLOAT, [None, None]), ("state", FLOAT, [2, None, 128]),
                          ("sr", TensorProto.INT64, [])],
                         [("output", FLOAT, [None, 1]), ("stateN", FLOAT, [None, None, None])])
        told = self.told(path)
        self.assert_like_onnx(path, told)
        self.assertEqual([one["can"] for one in told["stages"]], [False] * 4)
        self.assertIsNone(told["pipeline"])
        self.assertEqual(told["no_pipeline"], 'its input "sr" is a single number, not a tensor of a frame')
        self.assertIn("no pipeline can be suggested: its input", call([MILLRACE, "inspect", path]).stdout)
        sequence = helper.make_tensor_sequence_value_info("y", FLOAT, ["n", 5])
        path = self.save("listed", [helper.make_node("SequenceConstruct", ["x"], ["y"])], [("x", FLOAT, ["n", 5])],
                         [sequence])
        told = self.told(path)
        self.assert_like_onnx(path, told)
        self.assertEqual(told["outputs"][0]["kind"], "sequence")
        self.assertEqual(told["no_pipeline"], "it has no output that frames can hold")
        differ = self.save("differ", [helper.make_node("Add", ["a", "b"], ["y"])],
                           [("a", FLOAT, ["n", 5]), ("b", FLOAT, ["n", 1])], [("y", FLOAT, ["n", 5])])
        self.assertIn("its inputs differ", self.told(differ)["no_pipeline"])

    def test_weights_that_are_listed_among_the_inputs(self):
        weights = [("far", np.ones(5, "f4"))]
        path = self.save("old", [helper.make_node("Add", ["x", "far"], ["y"])],
                         [("far", FLOAT, [5]), ("x", FLOAT, ["n", 5])], [("y", FLOAT, ["n", 5])], weights)
        self.inspected(path, ["infer", "features", "classify"], runtime=False)

    def test_files_that_are_none(self):
        whole = self.save("whole", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["n", 5])],
                          [("y", FLOAT, ["n", 5])]).read_bytes()
        cut = self.folder / "cut.onnx"
        cut.write_bytes(whole[:-20])
        array = self.folder / "array.onnx"
        np.save(self.folder / "array.npy", np.ones((3, 5), "f4"))
        (self.folder / "array.npy").rename(array)
        (self.folder / "pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
        for path, code, said in ((cut, 65, f"it is truncated: it ends at byte {len(whole) - 20} inside"),
                                 (array, 65, "it is a .npy array"), (self.folder, 65, "is a folder"),
                                 (self.folder / "pointer.onnx", 65, "git lfs pull"),
                                 (self.folder / "none.onnx", 66, "No such file"),
                                 (self.folder / "none.npy", 66, "No such file")):
            for more in ([], ["--json"]):
                done = self.millrace("inspect", path, *more, code=code, says=(said, str(path)))
                self.assertEqual(done.stdout, "")
        self.assertEqual(call([MILLRACE, "inspect", "infre"]).returncode, 64)

    def test_an_array(self):
        path = self.folder / "head.npy"
        np.save(path, np.ones((3, 5), "f4"))
        self.assertIn("3 classes, for vectors of 4 numbers", call([MILLRACE, "inspect", path]).stdout)
        self.assertEqual(self.told(path), {"name": str(path), "kind": "npy", "rows": 3, "columns": 5, "classes": 3,
                                           "features": 4})
        bad = np.ones((3, 5), "f4")
        bad[2, 4] = np.nan
        np.save(path, bad)
        self.millrace("inspect", path, code=65, says="row 2, column 4 is nan")

    def test_types_and_files_stand_beside_each_other(self):
        path = self.save("one", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["n", 5])],
                         [("y", FLOAT, ["n", 5])])
        shown = json.loads(call([MILLRACE, "inspect", "jsonl", path, "--json"]).stdout)
        self.assertEqual([one["name"] for one in shown], ["jsonl", str(path)])
