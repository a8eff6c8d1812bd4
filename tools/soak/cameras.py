"""An RTSP camera over TCP that sends pictures which were encoded and cut into packets before."""
import importlib.machinery
import importlib.util
import itertools
import pathlib
import socket
import struct
import sys
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
    def __init__(self, pictures, rate):
        self.pictures, self.rate = pictures, rate
        self.server = rtsp_hostile.Server(sdp=rtsp_hostile.SDP_H264, packets=self.send)

    def send(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sequence, begun = 0, time.monotonic()
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
