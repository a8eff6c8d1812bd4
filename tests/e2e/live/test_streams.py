"""Live sources and servers that come, go and fail: MJPEG, SRT, UDP, RTMP, HLS and files over HTTP, each served by a
foreign program."""
import itertools
import json
import os
import pathlib
import pwd
import re
import signal
import subprocess
import time

import streams
from harness import MILLRACE, TIMEOUT, call, free_port, pipeline
from streams import SOON, Live

AT_ONCE = 4


class Changing(streams.Web):
    """MJPEG with 8K pictures for a while: the pictures that `pictures` makes, in that order."""
    pictures = ()

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace;boundary=next")
        self.end_headers()
        try:
            for picture in itertools.chain(self.pictures, itertools.repeat(self.pictures[-1])):
                self.wfile.write(b"--next\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n%s\r\n" %
                                 (len(picture), picture))
                time.sleep(0.05)
        except OSError:
            pass  # the client has gone


class Breaking(streams.Web):
    """A camera that breaks off after each picture."""
    picture = None

    def do_GET(self):
        self.answer(200, b"--next\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n%s\r\n" %
                    (len(self.picture), self.picture), Content_Type="multipart/x-mixed-replace;boundary=next")


class Turning(streams.Web):
    """Serves half of a file, and redirects to `there` for the rest."""
    there = None

    def do_GET(self):
        first = (self.headers.get("Range") or "=0").split("=")[1].split("-")[0]
        if int(first):
            self.asked.append((self.path, first))
            return self.answer(302, Location=self.there + self.path)
        body = (pathlib.Path(self.folder) / self.path.lstrip("/")).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", len(body))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        self.wfile.write(body[:len(body) // 2])


class Asking(streams.Web):
    """A server that asks for a password and sets a cookie. `told` records the credentials it received."""
    told = cookie = None

    def do_GET(self):
        told = self.headers.get("Authorization"), self.headers.get("Cookie")
        self.told.append((self.path, *told))
        if not told[0]:
            return self.answer(401, WWW_Authenticate='Basic realm="here"', Set_Cookie=self.cookie + "; Path=/")
        return super().do_GET()


def jpeg(size):
    streams.need("ffmpeg")
    return subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=size={size}", "-frames:v", "1",
                           "-pix_fmt", "yuvj420p", "-c:v", "mjpeg", "-f", "image2pipe", "-"], check=True,
                          capture_output=True).stdout


