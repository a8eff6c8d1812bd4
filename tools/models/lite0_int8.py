#!/usr/bin/env python3
"""Makes lite0-int8.onnx, EfficientNet-Lite0's features in 8 bits, for tests and benchmarks.

Weights are signed per channel, activations unsigned. It is calibrated on sample pictures, so its bytes differ between
processors, and it is in no list of digests. All of lite0's networks must recognise known pictures; otherwise nothing is
written. An existing file is kept if the same program made it from the same networks.
"""

import argparse
import collections
import hashlib
import importlib.metadata
import os
import pathlib
import sys
import tempfile

# ONNX Runtime sends telemetry unless it is disabled before loading.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

STILLS = pathlib.Path("/usr/share/doc/opencv-doc/examples/data")
CLIP = pathlib.Path("/usr/lib/python3/dist-packages/imageio/resources/images/cockatoo.mp4")
# The label of each must contain this text.
KNOWN = {"squirrel_cls.jpg": "squirrel", "orange.jpg": "orange", "baboon.jpg": "baboon"}
KNOWN_CLIP = "sulphur-crested cockatoo"
CALIBRATION = ["squirrel_cls.jpg", "orange.jpg", "baboon.jpg", "fruits.jpg", "home.jpg", "messi5.jpg", "butterfly.jpg",
               "building.jpg", "apple.jpg", "aloeL.jpg"]
CLIP_EVERY = 7
FEATURES, HEAD, INT8 = "lite0-features.onnx", "lite0-head.npy", "lite0-int8.onnx"


def say(text):
    print(text, flush=True)


def fingerprint(folder, samples):
    """A digest that changes with the networks, this program, its libraries and the choice of samples."""
    digest = hashlib.sha256("\n".join(map(str, samples)).encode())
    for path in [folder / FEATURES, *sorted(pathlib.Path(__file__).parent.glob("*.py"))]:
        digest.update(path.read_bytes())
    for package in ("numpy", "onnx", "onnxruntime"):
        digest.update(importlib.metadata.version(package).encode())
    return digest.hexdigest()


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


def make(folder, stills, clip, target):
    import numpy
    say("reading the sample pictures")
    samples = Samples(stills, clip)
    labels = (folder / "imagenet.txt").read_text().splitlines()
    head = numpy.load(folder / HEAD)
    linear = lambda path: lambda images: (features_of(path, images) @ head[:, :-1].T + head[:, -1]).argmax(1)
    verify(FEATURES, linear(folder / FEATURES), samples, labels)
    verify("lite0.onnx", lambda images: features_of(folder / "lite0.onnx", images).argmax(1), samples, labels)
    verify_halves(folder, samples)
    say(f"calibrating the 8-bit variant on {len(samples.calibration)} pictures")
    quantize(folder / FEATURES, target, samples)
    verify(INT8, linear(target), samples, labels)
    full, small = (linear(path)(samples.clip) for path in (folder / FEATURES, target))
    say(f"{INT8}: same class as in f32 on {int((full == small).sum())} of {len(full)} frames")


def main():
    parser = argparse.ArgumentParser(description="Makes EfficientNet-Lite0's features in 8 bits.")
    parser.add_argument("folder", type=pathlib.Path, help="folder with lite0, to write to")
    parser.add_argument("--stills", type=pathlib.Path, default=STILLS, help="samples of opencv-doc (%(default)s)")
    parser.add_argument("--clip", type=pathlib.Path, default=CLIP, help="cockatoo.mp4 of python3-imageio (%(default)s)")
    given = parser.parse_args()
    for path, package in ((given.stills / "squirrel_cls.jpg", "opencv-doc"), (given.clip, "python3-imageio")):
        if not path.is_file():
            raise OSError(f"{path} is missing; it comes with the package {package}")
    stamp, mark = given.folder / ".lite0-int8", fingerprint(given.folder, (given.stills, given.clip))
    if (given.folder / INT8).is_file() and stamp.is_file() and stamp.read_text() == mark:
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as work:
        target = pathlib.Path(work, INT8)
        make(given.folder, given.stills, given.clip, target)
        os.replace(target, given.folder / INT8)
    stamp.write_text(mark)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, ImportError) as error:
        sys.exit(f"lite0_int8: {error}")
