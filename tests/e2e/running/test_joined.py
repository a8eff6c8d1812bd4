"""Joined recordings and pictures, and numbered pictures: the frames that ffmpeg decodes, by hash."""
import hashlib
import io
import json
import pathlib
import random
import socket
import subprocess
import threading
import time

import zmq
from PIL import Image

import clips
import harness
from harness import pipeline
import streams

PICTURE = "testsrc2=size=64x48:rate=10:duration=1"
CODECS = {"mpeg2": ("-c:v", "mpeg2video", "-bf", "2", "-q:v", "4"), "h264": clips.H264, "hevc": clips.HEVC}


def joined(uri, options="", **pixels):
    return pipeline(dict(clip=f'uri: "{uri}"{options}'), decode="", results='type: jsonl, path: "${OUTPUT:--}"',
                    **pixels)


def ffmpeg_hashes(*inputs):
    """Each frame's MD5 as ffmpeg decodes it."""
    done = subprocess.run(["ffmpeg", "-nostdin", "-v", "quiet", *map(str, inputs), "-map", "0:V:0", "-vsync",
                           "passthrough", "-f", "framemd5", "-"], capture_output=True, text=True)
    return [line.split(",")[-1].strip() for line in done.stdout.splitlines() if not line.startswith("#")]


def recording(codec, frames=25, name="", options=()):
    """A transport stream with several picture groups."""
    return clips.encoded(f"part-{codec}{name}.ts", *CODECS[codec], "-g", "8", "-pix_fmt", "yuv420p", *options,
                         filters="scale=160:96", frames=frames)


def other_videos():
    """Joined ones with different numbers, tables, programs and codecs."""
    other = ("-mpegts_start_pid", "0x200")
    parts = [recording("h264"), recording("h264", 22, "-200", other), recording("hevc", 22, "-200", other),
             recording("hevc"), recording("mpeg2", 25, "-service", (*other, "-mpegts_pmt_start_pid", "0x1100",
                                                                    "-mpegts_service_id", "7"))]
    return parts, [each for part in parts for each in ffmpeg_hashes("-i", part)]


def packets_of(path):
    data = path.read_bytes()
    return [data[at:at + 188] for at in range(0, len(data), 188)]


def stream_of(packet):
    return (packet[1] & 0x1f) << 8 | packet[2]


def starts_of(packets, stream=0x100):
    """The positions of a stream's pictures."""
    return [i for i, packet in enumerate(packets) if stream_of(packet) == stream and packet[1] & 0x40]


