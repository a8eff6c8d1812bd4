"""Camera times: pictures have the camera's times, in rows and in recordings, if possible; times never run
back in display order. These cameras send libx264 and libx265 pictures with times that the test chooses; ffprobe's list
for the original is the truth."""
import itertools
import json
import pathlib
import random
import subprocess
import sys
import time

import clips
import streams
from harness import TIMEOUT, call, free_port, pipeline
from streams import Live

sys.path.append(str(pathlib.Path(__file__).parents[2] / "reference"))
import rtsp_hostile

AT_ONCE = 4

TICKS, RATE = 90000, 25
STEP = TICKS // RATE
GROUPS = "bframes={b}:b-adapt=0:keyint=25:scenecut=0"
CODECS = {"h264": ("libx264", "-x264-params", GROUPS, b"\x09"),
          "hevc": ("libx265", "-x265-params", "log-level=none:" + GROUPS, b"\x46\x01")}


def probed(path, what="packet=pts,dts"):
    """Packet times in file order, and the time base's denominator."""
    done = call(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", f"{what}:stream=time_base",
                 "-of", "json", path])
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["packets"], int(told["streams"][0]["time_base"].split("/")[1])


def from_first(values):
    return [value - min(values) for value in values]


class Stream:
    """Packets in decode order, and the ticks when the pictures are shown."""

    def __init__(self, codec, b, pictures):
        encoder, key, params, self.delimiter = CODECS[codec]
        arguments = ("-f", "lavfi", "-i", f"testsrc2=size=160x120:rate={RATE}", "-frames:v", pictures, "-pix_fmt",
                     "yuv420p", "-c:v", encoder, key, params.format(b=b))
        path = clips.made(f"times-{codec}.mp4", str(arguments), lambda path: clips.ffmpeg(*arguments, path))
        self.codec, self.path = codec, path
        self.packets = self.cut()
        packets, base = probed(path)
        self.times = [TICKS * time // base for time in from_first([packet["pts"] for packet in packets])]
        assert len(self.packets) == len(self.times) == pictures

    def cut(self, metadata=""):
        whole = subprocess.run(["ffmpeg", "-v", "error", "-i", self.path, "-c", "copy", "-bsf:v",
                                f"{self.codec}_mp4toannexb,{self.codec}_metadata=aud=insert{metadata}", "-f",
                                self.codec, "-"], check=True, capture_output=True).stdout
        start = b"\0\0\0\1" + self.delimiter
        return [start + packet for packet in whole.split(start)[1:]]


class Times(Live):
    def stream(self, codec="h264", b=2, pictures=100):
        for program in ("ffmpeg", "ffprobe"):
            streams.need(program)
        return Stream(codec, b, pictures)

    def camera(self, stream, times, pause=0.004, lost=()):
        hevc = stream.codec == "hevc"

        def packets(connection):
            number = 0
            for place, (packet, at) in enumerate(zip(stream.packets, times)):
                cut = rtsp_hostile.h264(packet, number, 7000 + at, hevc)
                number += len(cut)
                if place not in lost:
                    connection.sendall(b"".join(map(rtsp_hostile.interleaved, cut)))
                time.sleep(pause)
            connection.close()

        server = rtsp_hostile.Server(sdp=rtsp_hostile.SDP_HEVC if hevc else rtsp_hostile.SDP_H264, packets=packets)
        self.addCleanup(server.close)
        return server.url

    def watch(self, stream, times, source="", stages={}, **how):
        """Rows from such a camera until it is gone, and the files that `stages` wrote."""
        self.watch_all({"cam": self.camera(stream, times, **how)}, source, stages)
        return self.rows()

    def watch_all(self, cameras, source="", stages={}):
        for old in (*self.folder.glob("out.jsonl"), *self.folder.glob("c*")):
            old.unlink()
        self.assert_balanced(self.run_pipeline(pipeline(
            {name: f'uri: "{url}", transport: tcp, on_away: end{source}' for name, url in cameras.items()},
            decode="input: sources.*", rows="type: jsonl, path: out.jsonl", **stages), rows=False))

    def video(self, name):
        return f'type: video, input: sources.*, path: "{self.folder}", name: "{name}"'

    def assert_rising(self, rows):
        for one, next in itertools.pairwise(rows):
            self.assertLess(one["pts"], next["pts"])

    def assert_recorded(self, path, times):
        """The packets are in order, at those pictures' times, to the container's tick."""
        packets, base = probed(path)
        first = min(times)
        self.assertEqual([packet["pts"] - packets[0]["pts"] for packet in packets],
                         [round((at - times[0]) * base / TICKS) for at in times], (path.name, first))
        self.assert_decodable(packets)

    def assert_decodable(self, packets):
        """ffprobe does not know decoding times for the first packets in Matroska."""
        known = [packet for packet in packets if "dts" in packet]
        for one, next in itertools.pairwise(known):
            self.assertLess(one["dts"], next["dts"])
        for packet in known:
            self.assertLessEqual(packet["dts"], packet["pts"])

    def test_recordings_have_the_times_of_the_camera(self):
        stages = {name: self.video(f"c.{name}") for name in ("mp4", "mkv", "ts")}
        for codec, b in (("h264", 0), ("h264", 2), ("h264", 5), ("hevc", 4)):
            with self.subTest(codec=codec, b=b):
                stream = self.stream(codec, b)
                rows = self.watch(stream, stream.times, stages=stages)
                self.assertEqual([row["pts"] for row in rows],
                                 [round(at / TICKS, 9) for at in sorted(stream.times)])
                for name in ("c.mp4", "c.mkv", "c.ts"):
                    self.assert_recorded(self.folder / name, stream.times)

    def test_events_have_the_times_of_the_camera(self):
        stream = self.stream(b=3)
        self.watch(stream, stream.times, stages=dict(
            mark="type: motion, input: decode",
            event=f'type: record, input: [cam, mark], path: "{self.folder}", name: "c-{{number}}.mp4"'))
        for path in self.folder.glob("c-*.mp4"):
            self.assert_recorded(path, stream.times)
        self.assertTrue(list(self.folder.glob("c-*.mp4")))

    def test_receivers_get_the_times_of_the_camera(self):
        stream = self.stream(b=2)
        at, path = free_port(), self.folder / "received.mkv"
        url = f"rtmp://127.0.0.1:{at}/live/key"
        receiver = self.spawn(["ffmpeg", "-v", "error", "-y", "-listen", "1", "-i", url, "-c", "copy", path],
                              stderr=subprocess.DEVNULL)
        listens = pathlib.Path("/proc/net/tcp").read_text
        self.wait_until(lambda: f":{at:04X} 00000000:0000 0A" in listens())
        self.watch(stream, stream.times, stages=dict(v=f'type: video, input: cam, url: "{url}"'))
        receiver.wait(TIMEOUT)
        self.assert_recorded(path, stream.times)

    def test_a_clock_that_steps_back(self):
        """The clock steps back by less than a second: rows rise and catch up with it."""
        cameras, latest = {}, {}
        for b, back in itertools.product((0, 2), (0.05, 0.5, 0.9)):
            stream, name = self.stream(b=b), f"c-{b}-{int(100 * back)}"
            times = [at - (at >= 50 * STEP) * int(back * TICKS) for at in stream.times]
            cameras[name], latest[name] = self.camera(stream, times, pause=0.02), max(times)
        self.watch_all(cameras, stages=dict(v=self.video("{source}.mp4")))
        for name in cameras:
            with self.subTest(name):
                rows = self.rows(name)
                self.assertEqual(len(rows), 100)
                self.assert_rising(rows)
                self.assertEqual([row["pts"] for row in rows[:50]], [round(n * STEP / TICKS, 9) for n in range(50)])
                self.assertLess(abs(rows[-1]["pts"] - latest[name] / TICKS), 0.95)
                packets, base = probed(self.folder / f"{name}.mp4")
                shown = sorted((packet["pts"] - packets[0]["pts"]) / base for packet in packets)
                for recorded, row in zip(shown, rows, strict=True):
                    self.assertAlmostEqual(recorded, row["pts"], delta=2e-5)

    def test_a_picture_that_is_early(self):
        for b in (0, 2):
            with self.subTest(b=b):
                stream = self.stream(b=b, pictures=50)
                times = [at - (at == 30 * STEP) * 5400 for at in stream.times]
                rows = self.watch(stream, times)
                self.assert_rising(rows)
                moved = [n for n, row in enumerate(rows) if row["pts"] != round(n * STEP / TICKS, 9)]
                self.assertIn(moved, ([], [30]))

    def test_jitter(self):
        """Jitter from a camera without B-frames does not look like B-frames, and B-frame order does not count as
        jitter."""
        draw = random.Random(1)
        for b in (0, 2):
            with self.subTest(b=b):
                stream = self.stream(b=b)
                times = [at + draw.randrange(-9000, 9000) for at in stream.times]
                rows = self.watch(stream, times, pause=0.02, stages=dict(v=self.video("c.mkv")))
                self.assertEqual(len(rows), 100)
                self.assert_rising(rows)
                first = min(times[0], rows[0]["pts"])
                for n, row in enumerate(rows):
                    self.assertLess(abs(row["pts"] - (n * STEP - times[0]) / TICKS), 0.35, (n, first))
                packets, _ = probed(self.folder / "c.mkv")
                self.assertEqual([packet["pts"] for packet in packets][0], 0)
                self.assertEqual(len({packet["pts"] for packet in packets}), 100)
                self.assert_decodable(packets)

    def test_times_that_run_back_after_a_loss(self):
        """If a camera dates every third picture too early, or with jitter, a lost packet costs no more pictures
        than with right times: those up to the next key frame."""
        draw = random.Random(3)
        stream = self.stream(b=0)
        for times in (stream.times, [at - 5400 * (n % 3 == 2) for n, at in enumerate(stream.times)],
                      [at + draw.randrange(-9000, 9000) for at in stream.times]):
            rows = self.watch(stream, times, lost=(10, 60))
            self.assertEqual([row["seq"] for row in rows], [*range(10), *range(24, 59), *range(73, 98)])
            self.assert_rising(rows)

    def test_equal_times_and_those_of_decoding(self):
        stream = self.stream(b=2)
        rows = self.watch(stream, [0] * 100)
        self.assertEqual(len(rows), 100)
        self.assert_rising(rows)
        rows = self.watch(stream, [n * STEP for n in range(100)])
        self.assert_rising(rows)
        self.assertEqual([row["seq"] for row in rows], list(range(100)))
        self.assertAlmostEqual(rows[-1]["pts"] - rows[0]["pts"], 99 / RATE, delta=0.2)

    def test_joined_recordings_over_http(self):
        """Each has times from the same start: every picture comes, and times continue, as from the file
        itself."""
        streams.need("ffmpeg")
        parts = []
        for source in ("testsrc2", "testsrc"):
            parts.append(subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"{source}=size=160x120:rate=25",
                                         "-frames:v", "75", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-bf", "2", "-g",
                                         "25", "-f", "mpegts", "-"], check=True, capture_output=True).stdout)
        (self.folder / "joined.ts").write_bytes(b"".join(parts))
        url, _ = streams.web(self, self.folder)
        child = self.begin({"web": f"uri: '{url}/joined.ts'", "file": f"uri: '{self.folder}/joined.ts'"})
        self.summary_of(child)
        for name in ("file", "web"):
            self.assertEqual([(row["seq"], round(row["pts"], 6)) for row in self.rows(name)],
                             [(n, n / 25) for n in range(150)], name)

    def test_parameters_that_change_nothing(self):
        """A camera whose parameter sets differ in each group, while the pictures do not: there is one file, with
        the camera's pictures."""
        def pictures(path):
            done = call(["ffmpeg", "-v", "error", "-i", path, "-vsync", "passthrough", "-f", "framemd5", "-"])
            self.assertEqual(done.stderr, "")
            return [line.split(",")[-1] for line in done.stdout.splitlines() if not line.startswith("#")]

        for codec, name in (("h264", "c.mp4"), ("hevc", "c.mp4"), ("hevc", "c.mkv"), ("hevc", "c.ts"),
                            ("hevc", "c.m3u8")):
            with self.subTest(codec, name=name):
                stream = self.stream(codec, b=2)
                other = stream.cut(":tick_rate=60")
                self.assertNotEqual(other[0], stream.packets[0])
                stream.packets = [pair[n // 25 % 2] for n, pair in enumerate(zip(stream.packets, other))]
                rows = self.watch(stream, stream.times, stages=dict(v=self.video(name)))
                self.assertEqual(len(rows), 100)
                self.assertEqual({path.name for path in self.folder.glob("c*")} - {"c-000000.ts"}, {name})
                self.assert_recorded(self.folder / name, stream.times)
                self.assertEqual(pictures(self.folder / name), pictures(stream.path))

    def test_a_size_that_changes_all_the_time(self):
        """The run does not make a file for each picture."""
        def packets(connection):
            for number in range(100):
                size = 16 << number % 2
                packet = rtsp_hostile.jpeg(number, number * STEP, size, 16)
                connection.sendall(rtsp_hostile.interleaved(packet))
            connection.close()

        server = rtsp_hostile.Server(packets=packets)
        self.addCleanup(server.close)
        run = self.run_pipeline(pipeline(dict(cam=f'uri: "{server.url}", transport: tcp, on_away: end'),
                                         v=f'type: video, path: "{self.folder}", name: "c-{{number}}.mkv"'), rows=False)
        self.assert_balanced(run)
        (dropped,) = run.ledger["dropped"]
        self.assertEqual(dropped["reason"], "changes too often")
        self.assertIn("changes several times a second", run.err)
        self.assertLess(len(list(self.folder.glob("c-*"))), 40)

    def test_a_rate_near_that_of_the_camera(self):
        """At the camera's rate `fps` keeps every picture, although each is off by up to a millisecond."""
        draw = random.Random(2)
        stream = self.stream(b=0, pictures=150)
        times = [at + draw.randrange(-90, 90) for at in stream.times]
        self.assertEqual(len(self.watch(stream, times, source=", fps: 25")), 150)
