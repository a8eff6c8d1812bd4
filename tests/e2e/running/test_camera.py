"""tools/camera, for trying pipelines: what ffmpeg and OpenCV can read from it, and who may."""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import harness
from harness import ROOT, Case, call, free_port

SMALL = ("--size", "160x120", "--rate", "25", "--gop", "0.4")


def missing():
    """Why there is no RTSP server, or None."""
    words = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"
    try:
        done = call(["/usr/bin/python3", "-c", words])
    except FileNotFoundError:
        return "no /usr/bin/python3"
    return None if done.returncode == 0 else "no gst-rtsp-server for /usr/bin/python3 (tools/test installs it)"


class Served(Case):
    """Shared by tools/camera's tests; it has no tests itself."""

    def begin(self, *arguments, count=1):
        """The URLs that it serves."""
        child = self.spawn([ROOT / "tools/camera", *SMALL, *arguments], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
        self.child = child
        urls = [child.stdout.readline().strip() for _ in range(count)]
        self.assertTrue(urls[-1], "nothing is served")
        return urls

    def need_server(self):
        reason = missing()
        if reason:
            self.skipTest(reason)

    def frames(self, url, count):
        """Hashes of the pictures that ffmpeg reads, and ffmpeg's messages. It has been seen to wait for ever after
        GStreamer's 401, in one of many hundred runs: then it is started again, as a person would do."""
        tcp = ["-rtsp_transport", "tcp"] if url.startswith("rtsp") else []
        for _ in range(3):
            done = call(["timeout", "60", "ffmpeg", "-nostdin", "-v", "error", *tcp, "-i", url, "-frames:v", count,
                         "-f", "framemd5", "-"])
            if done.returncode != 124:
                break
        lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
        return [line.split(",")[-1].strip() for line in lines], done.stderr


class Camera(Served):
    def test_it_serves_a_video_over_and_over(self):
        self.need_server()
        video = self.folder / "short.mkv"
        done = call(["ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=160x120:rate=100",
                     "-frames:v", "20", "-c:v", "ffv1", video])
        self.assertEqual(done.returncode, 0, done.stderr)
        for codec in ("h264", "hevc"):
            with self.subTest(codec):
                urls = self.begin(video, "--port", "0", "--count", "2", "--rate", "100", "--codec", codec, count=2)
                self.assertRegex(urls[1], r"^rtsp://127\.0\.0\.1:\d+/camera2$")
                hashes, _ = self.frames(urls[1], 50)
                self.assertEqual(len(hashes), 50)
                self.assertEqual(hashes[:20], hashes[20:40])
                self.assertEqual(len(set(hashes)), 20)
                self.child.terminate()
                self.assertEqual(self.child.wait(harness.TIMEOUT), 0)

    def test_only_this_machine_with_the_password(self):
        self.need_server()
        secret = self.folder / "password"
        secret.write_text("open sesame\n")
        [url] = self.begin("--port", "0", "--user", "guest", "--password-file", secret)
        port = int(re.search(r":(\d+)/", url)[1])
        hashes, told = self.frames(url, 1)
        self.assertEqual(hashes, [])
        self.assertIn("401", told)
        hashes, told = self.frames(url.replace("//", "//guest:open%20sesame@"), 3)
        self.assertEqual(len(hashes), 3, told)
        listening = pathlib.Path("/proc/net/tcp").read_text()
        self.assertIn(f"0100007F:{port:04X} 00000000:0000 0A", listening)
        self.assertNotIn("open sesame", pathlib.Path(f"/proc/{self.child.pid}/cmdline").read_text())
        self.checked([ROOT / "tools/camera", *SMALL, "--port", port], code=69,
                     says=f"port {port} of 127.0.0.1 is in use")

    def test_mjpeg_needs_only_ffmpeg(self):
        [url] = self.begin("--mjpeg", "--port", free_port())
        for _ in range(2):  # one client after the other
            self.assertEqual(len(self.connected(url)), 5)
        self.child.terminate()
        self.assertEqual(self.child.wait(harness.TIMEOUT), 0)

    def connected(self, url):
        """ffmpeg listens some time after it starts."""
        while not (found := self.frames(url, 5)[0]):
            self.assertIsNone(self.child.poll())
        return found

    def test_mistakes(self):
        for arguments, code, words in ((["none.mp4"], 66, "there is no file none.mp4"),
                                       (["--user", "a"], 2, "go together"), (["--count", "0"], 2, "above 0"),
                                       (["--mjpeg", "--count", "2"], 64, "one camera"),
                                       ([__file__], 65, "ffmpeg could not")):
            if code == 65:
                self.need_server()
            self.checked([ROOT / "tools/camera", *arguments], code=code, says=words)
        self.assertIn("tools/camera [VIDEO]", call([ROOT / "tools/camera", "--help"]).stdout)


class Pipelines(Served):
    """The camera pipelines, as the comments in them say, with other ports."""

    def setUp(self):
        super().setUp()
        self.need_server()
        harness.need_models()
        clip = harness.SAMPLES / "cockatoo.mp4"
        if not clip.exists():
            self.skipTest(f"no {clip} (tools/test installs it)")
        (self.folder / "build").mkdir()
        (self.folder / "build/millrace").symlink_to(harness.MILLRACE)
        (self.folder / "pipelines").symlink_to(ROOT / "pipelines")
        (self.folder / "tools").symlink_to(ROOT / "tools")
        (self.folder / "holiday.mp4").symlink_to(clip)

    def commands(self, name):
        return re.findall(r"^#     (.*)$", (ROOT / "pipelines" / name).read_text(), flags=re.MULTILINE)

    def run_until(self, line, output, enough):
        """Runs it until there are enough rows, ends it and returns the rows."""
        preview = free_port()
        environment = {**os.environ, "MODELS": str(harness.MODELS), "PREVIEW": f"127.0.0.1:{preview}"}
        child = self.spawn(["bash", "-c", f"exec env {line} --json"], cwd=self.folder, env=environment,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + harness.TIMEOUT
        rows = []
        while not enough(rows) and child.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
            rows = harness.rows_in(output)
        told = http.client.HTTPConnection("127.0.0.1", preview, timeout=harness.TIMEOUT)
        self.addCleanup(told.close)
        if child.poll() is None:
            told.request("GET", "/.json")
            self.sources = {one["source"] for one in json.loads(told.getresponse().read())["sources"]}
            child.send_signal(signal.SIGTERM)
        out, err = self.ended(child)
        self.assertTrue(enough(rows), err)
        self.assertTrue(json.loads(out)["ledger"]["balanced"])
        return rows

    def test_one_camera(self):
        serve, line = self.commands("camera.yaml")
        self.assertEqual(serve, "tools/camera holiday.mp4")
        [url] = self.begin(self.folder / "holiday.mp4", "--port", "0")
        self.assertIn("rtsp://127.0.0.1:8554/camera", line)
        line = line.replace("rtsp://127.0.0.1:8554/camera", url)
        rows = self.run_until(line, self.folder / "camera.jsonl", lambda rows: len(rows) > 30)
        self.assertEqual({row["source"] for row in rows}, {"camera"})
        self.assertEqual({len(row["classes"]) for row in rows}, {5})
        self.assertEqual(self.sources, {"camera"})

    def test_a_site(self):
        """A list with three cameras; one is removed while the pipeline runs."""
        serve, line = self.commands("cameras.yaml")
        self.assertEqual(serve, "tools/camera holiday.mp4 --count 3")
        urls = self.begin(self.folder / "holiday.mp4", "--port", "0", "--count", "3", count=3)
        site = (ROOT / "pipelines/cameras/site.yaml").read_text()
        site = site.replace("rtsp://127.0.0.1:8554", urls[0].rpartition("/")[0])
        path = self.folder / "site.yaml"
        path.write_text(site)
        all_three, later = {"camera1", "camera2", "camera3"}, []

        def enough(rows):
            seen = {source: sum(row["source"] == source for row in rows) for source in all_three}
            if min(seen.values()) > 3 and not later:
                path.write_text(site.partition("camera3:")[0])
                later.append(seen)
            return bool(later) and all(seen[source] > later[0][source] + 10 for source in ("camera1", "camera2"))

        rows = self.run_until(f"CAMERAS={path} {line}", self.folder / "cameras.jsonl", enough)
        last = {source: max(row["pts"] for row in rows if row["source"] == source) for source in all_three}
        self.assertLess(last["camera3"], min(last["camera1"], last["camera2"]))
        self.assertEqual({len(row["classes"]) for row in rows}, {5})
        self.assertEqual(self.sources, all_three)

    def test_a_week(self):
        """Recordings of four cameras: each file is whole once the run has ended."""
        serve, line = self.commands("week.yaml")
        self.assertEqual(serve, "tools/camera holiday.mp4 --count 4")
        self.assertIn(f"\n{line}\n", (ROOT / "pipelines/jobs/week.md").read_text())
        urls = self.begin(self.folder / "holiday.mp4", "--port", "0", "--count", "4", count=4)
        for number, url in enumerate(urls, 1):
            line += f" --set sources.camera{number}.uri={url}"
        recordings, preview = self.folder / "recordings", free_port()
        child = self.spawn(["bash", "-c", f"exec {line} --json"], cwd=self.folder, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True,
                           env={**os.environ, "RECORDINGS": str(recordings), "PREVIEW": f"127.0.0.1:{preview}"})

        def pictures():
            told = http.client.HTTPConnection("127.0.0.1", preview, timeout=harness.TIMEOUT)
            try:
                told.request("GET", "/.json")
                return {one["source"] for one in json.loads(told.getresponse().read())["sources"]}
            except OSError:
                return set()
            finally:
                told.close()

        names = {f"camera{number}" for number in range(1, 5)}
        self.wait_until(lambda: pictures() == names, running=child)
        self.wait_until(lambda: len([path for path in recordings.iterdir() if path.stat().st_size > 10_000]) == 4,
                        running=child)
        out, _ = self.ended(child, signal.SIGINT)
        self.assertTrue(json.loads(out)["ledger"]["balanced"])
        self.assertEqual({path.name.partition("-")[0] for path in recordings.iterdir()}, names)
        for path in recordings.iterdir():
            counted = self.checked(["ffprobe", "-v", "error", "-count_frames", "-show_entries",
                                    "stream=codec_name,nb_read_frames", "-of", "csv=p=0", path]).stdout
            codec, frames = counted.strip().split(",")
            self.assertEqual(codec, "h264")
            self.assertGreater(int(frames), 5)
