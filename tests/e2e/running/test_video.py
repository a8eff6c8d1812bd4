"""encode and video, as PyAV, ffprobe and ffmpeg read the files: every picture once, with its time, files for a changing
stream, segments, retention, HLS, and a killed process's file. Starting ffprobe or ffmpeg takes longer than reading a
small file: where many files are read, PyAV reads them, or one ffmpeg."""
import fractions
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile

import av
import clips
from harness import MILLRACE, PICTURES, TIMEOUT, Case, call, pipeline, start

AT_ONCE = 4

RATE = fractions.Fraction(30000, 1001)
# Values of color_trc, as H.273 has them.
TRANSFERS = {"smpte2084": 16, "arib-std-b67": 18}
TV_RANGE = 1
HDR = (("h264", "mp4"), ("hevc", "mkv"), ("hevc", "ts"), ("av1", "mp4"))


def made(seconds, encode, path, video, source="", uri=None):
    uri = uri or f"lavfi:testsrc2=size=320x180:rate=30000/1001:duration={seconds}"
    return pipeline(dict(cam=f'uri: "{uri}"{source}'), name="made", decode="", encode=encode,
                    video=f'path: "{path}", {video}')


def copy(uri, path, video, source=""):
    return pipeline(dict(cam=f'uri: "{uri}"{source}'), name="copied", video=f'path: "{path}", {video}')


def probe(path, *what):
    done = call(["ffprobe", "-v", "error", *what, "-of", "json", path])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Read:
    """A file's first video stream, as PyAV reads and decodes it."""

    def __init__(self, path):
        with av.open(str(path)) as file:
            stream = file.streams.video[0]
            context = stream.codec_context
            self.codec, self.rate = context.codec.canonical_name, stream.average_rate
            self.colours = {name: getattr(context, name)
                            for name in ("color_range", "colorspace", "color_trc", "color_primaries", "pix_fmt")}
            packets, self.frames = [], 0
            for packet in file.demux(stream):
                if packet.size:  # the last one only asks the decoder for what it holds
                    packets.append((packet.pts * packet.time_base, packet.is_keyframe))
                self.frames += len(packet.decode())
            # All packets' presentation times, in order.
            self.times = sorted(float(pts) for pts, _ in packets)
            self.first_time, self.begins_with_key = float(packets[0][0]), packets[0][1]


def frames(path):
    """The number of pictures that ffprobe can decode, and the stream's properties."""
    stream = probe(path, "-count_frames", "-select_streams", "v:0", "-show_streams")["streams"][0]
    return int(stream["nb_read_frames"]), stream


def hashes_of(*paths):
    """Each file's decoded pictures' MD5s."""
    with tempfile.TemporaryDirectory() as folder:
        command, told = ["ffmpeg", "-v", "error"], [pathlib.Path(folder, f"{n}") for n in range(len(paths))]
        for path in paths:
            command += ["-i", path]
        for number, file in enumerate(told):
            command += ["-map", f"{number}:v:0", "-fps_mode", "passthrough", "-f", "framemd5", file]
        done = call(command)
        assert done.returncode == 0, done.stderr
        return [[line.split(",")[-1].strip() for line in file.read_text().splitlines() if not line.startswith("#")]
                for file in told]


def hashes(path):
    return hashes_of(path)[0]


