"""The classifier again, by other means: ffmpeg's pictures, double precision arithmetic from the standards, and ONNX
Runtime's Python."""
import functools

import numpy as np
import onnxruntime

import clips
from harness import MODELS

# Kr and Kb of Y' = Kr R' + (1 - Kr - Kb) G' + Kb B' (ITU-R BT.601-7, BT.709-6, BT.2020-2).
MATRICES = {"bt709": (0.2126, 0.0722), "bt470bg": (0.299, 0.114), "smpte170m": (0.299, 0.114),
            "bt2020nc": (0.2627, 0.0593)}


def matrix_of(info):
    """The matrix that players assume if a stream does not say: BT.709 from 1280 columns or 720 lines, otherwise
    BT.601."""
    named = info.get("color_space", "unknown")
    return MATRICES.get(named) or MATRICES["bt709" if info["height"] >= 720 or info["width"] >= 1280 else "smpte170m"]


def to_rgb(y, u, v, matrix, full=False):
    """8-bit Y'CbCr to R'G'B' in 0..255, not rounded."""
    kr, kb = matrix
    if full:
        y, u, v = y / 255, (u - 128) / 255, (v - 128) / 255
    else:
        y, u, v = (y - 16) / 219, (u - 128) / 224, (v - 128) / 224
    red = y + 2 * (1 - kr) * v
    blue = y + 2 * (1 - kb) * u
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    return np.clip(np.stack([red, green, blue]) * 255, 0, 255)


def weights(count, centres, scale):
    """Pillow's BILINEAR triangle filter as a matrix: a row per output sample, a column per input sample.

    `centres` are positions in input samples (0.5: the middle of the first), `scale` is input samples per output sample.
    When shrinking, the triangle is as wide as the scale. There is nothing outside the picture, and rows add up to 1."""
    distance = np.abs(np.arange(count)[None] + 0.5 - np.asarray(centres)[:, None])
    rows = np.maximum(0, 1 - distance / max(scale, 1))
    return rows / rows.sum(axis=1, keepdims=True)


def crop_and_resize(picture, size, fraction, siting="left"):
    """The middle square of a picture given as planes, with `fraction` of the shorter side, as three planes of size x
    size.

    Output sample i is at (i + 0.5) * side / size. `siting` says where chroma is: horizontally on the even luma samples
    (left) or between them (center); vertically always between them."""
    height, width = picture[0].shape
    side = fraction * min(width, height)
    steps = (np.arange(size) + 0.5) * side / size
    x, y, out = (width - side) / 2 + steps, (height - side) / 2 + steps, []
    for plane in picture:
        rows, columns = plane.shape
        half_x, half_y = columns < width, rows < height
        x_of = (x + (0.5 if siting == "left" else 0)) / 2 if half_x else x
        across = weights(columns, x_of, side / size / (2 if half_x else 1))
        down = weights(rows, y / 2 if half_y else y, side / size / (2 if half_y else 1))
        high, wide = down.any(axis=0), across.any(axis=0)  # most of a large picture has no weight
        out.append(down[:, high] @ plane[np.ix_(high, wide)].astype(np.float64) @ across[:, wide].T)
    return out


def network_input(picture, info, size=224, fraction=0.875):
    """A picture's planes as the network needs them: 3 x size x size floats, (x - 127) / 128."""
    siting = info.get("chroma_location", "left")
    planes = crop_and_resize(picture, size, fraction, siting if siting in ("left", "center") else "left")
    rgb = to_rgb(*planes, matrix_of(info), full=info.get("color_range") == "pc")
    return ((rgb - 127) / 128).astype(np.float32)


def session(name):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(MODELS / name), options, providers=["CPUExecutionProvider"])


@functools.cache
def inputs(video, every):
    """The network's input for one in `every` frames of a video."""
    info = clips.stream(video)
    return [network_input(picture, info) for picture in clips.planes(video, every)]


def scores(video, model="lite0-features.onnx", every=1):
    """[scores for the 1000 classes] for one in `every` frames of a video."""
    network, head = session(model), np.load(MODELS / "lite0-head.npy").astype(np.float64)
    name = network.get_inputs()[0].name
    for tensor in inputs(video, every):
        features = network.run(None, {name: tensor[None]})[0][0]
        logits = head[:, :-1] @ features + head[:, -1]
        powers = np.exp(logits - logits.max())
        yield powers / powers.sum()


def labels():
    return (MODELS / "imagenet.txt").read_text().splitlines()
