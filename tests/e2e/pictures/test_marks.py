"""The way back from tensor pixels to the source picture's: marks at known places are found in tensors by centroid, and
mapped back with the frame's geometry. Covers everything that decode and preprocess do, and networks, joins, copies,
nodes and replicas."""
import json
import subprocess
import unittest

import numpy as np
from PIL import Image, ImageOps

from harness import ROOT, Case, call, pipeline

WIDTH, HEIGHT, SIDE = 320, 200, 24
MARK = (150, 92)  # the mark's centre in the stored picture
NEAR = 0.15       # the largest error, in tensor pixels


def head(uri, decode=""):
    return pipeline(dict(photos=f'uri: "{uri}"'), name="marks", top="plugins: [libway.so]", decode=decode)

# Options for tensors from pictures, and whether preprocess turns pictures upright.
WAYS = {
    "stretch": "size: 48x64, fit: stretch",
    "crop": "size: 64x56, fit: center-crop, crop_fraction: 0.9",
    "beside": "size: 100x40, fit: letterbox",
    "above": "size: 40x100, fit: letterbox, sar: false",
    "region": "size: 60x60, roi: {x: 20, y: 10, width: 170, height: 180}",
    "enlarged": "size: 420x430, fit: letterbox, interpolation: bicubic, antialias: false",
    "stored": "size: 64x40, rotate: false",
    "nhwc": "size: 50x40, layout: nhwc, interpolation: bilinear",
}


