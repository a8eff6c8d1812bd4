"""Tests the RTSP client against gst-rtsp-server and ffmpeg, and against faulty servers.

    rtsp.py PROGRAM [TEST...]    (tests/reference/rtsp_packets.c)
"""
import collections
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import rtsp_hostile as hostile

PROGRAM = sys.argv.pop(1)
HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = float(os.environ.get("MILLRACE_TEST_TIMEOUT", "60"))
KEY, CORRUPT, SEAM = 1, 4, 16
END, DATA, NO_INPUT, UNAVAILABLE, IO, PERMISSION, CONFIG, CANCELLED, AGAIN = 3, -2, -3, -4, -8, -10, -11, -12, -13
NO_TIME = -2**63
# Pictures must differ, encode to the same bits in each run, and have a key every 10. Packets are small.
SOURCE = "videotestsrc is-live=true pattern={} ! video/x-raw,format=I420,width=320,height=240,framerate=50/1"
H264 = "x264enc pass=quant quantizer=10 bframes={} key-int-max=10 threads=1 speed-preset=veryfast tune={}"
FACTORIES = {
    "/h264": f"( {SOURCE.format('ball')} ! {H264.format(0, 'zerolatency')} ! rtph264pay mtu=400 name=pay0 pt=96 )",
    "/b": f"( {SOURCE.format('ball')} ! {H264.format(2, 0)} ! rtph264pay mtu=400 name=pay0 pt=96 config-interval=-1 )",
    "/refresh": f"( {SOURCE.format('ball')} ! {H264.format(0, 'zerolatency')} intra-refresh=true ! rtph264pay mtu=400 "
                "name=pay0 pt=96 )",
    "/hevc": f"( {SOURCE.format('ball')} ! x265enc speed-preset=ultrafast tune=zerolatency key-int-max=10 "
             "option-string=log-level=none ! rtph265pay mtu=400 name=pay0 pt=96 )",
    "/jpeg": f"( {SOURCE.format('ball')} ! jpegenc ! rtpjpegpay mtu=700 name=pay0 pt=26 )",
    "/vp8": f"( {SOURCE.format('ball')} ! vp8enc deadline=1 ! rtpvp8pay name=pay0 pt=96 )",
    "/short": f"( {SOURCE.format('ball').replace('is-live=true', 'is-live=true num-buffers=30')} ! jpegenc ! "
              "rtpjpegpay name=pay0 )",
}

Run = collections.namedtuple("Run", "before survey packets pictures counts status took cpu message")
Packet = collections.namedtuple("Packet", "pts flags bytes captured arrived size md5")
Picture = collections.namedtuple("Picture", "pts tainted size md5")


def command(url, **options):
    return [PROGRAM, url] + [f"{key}={value}" for key, value in options.items()]


def parse(output):
    survey = counts = end = None
    before, packets, pictures = [], [], []
    for line in output.splitlines():
        kind, *rest = line.split(" ")
        if kind == "survey":
            survey = rest
        elif kind == "before":
            before.append([int(number) for number in rest])
        elif kind == "packet":
            packets.append(Packet(*map(int, rest[:5]), *rest[5:]))
        elif kind == "picture":
            pictures.append(Picture(int(rest[0]), int(rest[1]), *rest[2:]))
        elif kind == "counts":
            counts = [int(number) for number in rest]
        elif kind == "end":
            end = (int(rest[0]), int(rest[1]), float(rest[2]), " ".join(rest[3:]))
    return Run(before, survey, packets, pictures, counts, *end)


