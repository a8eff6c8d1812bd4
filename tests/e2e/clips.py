"""Clips that ffmpeg makes from Debian's samples at test time, and what ffprobe and ffmpeg report about them.

Each clip is made once, in the build folder: a clip whose recipe changes gets another name."""
import fcntl
import functools
import hashlib
import json
import subprocess
import threading

import numpy as np

import field_coded
from harness import PICTURES, ROOT, SAMPLES

FOLDER = ROOT / "build/clips"
COCKATOO = SAMPLES / "cockatoo.mp4"


def ffmpeg(*arguments):
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *map(str, arguments)], check=True,
                   stdout=subprocess.DEVNULL)


def made(name, recipe, make):
    """The path of a clip that make(path) writes, in a folder named after the recipe. If several tests need it at the
    same time, one makes it and the others wait."""
    mark = hashlib.sha256(recipe.encode()).hexdigest()[:10]
    path = FOLDER / f"{mark}-{name}"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with open(FOLDER / f"{mark}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                make(part := FOLDER / f"part{threading.get_native_id()}-{name}")
                part.rename(path)
    return path


def encoded(name, *options, filters="scale=320:180", frames=24, source=COCKATOO):
    """Encodes `frames` sample frames with `options` after `filters`."""
    arguments = ["-i", source, "-map", "0:v:0", "-vf", filters, "-frames:v", frames, *options]
    return made(name, f"{name} {arguments}", lambda path: ffmpeg(*arguments, path))


H264 = ("-c:v", "libx264", "-preset", "fast", "-bf", "2")
HEVC = ("-c:v", "libx265", "-x265-params", "log-level=error")
VP9 = ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8")

# name: (file name, encoder options, filters)
CODECS = {
    "h264 4:2:0": ("h264-420.mp4", (*H264, "-pix_fmt", "yuv420p"), "scale=320:180"),
    "h264 4:4:4": ("h264-444.mp4", (*H264, "-pix_fmt", "yuv444p"), "scale=320:180"),
    "h264 4:2:2": ("h264-422.mkv", (*H264, "-pix_fmt", "yuv422p"), "scale=320:180"),
    "h264 10 bit": ("h264-10.mkv", (*H264, "-pix_fmt", "yuv420p10le"), "scale=320:180"),
    "h264 interlaced": ("h264-tff.mp4", (*H264, "-flags", "+ilme+ildct", "-pix_fmt", "yuv420p"),
                        "scale=320:192,setfield=tff"),
    "h264 gray": ("h264-gray.mkv", (*H264, "-pix_fmt", "gray"), "scale=320:180"),
    "hevc": ("hevc.mp4", (*HEVC, "-pix_fmt", "yuv420p"), "scale=320:180"),
    "hevc 10 bit": ("hevc-10.mkv", (*HEVC, "-pix_fmt", "yuv420p10le"), "scale=320:180"),
    "hevc 12 bit": ("hevc-12.mkv", (*HEVC, "-pix_fmt", "yuv420p12le"), "scale=320:180"),
    "vp9": ("vp9.webm", (*VP9, "-pix_fmt", "yuv420p"), "scale=320:180"),
    "vp9 odd size": ("vp9-odd.webm", (*VP9, "-pix_fmt", "yuv420p"), "scale=321:179"),
    "av1": ("av1.mkv", ("-c:v", "libsvtav1", "-preset", "12", "-pix_fmt", "yuv420p"), "scale=320:180"),
    "mjpeg": ("mjpeg.avi", ("-c:v", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj422p"), "scale=320:180"),
    "mjpeg odd size": ("mjpeg-odd.avi", ("-c:v", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj420p"), "scale=321:181"),
    "mpeg4": ("mpeg4.avi", ("-c:v", "mpeg4", "-q:v", "3", "-bf", "0"), "scale=320:180"),
    "mpeg4 with B frames": ("mpeg4-b.mp4", ("-c:v", "mpeg4", "-q:v", "3", "-bf", "2"), "scale=320:180"),
    "h264 odd size": ("h264-odd.mkv", (*H264, "-pix_fmt", "yuv444p"), "scale=319:177"),
    "h264 rgb": ("h264-rgb.mkv", ("-c:v", "libx264rgb", "-preset", "fast", "-pix_fmt", "rgb24"), "scale=320:180"),
    "png video": ("png.mkv", ("-c:v", "png", "-pix_fmt", "rgb24"), "scale=160:90"),
    "ffv1 with alpha": ("ffv1-alpha.mkv", ("-c:v", "ffv1", "-pix_fmt", "bgra"), "scale=160:90"),
}


def codec(name):
    file, options, filters = CODECS[name]
    return encoded(file, *options, filters=filters)


def hurried():
    """A folder with two small samples at four times the speed, for real-time runs that are stopped midway."""
    def make(path):
        path.mkdir()
        for name in ("cockatoo.mp4", "realshort.mp4"):
            ffmpeg("-itsscale", 0.25, "-i", SAMPLES / name, "-map", "0:v:0", "-vf", "scale=160:90", *H264, "-g", 30,
                   "-pix_fmt", "yuv420p", "-vsync", "passthrough", "-enc_time_base", -1, path / name)

    return made("hurried", "hurried 160:90 30", make)


def one_frame():
    return encoded("one.mp4", *H264, "-pix_fmt", "yuv420p", frames=1)


def variable_rate():
    """Frames at uneven times: for a while two of three are left out, then all stay."""
    return encoded("vfr.mp4", *H264, "-pix_fmt", "yuv420p", "-vsync", "vfr",
                   filters="scale=320:180,select='if(lt(n,30),not(mod(n,3)),1)'", frames=30)


OPEN_H264 = ("-c:v", "libx264", "-x264-params", "open-gop=1:keyint=12:bframes=3:scenecut=0:b-adapt=0")
OPEN_HEVC = ("-c:v", "libx265", "-x265-params", "log-level=none:open-gop=1:keyint=12:bframes=3:scenecut=0:b-adapt=0")


def uneven():
    """25 pictures a second, then 10, then one, in a container with a millisecond clock."""
    when = "if(lt(N,25),N/25,if(lt(N,55),1+(N-25)/10,4+(N-55)))"
    return made("uneven.mkv", f"uneven {when}", lambda path: ffmpeg(
        "-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25", "-vf", f"setpts='({when})/TB'", "-vsync", "vfr",
        "-enc_time_base", "1/1000", "-frames:v", 60, *H264, "-bf", 3, "-g", 300, "-pix_fmt", "yuv420p", path))


def transport_stream():
    """A transport stream. The first time stamp is not zero."""
    return encoded("h264.ts", *H264, "-pix_fmt", "yuv420p")


def in_fields(container, count=10):
    """Each picture is coded as two fields, in two packets."""
    def make(path):
        plain = path.with_suffix(".h264")
        plain.write_bytes(field_coded.stream(field_coded.pictures(count)))
        ffmpeg("-i", plain, "-c", "copy", path)
        plain.unlink()

    return made(f"fields.{container}", f"fields {count} 2", make)


def rotated(degrees):
    plain = codec("h264 4:2:0")
    return made(f"rotated-{degrees}.mp4", f"rotated {degrees} {plain.name}", lambda path: ffmpeg(
        "-i", plain, "-c", "copy", "-metadata:s:v", f"rotate={degrees}", path))


def wide_pixels():
    """Pixels that are not square: 4:3 stored, 16:9 shown."""
    return encoded("sar.mp4", *H264, "-pix_fmt", "yuv420p", filters="scale=320:240,setsar=4/3")


def audio_only():
    return made("tone.wav", "tone", lambda path: ffmpeg("-f", "lavfi", "-i", "sine=duration=1", path))


def cover_art():
    """Sound with a cover picture: there is no video."""
    return made("cover.mp3", "cover", lambda path: ffmpeg(
        "-f", "lavfi", "-i", "sine=duration=1", "-i", PICTURES / "orange.jpg", "-map", "0", "-map", "1",
        "-c:v", "copy", "-disposition:v", "attached_pic", "-id3v2_version", "3", path))


def video_with_cover():
    """Video with a cover picture: only the video counts."""
    plain = codec("h264 4:2:0")
    return made("video-cover.mp4", f"video cover {plain.name}", lambda path: ffmpeg(
        "-i", PICTURES / "orange.jpg", "-i", plain, "-map", "0", "-map", "1", "-c", "copy",
        "-disposition:v:0", "attached_pic", path))


def two_videos(container):
    """The second has four times as many pixels as the first, and 24 frames instead of 12. In "thumb.mp4" the first is a
    picture, larger than the second and not marked as a cover."""
    size, frames, codec_name = ("1280x720", 1, "mjpeg") if container == "thumb.mp4" else ("160x120", 12, "libx264")
    sources = [f"testsrc2=size={size}:rate=12:duration={frames / 12}", "testsrc2=size=320x240:rate=12:duration=2"]
    return made(f"two.{container}", f"two videos {sources}", lambda path: ffmpeg(
        "-f", "lavfi", "-i", sources[0], "-f", "lavfi", "-i", sources[1], "-map", "0", "-map", "1", "-pix_fmt",
        "yuv420p", "-c:v:0", codec_name, "-c:v:1", "libx264", path))


def encrypted():
    """Common Encryption for every sample."""
    return made("encrypted.mp4", "encrypted", lambda path: ffmpeg(
        "-i", codec("h264 4:2:0"), "-c", "copy", "-encryption_scheme", "cenc-aes-ctr", "-encryption_key", "76" * 16,
        "-encryption_kid", "a7" * 16, path))


def longer(container):
    """More frames and several key frames, for damage tests."""
    return encoded(f"long.{container}", *H264, "-g", "12", "-pix_fmt", "yuv420p",
                   *(("-movflags", "+faststart") if container == "mp4" else ()), frames=72)


def truncated(container):
    """The first 60% of the bytes."""
    whole = longer(container)
    data = whole.read_bytes()
    return made(f"truncated.{container}", f"truncated {whole.name}",
                lambda path: path.write_bytes(data[:len(data) * 6 // 10]))


def damaged(container):
    """Noise overwrites a stretch in the middle."""
    whole = longer(container)

    def spoil(path):
        data = bytearray(whole.read_bytes())
        start, length = len(data) // 2, len(data) // 16
        data[start:start + length] = np.random.default_rng(1).bytes(length)
        path.write_bytes(data)

    return made(f"damaged.{container}", f"damaged {whole.name}", spoil)


def rotten():
    """An intact index, and noise instead of pictures: the file opens, but nothing can be decoded."""
    whole = codec("h264 4:2:0")

    def spoil(path):
        data = bytearray(whole.read_bytes())
        start, end = data.find(b"mdat") + 4, data.find(b"moov") - 4
        data[start:end] = np.random.default_rng(1).bytes(end - start)
        path.write_bytes(data)

    return made("rotten.mp4", f"rotten {whole.name}", spoil)


def changing_size():
    """Two MPEG-2 streams with different sizes, one after the other: the size changes in mid-stream."""
    mpeg2 = ("-c:v", "mpeg2video", "-q:v", "3", "-bf", "0")
    parts = [encoded(f"{size}.ts", *mpeg2, filters=f"scale={size}", frames=12) for size in ("320:180", "160:120")]
    return made("sizes.mpg", " ".join(part.name for part in parts), lambda path: ffmpeg(
        "-i", "concat:" + "|".join(map(str, parts)), "-c", "copy", "-f", "mpegts", path))


def pictures(kind, mixed=False):
    """A folder with six pictures, with equal or different sizes."""
    def make(path):
        path.mkdir()
        for index, name in enumerate(("orange", "baboon", "squirrel_cls", "fruits", "butterfly", "home")):
            scale = f"scale={200 + 37 * index}:{150 + 23 * index}" if mixed else "scale=240:180"
            ffmpeg("-i", PICTURES / f"{name}.jpg", "-vf", scale, *(("-q:v", "2") if kind == "jpg" else ()),
                   path / f"{index:02}-{name}.{kind}")

    return made(f"pictures-{kind}{'-mixed' if mixed else ''}", f"pictures {kind} {mixed} 1", make)


# ---- what ffprobe and ffmpeg say ----


@functools.lru_cache(maxsize=None)
def raw_times(path):
    """[presentation time in seconds] for each frame that ffprobe decodes from the first real video stream."""
    done = subprocess.run(["ffprobe", "-v", "quiet", "-threads", "1", "-select_streams", "V:0", "-show_entries",
                           "frame=best_effort_timestamp_time", "-of", "json", path], capture_output=True, text=True)
    return [float(frame["best_effort_timestamp_time"]) for frame in json.loads(done.stdout).get("frames", [])]


@functools.lru_cache(maxsize=None)
def probed(path):
    """The same, from the stream's start, as millrace counts."""
    start = float(stream(path).get("start_time", 0)) if raw_times(path) else 0
    return [time - start for time in raw_times(path)]


@functools.lru_cache(maxsize=None)
def stream(path):
    """For the first real video stream: width, height, pix_fmt, color_range, color_space, chroma_location, ..."""
    text = subprocess.run(["ffprobe", "-v", "quiet", "-select_streams", "V:0", "-show_streams", "-of", "json", path],
                          capture_output=True, text=True, check=True).stdout
    return json.loads(text)["streams"][0]


def decoded(path, pix_fmt):
    """Every frame as ffmpeg decodes it: raw bytes in `pix_fmt`, none doubled, left out or turned."""
    raw = subprocess.run(["ffmpeg", "-nostdin", "-v", "quiet", "-noautorotate", "-i", path, "-map", "0:V:0", "-vsync",
                          "passthrough", "-sws_flags", "accurate_rnd+full_chroma_int+full_chroma_inp+bitexact",
                          "-f", "rawvideo", "-pix_fmt", pix_fmt, "pipe:1"], capture_output=True).stdout
    return np.frombuffer(raw, np.uint8)


def planes(path, every=1):
    """One in `every` frames as (Y, U, V) float arrays on the 8-bit scale, chroma at stored size; gray has only Y."""
    info = stream(path)
    width, height, layout = info["width"], info["height"], info["pix_fmt"]
    depth = 10 if "10" in layout else 12 if "12" in layout else 8
    word = np.uint8 if depth == 8 else np.dtype("<u2")
    half_w, half_h = ("420" in layout or "422" in layout), "420" in layout
    shapes = [(height, width)]
    if "gray" not in layout:
        shapes += [(-(-height // (1 + half_h)), -(-width // (1 + half_w)))] * 2
    data = decoded(path, layout).view(word)
    size = sum(rows * columns for rows, columns in shapes)
    for frame in data.reshape(-1, size)[::every]:
        start, out = 0, []
        for rows, columns in shapes:
            out.append(frame[start:start + rows * columns].reshape(rows, columns) / 2.0 ** (depth - 8))
            start += rows * columns
        yield out
