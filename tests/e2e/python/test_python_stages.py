"""Stages that are functions in Python: results, pictures, filters, options, batches, exceptions; and their cost, which
`plan --profile` shows."""
import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import threading
import time

import numpy as np

from harness import MILLRACE, ROOT, SAMPLES, Case, call, pipeline

MODULE = pathlib.Path(MILLRACE).parent / "python"
sys.path.insert(0, str(MODULE))
try:
    import millrace
except ModuleNotFoundError:
    millrace = None

CLIP = SAMPLES / "realshort.mp4"
DECODED = dict(decode="")


def clip(**stages):
    return pipeline(dict(video=f'uri: "{CLIP}"'), decode="", **stages)


def numbers(count=20, top="", **stages):
    return pipeline(dict(numbers=f'type: "null", frames: {count}'), top=top, **stages)


if millrace:
    @millrace.stage(accepts="picture", tensors={"brightness": "f32 1", "rows": "f32 2x3"})
    def test_brightness(frames, *, step: int = 1, scale: float = 1.0, name: str = "x", twice: bool = False):
        """Measures the brightness of pictures.

        Of each step-th row."""
        assert name == "y" and twice is True, (name, twice)
        return [{"brightness": frame.planes[0][::step].mean() * scale, "rows": np.arange(6).reshape(2, 3)}
                for frame in frames]

    @millrace.stage(name="test.even")
    def even(frames):
        return [frame.seq % 2 == 0 for frame in frames]

    @millrace.stage(name="test.numpy_even")
    def numpy_even(frames):
        return np.array([frame.seq for frame in frames]) % 2 == 0

    @millrace.stage(name="test.negative", accepts="picture", output="same")
    def negative(frames):
        return [[255 - plane for plane in frame.planes] for frame in frames]

    @millrace.stage(name="test.corner", accepts="picture", output="GRAY8 16x8")
    def corner(frames):
        return [frame.planes[0][:8, :16] for frame in frames]

    @millrace.stage(name="test.vector", output="f32 4")
    def vector(frames):
        return [{"output": [frame.seq, 1, 2, 3]} for frame in frames]

    @millrace.stage(name="test.slow_vector", output="f32 4")
    def slow_vector(frames):
        time.sleep(0.005)
        return vector(frames)

    @millrace.stage(name="test.found", classes=["cat", "dog"])
    def found(frames):
        return [{"classes": [(0, 0.25), (1, 0.75)]} for frame in frames]

    @millrace.stage(name="test.objects", accepts="picture", objects=["box"])
    def objects(frames):
        return [{"objects": [dict(left=1, top=2, right=30, bottom=40, score=0.5, index=0),
                             millrace.Object(5, 6, 7, 8, score=0.75, index=0)]} for frame in frames]

    CALLS = []

    @millrace.stage(name="test.batch")
    def batch(frames):
        CALLS.append(([frame.seq for frame in frames], threading.get_ident()))

    @millrace.stage(name="test.fails")
    def fails(frames, *, at: int, kind: str = "raise"):
        if kind == "count":
            return [True] * (len(frames) + 1)
        if kind == "unknown":
            return [{"nothing": 1} for _ in frames]
        if any(frame.seq == at for frame in frames):
            raise RuntimeError("at the frame\nasked for")
        return None

    KEPT = []

    @millrace.stage(name="test.keeps", accepts="picture")
    def keeps(frames, *, copy: bool = False, first: int = 1000):
        KEPT.extend(frame if copy else frame.planes[0] for frame in frames if frame.seq < first)

    SUNK = []

    @millrace.stage(name="test.sink", sink=True)
    def sink(frames):
        SUNK.extend(frame.seq for frame in frames)


