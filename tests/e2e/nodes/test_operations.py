"""What `inspect` and `plan --assume` count in a network, compared with shapes that Python's onnx infers: multiply-adds
in EfficientNet-Lite0 and small random graphs. test_onnx_work covers launches and bytes in handmade graphs."""
import json
import math
import os
import random

# ONNX Runtime builds send telemetry unless this is set before they are loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, shape_inference

from harness import MILLRACE, MODELS, Case, call, need_models, pipeline

FLOAT = TensorProto.FLOAT
CARD = {"launch_ns": 1000, "f32_s": 1e12, "f16_s": 1e12, "memory_bytes_s": 1e12,
        "upload_bytes_s": 1e10, "download_bytes_s": 1e10, "copy_engines": 2, "kernels": 128}
PLAN = pipeline({"in": 'type: "null", format: RGB24 %dx%d, frames: 9'}, name="one",
                pre='type: preprocess, size: %dx%d, device: "cuda:0", batch: {size: %d, timeout: 50ms}',
                net='type: %s, model: "%s", device: "cuda:0", batch: {size: %d, timeout: 50ms}%s', out='type: "null"')


def shapes_of(model, batch):
    """{tensor: (sizes, type)} with a fixed batch."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for value in model.graph.input:
        if not value.type.tensor_type.shape.dim[0].dim_value:
            value.type.tensor_type.shape.dim[0].dim_value = batch
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    graph = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    found = {one.name: tuple(one.dims) for one in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        found[value.name] = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
    return found


def multiply_adds(model, batch=1):
    shapes, total = shapes_of(model, batch), 0
    for node in model.graph.node:
        given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        sizes = [shapes.get(name, ()) for name in node.input]
        made = shapes[node.output[0]]
        if node.op_type == "Conv":
            total += math.prod(made) * math.prod(sizes[1][1:])
        elif node.op_type == "ConvTranspose":
            total += math.prod(sizes[0]) * math.prod(sizes[1][1:])
        elif node.op_type == "Gemm":
            total += math.prod(made) * sizes[0][0 if given.get("transA") else 1]
        elif node.op_type == "MatMul":
            total += math.prod(made) * sizes[0][-1]
    return total


def runs(model, shape):
    """Whether ONNX Runtime can run it: Python's onnx also infers sizes if a window is larger than the input."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    try:
        session.run(None, {"x": np.zeros(shape, "f4")})
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument:
        return False
    return True


