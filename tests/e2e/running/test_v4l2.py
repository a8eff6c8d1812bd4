"""This machine's cameras, /dev/video0, imitated by PipeWire: the library pw-v4l2 answers Video4Linux2 calls, and
GStreamer gives the pictures. It serves one client per camera, so every run needs a new one."""
import json
import os
import shutil
import signal
import subprocess
import time

import harness
from harness import MILLRACE, Case, call, main

try:
    import numpy
    from PIL import Image
except ImportError:
    numpy = None

NEEDED = ("dbus-daemon", "pipewire", "wireplumber", "pw-v4l2", "pw-dump", "gst-launch-1.0")
PIPELINE = """\
version: 1
pipeline: camera
sources:
  cam: {{uri: /dev/video0, stall: 5s, reconnect: {{first: 200ms, most: 1s}}{options}}}
stages:
  decode: {{input: cam}}
  {sink}
"""
ROWS = "out: {type: jsonl, input: decode, path: out.jsonl}"


class Cameras(Case):
    def setUp(self):
        super().setUp()
        for program in NEEDED:
            if not shutil.which(program):
                self.skipTest(f"no {program} (tools/test installs it)")
        if not numpy:
            self.skipTest("no NumPy and Pillow (tools/test installs them)")
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
        child = harness.start(command, stderr=subprocess.DEVNULL, env=self.environment, **options)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def wait_for(self, what, why):
        end = time.monotonic() + harness.TIMEOUT
        while not (found := what()):
            self.assertLess(time.monotonic(), end, why)
            time.sleep(0.05)
        return found

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
        self.wait_for(lambda: self.nodes() or camera.poll() is not None, "PipeWire has no camera")
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

    def begin(self, sink=ROWS, options=""):
        path = self.write(PIPELINE.format(options=options, sink=sink))
        with (self.folder / "log").open("w") as log:
            child = harness.start(["pw-v4l2", MILLRACE, "run", path, "--json", "--log", "info"], env=self.environment,
                                  stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def rows(self):
        path = self.folder / "out.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def log(self):
        return (self.folder / "log").read_text()

    def finish(self, child):
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=harness.TIMEOUT)
        self.assertEqual(child.returncode, 0, self.log())
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
                child = self.begin(f"out: {{type: images, input: decode, path: {layout}}}")
                folder = self.folder / layout
                camera = self.await_pictures(camera, caps, lambda: len(list(folder.glob("*.png"))) > 10)
                self.assertGreater(self.finish(child)["delivered"], 10)
                for picture in sorted(folder.glob("*.png"))[:10]:
                    shown = numpy.array(Image.open(picture).convert("RGB")).astype(float)
                    self.assertGreater(10 * numpy.log10(255 ** 2 / max(numpy.mean((shown - expected) ** 2), 1e-9)), 35)
                self.unplug(camera)
                self.wait_for(lambda: not self.nodes(), "the camera is still there")

    def test_a_camera_that_is_pulled_out(self):
        """Another camera is plugged in, with another picture size: the run must continue with it, in a new epoch."""
        large, small = ("video/x-raw,format=YUY2,width=640,height=480,framerate=30/1",
                        "video/x-raw,format=YUY2,width=320,height=240,framerate=30/1")
        child = self.begin()
        camera = self.await_pictures(self.plug(large), large, lambda: len(self.rows()) > 10)
        self.unplug(camera)
        told = len(self.log())
        self.wait_for(lambda: "cam: away" in self.log()[told:] or "cam: stalled" in self.log()[told:], "nobody notices")
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
        """A mode that the camera lacks must be named, with those that it has."""
        self.plug("video/x-raw,format=YUY2,width=640,height=480,framerate=30/1")
        wanted = PIPELINE.format(options=", camera: {size: 800x600, format: mjpeg}", sink=ROWS)
        told = call(["pw-v4l2", MILLRACE, "plan", self.write(wanted)], environment=self.environment)
        self.assertEqual(told.returncode, 0, told.stderr)
        words = " ".join(told.stdout.split())
        self.assertIn("/dev/video0 does not give such pictures; it gives yuyv 640x480", words)


class Refused(Case):
    def test_options_of_others(self):
        text = PIPELINE.format(options="", sink=ROWS)
        for more, words in ((", loop: true", "loop is for files"), (", camera: {size: 1x}", "size"),
                            (", camera: {format: bgr}", "format")):
            done = call([MILLRACE, "check", self.write(PIPELINE.format(options=more, sink=ROWS))])
            self.assertEqual(done.returncode, 78, done.stderr)
            self.assertIn(words, done.stderr)
        other = text.replace("/dev/video0", "rtsp://127.0.0.1/a").replace("stall", "camera: {rate: 5}, stall")
        self.assertIn("such as /dev/video0", call([MILLRACE, "check", self.write(other)]).stderr)
        self.assertEqual(call([MILLRACE, "check", self.write(text)]).returncode, 0)
        missing = call([MILLRACE, "plan", self.write(text.replace("/dev/video0", "/dev/video99"))])
        self.assertEqual(missing.returncode, 0, missing.stderr)
        self.assertIn("/dev/video99: there is no camera", " ".join(missing.stdout.split()))


if __name__ == "__main__":
    main()