class Videos(Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("ffprobe"):
            self.skipTest("no ffprobe")
        self.path = self.folder / "out"

    def files(self, pattern="*"):
        return sorted(self.path.glob(pattern))

    def made(self, encode="", video="", seconds=2, source="", code=0, arguments=()):
        text = made(seconds, encode or "codec: h264", self.path, video or "name: '{source}.mp4'", source)
        run = self.run_pipeline(text, *arguments, rows=False, code=code)
        if code == 0:
            self.assert_balanced(run)
            self.assertEqual(run.ledger["in"], run.ledger["delivered"])
        return run

    def copied(self, uri, video="name: '{source}.mp4'", source="", code=0, verb="run"):
        text = copy(uri=uri, video=video, path=self.path, source=source)
        return self.run_pipeline(text, rows=False, code=code, verb=verb)

    def copied_to(self, uri, **videos):
        """Copies into several videos at the same time: each stage's options. Returns the run."""
        stages = {name: f'type: video, input: cam, path: "{self.path}", {video}' for name, video in videos.items()}
        return self.run_pipeline(pipeline(dict(cam=f'uri: "{uri}"'), name="copied", **stages), rows=False)


class Colours(Videos):
    def make(self, name, *options, source="testsrc=size=128x96:rate=10:duration=1"):
        path = self.folder / name
        self.checked(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, *options, path])
        return path

    def hdr(self, transfer, name="hdr.mp4"):
        return self.make(name, "-pix_fmt", "yuv420p10le", "-c:v", "libx264", "-color_primaries", "bt2020", "-color_trc",
                         transfer, "-colorspace", "bt2020nc")

    def test_hdr_stays_hdr(self):
        for transfer, value in TRANSFERS.items():
            source = self.hdr(transfer)
            given = Read(source).colours
            self.assertEqual(given["color_trc"], value)
            stages = {}
            for number, (codec, ending) in enumerate(HDR):
                stages[f"encode{number}"] = f"type: encode, input: decode, codec: {codec}"
                stages[f"video{number}"] = f'type: video, path: "{self.path}", name: "{codec}.{ending}"'
            shutil.rmtree(self.path, ignore_errors=True)
            self.run_pipeline(pipeline(dict(cam=f'uri: "{source}"'), decode="", **stages), rows=False)
            for codec, ending in HDR:
                with self.subTest(transfer=transfer, codec=codec, ending=ending):
                    found = Read(self.path / f"{codec}.{ending}")
                    self.assertEqual((found.codec, found.colours), (codec, {**given, "color_range": TV_RANGE}))

    def remark(self, path):
        text = copy(uri=path, video="name: a.mp4", path=self.path)
        return self.planned(text)["sources"][0]["note"]

    def test_the_plan_says_what_is_not_done(self):
        self.assertEqual(self.remark(self.hdr("smpte2084")),
                         "is HDR (PQ): its values are taken as those of SDR, and not mapped to it")
        self.assertIn("is HDR (HLG)", self.remark(self.hdr("arib-std-b67", "hlg.mkv")))
        fields = "testsrc=size=128x96:rate=20:duration=1,tinterlace=interleave_top,fieldorder=tff,format=yuv420p"
        for name, *codec in (("i.mp4", "-c:v", "libx264", "-x264-params", "tff=1"),
                             ("i.ts", "-c:v", "mpeg2video", "-top", "1")):
            interlaced = self.make(name, *codec, "-flags", "+ilme+ildct", source=fields)
            self.assertEqual(self.remark(interlaced), "is interlaced: its pictures are not deinterlaced")
        self.assertIsNone(self.remark(self.make("p.mp4", "-pix_fmt", "yuv420p")))