class Joined(harness.Case):
    def frames(self, uri, options=""):
        """A run, and the hash of each picture that it gave."""
        endpoint = f"ipc://{self.folder}/pixels"
        context, hashes = zmq.Context(), []
        puller = context.socket(zmq.PULL)
        puller.setsockopt(zmq.RCVTIMEO, 100)
        puller.connect(endpoint)
        ended = threading.Event()

        def take():
            while True:
                try:
                    parts = puller.recv_multipart()
                except zmq.Again:
                    if ended.is_set():
                        return
                    continue
                if len(parts) > 1:
                    hashes.append(hashlib.md5(parts[1]).hexdigest())
                elif json.loads(parts[0]).get("end"):
                    return

        consumer = threading.Thread(target=take)
        consumer.start()
        try:
            run = self.run_pipeline(joined(
                uri, options,
                pixels=f'type: zmq.push, input: decode, payload: raw, linger: 300s, endpoint: "{endpoint}"'))
        finally:
            ended.set()
            consumer.join()
            context.destroy(linger=0)
        self.assert_balanced(run)
        self.assert_in_order(run.rows)
        self.assertEqual(len(hashes), len(run.rows))
        run.hashes = hashes
        return run

    def joined(self, name, *parts):
        path = self.folder / name
        path.write_bytes(b"".join(part if isinstance(part, bytes) else part.read_bytes() for part in parts))
        return path

    def assert_seams(self, run, count):
        self.assertEqual([source["seams"] for source in run.summary["sources"]], [count])

    # ---- streams of pictures

    def test_raw_mjpeg_is_a_stream_under_any_name(self):
        for size in ("64x48", "640x480"):  # libavformat takes small ones for "mjpeg" and large ones for "jpeg_pipe"
            made = self.folder / f"{size}.mjpeg"
            clips.ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={size}:rate=10:duration=2", "-q:v", "2", made)
            expected = ffmpeg_hashes("-i", made)
            self.assertEqual(len(expected), 20)
            for name in ("a.mjpeg", "a.mjpg", "a.bin", "a"):
                with self.subTest(name, size=size):
                    run = self.frames(self.joined(name, made), ", rate: 10")
                    self.assertEqual(run.hashes, expected)
                    self.assertEqual([round(row["pts"], 6) for row in run.rows], [i / 10 for i in range(20)])
                    self.assertNotIn("follow", run.err)

    def test_one_picture_without_a_name_is_a_picture(self):
        image = Image.new("RGB", (40, 30), (200, 30, 40))
        for kind in ("JPEG", "PNG", "BMP", "GIF", "WEBP", "PPM"):
            with self.subTest(kind):
                image.save(self.folder / "picture", kind)
                run = self.frames(self.folder / "picture")
                self.assertEqual(len(run.rows), 1)
                self.assertEqual(run.err, "")

    def test_what_follows_a_picture_is_told(self):
        image, other = Image.new("RGB", (40, 30), (200, 30, 40)), Image.new("RGB", (40, 30), (0, 90, 40))
        for kind, name in (("JPEG", "a.jpg"), ("PNG", "a.png"), ("BMP", "a.bmp"), ("PPM", "a.ppm")):
            files = []
            for picture in (image, other):
                files.append(io.BytesIO())
                picture.save(files[-1], kind)
            first, second = (file.getvalue() for file in files)
            for rest, words in ((second, "another picture"), (b"\0" * 100, "zeros"), (b"garbage" * 9, "no picture")):
                with self.subTest(name, rest=words):
                    path = self.joined(name, first, rest)
                    run = self.frames(path)
                    self.assertEqual(run.hashes, ffmpeg_hashes("-i", path))
                    if len(run.hashes) == 2:  # JPEGs with this name are single pictures for ffmpeg, others a stream
                        self.assertNotEqual(kind, "JPEG")
                        self.assertEqual(rest, second)
                        continue
                    self.assertIn(f"warning: decode: {path}: {len(rest)} bytes follow", run.err)
                    self.assertIn(words, run.err)

    def test_previews_that_a_picture_announces_are_no_error(self):
        first, second = io.BytesIO(), Image.new("RGB", (40, 30), (0, 90, 40))
        Image.new("RGB", (40, 30), (200, 30, 40)).save(first, "MPO", save_all=True, append_images=[second])
        data = first.getvalue()
        self.assertIn(b"MPF\0", data)
        run = self.frames(self.joined("photo.jpg", data))
        self.assertEqual(len(run.rows), 1)
        self.assertIn("that the picture announces", run.err)

    def test_animations_in_a_folder_are_told(self):
        folder = self.folder / "folder"
        folder.mkdir()
        images = [Image.new("RGB", (40, 30), (200, 30 * i, 40)) for i in range(3)]
        for name in ("a.gif", "b.png", "c.tif"):
            images[0].save(folder / name, save_all=True, append_images=images[1:])
        run = self.run_pipeline(joined(folder), "--log", "info")
        self.assertEqual(len(run.rows), 3)
        for name in ("a.gif", "b.png", "c.tif"):
            self.assertIn(f"{name}: holds 3 pictures, of which only the first is read", run.err)
        self.assertIn("3 pictures were read whose files hold more", run.err)

    def test_pictures_sent_over_zmq_are_looked_at_too(self):
        endpoint, output = f"ipc://{self.folder}/in", self.folder / "rows.jsonl"
        picture = io.BytesIO()
        Image.new("RGB", (40, 30), (200, 30, 40)).save(picture, "JPEG")
        context = zmq.Context()
        self.addCleanup(context.destroy, linger=0)
        pusher = context.socket(zmq.PUSH)
        pusher.connect(endpoint)
        self.addCleanup(pusher.close, 0)
        for rest in (b"", picture.getvalue()):
            pusher.send_multipart([b"{}", picture.getvalue() + rest])
        pusher.send(b'{"end": true}')
        run = self.run_pipeline(pipeline(dict(app=f'type: zmq.pull, endpoint: "{endpoint}", size: 64x64'), decode="",
                                         results=f'type: jsonl, path: "{output}"'), rows=False)
        self.assertEqual(run.ledger["delivered"], 2)
        self.assertIn(f"picture 1 of app: {len(picture.getvalue())} bytes follow the end of the picture", run.err)

    # ---- numbered pictures

    def numbered(self, first, count, without=(), pattern="p%03d.png"):
        folder = self.folder / f"numbered-{first}-{count}-{without}"
        folder.mkdir()
        clips.ffmpeg("-f", "lavfi", "-i", PICTURE, "-frames:v", count, "-start_number", first, folder / pattern)
        for number in without:
            (folder / (pattern % number)).unlink()
        return folder / pattern

    def test_numbered_pictures(self):
        for first in (0, 3, 4):
            with self.subTest(first):
                pattern = self.numbered(first, 10)
                run = self.frames(pattern, ", framerate: 10")
                self.assertEqual(run.hashes, ffmpeg_hashes("-framerate", 10, "-i", pattern))
                self.assertEqual(len(run.hashes), 10)
                self.assertEqual([round(row["pts"], 6) for row in run.rows], [i / 10 for i in range(10)])
                self.assertEqual([row["file"] for row in run.rows],
                                 [str(pattern) % (first + i) for i in range(10)])
                self.assertEqual(run.err, "")

    def test_the_first_number(self):
        pattern = self.numbered(7, 10, pattern="p%d.png")
        for start in (3, 7, 12):
            with self.subTest(start):
                run = self.frames(pattern, f", start_number: {start}")
                self.assertEqual(run.hashes, ffmpeg_hashes("-start_number", start, "-i", pattern))
        run = self.run_pipeline(joined(pattern), code=66)
        self.assertIn("no file for any number from 0 to 4", run.err)
        self.assertIn("start_number", run.err)

    def test_numbers_that_are_missing(self):
        for first, without in ((0, (5,)), (0, (2,)), (1, (6, 7)), (2, (4, 8))):
            with self.subTest(first=first, without=without):
                pattern = self.numbered(first, 10, without)
                run = self.frames(pattern)
                self.assertEqual(run.hashes, ffmpeg_hashes("-i", pattern))
                self.assertIn(f"{str(pattern) % without[0]} is missing", run.err)

    def test_the_first_number_is_for_numbered_pictures(self):
        run = self.run_pipeline(joined(clips.one_frame(), ", start_number: 4"), code=78)
        self.assertIn("start_number", run.err)

    # ---- recordings

    def test_joined_transport_streams_keep_every_picture(self):
        for codec in CODECS:
            with self.subTest(codec):
                # In one of 16 joints a packet number follows the last by chance: two different joints.
                parts = [recording(codec), recording(codec, 22), recording(codec)]
                run = self.frames(self.joined("joined.ts", *parts))
                self.assertEqual(run.hashes, [each for part in parts for each in ffmpeg_hashes("-i", part)])
                self.assertEqual(len(run.rows), 72)
                self.assertEqual(run.ledger["dropped"], [])
                self.assert_seams(run, 2)
                self.assertEqual([round(row["pts"] * 20) for row in run.rows], list(range(72)))

    def test_a_video_that_another_one_replaces(self):
        """libavformat continues under the old number with the old codec."""
        parts, expected = other_videos()
        self.assertEqual(len(expected), 119)
        path = self.joined("others.ts", *parts)
        web, _ = streams.web(self, self.folder)
        for uri, options, turns in ((path, "", 1), (path, ", loop: 2", 2), (f"{web}/{path.name}", "", 1)):
            with self.subTest(uri, options=options):
                run = self.frames(uri, options)
                self.assertEqual(run.hashes, turns * expected)
                self.assertEqual([round(row["pts"] * 20) for row in run.rows], turns * list(range(119)))
                self.assertEqual(run.ledger["dropped"], [])
                self.assert_seams(run, turns * 4)
        run = self.frames(path, ", start: 3s")
        self.assertEqual(run.hashes, expected[60:])

    def test_a_video_that_another_one_replaces_over_udp(self):
        """All pictures come except the last ones: nothing after them shows that they are complete."""
        parts, expected = other_videos()
        data, at = b"".join(part.read_bytes() for part in parts), harness.free_port()

        def send():
            with socket.socket(type=socket.SOCK_DGRAM) as to:
                self.wait_until(lambda: f":{at:04X} " in pathlib.Path("/proc/net/udp").read_text())
                for begin in range(0, len(data), 7 * 188):
                    to.sendto(data[begin:begin + 7 * 188], ("127.0.0.1", at))
                    time.sleep(0.004)

        sender = threading.Thread(target=send)
        sender.start()
        run = self.frames(f"udp://127.0.0.1:{at}", ", on_away: end, stall: 5s")
        sender.join()
        self.assertGreater(len(run.hashes), len(expected) - 4)
        self.assertEqual(run.hashes[:-1], expected[:len(run.hashes) - 1])
        self.assertIn(run.hashes[-1], expected[-3:])

    def test_packets_with_times_or_sums_around_them(self):
        for raw, before, after in ((192, b"time", b""), (204, b"", b"sixteen bytes...")):
            parts, expected = other_videos()
            path = self.joined("raw.ts", *(before + each + after for part in parts for each in packets_of(part)))
            with self.subTest(raw):
                self.assertEqual(self.frames(path).hashes, expected)

    def test_joined_in_loops(self):
        part = recording("h264")
        run = self.frames(self.joined("joined.ts", part, part), ", loop: 2")
        self.assertEqual(run.hashes, 4 * ffmpeg_hashes("-i", part))
        self.assertEqual([(row.get("epoch", 0), row["seq"]) for row in run.rows],
                         [(epoch, seq) for epoch in (0, 1) for seq in range(50)])
        self.assertEqual([row["pts"] for row in run.rows[:50]], [row["pts"] for row in run.rows[50:]])
        self.assert_seams(run, 2)

    def test_joined_program_streams(self):
        part = self.folder / "part.vob"
        clips.ffmpeg("-i", recording("mpeg2"), "-c", "copy", part)
        data = part.read_bytes()
        at = data.index(b"\0\0\1\xe0")  # first packet: flags, and the length of the times
        untimed = data[:at + 7] + b"\0" + data[at + 8:at + 9] + b"\xff" * data[at + 8] + data[at + 9 + data[at + 8]:]
        for second in (data, untimed):
            run = self.frames(self.joined("joined.vob", data, second, data))
            self.assertEqual(run.hashes, 3 * ffmpeg_hashes("-i", part))
            self.assert_seams(run, 2)
            self.assertEqual([round(row["pts"] * 20) for row in run.rows], list(range(75)))

    def test_pictures_of_which_packets_are_missing_are_dropped(self):
        """One packet is removed from a picture's beginning, middle or end. What is given is what was there before,
        not what ffmpeg makes of it."""
        for codec in CODECS:
            packets, expected = packets_of(recording(codec)), set(ffmpeg_hashes("-i", recording(codec)))
            starts = starts_of(packets)
            # A key frame, which is long.
            begin = max(starts[1:-1], key=lambda at: starts[starts.index(at) + 1] - at)
            own = [at for at in range(begin, starts[starts.index(begin) + 1]) if stream_of(packets[at]) == 0x100]
            for gone in (own[0], own[len(own) // 2], own[-1]):
                with self.subTest(codec, gone=own.index(gone), of=len(own)):
                    path = self.joined("lacking.ts", *packets[:gone], *packets[gone + 1:])
                    run = self.frames(path)
                    corrupt = sum(line["frames"] for line in run.ledger["dropped"] if line["reason"] == "corrupt")
                    self.assertGreaterEqual(corrupt, 1)
                    self.assert_seams(run, 1)
                    if gone != own[0]:
                        self.assertLessEqual(len(set(run.hashes)), len(expected) - 1)

    def test_packets_may_come_twice(self):
        """The standard allows it; from a file and over HTTP, where packets cross read boundaries."""
        web, _ = streams.web(self, self.folder)
        whole = recording("h264")
        expected = self.frames(whole)
        path = self.joined("twice.ts", *(packet for packet in packets_of(whole) for _ in range(2)))
        for uri in (path, f"{web}/{path.name}"):
            run = self.frames(uri)
            self.assertEqual(run.hashes, expected.hashes)
            self.assertEqual(run.ledger["dropped"], [])

    def test_scrambled_pictures_are_missed(self):
        packets = packets_of(recording("h264"))
        starts, count = starts_of(packets), len(self.frames(recording("h264")).hashes)
        scrambled = [bytes([*packet[:3], packet[3] | 0x80, *(byte ^ 0x5a for byte in packet[4:])])
                     if at >= starts[count // 2] and stream_of(packet) == 0x100 else packet
                     for at, packet in enumerate(packets)]
        run = self.frames(self.joined("scrambled.ts", *scrambled))
        self.assertIn(f"{count - count // 2} pictures are scrambled and cannot be read", run.err)
        self.assertIn(f"{count - count // 2} not read", run.err)

    def test_lost_packets_over_the_network(self):
        """The pictures given are those that the same bytes give as a file, and all are right."""
        web, _ = streams.web(self, self.folder)
        for codec in ("h264", "hevc"):
            packets, expected = packets_of(recording(codec)), set(ffmpeg_hashes("-i", recording(codec)))
            own = [at for at, packet in enumerate(packets) if stream_of(packet) == 0x100]
            draw = random.Random(7)
            for case in range(2):
                gone = set(draw.sample(own[len(own) // 3:], 2))
                path = self.joined("lacking.ts", *(each for at, each in enumerate(packets) if at not in gone))
                with self.subTest(codec, case=case):
                    over = self.frames(f"{web}/{path.name}")
                    self.assertEqual(over.hashes, self.frames(path).hashes)
                    self.assertLess(len(over.hashes), len(expected))
                    self.assertLessEqual(set(over.hashes), expected)

    def test_a_stream_that_is_whole_has_no_seam(self):
        run = self.frames(recording("h264"))
        self.assert_seams(run, 0)
        self.assertEqual(run.hashes, ffmpeg_hashes("-i", recording("h264")))
