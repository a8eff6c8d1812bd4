"""RTP without a server, by address and by session description; what a lost packet does to later pictures."""
import contextlib
import csv
import itertools
import json
import pathlib
import random
import signal
import socket
import struct
import subprocess
import threading

import streams
from harness import TIMEOUT
from streams import SOON, Live


def pair():
    """An even port that is free together with the next one: RTP and RTCP. They are below the system's ephemeral range,
    from which it gives ports to programs that name none."""
    while True:
        at = random.randrange(20000, 30000, 2)
        with socket.socket(type=socket.SOCK_DGRAM) as first, socket.socket(type=socket.SOCK_DGRAM) as second:
            with contextlib.suppress(OSError):
                first.bind(("127.0.0.1", at))
                second.bind(("127.0.0.1", at + 1))
                return at


class Relay:
    """Forwards datagrams to those ports, except one that begins a picture whenever `lose` is set, and those that
    `loses` selects."""

    def __init__(self, case, *ports, loses=lambda: False):
        self.loses, self.lost = loses, 0
        self.socket = socket.socket(type=socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.lose = False
        self.ports = ports
        thread = threading.Thread(target=self.run, daemon=True)
        thread.start()
        case.addCleanup(thread.join)
        case.addCleanup(self.stop)

    def stop(self):
        self.ports = ()
        self.socket.sendto(b"", ("127.0.0.1", self.port))

    def run(self):
        with self.socket:
            while self.ports:
                packet = self.socket.recv(65536)
                if self.lose and len(packet) > 13 and packet[12] & 31 == 1:  # a whole picture, but not a key frame
                    self.lose = False
                    continue
                if self.loses():
                    self.lost += 1
                    continue
                for port in self.ports:
                    self.socket.sendto(packet, ("127.0.0.1", port))


def endless_rtp():
    """A picture whose first fragment is never followed by a last one."""
    for number in itertools.count():
        fragment = b"\x7c\x05" if number else b"\x7c\x85"
        yield struct.pack(">BBHII", 0x80, 96, number & 0xffff, 1234, 5) + fragment + b"\x55" * 1400


def endless_stream(stream):
    """Repeats a transport stream, and then sends a picture without an end."""
    pieces = [stream[at:at + 1316] for at in range(0, len(stream) - 1316, 1316)]
    packets = b"".join(bytes([0x47, 0x01, 0x00, 0x10 | i % 16]) + b"\xaa" * 184 for i in range(112))
    yield from itertools.chain(pieces * 3, itertools.cycle(packets[at:at + 1316]
                                                           for at in range(0, len(packets), 1316)))


class Datagrams(Live):
    def flood(self, port, datagrams):
        """Sends them until the test is over."""
        over = threading.Event()

        def run():
            with socket.socket(type=socket.SOCK_DGRAM) as sender:
                for number, datagram in enumerate(datagrams):
                    sender.sendto(datagram, ("127.0.0.1", port))
                    if number % 50 == 0 and over.wait(0.001):
                        break

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)

    def test_floods(self):
        """Endless packets, none of which ends a picture: they are given up within a memory bound."""
        made = subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120", "-frames:v",
                               "100", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-g", "10", "-bf", "0", "-f", "mpegts",
                               "-"], check=True, capture_output=True).stdout
        rtp, stream = pair(), pair()
        (self.folder / "rtp.sdp").write_text(
            f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video {rtp} RTP/AVP 96\n"
            "a=rtpmap:96 H264/90000\na=fmtp:96 packetization-mode=1; "
            "sprop-parameter-sets=Z0LACtoChPlhAAADAAEAAAMAMg8SJqA=,aM4PyA==\n")
        options = "max_pixels: 1000000, open_timeout: 100s, stall: 100s, reconnect: {most: 600s}"
        child = self.begin({"rtp": f"uri: rtp.sdp, {options}",
                            "udp": f"uri: 'udp://127.0.0.1:{stream}', {options}"})
        self.flood(rtp, endless_rtp())
        self.flood(stream, endless_stream(made))
        self.assertIn("none ends a picture", self.await_state(child, "rtp", "away")["why"])
        self.assertIn("MiB came without a whole picture", self.await_state(child, "udp", "away")["why"])
        self.assertLess(streams.peak_mib(child), 500)
        self.finish(child)

    def describe(self, name, port):
        """A description like ffmpeg's, for that port."""
        (self.folder / name).write_text(f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
                                        f"m=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\n"
                                        "a=fmtp:96 packetization-mode=1\n")

    def test_address_and_description(self):
        """A transport stream by address, and H.264 by a description that ffmpeg writes after the run has begun."""
        address, described = pair(), pair()
        child = self.begin({"address": f"uri: 'rtp://127.0.0.1:{address}', {SOON}",
                            "described": f"uri: cam.sdp, {SOON}"})
        self.assertIn("cam.sdp", self.await_state(child, "described", "away")["why"])
        streams.ffmpeg(self, "320x240", 20, "-f", "rtp_mpegts", f"rtp://127.0.0.1:{address}")
        sender = streams.ffmpeg(self, "320x240", 20, "-f", "rtp", "-sdp_file", self.folder / "cam.sdp",
                                f"rtp://127.0.0.1:{described}")
        self.wait_until(lambda: min(len(self.rows("address")), len(self.rows("described"))) > 30, child)
        self.assertEqual(self.await_state(child, "described", "live")["lost"], 0)
        sender.kill()
        sources = self.finish(child)
        for name in sources:
            rows = self.rows(name)
            self.assert_times_go_on(rows)
            self.assertEqual(rows[0]["pts"], 0)
            self.assertFalse([line for line in sources[name]["dropped"] if line["reason"] == "corrupt"])

    def test_descriptions_that_make_no_sense(self):
        """Retrying cannot help: each is tried once per longest interval, and says what is wrong."""
        head = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
        cases = {"text": ("hello\n", "is not a session description, or has no video"),
                 "nothing": (head, "is not a session description, or has no video"),
                 "sound": (head + f"m=audio {pair()} RTP/AVP 0\n", "is not a session description, or has no video"),
                 "codec": (head + f"m=video {pair()} RTP/AVP 96\na=rtpmap:96 NOSUCH/90000\n",
                           "of a format that is not read"),
                 "zero": (head + "m=video 0 RTP/AVP 96\na=rtpmap:96 H264/90000\n", "0 is not a port"),
                 "port": (head + "m=video 99999 RTP/AVP 96\na=rtpmap:96 H264/90000\n", "99999 is not a port")}
        for name, (text, _) in cases.items():
            (self.folder / f"{name}.sdp").write_text(text)
        noise = pair()
        slow = "reconnect: {first: 50ms, most: 100s}"
        child = self.begin({**{name: f"uri: {name}.sdp, {slow}" for name in cases},
                            "noise": f"uri: 'udp://127.0.0.1:{noise}', open_timeout: 100s, {slow}"})
        sent = random.Random(17)
        self.flood(noise, (sent.randbytes(1200) for _ in itertools.count()))
        for name, words in {**{name: words for name, (_, words) in cases.items()}, "noise": "Invalid data"}.items():
            state = self.await_state(child, name, "away")
            self.assertIn(words, state["why"])
            self.assertEqual(state["tries"], 1)
        self.finish(child)

    def test_nobody_sends(self):
        child = self.begin({"silent": f"uri: 'udp://127.0.0.1:{pair()}', open_timeout: 300ms, {SOON}"})
        why = self.await_state(child, "silent", "away")["why"]
        self.assertRegex(why, r"^udp://127\.0\.0\.1:\d+: it was not open within 0\.3 s \(open_timeout\)$")
        self.finish(child)

    def test_lost_packet(self):
        """One picture is lost. Those up to the next key frame depend on it, and are marked or dropped as configured;
        tables have arrival dates."""
        ports = {name: pair() for name in ("mark", "drop")}
        relay = Relay(self, *ports.values())
        for name, at in ports.items():
            self.describe(f"{name}.sdp", at)
        # Each picture is one slice in one packet. It begins with NAL unit 1, or is a key frame with others before it.
        streams.ffmpeg(self, "320x240", 20, "-x264-params", "sliced-threads=0", "-f", "rtp",
                       f"rtp://127.0.0.1:{relay.port}?pkt_size=60000")
        sources = "".join(f"  {name}: {{uri: {name}.sdp, clock: arrival, latency: 100ms, {SOON}}}\n" for name in ports)
        child = self.begin({"mark": "", "drop": ""}, given="sources:\n" + sources, decoded="mark",
                           decode=", damaged: mark", results="}\n  strict: {type: decode, input: drop}\n"
                                   "  others: {type: jsonl, input: strict, path: others.jsonl}\n"
                                   "  table: {type: csv, input: decode, path: out.csv, captured: true, state: true")
        self.wait_until(lambda: len(self.rows("mark")) > 25, child)
        relay.lose = True
        self.wait_until(lambda: any(row.get("damaged") for row in self.rows()), child)
        self.wait_until(lambda: not self.rows()[-1].get("damaged"), child)
        self.wait_until(lambda: any(second["seq"] != first["seq"] + 1 for first, second in
                                    itertools.pairwise(self.rows(file="others.jsonl"))), child)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=TIMEOUT)
        summary = {one["id"]: one for one in json.loads(out)["sources"]}
        rows = self.rows()
        marked = [row["seq"] for row in rows if row.get("damaged")]
        self.assertEqual(marked, list(range(marked[0], marked[-1] + 1)))
        self.assertEqual((marked[-1] + 2) % 20, 0)  # every twentieth picture is a key frame, and one has no number
        [corrupt] = [line["frames"] for line in summary["drop"]["dropped"] if line["reason"] == "corrupt"]
        self.assertEqual(corrupt, len(marked))
        self.assertFalse([line for line in summary["mark"]["dropped"] if line["reason"] == "corrupt"])
        self.assertFalse(any("damaged" in row for row in self.rows(file="others.jsonl")))
        for name in ports:
            self.assertEqual(summary[name]["connection"]["lost"], 1)
        with (self.folder / "out.csv").open(newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual([(int(line["seq"]), line["captured"], line["state"]) for line in table],
                         [(row["seq"], row["captured"], "damaged" if row.get("damaged") else "") for row in rows])

    def test_a_lossy_network(self):
        """One in 30 datagrams is lost, chosen by seed: every picture given equals the file's, and some are
        given. The stream has B-frames and noise."""
        made = self.folder / "made.ts"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120:rate=25", "-vf",
                        "noise=alls=12:all_seed=3:allf=t", "-frames:v", "100", "-pix_fmt", "yuv420p", "-c:v", "libx264",
                        "-g", "10", "-bf", "2", "-f", "mpegts", made], check=True)
        listens = pathlib.Path("/proc/net/udp").read_text
        ports, relays = {}, {}
        for name, form in (("udp", "mpegts"), ("rtp", "rtp")):
            ports[name] = pair()
            draw = random.Random(8)
            relays[name] = Relay(self, ports[name], loses=lambda draw=draw: draw.randrange(30) == 0)
        self.describe("cam.sdp", ports["rtp"])
        ends = "stall: 5s, open_timeout: 60s, on_away: end"
        child = self.begin({"file": "uri: made.ts", "udp": f"uri: 'udp://127.0.0.1:{ports['udp']}', {ends}",
                            "rtp": f"uri: cam.sdp, {ends}"},
                           results="}\n  pictures: {type: images, input: decode, path: pictures")
        for name, form in (("udp", "mpegts"), ("rtp", "rtp")):
            self.wait_until(lambda: f":{ports[name]:04X} " in listens(), child)
            streams.Server(self, "ffmpeg", "-v", "error", "-readrate", 2, "-i", made, "-c", "copy", "-f", form,
                           f"{name}://127.0.0.1:{relays[name].port}?pkt_size=1316")
        self.summary_of(child)
        hashes = {name: [hash(path.read_bytes()) for path in sorted(self.folder.glob(f"pictures/{name}-*"))]
                  for name in ("file", *ports)}
        self.assertEqual(len(set(hashes["file"])), 100)
        for name in ports:
            self.assertGreater(relays[name].lost, 3)
            places = [hashes["file"].index(one) if one in hashes["file"] else None for one in hashes[name]]
            self.assertNotIn(None, places, name)
            self.assertEqual(places, sorted(set(places)), name)
            self.assertTrue(20 < len(places) < 100, (name, len(places)))