class Random:
    """A chain of operators that change the shape, each followed by a convolution, so that a wrong size gives a wrong
    count."""

    def __init__(self, seed):
        self.r, self.nodes, self.weights, self.last = random.Random(seed), [], [], "x"
        self.shape = [1, self.r.choice([2, 4, 6]), self.r.randint(9, 20), self.r.randint(9, 20)]
        self.given = list(self.shape)

    def name(self):
        return f"t{len(self.nodes)}_{len(self.weights)}"

    def weight(self, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def add(self, kind, *more, outputs=1, **attributes):
        made = [self.name() + "abc"[i] for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, [self.last, *more], made, **attributes))
        self.last = made[0]
        self.shape = list(shapes_of(self.model(), 1)[self.last])
        assert min(self.shape) >= 1

    def conv(self):
        r, (_, channels, *_) = self.r, self.shape
        group = r.choice([1, 1, channels])
        size = [r.randint(1, 3), r.randint(1, 3)]
        padding = r.choice([{"pads": [r.randint(0, 2) for _ in range(4)]}, {"auto_pad": "SAME_UPPER"}, {}])
        width = r.choice([2, 4]) * (group if group > 1 else 1)
        self.add("Conv", self.weight(np.zeros((width, channels // group, *size), "f4")), group=group,
                 strides=[r.randint(1, 2), r.randint(1, 2)], **padding,
                 **({} if "auto_pad" in padding else {"dilations": [r.randint(1, 2), 1]}))
        if self.shape[1] > 8:
            self.add("Conv", self.weight(np.zeros((4, self.shape[1], 1, 1), "f4")))

    def any(self):
        r, (_, channels, height, width) = self.r, self.shape
        i64 = lambda *values: self.weight(np.array(values, "i8"))
        choices = {
            "ConvTranspose": lambda: self.add("ConvTranspose", self.weight(np.zeros((channels, 3, 3, 2), "f4")),
                                              strides=[2, r.randint(1, 2)], output_padding=[1, 0], pads=[1, 0, 0, 1]),
            "MaxPool": lambda: self.add("MaxPool", kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 0, 1],
                                        ceil_mode=r.randint(0, 1)),
            "AveragePool": lambda: self.add("AveragePool", kernel_shape=[2, 2], strides=[1, 2]),
            "scales": lambda: self.add("Resize", "", self.weight(np.array([1, 1, 2, 1.5], "f4"))),
            "sizes": lambda: self.add("Resize", "", "", i64(1, channels, 11, 13)),
            "Pad": lambda: self.add("Pad", i64(0, 0, 1, 2, 0, 1, 0, 3)),
            "Slice": lambda: self.add("Slice", i64(1, -2), i64(2**62, -height), i64(2, 3), i64(1, -1)),
            "Transpose": lambda: self.add("Transpose", perm=[0, 1, 3, 2]),
            "Concat": lambda: self.add("Concat", self.last, axis=r.choice([1, -1])),
            "Split": lambda: self.add("Split", i64(1, channels - 1), outputs=2, axis=1) if channels > 1 else None,
            "Add": lambda: self.add("Add", self.weight(np.zeros((channels, 1, 1), "f4"))),
            "SpaceToDepth": lambda: self.add("SpaceToDepth", blocksize=1),
            "Gather": lambda: self.add("Gather", i64(0, 1, 0), axis=2),
            "ReduceMean": lambda: self.add("ReduceMean", axes=[-2], keepdims=1),
            "Tile": lambda: self.add("Tile", i64(1, 2, 1, 2)),
            "PRelu": lambda: self.add("PRelu", self.weight(np.zeros((channels, 1, 1), "f4"))),
            "HardSwish": lambda: self.add("HardSwish"),
            "unsqueezed": lambda: (self.add("Unsqueeze", i64(0, -1)), self.add("Squeeze", i64(0, 5))),
        }
        choices[r.choice(sorted(choices))]()

    def reshaped(self):
        """As PyTorch exports x.reshape(x.shape[0], -1, 2 * x.shape[3])."""
        x, (zero, three, axis) = self.last, (self.weight(np.array(v, "i8")) for v in (0, 3, [0]))
        parts = ["s", "n", "w", "w2", "nu", "wu", "to"]
        made = dict(zip(parts, (f"{part}_{len(self.nodes)}" for part in parts)))
        two, open_ = self.weight(np.array(2, "i8")), self.weight(np.array([-1], "i8"))
        for kind, inputs, output, more in (("Shape", [x], "s", {}), ("Gather", ["s", zero], "n", {"axis": 0}),
                                           ("Gather", ["s", three], "w", {"axis": 0}), ("Mul", ["w", two], "w2", {}),
                                           ("Unsqueeze", ["n", axis], "nu", {}), ("Unsqueeze", ["w2", axis], "wu", {}),
                                           ("Concat", ["nu", open_, "wu"], "to", {"axis": 0})):
            self.nodes.append(helper.make_node(kind, [made.get(name, name) for name in inputs], [made[output]], **more))
        _, channels, height, width = self.shape
        if channels * height % 2 == 0:
            self.add("Reshape", made["to"])
        else:
            self.add("Flatten")

    def model(self):
        given = helper.make_tensor_value_info("x", FLOAT, ["batch", *self.given[1:]])
        graph = helper.make_graph(self.nodes, "g", [given],
                                  [helper.make_tensor_value_info(self.last, FLOAT, None)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)

    def make(self):
        for _ in range(self.r.randint(2, 6)):
            self.conv()
            if min(self.shape[2:]) > 4 and self.shape[1] > 1:
                self.any()
        self.conv()
        self.reshaped()
        columns = self.shape[-1]
        self.add("MatMul", self.weight(np.zeros((columns, 5), "f4")))
        self.add("Flatten")
        self.add("Gemm", self.weight(np.zeros((7, self.shape[1]), "f4")), transB=1)
        return self.model()


class Operations(Case):
    def inspected(self, path):
        done = self.millrace("inspect", path, "--json")
        (told,) = json.loads(done.stdout)
        return told

    def test_multiply_adds_of_real_networks(self):
        need_models()
        for name in ("lite0", "lite0-features", "lite0-front", "lite0-back", "lite0-int8"):
            with self.subTest(name):
                told = self.inspected(MODELS / f"{name}.onnx")
                self.assertEqual(told["multiply_adds"], multiply_adds(onnx.load(MODELS / f"{name}.onnx")))
                self.assertIsNone(told["not_counted"])
        whole = self.inspected(MODELS / "lite0.onnx")["multiply_adds"]
        self.assertTrue(0.37e9 < whole < 0.41e9, whole)
        self.assertIn("operations     385.2 M multiply-adds for one picture",
                      call([MILLRACE, "inspect", MODELS / "lite0.onnx"]).stdout)

    def test_multiply_adds_of_random_graphs(self):
        counted = 0
        for seed in range(40):
            chain = Random(seed)
            try:
                model = chain.make()
            except (AssertionError, shape_inference.InferenceError):
                continue  # a size became 0
            path = self.folder / "random.onnx"
            onnx.save(model, path)
            told = self.inspected(path)
            with self.subTest(seed=seed, nodes=[node.op_type for node in model.graph.node]):
                if not runs(model, chain.given):
                    self.assertIn("the sizes are not known", told["not_counted"])
                    continue
                self.assertIsNone(told["not_counted"])
                self.assertEqual(told["multiply_adds"], multiply_adds(model))
            counted += 1
        self.assertGreater(counted, 20)

    def planned(self, path, kind, size, batch, more=""):
        card = self.write(json.dumps(CARD), "card.json")
        text = PLAN % (64, 48, size, size, batch, kind, path, batch, more)
        done = self.millrace("plan", self.write(text), "--assume", f"cuda:1x{card}", "--json")
        return {one["id"]: one for one in json.loads(done.stdout)["expected"]["stages"]}["net"]

    def test_what_a_plan_expects_of_a_network(self):
        need_models()
        path = MODELS / "lite0.onnx"
        model = onnx.load(path)
        # Each node is a launch, except Flatten.
        launches = len(model.graph.node) - 1
        for kind, batch in (("features", 1), ("features", 8), ("infer", 4)):
            with self.subTest(kind, batch=batch):
                net = self.planned(path, kind, 224, batch)
                self.assertIsNone(net["not_modelled"])
                self.assertAlmostEqual(net["launch_ns"], launches * 1000 / batch, delta=0.01)
                self.assertGreater(net["operation_ns"], 2 * multiply_adds(model) / 1e3)
                self.assertLess(net["operation_ns"], 2.1 * multiply_adds(model) / 1e3)
                self.assertTrue(net["rate"] > 0)

    def test_what_makes_it_faster_is_said(self):
        need_models()
        for more, word in ((", provider: tensorrt", "TensorRT"), (", cuda_graph: true", "cuda_graph")):
            with self.subTest(more):
                net = self.planned(MODELS / "lite0.onnx", "features", 224, 1, more)
                self.assertIn(word, net["not_modelled"])

    def test_an_operator_that_is_not_modelled_is_named(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
                 helper.make_node("NonZero", ["a"], ["b"], name="second"),
                 helper.make_node("Cast", ["b"], ["c"], to=FLOAT),
                 helper.make_node("ReduceMean", ["c"], ["m"], keepdims=0),
                 helper.make_node("Add", ["a", "m"], ["y"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, ["n", 3, 32, 32])],
                                  [helper.make_tensor_value_info("y", FLOAT, ["n", 2, 32, 32])],
                                  [numpy_helper.from_array(np.zeros((2, 3, 1, 1), "f4"), "w")])
        path = self.folder / "strange.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
        self.assertIn('not modelled: operator NonZero at node "second"', self.inspected(path)["not_counted"])
        net = self.planned(path, "features", 32, 1)
        self.assertIn('operator NonZero at node "second"', net["not_modelled"])
        self.assertGreaterEqual(net["operation_ns"], 2 * 2 * 3 * 32 * 32 / 1e3)
