"""Peer: GStreamer decodes, resizes and converts; Python takes the pictures from one appsink per video."""
import sys

import numpy as np

sys.path.append("/usr/lib/python3/dist-packages")  # GStreamer's bindings come with Debian, not with pip
import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

import network

Gst.init(None)
PIPELINE = ("filesrc location={video} ! qtdemux ! h264parse ! avdec_h264 max-threads={threads} ! videoscale ! "
            "video/x-raw,width={width},height={height} ! videoconvert ! video/x-raw,format=RGB ! "
            "appsink name=sink sync=false max-buffers=8")


def read(video, threads):
    width, height = network.resized(1920, 1080)
    width += -width % 4  # rows of RGB are padded to four bytes
    pipeline = Gst.parse_launch(PIPELINE.format(video=video, threads=threads, width=width, height=height))
    sink = pipeline.get_by_name("sink")
    pipeline.set_state(Gst.State.PLAYING)
    left, top = (width - network.SIZE) // 2, (height - network.SIZE) // 2
    while True:
        sample = sink.emit("pull-sample")
        if sample is None:
            break
        buffer = sample.get_buffer()
        ok, memory = buffer.map(Gst.MapFlags.READ)
        rgb = np.frombuffer(memory.data, np.uint8).reshape(height, width, 3)
        blob = np.empty((1, 3, network.SIZE, network.SIZE), np.float32)
        network.normalise(rgb[top:top + network.SIZE, left:left + network.SIZE], blob)
        buffer.unmap(memory)
        yield buffer.pts / 1e9, blob
    pipeline.set_state(Gst.State.NULL)


network.measured(network.with_readers(read))
