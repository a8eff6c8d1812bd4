"""HTTP cameras whose bytes a test chooses: MJPEG dialects, snapshots, floods, and servers that break off."""
import itertools
import struct
import subprocess
import time

import harness
import streams
from harness import pipeline
from streams import SOON, Live

# A server that cannot be understood is not retried within a test.
LATE = "reconnect: {first: 100ms, most: 600s}"


def head(kind, *headers):
    return "".join(f"{line}\r\n" for line in ("HTTP/1.1 200 OK", f"Content-Type: {kind}", *headers, "")).encode()


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def part(picture, *headers, before=b"--x\r\n", end=b"\r\n"):
    lines = [b"Content-Type: image/jpeg", *headers]
    return before + end.join([*lines, b"", picture]) + end


def comment(picture, text):
    """Adds a comment to the picture's header."""
    return picture[:2] + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + picture[2:]


def claiming(samples):
    """An MP4 with few bytes whose track claims this many samples of one size."""
    def box(kind, *values, inner=b""):
        inner = struct.pack(f">{len(values)}I", *values) + inner
        return struct.pack(">I", 8 + len(inner)) + kind + inner
    entry = box(b"mp4v", inner=bytes(78))
    tables = (box(b"stsd", 0, 1, inner=entry) + box(b"stts", 0, 1, samples, 40) + box(b"stsc", 0, 1, 1, samples, 1) +
              box(b"stsz", 0, 10, samples) + box(b"stco", 0, 1, 8000))
    media = (box(b"mdhd", 0, 0, 0, 1000, 1000, 0) + box(b"hdlr", 0, 0, 0x76696465, 0, 0, 0, 0) +
             box(b"minf", inner=box(b"stbl", inner=tables)))
    return (box(b"ftyp", 0x69736f6d, 512) + box(b"moov", inner=box(b"trak", inner=box(b"mdia", inner=media))) +
            struct.pack(">I", 0x7fffffff) + b"mdat")


class Server:
    """Calls `serve(connection, path, request number)` for each request, on a separate thread."""

    def __init__(self, case, serve):
        self.serve, self.asked = serve, []
        self.url = f"http://127.0.0.1:{harness.serve(case, self.talk)}"

    def talk(self, connection):
        with connection:
            try:
                path = connection.makefile("rb").readline().split()[1].decode().strip("/")
                self.asked.append(path)
                self.serve(connection, path, self.asked.count(path))
            except (OSError, IndexError):
                pass  # the client has gone


