"""Cameras: live sources from gst-rtsp-server that are killed, stopped, protected, and have clocks."""
import datetime
import itertools
import json
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import time

import harness
import streams
from harness import TIMEOUT, call, free_port
from streams import SOON, Live

sys.path.append(str(pathlib.Path(__file__).parents[2] / "reference"))
import rtsp_hostile

AT_ONCE = 4

# Pictures that differ from each other, encoded to the same bits in each run, with a key or turn every 10.
MOVING = ("videotestsrc is-live=true pattern=ball num-buffers=200 ! video/x-raw,format=I420,width=320,height=240,"
          "framerate=50/1")
H264 = ("x264enc pass=quant quantizer=10 bframes={} key-int-max=10 threads=1 speed-preset=veryfast {} ! "
        "rtph264pay mtu=400")
ENCODERS = {"key": H264.format(0, "tune=zerolatency"), "b": H264.format(2, "") + " config-interval=-1",
            "refresh": H264.format(0, "tune=zerolatency intra-refresh=true"),
            "hevc": "x265enc speed-preset=ultrafast tune=zerolatency key-int-max=10 option-string=log-level=none ! "
                    "rtph265pay mtu=400",
            "jpeg": "jpegenc ! rtpjpegpay mtu=700"}
# Serves, has ffmpeg record each stream over TCP, and runs the arguments while 2 of 100 UDP packets are lost. The number
# in the RTP header (bytes 2 and 3) decides which.
LOSSY = f"""cd "$0"
ip link set lo up
timeout 600 /usr/bin/python3 {harness.ROOT}/tests/reference/rtsp_server.py --port 8554 --not-shared \\
    {" ".join(shlex.quote(f"/{name}=( {MOVING} ! {encoder} name=pay0 pt=96 seqnum-offset=1 )")
              for name, encoder in ENCODERS.items())} > port 2>/dev/null & server=$!
until [ -s port ] || ! kill -0 $server; do sleep 0.1; done
for name in {" ".join(ENCODERS)}; do
    ffmpeg -v error -rtsp_transport tcp -i rtsp://127.0.0.1:8554/$name -c copy $name.mkv & recorders="$recorders $!"
done
wait $recorders
nft 'add table ip t; add chain ip t c {{ type filter hook input priority 0; }};
     add rule ip t c udp dport > 1023 jhash @th,80,16 mod 100 seed 3 < 2 drop'
"$@"; status=$?; kill $server; exit $status
"""


def date(row):
    return datetime.datetime.fromisoformat(row["captured"]).timestamp()