class Stages(Case):
    def setUp(self):
        if millrace is None:
            self.skipTest("the module is not built (Debian: python3-dev)")
        super().setUp()

    def test_results_are_promised_and_read_by_others(self):
        text = clip(test_brightness="step: 2, scale: 2, name: y, twice: true",
                    rows="type: jsonl, tensors: true, path: \"-\"")
        output = self.folder / "rows.jsonl"
        seen = []
        for frame in millrace.run(text=text, output=output):
            seen.append((float(frame.tensors["brightness"][0]), float(frame.planes[0][::2].mean() * 2)))
            np.testing.assert_array_equal(frame.tensors["rows"], [[0, 1, 2], [3, 4, 5]])
        np.testing.assert_allclose(*zip(*seen), rtol=1e-6)
        rows = [json.loads(line) for line in output.read_text().splitlines()]
        self.assertEqual(len(rows), len(seen))
        for row, (brightness, _) in zip(rows, seen):
            data = {one["name"]: one["data"] for one in row["tensors"]}
            self.assertAlmostEqual(data["brightness"][0], brightness, places=3)

    def test_options_are_checked(self):
        for options, says in (("name: y", None), ("step: many", "step"), ("stepp: 2", "unknown key"),
                              ("twice: 3", "twice")):
            found = [one for one in millrace.check(text=clip(test_brightness=options, a="type: callback"))
                     if one.severity == "error"]
            self.assertEqual(len(found), 0 if says is None else 1, found)
            if says:
                self.assertIn(says, found[0].message)
        (found,) = millrace.check(text=numbers(f="type: test.fails", a="type: callback"))
        self.assertIn("at", found.message)

    def test_filters(self):
        for name in ("test.even", "test.numpy_even"):
            with self.subTest(name):
                run = millrace.run(text=numbers(f=f"type: {name}", a="type: callback"))
                self.assertEqual([frame.seq for frame in run], list(range(0, 20, 2)))
                self.assertEqual(run.summary["ledger"]["absorbed"],
                                 [{"stage": "f", "reason": "left out", "frames": 10}])

    def test_pictures(self):
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", CLIP, "-f", "rawvideo", "-pix_fmt", "gray", "-vf",
                              "extractplanes=y", "-"], capture_output=True, check=True).stdout
        luma = np.frombuffer(raw, np.uint8).reshape(-1, 240, 320)
        both = clip(n="type: test.negative", a="type: callback")
        for frame, expected in zip(millrace.run(text=both), luma, strict=True):
            np.testing.assert_array_equal(frame.planes[0], 255 - expected)
            self.assertEqual(frame.pixel, "I420")
        corner = clip(n="type: test.corner", a="type: callback")
        for frame, expected in zip(millrace.run(text=corner), luma, strict=True):
            np.testing.assert_array_equal(frame.array, expected[:8, :16])
            self.assertEqual(frame.format, "picture GRAY8 16x8")

    def test_tensors_classes_and_objects(self):
        for frame in millrace.run(text=numbers(v="type: test.vector", a="type: callback")):
            np.testing.assert_array_equal(frame.array, np.array([frame.seq, 1, 2, 3], np.float32))
        (frame, *_) = [f.detach() for f in millrace.run(text=numbers(v="type: test.found", a="type: callback"))]
        self.assertEqual(frame.classes, [millrace.Class(1, "dog", 0.75), millrace.Class(0, "cat", 0.25)])
        for frame in millrace.run(text=clip(o="type: test.objects", a="type: callback")):
            self.assertEqual([(one.left, one.bottom, one.label, one.score) for one in frame.objects],
                             [(5, 8, "box", 0.75), (1, 40, "box", 0.5)])

    def test_more_frames_wait_than_a_stage_has_buffers(self):
        text = numbers(200, v="type: test.slow_vector, queue: {size: 64}", a="type: callback, queue: {size: 1}")
        self.assertEqual(sum(1 for _ in millrace.run(text=text, workers=1)), 200)

    def test_batches_come_on_one_thread(self):
        CALLS.clear()
        self.assertEqual(sum(1 for _ in millrace.run(text=numbers(103, b="type: test.batch, batch: {size: 8}",
                                                                  a="type: callback"))), 103)
        self.assertEqual([seq for calls, _ in CALLS for seq in calls], list(range(103)))
        self.assertGreater(max(len(calls) for calls, _ in CALLS), 1)
        self.assertLessEqual(max(len(calls) for calls, _ in CALLS), 8)
        self.assertEqual(len({thread for _, thread in CALLS}), 1)

    def test_exceptions_drop_the_frame_or_end_the_run(self):
        text = numbers(f="type: test.fails, at: 5, batch: {size: 1}", a="type: callback")
        run = millrace.run(text=text)
        self.assertEqual([frame.seq for frame in run], [seq for seq in range(20) if seq != 5])
        self.assertEqual(run.summary["ledger"]["dropped"][0]["stage"], "f")
        with self.assertRaisesRegex(millrace.StageError, r"stage f raised RuntimeError: at the frame asked for "
                                                         r"\(.*test_python_stages.py:\d+\)") as raised:
            for frame in millrace.run(text=text, settings={"stages.f.on_error": "fail"}):
                pass
        self.assertIsInstance(raised.exception.__cause__, RuntimeError)
        for kind, says in (("count", "one item for each of the 1 frames"),
                           ("unknown", 'returned "nothing", which the stage')):
            with self.assertRaisesRegex(millrace.StageError, says):
                for frame in millrace.run(text=text, settings={"stages.f.on_error": "fail", "stages.f.kind": kind}):
                    pass

    def test_frames_and_arrays_that_are_kept(self):
        KEPT.clear()
        text = clip(k="type: test.keeps, copy: true", a="type: callback")
        count = sum(1 for _ in millrace.run(text=text))
        self.assertEqual([frame.seq for frame in KEPT], list(range(count)))
        self.assertGreater(len({frame.planes[0].tobytes() for frame in KEPT}), 20)
        KEPT.clear()
        with self.assertRaisesRegex(millrace.StageError, "keeps arrays of 4 earlier frames: copy"):
            for frame in millrace.run(text=text, settings={"stages.k.copy": False, "stages.k.on_error": "fail"}):
                pass
        # The arrays that one run keeps do not count in the next.
        del KEPT[3:]
        text = clip(k="type: test.keeps, copy: true, first: 3", a="type: callback")
        run = millrace.run(text=text, settings={"stages.k.copy": False, "stages.k.on_error": "fail"})
        self.assertEqual(sum(1 for _ in run), count)
        self.assertEqual(len(KEPT), 6)
        KEPT.clear()

    def test_exceptions_whose_words_are_odd(self):
        """An exception is named even if its words cannot be shown, and if standard error cannot be written to."""
        class Odd(Exception):
            pass

        @millrace.stage(name="test.odd")
        def odd(frames):
            raise Odd("a\udcff b\0c")
        with contextlib.redirect_stderr(io.StringIO()) as closed:
            closed.close()
            with self.assertRaisesRegex(millrace.StageError, r"raised .*Odd: a\\udcff b\\0c \(.*:\d+\)"):
                for frame in millrace.run(text=numbers(o="type: test.odd, on_error: fail", a="type: callback")):
                    pass

    def define(self, text, module="__main__", file="<cell>"):
        """Runs a text that defines a stage, as a notebook does with a cell."""
        exec(compile("import millrace\n" + text, file, "exec"), {"__name__": module})

    def test_a_stage_that_is_defined_again(self):
        text = "@millrace.stage(name='test.again')\ndef again(frames):\n    return [frame.seq {} for frame in frames]"
        self.define(text.format("< 3"), file="<first>")
        run = numbers(s="type: test.again", a="type: callback")
        with millrace.Pipeline(text=run) as before:
            frames = before.frames("a")
            self.define(text.format("< 5").replace("(frames)", "(frames, *, more: int = 2)"), file="<second>")
            before.start()
            self.assertEqual(sum(1 for _ in frames), 3)
        self.assertEqual(sum(1 for _ in millrace.run(text=run, settings={"stages.s.more": 7})), 5)
        for _ in range(300):
            self.define(text.format("< 6"))
        self.assertEqual(sum(1 for _ in millrace.run(text=run)), 6)
        with self.assertRaisesRegex(TypeError, "keyword-only"):
            self.define(text.format("< 7").replace("(frames)", "(frames, x)"))
        self.assertEqual(sum(1 for _ in millrace.run(text=run)), 6)
        for other in (dict(module="mine"), dict(text=text.replace("def again", "def other").format("< 7"))):
            with self.assertRaisesRegex(millrace.Error, "\"test.again\" of this program already exists"):
                self.define(**{"text": text.format("< 7"), **other})
        mine = text.replace("test.again", "test.mine").format("< 4")
        self.define(mine, module="mine", file="mine.py")
        self.define(mine.replace("< 4", "< 8"), module="mine", file="mine.py")
        self.assertEqual(sum(1 for _ in millrace.run(text=run.replace("test.again", "test.mine"))), 8)
        with self.assertRaisesRegex(millrace.Error, "\"test.mine\" of this program already exists"):
            self.define(mine, module="mine", file="another.py")

    def test_debuggers_and_coverage_see_the_functions(self):
        """What traces threads of Python traces those of a pipeline, too."""
        seen = set()

        def trace(frame, event, argument):
            if frame.f_code.co_filename == __file__:
                seen.add((frame.f_code.co_name, event))
            return trace

        def subscriber(frame):
            pass
        threading.settrace(trace)
        threading.setprofile(lambda frame, event, argument: seen.add((frame.f_code.co_name, "profile " + event)))
        try:
            with millrace.Pipeline(text=numbers(e="type: test.even", a="type: callback")) as p:
                p.subscribe("a", subscriber)
                p.start()
                p.wait()
        finally:
            threading.settrace(None)
            threading.setprofile(None)
        for function in ("even", "subscriber"):
            self.assertLessEqual({(function, "call"), (function, "line"), (function, "profile call")}, seen)

    def test_a_sink(self):
        SUNK.clear()
        with millrace.Pipeline(text=numbers(s="type: test.sink")) as p:
            p.start()
            p.wait()
        self.assertEqual(SUNK, list(range(20)))
        self.assertEqual(p.summary()["ledger"]["delivered"], 20)

    def test_names_and_signatures(self):
        for make, says in ((lambda: millrace.stage(lambda frames: None, name="decode"), "decode"),
                           (lambda: millrace.stage(lambda frames: None, name="test.even"), "test.even"),
                           (lambda: millrace.stage(lambda frames: None, name="Bad Name"), "Bad Name"),
                           (lambda: millrace.stage(lambda frames, x: None, name="t1"), "keyword-only"),
                           (lambda: millrace.stage(lambda frames, *, x=[]: None, name="t2"), "an option is"),
                           (lambda: millrace.stage(name="t3", accepts="RGB25")(lambda frames: None),
                            "\"RGB25\" is no format"),
                           *((lambda output=output: millrace.stage(name="t4", output=output)(lambda frames: None),
                              f'"{output}" is no format with all sizes: write "GRAY8')
                             for output in ("f32 4x", "RGB24", "picture", "f32", "f32 -3x2", "f32 0x2", "tensor",
                                            "GRAY8 -3x2", "GRAY8 640", "u8 1x1x1x1x1x1x1", "f32 65536x65536")),
                           *((lambda one=one: millrace.stage(name="t5", tensors={"v": one})(lambda frames: None),
                              f'"{one}" is no format with all sizes: write "f32 3x') for one in ("f32", "RGB24 4x4"))):
            with self.assertRaisesRegex((millrace.Error, TypeError, ValueError), says):
                make()

    def test_the_command_knows_them(self):
        stages = self.write("""import time, millrace
@millrace.stage(name="slow")
def slow(frames, *, ms: int = 5):
    "Sleeps for each frame."
    time.sleep(ms * len(frames) / 1000)
""", "mine.py")
        text = pipeline(dict(numbers='type: "null", rate: 1000fps'), slow="ms: 100", n='type: "null"')
        path = self.write(text)
        def module(*arguments):
            done = call([sys.executable, "-m", "millrace", "--stages", str(stages), *arguments],
                        environment={"PYTHONPATH": str(MODULE)})
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        self.assertRegex(module("list"), r"slow +stage +Sleeps for each frame")
        self.assertIn("ms: whole number", module("inspect", "slow"))
        nodes = self.write(text + "nodes:\n  a: {stages: [slow]}\n  b: {stages: [n]}\n", "nodes.yaml")
        done = call([sys.executable, "-m", "millrace", "--stages", str(stages), "run", str(nodes)],
                    environment={"PYTHONPATH": str(MODULE)})
        self.assertEqual((done.returncode, "start each with --node NAME" in done.stderr), (64, True), done.stderr)
        profile = module("plan", str(path), "--profile", "2")
        row = re.search(r"^ *slow .*$", profile[profile.index("measured"):] if "measured" in profile else profile, re.M)
        self.assertIsNotNone(row, profile)
        self.assertRegex(profile, r"slow\b.*\b1[01]\d(\.\d+)? ms")