class Files(Videos):
    def test_each_picture_is_in_the_file_at_its_time(self):
        for codec, latency, ending, off in (("h264", "normal", "mp4", 1e-5), ("hevc", "normal", "mkv", 1e-3),
                                            ("vp9", "low", "mp4", 1e-5), ("av1", "low", "mkv", 1e-3),
                                            ("mjpeg", "low", "mp4", 1e-5), ("h264", "low", "ts", 1e-5)):
            with self.subTest(codec=codec, latency=latency, ending=ending):
                shutil.rmtree(self.path, ignore_errors=True)
                self.made(f"codec: {codec}, latency: {latency}", f"name: '{{source}}.{ending}'")
                self.assertEqual([file.name for file in self.files()], [f"cam.{ending}"])
                found = Read(self.files()[0])
                self.assertEqual(len(found.times), 60)
                for number, at in enumerate(found.times):
                    self.assertAlmostEqual(at - found.times[0], number * 1001 / 30000, delta=off)
                self.assertEqual((found.frames, found.codec, found.rate), (60, codec, RATE))
                self.assertTrue(found.begins_with_key)

    def test_times_of_any_rate(self):
        """One-second fragments begin at picture times, at any rate."""
        clip = clips.uneven()
        theirs, endings, stages = Read(clip).times, ("mp4", "mkv", "ts"), {}
        for ending in endings:
            for name, after in (("made", "encode"), ("copy", "cam")):
                file = f"{name}.{ending}"
                stages[f"{name}-{ending}"] = f'type: video, input: {after}, path: "{self.path}", name: "{file}"'
        self.run_pipeline(pipeline(dict(cam=f'uri: "{clip}"'), decode="", encode="latency: normal", **stages),
                          rows=False)
        for file in (f"{name}.{ending}" for name in ("made", "copy") for ending in endings):
            with self.subTest(file):
                mine = Read(self.path / file).times
                for a, b in zip(mine, theirs, strict=True):
                    self.assertAlmostEqual(a - mine[0], b - theirs[0], delta=1.5e-3)

    def test_a_matroska_file_has_its_length_and_index(self):
        self.made("keyframes: 500ms", "name: '{source}.mkv'", seconds=3)
        (file,) = self.files()
        told = probe(file, "-show_entries", "format=duration")
        self.assertAlmostEqual(float(told["format"]["duration"]), 90 * 1001 / 30000, delta=2e-3)
        self.assertIn(b"\x1c\x53\xbb\x6b", file.read_bytes())  # Cues
        later = call(["ffmpeg", "-v", "error", "-ss", "2.2", "-i", file, "-frames:v", "1", "-f", "framemd5", "-"])
        self.assertEqual(later.stdout.splitlines()[-1].split(",")[-1].strip(), hashes(file)[66])

    def test_any_number_of_workers_gives_the_same_file(self):
        contents = set()
        for workers in (1, 2, 16):
            shutil.rmtree(self.path, ignore_errors=True)
            self.made("codec: h264, latency: normal", arguments=("--workers", workers))
            contents.add(self.files()[0].read_bytes())
        self.assertEqual(len(contents), 1)

    def test_packets_are_copied_as_they_came(self):
        for name, endings in (("h264 4:2:0", "mp4 mkv ts"), ("hevc", "mp4 ts"), ("vp9", "mkv"), ("mjpeg", "mkv"),
                              ("mpeg4 with B frames", "mp4 ts")):
            clip = clips.codec(name)
            theirs, files = Read(clip).times, [self.path / f"{ending}.{ending}" for ending in endings.split()]
            run = self.copied_to(clip, **{file.stem: f"name: {file.name}, overwrite: true" for file in files})
            self.assertEqual(run.ledger["delivered"], run.ledger["in"])
            pictures, *copied = hashes_of(clip, *files)
            for file, same in zip(files, copied, strict=True):
                with self.subTest(clip=name, file=file.name):
                    self.assertEqual(same, pictures)
                    mine = Read(file).times
                    for a, b in zip(mine, theirs, strict=True):
                        self.assertAlmostEqual(a - mine[0], b - theirs[0], delta=1e-3)

    def test_pictures_without_times_are_copied_in_their_order(self):
        """For containers that give no times, or not all, and whose pictures are decoded in another order. Xvid puts two
        pictures into one packet, and loses the last ones here."""
        for name, codec in (("order.avi", clips.H264), ("order.h264", clips.H264), ("order.hevc", clips.HEVC),
                            ("order.mpg", ("-c:v", "mpeg2video", "-bf", 2)),
                            ("order.m2v", ("-c:v", "mpeg2video", "-bf", 2)),
                            ("order-mpeg4.avi", ("-c:v", "mpeg4", "-bf", 2, "-g", 12, "-q:v", 3)),
                            ("order-packed.avi", ("-c:v", "libxvid", "-bf", 2, "-g", 12, "-q:v", 3))):
            clip = clips.encoded(name, *codec, "-pix_fmt", "yuv420p", "-r", 25, filters="scale=160:90,setpts=N/25/TB",
                                 frames=30)
            files = [self.path / "order.mp4", self.path / "order.mkv"]
            self.copied_to(clip, **{file.suffix[1:]: f"name: {file.name}, overwrite: true" for file in files})
            pictures, *copied = hashes_of(clip, *files)
            self.assertEqual(len(pictures), 28 if "packed" in name else 30)
            for file, same in zip(files, copied, strict=True):
                with self.subTest(clip=name, file=file.name):
                    self.assertEqual(same, pictures)
                    found = Read(file).times
                    for number, at in enumerate(found):
                        self.assertAlmostEqual(at - found[0], number / 25, delta=1e-3)

    def test_colour_and_shape_of_pixels_are_carried(self):
        clip = clips.encoded("bt2020.mp4", *clips.H264, "-pix_fmt", "yuv420p", "-colorspace", "bt2020nc",
                             "-color_range", "pc", filters="scale=320:240,setsar=4/3", frames=5)
        text = copy(uri=clip, video="name: '{source}.mp4'", path=self.path).replace(
            "  video: {input: cam", "  decode: {input: cam}\n  encode: {input: decode}\n  video: {input: encode")
        self.run_pipeline(text, rows=False)
        _, stream = frames(self.files()[0])
        self.assertEqual((stream["color_space"], stream["color_range"], stream["sample_aspect_ratio"]),
                         ("bt2020nc", "pc", "4:3"))

    def test_a_rotation_is_carried(self):
        self.copied(clips.rotated(90))
        side = probe(self.files()[0], "-show_streams")["streams"][0]["side_data_list"]
        theirs = probe(clips.rotated(90), "-show_streams")["streams"][0]["side_data_list"]
        self.assertEqual([one["rotation"] for one in side if "rotation" in one],
                         [one["rotation"] for one in theirs if "rotation" in one])

    def test_pictures_of_another_size_begin_another_file(self):
        pictures = self.folder / "pictures"
        pictures.mkdir()
        clips.ffmpeg("-f", "lavfi", "-i", "testsrc2=size=64x48", "-frames:v", 3, pictures / "a%d.png")
        clips.ffmpeg("-f", "lavfi", "-i", "testsrc=size=97x65", "-frames:v", 2, pictures / "b%d.png")
        self.run_pipeline(made(0, "latency: normal", self.path, "name: '{source}.mp4'", uri=pictures), rows=False)
        found = {file.name: frames(file) for file in self.files()}
        self.assertEqual({name: (count, stream["width"], stream["height"]) for name, (count, stream) in found.items()},
                         {"cam.mp4": (3, 64, 48), "cam-2.mp4": (2, 98, 66)})

    def test_each_turn_of_a_loop_is_a_file(self):
        clip = clips.codec("h264 4:2:0")
        self.copied(clip, source=", loop: 3")
        self.assertEqual([file.name for file in self.files()], ["cam-2.mp4", "cam-3.mp4", "cam.mp4"])
        pictures, *copied = hashes_of(clip, *self.files())
        self.assertEqual(copied, 3 * [pictures])

    def test_files_that_are_there(self):
        self.made()
        before = self.files()[0].read_bytes()
        run = self.made(code=78)
        self.assertIn("set overwrite: true", run.err)
        self.assertEqual(self.files()[0].read_bytes(), before)
        self.made("codec: mjpeg", "name: '{source}.mp4', overwrite: true")
        self.assertEqual(frames(self.files()[0])[1]["codec_name"], "mjpeg")
        self.assertEqual(len(self.files()), 1)

    def test_what_no_file_holds_is_refused(self):
        for encode, video, words in (("codec: vp9", "name: '{source}.ts'",
                                      "MPEG-TS does not hold packets of vp9, only of h264"),
                                     ("codec: h264", "name: '{source}.avi'", "name must end with"),
                                     ("codec: h264", "name: '{source}.mp4', segment: 1s", "needs {number} or {time}"),
                                     ("codec: h264", "name: '{seq}.mp4'", "name may hold"),
                                     ("codec: h264", "name: '{number}.m3u8'", "a playlist has one name"),
                                     ("codec: h264", "name: '{source}.mp4', url: 'srt://127.0.0.1:1'", "url"),
                                     ("lossless: true", "name: '{source}.mp4'", "gives RGB")):
            with self.subTest(words):
                text = made(1, encode, self.path, video)
                text = text.replace("testsrc2=", "testsrc=") if "lossless" in encode else text
                run = self.run_pipeline(text, rows=False, code=78, verb="plan")
                self.assertIn(words, run.err)
        for uri in ("lavfi:testsrc=duration=1", PICTURES / "orange.jpg"):
            with self.subTest(uri):
                run = self.copied(uri, code=78, verb="plan")
                self.assertRegex(run.err, "rawvideo, only of h264|still pictures")
        raw = clips.encoded("raw.avi", "-c:v", "rawvideo", "-pix_fmt", "yuv420p", frames=2)
        run = self.copied(raw, "name: '{source}.mkv'", code=78, verb="plan")
        self.assertIn("Matroska does not hold packets of rawvideo", run.err)


