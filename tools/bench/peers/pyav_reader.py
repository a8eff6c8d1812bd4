"""Peer: PyAV with one reader thread per video; FFmpeg's scaler makes the small RGB picture."""
import av
import numpy as np

import network


def read(video, threads):
    with av.open(video) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = threads
        stream.thread_type = "AUTO"
        for frame in container.decode(stream):
            width, height = network.resized(frame.width, frame.height)
            rows, columns = network.middle(frame.width, frame.height)
            rgb = frame.reformat(width, height, "rgb24", interpolation="AREA").to_ndarray()
            blob = np.empty((1, 3, network.SIZE, network.SIZE), np.float32)
            yield frame.time, network.normalise(rgb[rows, columns], blob)


network.measured(network.with_readers(read))
