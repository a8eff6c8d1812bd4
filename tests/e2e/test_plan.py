"""The plan: what `millrace plan` prints for people and for programs, and that a run does what it says."""
import fractions
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest.mock

import onnxruntime
import yaml

from harness import MILLRACE, MODELS, PICTURES, ROOT, SAMPLES, TIMEOUT, Case, call, main, need_models, start
from test_nodes import children_of

SMALL = """
version: 1
pipeline: small
sources:
  entrance-of-the-north-building: {type: "null", rate: 30fps, frames: 90, format: RGB24 640x480}
  clock: {type: "null", format: f32 3x224x224}
stages:
  shrink: {type: preprocess, input: entrance-of-the-north-building, size: 224x224}
  both: {type: "null", input: [shrink, clock], queue: {size: 2, when_full: drop-oldest}}
  results: {type: jsonl, input: both, path: out.jsonl}
"""
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

  from              to       carries        a frame  queue  policy        memory
  entranc..uilding  shrink   RGB24 640x480  900 KiB      4  block        3.5 MiB
  shrink            both     f32 3x224x224  588 KiB      2  drop-oldest  1.1 MiB
  clock             both     f32 3x224x224  588 KiB      2  drop-oldest  1.1 MiB
  both              results  f32 3x224x224  588 KiB  4 x 2  block        4.6 MiB

  no copies: every stage reads what the one before it has written
  one process with 4 threads: millrace, mr-signals, mr-worker-0 to mr-worker-1
  memory for frames that millrace allocates:
    host    at most 9.2 MiB
  libraries and models take more: --profile measures how much
"""


def plan(path, *arguments):
    return call([MILLRACE, "plan", path, *arguments])


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

    LONG = """
version: 1
pipeline: long
sources:
  camera-at-the-entrance-of-the-north-building-second-floor-1: {type: "null", rate: 30fps, format: RGB24 640x480}
  camera-at-the-entrance-of-the-north-building-second-floor-2: {type: "null", rate: 25fps, format: RGB24 640x480}
stages:
  shrink-them-to-something-a-network-may-take: {type: preprocess, input: sources.*, size: 9x9, device: DEVICE}
  out: {type: "null", input: shrink-them-to-something-a-network-may-take}
nodes: {north: {stages: shrink-them-to-something-a-network-may-take}, south: {stages: out}}
"""

    def on_a_terminal(self, columns, path):
        """What `plan` prints on a terminal of that width."""
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
        """Lines are no longer than the terminal is wide, but for words that are: nothing is lost where it is narrow."""
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
        sources = "".join(f'  cam{i}: {{type: "null", rate: 25fps, format: I420 640x480}}\n' for i in range(1000))
        text = self.table(self.write(
            f'version: 1\npipeline: many\nsources:\n{sources}stages:\n  "null": {{input: sources.*}}\n'))
        self.assertLess(len(text.splitlines()), 25)
        self.assertRegex(text, r"cam0 \.\. cam999 \(1000\) +null +I420 640x480 +25 fps")
        self.assertRegex(text, r"4 x 1000 +block")


    def test_what_is_not_alike_is_counted_after_a_while(self):
        sources = "".join(f'  cam{i}: {{type: "null", rate: {i + 1}fps}}\n' for i in range(300))
        text = self.table(self.write(
            f'version: 1\npipeline: many\nsources:\n{sources}stages:\n  "null": {{input: sources.*}}\n'))
        self.assertIn("\n  and 260 more sources (--json has all)\n", text)
        files = "".join(f'  f{i}: {{uri: "lavfi:testsrc=size={16 * (i + 1)}x16:rate=5:duration=1"}}\n' for i in range(50))
        text = self.table(self.write(
            f'version: 1\npipeline: many\nsources:\n{files}stages:\n  decode: {{input: sources.*}}\n'
            '  "null": {input: decode}\n'))
        self.assertIn("\n  and 10 more links from sources (--json has all)\n", text)
        self.assertRegex(text, r"\n  decode +null +")
        self.assertRegex(text, r"one process with 54 threads: millrace, mr-signals, mr-worker-0 to mr-worker-1,\s+"
                               r"one for each source")


class Json(Case):
    def planned(self, path, *arguments):
        done = plan(path, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_part_of_a_video_is_counted(self):
        """What `run` then reads: from the start; from the middle it is not known."""
        text = """