def run(url, **options):
    done = subprocess.run(command(url, **options), capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode:
        raise AssertionError(f"{url}: {done.returncode}: {done.stderr}")
    return parse(done.stdout)


def run_together(commands):
    processes = [subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for each in commands]
    return [process.communicate(timeout=TIMEOUT)[0] for process in processes]


class Served:
    """Runs gst-rtsp-server in a separate process. Skips the test if it is not installed."""

    def __init__(self, *options, wrap=()):
        factories = [f"{path}={launch}" for path, launch in FACTORIES.items()]
        environment = {**os.environ, "G_MESSAGES_DEBUG": ""}
        self.process = subprocess.Popen([*wrap, "/usr/bin/python3", f"{HERE}/rtsp_server.py", *factories, *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        line = self.process.stdout.readline()
        if not line.strip().isdigit():
            self.close()
            raise unittest.SkipTest(line.strip() or "no gst-rtsp-server")
        self.port = int(line)

    def url(self, path, scheme="rtsp"):
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def close(self):
        self.process.kill()
        self.process.communicate()


class Real(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Served("--not-shared")  # each client gets the stream from the beginning

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def check_clean(self, found, count):
        self.assertEqual((len(found.packets), found.status), (count, 0), found.message)
        self.assertTrue(found.packets[0].flags & KEY)
        self.assertEqual([packet.flags & (CORRUPT | SEAM) for packet in found.packets[1:]], [0] * (count - 1))
        self.assertEqual({packet.size for packet in found.packets}, {"320x240"})
        self.assertEqual(found.counts[2:4], [0, 0], "lost and late")

    def check_stream(self, path, codec):
        """Reads over each transport. Pictures must match those that ffmpeg decodes."""
        url, transports = self.server.url(path), {"tcp": 1, "udp": 2, "auto": 2}
        all_of_them = [["ffmpeg", "-v", "error", "-nostdin", "-rtsp_transport", "tcp", "-i", url, "-frames:v", "120",
                        "-f", "framemd5", "-"]]
        all_of_them += [command(url, transport=transport, survey=1, decode=1, packets=40) for transport in transports]
        theirs, *ours = run_together(all_of_them)
        theirs = {line.split(",")[-1].strip() for line in theirs.splitlines() if not line.startswith("#")}
        for transport, found in zip(transports, map(parse, ours)):
            used = transports[transport]
            self.check_clean(found, 40)
            self.assertEqual(found.survey[:3], [codec, "320x240", "50.000"])
            self.assertEqual(found.counts[5], used)
            self.assertEqual(len(found.pictures), 40)
            times = sorted(packet.pts for packet in found.packets)
            steps = [b - a for a, b in zip(times, times[1:])]
            self.assertTrue(all(19_000_000 < step < 21_000_000 for step in steps), steps)
            common = {picture.md5 for picture in found.pictures} & theirs
            self.assertGreater(len(common), 25, f"{path} {transport}: pictures that ffmpeg has, too")

    def test_h264(self):
        self.check_stream("/h264", "h264")

    def test_h264_with_b_frames(self):
        self.check_stream("/b", "h264")

    def test_hevc(self):
        self.check_stream("/hevc", "hevc")

    def test_jpeg(self):
        self.check_stream("/jpeg", "mjpeg")

    def test_what_the_server_refuses(self):
        self.assertEqual(run(self.server.url("/none")).status, NO_INPUT)
        found = run(self.server.url("/vp8"))
        self.assertEqual(found.status, UNAVAILABLE)
        self.assertIn("its video is VP8", found.message)

    def test_end_of_the_stream(self):
        found = run(self.server.url("/short"), transport="tcp")
        self.assertIn(found.status, (END, IO), found.message)
        self.assertGreaterEqual(len(found.packets), 20)

    def test_packets_that_are_too_large(self):
        whole = run(self.server.url("/h264"), transport="tcp", packets=40)
        most = min(packet.bytes for packet in whole.packets if packet.flags & KEY) - 1
        found = run(self.server.url("/h264"), transport="tcp", packets=30, most=most)
        self.assertEqual((found.status, len(found.packets)), (0, 30), found.message)
        self.assertTrue(all(packet.bytes <= most for packet in found.packets))
        # The keys are missing, so later pictures are marked.
        self.assertFalse(any(packet.flags & KEY for packet in found.packets))
        self.assertGreaterEqual(sum(bool(packet.flags & SEAM) for packet in found.packets), 3)


class Joined(unittest.TestCase):
    """A running stream that clients join in the middle."""

    def test_intra_refresh(self):
        server = Served()
        self.addCleanup(server.close)
        url = server.url("/refresh")
        first = subprocess.Popen(command(url, transport="tcp", decode=1, packets=200), stdout=subprocess.PIPE,
                                 text=True)
        begin = first.stdout.readline()
        time.sleep(1)
        second = run(url, transport="tcp", decode=1, packets=60)
        rest, _ = first.communicate(timeout=TIMEOUT)
        first = parse(begin + rest)
        self.assertGreater(sum(bool(packet.flags & KEY) for packet in second.packets), 3)
        right = [picture.md5 for picture in second.pictures if not picture.tainted]
        self.assertGreater(len(right), 20)
        self.assertEqual(set(right) - {picture.md5 for picture in first.pictures if not picture.tainted}, set())


class Clock(unittest.TestCase):
    def test_captured_times(self):
        server = Served()
        self.addCleanup(server.close)
        found = run(server.url("/jpeg"), transport="udp", seconds=7)
        known = [packet for packet in found.packets if packet.captured != NO_TIME]
        self.assertGreater(len(known), 10)
        behind = [time.time() - packet.captured / 1e9 - (time.monotonic() - packet.arrived / 1e9) for packet in known]
        self.assertTrue(all(-0.5 < seconds < 2 for seconds in behind), behind)
        for a, b in zip(known, known[1:]):
            self.assertAlmostEqual((b.captured - a.captured) / 1e9, (b.pts - a.pts) / 1e9, delta=0.005)


class Killed(unittest.TestCase):
    def test_kill(self):
        for transport in ("tcp", "udp"):
            with self.subTest(transport):
                server = Served()
                self.addCleanup(server.close)
                reader = subprocess.Popen(command(server.url("/jpeg"), transport=transport), stdout=subprocess.PIPE,
                                          text=True)
                first = reader.stdout.readline()
                server.process.send_signal(signal.SIGKILL)
                rest, _ = reader.communicate(timeout=TIMEOUT)
                found = parse(first + rest)
                self.assertIn(found.status, (END, IO), found.message)

    def test_nobody_there(self):
        server = Served()
        url = server.url("/jpeg")
        server.close()
        found = run(url)
        self.assertEqual(found.status, IO)
        self.assertRegex(found.message, "cannot connect to port .* Connection refused")

    def test_stopped_server(self):
        server = Served()
        self.addCleanup(server.close)
        server.process.send_signal(signal.SIGSTOP)
        found = run(server.url("/jpeg"), timeout=1000)
        self.assertEqual(found.status, IO)
        self.assertIn("no answer to OPTIONS in time", found.message)


class Guarded(unittest.TestCase):
    def test_digest(self):
        server = Served("--user", "me:secret")
        self.addCleanup(server.close)
        for transport in ("tcp", "udp"):
            found = run(server.url("/jpeg"), user="me", password="secret", transport=transport, packets=5)
            self.assertEqual(found.status, 0, found.message)
        for options in ({}, {"user": "me", "password": "wrong"}, {"user": "other", "password": "secret"}):
            found = run(server.url("/jpeg"), **options)
            self.assertEqual(found.status, PERMISSION, found.message)
            self.assertNotIn("secret", found.message)

    def test_only_tcp(self):
        server = Served("--protocols", "tcp")
        self.addCleanup(server.close)
        found = run(server.url("/jpeg"), packets=5)
        self.assertEqual((found.status, found.counts[5]), (0, 1), found.message)
        found = run(server.url("/jpeg"), packets=5, transport="udp")
        self.assertEqual(found.status, UNAVAILABLE, found.message)
        self.assertIn("set transport to auto", found.message)

    def test_tls(self):
        if not shutil.which("openssl"):
            self.skipTest("no openssl")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out",
                            "certificate", "-days", "2", "-subj", "/CN=localhost", "-addext",
                            "subjectAltName=IP:127.0.0.1"],
                           cwd=folder, check=True, capture_output=True)
            both = f"{folder}/both.pem"
            subprocess.run("cat certificate key > both.pem", shell=True, cwd=folder, check=True)
            server = Served("--tls", both)
            self.addCleanup(server.close)
            url = server.url("/h264", "rtsps")
            found = run(url, ca=f"{folder}/certificate", packets=20, decode=1)
            self.assertEqual((found.status, found.counts[5]), (0, 1), found.message)
            self.assertEqual(len(found.pictures), 20)
            found = run(url)
            self.assertEqual(found.status, CONFIG)
            self.assertIn("certificate is not trusted", found.message)
            self.assertEqual(run(url.replace("127.0.0.1", "localhost"), ca=f"{folder}/certificate").status, CONFIG)
            self.assertEqual(run(url, ca=f"{folder}/none").status, CONFIG)
            self.assertEqual(run(server.url("/h264", "rtsp"), timeout=2000).status, IO)


class Scripted(unittest.TestCase):
    """Tests against servers whose answers the test scripts."""

    def against(self, options=None, **wrong):
        server = hostile.Server(**wrong)
        self.addCleanup(server.close)
        found = run(server.url, **{"transport": "tcp", "timeout": 1500, "packets": 20, **(options or {})})
        return server, found

    def expect(self, status, words, options=None, **wrong):
        server, found = self.against(options, **wrong)
        self.assertEqual(found.status, status, found.message)
        self.assertRegex(found.message, words)
        if found.message:
            self.assertTrue(found.message.startswith(("rtsp://127.0.0.1", "cancelled")), found.message)
        return server


class Hostile(Scripted):
    def test_right_bytes_one_by_one(self):
        server, found = self.against(bytewise=True)
        self.assertEqual((found.status, len(found.packets)), (0, 20), found.message)
        times = [packet.pts for packet in found.packets]  # numbers and times wrap meanwhile
        self.assertEqual([b - a for a, b in zip(times, times[1:])], [40_000_000] * 19)
        self.assertEqual([method for method, *_ in server.requests[:4]], ["OPTIONS", "DESCRIBE", "SETUP", "PLAY"])

    def test_statuses(self):
        for status, expected, words in (("404 Not Found", NO_INPUT, "is the path right"), ("503 Busy", IO, "503 Busy"),
                                        ("401 No", PERMISSION, "needs a user and a password"),
                                        ("403 No", PERMISSION, "403"), ("451 Odd", DATA, "refuses DESCRIBE")):
            self.expect(expected, words, DESCRIBE=hostile.refusing(status))
            self.expect(expected, status[:3], PLAY=hostile.refusing(status))
        self.expect(IO, "454", SETUP=hostile.refusing("454 Session Not Found"))

    def test_passwords_are_not_hammered(self):
        challenge = 'WWW-Authenticate: Digest realm="r", nonce="n{}", stale={}'
        for stale in ("false", "true"):
            server = self.expect(PERMISSION, "user or password is wrong", {"user": "me", "password": "secret"},
                                 DESCRIBE=hostile.refusing("401 No", challenge.format(1, stale)))
            self.assertLessEqual(sum(method == "DESCRIBE" for method, *_ in server.requests), 3)

    def test_endless_answers(self):
        def flood(text):
            def send(connection):
                connection.recv(65536)
                while True:
                    connection.sendall(text)
            return send

        self.expect(DATA, "no end within|neither RTSP nor packets",
                    greeting=flood(b"RTSP/1.0 200 OK\r\nX: " + b"y" * 4000))
        self.expect(DATA, "neither RTSP nor packets", greeting=flood(b"\xff" * 4000))
        self.expect(DATA, "neither RTSP nor packets", greeting=flood(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        self.expect(DATA, "neither RTSP nor packets|no end within", greeting=flood(b"A\n" * 3000))
        endless = b"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 200000
        self.expect(DATA, "not SDP|more than|neither", DESCRIBE=lambda server, headers: endless)
        # An endless sequence of packets before any answer.
        self.expect(IO, "no answer to OPTIONS in time", {"timeout": 700},
                    greeting=flood(hostile.interleaved(hostile.jpeg(1, 1)) * 20))

    def test_descriptions(self):
        for sdp, status, words in ((b"", DATA, "not SDP"), (b"v=0\r\nm=audio 0 RTP/AVP 0\r\n", NO_INPUT, "no video"),
                                   (b"v=0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 VP9/90000\r\n", UNAVAILABLE, "VP9"),
                                   (hostile.SDP + b"a=control:a b\r\n", DATA, "not URLs")):
            self.expect(status, words, sdp=sdp)

    def test_redirections(self):
        other = hostile.Server()
        self.addCleanup(other.close)
        to = lambda url: hostile.refusing("302 Moved", f"Location: {url}")
        _, found = self.against(DESCRIBE=to(other.url))
        self.assertEqual((found.status, len(found.packets)), (0, 20), found.message)
        self.expect(DATA, "leads to other places", DESCRIBE=lambda server, headers: to(server.url)(server, headers))
        self.expect(DATA, "not a URL of RTSP", DESCRIBE=to("file:///etc/passwd"))
        self.expect(DATA, "not a URL of RTSP", DESCRIBE=hostile.refusing("302 Moved"))
        self.expect(PERMISSION, "host localhost, which allow_hosts does not have", {"hosts": "127.0.0.*"},
                    DESCRIBE=to(other.url.replace("127.0.0.1", "localhost")))
        self.expect(PERMISSION, "allow_hosts does not have host 127.0.0.1", {"hosts": "10.*,*.example"})
        # User and password stay with the original host.
        asked = {"DESCRIBE": hostile.refusing("401 No", 'WWW-Authenticate: Basic realm="r"')}
        guarded = hostile.Server(**asked)
        self.addCleanup(guarded.close)
        self.expect(PERMISSION, "401", {"user": "me", "password": "secret"},
                    DESCRIBE=to(guarded.url.replace("127.0.0.1", "localhost")))
        self.assertFalse(any("authorization" in headers for *_, headers in guarded.requests))
        self.expect(PERMISSION, f"leads to 127.0.0.1:{guarded.port}, which is not given the password",
                    {"user": "me", "password": "secret"}, DESCRIBE=to(guarded.url))
        self.assertFalse(any("authorization" in headers for *_, headers in guarded.requests))

        def elsewhere(server, headers):
            if server.requests[-1][1].endswith("/x"):
                return to(f"{server.url[:-1]}y")(server, headers)
            return server.describe(headers) if "authorization" in headers else asked["DESCRIBE"](server, headers)

        _, found = self.against({"user": "me", "password": "secret"}, DESCRIBE=elsewhere)
        self.assertEqual((found.status, len(found.packets)), (0, 20), found.message)
        # Clear text needs permission.
        server = self.expect(PERMISSION, "in a way that is not used here .auth: digest", {"user": "me", "digest": 1,
                             "password": "secret"}, **asked)
        self.assertFalse(any("authorization" in headers for *_, headers in server.requests))

    def test_servers_that_others_read(self):
        """Answers with faults that other programs tolerate."""
        def closing(server, headers):
            server.connections[-1].shutdown(socket.SHUT_RDWR)

        def packets(connection):
            for number in range(1000):
                connection.sendall(hostile.interleaved(hostile.jpeg(number, number * 3600,
                                                                    tables=bytes([16]) * 64 + bytes([17]) * 128)))
                time.sleep(0.005)

        def chosen(transport):
            return lambda *_: f"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\n{transport}Session: 7\r\n\r\n".encode()

        for wrong in ({"count": lambda count: 0}, {"count": lambda count: count - 1},
                      {"count": lambda count: 7 * count}, {"sdp": hostile.SDP.split(b"\r\n", 1)[1]},
                      {"OPTIONS": closing}, {"packets": packets}, {"SETUP": chosen("")},
                      {"SETUP": chosen("Transport: RTP/AVP;unicast;source=192.168.1.3;interleaved=0-1\r\n")}):
            server, found = self.against({"survey": 1}, **wrong)
            self.assertEqual((found.status, len(found.packets)), (0, 20), (wrong, found.message))
            self.assertEqual(found.packets[0].flags & (CORRUPT | KEY), KEY)
        server = hostile.Server()
        self.addCleanup(server.close)
        server.wrong["base"] = f"rtsp://{server.url}/"
        found = run(server.url, transport="tcp", timeout=1500, packets=20)
        self.assertEqual((found.status, len(found.packets)), (0, 20), found.message)
        self.assertEqual([url for method, url, _ in server.requests if method == "SETUP"], [f"{server.url}/track1"])

    def test_why_nothing_is_read(self):
        def send(*payloads):
            def packets(connection):
                for number, payload in enumerate(payloads):
                    connection.sendall(hostile.interleaved(hostile.jpeg(number, number * 3600, payload=payload)[:40]))
                connection.shutdown(socket.SHUT_RDWR)
            return packets

        for payloads, words in (((97, 97), "packets of payload type 97 arrive, the session description names 26"),
                                ((), "closed the connection: no packet of its video came")):
            self.expect(IO, words, packets=send(*payloads))
        unknown = lambda connection: (connection.sendall(hostile.interleaved(hostile.jpeg(1, 1, tables=bytes(65)))),
                                      connection.shutdown(socket.SHUT_RDWR))
        self.expect(IO, "it sends JPEG packets that are malformed, which are not read", packets=unknown)

    def test_junk_between_packets(self):
        def packets(connection):
            for number in range(1000):
                connection.sendall(b"\0\0\0" + hostile.interleaved(hostile.jpeg(number, number * 3600)) +
                                   hostile.interleaved(b"other", 9) + hostile.interleaved(b"", 0) +
                                   hostile.interleaved(b"\x80\xc9\0", 1) + b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")
                time.sleep(0.002)

        server, found = self.against(packets=packets)
        self.assertEqual((found.status, len(found.packets)), (0, 20), found.message)
        self.assertEqual([packet.flags for packet in found.packets], [KEY | SEAM] + [KEY] * 19)

    def test_size_changes_and_a_sender_begins_anew(self):
        def packets(connection):
            for number in range(10):
                connection.sendall(hostile.interleaved(hostile.jpeg(number, number * 3600)))
            for number in range(10):
                connection.sendall(hostile.interleaved(hostile.jpeg(500 + number, number * 3600, 32, 16, 0x99)))
            time.sleep(TIMEOUT)

        _, found = self.against(packets=packets)
        self.assertEqual([packet.size for packet in found.packets], ["16x16"] * 10 + ["32x16"] * 10)
        self.assertEqual([bool(packet.flags & SEAM) for packet in found.packets], ([True] + [False] * 9) * 2)
        times = [packet.pts for packet in found.packets]
        self.assertEqual(times, sorted(times))

    def test_size_changes_in_h264(self):
        """Parameter sets come only in the stream, and change in the middle."""
        sizes = ("320x240", "640x480", "320x240")
        pictures = []
        for size in sizes:
            made = subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate=25",
                                   "-frames:v", "8", "-c:v", "libx264", "-bf", "0", "-x264-params", "aud=1", "-f",
                                   "h264", "-"],
                                  capture_output=True, check=True, timeout=TIMEOUT).stdout
            pictures += [b"\0\0\0\1\x09" + picture for picture in made.split(b"\0\0\0\1\x09")[1:]]

        def packets(connection):
            number = 0
            for index, picture in enumerate(pictures):
                made = hostile.h264(picture, number, index * 3600)
                number += len(made)
                connection.sendall(b"".join(map(hostile.interleaved, made)))
            time.sleep(TIMEOUT)

        _, found = self.against({"packets": 24, "decode": 1, "survey": 1}, sdp=hostile.SDP_H264, packets=packets)
        self.assertEqual((found.status, len(found.packets), len(pictures)), (0, 24, 24), found.message)
        self.assertEqual(found.survey[:2], ["h264", "320x240"])
        self.assertEqual([packet.size for packet in found.packets], [size for size in sizes for _ in range(8)])
        self.assertEqual([packet.flags & KEY for packet in found.packets], [1, 0, 0, 0, 0, 0, 0, 0] * 3)
        self.assertEqual([picture.size for picture in found.pictures], [size for size in sizes for _ in range(8)])

    def test_bye(self):
        def packets(connection):
            for number in range(5):
                connection.sendall(hostile.interleaved(hostile.jpeg(number, number * 3600)))
            # One more JPEG without a marker; the client must return it at the end.
            connection.sendall(hostile.interleaved(hostile.jpeg(5, 5 * 3600, marker=False)))
            connection.sendall(hostile.interleaved(struct.pack(">BBHI", 0x81, 203, 1, 0x1234), 1))
            time.sleep(TIMEOUT)

        _, found = self.against(packets=packets)
        self.assertEqual((found.status, len(found.packets)), (END, 6), found.message)
        self.assertEqual([packet.flags & CORRUPT for packet in found.packets], [0] * 5 + [CORRUPT])

    def over_udp(self, order, options=None):
        """Sends packets with these numbers over UDP, and packets from another host between them."""
        ports = []

        def setup(server, headers):
            ports.append(int(headers["transport"].split("client_port=")[1].split("-")[0]))
            return (f"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nTransport: {headers['transport']};server_port=9-10\r\n"
                    "Session: 7\r\n\r\n").encode()

        def packets(connection):
            ours, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
            with ours, other:
                ours.bind(("127.0.0.1", 0))
                other.bind(("127.0.0.2", 0))
                for number in order:
                    other.sendto(hostile.jpeg(7000 + number, number, 64, 64, 0x99), ("127.0.0.1", ports[0]))
                    ours.sendto(hostile.jpeg(65530 + number, number * 3600), ("127.0.0.1", ports[0]))
                    time.sleep(0.001)
                time.sleep(TIMEOUT)

        _, found = self.against({"transport": "udp", "latency": 150, **(options or {})}, SETUP=setup, packets=packets)
        self.assertEqual({packet.size for packet in found.packets}, {"16x16"})
        times = [packet.pts for packet in found.packets]
        self.assertEqual(times, sorted(times))
        return found

    def test_packets_of_others_and_in_disorder(self):
        found = self.over_udp([number ^ 1 for number in range(2, 30)] + [5, 6, 7, 7])
        self.assertEqual((found.status, len(found.packets)), (0, 20), found.message)
        self.assertEqual([packet.flags & SEAM for packet in found.packets[1:]], [0] * 19)
        self.assertEqual(found.counts[2:4], [0, 0])

    def test_packets_that_are_lost_or_late(self):
        """Numbers 10 and 20 are missing; 10 arrives after the client has stopped waiting."""
        numbers = [number for number in range(30) if number not in (10, 20)]
        found = self.over_udp(numbers + [30] * 400 + [10, 31], {"packets": 30})
        self.assertEqual((found.status, len(found.packets)), (0, 30), found.message)
        self.assertEqual([i for i, packet in enumerate(found.packets) if packet.flags & SEAM], [0, 10, 19])
        self.assertEqual(found.counts[2:4], [2, 1])

    def test_names_that_do_not_resolve(self):
        found = run("rtsp://no-such-host.invalid/x", timeout=3000)
        self.assertEqual(found.status, IO, found.message)
        self.assertTrue(found.message.startswith("no-such-host.invalid"), found.message)


class Lasting(Scripted):
    def test_silence_and_ends(self):
        def silent(connection):
            time.sleep(TIMEOUT)

        self.expect(IO, "no answer to OPTIONS in time", greeting=silent)
        self.expect(IO, "no answer to PLAY in time", PLAY=lambda server, headers: None)
        self.expect(IO, "closed the connection before it answered DESCRIBE|connection broke",
                    greeting=lambda connection: connection.close())
        # Stopped while it waits.
        started = time.monotonic()
        self.expect(CANCELLED, "cancelled", {"timeout": 30000, "stop": 300}, greeting=silent)
        self.assertLess(time.monotonic() - started, 10)

    def test_a_nonce_that_grows_old(self):
        asked = []

        def guarded(server, headers):
            nonce = len(asked) // 2
            asked.append(headers.get("authorization", ""))
            if f'nonce="{nonce}"' in asked[-1]:
                return server.other(headers)
            again = f'WWW-Authenticate: Digest realm="r", nonce="{nonce}", stale=true'
            return hostile.refusing("401 No", again)(server, headers)

        _, found = self.against({"seconds": 4, "packets": 100000, "user": "me", "password": "secret"}, timeout=2,
                                GET_PARAMETER=guarded)
        self.assertEqual(found.status, AGAIN, found.message)
        self.assertGreaterEqual(len(asked), 2)
        self.assertTrue(asked[1].startswith('Digest username="me"'), asked)

    def test_connections_that_come_and_go(self):
        for transport in ("tcp", "auto"):
            _, found = self.against({"before": 50, "packets": 3, "transport": transport})
            self.assertEqual((found.status, len(found.packets), len(found.before)), (0, 3, 2), found.message)
            (descriptors, threads, kib), (descriptors_later, threads_later, kib_later) = found.before
            self.assertEqual((descriptors, threads), (descriptors_later, threads_later))
            self.assertLess(kib_later - kib, 2000 if "asan" not in PROGRAM and "tsan" not in PROGRAM else 50000)

    def test_keeping_alive(self):
        server, found = self.against({"seconds": 3, "packets": 100000}, timeout=2)
        self.assertEqual(found.status, AGAIN)
        self.assertGreaterEqual(sum(method == "GET_PARAMETER" for method, *_ in server.requests), 2)
        self.assertTrue(all(headers.get("session") == "7" for method, _, headers in server.requests
                            if method == "GET_PARAMETER"))
        self.expect(IO, "454 Gone: the server has ended the session", {"packets": 100000}, timeout=2,
                    GET_PARAMETER=hostile.refusing("454 Gone"))

    def test_udp_where_nothing_comes(self):
        def setup(server, headers):
            if "TCP" in headers["transport"]:
                return server.setup(headers)
            transport = headers["transport"] + ";server_port=9-10"
            return f"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nTransport: {transport}\r\nSession: 7\r\n\r\n".encode()

        server, found = self.against({"transport": "auto", "timeout": 3000}, SETUP=setup)
        self.assertEqual((found.status, len(found.packets), found.counts[5]), (0, 20, 1), found.message)
        self.assertEqual(sum(method == "PLAY" for method, *_ in server.requests), 2)


def run_classes():
    """Runs all classes at once in separate processes, since they mostly wait."""
    classes = [name for name, value in globals().items()
               if isinstance(value, type) and issubclass(value, unittest.TestCase) and value is not Scripted]
    processes = [subprocess.Popen([sys.executable, __file__, PROGRAM, name], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for name in classes]
    outputs = [process.communicate()[0] for process in processes]
    for name, output in zip(classes, outputs):
        print(f"{name}\n{output}")
    return max(process.returncode for process in processes)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        unittest.main()
    sys.exit(run_classes())