class Segments(Videos):
    def test_they_begin_with_key_frames_and_have_all_pictures(self):
        """Two sources into one folder, each with separate numbers; a second run continues after the first."""
        text = made(3, "keyframes: 500ms", self.path, "name: '{source}-{number}.mp4', segment: 900ms")
        second = '  cam-2: {uri: "lavfi:testsrc2=size=64x48:rate=30:duration=1"}\n'
        text = text.replace("stages:", second + "stages:").replace("decode: {input: cam}", "decode: {input: sources.*}")
        for turn in range(2):
            self.run_pipeline(text, rows=False)
            mine = self.files("cam-0*.mp4")
            self.assertEqual([file.name for file in mine], [f"cam-{number:06}.mp4" for number in range(3 * (turn + 1))])
            self.assertEqual(len(self.files("cam-2-*.mp4")), turn + 1)
        for file in mine:
            found = Read(file)
            self.assertEqual((found.frames, found.times[0]), (30, 0))
            self.assertTrue(found.begins_with_key)

    def test_each_can_be_decoded_alone(self):
        """Also for open picture groups, whose key frames have no parameter sets in MP4 and Matroska."""
        for name, codec, container in (("h264", clips.OPEN_H264, "mp4"), ("hevc", clips.OPEN_HEVC, "mkv")):
            clip = clips.encoded(f"open-{name}.{container}", *codec, "-pix_fmt", "yuv420p", filters="scale=160:90",
                                 frames=48)
            folders = {self.folder / f"{name}-{number}": video for number, video in enumerate((
                "name: 'cam-{number}.ts', segment: 400ms", "name: cam.m3u8, segment: 400ms",
                "name: 'cam-{number}.mp4', segment: 400ms"))}
            self.run_pipeline(pipeline(dict(cam=f'uri: "{clip}"'), name="copied", **{
                folder.name: f'type: video, input: cam, path: "{folder}", {video}'
                for folder, video in folders.items()}), rows=False)
            for folder, video in folders.items():
                with self.subTest(codec=name, video=video):
                    files = [file for file in sorted(folder.iterdir()) if file.suffix != ".m3u8"]
                    self.assertGreaterEqual(len(files), 4)
                    for file in files:
                        found = Read(file)
                        # Pictures shown before the key frame may need the previous file's.
                        whole = sum(at >= found.first_time for at in found.times)
                        self.assertGreaterEqual(whole, 9)
                        self.assertGreaterEqual(found.frames, whole, file.name)

    def test_the_oldest_are_removed(self):
        self.path.mkdir()
        stranger = self.path / "camera-000000.mp4"
        stranger.write_text("of somebody else")
        self.made("keyframes: 500ms", "name: '{source}-{number}.mp4', segment: 400ms, keep_bytes: 60KB", seconds=6)
        files = [file for file in self.files() if file != stranger]
        self.assertTrue(stranger.exists())
        self.assertTrue(1 <= len(files) <= 6, files)
        self.assertEqual(files[-1].name, "cam-000011.mp4")
        self.assertTrue(sum(file.stat().st_size for file in files) <= 60000)
        self.made("keyframes: 500ms", "name: '{source}-{number}.mp4', segment: 400ms, keep_for: 1ms", seconds=2)
        self.assertEqual([file.name for file in self.files() if file != stranger], ["cam-000015.mp4"])

    def test_names_with_times(self):
        self.made(video="name: 'at-{time}.mkv'")
        self.assertRegex(self.files()[0].name, r"^at-20\d{6}T\d{6}Z\.mkv$")