class Streams(Live):
    def test_killed_stopped_and_back_with_another_size(self):
        """Next to a source that is never there, and one that always is."""
        at, dead, always = free_port(), free_port(), free_port()
        streams.mjpeg(self, always, rate=25)
        server = streams.mjpeg(self, at)
        child = self.begin({"cam": f"uri: 'http://127.0.0.1:{at}/', stall: 1s, {SOON}",
                            "dead": f"uri: 'http://127.0.0.1:{dead}/', {SOON}",
                            "good": f"uri: 'http://127.0.0.1:{always}/', {SOON}"})
        self.wait_until(lambda: len(self.rows("cam")) > 10, child)
        self.assertEqual(self.await_state(child, "cam", "live")["connections"], 1)
        server.kill()
        why = self.await_state(child, "cam", "away")
        self.assertIsNotNone(why["next_try"])
        server = streams.mjpeg(self, at, size="640x360")
        self.wait_until(lambda: any(row.get("epoch") == 1 for row in self.rows("cam")), child)
        self.assertIsNone(self.await_state(child, "cam", "live")["why"])
        self.assertRegex(self.errors.read_text(), r"warning: cam: away: (.*\n)*.*warning: cam: connected again after ")
        server.stop()
        self.wait_until(lambda: "no picture came for 1 s" in self.errors.read_text(), child)
        self.wait_until(lambda: self.ask()["cam"]["state"] in ("stalled", "connecting", "away"), child)
        server.kill()
        self.assertIn("refused", self.await_state(child, "dead", "away")["why"])
        sources = self.finish(child)
        self.assertEqual(sources["cam"]["connection"]["state"], "ended")
        self.assertGreaterEqual(sources["cam"]["connection"]["connections"], 2)
        self.assertEqual(sources["dead"]["in"], 0)
        for name in ("cam", "good"):
            self.assert_times_go_on(self.rows(name))
        good = self.rows("good")
        self.assertGreater(len(good), 30)
        self.assertEqual({row.get("epoch", 0) for row in good}, {0})  # unaffected by the others
        self.assertEqual([row["seq"] for row in good], list(range(len(good))))

    def test_one_that_breaks_off_again_and_again(self):
        """It costs no memory, threads or descriptors, and the camera beside it neither pauses nor loses pictures."""
        picture = jpeg("320x240")
        bad, good = (streams.web(self, self.folder, base=base, **fields)[0] for base, fields in (
            (Breaking, {"picture": picture}), (Changing, {"pictures": [picture]})))
        child = self.begin({"bad": f"uri: '{bad}/', reconnect: {{first: 5ms, most: 10ms}}",
                            "good": f"uri: '{good}/', stall: 10s, {SOON}"})

        def held_after(epochs):
            self.wait_until(lambda: any(row.get("epoch", 0) >= epochs for row in self.rows("bad")), child)
            status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
            return (*self.held(child), int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]))

        (threads, files, before), (more_threads, more_files, after) = held_after(100), held_after(1000)
        self.assertLess(more_threads, threads + 5)
        self.assertLess(more_files, files + 5)
        self.assertLess(after, before + 2048)
        rows, sources = self.rows("good"), self.finish(child)
        self.assertGreater(len(rows), 20)
        self.assertEqual([(row.get("epoch", 0), row["seq"]) for row in rows], [(0, n) for n in range(len(rows))])
        self.assertEqual(sources["good"]["connection"]["connections"], 1)

    def test_transport_streams(self):
        """SRT with a passphrase, and UDP joined in the middle: both begin with a key frame."""
        srt, udp = free_port(), free_port()
        streams.ffmpeg(self, "320x240", 25, "-f", "mpegts",
                       f"srt://127.0.0.1:{srt}?mode=listener&passphrase=Geheim-1234")
        streams.ffmpeg(self, "320x240", 25, "-f", "mpegts", f"udp://127.0.0.1:{udp}?pkt_size=1316")
        child = self.begin({"srt": f"uri: 'srt://127.0.0.1:{srt}?passphrase=Geheim-1234', {SOON}",
                            "udp": f"uri: 'udp://127.0.0.1:{udp}', {SOON}, clock: arrival"})
        self.wait_until(lambda: min(len(self.rows("srt")), len(self.rows("udp"))) > 30, child)
        sources = self.finish(child)
        for name in ("srt", "udp"):
            rows = self.rows(name)
            self.assert_times_go_on(rows)
            self.assertEqual(rows[0]["pts"], 0)
            self.assertFalse([line for line in sources[name]["dropped"] if line["reason"] == "corrupt"])
        self.assertFalse(any("captured" in row for row in self.rows("srt")))
        self.assertTrue(all(row["captured"].endswith("Z") for row in self.rows("udp")))
        self.assertNotIn("Geheim", self.errors.read_text() + json.dumps(sources))

    def test_deadline(self):
        """The deadline counts from a picture's arrival, not from the start of the wait."""
        at = free_port()
        streams.mjpeg(self, at, rate=2)
        child = self.begin({"cam": f"uri: 'http://127.0.0.1:{at}/', deadline: 200ms, {SOON}"})
        self.wait_until(lambda: len(self.rows()) > 3, child)
        self.assertFalse([line for line in self.finish(child)["cam"]["dropped"] if line["reason"] != "stopped"])

    def test_larger_than_planned(self):
        """8K instead of the planned 720p, in mid-stream and from a camera that comes back: pictures are dropped and
        named until they fit."""
        small, large = jpeg("1280x720"), jpeg("7680x4320")
        url, _ = streams.web(self, self.folder, base=Changing, pictures=[*[small] * 10, *[large] * 3, small])
        server, at = streams.rtsp(self, f"/a={streams.pattern()}")
        child = self.begin({"jpeg": f"uri: '{url}/', size: 1280x720, {SOON}",
                            "cam": f"uri: 'rtsp://127.0.0.1:{at}/a', size: 320x240, {SOON}"}, decode="", decoded="jpeg",
                           results="}\n  others: {type: decode, input: cam}\n"
                                   "  cam_rows: {type: jsonl, input: others, path: cam.jsonl")
        self.wait_until(lambda: len(self.rows("jpeg")) > 20 and len(self.rows(file="cam.jsonl")) > 5, child)
        server.kill()
        streams.rtsp(self, f"/a={streams.pattern('640/480')}", at=at)
        self.wait_until(lambda: "cam: pictures are 640x480, larger than planned for" in self.errors.read_text(), child)
        self.assertIn("pictures are 7680x4320, larger than planned for, and are dropped: raise size of jpeg",
                      self.errors.read_text())
        out = self.ended(child, signal.SIGINT)[0]
        dropped = {one["id"]: {line["reason"]: line["frames"] for line in one["dropped"]}
                   for one in json.loads(out)["sources"]}
        self.assertEqual(dropped["jpeg"]["too large"], 3)
        self.assertGreater(dropped["cam"]["too large"], 0)
        self.assertNotIn("corrupt", dropped["jpeg"])
        self.assertEqual({row.get("epoch", 0) for row in self.rows(file="cam.jsonl")}, {0})
        self.assertTrue(json.loads(out)["ledger"]["balanced"])

    def test_first_packet(self):
        """start: first accepts packets before a key frame; no picture from those may be given."""
        at = free_port()
        streams.ffmpeg(self, "320x240", 25, "-f", "mpegts", f"udp://127.0.0.1:{at}?pkt_size=1316", key=50)
        lost = []
        while not lost:  # the first packet may be a key frame by chance
            (self.folder / "out.jsonl").unlink(missing_ok=True)
            child = self.begin({"cam": f"uri: 'udp://127.0.0.1:{at}', start: first, {SOON}"})
            self.wait_until(lambda: len(self.rows()) > 10, child)
            lost = self.finish(child)["cam"]["dropped"]
        self.assertEqual([line["reason"] for line in lost], ["corrupt"])

    def test_rtmp_and_hls(self):
        streams.need("nginx")
        if not pathlib.Path("/usr/lib/nginx/modules/ngx_rtmp_module.so").exists():
            self.skipTest("no nginx with RTMP (libnginx-mod-rtmp)")
        rtmp, http = free_port(), free_port()
        (self.folder / "nginx.conf").write_text(f"""
load_module /usr/lib/nginx/modules/ngx_rtmp_module.so;
user {pwd.getpwuid(os.getuid()).pw_name}; daemon off; master_process off;
pid {self.folder}/nginx.pid; error_log {self.folder}/nginx.log;
events {{ worker_connections 64; }}
rtmp {{ server {{ listen 127.0.0.1:{rtmp}; application live {{ live on; hls on; hls_path {self.folder}/hls;
    hls_fragment 1s; }} }} }}
http {{ access_log off; client_body_temp_path {self.folder}/a; proxy_temp_path {self.folder}/b;
    fastcgi_temp_path {self.folder}/c; uwsgi_temp_path {self.folder}/d; scgi_temp_path {self.folder}/e;
    server {{ listen 127.0.0.1:{http}; root {self.folder}; }} }}
""")
        streams.Server(self, "/usr/sbin/nginx", "-p", self.folder, "-c", self.folder / "nginx.conf")
        self.wait_until(lambda: (self.folder / "nginx.pid").exists())
        child = self.begin({"rtmp": f"uri: 'rtmp://127.0.0.1:{rtmp}/live/cam', {SOON}, stall: 3s",
                            "hls": f"uri: 'http://127.0.0.1:{http}/hls/cam.m3u8', {SOON}, stall: 20s"})
        streams.ffmpeg(self, "320x240", 20, "-f", "flv", f"rtmp://127.0.0.1:{rtmp}/live/cam")
        self.wait_until(lambda: min(len(self.rows("rtmp")), len(self.rows("hls"))) > 10, child)
        self.finish(child)
        for name in ("rtmp", "hls"):
            self.assert_times_go_on(self.rows(name))

    def test_a_server_that_was_killed_with_the_run(self):
        """kill -9 for the run, then another run: it has separate epochs only under a supervisor, and every row is
        whole."""
        at = free_port()
        streams.ffmpeg(self, "320x240", 25, "-f", "mpegts", f"udp://127.0.0.1:{at}?pkt_size=1316")
        for _ in range(2):
            (self.folder / "out.jsonl").unlink(missing_ok=True)
            child = self.begin({"cam": f"uri: 'udp://127.0.0.1:{at}', {SOON}"})
            self.wait_until(lambda: len(self.rows()) > 10, child)
            child.kill()
            child.wait()
            self.assert_times_go_on(self.rows())


