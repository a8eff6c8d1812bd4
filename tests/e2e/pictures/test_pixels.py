"""Pictures as the pipeline sees them, written as PNG files, compared with ffmpeg's decoding of the same frames."""
import cv2
import numpy as np
from PIL import Image

import clips
import field_coded
import harness
from harness import pipeline
import reference

# If every sample has its own colour, only rounding can differ: to nearest on either side, in eight bits.
FULL_COLOUR_TOLERANCE = 1
# Decoders may interpolate subsampled chroma as they like: the mean error stays below this.
SUBSAMPLED_MEAN = 1.5


def read(path):
    """A picture as rows x columns [x RGB], on the 8-bit scale at any depth."""
    pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if pixels.ndim == 3:
        pixels = pixels[..., 2::-1]
    return pixels / 257 if pixels.dtype == np.uint16 else pixels


class Pixels(harness.Case):
    def pictures(self, uri, frames, options="", source=""):
        folder = self.folder / f"png-{len(list(self.folder.iterdir()))}"
        run = self.run_pipeline(pipeline(dict(clip=f'uri: "{uri}"{source}'), name="pictures", decode=options,
                                         results=f'type: images, path: "{folder}"'), rows=False)
        self.assert_balanced(run)
        paths = sorted(folder.rglob("*.png"))
        self.assertEqual(len(paths), frames)
        return [read(path) for path in paths]

    def assert_yuv(self, path, options="", **meant):
        """Compares with the standard's matrix in double precision, on planes that ffmpeg decodes. `meant` complements
        what ffprobe says about the stream."""
        info = {**clips.stream(path), **meant}
        expected = list(clips.planes(path))
        for seen, (y, *chroma) in zip(self.pictures(path, len(expected), options), expected):
            if not chroma:
                grey = (y - 16) / 219 * 255 if info.get("color_range") != "pc" else y
                found = seen if seen.ndim == 2 else seen[..., 0]
                self.assertLessEqual(np.abs(found - np.clip(grey, 0, 255)).max(), FULL_COLOUR_TOLERANCE)
                continue
            rows, columns = y.shape
            u, v = (plane.repeat(2 if plane.shape[0] < rows else 1, 0)[:rows]
                    .repeat(2 if plane.shape[1] < columns else 1, 1)[:, :columns] for plane in chroma)
            rgb = reference.to_rgb(y, u, v, reference.matrix_of(info), info.get("color_range") == "pc")
            error = np.abs(seen[..., :3] - rgb.transpose(1, 2, 0))
            if chroma[0].shape == y.shape:
                self.assertLessEqual(error.max(), FULL_COLOUR_TOLERANCE)
            else:
                self.assertLessEqual(error.mean(), SUBSAMPLED_MEAN)

    def test_video(self):
        for name in clips.CODECS:
            if clips.stream(clips.codec(name))["pix_fmt"].startswith(("yuv", "gray")):
                with self.subTest(name):
                    self.assert_yuv(clips.codec(name))

    def test_streams_that_do_not_tell(self):
        path = clips.codec("h264 4:4:4")
        self.assertNotIn("color_space", clips.stream(path))
        self.assert_yuv(path, ", untagged: bt709", color_space="bt709")
        self.assert_yuv(path, ", untagged: {matrix: bt2020, range: full}", color_space="bt2020nc", color_range="pc")

    def test_pictures_in_two_fields(self):
        """Both fields are as written, line by line; and ffmpeg agrees."""
        path, written = clips.in_fields("mp4"), field_coded.pictures(10)
        for decoded, picture in zip(clips.planes(path), written, strict=True):
            for plane, expected in zip(decoded, picture, strict=True):
                np.testing.assert_array_equal(plane, expected)
        self.assert_yuv(path)
        # One of three, in any container: two packets are one picture.
        every = self.pictures(path, 10)
        for container in ("mp4", "mkv", "ts"):
            with self.subTest(container):
                some = self.pictures(clips.in_fields(container), 4, source=", every: 3")
                np.testing.assert_array_equal(some, every[::3])

    def test_rgb_is_untouched(self):
        for path in (clips.codec("h264 rgb"), clips.codec("png video"), clips.codec("ffv1 with alpha")):
            with self.subTest(path.name):
                info = clips.stream(path)
                expected = clips.decoded(path, "rgb24").reshape(-1, info["height"], info["width"], 3)
                for seen, rgb in zip(self.pictures(path, len(expected)), expected):
                    np.testing.assert_array_equal(seen[..., :3], rgb)

    def test_png_folder(self):
        """A PNG comes back unchanged."""
        folder = clips.pictures("png", mixed=True)
        paths = sorted(folder.iterdir())
        for seen, path in zip(self.pictures(folder, len(paths)), paths):
            np.testing.assert_array_equal(seen[..., :3], np.asarray(Image.open(path).convert("RGB")))

    def test_jpeg_folder(self):
        folder = clips.pictures("jpg", mixed=True)
        paths = sorted(folder.iterdir())
        for seen, path in zip(self.pictures(folder, len(paths)), paths):
            expected = np.asarray(Image.open(path).convert("RGB")).astype(int)
            self.assertEqual(seen.shape, expected.shape)
            self.assertLessEqual(np.abs(seen - expected).mean(), SUBSAMPLED_MEAN)

    def test_files_hold_pictures_as_stored(self):
        plain = self.pictures(clips.codec("h264 4:2:0"), 24)
        for seen, stored in zip(self.pictures(clips.rotated(90), 24), plain):
            np.testing.assert_array_equal(seen, stored)


class Tensors(harness.Case):
    """A network's input, printed as numbers."""

    def tensors(self, uri, width, height, options=""):
        run = self.run_pipeline(pipeline(dict(clip=f'uri: "{uri}"'), name="tensors", decode="",
                                         preprocess=f"size: {width}x{height}, layout: nhwc{options}",
                                         results='type: jsonl, features: true, path: "-"'))
        self.assert_balanced(run)
        return [np.array(row["features"]).reshape(height, width, 3) for row in run.rows]

    def test_rotation(self):
        """Turned upright, as ffmpeg turns it, unless disabled."""
        plain = self.tensors(clips.codec("h264 4:2:0"), 32, 18)
        for degrees, turns in ((90, 1), (180, 2), (270, 3)):  # quarter turns to the left, in ffmpeg and in numpy
            size = (18, 32) if degrees != 180 else (32, 18)
            with self.subTest(degrees):
                for seen, stored in zip(self.tensors(clips.rotated(degrees), *size), plain):
                    np.testing.assert_allclose(seen, np.rot90(stored, turns), atol=0.01)
                for seen, stored in zip(self.tensors(clips.rotated(degrees), 32, 18, ", rotate: false"), plain):
                    np.testing.assert_allclose(seen, stored, atol=0.01)

    def test_wide_samples(self):
        """320x240 with 4:3 pixels shows a 16:9 picture: in a square, bars above and below take 7/16."""
        options = ", fit: letterbox, pad: 255"
        for sar, rows in ((True, 36), (False, 48)):
            with self.subTest(sar=sar):
                seen = self.tensors(clips.wide_pixels(), 64, 64, options + ("" if sar else ", sar: false"))[0]
                bars = int(sum((seen == 255).all(axis=(1, 2))))
                self.assertEqual(bars, 64 - rows)