class Cameras(Live):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        streams.need("ffmpeg")
        made = subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120", "-frames:v", "8",
                               "-pix_fmt", "yuvj420p", "-c:v", "mjpeg", "-f", "image2pipe", "-"], check=True,
                              capture_output=True).stdout
        cls.pictures = [b"\xff\xd8\xff" + picture for picture in made.split(b"\xff\xd8\xff")[1:]]

    def repeat(self, connection, begin, form):
        connection.sendall(begin)
        for picture in itertools.cycle(self.pictures):
            connection.sendall(form(picture))
            time.sleep(0.02)

    def dialects(self):
        """{name: (what comes first, how a picture comes)}"""
        multipart = head("multipart/x-mixed-replace;boundary=x")
        length = b"Content-Length: %d"
        hidden = b"\r\n--x\r\nContent-Type: text/plain\r\n\r\n"
        return {
            "quoted": (head('multipart/x-mixed-replace; boundary="x y"'), lambda p: part(p, before=b"--x y\r\n")),
            "dashed": (head("multipart/x-mixed-replace; boundary=--x"), lambda p: part(p, before=b"----x\r\n")),
            "undashed": (multipart, lambda p: part(p, length % len(p), before=b"x\r\n")),
            "no-first": (multipart, lambda p: part(p, before=b"") + b"--x\r\n"),
            "no-headers": (multipart, lambda p: b"--x\r\n\r\n" + p + b"\r\n"),
            "short": (multipart, lambda p: part(p, b"Content-Length: 10")),
            "long": (multipart, lambda p: part(p, b"Content-Length: 2000000")),
            "right": (multipart, lambda p: part(p, length % len(p))),
            "chunked": (head("multipart/x-mixed-replace;boundary=x", "Transfer-Encoding: chunked") +
                        chunk(b"--x\r\n"), lambda p: chunk(part(p, before=b"") + b"--x\r\n")),
            "lines": (multipart, lambda p: part(p, length % len(p), before=b"--x\n", end=b"\n")),
            "within": (multipart, lambda p: part(comment(p, hidden))),
            "text": (multipart, lambda p: b"--x\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello\r\n" +
                     part(p)),
            "thumbnail": (multipart, lambda p: part(comment(p, p[:len(p) - 60000] + p[-2:]), length % (2 * len(p)))),
            "unended": (multipart, lambda p: part(p[:-2], length % (len(p) - 2))),
            "untyped": (b"HTTP/1.0 200 OK\r\n\r\n", part),
            "bare": (head("image/jpeg"), lambda p: p),
        }

    def test_dialects(self):
        """Each source uses one connection, and all pictures are complete."""
        dialects = self.dialects()
        server = Server(self, lambda connection, path, _: self.repeat(connection, *dialects[path]))
        child = self.begin({name: f"uri: '{server.url}/{name}', {LATE}" for name in dialects})
        self.wait_until(lambda: all(len(self.rows(name)) > 10 for name in dialects), child)
        sources = self.finish(child)
        for name in dialects:
            self.assertEqual(sources[name]["connection"]["connections"], 1, name)
            self.assertEqual(sources[name]["connection"]["lost"], 0, name)
            self.assertFalse([line for line in sources[name]["dropped"] if line["reason"] == "corrupt"], name)
            rows = self.rows(name)
            self.assert_times_go_on(rows)
            self.assertEqual(rows[0]["pts"], 0)
            self.assertGreater(rows[10]["pts"], 0.1)  # when they arrived

    def test_broken_off(self):
        """A server that breaks off after pictures is retried soon, wherever it breaks off, whatever length it
        announced, and even if the stream is missing for a while. A picture from a server without part types is not
        wait for the next one."""
        def serve(connection, path, _):
            begin = head("multipart/x-mixed-replace;boundary=x", "Transfer-Encoding: chunked")
            connection.sendall(begin + chunk(b"--x\r\n"))
            for picture in self.pictures[:4]:
                connection.sendall(chunk(part(picture, before=b"") + b"--x\r\n"))
            if path == "chunk":
                connection.sendall(b"4000\r\n--x")
            elif path == "picture":
                connection.sendall(chunk(self.pictures[0][:900]))
            elif path == "rubbish":
                connection.sendall(b"no chunk\r\n")

        def serve_one(connection, path, number):
            if path == "gone" and number % 3 != 1:
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                return
            path = "one" if path == "gone" else path
            begin = {"one": head("multipart/x-mixed-replace;boundary=x"), "octets": head("application/octet-stream"),
                     "length": head("multipart/x-mixed-replace;boundary=x", "Content-Length: 2147483647")}
            connection.sendall(begin[path] + part(self.pictures[0], before=b"\r\n--x\r\n"))
            if path == "octets":
                while connection.recv(4096):
                    pass

        server = Server(self, serve)
        names = ("between", "chunk", "picture", "rubbish")
        ones = Server(self, serve_one)
        child = self.begin({**{name: f"uri: '{server.url}/{name}', {LATE}" for name in names},
                            **{name: f"uri: '{ones.url}/{name}', {LATE}"
                               for name in ("one", "length", "gone", "octets")}})
        self.wait_until(lambda: all(any(row.get("epoch") == 2 for row in self.rows(name))
                                    for name in (*names, "one", "length", "gone")) and self.rows("octets"), child)
        self.finish(child)
        for name in names:
            self.assertEqual([row["seq"] for row in self.rows(name) if not row.get("epoch")], [0, 1, 2, 3], name)

    def test_snapshots(self):
        """An address with one picture ends after it, unless it is polled: then each request is a connection."""
        def serve(connection, path, number):
            if path == "late" and number % 4 == 0:
                connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
                return
            picture = self.pictures[number % len(self.pictures)]
            lengths = () if path == "open" else (f"Content-Length: {len(picture)}",)
            connection.sendall(head("image/jpeg", "Connection: close", *lengths) + picture)

        server = Server(self, serve)
        child = self.begin({"one": f"uri: '{server.url}/one', {LATE}", "open": f"uri: '{server.url}/open', {LATE}",
                            "polled": f"uri: '{server.url}/polled', poll: 50ms, {LATE}",
                            "late": f"uri: '{server.url}/late', poll: 50ms, {SOON}"}, "--log", "info")
        self.wait_until(lambda: len(self.rows("polled")) > 10 and
                        any(row.get("epoch") == 2 for row in self.rows("late")), child)
        sources = self.finish(child)
        for name in ("one", "open"):
            self.assertEqual(len(self.rows(name)), 1, name)
            self.assertEqual(server.asked.count(name), 1)
            self.assertEqual(sources[name]["connection"]["state"], "ended")
            self.assertIn(f"{name}: the address gave one picture; with `poll`", self.errors.read_text())
        self.assertEqual(sources["polled"]["connection"]["connections"], 1)
        self.assert_times_go_on(self.rows("polled"))
        self.assertGreater(self.rows("polled")[1]["pts"], 0.03)

    def test_poll_is_for_pictures(self):
        def serve(connection, path, _):
            kind = {"page": "text/html", "png": "image/png"}[path]
            connection.sendall(head(kind, "Content-Length: 4") + b"\x89PNG")

        server = Server(self, serve)
        child = self.begin({"page": f"uri: '{server.url}/page', poll: 1s, {LATE}",
                            "png": f"uri: '{server.url}/png', poll: 1s, {LATE}"})
        for name in ("page", "png"):
            self.assertIn("the answer has no JPEG", self.await_state(child, name, "away")["why"])
        self.finish(child)
        path = self.write(pipeline(dict(cam="uri: 'rtsp://a/b', poll: 1s"), decode="", out="type: 'null'"))
        self.millrace("check", path, code=78, says="poll is for http:// and https://")

    def make_endless(self):
        """A transport stream whose last picture never ends."""
        stream = subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120", "-frames:v",
                                 "20", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-bf", "0", "-f", "mpegts", "-"],
                                check=True, capture_output=True).stdout
        packets = [bytes([0x47, 0x01, 0x00, 0x10 | i % 16]) + b"\xaa" * 184 for i in range(16)]
        last = next(packet for packet in (stream[i:i + 188] for i in range(len(stream) - 188, 0, -188))
                    if packet[1] & 0x1f == 1 and packet[2] == 0)
        first = (last[3] + 1) % 16
        return stream, b"".join(packets[first:] + packets[:first])

    def test_floods(self):
        """Endless bytes without a picture are given up, within a memory bound that max_pixels sets."""
        stream, packets = self.make_endless()
        multipart = head("multipart/x-mixed-replace;boundary=x")
        huge = b"--x\r\nContent-Type: image/jpeg\r\nContent-Length: 2000000000\r\n\r\n\xff\xd8\xff\xe0\0\x10"
        scan = self.pictures[0][:-2]
        floods = {"part": (multipart + huge, bytes(65536)), "jpeg": (head("image/jpeg") + scan, b"\x55" * 65536),
                  "junk": (multipart, b"x" * 65536), "ts": (head("video/mp2t") + stream, packets),
                  "again": (multipart + part(self.pictures[0]) * 5 + huge, bytes(65536)),
                  "headers": (b"HTTP/1.1 200 OK\r\n", b"Set-Cookie: %d=" + b"y" * 4000 + b"\r\n"),
                  "icy": (b"HTTP/1.1 200 OK\r\n", b"Icy-X: " + b"y" * 4000 + b"\r\n"),
                  "later": (b"HTTP/1.1 200 OK\r\n", b"Set-Cookie: %d=" + b"y" * 4000 + b"\r\n"),
                  "index": (head("video/mp4") + claiming(80000000), bytes(65536))}

        def serve(connection, path, number):
            if path == "later" and number == 1:  # it is asked for the rest
                begin = head("video/mp2t", "Content-Length: 9000000", "Accept-Ranges: bytes")
                return connection.sendall(begin + stream)
            begin, more = floods[path]
            connection.sendall(begin)
            if path == "again":  # a flood takes along pictures that nobody has taken yet
                self.wait_until(lambda: len(self.rows(path)) == 5)
            for number in itertools.count():
                connection.sendall(more % number if b"%d" in more else more)

        server = Server(self, serve)
        child = self.begin({name: f"uri: '{server.url}/{name}', max_pixels: 1000000, open_timeout: 60s, stall: 60s, "
                                  f"{LATE}" for name in floods})
        for name in floods:
            words = {"index": "claims samples or fragments that take"}.get(name, "MiB came without a whole picture")
            words = "headers have no end" if name in ("headers", "icy", "later") else words
            self.assertIn(words, self.await_state(child, name, "away")["why"], name)
        self.assertLess(streams.peak_mib(child), 700)
        summary = self.finish(child)
        self.assertEqual(len(self.rows("again")), 5, summary["again"])
        self.assertEqual({name: server.asked.count(name) for name in floods},
                         {name: 2 if name == "later" else 1 for name in floods})
