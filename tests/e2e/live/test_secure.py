"""Streams and playlists over TLS, from a server whose certificate the test's own authority has signed."""
import ssl
import subprocess

import rtmp_server
import streams
from harness import TIMEOUT
from streams import SOON, Live

PATTERN = ["ffmpeg", "-loglevel", "error", "-re", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=20", "-g", "20",
           "-pix_fmt", "yuv420p"]
LIVE = {"/live.mjpeg": ["-c:v", "mjpeg", "-f", "mpjpeg", "-"],
        "/live.ts": ["-c:v", "libx264", "-preset", "ultrafast", "-f", "mpegts", "-"]}


class Handler(streams.Web):
    """Also serves live streams, each from a separate program, until the client goes."""

    def do_GET(self):
        if self.path not in LIVE:
            return super().do_GET()
        self.asked.append((self.path, None))
        self.send_response(200)
        kind = "video/mp2t" if self.path.endswith(".ts") else "multipart/x-mixed-replace;boundary=ffmpeg"
        self.send_header("Content-Type", kind)
        self.end_headers()
        child = subprocess.Popen([*PATTERN, *LIVE[self.path]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            while piece := child.stdout.read1():
                self.wfile.write(piece)
        except OSError:
            pass  # the client has gone
        finally:
            child.kill()
            child.wait()
            child.stdout.close()


class Secure(Live):
    def setUp(self):
        super().setUp()
        streams.need("openssl", "ffmpeg")
        for name in ("site", "other"):
            self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out",
                         f"{name}.pem", "-days", "2", "-subj", f"/CN={name}")
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "web.key", "-out", "web.request", "-subj",
                     "/CN=web")
        (self.folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        self.openssl("x509", "-req", "-in", "web.request", "-CA", "site.pem", "-CAkey", "site.key", "-CAcreateserial",
                     "-days", "2", "-extfile", "names", "-out", "web.pem")
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(self.folder / "web.pem", self.folder / "web.key")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def make_list(self, seconds="3"):
        subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-t",
                        seconds, "-pix_fmt", "yuv420p", "-c:v", "libx264", "-g", "25", "-hls_time", "1",
                        "-hls_list_size", "0", str(self.folder / "list.m3u8")], check=True, stdin=subprocess.DEVNULL)

    def test_trusted(self):
        """MJPEG, a transport stream and a playlist; also from a server with persistent connections."""
        self.make_list()
        url, _ = streams.web(self, self.folder, self.tls, Handler)
        kept, _ = streams.web(self, self.folder, self.tls, protocol_version="HTTP/1.1")
        child = self.begin({"jpeg": f"uri: '{url}/live.mjpeg', ca_file: site.pem, {SOON}",
                            "ts": f"uri: '{url}/live.ts', ca_file: site.pem, {SOON}",
                            "list": f"uri: '{url}/list.m3u8', ca_file: site.pem",
                            "kept": f"uri: '{kept}/list.m3u8', ca_file: site.pem"})
        self.wait_until(lambda: min(len(self.rows("jpeg")), len(self.rows("ts"))) > 20 and
                        min(len(self.rows("list")), len(self.rows("kept"))) == 75, child)
        sources = self.finish(child)
        for name in sources:
            self.assert_times_go_on(self.rows(name))
            self.assertEqual(sources[name]["connection"]["connections"], 1)

    def test_trusted_by_the_environment(self):
        self.make_list()
        url, _ = streams.web(self, self.folder, self.tls, Handler)
        child = self.begin({"list": f"uri: '{url}/list.m3u8'"},
                           environment={"SSL_CERT_FILE": str(self.folder / "site.pem")})
        self.wait_until(lambda: len(self.rows("list")) == 75, child)
        self.finish(child)

    def test_not_trusted(self):
        """Signed by another or an unknown authority, or for another host: nothing may be requested or read."""
        self.make_list()
        url, asked = streams.web(self, self.folder, self.tls, Handler)
        there = url.replace("127.0.0.1", "localhost")
        child = self.begin({"other": f"uri: '{url}/list.m3u8', ca_file: other.pem, {SOON}",
                            "none": f"uri: '{url}/live.ts', {SOON}",
                            "host": f"uri: '{there}/live.mjpeg', ca_file: site.pem, {SOON}"})
        for name in ("other", "none", "host"):
            why = self.await_state(child, name, "away")["why"]
            words = "does not match hostname localhost" if name == "host" else "ca_file names authorities to trust"
            self.assertIn(words, why)
        sources = self.finish(child)
        for name in sources:
            self.assertEqual(sources[name]["connection"]["connections"], 0)
        self.assertEqual(asked, [])
        self.assertEqual(self.rows(), [])

    def test_rtmps(self):
        """A trusted server's stream. Nothing may be requested from an untrusted server, or one with another host's
        name."""
        clip = subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120", "-frames:v", "20",
                               "-pix_fmt", "yuv420p", "-c:v", "libx264", "-f", "flv", "-"], check=True,
                              capture_output=True).stdout

        def serve(connection, *_):
            for time_ms, data in rtmp_server.pictures(clip):
                connection.sendall(rtmp_server.message(6, 9, data, time_ms))
            connection.recv(1)

        server = rtmp_server.Server(self, serve, tls=self.tls)
        child = self.begin({"trusted": f"uri: 'rtmps://{server.at}/app/a', ca_file: site.pem, {SOON}",
                            "other": f"uri: 'rtmps://{server.at}/app/b', ca_file: other.pem, {SOON}",
                            "none": f"uri: 'rtmps://{server.at}/app/c', {SOON}",
                            "host": f"uri: 'rtmps://{server.at.replace('127.0.0.1', 'localhost')}/app/d', "
                                    f"ca_file: site.pem, {SOON}"})
        for name in ("other", "none", "host"):
            words = "does not match the expected" if name == "host" else "Name a ca_file"
            why = self.await_state(child, name, "away")["why"]
            self.assertIn("the server's certificate is not trusted", why)
            self.assertIn(words, why)
        self.wait_until(lambda: len(self.rows("trusted")) > 10, child)
        self.finish(child)
        self.assertEqual(set(server.played), {"a"})

    def test_parts_elsewhere(self):
        """The targets of a trusted playlist are checked as well: here parts on a host with another name."""
        self.make_list()
        url, asked = streams.web(self, self.folder, self.tls)
        there = url.replace("127.0.0.1", "localhost")
        text = (self.folder / "list.m3u8").read_text()
        (self.folder / "named.m3u8").write_text(text.replace("list", f"{there}/list"))
        (self.folder / "led.m3u8").write_text(text.replace("list", f"{url}/to?{there}/list"))
        plain, _ = streams.web(self, self.folder)
        (self.folder / "plain.m3u8").write_text(text.replace("list", f"{plain}/list"))
        names = ("named", "led", "plain")
        child = self.begin({name: f"uri: '{url}/{name}.m3u8', ca_file: site.pem, {SOON}" for name in names})
        for name, words in zip(names, ("certificate", "certificate", "http, which is not encrypted")):
            self.assertIn(words, self.await_state(child, name, "away")["why"])
        child.kill()
        self.assertFalse([path for path, _ in asked if path.endswith(".ts") and not path.startswith("/to?")])
        self.assertEqual(self.rows(), [])

    def test_led_elsewhere_by_a_kept_connection(self):
        """After the first parts, on the same connection: certificates are still verified."""
        self.make_list("6")
        url, asked = streams.web(self, self.folder, self.tls, protocol_version="HTTP/1.1")
        there = url.replace("127.0.0.1", "localhost")
        text = (self.folder / "list.m3u8").read_text()
        (self.folder / "led.m3u8").write_text(text.replace("list4", f"{url}/to?{there}/list4"))
        child = self.begin({"led": f"uri: '{url}/led.m3u8', ca_file: site.pem"})
        child.communicate(timeout=TIMEOUT)
        self.assertIn(f"/to?{there}/list4.ts", [path for path, _ in asked])
        self.assertNotIn("/list4.ts", [path for path, _ in asked])
        self.assertGreater(len(self.rows()), 0)