def picture(width=WIDTH, height=HEIGHT, mark=MARK, side=SIDE):
    drawn = np.zeros((height, width), np.uint8)
    drawn[mark[1] - side // 2:mark[1] + side // 2, mark[0] - side // 2:mark[0] + side // 2] = 255
    return Image.fromarray(drawn)


def centroid(values):
    rows, columns = np.indices(values.shape)
    return np.array([((columns + 0.5) * values).sum(), ((rows + 0.5) * values).sum()]) / values.sum()


class Marks(Case):
    def setUp(self):
        super().setUp()
        done = call(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT}/engine/include",
                     ROOT / "tests/plugin/way.c", "-o", self.folder / "libway.so", "-lm"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def run_ways(self, uri, ways=WAYS, decode=""):
        """Each way's rows, in order."""
        text = head(uri=uri, decode=decode)
        for name, options in ways.items():
            filter = "" if "interpolation" in options else "interpolation: area, "
            text += f"  p-{name}: {{type: preprocess, input: decode, order: gray, {filter}{options}}}\n"
            text += (f"  w-{name}: {{type: way, input: p-{name}}}\n"
                     f"  r-{name}: {{type: jsonl, input: w-{name}, features: true, tensors: true, "
                     f"path: {name}.jsonl}}\n")
        self.assert_balanced(self.run_pipeline(text, rows=False))
        return {name: self.rows(name) for name in ways}

    def rows(self, name):
        return [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_text().splitlines()]

    def told(self, row, stage=None):
        """The map, both sizes, and where corners are shown, as the stage `way` printed them."""
        by = {tensor["name"]: np.array(tensor["data"]) for tensor in row["tensors"]
              if tensor["name"] in ("way", "shown") and stage in (None, tensor["stage"])}
        return by["way"][:6].reshape(2, 3), by["way"][6:].astype(int), by["shown"].reshape(3, 2)

    def check(self, row, of=(WIDTH, HEIGHT), mark=MARK, near=NEAR, upright=None):
        """Finds the mark in the tensor, and where it maps to."""
        way, sizes, shown = self.told(row)
        width, height = sizes[:2]
        at = centroid(np.array(row["features"]).reshape(height, width))
        back, span = way[:, :2] @ at + way[:, 2], np.abs(way[:, :2]).sum(axis=1)
        self.assertEqual(tuple(sizes[2:]), of)
        error = np.abs(back - mark) / np.maximum(span, 1)
        self.assertLess(error.max(), near, (row["file"], back, mark))
        if upright is not None:
            seen = shown[0] + (shown[1] - shown[0]) * at[0] / width + (shown[2] - shown[0]) * at[1] / height
            self.assertLess((np.abs(seen - upright) / span.max()).max(), near, (row["file"], seen, upright))

    def test_all_orientations(self):
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = orientation
            picture().save(self.folder / f"{orientation}.jpg", exif=exif, quality=95)
            picture().save(self.folder / f"{orientation}.png", exif=exif)
        rows = self.run_ways(f"{self.folder}/*.*g")
        for name in WAYS:
            self.assertEqual(len(rows[name]), 16)
            for row in rows[name]:
                with self.subTest(name, file=row["file"]):
                    seen = ImageOps.exif_transpose(Image.open(row["file"]))
                    self.check(row, upright=centroid(np.asarray(seen).astype(float)))

    def test_pictures_that_are_decoded_smaller(self):
        exif, mark = Image.Exif(), (800, 500)
        exif[0x0112] = 6
        picture(1603, 1205, mark, 160).save(self.folder / "large.jpg", exif=exif, quality=95)
        ways = {"small": "size: 40x48", "boxed": "size: 60x40, fit: letterbox", "cut": "size: 40x40, fit: center-crop"}
        rows = self.run_ways(f"{self.folder}/large.jpg", ways, ", reduced: auto")
        for name in ways:
            self.check(rows[name][0], (1603, 1205), mark)
        text = head(uri=f"{self.folder}/large.jpg", decode=", reduced: auto") + (
            "  whole: {type: way, input: decode}\n"
            "  p: {type: preprocess, input: whole, order: gray, interpolation: area, size: 40x48}\n"
            "  end: {type: way, input: p}\n"
            "  rows: {type: jsonl, input: end, features: true, tensors: true, path: reduced.jsonl}\n")
        self.assert_balanced(self.run_pipeline(text, rows=False))
        row, = self.rows("reduced")
        way, sizes, _ = self.told(row, "whole")
        self.assertEqual(way.tolist(), [[8, 0, 0], [0, 8, 0]])
        self.assertEqual(sizes.tolist(), [201, 151, 1603, 1205])
        self.assertTrue(np.allclose(self.told(row, "end")[0], self.told(rows["small"][0])[0], atol=1e-3))

    def video(self, name, aspect):
        path = self.folder / name
        box = f"drawbox=x={MARK[0] - SIDE // 2}:y={MARK[1] - SIDE // 2}:w={SIDE}:h={SIDE}:color=white:t=fill"
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i",
                        f"color=black:size={WIDTH}x{HEIGHT}:rate=5:duration=1,format=yuv420p,{box},setsar={aspect}",
                        "-c:v", "libx264", "-qp", "0", path], check=True)
        return path

    def test_pixels_that_are_not_square_and_turned_videos(self):
        for name, aspect in (("wide", "2"), ("high", "1/2")):
            plain = self.video(f"{name}.mp4", aspect)
            for degrees in (0, 90, 180, 270):
                path = self.folder / f"{name}-{degrees}.mp4"
                subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", plain, "-c", "copy", "-metadata:s:v",
                                f"rotate={degrees}", path], check=True)
                for way, rows in self.run_ways(path).items():
                    self.assertEqual(len(rows), 5)
                    with self.subTest(way, aspect=aspect, degrees=degrees):
                        self.check(rows[2])

    def model(self, nodes, outputs):
        try:
            import onnx
            import onnxruntime
        except ImportError as missing:
            raise unittest.SkipTest(str(missing))
        assert onnxruntime
        helper, make = onnx.helper, onnx.helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g",
                                  [make("x", onnx.TensorProto.FLOAT, ["n", 1, 40, 100])],
                                  [make(name, onnx.TensorProto.FLOAT, shape) for name, shape in outputs])
        path = self.folder / f"{outputs[0][0]}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)

    # The tensor passes every stage that forwards frames; the map stays the letterboxed picture's.
    JOURNEY = """
  boxed:   {type: preprocess, input: decode, order: gray, interpolation: area, size: 100x40, fit: letterbox}
  other:   {type: preprocess, input: decode, order: gray, size: 9x7}
  there:   {type: preprocess, input: decode, order: gray, interpolation: area, size: 100x40, fit: letterbox,
            device: "sim:0"}
  network: {type: infer, input: boxed, model: y.onnx}
  vectors: {type: features, input: boxed, model: mean.onnx}
  both:    {type: join, join: {a: network, b: other}}
  told:    {type: way, input: both}
  again:   {type: way, input: there}
  flat:    {type: way, input: vectors}
  rows:    {type: jsonl, input: told, features: true, tensors: true, path: told.jsonl}
  back:    {type: jsonl, input: again, features: true, tensors: true, path: again.jsonl}
  mean:    {type: jsonl, input: flat, features: true, tensors: true, path: flat.jsonl}
"""
    NODES = ("nodes: {a: {sources: [photos], stages: [decode, boxed, other, there, network, both]}, "
             "m: {stages: [told, vectors, flat, again], replicas: 2}, z: {stages: [rows, back, mean]}}\n")

    def journey(self, nodes=""):
        self.model([("Relu", ["x"], ["y"])], [("y", ["n", 1, 40, 100])])
        self.model([("GlobalAveragePool", ["x"], ["p"]), ("Flatten", ["p"], ["mean"])], [("mean", ["n", 1])])
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = orientation
            picture().save(self.folder / f"{orientation}.jpg", exif=exif, quality=95)
        text = head(uri=f"{self.folder}/*.jpg") + self.JOURNEY[1:] + nodes
        self.millrace("run", self.write(text))
        by_file = {}
        for name in ("told", "again"):
            rows = self.rows(name)
            self.assertEqual(len(rows), 8)
            for row in rows:
                self.check(row)
                by_file[row["file"]] = self.told(row)
        for row in self.rows("flat"):
            for one, other in zip(self.told(row), by_file[row["file"]]):
                self.assertEqual(one.tolist(), other.tolist())

    def test_in_one_process(self):
        self.journey()

    def test_over_nodes_and_replicas(self):
        self.journey(self.NODES)

    def test_pictures_that_were_encoded_between(self):
        """The video is rotated and has another size than the encoder's: the map leads to the first picture."""
        exif = Image.Exif()
        exif[0x0112] = 8
        picture(WIDTH - 1, HEIGHT - 1).save(self.folder / "one.jpg", exif=exif, quality=95)
        text = head(uri=f"{self.folder}/one.jpg") + (
            "  packets: {type: encode, input: decode, codec: mjpeg}\n"
            "  pictures: {type: decode, input: packets}\n"
            "  p: {type: preprocess, input: pictures, order: gray, interpolation: area, size: 64x64, fit: letterbox}\n"
            "  w: {type: way, input: p}\n"
            "  r: {type: jsonl, input: w, features: true, tensors: true, path: r.jsonl}\n")
        self.assert_balanced(self.run_pipeline(text, rows=False))
        self.check(self.rows("r")[0], (WIDTH - 1, HEIGHT - 1))
