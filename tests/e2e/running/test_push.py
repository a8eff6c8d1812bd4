"""video with a receiver: RTSP (GStreamer's server), RTMP (ffmpeg, nginx), SRT (ffmpeg). Each receiver gets every
picture; one that stops, dies or is missing does not cost other branches anything, and every packet is accounted
for."""
import json
import pathlib
import shutil
import signal
import subprocess

import clips
from harness import MILLRACE, PATIENT, ROOT, TIMEOUT, Case, call, free_port, pipeline, start
from test_video import hashes


def pushed(uri, realtime, url, rows, source="", video=""):
    return pipeline(dict(cam=f'uri: "{uri}", realtime: {realtime}{source}'), name="push",
                    live=f'type: video, url: "{url}"{video}', rows=f'type: jsonl, input: cam, path: "{rows}"')


class Push(Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("ffmpeg"):
            self.skipTest("no ffmpeg")
        self.clip = clips.encoded("push.mp4", *clips.H264, "-bf", 0, "-g", 10, "-pix_fmt", "yuv420p", frames=60)
        self.told = self.folder / "told"
        self.rows = self.folder / "push.jsonl"

    def receive(self, url, name, *options):
        """ffmpeg as a server for one stream."""
        path = self.folder / name
        running = start(["ffmpeg", "-v", "error", "-y", "-analyzeduration", 100000, *options, "-i", url, "-c", "copy",
                         "-flush_packets", 1, path],
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, running)
        return running, path

    def end(self, running):
        if running.poll() is None:
            running.send_signal(signal.SIGCONT)
            running.kill()
        running.wait()

    def until(self, condition):
        self.wait_until(condition, lambda: self.told.read_text() if self.told.exists() else "")

    def push(self, url, video="", source="", realtime="true", name="push"):
        path = self.write(pushed(uri=self.clip, url=url, video=video, source=source, realtime=realtime,
                                 rows=self.folder / f"{name}.jsonl"), f"{name}.yaml")
        return self.run_file(path)

    def run_file(self, path):
        with open(self.told, "a") as told:
            running = start([MILLRACE, "run", path, "--json", *PATIENT], stdout=subprocess.PIPE, text=True, stderr=told)
        self.addCleanup(self.end, running)
        self.addCleanup(running.stdout.close)
        return running

    def ledger_of(self, running, code=0):
        out = self.ended(running, code=code)[0]
        ledger = json.loads([line for line in out.splitlines() if '"ledger"' in line][-1])["ledger"]
        self.assertTrue(ledger["balanced"], ledger)
        self.assertEqual(ledger["in_flight"], 0)
        return ledger

    def dropped(self, ledger):
        return {line["reason"]: line["frames"] for line in ledger["dropped"]}

    def seqs(self):
        return [json.loads(line)["seq"] for line in self.rows.read_text().splitlines()]


class Receivers(Push):
    def check_whole(self, path, ledger):
        self.assertEqual(ledger["dropped"], [])
        self.assertEqual(hashes(path), hashes(self.clip))
        self.assertEqual(self.seqs(), list(range(60)))

    def check_begun(self, path, ledger):
        """These receivers drop what waits inside them when the sender ends: the last pictures may be missing, and no
        others."""
        self.assertEqual(ledger["dropped"], [])
        whole, found = hashes(self.clip), hashes(path)
        self.assertGreaterEqual(len(found), 50)
        self.assertEqual(found, whole[:len(found)])

    def test_rtmp(self):
        url = f"rtmp://127.0.0.1:{free_port()}/live/key"
        receiver, path = self.receive(url, "rtmp.flv", "-listen", 1)
        self.until(lambda: listens(url))
        ledger = self.ledger_of(self.push(url, realtime="false"))
        self.assertEqual(receiver.wait(TIMEOUT), 0)
        self.check_whole(path, ledger)

    def rtsp_server(self, path):
        """The server's port; "" if this machine has no such server."""
        server = start(["/usr/bin/python3", ROOT / "tests/e2e/rtsp_receiver.py", path], stdout=subprocess.PIPE,
                       text=True, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, server)
        self.addCleanup(server.stdout.close)
        return server.stdout.readline().strip()

    def test_srt_and_rtsp(self):
        """Both run in parallel, since they take pictures in real time."""
        path, port = self.folder / "rtsp.h264", free_port()
        rtsp_port = self.rtsp_server(path)
        receiver, srt_path = self.receive(f"srt://127.0.0.1:{port}?mode=listener", "srt.ts")
        self.until(lambda: udp_listens(port))
        to_rtsp = self.push(f"rtsp://127.0.0.1:{rtsp_port}/live", name="rtsp") if rtsp_port else None
        with self.subTest("srt"):
            ledger = self.ledger_of(self.push(f"srt://127.0.0.1:{port}"))
            self.assertEqual(receiver.wait(TIMEOUT), 0)
            self.check_begun(srt_path, ledger)
        with self.subTest("rtsp"):
            if not to_rtsp:
                self.skipTest("no GStreamer RTSP server (gir1.2-gst-rtsp-server-1.0)")
            self.check_begun(path, self.ledger_of(to_rtsp))

    def test_nginx(self):
        module = pathlib.Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")
        if not module.exists():
            self.skipTest(f"no {module} (libnginx-mod-rtmp)")
        port, folder = free_port(), self.folder / "nginx"
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        self.folder.chmod(0o755)
        config = self.write(f"load_module {module};\ndaemon off;\nmaster_process off;\npid {folder}/pid;\n"
                            f"error_log {folder}/error.log;\nevents {{}}\n"
                            f"rtmp {{ server {{ listen 127.0.0.1:{port}; application live {{ live on; record all; "
                            f"record_path {folder}; record_unique off; }} }} }}\n", "nginx.conf")
        server = start(["nginx", "-c", config, "-e", folder / "start.log"], stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, server)
        url = f"rtmp://127.0.0.1:{port}/live/key"
        self.until(lambda: server.poll() is not None or listens(url))
        ledger = self.ledger_of(self.push(url, realtime="false"))
        self.until(lambda: len(hashes(folder / "key.flv")) == 60)
        self.check_whole(folder / "key.flv", ledger)


def listens(url):
    port = int(url.split(":")[2].split("/")[0])
    return f":{port:04X} 00000000:0000 0A" in pathlib.Path("/proc/net/tcp").read_text()


def udp_listens(port):
    return f":{port:04X} " in pathlib.Path("/proc/net/udp").read_text()


class Trouble(Push):
    def test_a_receiver_that_is_stopped_holds_nobody_up(self):
        """Other branches get each frame in time; what the receiver did not get is dropped by name."""
        port = free_port()
        url = f"rtmp://127.0.0.1:{port}/live/key"
        receiver, path = self.receive(url, "stopped.flv", "-listen", 1)
        self.until(lambda: listens(url))
        clip = clips.encoded("push-long.mp4", "-c:v", "mjpeg", "-q:v", 2, frames=100, filters="scale=640:360")
        text = pushed(uri=clip, url=url, video=", queue: {when_full: drop-oldest, size: 8}, timeout: 1s, retry: 200ms",
                      realtime="true", rows=self.rows)
        text = text.replace("stages:\n",
                            "stages:\n  decode: {input: cam}\n"
                            "  encode: {input: decode, lossless: true, preset: fastest, keyframes: 10}\n")
        text = text.replace("video, input: cam", "video, input: encode")
        running = self.run_file(self.write(text))
        self.until(lambda: path.exists() and path.stat().st_size > 100000)
        receiver.send_signal(signal.SIGSTOP)
        at = len(self.seqs())
        self.until(lambda: "lost rtmp://127.0.0.1" in self.told.read_text())
        self.assertGreater(len(self.seqs()), at)
        ledger = self.ledger_of(running)
        self.assertEqual(self.seqs(), list(range(100)))
        self.assertLessEqual(set(self.dropped(ledger)), {"queue full", "gop", "no receiver", "no key frame"})
        self.assertIn("no receiver", self.dropped(ledger))

    def test_a_receiver_that_comes_later_and_again(self):
        port = free_port()
        url = f"rtmp://127.0.0.1:{port}/live/secret-key"
        running = self.push(url.replace("127", "user:password@127"), video=", retry: 100ms, retry_most: 200ms",
                            source=", loop: true")
        self.until(lambda: "no connection with rtmp://127.0.0.1" in self.told.read_text())
        for name in ("first.flv", "second.flv"):
            receiver, path = self.receive(url, name, "-listen", 1)
            self.until(lambda: path.exists() and path.stat().st_size > 20000)
            receiver.kill()
            receiver.wait()
            done = call(["ffprobe", "-v", "quiet", "-show_entries", "packet=flags", "-of", "csv=p=0", path])
            self.assertTrue(done.stdout.startswith("K"), done.stdout[:100])
        running.send_signal(signal.SIGINT)
        ledger = self.ledger_of(running)
        self.assertLessEqual(set(self.dropped(ledger)), {"no receiver", "no key frame"})
        self.assertGreater(ledger["delivered"], 0)
        for word in ("password", "secret-key"):
            self.assertNotIn(word, self.told.read_text())

    def test_the_address_is_in_no_plan(self):
        url = "rtmp://user:password@127.0.0.1:1/live/secret-key"
        path = self.write(pushed(uri=self.clip, url=url, realtime="true", rows=self.rows))
        for verb in (["plan"], ["plan", "--json"], ["graph"]):
            done = self.millrace(*verb, path)
            self.assertNotIn("password", done.stdout + done.stderr)

    def test_addresses_that_are_none(self):
        for url, words in (("http://127.0.0.1/live", "url must begin with rtsp://"),
                           ("rtsp.mp4", "url must begin with rtsp://")):
            path = self.write(pushed(uri=self.clip, url=url, realtime="true", rows=self.rows))
            self.millrace("check", path, code=78, says=words)
