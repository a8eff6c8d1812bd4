"""Makes small networks and inputs for test_model.c and test_classify.c. Runs ONNX Runtime's Python and NumPy on these
inputs to get the expected outputs. Arrays are written as raw little-endian data. The file `library` gets the path of
ONNX Runtime's library.

    models.py FOLDER

The folder is created anew. Exits with 77 if a package is missing."""
import glob
import os
import pathlib
import shutil
import sys

# Some ONNX Runtime builds send telemetry unless this is set before they are loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

FRAMES = 7
random = np.random.default_rng(20)


def raw(name, array):
    array.tofile(name + ".raw")
    return array


def save(name, nodes, inputs, outputs, weights=()):
    def value(one):
        name, kind, shape = one
        return helper.make_tensor_value_info(name, kind, shape)

    weights = [numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, name, list(map(value, inputs)), list(map(value, outputs)), weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, name + ".onnx")
    return model


def run(model, feeds, outputs=None):
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(outputs, feeds)


def with_output(model, name):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.output.append(helper.make_empty_tensor_value_info(name))
    return copy.SerializeToString()


def convolution():
    """One input 3x8x6, an inner tensor 4x8x6, the output 4x4x3. Batches may have any size; in one network they must be
    4."""
    weights = [("weight", random.normal(size=(4, 3, 3, 3)).astype("f4")), ("bias", random.normal(size=4).astype("f4"))]
    nodes = [helper.make_node("Conv", ["images", "weight", "bias"], ["inner"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["inner"], ["positive"]),
             helper.make_node("MaxPool", ["positive"], ["out"], kernel_shape=[2, 2], strides=[2, 2])]
    images = raw("images", random.normal(size=(FRAMES, 3, 8, 6)).astype("f4"))
    model = save("any-batch", nodes, [("images", TensorProto.FLOAT, ["batch", 3, 8, 6])],
                 [("out", TensorProto.FLOAT, ["batch", 4, 4, 3])], weights)
    save("batch-of-4", nodes, [("images", TensorProto.FLOAT, [4, 3, 8, 6])],
         [("out", TensorProto.FLOAT, [4, 4, 4, 3])], weights)
    save("free-size", nodes, [("images", TensorProto.FLOAT, ["n", 3, "height", "width"])],
         [("out", TensorProto.FLOAT, ["n", 4, "down", "across"])], weights)
    out, = run(model, {"images": images})
    inner, = run(with_output(model, "inner"), {"images": images}, ["inner"])
    raw("out", out)
    raw("inner", inner)
    mean = raw("pooled", out.astype("f8").mean((2, 3)).astype("f4"))
    raw("unit", (mean / np.linalg.norm(mean.astype("f8"), axis=1, keepdims=True)).astype("f4"))


def two_inputs():
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["difference"])]
    shape = [("n"), 5]
    model = save("two-inputs", nodes, [("a", TensorProto.FLOAT, shape), ("b", TensorProto.FLOAT, shape)],
                 [("sum", TensorProto.FLOAT, shape), ("difference", TensorProto.FLOAT, shape)])
    both = raw("pairs", random.normal(size=(FRAMES, 5)).astype("f4"))
    total, difference = run(model, {"a": both, "b": both})
    raw("sum", total)
    raw("difference", difference)


def refused():
    """Networks that must be refused: an output size that depends on values, other types than floats, and external
    weights."""
    save("seen", [helper.make_node("NonZero", ["x"], ["places"])], [("x", TensorProto.FLOAT, ["n", 5])],
         [("places", TensorProto.INT64, [2, "found"])])
    save("bytes", [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], [("x", TensorProto.UINT8, ["n", 5])],
         [("y", TensorProto.FLOAT, ["n", 5])])
    save("doubles", [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)],
         [("x", TensorProto.FLOAT, ["n", 5])], [("y", TensorProto.DOUBLE, ["n", 5])])
    model = save("outside", [helper.make_node("Add", ["x", "far"], ["y"])], [("x", TensorProto.FLOAT, ["n", 5])],
                 [("y", TensorProto.FLOAT, ["n", 5])], [("far", np.ones(5, "f4"))])
    onnx.save(model, "outside.onnx", save_as_external_data=True, size_threshold=0, location="outside.data")
    hidden = save("hidden", [helper.make_node("Constant", [], ["far"], value=model.graph.initializer[0]),
                             helper.make_node("Add", ["x", "far"], ["y"])], [("x", TensorProto.FLOAT, ["n", 5])],
                  [("y", TensorProto.FLOAT, ["n", 5])])
    assert hidden.graph.node[0].attribute[0].t.external_data


