"""This machine's cameras, /dev/video0, imitated by PipeWire: the library pw-v4l2 answers Video4Linux2 calls, and
GStreamer gives the pictures. It serves one client per camera, so every run needs a new one."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import numpy
from PIL import Image

import harness
from harness import MILLRACE, Case, call, pipeline

NEEDED = ("dbus-daemon", "pipewire", "wireplumber", "pw-v4l2", "pw-dump", "gst-launch-1.0")


def camera(sink="type: jsonl, path: out.jsonl", options=""):
    return pipeline(dict(cam=f"uri: /dev/video0, stall: 5s, reconnect: {{first: 200ms, most: 1s}}{options}"), decode="",
                    out=sink)


class Cameras(Case):
    def setUp(self):
        super().setUp()
        for program in NEEDED:
            if not shutil.which(program):
                self.skipTest(f"no {program} (tools/test installs it)")
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "PIPEWIRE_RUNTIME_DIR": str(runtime)}
        bus = self.start(["dbus-daemon", "--session", "--nofork", "--print-address"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(bus.stdout.close)
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().strip()
        self.start(["pipewire"])
        self.start(["wireplumber"])

    def start(self, command, **options):
        options.setdefault("stdout", subprocess.DEVNULL)
        return self.spawn(command, stderr=subprocess.DEVNULL, env=self.environment, **options)

    def nodes(self):
        """The states of PipeWire's cameras."""
        told = call(["pw-dump"], environment=self.environment).stdout
        try:
            found = json.loads(told)
        except ValueError:
            return []
        infos = [one["info"] for one in found if one["type"].endswith(":Node") and one.get("info")]
        return [info["state"] for info in infos if info["props"].get("media.class") == "Video/Source"]

    def plug(self, caps):
        """A camera that PipeWire knows."""
        camera = self.start(["gst-launch-1.0", "-q", "videotestsrc", "is-live=true", "pattern=circular", "!", caps, "!",
                             "pipewiresink", "mode=provide", "stream-properties=props,media.class=Video/Source"])
        self.wait_until(lambda: self.nodes() or camera.poll() is not None, "PipeWire has no camera")
        if camera.poll() is not None:
            self.skipTest("GStreamer cannot give PipeWire pictures here (gstreamer1.0-pipewire)")
        return camera

    def unplug(self, camera):
        camera.send_signal(signal.SIGKILL)
        camera.wait()

    def await_pictures(self, camera, caps, there):
        """Waits for the camera that gives them. On a slow machine a run may connect twice, and that camera serves only
        one client, so another replaces it."""
        end = time.monotonic() + harness.TIMEOUT
        while not there():
            self.assertLess(time.monotonic(), end, self.log())
            soon = time.monotonic() + 20
            while not there() and time.monotonic() < soon:
                time.sleep(0.05)
            if not there():
                self.unplug(camera)
                camera = self.plug(caps)
        return camera

    def begin(self, **how):
        path = self.write(camera(**how))
        with (self.folder / "log").open("w") as log:
            child = self.spawn(["pw-v4l2", MILLRACE, "run", path, "--json", "--log", "info"], env=self.environment,
                               stdout=subprocess.PIPE, stderr=log, text=True)
        return child

    def rows(self):
        return harness.rows_in(self.folder / "out.jsonl")

    def log(self):
        return (self.folder / "log").read_text()

    def finish(self, child):
        out = self.ended(child, signal.SIGTERM)[0]
        ledger = json.loads(out)["ledger"]
        self.assertTrue(ledger["balanced"])
        return ledger

    def pattern(self, caps, pixel):
        """GStreamer's test picture, as ffmpeg converts it: R, G, B."""
        raw = self.folder / "raw"
        call(["gst-launch-1.0", "-q", "videotestsrc", "num-buffers=1", "pattern=circular", "!", caps, "!", "filesink",
              f"location={raw}"])
        done = subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", pixel, "-s", "320x240", "-i", raw,
                               "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, check=True)
        return numpy.frombuffer(done.stdout, numpy.uint8).reshape(240, 320, 3).astype(float)

    def test_pictures_are_those_of_the_camera(self):
        """YUYV and NV12, compared with what GStreamer writes to a file and ffmpeg reads."""
        for layout, pixel in (("YUY2", "yuyv422"), ("NV12", "nv12")):
            with self.subTest(layout):
                caps = f"video/x-raw,format={layout},width=320,height=240,framerate=30/1"
                expected = self.pattern(caps, pixel)
                camera = self.plug(caps)
                child = self.begin(sink=f"type: images, path: {layout}")
                folder = self.folder / layout
                camera = self.await_pictures(camera, caps, lambda: len(list(folder.glob("*.png"))) > 10)
                self.assertGreater(self.finish(child)["delivered"], 10)
                for picture in sorted(folder.glob("*.png"))[:10]:
                    shown = numpy.array(Image.open(picture).convert("RGB")).astype(float)
                    self.assertGreater(10 * numpy.log10(255 ** 2 / max(numpy.mean((shown - expected) ** 2), 1e-9)), 35)
                self.unplug(camera)
                self.wait_until(lambda: not self.nodes(), "the camera is still there")

    def test_a_camera_that_is_pulled_out(self):
        """Another camera is plugged in, with another picture size: the run continues with it, in a new epoch."""
        large, small = ("video/x-raw,format=YUY2,width=640,height=480,framerate=30/1",
                        "video/x-raw,format=YUY2,width=320,height=240,framerate=30/1")
        child = self.begin()
        camera = self.await_pictures(self.plug(large), large, lambda: len(self.rows()) > 10)
        self.unplug(camera)
        told = len(self.log())
        self.wait_until(lambda: re.search("cam: (away|stalled)", self.log()[told:]), "nobody notices")
        self.assertIsNone(child.poll())
        before = max(row.get("epoch", 0) for row in self.rows())
        camera = self.await_pictures(self.plug(small), small, lambda: len(
            [row for row in self.rows() if row.get("epoch", 0) > before]) > 10)
        ledger = self.finish(child)
        self.assertEqual(ledger["in"], ledger["delivered"] + sum(one["frames"] for one in ledger["dropped"]))
        rows = self.rows()
        epochs = {row.get("epoch", 0) for row in rows}
        self.assertGreater(len(epochs), 1)
        self.assert_in_order(rows)
        for epoch in epochs:
            times = [row["pts"] for row in rows if row.get("epoch", 0) == epoch]
            self.assertEqual(times, sorted(set(times)))
        self.assertIn("connected again", self.log())

    def test_modes(self):
        """A mode that the camera lacks is named, with those that it has."""
        self.plug("video/x-raw,format=YUY2,width=640,height=480,framerate=30/1")
        wanted = camera(options=", camera: {size: 800x600, format: mjpeg}")
        told = self.checked(["pw-v4l2", MILLRACE, "plan", self.write(wanted)], environment=self.environment)
        words = " ".join(told.stdout.split())
        self.assertIn("/dev/video0 does not give such pictures; it gives yuyv 640x480", words)


class Refused(Case):
    def test_options_of_others(self):
        text = camera()
        for more, words in ((", loop: true", "loop is for files"), (", camera: {size: 1x}", "size"),
                            (", camera: {format: bgr}", "format")):
            self.millrace("check", self.write(camera(options=more)), code=78, says=words)
        other = text.replace("/dev/video0", "rtsp://127.0.0.1/a").replace("stall", "camera: {rate: 5}, stall")
        self.assertIn("such as /dev/video0", call([MILLRACE, "check", self.write(other)]).stderr)
        self.assertEqual(call([MILLRACE, "check", self.write(text)]).returncode, 0)
        missing = self.millrace("plan", self.write(text.replace("/dev/video0", "/dev/video99")))
        self.assertIn("/dev/video99: there is no camera", " ".join(missing.stdout.split()))