version: 1
pipeline: part
sources: {{video: {{uri: "{0}", {1}}}}}
stages: {{decode: {{input: video}}, "null": {{input: decode}}}}
"""
        for part, frames in (("duration: 2s", 40), ("duration: 1h", 280), ("start: 2s", None), ("every: 2", 280)):
            with self.subTest(part):
                path = self.write(text.format(SAMPLES / "cockatoo.mp4", part))
                self.assertEqual(self.planned(path)["sources"][0]["frames"], frames)

    TERSE = """version: 1
pipeline: 'terse'
sources: {a: {type: 'null', format: RGB24 64x48, frames: 3}}
stages: {out: {type: 'null', input: a}}
"""
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
        done = call([MILLRACE, "plan", path, *arguments], environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(call([MILLRACE, "plan", path, *arguments, "--json"], environment=environment).stdout)
        ran = json.loads(call([MILLRACE, "run", path, *arguments, "--json"], environment=environment).stdout)
        self.assertEqual(ran["digest"], plan["digest"])
        self.assertEqual(done.stdout.splitlines()[1], "digest " + plan["digest"][:32])
        return plan["digest"]

    LIBRARIES = """
version: 1
pipeline: libraries
sources: {{video: {{uri: "{0}"}}}}
stages:
  decode: {{input: video, device: "cuda:0"}}
  preprocess: {{input: decode, size: 224x224, device: "cuda:0"}}
  features: {{input: preprocess, model: "{1}", tensor: features, device: "cuda:0"}}
  "null": {{input: features}}
"""

    def test_what_libraries_take_of_a_gpu(self):
        """Surfaces of NVDEC, 32 to decode into and 32 to give out, each of whole blocks of 256 columns and 32 rows; and
        what the model may take."""
        need_models()
        path = self.write(self.LIBRARIES.format(SAMPLES / "cockatoo.mp4", MODELS / "lite0-features.onnx"))
        surfaces = 64 * 1280 * 736 * 3

        def told(*arguments):
            (gpu,) = [one for one in self.planned(path, *arguments)["devices"] if one["name"] == "cuda:0"]
            return gpu["libraries"]

        assumed = ("--assume", "cuda:1x8GiB")
        self.assertEqual(told(*assumed), {"bytes": surfaces, "unknown": True})
        limited = (*assumed, "--set", "stages.features.provider_memory=1GiB")
        self.assertEqual(told(*limited), {"bytes": surfaces + (1 << 30), "unknown": False})
        self.assertEqual(told(*limited, "--set", "stages.decode.hardware=off"), {"bytes": 1 << 30, "unknown": False})
        text = call([MILLRACE, "plan", path, *limited]).stdout
        self.assertIn("    cuda:0  at most ", text)
        self.assertIn("            libraries at most 1.2 GiB\n", text)
        done = call([MILLRACE, "plan", path, *assumed, "--set", "stages.features.provider_memory=8GiB"])
        self.assertEqual(done.returncode, 78)
        self.assertRegex(done.stderr, r"cuda:0: buffers may take .* and libraries 8\.2 GiB of its memory, and it has 8")

    def test_digest(self):
        """Equal for what says the same; a sum over the expanded tree that anybody can make."""
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
        told = self.planned(self.write(SMALL), "--workers", "2")
        self.assertEqual(list(told)[:11], ["pipeline", "file", "digest", "workers", "assumed", "sources", "stages",
                                           "links", "copies", "cuts", "processes"])
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
        told = self.planned(self.write(SMALL), "--set", "stages.both.queue.size=7", "--workers", "3")
        self.assertEqual({link["queue"] for link in told["links"] if link["to"] == "both"}, {7})
        self.assertEqual(told["workers"], 3)


class Streams(Case):
    """What is planned for files, beside what others read from them."""

    PIPELINE = """
version: 1
pipeline: streams
sources:
  video: {uri: "CLIP"}
stages:
  decode: {input: video}
  "null": {input: decode}
"""

    def planned(self, text):
        done = plan(self.write(text), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

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
        told = self.planned(f"""
version: 1
pipeline: network
sources:
  zeros: {{type: "null", format: f32 {"x".join(str(n) for n in given.shape[1:])}}}
stages:
  network: {{type: infer, input: zeros, model: "{path}"}}
  results: {{type: jsonl, input: network}}
