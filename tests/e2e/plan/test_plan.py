"""The plan: what `millrace plan` prints for people and programs."""
import fractions
import hashlib
import json
import math
import os
import re
import shutil
import subprocess

import onnxruntime
import yaml

from harness import MILLRACE, MODELS, PICTURES, ROOT, SAMPLES, TIMEOUT, Case, call, need_models, pipeline, start
from plans import SMALL, plan

SMALL_TEXT = """\
small: FILE, 2 workers
digest DIGEST

  source                         type  gives          rate      frames  duration
  entrance-of-th..orth-building  null  RGB24 640x480  30 fps        90       3 s
  clock                          null  f32 3x224x224  as taken       ?         ?

  stage    type        times  device  threads          batch  in flight
  shrink   preprocess      1  cpu     up to 2 workers      1          4
  both     null            1  cpu     up to 2 workers      1          4
  results  jsonl           1  cpu     1 worker             1          2

  from                       to       carries        a frame  queue  policy
  entrance-of-..th-building  shrink   RGB24 640x480  900 KiB      4  block
  shrink                     both     f32 3x224x224  588 KiB      2  drop-oldest
  clock                      both     f32 3x224x224  588 KiB      2  drop-oldest
  both                       results  f32 3x224x224  588 KiB  4 x 2  block

  no copies: every stage reads what the one before it has written
  one process with 4 threads: millrace, mr-signals, mr-worker-0 to mr-worker-1

  memory  buffers of  count      one   likely  most bytes
  host    shrink         16  588 KiB  4.6 MiB   9,633,792

  memory for frames that millrace allocates:
    host    at most 9.2 MiB, likely 4.6 MiB
  libraries and models take more: --profile measures how much
"""