def varint(value, bytes_least=1):
    text = bytearray()
    while value >= 0x80 or len(text) + 1 < bytes_least:
        text.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(text) + bytes([value])


def field(number, content, more=0, least=1):
    """Encodes a protobuf field by hand. `more` is added to the key, which takes at least `least` bytes."""
    key = varint((number << 3 | (0 if isinstance(content, int) else 2)) + more, least)
    return key + (varint(content) if isinstance(content, int) else varint(len(content)) + content)


def disguised():
    """External weights again, in fields whose keys exceed 32 bits. protobuf's C++ parser truncates such a key and finds
    the known field, so ONNX Runtime does load the other file. It rejects a key longer than five bytes, too."""
    np.full(5, 42, "f4").tofile("disguised.data")
    model = save("disguised", [helper.make_node("Add", ["x", "far"], ["y"])], [("x", TensorProto.FLOAT, ["n", 5])],
                 [("y", TensorProto.FLOAT, ["n", 5])])
    location = field(1, b"location") + field(2, b"disguised.data")
    for name, more, least in (("disguised", 1 << 32, 1), ("overlong", 0, 6)):
        tensor = field(1, 5) + field(2, 1) + field(8, b"far") + field(13, location, more, least) + \
            field(14, 1, more, least)
        graph = model.graph.SerializeToString() + field(5, tensor)
        rest = onnx.ModelProto()
        rest.CopyFrom(model)
        rest.ClearField("graph")
        pathlib.Path(name + ".onnx").write_bytes(rest.SerializeToString() + field(7, graph))
    session = onnxruntime.InferenceSession("disguised.onnx", providers=["CPUExecutionProvider"])
    got, = session.run(None, {"x": np.zeros((1, 5), "f4")})
    assert (got == 42).all(), "ONNX Runtime does not load the other file any more"
    default = helper.make_attribute("value", onnx.load("outside.onnx", load_external_data=False).graph.initializer[0])
    function = helper.make_function("own", "Far", ["x"], ["y"], [
        helper.make_node("Constant", [], ["far"]), helper.make_node("Add", ["x", "far"], ["y"])],
        [helper.make_opsetid("", 13)], attribute_protos=[default])
    graph = helper.make_graph([helper.make_node("Far", ["x"], ["y"], domain="own")], "default",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])])
    sets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    onnx.save(helper.make_model(graph, functions=[function], opset_imports=sets), "default.onnx")
    save("compiled", [helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", embed_mode=0,
                                       ep_cache_context="engine.bin")],
         [("x", TensorProto.FLOAT, ["n", 5])], [("y", TensorProto.FLOAT, ["n", 5])])


def spoilt():
    """Weights with one NaN or infinity, in each way that a file can hold them. A limit and a mask may be infinite."""
    shapes = [("x", TensorProto.FLOAT, ["n", 5])], [("y", TensorProto.FLOAT, ["n", 2])]
    good = np.arange(10, dtype="f4").reshape(5, 2)
    bad = good.copy()
    bad[3, 1] = np.nan

    def gemm(name, weight, bias=np.zeros(2, "f4")):
        return save(name, [helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"])], *shapes,
                    [("fc.weight", weight), ("fc.bias", bias)])
    gemm("nan-weight", bad)
    gemm("nan-bias", good, np.array([0, np.inf], "f4"))
    half = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
            helper.make_node("MatMul", ["h", "w"], ["p"]), helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)]
    save("nan-half", half, *shapes, [("w", np.where(np.isnan(bad), -np.inf, bad).astype("f2"))])
    constant = numpy_helper.from_array(bad, "w")
    save("nan-constant", [helper.make_node("Constant", [], ["w"], value=constant),
                          helper.make_node("MatMul", ["x", "w"], ["y"])], *shapes)
    listed = gemm("nan-listed", good)
    listed.graph.initializer[0].CopyFrom(helper.make_tensor("fc.weight", TensorProto.FLOAT, (5, 2), bad.flatten()))
    assert not listed.graph.initializer[0].raw_data
    onnx.save(listed, "nan-listed.onnx")
    images = np.zeros((4, 3, 3, 3), "f4")
    images[2, 0, 1, 2] = np.nan
    save("nan-conv", [helper.make_node("Conv", ["x", "kernel"], ["y"])], [("x", TensorProto.FLOAT, ["n", 3, 8, 6])],
         [("y", TensorProto.FLOAT, ["n", 4, 6, 4])], [("kernel", images)])
    rows = [("x", TensorProto.FLOAT, ["n", 5])], [("y", TensorProto.FLOAT, ["n", 5])]
    raw("masked", run(save("masked", [helper.make_node("Clip", ["x", "", "most"], ["c"]),
                                      helper.make_node("Add", ["c", "mask"], ["y"])], *rows,
                           [("most", np.array(np.inf, "f4")), ("mask", np.array([0, 0, 0, 0, -np.inf], "f4"))]),
                      {"x": np.fromfile("pairs.raw", "f4").reshape(-1, 5)})[0])
    weights = np.fromfile("head.npy", "f4")[-36:].reshape(6, 6)
    weights[4, 5] = np.nan
    np.save("nan-head.npy", weights)