""")
        first, last = told["links"]
        self.assertEqual(first["format"]["shape"], given.shape[1:])
        self.assertEqual(first["frame_bytes"], 4 * math.prod(given.shape[1:]))
        pool = told["stages"][0]["pools"][0]
        self.assertGreaterEqual(pool["buffer_bytes"], 4 * sum(math.prod(one.shape[1:]) for one in taken))


def has_rows_of(sources, output):
    """Whether each source has given a row, of CSV or JSON."""
    text = output.read_text() if output.exists() else ""
    return all(re.search(rf'^({source},|\{{"source":"{source}",).*\n', text, re.MULTILINE) for source in sources)


def threads_of(process):
    return [(task / "comm").read_text().strip() for task in pathlib.Path(f"/proc/{process}/task").iterdir()]


class RunIsThePlan(Case):
    """What ran is what was printed: seen in the process while it runs, and in its summary afterwards."""

    PATTERNS = """
version: 1
pipeline: patterns
sources:
  a: {uri: "lavfi:testsrc=size=320x240:rate=200:duration=3600", realtime: true}
  b: {uri: "lavfi:testsrc2=size=640x480:rate=200:duration=3600", realtime: true}
stages:
  decode: {input: sources.*}
  shrink: {type: preprocess, input: decode, size: 64x64, device: DEVICE}
  gather: {type: preprocess, input: decode, size: 96x96, queue: 3}
  all: {type: "null", input: [shrink, gather], queue: {size: 5, when_full: drop-oldest}}
  results: {type: csv, input: all, path: "${OUTPUT:--}"}
"""

    SIZES = """
version: 1
pipeline: sizes
sources:
  a: {type: "null", rate: 200fps, frames: 720000, format: RGB24 640x480}
  b: {type: "null", rate: 200fps, frames: 720000, format: RGB24 640x480}
stages:
  shrink: {type: preprocess, input: sources.*, size: 64x64, device: DEVICE}
  enlarge: {type: preprocess, input: sources.*, size: 700x500}
  all: {type: "null", input: [shrink, enlarge], queue: 3}
  results: {type: csv, input: all, path: "${OUTPUT:--}"}
"""

    NODES = """
version: 1
pipeline: nodes
sources:
  a: {type: "null", rate: 200fps, frames: 720000, format: RGB24 640x480}
  b: {type: "null", rate: 200fps, frames: 720000, format: RGB24 640x480}
stages:
  shrink: {type: preprocess, input: sources.*, size: 64x64, device: "sim:0"}
  twice: {type: "null", input: shrink, cut: {compress: lz4}}
  enlarge: {type: preprocess, input: sources.*, size: 700x500, cut: {mode: live, window: 5}, queue: 3}
  all: {type: "null", input: [twice, enlarge]}
  results: {type: csv, input: all, path: "${OUTPUT:--}"}
nodes:
  camera: {stages: shrink, sources: [a, b]}
  worker: {stages: [twice, enlarge]}
  center: {stages: [all, results]}
