"""RTMP servers: ffmpeg's, and one whose messages the test chooses. They ask for passwords, end and lose streams, and
send without end."""
import base64
import hashlib
import itertools
import re
import signal
import struct
import subprocess
import time

import rtmp_server
import streams
from harness import TIMEOUT, free_port
from rtmp_server import VIDEO, basic, begin, command, message
from streams import SOON, Live

MIB = 1 << 20
FLOOD = 1024 * MIB  # a server gives up then: a client without a bound would use up the machine's memory


class Rtmp(Live):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        streams.need("ffmpeg")
        made = subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120", "-frames:v", "20",
                               "-pix_fmt", "yuv420p", "-c:v", "libx264", "-bf", "0", "-f", "flv", "-"],
                              check=True, capture_output=True).stdout
        cls.header, *cls.pictures = rtmp_server.pictures(made)[:21]

    def play(self, connection, pictures, chunk=128):
        """Sends the decoder's header and pictures."""
        for time_ms, data in (self.header, *pictures):
            connection.sendall(message(VIDEO, 9, data, time_ms, chunk=chunk))

    def test_ffmpeg(self):
        """Pictures and times from ffmpeg's server, which then ends the stream; without a stream name it does so too."""
        at = free_port()
        for path in ("app/instance/name?key=1", "app"):
            with self.subTest(path=path):
                server = streams.Server(self, "ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i",
                                        "testsrc2=size=320x240:rate=25", "-f", "lavfi", "-i", "sine", "-t", 2,
                                        "-pix_fmt", "yuv420p", "-c:v", "libx264", "-bf", 2, "-g", 25, "-c:a", "aac",
                                        "-f", "flv", "-listen", 1, f"rtmp://127.0.0.1:{at}/{path}")
                child = self.begin({"cam": f"uri: 'rtmp://127.0.0.1:{at}/{path}', {SOON}"})
                self.wait_until(lambda: len(self.rows()) >= 48, child)  # two wait for the next
                self.assertEqual(server.child.wait(), 0)
                self.await_state(child, "cam", "away")
                self.finish(child)
                self.assertEqual([round(row["pts"], 6) for row in self.rows()[:48]], [i / 25 for i in range(48)])
                (self.folder / "out.jsonl").unlink()

    def test_messages(self):
        """Chunks with any size, long times, aggregates, messages between another message's chunks, and pings."""
        def aggregate(pictures):
            tags = b"".join(b"\t" + len(data).to_bytes(3, "big") + (time_ms + 7).to_bytes(3, "big") + bytes(4) + data +
                            struct.pack(">I", len(data) + 11) for time_ms, data in pictures)
            return message(VIDEO, 22, tags, pictures[0][0], chunk=4096)

        def between(data, time_ms):
            parts = [data[at:at + 128] for at in range(0, len(data), 128)]
            others = (message(2, 4, struct.pack(">HI", 6, 7), stream=0), message(70, 8, b"\xaf\1x"),
                      message(400, 8, b"\xaf\1x"), message(3, 15, b"x"))
            return begin(VIDEO, 9, len(data), time_ms) + parts[0] + b"".join(
                other + basic(VIDEO, 3) + part for part, other in zip(parts[1:], itertools.cycle(others)))

        def serve(connection, name, _):
            if name == "plain":
                self.play(connection, self.pictures)
            elif name == "wide":
                connection.sendall(message(2, 1, struct.pack(">I", 1 << 20), stream=0))
                self.play(connection, self.pictures, chunk=1 << 20)
            elif name == "long":
                for time_ms, data in (self.header, *self.pictures):
                    wide = struct.pack(">I", 0xffffff + 1000 + time_ms)
                    parts = [data[at:at + 128] for at in range(0, len(data), 128)]
                    connection.sendall(begin(VIDEO, 9, len(data), 0xffffff) + wide +
                                       (basic(VIDEO, 3) + wide).join(parts))
            elif name == "together":
                connection.sendall(message(2, 1, struct.pack(">I", 4096), stream=0))
                self.play(connection, (), chunk=4096)
                for first in range(0, 20, 5):
                    connection.sendall(aggregate(self.pictures[first:first + 5]))
            elif name == "between":
                self.play(connection, ())
                connection.sendall(begin(5, 9, 5000) + bytes(128))  # aborted
                connection.sendall(message(2, 2, struct.pack(">I", 5), stream=0))
                connection.sendall(b"".join(between(data, time_ms) for time_ms, data in self.pictures))
            connection.sendall(command("onStatus", 0, None, {"level": "status", "code": "NetStream.Play.Stop"}))
            connection.recv(1 << 20)
            time.sleep(600)

        names = ("plain", "wide", "long", "together", "between")
        server = rtmp_server.Server(self, serve)
        late = "reconnect: {first: 600s, most: 600s}"
        child = self.begin({name: f"uri: 'rtmp://{server.at}/app/{name}', {late}" for name in names})
        for name in names:
            self.wait_until(lambda: len(self.rows(name)) == 20, child)
            self.assertIn("the server has ended", self.await_state(child, name, "away")["why"], name)
        self.finish(child)
        for name in names:
            self.assertEqual([round(row["pts"], 6) for row in self.rows(name)], [i / 25 for i in range(20)], name)

    def test_floods(self):
        """After pictures come endless messages, or too many. Each is given up with a reason and retried, within a
        memory bound."""
        sizes = {"long": 4 * MIB, "many": MIB, "between": MIB // 2}  # chunk sizes

        def half(number, length, part):
            return begin(10 + number, 9, length) + bytes(part)

        def serve(connection, name, _):
            self.play(connection, self.pictures)
            connection.sendall(message(2, 1, struct.pack(">I", sizes.get(name, 2 * MIB)), stream=0))
            floods = {"long": lambda number: half(number, 0xffffff, 4 * MIB),
                      "many": lambda number: half(number, 2 * MIB, MIB),
                      "between": lambda number: half(number, MIB, MIB // 2) +
                      message(VIDEO, 9, self.pictures[-1][1], 800 + 40 * number, chunk=MIB // 2),
                      "streams": lambda number: message(10 + number, 8, b"\xaf\1"),
                      "controls": lambda number: message(2, 3, bytes(4), stream=0) * 4000,
                      "sound": lambda number: message(4, 8, b"\xaf\1" + bytes(MIB), number, chunk=2 * MIB)}
            sent = 0
            for number in range(60000):
                data = floods[name](number)
                connection.sendall(data)
                sent += len(data)
                if sent > FLOOD:
                    break
            connection.recv(1 << 20)
            time.sleep(600)

        words = {**dict.fromkeys(("long", "many", "between"), "the server has begun messages of"),
                 "streams": "more than 64 chunk streams", "controls": "MiB came without a whole picture",
                 "sound": "MiB came without a whole picture"}
        server = rtmp_server.Server(self, serve)
        child = self.begin({name: f"uri: 'rtmp://{server.at}/app/{name}', max_pixels: 1000000, stall: 60s, {SOON}"
                            for name in words})
        for name in words:
            self.assertIn(words[name], self.await_state(child, name, "away")["why"], name)
        self.wait_until(lambda: all(any(row.get("epoch") for row in self.rows(name)) for name in words), child)
        self.assertLess(streams.peak_mib(child), 250)
        self.finish(child)
        for name in words:
            self.assertGreaterEqual(len([row for row in self.rows(name) if not row.get("epoch")]), 19, name)

    def test_floods_of_a_receiver(self):
        """A server that receives a stream has the same bounds: it is given up and retried."""
        def serve(connection, *_):
            connection.sendall(message(2, 1, struct.pack(">I", 32768), stream=0))
            for number in range(32768):
                connection.sendall(begin(10 + number, 9, 65000) + bytes(32768))

        server = rtmp_server.Server(self, serve)
        clip = self.folder / "clip.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120", "-t", "60", "-pix_fmt",
                        "yuv420p", "-c:v", "libx264", "-preset", "ultrafast", "-g", "5", clip], check=True)
        child = self.begin({"cam": "uri: clip.mp4, realtime: true"}, results="}\n  push: {type: video, input: cam, "
                           f"url: 'rtmp://{server.at}/app/s3cret', retry: 100ms")
        words = f"cam: lost rtmp://{server.at}: the server has begun messages of"
        self.wait_until(lambda: words in self.errors.read_text() and len(server.played) > 1, child)
        self.assertLess(streams.peak_mib(child), 250)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=TIMEOUT)
        self.assertEqual(child.returncode, 0)
        self.assertNotIn("s3cret", self.errors.read_text())

    def test_refusals(self):
        """Servers without the stream, servers that speak something else, and servers that break off while the stream is
        opened."""
        def serve(connection, name, _):
            if name == "none":
                connection.sendall(command("onStatus", 0, None, {
                    "level": "error", "code": "NetStream.Play.StreamNotFound", "description": "no \x1b stream"}))
            elif name == "half":
                connection.sendall(begin(VIDEO, 9, 5000) + bytes(100))
                connection.shutdown(1)
            connection.recv(1 << 20)
            time.sleep(600)

        words = {"none": "refuses it: NetStream.Play.StreamNotFound: no ? stream", "half": "it cannot be opened",
                 "closed": "refuses it: NetConnection.Connect.Rejected: go away"}
        class Other(rtmp_server.Server):
            def greet(self, connection):
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")
                connection.recv(1)

        server = rtmp_server.Server(self, serve, lambda data: "go away" if b"closed" in data else None)
        uris = {**{name: f"{server.at}/{name}/{name}" for name in words}, "other": Other(self, serve).at + "/a/b"}
        words["other"] = "does not answer as one of RTMP"
        child = self.begin({name: f"uri: 'rtmp://{uri}', {SOON}" for name, uri in uris.items()})
        for name, text in words.items():
            self.assertIn(text, self.await_state(child, name, "away")["why"], name)
        self.finish(child)

    def test_password(self):
        """The kind of password that Adobe's servers ask for; it is not shown anywhere."""
        salt, challenge = "c2FsdA==", "Y2hhbGxlbmdl"

        def digest(text):
            return base64.b64encode(hashlib.md5(text.encode()).digest()).decode()

        def enter(data):
            text = data.decode("latin1")
            if "authmod=adobe" not in text:
                return "[ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : "
            found = re.search(r"user=(\w+)(?:&challenge=(\w+)&response=([\w+/=]+)&opaque=(\w+))?", text)
            if not found[3]:
                return (f"[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=needauth&user={found[1]}&salt={salt}"
                        f"&challenge={challenge}&opaque=b3BhcXVl")
            right = digest(digest(f"viewer{salt}s3cret&") + "b3BhcXVl" + found[2])
            return None if found[3] == right and found[4] == "b3BhcXVl" else (
                "[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=authfailed&opaque=b3BhcXVl")

        def serve(connection, *_):
            self.play(connection, self.pictures)
            time.sleep(600)

        server = rtmp_server.Server(self, serve, enter)
        child = self.begin({"right": f"uri: 'rtmp://viewer:s3cret&@{server.at}/app/cam', {SOON}",
                            "wrong": f"uri: 'rtmp://viewer:s3cre@{server.at}/app/cam', {SOON}",
                            "none": f"uri: 'rtmp://{server.at}/app/cam', {SOON}"})
        self.wait_until(lambda: len(self.rows("right")) >= 19, child)
        self.assertIn("reason=authfailed", self.await_state(child, "wrong", "away")["why"])
        self.assertIn("need auth", self.await_state(child, "none", "away")["why"])
        self.finish(child)
        self.assertNotIn("s3cre", self.errors.read_text())
        self.assertFalse([data for data in server.asked if b"s3cre" in data])
