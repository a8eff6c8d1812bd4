"""Peer: the ffmpeg command decodes, resizes and crops; Python reads raw RGB from the pipe."""
import json
import subprocess

import numpy as np

import network


def rate(video):
    text = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "stream=r_frame_rate",
                           "-of", "json", video], capture_output=True, check=True).stdout
    over, under = json.loads(text)["streams"][0]["r_frame_rate"].split("/")
    return int(over) / int(under)


def read(video, threads):
    fps = rate(video)
    size = network.SIZE
    pipe = subprocess.Popen(
        ["ffmpeg", "-nostdin", "-v", "error", "-threads", str(threads), "-i", video, "-an", "-filter_threads", "1",
         "-vf", f"scale='if(gt(iw,ih),-2,{network.RESIZED})':'if(gt(iw,ih),{network.RESIZED},-2)':flags=area,"
                f"crop={size}:{size}", "-pix_fmt", "rgb24", "-f", "rawvideo", "pipe:1"], stdout=subprocess.PIPE)
    seq = 0
    while True:
        data = pipe.stdout.read(size * size * 3)
        if len(data) < size * size * 3:
            break
        rgb = np.frombuffer(data, np.uint8).reshape(size, size, 3)
        yield seq / fps, network.normalise(rgb, np.empty((1, 3, size, size), np.float32))
        seq += 1
    pipe.wait()


network.measured(network.with_readers(read))
