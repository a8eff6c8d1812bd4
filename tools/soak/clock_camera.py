#!/usr/bin/python3
"""An RTSP camera whose pictures show the time as a bar code, encoded as they are drawn.

    tools/soak/clock_camera.py [--size 640x360] [--rate 25]

A picture is 32 upright bars, bright for 1: 24 bits of the date in milliseconds, the highest first, and as a check the
low eight bits of the sum of their bytes. Prints the URL. Run with the system's Python, for gst-rtsp-server."""
import argparse
import sys
import time

sys.dont_write_bytecode = True
import cameras  # noqa: E402

BARS = 32
RATE = 25


def code(milliseconds):
    value = (milliseconds & 0xffffff).to_bytes(3, "big")
    return value + bytes([sum(value) & 0xff])


def age(levels):
    """In milliseconds, of a picture whose bars are so bright; None if it cannot be read."""
    now = time.time_ns() // 1000000
    read = int("".join("1" if level > 128 else "0" for level in levels), 2).to_bytes(BARS // 8, "big")
    then = int.from_bytes(read[:3], "big")
    return (now - then) & 0xffffff if code(then) == read else None


class Clock:
    """Looks like a list of pictures: each shows the time at which it is taken."""

    def __init__(self, width, height):
        self.bar, self.height = width // BARS, height
        self.chroma = bytes([128]) * (width * height // 2)

    def __len__(self):
        return 1

    def __getitem__(self, _):
        bits = int.from_bytes(code(time.time_ns() // 1000000), "big")
        row = b"".join(bytes([235 if bits >> n & 1 else 16]) * self.bar for n in reversed(range(BARS)))
        return row * self.height + self.chroma


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="640x360", help="a multiple of 32 pixels wide")
    parser.add_argument("--rate", type=int, default=RATE)
    given = parser.parse_args()
    width, height = map(int, given.size.split("x"))
    if width % BARS or height % 2:
        parser.error("the width is to be a multiple of 32, the height even")
    camera = cameras.load_camera()
    modules, missing = camera.load_gstreamer()
    if not modules:
        camera.stop(missing)
    glib, _, rtsp = modules
    factory = rtsp.RTSPMediaFactory()
    factory.set_shared(True)
    factory.set_launch(f"( appsrc name=source is-live=true format=time caps=video/x-raw,format=I420,width={width},"
                       f"height={height},framerate={given.rate}/1 ! x264enc tune=zerolatency speed-preset=ultrafast "
                       f"bitrate=2000 key-int-max={given.rate} ! rtph264pay name=pay0 pt=96 config-interval=-1 )")

    def configure(_, media):
        feed = camera.Feed(modules, media.get_element().get_child_by_name("source"), Clock(width, height), given.rate)
        media.connect("unprepared", lambda _: feed.ended.set())

    factory.connect("media-configure", configure)
    server = rtsp.RTSPServer()
    server.set_address(camera.HERE)
    server.set_service("0")
    server.get_mount_points().add_factory("/clock", factory)
    server.attach(None)
    print(f"rtsp://{camera.HERE}:{server.get_bound_port()}/clock", flush=True)
    glib.MainLoop().run()


if __name__ == "__main__":
    main()