class Hls(Videos):
    def test_the_playlist_plays(self):
        for codec in ("h264", "hevc"):
            with self.subTest(codec):
                shutil.rmtree(self.path, ignore_errors=True)
                self.made(f"codec: {codec}, keyframes: 500ms, latency: normal",
                          "name: '{source}.m3u8', segment: 1s, playlist: 0", seconds=4)
                playlist = (self.path / "cam.m3u8").read_text()
                self.assertIn("#EXT-X-ENDLIST", playlist)
                self.assertNotIn("DISCONTINUITY", playlist)
                self.assertEqual(len(self.files("*.ts")), 4)
                found = Read(self.path / "cam.m3u8").times
                self.assertEqual(len(found), 120)
                for number, at in enumerate(found):
                    self.assertAlmostEqual(at - found[0], number * 1001 / 30000, delta=1e-4)
                for file in self.files("*.ts"):
                    self.assertEqual(Read(file).frames, 30)
                self.assertAlmostEqual(sum(self.lengths()), 120 * 1001 / 30000, delta=1e-5)

    def lengths(self):
        return [float(line[8:-1]) for line in (self.path / "cam.m3u8").read_text().splitlines()
                if line.startswith("#EXTINF")]

    def test_files_last_up_to_the_next(self):
        """Together as long as the stream, although a camera's packets do not say how long they last."""
        clip = clips.encoded("open-h264.mp4", *clips.OPEN_H264, "-pix_fmt", "yuv420p", filters="scale=160:90",
                             frames=48)
        self.copied(clip, "name: cam.m3u8, segment: 400ms, playlist: 0")
        rate = Read(clip).rate
        self.assertEqual([round(length * rate) for length in self.lengths()], [12] * 4)
        self.assertAlmostEqual(sum(self.lengths()), 48 / rate, delta=1e-5)

    def test_it_has_the_last_files_only(self):
        self.made("keyframes: 500ms", "name: '{source}.m3u8', segment: 500ms, playlist: 2", seconds=5)
        playlist = (self.path / "cam.m3u8").read_text()
        names = [line for line in playlist.splitlines() if line.endswith(".ts")]
        self.assertEqual(names, ["cam-000008.ts", "cam-000009.ts"])
        self.assertIn("#EXT-X-MEDIA-SEQUENCE:8\n", playlist)
        self.assertEqual([file.name for file in self.files("*.ts")], [f"cam-{number:06}.ts" for number in range(5, 10)])

    def test_a_loop_is_a_discontinuity(self):
        clip = clips.codec("h264 4:2:0")
        self.copied(clip, "name: '{source}.m3u8', playlist: 0", source=", loop: 2")
        playlist = (self.path / "cam.m3u8").read_text()
        self.assertEqual(playlist.count("#EXT-X-DISCONTINUITY\n"), 1)
        looped, once = hashes_of(self.path / "cam.m3u8", clip)
        self.assertEqual(len(looped), 2 * len(once))