class Web(Live):
    """Files, errors, and redirections."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        streams.need("ffmpeg")

    def make_clip(self, name, *options):
        subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-t", "2",
                        "-pix_fmt", "yuv420p", "-c:v", "libx264", "-g", "25", "-bf", "2", *options,
                        str(self.folder / name)], check=True, stdin=subprocess.DEVNULL)

    def test_files_end(self):
        """A file and a recorded playlist give every frame once, and the run ends."""
        self.make_clip("clip.mp4", "-movflags", "+faststart")
        self.make_clip("list.m3u8", "-hls_time", "1", "-hls_list_size", "0")
        url, _ = streams.web(self, self.folder)
        child = self.begin({"file": f"uri: '{url}/clip.mp4'", "list": f"uri: '{url}/list.m3u8'"})
        sources = self.summary_of(child)
        for name in ("file", "list"):
            rows = self.rows(name)
            self.assertEqual([row["seq"] for row in rows], list(range(50)))
            self.assertEqual(sources[name]["connection"]["state"], "ended")
        self.assertEqual([round(row["pts"], 6) for row in self.rows("file")], [i / 25 for i in range(50)])

    def test_files_without_a_length(self):
        """HTTP/1.0: a stream that ends where the file says so is complete; one that ends earlier has broken off."""
        class Unsized(streams.Web):
            def do_GET(self):
                name = self.path.lstrip("/")
                body = (pathlib.Path(self.folder) / name.removeprefix("cut-")).read_bytes()
                self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + body[:len(body) // 2 if "cut" in name else None])

        url, _ = streams.web(self, self.folder, base=Unsized)
        names = {}
        for kind in ("flv", "mkv"):
            self.make_clip(f"clip.{kind}", "-bf", "0")
            names |= {kind: f"clip.{kind}", f"cut-{kind}": f"cut-clip.{kind}"}
        child = self.begin({name: f"uri: '{url}/{file}'" for name, file in names.items()})
        sources = self.summary_of(child, 74)
        for kind in ("flv", "mkv"):
            self.assertEqual([len(self.rows(kind)), sources[kind]["error"]], [50, None])
            self.assertLess(len(self.rows(f"cut-{kind}")), 40)
            self.assertRegex(sources[f"cut-{kind}"]["error"], r"it broke off at \d\.\d+ s of 2\.000 s")

    def test_errors_that_do_not_mend(self):
        """401, 404: retried no more often than the longest interval; 503: soon. None may stop the others."""
        self.make_clip("clip.mp4", "-movflags", "+faststart")
        url, asked = streams.web(self, self.folder)
        often = "reconnect: {first: 50ms, most: 600s}"
        child = self.begin({"file": f"uri: '{url}/clip.mp4'", "secret": f"uri: '{url}/status/401', {often}",
                            "none": f"uri: '{url}/status/404', {often}",
                            "busy": f"uri: '{url}/status/503', {often}"})
        self.wait_until(lambda: len(self.rows("file")) == 50, child)
        self.wait_until(lambda: sum(path == "/status/503" for path, _ in asked) >= 4, child)
        for name, words in (("secret", "401"), ("none", "404"), ("busy", "5XX")):
            state = self.await_state(child, name, "away")
            self.assertIn(words, state["why"])
            self.assertNotIn("status/4" if name == "busy" else "status/5", state["why"])
        sources = self.finish(child)
        for name in ("secret", "none"):
            self.assertEqual(sources[name]["connection"]["tries"], 1)

    def test_giving_up(self):
        dead = free_port()
        child = self.begin({"cam": f"uri: 'http://127.0.0.1:{dead}/', "
                                   "reconnect: {first: 50ms, most: 100ms, give_up: 500ms}"})
        out = self.ended(child, code=74)[0]
        [source] = json.loads(out)["sources"]
        self.assertEqual(source["connection"]["state"], "failed")
        self.assertIn("refused", source["error"])
        url, asked = streams.web(self, self.folder)
        child = self.begin({"cam": f"uri: '{url}/status/404', reconnect: {{give_up: 500ms}}"})
        out, _ = child.communicate(timeout=60)  # this cuts short the wait between two tries
        self.assertIn("404", json.loads(out)["sources"][0]["error"])
        self.assertEqual(len(asked), 2)

    def test_passwords_are_not_shown(self):
        """Passwords do not appear in the log, plan, digest, summary, trace or audit, or where a server redirects."""
        self.make_clip("secret.mp4", "-movflags", "+faststart")
        url, asked = streams.web(self, self.folder)
        address = url.removeprefix("http://")
        plans = []
        for password in ("%40%3A%2F", "other"):
            environment = {**self.environment, "CAMERA": f"http://u:{password}@{address}/secret.mp4"}
            child = self.begin({"cam": "uri: '${CAMERA}'"}, "--log", "debug", "--audit", self.folder / "audit.jsonl",
                               "--trace", self.folder / "trace.json", environment=environment)
            if password == "other":
                self.assertIn("401", self.await_state(child, "cam", "away")["why"])
                self.finish(child)
            else:
                self.summary_of(child)
                self.assertEqual(len(self.rows()), 50)
            shown = [path.read_text() for path in (self.errors, self.folder / "audit.jsonl",
                                                   self.folder / "trace.json")]
            plan = call([MILLRACE, "plan", self.folder / "pipeline.yaml"], environment=environment)
            plans.append(plan.stdout.split("digest ")[1].split()[0])
            for text in [*shown, plan.stdout, plan.stderr]:
                for word in ("@:/", "%40%3A", "other@", "u:other", "u:"):
                    self.assertNotIn(f"//{word}" if word == "u:" else word, text)
        self.assertEqual(plans[0], plans[1])  # nor can anyone test guesses against the digest
        words = self.folder / "word.txt"
        words.write_text("@:/\n")
        words.chmod(0o644)
        child = self.begin({"cam": f"uri: '{url}/secret.mp4', user: u, password_file: word.txt"})
        child.communicate(timeout=TIMEOUT)
        self.assertEqual(child.returncode, 77)
        self.assertIn("holds a password, but others may read or change it (mode 644)", self.errors.read_text())
        words.chmod(0o600)
        child = self.begin({"cam": f"uri: '{url}/secret.mp4', user: u, password_file: word.txt"})
        self.summary_of(child)
        self.assertEqual(len(self.rows()), 50)

    def test_hosts(self):
        """allow_hosts: applies to the URL, to redirections and to what a playlist names; and no playlist may read local
        files."""
        self.make_clip("clip.mp4", "-movflags", "+faststart")
        self.make_clip("part.ts")
        url, asked = streams.web(self, self.folder)
        there = url.replace("127.0.0.1", "localhost")
        line = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{}\n#EXT-X-ENDLIST\n"
        (self.folder / "there.m3u8").write_text(line.format(f"{there}/part.ts"))
        (self.folder / "here.m3u8").write_text(line.format(f"file://{self.folder}/part.ts"))
        (self.folder / "good.m3u8").write_text(line.format("part.ts"))
        (self.folder / "turn.m3u8").write_text(line.format(f"/to?{there}/part.ts"))
        only = "allow_hosts: 127.0.0.1, " + SOON
        child = self.begin({"good": f"uri: '{url}/good.m3u8', {only}",
                            "led": f"uri: '{url}/to?{there}/clip.mp4', {only}",
                            "named": f"uri: '{url}/there.m3u8', {only}", "file": f"uri: '{url}/here.m3u8', {SOON}",
                            "turn": f"uri: '{url}/turn.m3u8', {only}"})
        self.wait_until(lambda: len(self.rows("good")) == 50, child)
        for name in ("led", "named", "turn"):
            self.assertIn("it leads to localhost, which allow_hosts does not have",
                          self.await_state(child, name, "away", "failed")["why"])
        self.await_state(child, "file", "away", "failed", "ended")
        child.kill()
        for name in ("led", "named", "file", "turn"):
            self.assertEqual(self.rows(name), [])
        self.write(pipeline(dict(cam="uri: 'http://example.org/a', allow_hosts: ['*.lan']"), decode="",
                            out="type: 'null'"))
        self.millrace("check", self.folder / "pipeline.yaml", code=78,
                      says=("pipeline.yaml:4:", "allow_hosts does not have example.org"))

    def test_what_other_hosts_are_told(self):
        """Hosts and ports that a playlist names or a redirection leads to ask for user and password, and do not get
        them. A host that a playlist names does not get a cookie."""
        self.make_clip("part.ts")
        home, others = [], []
        url, _ = streams.web(self, self.folder, base=Asking, told=home, cookie="at=home")
        other, _ = streams.web(self, self.folder, base=Asking, told=others, cookie="at=other")
        there = other.replace("127.0.0.1", "localhost")
        line = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n{}#EXTINF:2,\n{}\n#EXT-X-ENDLIST\n"
        key = '#EXT-X-KEY:METHOD=AES-128,URI="{}/key.bin"\n'
        lists = {"good": ("", "part.ts"), "named": ("", f"{there}/part.ts"), "led": ("", f"/to?{there}/part.ts"),
                 "port": ("", f"{other}/part.ts"), "key": (key.format(there), "part.ts")}
        for name, parts in lists.items():
            (self.folder / f"{name}.m3u8").write_text(line.format(*parts))
        (self.folder / "word.txt").write_text("@:/\n")
        (self.folder / "word.txt").chmod(0o600)
        login = f"user: u, password_file: word.txt, {SOON}"
        child = self.begin({**{name: f"uri: '{url}/{name}.m3u8', {login}" for name in lists},
                            "list": f"uri: '{url}/to?{there}/good.m3u8', {login}"})
        self.wait_until(lambda: len(self.rows("good")) == 50, child)
        for name in ("named", "led", "port", "key", "list"):
            self.assertIn("401", self.await_state(child, name, "away", "failed")["why"])
        child.kill()
        self.assertIn(("/part.ts", "Basic dTpAOi8=", "at=home"), home)
        self.assertTrue({path for path, *_ in others} >= {"/part.ts", "/key.bin", "/good.m3u8"})
        self.assertEqual({password for _, password, _ in others}, {None})
        self.assertLessEqual({cookie for path, _, cookie in others if path == "/key.bin"}, {None, "at=other"})

    def test_hosts_of_later_requests(self):
        """A server redirects when asked for more: for a file's index, or the rest of a file."""
        self.make_clip("index.mp4")
        self.make_clip("part.ts")
        whole, asked = streams.web(self, self.folder)
        there = whole.replace("127.0.0.1", "localhost")
        url, led = streams.web(self, self.folder, base=Turning, there=there)
        (self.folder / "list.m3u8").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n"
                                               f"{url}/part.ts\n#EXT-X-ENDLIST\n")
        only = "allow_hosts: 127.0.0.1, " + SOON
        uris = {"index": f"{url}/index.mp4", "rest": f"{url}/part.ts", "part": f"{whole}/list.m3u8"}
        child = self.begin({name: f"uri: '{uri}', {only}" for name, uri in uris.items()})
        for name in uris:
            self.assertIn("it leads to localhost, which allow_hosts does not have",
                          self.await_state(child, name, "away", "failed")["why"])
        self.wait_until(lambda: self.rows("rest") and self.rows("part"), child)
        child.kill()
        child.wait()
        self.assertEqual(self.rows("index"), [])
        for name in ("rest", "part"):
            self.assertLess(max(row["seq"] for row in self.rows(name)), 40)
        child = self.begin({name: f"uri: '{uri}'" for name, uri in uris.items()})
        self.summary_of(child)
        for name in uris:
            self.assertEqual(len(self.rows(name)), 50)

    def test_hosts_of_encrypted_parts(self):
        """Where an encrypted playlist's keys, parts and headers lead, is checked before anything is read from
        there."""
        (self.folder / "key.bin").write_bytes(bytes(range(16)))
        (self.folder / "key.txt").write_text(f"key.bin\n{self.folder / 'key.bin'}\n")
        url, asked = streams.web(self, self.folder)
        away = f"/to?{url.replace('127.0.0.1', 'localhost')}/"
        lists = ["-hls_time", "1", "-hls_list_size", "0"]
        self.make_clip("clear.m3u8", *lists)
        self.make_clip("good.m3u8", *lists, "-hls_key_info_file", self.folder / "key.txt")
        self.make_clip("map.m3u8", *lists, "-hls_segment_type", "fmp4", "-hls_fmp4_init_filename", "map.mp4")
        good = (self.folder / "good.m3u8").read_text()
        leads = {"key": good.replace("key.bin", f"{away}key.bin"), "part": good.replace("good0", f"{away}good0"),
                 "header": (self.folder / "map.m3u8").read_text().replace("map.mp4", f"{away}map.mp4")}
        for name, text in leads.items():
            (self.folder / f"{name}.m3u8").write_text(text)
        self.assertIn("METHOD=AES-128", good)
        only = f"allow_hosts: 127.0.0.1, {SOON}"
        child = self.begin({name: f"uri: '{url}/{name}.m3u8', {only}" for name in ("clear", "good", "map", *leads)} |
                           {"any": f"uri: '{url}/part.m3u8'"})
        for name in leads:
            self.assertIn("it leads to localhost, which allow_hosts does not have",
                          self.await_state(child, name, "away", "failed")["why"])
        self.wait_until(lambda: all(len(self.rows(name)) == 50 for name in ("clear", "good", "map", "any")), child)
        for name in leads:
            self.assertEqual(self.rows(name), [])
        for name in ("good", "any"):
            self.assertEqual([row["pts"] for row in self.rows(name)], [row["pts"] for row in self.rows("clear")])
        for name in ("key.bin", "good0.ts", "map.mp4"):
            self.assertIn(away + name, [path for path, _ in asked])

    def test_live_list(self):
        """An encoder stops: the stream is reconnected, since only recordings end. Its last playlist is still
        there. Each segment is requested once, and the playlist about once a second."""
        (self.folder / "hls").mkdir()
        path = self.folder / "hls/live.m3u8"
        sender = streams.ffmpeg(self, "320x240", 20, "-hls_time", "1", "-f", "hls", path)
        self.wait_until(path.exists)
        url, asked = streams.web(self, self.folder)
        begun = time.monotonic()
        child = self.begin({"cam": f"uri: '{url}/hls/live.m3u8', allow_hosts: 127.0.0.1, stall: 3s, {SOON}"})
        self.wait_until(lambda: len(self.rows()) > 100, child)
        self.assertLess(sum(path == "/hls/live.m3u8" for path, _ in asked), 2.2 * (time.monotonic() - begun) + 3)
        sender.kill()
        self.wait_until(lambda: f"cam: stalled: {url}/hls/live.m3u8: no picture came for 4 s" in
                        self.errors.read_text(), child)
        self.assertIn("no new segment", self.await_state(child, "cam", "away")["why"])
        self.finish(child)
        times = [row["pts"] for row in self.rows()]
        for before, after in zip(times, times[1:]):
            self.assertAlmostEqual(after - before, 0.05, places=6)
        parts = [path for path, _ in asked if path.endswith(".ts")]
        self.assertEqual(len(parts), len(set(parts)))

    def test_hosts_of_kept_connections(self):
        """A server with persistent connections redirects to another host after the first parts."""
        self.make_clip("list.m3u8", "-hls_time", "1", "-hls_list_size", "0", "-t", "6")
        url, asked = streams.web(self, self.folder, protocol_version="HTTP/1.1")
        text = (self.folder / "list.m3u8").read_text()
        led = f"/to?{url.replace('127.0.0.1', 'localhost')}/list4"
        (self.folder / "led.m3u8").write_text(text.replace("list4", led))
        child = self.begin({"led": f"uri: '{url}/led.m3u8', allow_hosts: 127.0.0.1"})
        child.communicate(timeout=TIMEOUT)
        self.assertIn("it leads to localhost, which allow_hosts does not have", self.errors.read_text())
        self.assertNotEqual(child.returncode, 0)
        self.assertGreater(len(self.rows()), 0)
        self.assertLessEqual(len(self.rows()), 100)

    def test_options_of_the_other_kind(self):
        for options, words in (("uri: 'rtsp://camera/', loop: true", "loop is for files"),
                               ("uri: 'rtsp://camera/', start: 3s", "a stream starts with first or key"),
                               ("uri: 'clip.mp4', start: key", "a file starts at a time"),
                               ("uri: 'clip.mp4', stall: 5s", "stall is for streams"),
                               ("uri: 'http://camera/', auth: digest", "auth is for rtsp://"),
                               ("uri: 'clip.mp4', poll: 1s", "poll is for streams"),
                               ("uri: 'rtsp://a:b@c/d/e#f@camera/'", "where the password ends is not clear"),
                               ("uri: 'ftp://camera/'", "ftp:// is not read"),
                               ("uri: 'rtsp://camera:99999/'", "the port is not a number"),
                               ("uri: \"rtsp://camera/a\\nb\"", "a URL cannot have"),
                               ("uri: 'rtsp:///a'", "the name of the host is missing"),
                               ("uri: 'http://camera/live.MPD?x=1'", "HLS playlist (.m3u8)"),
                               ("uri: 'rtsp://a:b@camera/', password_file: x", "the URL has a password, too"),
                               ("uri: 'rtsp://camera/', reconnect: {first: 5s, most: 1s}", "after the longest time")):
            path = self.write(pipeline(dict(cam=options), decode="", out="type: 'null'"))
            self.millrace("check", path, code=66 if "ftp" in options else 69 if "MPD" in options else 78,
                          says=(words, "pipeline.yaml:4:"))