def declared():
    """Networks with unusual declarations: weights listed among the inputs, as old files do; a size without any
    information; an output that is no tensor; an output without a shape; more inputs than millrace supports."""
    weights = [("far", np.ones(5, "f4"))]
    add = [helper.make_node("Add", ["x", "far"], ["y"])]
    rows = ("x", TensorProto.FLOAT, ["n", 5])
    old = save("old", add, [("far", TensorProto.FLOAT, [5]), rows], [("y", TensorProto.FLOAT, ["n", 5])], weights)
    old.ir_version = 3
    onnx.save(old, "old.onnx")
    save("whole", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["n"])],
         [("y", TensorProto.FLOAT, ["n"])])
    save("unknown", add, [rows], [("y", TensorProto.FLOAT, [None, None])], weights)
    save("shapeless", add, [rows], [("y", TensorProto.FLOAT, None)], weights)
    listed = save("listed", [helper.make_node("SequenceConstruct", ["x"], ["y"])], [rows], [rows])
    del listed.graph.output[:]
    listed.graph.output.append(helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, ["n", 5]))
    onnx.save(listed, "listed.onnx")
    names = [f"x{i}" for i in range(40)]
    save("many", [helper.make_node("Sum", names, ["y"])], [(name, TensorProto.FLOAT, [5]) for name in names],
         [("y", TensorProto.FLOAT, [5])])
    raw("negative", -np.fromfile("pairs.raw", "f4").reshape(-1, 5))


def classifier():
    weights = random.normal(size=(6, 6)).astype("f4")
    np.save("head.npy", weights)
    np.save("head-f8.npy", weights.astype("f8"))
    np.save("head-fortran.npy", np.asfortranarray(weights))
    np.save("head-big.npy", weights.astype(">f4"))
    pathlib.Path("labels.txt").write_text("".join(f"class {i}\n" for i in range(6)))
    pathlib.Path("few.txt").write_text("one\ntwo\n")
    vectors = np.fromfile("pairs.raw", "f4").reshape(-1, 5).astype("f8")
    logits = vectors @ weights[:, :5].astype("f8").T + weights[:, 5]
    exponents = np.exp(logits - logits.max(1, keepdims=True))
    for name, scores in (("none", logits), ("softmax", exponents / exponents.sum(1, keepdims=True)),
                         ("sigmoid", 1 / (1 + np.exp(-logits)))):
        raw(f"scores-{name}", scores.astype("f4"))
    raw("logits", logits.astype("f4"))


def main():
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    os.makedirs(sys.argv[1])
    os.chdir(sys.argv[1])
    for make in (convolution, two_inputs, refused, disguised, declared, classifier, spoilt):
        make()
    pathlib.Path("garbage.onnx").write_bytes(b"this is no network")
    pathlib.Path("cut.onnx").write_bytes(pathlib.Path("any-batch.onnx").read_bytes()[:-50])
    pathlib.Path("pickled.onnx").write_bytes(b"PK\x03\x04archive/data.pkl")
    pathlib.Path("empty.onnx").write_bytes(b"")
    library, = glob.glob(os.path.join(os.path.dirname(onnxruntime.__file__), "capi", "libonnxruntime.so*"))
    pathlib.Path("library").write_text(library)


main()