class Killed(Videos):
    def test_a_file_can_be_read_up_to_its_last_second(self):
        for ending in ("mp4", "mkv"):
            with self.subTest(ending):
                shutil.rmtree(self.path, ignore_errors=True)
                path = self.write(made(60, "codec: h264", self.path, f"name: '{{source}}.{ending}'",
                                       ", realtime: true"))
                run = start([MILLRACE, "run", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                file = self.path / f"cam.{ending}"

                def enough():
                    done = call(["ffprobe", "-v", "quiet", "-count_packets", "-show_entries", "stream=nb_read_packets",
                                 "-of", "csv=p=0", file])
                    count = int((done.stdout.split() or ["0"])[0].strip(",") or 0)
                    return count if count >= 45 else 0

                before = self.wait_until(enough, pause=0.1)
                run.send_signal(signal.SIGKILL)
                run.wait()
                self.assertGreaterEqual(frames(file)[0], before)


class FullDisk(Videos):
    """A file size limit for the process, which can be lifted while it runs."""

    def test_it_waits_and_goes_on(self):
        self.made("codec: mjpeg", "name: '{source}.mkv'")
        whole = self.files()[0].read_bytes()
        shutil.rmtree(self.path)
        self.assertGreater(len(whole), 100000)
        for action, code in (("fail", 74), ("wait", 0)):
            with self.subTest(action):
                path = self.write(made(2, "codec: mjpeg", self.path, f"name: '{{source}}.mkv', on_full: {action}"))
                told = self.folder / "told"
                with open(told, "w") as file:
                    run = start(["prlimit", "--fsize=100000:unlimited", MILLRACE, "run", path],
                                stdout=subprocess.DEVNULL, stderr=file)
                self.addCleanup(run.kill)
                if action == "wait":
                    self.wait_until(lambda: "waiting until there is room" in told.read_text(), told)
                    self.assertEqual(call(["prlimit", "--pid", run.pid, "--fsize=unlimited:unlimited"]).returncode, 0)
                self.assertEqual(run.wait(TIMEOUT), code, told.read_text())
                written = self.files()[0].read_bytes()
                clusters = whole.index(b"\x1f\x43\xb6\x75")  # the part before has the length, when it is finished
                self.assertEqual(written[clusters:], whole[clusters:len(written)])
                self.assertEqual(written == whole, action == "wait")
                self.files()[0].unlink()