"""

    def look_while_it_runs(self, command, sources, look):
        """What `look` sees of the process, once each source has given results, so that all has been opened; then it is
        ended."""
        output = pathlib.Path(command[command.index("--output") + 1])
        output.unlink(missing_ok=True)
        process = start([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until and process.poll() is None and not has_rows_of(sources, output):
            time.sleep(0.01)
        names = look(process.pid)
        process.send_signal(signal.SIGINT)
        summary = json.loads(process.communicate(timeout=TIMEOUT)[0])
        self.assertEqual(process.returncode, 0)
        return names, summary

    def check(self, path, *arguments):
        words = [path, "--workers", "2", "--output", self.folder / "results", *arguments]
        planned = json.loads(call([MILLRACE, "plan", *words, "--json"]).stdout)
        sources = [source["id"] for source in planned["sources"]]
        names, summary = self.look_while_it_runs([MILLRACE, "run", *words], sources, threads_of)
        self.check_threads(planned["processes"][0]["threads"], names)
        self.check_stages(planned, summary)
        return planned, summary

    def check_threads(self, planned, names):
        self.assertEqual(sum(thread["count"] for thread in planned), len(names), (planned, names))
        for name in {thread["name"] for thread in planned} - {None}:
            told = sum(thread["count"] for thread in planned if thread["name"] == name)
            self.assertEqual(names.count(name), told, (planned, names))

    def check_stages(self, planned, summary):
        ran = {stage["id"]: stage for stage in summary["stages"]}
        vertices = planned["sources"] + planned["stages"] + planned["copies"]
        self.assertEqual(set(ran), {vertex["id"] for vertex in vertices})
        for stage in planned["stages"]:
            self.assertEqual(ran[stage["id"]]["device"], ", ".join(stage["devices"]))
            self.assertEqual(ran[stage["id"]]["instances"], len(stage["instances"]))
            self.assertLessEqual(ran[stage["id"]]["batch_peak"], stage["batch"])
            self.assertGreater(ran[stage["id"]]["in"], 0)
        for link in planned["links"]:
            self.assertLessEqual(ran[link["to"]]["queue_peak"], link["queue"], link)
            self.assertGreater(ran[link["to"]]["queue_peak"], 0, link)

    def check_memory(self, planned, summary):
        """Every size is known, so the bound is one."""
        bounds, held = planned["memory"], summary["buffers"]
        devices = {device["name"]: device["pools"] for device in planned["devices"]}
        for bound in (bounds["host"], bounds["pinned"], *devices.values()):
            self.assertFalse(bound["unknown"], planned["devices"])
        self.assertLessEqual(held["host_bytes"], bounds["host"]["bytes"])
        self.assertLessEqual(held["pinned_bytes"], bounds["pinned"]["bytes"])
        for device in held["devices"]:
            self.assertLessEqual(device["bytes"], devices[device["name"]]["bytes"])
            self.assertGreater(device["bytes"], 0)
        self.assertGreater(held["host_bytes"] + held["pinned_bytes"], 0)

    def test_memory(self):
        for device in ("cpu", "sim:0", "[sim:0, sim:1]"):
            with self.subTest(device):
                self.check_memory(*self.check(self.write(self.SIZES.replace("DEVICE", device))))

    def test_patterns(self):
        self.check_memory(*self.check(self.write(self.PATTERNS.replace("DEVICE", "cpu"))))

    def test_nodes(self):
        """Every process has the threads that were printed, and holds no more than was printed for it."""
        path = self.write(self.NODES)
        words = [path, "--workers", "2", "--output", self.folder / "results"]
        planned = json.loads(call([MILLRACE, "plan", *words, "--json"]).stdout)
        nodes = {process["name"]: process for process in planned["processes"]}
        threads, summary = self.look_while_it_runs([MILLRACE, "run", *words], ["a", "b"], lambda process: {
            node: threads_of(child) for node, child in children_of(process).items()})
        self.assertEqual(set(threads), set(nodes))
        ran = {node["node"]: node["summary"] for node in summary["nodes"]}
        for name, node in nodes.items():
            with self.subTest(name):
                # That of the checkpoint is there where a run is watched over.
                self.check_threads(node["threads"], [one for one in threads[name] if one != "mr-checkpoint"])
                self.assertFalse(any(bound["unknown"] for bound in node["memory"].values()), node["memory"])
                held = {kind: ran[name]["buffers"][f"{kind}_bytes"] for kind in ("host", "pinned", "shared")}
                held.update((device["name"], device["bytes"]) for device in ran[name]["buffers"]["devices"])
                for kind, bytes_held in held.items():
                    self.assertLessEqual(bytes_held, node["memory"][kind]["bytes"], kind)
        stages = {stage["id"]: stage for node in ran.values() for stage in node["stages"]}
        for link in planned["links"]:
            self.assertLessEqual(stages[link["to"]]["queue_peak"], link["queue"], link)
        self.assertEqual({(link["from"], link["to"]): link["when_full"] for link in planned["links"]
                          if "->worker" in link["to"]},
                         {("shrink->host", "shrink->worker"): "block", ("a", "a->worker"): "drop-oldest",
                          ("b", "b->worker"): "drop-oldest"})

    def test_on_a_simulated_device(self):
        self.check_memory(*self.check(self.write(self.PATTERNS.replace("DEVICE", "sim:0"))))

    def test_a_network_in_batches(self):
        need_models()
        self.enterContext(unittest.mock.patch.dict(os.environ, MODELS=str(MODELS)))
        settings = [f"sources.{source}.loop=true" for source in ("cockatoo", "short", "walkers")]
        settings.append("stages.features.batch.timeout=1h")
        planned, summary = self.check(ROOT / "pipelines/many-videos.yaml", *(word for one in settings for word in ("--set", one)))
        self.check_memory(planned, summary)
        (features,) = [stage for stage in summary["stages"] if stage["id"] == "features"]
        self.assertEqual(features["batch_peak"], 8)


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
        path = self.write("version: 1\npipeline: p\nsources:\n  s: {uri: none.mp4}\nstages:\n  decode: {input: s}\n"
                          '  "null": {input: decode}\n')
        self.assertEqual(plan(path).returncode, 66)
        self.assertEqual(plan(path, "--offline").returncode, 0)


if __name__ == "__main__":
    main()
