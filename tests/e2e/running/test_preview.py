"""The preview: pictures as Python, OpenCV and ffmpeg get them over HTTP, compared with ffmpeg's and Pillow's own; who
may see them, and what bad clients can do to it."""
import http.client
import io
import json
import pathlib
import re
import signal
import socket
import subprocess
import threading

import cv2
import numpy
from PIL import Image, ImageOps

import harness
from harness import MILLRACE, PATIENT, PICTURES, Case, call, free_port, pipeline

TOKEN = "0123456789abcdef-secret"


def preview(options="", before={}, **sources):
    return pipeline({"hd": 'uri: "lavfi:smptehdbars=size=1280x720:rate=25", realtime: true',
                     "sd": 'uri: "lavfi:smptebars=size=320x240:rate=5", realtime: true', **sources},
                    decode="", **before, look=f'type: preview, listen: "127.0.0.1:0"{options}')


class Preview(Case):
    def begin(self, options="", sources={}, environment=None, log="info", more=(), before={}):
        """A run that has begun to listen on self.port."""
        self.log = self.folder / "log"
        path = self.write(preview(options, before, **sources))
        with self.log.open("w") as log_file, (self.folder / "summary").open("w") as summary:
            self.child = self.spawn([MILLRACE, "run", path, "--json", "--log", log, *PATIENT, *more], stderr=log_file,
                                    stdout=summary, env={**harness.os.environ, **(environment or {})})
        found = self.wait_until(lambda: re.search(r"look: listens at http://127\.0\.0\.1:(\d+)/", self.log.read_text()))
        self.port = int(found[1])

    def wait_until(self, happened):
        return super().wait_until(happened, self.log, self.child)

    def finish(self):
        """Ends the run; every frame is delivered."""
        self.child.send_signal(signal.SIGTERM)
        self.assertEqual(self.child.wait(harness.TIMEOUT), 0, self.log.read_text())
        ledger = json.loads((self.folder / "summary").read_text())["ledger"]
        self.assertTrue(ledger["balanced"])
        self.assertEqual((ledger["delivered"], ledger["dropped"]), (ledger["in"], []))
        return ledger

    def get(self, path, method="GET", headers=None):
        """The complete answer: (code, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.TIMEOUT)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def await_picture(self, source, query=""):
        return self.wait_until(lambda: (found := self.get(f"/{source}.jpg{query}"))[0] == 200 and found[2])

    def sources(self):
        return {one["source"]: one for one in json.loads(self.get("/.json")[2])["sources"]}

    def connect(self, text=b"", receive=None):
        connection = socket.socket()
        self.addCleanup(connection.close)
        if receive:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        connection.settimeout(harness.TIMEOUT)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(text)
        return connection


def stream_request(source):
    return f"GET /{source}.mjpeg HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def decoded(jpeg):
    """B, G, R. It is nothing but a JPEG, which OpenCV would not check."""
    if (jpeg[:4], jpeg[-2:]) != (b"\xff\xd8\xff\xe0", b"\xff\xd9"):
        raise AssertionError(f"no JPEG: {jpeg[:20]} to {jpeg[-20:]}")
    return cv2.imdecode(numpy.frombuffer(jpeg, numpy.uint8), cv2.IMREAD_COLOR)


def psnr(a, b):
    return 10 * numpy.log10(255 ** 2 / max(numpy.mean((a.astype(float) - b.astype(float)) ** 2), 1e-9))


def pattern(graph, size, matrix):
    """The first picture as ffmpeg makes and shrinks it: B, G, R. The matrix is given."""
    width, height = size
    scale = f"scale={width}:{height}:in_color_matrix={matrix}:flags=area+accurate_rnd+full_chroma_int"
    done = subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", graph, "-frames:v", "1", "-vf", scale, "-f",
                           "rawvideo", "-pix_fmt", "bgr24", "-"], check=True, capture_output=True)
    return numpy.frombuffer(done.stdout, numpy.uint8).reshape(height, width, 3)


class Pictures(Preview):
    def test_stills_are_the_pictures(self):
        """For BT.709 and BT.601, shrunk and not: flat bars, so that only JPEG's loss at the edges differs."""
        self.begin(", quality: 95")
        for source, graph, size, matrix in (("hd", "smptehdbars=size=1280x720", (640, 360), "bt709"),
                                            ("sd", "smptebars=size=320x240", (320, 240), "bt601")):
            picture = decoded(self.await_picture(source))
            expected = pattern(graph, size, matrix)
            self.assertEqual(picture.shape, expected.shape)
            self.assertGreater(psnr(picture, expected), 32, source)
            flat = slice(20, 140), slice(5, 20)  # inside the first bar
            self.assertLess(numpy.abs(picture[flat].astype(int) - expected[flat].astype(int)).max(), 5, source)
        self.finish()

    def test_stills_stand_upright(self):
        """Photographs in EXIF's eight orientations, as Pillow turns them."""
        photo = PICTURES / "orange.jpg"
        if not photo.exists():
            self.skipTest(f"no {photo}")
        names = {f"o{n}": f'uri: "o{n}.jpg", loop: true, realtime: true' for n in range(1, 9)}
        for n in range(1, 9):
            image = Image.open(photo).resize((320, 200))
            exif = Image.Exif()
            exif[0x0112] = n
            image.save(self.folder / f"o{n}.jpg", exif=exif, quality=95)
        self.begin(", quality: 95", names)
        for n in range(1, 9):
            with self.subTest(orientation=n):
                shown = ImageOps.exif_transpose(Image.open(io.BytesIO(self.await_picture(f"o{n}"))))
                expected = ImageOps.exif_transpose(Image.open(self.folder / f"o{n}.jpg"))
                self.assertEqual(shown.size, expected.size)
                self.assertGreater(psnr(numpy.array(shown.convert("RGB")), numpy.array(expected.convert("RGB"))), 30)
        self.finish()

    def test_drawn_pictures(self):
        """What draw adds is seen: a caption's ground is dark, and its letters are light; the rest stays."""
        self.begin(before={"draw": 'caption: "{source}", font_size: 20'})
        shown = decoded(self.await_picture("sd")).astype(int)
        plain = pattern("smptebars=size=320x240", (320, 240), "bt601").astype(int)
        corner, rest = (slice(5, 30), slice(5, 35)), (slice(60, None), slice(60, None))
        self.assertLess(shown[corner].min(), plain[corner].min() - 40)
        self.assertGreater(shown[corner].max(), 220)
        self.assertGreater(psnr(shown[rest], plain[rest]), 32)
        self.finish()

    def test_streams_are_read_by_others(self):
        self.begin(", fps: 20")
        self.await_picture("hd")
        url = f"http://127.0.0.1:{self.port}/hd.mjpeg"
        capture = cv2.VideoCapture(url)
        self.addCleanup(capture.release)
        still = decoded(self.await_picture("hd"))
        for _ in range(10):
            read, picture = capture.read()
            self.assertTrue(read)
            self.assertGreater(psnr(picture, still), 32)
        done = call(["ffmpeg", "-v", "error", "-i", url, "-frames:v", "10", "-f", "framemd5", "-"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sum(not line.startswith("#") for line in done.stdout.splitlines()), 10)
        self.finish()

    def test_parts_are_whole(self):
        """A stream's boundaries, lengths and JPEGs, read strictly by RFC 2046."""
        self.begin()
        self.await_picture("sd")
        stream = self.connect(stream_request("sd")).makefile("rb")
        status, headers = stream.readline(), http.client.parse_headers(stream)
        self.assertIn(b" 200 ", status)
        self.assertIsNone(headers["Transfer-Encoding"])
        boundary = headers.get_param("boundary")
        self.assertEqual(headers.get_content_type(), "multipart/x-mixed-replace")
        for _ in range(6):
            self.assertEqual(stream.readline(), f"--{boundary}\r\n".encode())
            part = http.client.parse_headers(stream)
            self.assertEqual(part.get_content_type(), "image/jpeg")
            picture = stream.read(int(part["Content-Length"]))
            self.assertEqual(decoded(picture).shape, (240, 320, 3))
            self.assertEqual(stream.read(2), b"\r\n")
        self.finish()

    def test_a_source_that_ended(self):
        """A source's streams end with the last picture. The still stays and says since when. The others continue."""
        self.begin(sources=dict(short='uri: "lavfi:testsrc=size=64x48:rate=25:duration=2", realtime: true'))
        self.await_picture("short")
        stream = self.connect(stream_request("short"))
        while stream.recv(65536):
            pass
        self.assertTrue(self.sources()["short"]["ended"])
        self.assertEqual(self.get("/short.jpg")[0], 200)
        self.assertEqual(self.get("/hd.jpg")[0], 200)
        self.finish()

    def test_sources_that_come_and_go(self):
        """Added by ctl, it has pictures; removed, the stream ends."""
        control = self.folder / "control"
        self.begin(sources=dict(max=4), more=("--control", control))
        self.folder.chmod(0o700)
        self.millrace("ctl", "--control", control, "add", "late", "uri=lavfi:testsrc=size=64x48:rate=25",
                      "realtime=true")
        self.assertEqual(decoded(self.await_picture("late")).shape, (48, 64, 3))
        stream = self.connect(stream_request("late"))
        self.assertTrue(stream.recv(100))
        self.assertEqual(call([MILLRACE, "ctl", "--control", control, "remove", "late"]).returncode, 0)
        while stream.recv(65536):
            pass
        self.assertEqual(self.get("/hd.jpg")[0], 200)
        self.finish()

    def test_few_sources_have_pictures(self):
        """A limited number, the newest; the others make room."""
        short = {f"s{n}": 'uri: "lavfi:testsrc=size=64x48:rate=25:duration=1", realtime: true' for n in range(6)}
        self.begin(", most_sources: 3", short)
        self.wait_until(lambda: len(found := self.sources()) == 3 and {"hd", "sd"} <= set(found))
        self.finish()


class Requests(Preview):
    def test_what_is_answered(self):
        self.begin()
        self.await_picture("sd")
        self.await_picture("hd")
        code, headers, page = self.get("/")
        self.assertEqual((code, headers.get_content_type()), (200, "text/html"))
        self.assertNotIn(b"://", page)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertEqual(list(self.sources()), ["hd", "sd"])
        row = json.loads(self.get("/sd.json")[2])
        self.assertEqual((row["source"], row["classes"]), ("sd", []))
        self.assertEqual(row["pts"], row["seq"] / 5)
        for path in ("/none.jpg", "/none.mjpeg", "/none.json", "/nothing", "/sd", "/sd.png", "/../sd.jpg",
                     "/" + "x" * 300 + ".jpg", "/.jpg", "/favicon.ico"):
            self.assertEqual(self.get(path)[0], 404, path)
        for path in ("/", "/.json", "/sd.jpg", "/sd.mjpeg", "/sd.json"):
            code, headers, body = self.get(path, "HEAD")
            self.assertEqual((code, body, headers["Cache-Control"]), (200, b"", "no-store"), path)
        self.assertEqual(self.get("/sd.mjpeg", "HEAD")[1].get_content_type(), "multipart/x-mixed-replace")
        # tests/serve has all that the server refuses.
        self.assertEqual(self.get("/", "POST")[0], 405)
        self.assertEqual(self.get("/sd.jpg", headers={"Host": "evil.example"})[0], 403)
        self.assertEqual(self.get("/sd.jpg")[1]["Cross-Origin-Resource-Policy"], "same-origin")
        self.finish()

    def test_tokens(self):
        self.begin(', token: "${PREVIEW_TOKEN}"', environment={"PREVIEW_TOKEN": TOKEN}, log="debug")
        self.await_picture("sd", f"?token={TOKEN}")
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        for path in ("/", "/.json", "/sd.jpg", "/sd.json"):
            self.assertEqual(self.get(path, headers=bearer)[0], 200)
            self.assertEqual(self.get(path, headers={**bearer, "Host": "camera.example"})[0], 200)
            self.assertEqual(self.get(f"{path}?token={TOKEN}")[0], 200)
            for wrong in ("", f"?token={TOKEN[:-1]}", f"?tokens={TOKEN}"):
                code, headers, _ = self.get(path + wrong)
                self.assertEqual((code, headers["WWW-Authenticate"]), (401, 'Bearer realm="millrace"'), wrong)
            self.assertEqual(self.get(path, headers={"Authorization": f"Basic {TOKEN}"})[0], 401)
        self.finish()
        commands = [pathlib.Path(self.folder / name).read_text() for name in ("log", "summary")]
        for verb in (["plan", "--json"], ["plan"], ["graph"], ["check"]):
            done = self.millrace(*verb, self.folder / "pipeline.yaml", environment={"PREVIEW_TOKEN": TOKEN})
            commands += [done.stdout, done.stderr]
        self.assertFalse([text for text in commands if TOKEN in text])
        # The pipeline's digest does not reveal it either.
        plans = [json.loads(call([MILLRACE, "plan", "--json", self.folder / "pipeline.yaml", *more],
                                 environment={"PREVIEW_TOKEN": token}).stdout)["digest"]
                 for token, more in ((TOKEN, ()), (TOKEN + "x", ()), (TOKEN, ("--set", "stages.look.fps=7")))]
        self.assertEqual(plans[0], plans[1])
        self.assertNotEqual(plans[0], plans[2])

    def test_as_many_as_may(self):
        self.begin(", viewers: 2")
        self.await_picture("hd")
        watching = [self.connect(stream_request("hd")) for _ in range(2)]
        for one in watching:
            self.assertIn(b" 200 ", one.recv(100))
        code, headers, words = self.get("/hd.mjpeg")
        self.assertEqual((code, headers["Retry-After"]), (503, "1"))
        self.assertIn(b"viewers", words)
        self.assertEqual(self.sources()["hd"]["viewers"], 2)
        watching.pop().close()
        self.wait_until(lambda: self.sources()["hd"]["viewers"] == 1)
        again = self.connect(stream_request("hd"))
        self.assertIn(b" 200 ", again.recv(100))
        self.finish()


class Bad(Preview):
    def test_viewers_that_stop(self):
        """Clients that read nothing are disconnected; the others and the pipeline continue."""
        self.begin(", fps: 100, width: 1280, quality: 100, timeout: 1s", dict(
            noise='uri: "lavfi:testsrc2=size=1280x720:rate=25,noise=alls=80:allf=t", realtime: true'))
        self.await_picture("noise")
        stopped = [self.connect(stream_request("noise"), receive=4096) for _ in range(3)]
        for one in stopped:  # counted as a viewer; it reads nothing more
            self.assertIn(b" 200 ", one.recv(100))
        good, taken = self.connect(stream_request("noise")), []

        def watch():
            while piece := good.recv(65536):
                taken.append(len(piece))
        watching = threading.Thread(target=watch)
        watching.start()
        self.wait_until(lambda: taken)
        self.wait_until(lambda: self.sources()["noise"]["viewers"] == 1)
        pieces = len(taken)
        self.wait_until(lambda: len(taken) > pieces + 10)
        before = json.loads(self.get("/noise.json")[2])["seq"]
        self.wait_until(lambda: json.loads(self.get("/noise.json")[2])["seq"] > before)
        for one in stopped:  # what the system had buffered for it, and the end
            try:
                while one.recv(65536):
                    pass
            except ConnectionResetError:
                pass
        self.finish()
        watching.join(harness.TIMEOUT)
        self.assertFalse(watching.is_alive())

    def test_requests_that_never_end(self):
        """An occasional byte keeps a connection from being idle, but not for long."""
        self.begin(", timeout: 1s")
        self.await_picture("sd")
        slow = [self.connect(b"GET /sd.jpg HTTP/1.1\r\nHost: localhost\r\nX-Long: ") for _ in range(100)]
        upload = self.connect(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        self.assertIn(b" 200 ", upload.recv(100))
        left = set(slow)

        def drip():
            for one in list(left):
                one.setblocking(False)
                try:
                    one.send(b"x")
                    if one.recv(4096) == b"":
                        left.discard(one)
                except BlockingIOError:
                    pass
                except OSError:
                    left.discard(one)
            return not left
        self.wait_until(drip)
        self.assertEqual(self.get("/sd.jpg")[0], 200)
        self.finish()


class Refused(Preview):
    def refused(self, options, code=78, verb="check", environment=None):
        text = preview().replace('listen: "127.0.0.1:0"', options)
        done = self.millrace(verb, self.write(text), code=code, environment=environment)
        return done.stderr

    def test_what_may_not_be(self):
        told = self.refused('listen: "0.0.0.0:8090"')
        self.assertRegex(told, r"pipeline.yaml:8:\d+: error: .*0\.0\.0\.0:8090 is reached from other machines.*"
                               "token_file")
        self.assertIn("is not an address to listen at", self.refused("listen: camera"))
        short = self.refused('listen: "[::]:8090", token: "${T}"', environment={"T": "secret-word"})
        self.assertIn("has 11 characters", short)
        self.assertNotIn("secret-word", short)
        token = self.folder / "token"
        self.assertIn("cannot open", self.refused("token_file: token", 66, "plan"))
        token.write_text(TOKEN + "\n")
        token.chmod(0o644)
        self.assertIn("chmod 600", self.refused("token_file: token", 77, "plan"))
        self.assertIn("not both", self.refused(f"token_file: token, token: {TOKEN}"))
        token.chmod(0o600)
        self.refused('token_file: token, listen: "0.0.0.0:0"', 0)
        text = preview().replace("input: decode", "input: hd")
        self.assertIn("decode", call([MILLRACE, "check", self.write(text)]).stderr)

    def test_a_port_in_use(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        told = self.refused(f'listen: "127.0.0.1:{port}"', 69, "run")
        self.assertIn(f"127.0.0.1:{port} is in use by another program or stage", told)

    def test_a_token_in_a_file(self):
        token = self.folder / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        self.begin(", token_file: token")
        self.await_picture("sd", f"?token={TOKEN}")
        self.assertEqual(self.get("/sd.jpg")[0], 401)
        self.finish()

    def test_a_measured_run_does_not_listen(self):
        port = free_port()
        text = preview().replace(":0\"", f':{port}"')
        text = text.replace("realtime: true", "duration: 1s")
        done = self.millrace("plan", "--profile", "1", self.write(text))
        self.assertNotIn("listens", done.stderr)