class Cameras(Live):
    def test_killed_stopped_and_back(self):
        """Next to a camera without faults, and one that is missing."""
        server, at = streams.rtsp(self, f"/a={streams.pattern()}", f"/b={streams.pattern()}")
        _, always = streams.rtsp(self, f"/a={streams.pattern()}")
        dead = free_port()
        child = self.begin({"tcp": f"uri: 'rtsp://127.0.0.1:{at}/a', transport: tcp, stall: 1s, {SOON}",
                            "udp": f"uri: 'rtsp://127.0.0.1:{at}/b', transport: udp, stall: 1s, {SOON}",
                            "good": f"uri: 'rtsp://127.0.0.1:{always}/a', {SOON}",
                            "dead": f"uri: 'rtsp://127.0.0.1:{dead}/a', {SOON}"})
        self.wait_until(lambda: min(len(self.rows("tcp")), len(self.rows("udp"))) > 10, child)
        server.kill()
        self.await_state(child, "tcp", "away")
        server, _ = streams.rtsp(self, f"/a={streams.pattern(size='640/360')}", f"/b={streams.pattern()}", at=at)
        self.wait_until(lambda: all({1} & {row.get("epoch") for row in self.rows(name)} for name in ("tcp", "udp")),
                        child)
        server.stop()
        self.wait_until(lambda: self.errors.read_text().count("no picture came for 1 s") >= 2, child)
        epochs = {name: max(row.get("epoch", 0) for row in self.rows(name)) for name in ("tcp", "udp")}
        server.resume()
        self.wait_until(lambda: all(max(row.get("epoch", 0) for row in self.rows(name)) > epochs[name]
                                    for name in ("tcp", "udp")), child)
        sources = self.finish(child)
        for name in ("tcp", "udp", "good"):
            self.assert_times_go_on(self.rows(name))
            self.assertEqual(sources[name]["connection"]["state"], "ended")
        self.assertEqual({row.get("epoch", 0) for row in self.rows("good")}, {0})
        self.assertEqual(sources["dead"]["in"], 0)
        self.assertFalse([line for line in sources["good"]["dropped"] if line["reason"] != "stopped"])

    def test_another_size_in_mid_stream(self):
        """The session goes on with other parameter sets: all pictures come in one epoch, or as far as was planned."""
        parts = " ".join(f"videotestsrc num-buffers={count} ! video/x-raw,format=I420,width={width},height={height},"
                         "framerate=20/1 ! c." for count, width, height in ((30, 320, 240), (4000, 640, 360)))
        _, at = streams.rtsp(self, "/a=( concat name=c ! identity sync=true ! x264enc tune=zerolatency speed-preset="
                             f"ultrafast key-int-max=10 ! rtph264pay config-interval=-1 name=pay0 pt=96 {parts} )")
        child = self.begin({name: f"uri: 'rtsp://127.0.0.1:{at}/a', transport: tcp, size: {size}, {SOON}"
                            for name, size in (("small", "320x240"), ("large", "640x360"))}, decoded="small",
                           results="}\n  others: {type: decode, input: large}\n"
                                   "  large_rows: {type: jsonl, input: others, path: large.jsonl")
        self.wait_until(lambda: len(self.rows(file="large.jsonl")) > len(self.rows()) + 20 > 20, child)
        self.wait_until(lambda: "small: pictures are 640x360, larger than planned" in self.errors.read_text(), child)
        told = json.loads(self.ended(child, signal.SIGINT)[0])
        reasons = {one["id"]: {line["reason"] for line in one["dropped"]} - {"stopped"} for one in told["sources"]}
        self.assertEqual(reasons, {"small": {"too large"}, "large": set()})
        for rows in (self.rows(), self.rows(file="large.jsonl")):
            self.assertEqual({row.get("epoch", 0) for row in rows}, {0})
            self.assert_times_go_on(rows)

    def test_passwords(self):
        """The right password is accepted; a wrong one, or a missing path, is not tried over and over."""
        _, at = streams.rtsp(self, f"/a={streams.pattern()}", options=("--user", "me:se/cr@t"))
        slow = "reconnect: {first: 50ms, most: 600s}"
        child = self.begin({"right": f"uri: 'rtsp://me:se%2Fcr%40t@127.0.0.1:{at}/a', {SOON}",
                            "wrong": f"uri: 'rtsp://me:other@127.0.0.1:{at}/a', {slow}",
                            "none": f"uri: 'rtsp://me:se%2Fcr%40t@127.0.0.1:{at}/nowhere', {slow}"}, "--log", "debug")
        self.wait_until(lambda: len(self.rows("right")) > 20, child)
        self.assertEqual(self.await_state(child, "wrong", "away")["tries"], 1)
        self.assertEqual(self.await_state(child, "none", "away")["tries"], 1)
        time.sleep(0.5)
        sources = self.finish(child)
        self.assertEqual([sources[name]["connection"]["tries"] for name in ("right", "wrong", "none")], [1, 1, 1])
        for word in ("se/cr@t", "%2F", "other@"):
            self.assertNotIn(word, self.errors.read_text())

    def test_udp_that_never_comes(self):
        """The server agrees to UDP, but nothing comes: the next connection does not try it again."""
        def setup(server, headers):
            if "TCP" in headers["transport"]:
                return server.setup(headers)
            return (f"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nTransport: {headers['transport']};server_port=9-10\r\n"
                    "Session: 7\r\n\r\n").encode()

        def asked():
            return ["TCP" in headers["transport"] for method, _, headers in server.requests if method == "SETUP"]

        def packets(connection):
            if not asked()[-1]:
                return
            for number in range(5):
                connection.sendall(rtsp_hostile.interleaved(rtsp_hostile.jpeg(number, number * 3600)))
            connection.shutdown(socket.SHUT_RDWR)

        server = rtsp_hostile.Server(SETUP=setup, packets=packets)
        self.addCleanup(server.close)
        child = self.begin({"camera": f"uri: '{server.url}', {SOON}"})
        self.wait_until(lambda: len(asked()) >= 4, child)
        self.finish(child)
        self.assertEqual(asked()[:4], [False, True, True, True])

    def test_sessions_that_options_do_not_keep(self):
        """A server that ends sessions, and accepts GET_PARAMETER as keep-alive without listing it."""
        alive = [0]

        def asked(server, _):
            alive[0] = time.monotonic()
            return b"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\n\r\n"

        def packets(connection):
            begun = time.monotonic()
            for number in itertools.count():
                if time.monotonic() - max(begun, alive[0]) > 2.6:
                    return connection.shutdown(socket.SHUT_RDWR)
                connection.sendall(rtsp_hostile.interleaved(rtsp_hostile.jpeg(number, number * 3600)))
                time.sleep(0.04)

        server = rtsp_hostile.Server(timeout=2, packets=packets, GET_PARAMETER=asked, OPTIONS=lambda *_: (
            b"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nPublic: OPTIONS, DESCRIBE, SETUP, PLAY\r\n\r\n"))
        self.addCleanup(server.close)
        child = self.begin({"camera": f"uri: '{server.url}', transport: tcp, {SOON}"})

        def after_play():
            last = [method for method, *_ in server.requests]
            last = last[len(last) - last[::-1].index("PLAY"):] if "PLAY" in last else []
            return len(last) > 3 and set(last) == {"GET_PARAMETER"}

        self.wait_until(after_play, child)
        self.finish(child)

    def test_clocks(self):
        """With clock: camera, rows have the camera's date, here this machine's, when it is known."""
        _, at = streams.rtsp(self, f"/a={streams.pattern()}")
        child = self.begin({"camera": f"uri: 'rtsp://127.0.0.1:{at}/a', clock: camera, {SOON}",
                            "arrival": f"uri: 'rtsp://127.0.0.1:{at}/a', clock: arrival, {SOON}",
                            "stream": f"uri: 'rtsp://127.0.0.1:{at}/a', {SOON}"})
        dated = self.wait_until(lambda: [row for row in self.rows("camera") if "captured" in row][20:], child)
        now = time.time()
        self.finish(child)
        self.assertLess(abs(now - date(dated[-1])), 30)
        for first, second in zip(dated, dated[1:]):
            self.assertAlmostEqual(date(second) - date(first), second["pts"] - first["pts"], delta=0.005)
        self.assertTrue(all("captured" in row for row in self.rows("arrival")))
        self.assertFalse(any("captured" in row for row in self.rows("stream")))

    def test_hints(self):
        """Why nothing is read, and times that run at another rate than the session description says."""
        def sender(step, payload=26):
            def packets(connection):
                for number in range(100000):
                    connection.sendall(rtsp_hostile.interleaved(rtsp_hostile.jpeg(number, number * step,
                                                                                  payload=payload)))
                    time.sleep(0.04)
            return packets

        servers = {"other": rtsp_hostile.Server(packets=sender(3600, 97)),
                   "slow": rtsp_hostile.Server(packets=sender(40)), "arrival": rtsp_hostile.Server(packets=sender(40)),
                   "right": rtsp_hostile.Server(packets=sender(3600))}
        for server in servers.values():
            self.addCleanup(server.close)
        options = {"other": "stall: 500ms", "arrival": "clock: arrival"}
        child = self.begin({name: f"uri: '{server.url}', transport: tcp, {options.get(name, 'stall: 5s')}, {SOON}"
                            for name, server in servers.items()})
        for words in ("other: stalled: ", ": no picture came for 0.5 s: packets of payload type 97 arrive, the session "
                      "description names 26", "slow: rtsp://", "clock: arrival takes the times of arrival instead"):
            self.wait_until(lambda: words in self.errors.read_text(), child)
        self.finish(child)
        self.assertEqual(self.errors.read_text().count("clock: arrival"), 1)

    def test_lines_that_a_camera_could_repeat(self):
        """A camera that does something odd with each picture, or leaves after each, causes few log lines and few
        audit entries, which count the omitted ones."""
        def sender(picture, most=1000):
            def packets(connection):
                for number in range(most):
                    connection.sendall(rtsp_hostile.interleaved(picture(number)))
                    sent[picture] = sent.get(picture, 0) + 1
                connection.shutdown(socket.SHUT_RDWR)
            return packets

        def jpeg(number, **how):
            return rtsp_hostile.jpeg(number, number * 3600, **how)

        sent = {}
        kinds = {"sizes": lambda n: jpeg(n, width=(16, 2040)[n % 2], height=(16, 2040)[n % 2]),
                 "small": lambda n: jpeg(n, width=(16, 24)[n % 2]), "cut": lambda n: jpeg(n)[:24 + n % 4],
                 "types": lambda n: jpeg(n, payload=(26, 97)[n % 2]),
                 "tables": lambda n: jpeg(n, tables=bytes(n % 200)),
                 "back": lambda n: jpeg(-n), "jumps": lambda n: jpeg(n * 5000), "leaves": jpeg}
        servers = {name: rtsp_hostile.Server(packets=sender(kind, 1 if name == "leaves" else 1000))
                   for name, kind in kinds.items()}
        for server in servers.values():
            self.addCleanup(server.close)
        child = self.begin({name: f"uri: '{server.url}', transport: tcp, size: 64x64, "
                                  "reconnect: {first: 10ms, most: 10ms}" for name, server in servers.items()},
                           "--audit", self.folder / "audit.jsonl")
        self.wait_until(lambda: all(sent.get(kind, 0) > (50 if name == "leaves" else 2000)
                                    for name, kind in kinds.items()), child)
        self.finish(child)
        lines = [line for line in self.errors.read_text().splitlines() if "warning" in line or "error" in line]
        for name in kinds:
            self.assertLess(sum(f"{name}: " in line for line in lines), 20, "\n".join(lines[:60]))
        entries = [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]
        entries = [entry for entry in entries if entry.get("source") == "leaves"]
        self.assertLess(len(entries), 25)
        self.assertGreater(sum(1 + entry["left_out"] for entry in entries), 90)
        self.assertEqual(entries[-1]["state"], "ended")

    def test_no_picture_waits_for_the_next(self):
        """Every picture comes although the camera sends no more; threaded decoders would hold some back."""
        made = subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25",
                               "-frames:v", "12", "-c:v", "libx264", "-bf", "0", "-x264-params", "aud=1", "-f", "h264",
                               "-"],
                              capture_output=True, check=True).stdout
        pictures = [b"\0\0\0\1\x09" + picture for picture in made.split(b"\0\0\0\1\x09")[1:]]

        def packets(connection):
            number = 0
            for index, picture in enumerate(pictures):
                cut = rtsp_hostile.h264(picture, number, index * 3600)
                number += len(cut)
                connection.sendall(b"".join(map(rtsp_hostile.interleaved, cut)))
            time.sleep(TIMEOUT)

        server = rtsp_hostile.Server(sdp=rtsp_hostile.SDP_H264, packets=packets)
        self.addCleanup(server.close)
        child = self.begin({"camera": f"uri: '{server.url}', stall: 1h"}, "--workers", "4")
        self.wait_until(lambda: len(self.rows()) == len(pictures), child)
        self.assertEqual(self.ask()["camera"]["connections"], 1)
        self.finish(child)

    def test_added_and_removed(self):
        """Cameras, present or missing, come to a run and leave it, with all threads and descriptors."""
        _, at = streams.rtsp(self, f"/a={streams.pattern()}")
        child = self.begin({"max": 3}, given="sources: {max: 3}", decoded="sources.*")
        self.wait_until(lambda: self.ctl("status"), child)
        before = self.held(child)
        for _ in range(3):
            self.assertTrue(self.ctl("add", "cam", f"uri=rtsp://u:geheim@127.0.0.1:{at}/a"))
            self.assertTrue(self.ctl("add", "dead", f"uri=rtsp://127.0.0.1:{free_port()}/a"))
            rows = len(self.rows())
            self.wait_until(lambda: len(self.rows("cam")) > rows + 5, child)
            self.await_state(child, "dead", "away")
            self.assertTrue(self.ctl("remove", "dead") and self.ctl("remove", "cam"))
        self.wait_until(lambda: self.held(child) <= before, child)
        self.assertEqual({row["epoch"] if "epoch" in row else 0 for row in self.rows("cam")}, {0, 1, 2})
        self.finish(child)
        self.assertNotIn("geheim", self.errors.read_text())

    def test_intra_refresh(self):
        """A camera without key frames, joined in the middle. Decoding begins at a recovery point, and pictures are
        given when they are right: after the next 20 pictures, since the first ones need pictures that were lost."""
        refresh = streams.pattern().replace("x264enc", "x264enc intra-refresh=true")
        _, at = streams.rtsp(self, f"/a={refresh}")
        child = self.begin({"max": 2}, given="sources: {max: 2}", decoded="sources.*")
        self.wait_until(lambda: self.ctl("status"), child)
        self.assertTrue(self.ctl("add", "early", f"uri=rtsp://127.0.0.1:{at}/a"))
        self.wait_until(lambda: len(self.rows("early")) > 30, child)
        self.assertTrue(self.ctl("add", "late", f"uri=rtsp://127.0.0.1:{at}/a", "transport=tcp"))
        self.wait_until(lambda: len(self.rows("late")) > 30, child)
        sources = self.finish(child)
        [lost] = [line["frames"] for line in sources["late"]["dropped"] if line["reason"] == "corrupt"]
        self.assertLessEqual(lost, 40)
        rows = self.rows("late")
        self.assertEqual([row["seq"] - rows[0]["seq"] for row in rows], list(range(len(rows))))
        self.assertTrue(all(before["pts"] < row["pts"] for before, row in itertools.pairwise(rows)))

    def test_a_lossy_network(self):
        """The kernel drops 2% of the RTP packets over UDP, chosen by their numbers. Each picture given must equal one
        that ffmpeg recorded over TCP, and some must be given."""
        streams.need("unshare", "nft", "ip", "ffmpeg")
        enter = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
        if call([*enter, "ip link set lo up && nft list ruleset && /usr/bin/python3 -c 'import gi; "
                 "gi.require_version(\"GstRtspServer\", \"1.0\")'"]).returncode:
            self.skipTest("no network namespaces or no gst-rtsp-server here")
        sources = {}
        for name in ENCODERS:
            sources[name] = (f"uri: 'rtsp://127.0.0.1:8554/{name}', transport: udp, stall: 10s, open_timeout: 60s, "
                             "on_away: end")
            sources[f"{name}-whole"] = f"uri: {name}.mkv"
        child = self.begin(sources, results="}\n  pictures: {type: images, input: decode, path: pictures",
                           before=[*enter, LOSSY, self.folder])
        out, _ = child.communicate(timeout=TIMEOUT)
        self.assertEqual(child.returncode, 0, self.errors.read_text())
        summary = {one["id"]: one for one in json.loads(out)["sources"]}
        pictures = {name: [hash(path.read_bytes()) for path in sorted(self.folder.glob(f"pictures/{name}-[0-9]*"))]
                    for name in sources}
        for name in ENCODERS:
            given, whole = pictures[name], pictures[f"{name}-whole"]
            self.assertGreater(summary[name]["connection"]["lost"], 3, name)
            self.assertGreaterEqual(len(whole), 199, name)
            self.assertGreater(len(given), 20, name)
            self.assertEqual([at for at, picture in enumerate(given[:-1]) if picture not in whole], [], name)