class Text(Case):
    def table(self, path, *arguments):
        done = plan(path, "--workers", "2", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout.replace(str(path), "FILE")

    def test_a_small_pipeline(self):
        path = self.write(SMALL)
        digest = json.loads(plan(path, "--json").stdout)["digest"]
        self.assertEqual(self.table(path), SMALL_TEXT.replace("DIGEST", digest[:32]))

    def test_nothing_is_wider_than_a_terminal(self):
        for path in (self.write(SMALL), *sorted((ROOT / "pipelines").glob("*.yaml"))):
            for line in self.table(path, "--offline").splitlines():
                self.assertLessEqual(len(line), 80, line)

    LONG = pipeline({"camera-at-the-entrance-of-the-north-building-second-floor-1": 'type: "null", rate: 30fps, '
                                                                                    'format: RGB24 640x480',
                     "camera-at-the-entrance-of-the-north-building-second-floor-2": 'type: "null", rate: 25fps, '
                                                                                    'format: RGB24 640x480'},
                    **{"shrink-them-to-something-a-network-may-take": "type: preprocess, size: 9x9, device: DEVICE"},
                    out='type: "null"',
                    nodes=dict(north="stages: shrink-them-to-something-a-network-may-take", south="stages: out"))

    def on_a_terminal(self, columns, path):
        """The output of `plan` on a terminal with this width."""
        terminal, end = os.openpty()
        with open(terminal, "rb", buffering=0) as screen:
            process = start([MILLRACE, "plan", path, "--workers", "2"], stdout=end, stderr=subprocess.DEVNULL,
                            env={**os.environ, "COLUMNS": str(columns)})
            os.close(end)
            text = b""
            while True:
                try:
                    text += screen.read(65536)
                except OSError:  # The other end is closed.
                    break
        self.assertEqual(process.wait(timeout=TIMEOUT), 0)
        return text.decode().replace("\r\n", "\n")

    def test_it_fits_any_terminal(self):
        """No line may be longer than the terminal is wide, except for longer words: nothing may be lost on a narrow
        one."""
        path = self.write(self.LONG.replace("DEVICE", '["sim:0", "sim:1", "sim:2"]'))
        for columns in (40, 60, 80, 120, 200):
            with self.subTest(columns):
                text = self.on_a_terminal(columns, path)
                for line in text.splitlines()[1:]:
                    self.assertTrue(len(line) <= columns or len(line.split()) == 1, line)
                for said in ("30 fps", "25 fps", "900 KiB", "sim:2", "block", "to its devices"):
                    self.assertIn(said, " ".join(text.split()))
        self.assertNotRegex(text, r"\S\.\.\S")

    def test_a_thousand_sources_are_one_row(self):
        text = self.table(self.write(pipeline(
            {f"cam{i}": 'type: "null", rate: 25fps, format: I420 640x480' for i in range(1000)}, null="")))
        self.assertLess(len(text.splitlines()), 25)
        self.assertRegex(text, r"cam0 \.\. cam999 \(1000\) +null +I420 640x480 +25 fps")
        self.assertRegex(text, r"4 x 1000 +block")

    def test_what_is_not_alike_is_counted_after_a_while(self):
        text = self.table(self.write(pipeline(
            {f"cam{i}": f'type: "null", rate: {i + 1}fps' for i in range(300)}, null="")))
        self.assertIn("\n  and 260 more sources (--json has all)\n", text)
        text = self.table(self.write(pipeline(
            {f"f{i}": f'uri: "lavfi:testsrc=size={16 * (i + 1)}x16:rate=5:duration=1"' for i in range(50)}, decode="",
            null="")))
        self.assertIn("\n  and 10 more links from sources (--json has all)\n", text)
        self.assertRegex(text, r"\n  decode +null +")
        self.assertRegex(text, r"one process with 54 threads: millrace, mr-signals, mr-worker-0 to mr-worker-1,\s+"
                               r"one for each source")


class Json(Case):
    def test_part_of_a_video_is_counted(self):
        """The number of frames that `run` will read is known from the start of a file, and unknown from the middle."""
        for part, frames in (("duration: 2s", 40), ("duration: 1h", 280), ("start: 2s", None), ("every: 2", 280)):
            with self.subTest(part):
                path = self.write(pipeline(dict(video=f'uri: "{SAMPLES}/cockatoo.mp4", {part}'), decode="", null=""))
                self.assertEqual(self.planned(path)["sources"][0]["frames"], frames)

    TERSE = pipeline(dict(a="type: 'null', format: RGB24 64x48, frames: 3"), name="terse", out="type: 'null'")
    SAME = """# The same, as somebody else would have written it.
version: 1
pipeline: terse
sources:
  a:
    type: "null"
    format: "RGB24 64x48"
    frames: ${FRAMES:-3}
stages:
  out:
    type: "null"
    input: a
"""

    def digest(self, text, *arguments, environment=None):
        path = self.write(text)
        done = self.millrace("plan", path, *arguments, environment=environment)
        plan = json.loads(call([MILLRACE, "plan", path, *arguments, "--json"], environment=environment).stdout)
        ran = json.loads(call([MILLRACE, "run", path, *arguments, "--json"], environment=environment).stdout)
        self.assertEqual(ran["digest"], plan["digest"])
        self.assertEqual(done.stdout.splitlines()[1], "digest " + plan["digest"][:32])
        return plan["digest"]

    def test_what_libraries_take_of_a_gpu(self):
        """NVDEC surfaces, 32 to decode into and 32 for output, each in whole blocks of 256 columns and 32 rows; and
        what the model can need."""
        need_models()
        path = self.write(pipeline(
            dict(video=f'uri: "{SAMPLES}/cockatoo.mp4"'), decode='device: "cuda:0"',
            preprocess='size: 224x224, device: "cuda:0"',
            features=f'model: "{MODELS}/lite0-features.onnx", tensor: features, device: "cuda:0"', null=""))
        surfaces = 64 * 1280 * 736 * 3

        def told(*arguments):
            (gpu,) = [one for one in self.planned(path, *arguments)["devices"] if one["name"] == "cuda:0"]
            return {key: gpu["libraries"][key] for key in ("bytes", "unknown")}

        assumed = ("--assume", "cuda:1x8GiB")
        self.assertEqual(told(*assumed), {"bytes": surfaces, "unknown": True})
        limited = (*assumed, "--set", "stages.features.provider_memory=1GiB")
        self.assertEqual(told(*limited), {"bytes": surfaces + (1 << 30), "unknown": False})
        self.assertEqual(told(*limited, "--set", "stages.decode.hardware=off"), {"bytes": 1 << 30, "unknown": False})
        text = call([MILLRACE, "plan", path, *limited]).stdout
        self.assertIn("    cuda:0  at most ", text)
        self.assertIn("            libraries at most 1.2 GiB\n", text)
        done = self.millrace("plan", path, *assumed, "--set", "stages.features.provider_memory=8GiB", code=78)
        self.assertRegex(done.stderr, r"cuda:0: buffers may take .* and libraries 8\.2 GiB of its memory, and it has 8")

    def test_digest(self):
        """Equal for equal content; a sum over the expanded tree that anyone can compute."""
        def bencode(node):
            if isinstance(node, dict):
                return "d" + "".join(bencode(key) + bencode(value) for key, value in node.items()) + "e"
            if isinstance(node, list):
                return "l" + "".join(map(bencode, node)) + "e"
            return f"{len(node.encode())}:{node}"

        tree = yaml.load(self.TERSE, yaml.BaseLoader)
        expected = hashlib.sha256(bencode(tree).encode()).hexdigest()
        self.assertEqual(self.digest(self.TERSE), expected)
        self.assertEqual(self.digest(self.SAME), expected)
        tree["sources"]["a"]["frames"] = "4"
        expected = hashlib.sha256(bencode(tree).encode()).hexdigest()
        self.assertEqual(self.digest(self.TERSE, "--set", "sources.a.frames=4"), expected)
        self.assertEqual(self.digest(self.SAME, environment={"FRAMES": "4"}), expected)

    def test_what_is_exact(self):
        told = self.planned(SMALL, "--workers", "2")
        self.assertEqual(list(told)[:14], ["pipeline", "file", "digest", "workers", "busy_poll_ns", "jobs",
                                           "most_sources", "assumed",
                                           "sources", "stages", "links", "copies", "cuts", "processes"])
        first, clock = told["sources"]
        self.assertEqual((first["rate"], first["paced"], first["frames"], first["duration_ns"]),
                         (30, True, 90, 3_000_000_000))
        self.assertEqual((clock["rate"], clock["paced"], clock["frames"], clock["duration_ns"]),
                         (None, False, None, None))
        self.assertEqual((first["format"]["width"], first["format"]["height"], first["format"]["pixels"]),
                         (640, 480, ["RGB24"]))
        self.assertEqual((clock["format"]["dtypes"], clock["format"]["shape"]), (["f32"], [3, 224, 224]))
        link = next(link for link in told["links"] if link["from"] == "clock")
        self.assertEqual((link["to"], link["frame_bytes"], link["queue"], link["sources"], link["when_full"]),
                         ("both", 3 * 224 * 224 * 4, 2, 1, "drop-oldest"))
        self.assertEqual(link["memory_bytes"], 2 * 3 * 224 * 224 * 4)
        stages = {stage["id"]: stage for stage in told["stages"]}
        self.assertEqual(list(stages), ["shrink", "both", "results"])
        self.assertEqual(stages["shrink"]["workers"], 2)

    def test_the_same_bytes_every_time(self):
        path = self.write(SMALL)
        self.assertEqual(plan(path, "--json").stdout, plan(path, "--json").stdout)

    def test_overrides_are_those_of_run(self):
        told = self.planned(SMALL, "--set", "stages.both.queue.size=7", "--workers", "3")
        self.assertEqual({link["queue"] for link in told["links"] if link["to"] == "both"}, {7})
        self.assertEqual(told["workers"], 3)


class Streams(Case):
    """Plans for files, compared with what others read from them."""

    PIPELINE = pipeline(dict(video='uri: "CLIP"'), name="streams", decode="", null="")

    def probe(self, clip):
        keys = "codec_name,width,height,pix_fmt,avg_frame_rate,nb_frames,nb_read_packets"
        done = call(["ffprobe", "-v", "error", "-select_streams", "v:0", "-count_packets", "-show_entries",
                     f"stream={keys}", "-of", "json", clip])
        return json.loads(done.stdout)["streams"][0]

    def test_videos_are_what_ffprobe_says(self):
        if not shutil.which("ffprobe"):
            self.skipTest("no ffprobe")
        clips = [*sorted(SAMPLES.glob("*.mp4")), *sorted(PICTURES.glob("*.avi"))]
        self.assertTrue(clips)
        for clip in clips:
            with self.subTest(clip.name):
                probed = self.probe(clip)
                told = self.planned(self.PIPELINE.replace("CLIP", str(clip)))
                (source,), packets = told["sources"], told["links"][0]["format"]
                pictures = told["links"][1]["format"]
                self.assertEqual(packets["codec"], probed["codec_name"])
                self.assertEqual((packets["width"], packets["height"]), (probed["width"], probed["height"]))
                self.assertEqual((pictures["width"], pictures["height"]), (probed["width"], probed["height"]))
                if probed["pix_fmt"] == "yuv420p":
                    self.assertEqual(pictures["pixels"], ["I420"])
                self.assertAlmostEqual(source["rate"], float(fractions.Fraction(probed["avg_frame_rate"])), 3)
                if "nb_frames" in probed:
                    self.assertEqual(source["frames"], int(probed["nb_frames"]))
                self.assertFalse(source["paced"])

    def test_networks_are_what_onnx_says(self):
        need_models()
        path = MODELS / "lite0.onnx"
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (given,), taken = session.get_inputs(), session.get_outputs()
        told = self.planned(pipeline(dict(zeros="type: \"null\", "
                                                f"format: f32 {'x'.join((str(n) for n in given.shape[1:]))}"),
                                     network=f'type: infer, model: "{path}"', results="type: jsonl"))
        first, last = told["links"]
        self.assertEqual(first["format"]["shape"], given.shape[1:])
        self.assertEqual(first["frame_bytes"], 4 * math.prod(given.shape[1:]))
        pool = told["stages"][0]["pools"][0]
        self.assertGreaterEqual(pool["buffer_bytes"], 4 * sum(math.prod(one.shape[1:]) for one in taken))


class Wrong(Case):
    def test_all_that_is_wrong_is_told(self):
        path = self.write(SMALL.replace("size: 224x224", "size: 0x0, fit: crop").replace("input: both", "input: none"))
        done = plan(path)
        self.assertEqual(done.returncode, 78)
        self.assertEqual(done.stdout, "")
        self.assertGreaterEqual(len(re.findall(r": error: ", done.stderr)), 3, done.stderr)

    def test_what_is_missing(self):
        done = plan(self.folder / "none.yaml")
        self.assertEqual(done.returncode, 66)
        path = self.write(pipeline(dict(s="uri: none.mp4"), decode="", null=""))
        self.assertEqual(plan(path).returncode, 66)
        self.assertEqual(plan(path, "--offline").returncode, 0)
