"""Network inputs, decoded and scaled by the ffmpeg command."""

import subprocess

import numpy

# The centre square with 0.875 of the shorter side (224 of 256), RGB.
FILTER = "scale=256:256:force_original_aspect_ratio=increase:flags=bilinear,crop=224:224,format=rgb24"
BYTES = 224 * 224 * 3


def read(path, every=1):
    """Every `every`-th picture in a video, or an image file's picture, as float32 N x 3 x 224 x 224,
    (x - 127) / 128."""
    choose = f"select=not(mod(n\\,{every}))," if every > 1 else ""
    command = ["ffmpeg", "-v", "error", "-nostdin", "-i", str(path), "-vf", choose + FILTER, "-fps_mode", "passthrough",
               "-f", "rawvideo", "-"]
    try:
        run = subprocess.run(command, capture_output=True, check=True)
    except FileNotFoundError:
        raise OSError("the command ffmpeg is not installed (Debian's package ffmpeg)") from None
    except subprocess.CalledProcessError as error:
        raise OSError(f"ffmpeg cannot read {path}: {error.stderr.decode(errors='replace').strip()}") from None
    if not run.stdout or len(run.stdout) % BYTES:
        raise OSError(f"ffmpeg made no pictures of {path}")
    pixels = numpy.frombuffer(run.stdout, numpy.uint8).reshape(-1, 224, 224, 3).transpose(0, 3, 1, 2)
    return (pixels.astype(numpy.float32) - 127) / 128
