#!/usr/bin/env python3
"""Many RTSP cameras in one process, for as little processor time as can be.

    tools/soak/cameras.py [VIDEO] [--count 24] [--size 1280x720] [--rate 20] [--bitrate 2M] [--loop 30]

All show the same video, which is encoded and cut into packets once, before the first URL is printed; then a picture
costs one system call. A connection (TCP only) begins with the first picture, and picture n is sent n periods later, on
the clock of time.monotonic(). For each connection a line "CAMERA BEGUN" says when that was.

There is one key frame, at the beginning of the loop: each picture is needed by the next one, so that nobody who wants
some of them can leave others undecoded."""
import argparse
import importlib.machinery
import importlib.util
import itertools
import os
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.append(str(ROOT / "tests/reference"))
import rtsp_hostile  # noqa: E402


def load_camera():
    """tools/camera as a module."""
    loader = importlib.machinery.SourceFileLoader("camera", str(ROOT / "tools/camera"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("camera", loader))
    loader.exec_module(module)
    return module


def cut(units):
    """For each picture the bytes of its packets, interleaved, and where each packet begins."""
    pictures = []
    for unit in units:
        data, places = b"", []
        for packet in rtsp_hostile.h264(unit, 0, 0):
            places.append(len(data) + 4)
            data += rtsp_hostile.interleaved(packet)
        pictures.append((data, places))
    return pictures


class Camera:
    def __init__(self, number, pictures, rate):
        self.number, self.pictures, self.rate = number, pictures, rate
        self.server = rtsp_hostile.Server(sdp=rtsp_hostile.SDP_H264, packets=self.send)

    def send(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sequence, begun = 0, time.monotonic()
        if self.number is not None:
            os.write(1, f"{self.number} {begun}\n".encode())  # in one piece: cameras are threads
        for number in itertools.count():
            early = begun + number / self.rate - time.monotonic()
            if early > 0:
                time.sleep(early)
            template, places = self.pictures[number % len(self.pictures)]
            data, timestamp = bytearray(template), int(number * 90000 / self.rate) & 0xffffffff
            for place in places:
                struct.pack_into(">HI", data, place + 2, sequence & 0xffff, timestamp)
                sequence += 1
            connection.sendall(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=pathlib.Path, help="default: a test pattern")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--bitrate", default="2M")
    parser.add_argument("--loop", type=float, default=30, help="seconds")
    given = parser.parse_args()
    camera = load_camera()
    camera.PATTERN = camera.LONGEST = given.gop = given.loop
    given.codec = "h264"
    with tempfile.TemporaryDirectory(prefix="millrace-cameras-") as folder:
        pictures = cut(camera.encode(given, folder))
    cameras = [Camera(number, pictures, given.rate) for number in range(given.count)]
    for one in cameras:
        print(one.server.url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
