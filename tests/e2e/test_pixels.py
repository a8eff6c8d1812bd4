"""Pictures as the pipeline sees them, written as PNG files, against ffmpeg's own decoding of the same frames."""
import numpy as np
from PIL import Image

import clips
import harness
import reference

# Where every sample has its own colour the conversion can only round: to nearest on either side, in eight bits.
FULL_COLOUR_TOLERANCE = 1
# Subsampled chroma is interpolated between samples, and how is a matter of choice: its mean error stays below this.
SUBSAMPLED_MEAN = 1.5

IMAGES = """\
version: 1
pipeline: pictures
sources:
  clip: {{uri: "{uri}"}}
stages:
  decode:  {{input: clip}}
  results: {{type: images, input: decode, path: "{path}"}}
"""


class Pixels(harness.Case):
    def pictures(self, uri, frames):
        folder = self.folder / "png"
        folder.mkdir(exist_ok=True)
        for old in folder.rglob("*.png"):
            old.unlink()
        run = self.run_pipeline(IMAGES.format(uri=uri, path=folder), rows=False)
        self.assert_balanced(run)
        paths = sorted(folder.rglob("*.png"))
        self.assertEqual(len(paths), frames)
        return [np.asarray(Image.open(path)) for path in paths]

    def assert_yuv(self, path):
        """Against the standard's matrix in double precision, on the planes that ffmpeg decodes."""
        info = clips.stream(path)
        expected = list(clips.planes(path))
        for seen, (y, *chroma) in zip(self.pictures(path, len(expected)), expected):
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
            if "rgb" not in clips.stream(clips.codec(name))["pix_fmt"] and "gb" not in clips.stream(
                    clips.codec(name))["pix_fmt"]:
                with self.subTest(name):
                    self.assert_yuv(clips.codec(name))

    def test_rgb_is_untouched(self):
        for path in (clips.codec("h264 rgb"), clips.codec("png video"), clips.codec("ffv1 with alpha")):
            with self.subTest(path.name):
                info = clips.stream(path)
                expected = clips.decoded(path, "rgb24").reshape(-1, info["height"], info["width"], 3)
                for seen, rgb in zip(self.pictures(path, len(expected)), expected):
                    np.testing.assert_array_equal(seen[..., :3], rgb)

    def test_png_folder(self):
        """A PNG comes back as it was."""
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

    def test_rotation(self):
        """Written upright, as ffmpeg shows it."""
        for degrees in (90, 180, 270):
            with self.subTest(degrees):
                upright = [np.asarray(one) for one in self.pictures(clips.rotated(degrees), 24)]
                plain = self.pictures(clips.codec("h264 4:2:0"), 24)
                turns = {90: 3, 180: 2, 270: 1}[degrees]  # numpy turns the other way
                for seen, stored in zip(upright, plain):
                    np.testing.assert_array_equal(seen, np.rot90(stored, turns))


if __name__ == "__main__":
    harness.main()
