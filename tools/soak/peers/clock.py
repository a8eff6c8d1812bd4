"""Reads the bar code of clock_camera.py from the pictures of a camera, and prints how old each is, in milliseconds.

    clock.py gstreamer|opencv|ffmpeg URL SECONDS

Each receives as its manual says for the least delay."""
import os
import pathlib
import subprocess
import sys
import threading
import time

import numpy

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from clock_camera import BARS, age  # noqa: E402

LOCK = threading.Lock()


def tell(levels):
    with LOCK:
        print(age(levels), flush=True)


def bars(gray):
    """One pixel in the middle of each bar."""
    height, width = gray.shape[:2]
    return gray[height // 2, width // BARS // 2::width // BARS]


def ffmpeg(url, end):
    smaller = f"scale={BARS}:2:flags=neighbor,format=gray"
    command = ["ffmpeg", "-nostdin", "-v", "error", "-fflags", "nobuffer", "-flags", "low_delay", "-rtsp_transport",
               "tcp", "-threads", "1", "-i", url, "-vf", smaller, "-fps_mode", "passthrough", "-f", "rawvideo",
               "-flush_packets", "1", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as child:
        while time.monotonic() < end:
            picture = b""
            while len(picture) < 2 * BARS:
                piece = child.stdout.read(2 * BARS - len(picture))
                if not piece:
                    return
                picture += piece
            tell(numpy.frombuffer(picture, numpy.uint8)[:BARS])
        child.kill()


def opencv(url, end):
    import cv2
    os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "rtsp_transport;tcp|fflags;nobuffer|flags;low_delay|threads;1"
    capture = cv2.VideoCapture(url, cv2.CAP_FFMPEG)
    while time.monotonic() < end:
        read, picture = capture.read()
        if not read:
            return
        tell(bars(picture[:, :, 1]))
    capture.release()


def gstreamer(url, end):
    sys.path.append("/usr/lib/python3/dist-packages")  # GStreamer's bindings come with Debian, not with pip
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
    Gst.init(None)
    pipeline = Gst.parse_launch(f"rtspsrc location={url} protocols=tcp latency=0 ! rtph264depay ! h264parse ! "
                                "avdec_h264 max-threads=1 ! appsink name=sink sync=false max-buffers=8")
    sink = pipeline.get_by_name("sink")
    pipeline.set_state(Gst.State.PLAYING)
    while time.monotonic() < end and (sample := sink.emit("pull-sample")):
        width = sample.get_caps().get_structure(0).get_value("width")
        ok, memory = sample.get_buffer().map(Gst.MapFlags.READ)
        tell(bars(numpy.frombuffer(memory.data, numpy.uint8, width * 16).reshape(16, width)))
        sample.get_buffer().unmap(memory)
    pipeline.set_state(Gst.State.NULL)


if __name__ == "__main__":
    {"gstreamer": gstreamer, "opencv": opencv, "ffmpeg": ffmpeg}[sys.argv[1]](
        sys.argv[2], time.monotonic() + float(sys.argv[3]))
