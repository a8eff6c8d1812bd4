"""The Python module in this process: frames, results, arrays, pushing, plans. The references are the command's own
jsonl, ffmpeg, and NumPy."""
import copy
import dataclasses
import gc
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest.mock
import weakref

import numpy as np

from harness import MILLRACE, MODELS, PICTURES, ROOT, SAMPLES, Case, call, pipeline

sys.path.insert(0, str(pathlib.Path(MILLRACE).parent / "python"))
try:
    import millrace
except ModuleNotFoundError:
    millrace = None

CLIP = SAMPLES / "realshort.mp4"
PUSHED = """version: 1
pipeline: pushed
sources:
  camera: {type: push, format: FORMAT}
stages:
  answers: {type: callback, input: camera}
"""
NUMBERS = """version: 1
pipeline: numbers
sources:
  numbers: {type: "null", frames: COUNT}
stages:
  answers: {type: callback, input: numbers}
"""


class Module(Case):
    def setUp(self):
        if millrace is None:
            self.skipTest("the module is not built (Debian: python3-dev)")
        super().setUp()


class Frames(Module):
    def test_pictures_are_those_of_ffmpeg(self):
        text = pipeline(dict(video=f'uri: "{CLIP}"'), decode="", answers="type: callback")
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", CLIP, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-"],
                             capture_output=True, check=True).stdout
        pictures = np.frombuffer(raw, np.uint8).reshape(-1, 240 * 3 // 2, 320)
        seen = 0
        for frame, expected in zip(millrace.run(text=text), pictures, strict=True):
            luma, u, v = frame.planes
            np.testing.assert_array_equal(luma, expected[:240])
            np.testing.assert_array_equal(np.concatenate([u.ravel(), v.ravel()]), expected[240:].ravel())
            self.assertEqual((frame.kind, frame.pixel, frame.width, frame.height, frame.seq, frame.source),
                             ("picture", "I420", 320, 240, seen, "video"))
            with self.assertRaisesRegex(ValueError, "3 planes: read frame.planes"):
                frame.array
            seen += 1
        self.assertEqual(seen, len(pictures))

    def test_objects_are_those_of_the_commands_records(self):
        """Classes, tensors, times and files, with the network; each value of jsonl is in the object."""
        if not (MODELS / "lite0-features.onnx").exists():
            self.skipTest("no build/models (tools/demo makes it)")
        path = ROOT / "pipelines/classify-video.yaml"
        run = self.run_pipeline(path, "--input", CLIP)
        frames = millrace.run(path, input=CLIP)
        for frame, row in zip(frames, run.rows, strict=True):
            self.assertEqual((frame.source, frame.seq, frame.file), (row["source"], row["seq"], row["file"]))
            self.assertAlmostEqual(frame.pts, row["pts"], places=6)
            self.assertEqual([one.index for one in frame.classes], [one["index"] for one in row["classes"]])
            self.assertEqual([one.label for one in frame.classes], [one["label"] for one in row["classes"]])
            np.testing.assert_allclose([one.score for one in frame.classes], [one["score"] for one in row["classes"]],
                                       rtol=1e-6)
        self.assertEqual(frames.summary["ledger"]["in"], len(run.rows))

    def test_classes_of_elements_have_the_fields_of_kinds(self):
        for kind, name in ((millrace.Object, "objects"), (millrace.Event, "events"), (millrace.Text, "text")):
            source = (ROOT / f"engine/data/kind_{name}.c").read_text()
            table = source[source.rindex("static const mr_field fields[]"):source.index("mr_result_kind")]
            named = re.findall(r'\{FIELD\((\w+)\)|\{\.name = "(\w+)"', table)
            self.assertEqual({field.name for field in dataclasses.fields(kind)}, {one or other for one, other in named})

    def test_arrays_share_memory_and_are_read_only(self):
        pixels = np.arange(33 * 65, dtype=np.uint8).reshape(33, 65)
        with millrace.Pipeline(text=PUSHED.replace("FORMAT", "GRAY8 65x33")) as p:
            frames = p.frames("answers")
            p.start()
            p.push("camera", pixels, pts=1.5)
            frame = next(frames)
            first, second = frame.array, frame.array
            self.assertTrue(np.shares_memory(first, second))
            self.assertFalse(first.flags.writeable)
            with self.assertRaises(ValueError):
                first[0, 0] = 1
            np.testing.assert_array_equal(first, pixels)
            self.assertEqual((frame.pts, frame.pts_ns), (1.5, 1500000000))
            self.assertEqual(first.strides, (65, 1))  # a pushed picture keeps its rows
            np.testing.assert_array_equal(np.from_dlpack(_Dl(frame)), pixels)
            del frame, second, frames
            gc.collect()
            np.testing.assert_array_equal(first, pixels)
        np.testing.assert_array_equal(first, pixels)  # the array outlives the pipeline

    def test_dlpack_without_versions_gives_copies_alone(self):
        pixels = np.arange(33 * 65, dtype=np.uint8).reshape(33, 65)
        with millrace.Pipeline(text=PUSHED.replace("FORMAT", "GRAY8 65x33")) as p:
            frames = p.frames("answers")
            p.start()
            p.push("camera", pixels)
            frame = next(frames)
            shared = _Dl(frame)
            with self.assertRaisesRegex(BufferError, "copy=True"):
                shared.__dlpack__()
            self.assertIn('"dltensor"', repr(shared.__dlpack__(copy=True)))
            self.assertFalse(np.from_dlpack(shared).flags.writeable)
            copy = np.from_dlpack(shared, copy=True)
            copy[:] += 1
            np.testing.assert_array_equal(copy, pixels + 1)
            np.testing.assert_array_equal(frame.array, pixels)

    def test_a_frame_may_be_detached_while_its_results_are_read(self):
        """Python code makes the objects, and meanwhile another thread may detach the frame, and the run use its memory
        again. Here the code itself does so."""
        def many(frames):
            return [{"classes": [(0, frame.seq / 64)] * 8, "number": [frame.seq]} for frame in frames]
        millrace.stage(many, name="test.many", classes=["cat"], tensors={"number": "f32 1"})
        text = pipeline(dict(numbers='type: "null", frames: 60'), many="type: test.many, batch: {size: 1}",
                        answers="type: callback")
        class Detaching(millrace.Class):
            def __init__(self, **values):
                super().__init__(**values)
                if reading:
                    reading.pop().detach()
                    for _ in range(6):
                        next(run, None)
        for read in (lambda frame: frame.results, millrace.Frame.detach):
            with self.subTest(read), millrace.run(text=text, hold=2) as run, \
                    unittest.mock.patch.dict(millrace.KINDS, classes=Detaching):
                kept = []
                for frame in run:
                    reading = [frame]
                    read(frame)
                    kept.append((frame.seq, frame.classes, frame.tensors["number"]))
                self.assertGreater(len(kept), 6)
                for seq, classes, number in kept:
                    self.assertEqual([one.score for one in classes], [seq / 64] * 8)
                    self.assertEqual(number, [seq])

    def test_the_loop_gets_all_that_the_only_sink_reads(self):
        text = pipeline(dict(a='type: "null", frames: 5', b='type: "null", frames: 7'), same="type: 'null', input: b",
                        rows="type: jsonl, input: INPUT")
        for inputs, expected in (("[a, same]", {"a": 5, "b": 7}), ("sources.*", {"a": 5, "b": 7})):
            full = text.replace("INPUT", inputs)
            if inputs == "sources.*":
                full = full.replace("  same: {type: 'null', input: b}\n", "")
            for more in ({}, {"output": self.folder / "rows.jsonl"}, {"stage": "rows"}):
                with self.subTest(inputs=inputs, **more):
                    seen = {"a": 0, "b": 0}
                    for frame in millrace.run(text=full, force=True, **more):
                        seen[frame.source] += 1
                    self.assertEqual(seen, expected)

    def test_hold_has_a_limit(self):
        with millrace.Pipeline(text=NUMBERS.replace("COUNT", "3")) as p:
            for hold in (1 << 61, (1 << 20) + 1):
                with self.assertRaisesRegex(ValueError, "at most 1048576 frames"):
                    p.frames("answers", hold=hold)
            frames = p.frames("answers", hold=1 << 20)
            p.start()
            self.assertEqual(len(list(frames)), 3)

    def test_all_layouts_come_back_as_they_were_pushed(self):
        random = np.random.default_rng(7)
        w, h = 34, 18
        def words(*shape, top=1 << 16):
            return random.integers(0, top, shape).astype(np.uint16)
        def octets(*shape):
            return random.integers(0, 256, shape).astype(np.uint8)
        cases = {"GRAY8": [octets(h, w)], "GRAY16": [words(h, w)], "RGB24": [octets(h, w, 3)],
                 "BGRA": [octets(h, w, 4)], "YA8": [octets(h, w, 2)],
                 "I420": [octets(h, w), octets(h // 2, w // 2), octets(h // 2, w // 2)],
                 "NV12": [octets(h, w), octets(h // 2, w // 2, 2)], "P010": [words(h, w), words(h // 2, w // 2, 2)],
                 "I422": [octets(h, w), octets(h, w // 2), octets(h, w // 2)], "GBR": [octets(h, w)] * 3,
                 "I444_10": [words(h, w, top=1024)] * 3}
        for pixel, planes in cases.items():
            for copy in (True, False):
                with self.subTest(pixel=pixel, copy=copy), \
                        millrace.Pipeline(text=PUSHED.replace("FORMAT", f"{pixel} {w}x{h}")) as p:
                    frames = p.frames("answers")
                    p.start()
                    # A view with gaps between rows.
                    wide = [np.concatenate([one, one], axis=1)[:, :one.shape[1]] for one in planes]
                    p.push("camera", wide if len(wide) > 1 else wide[0], copy=copy)
                    frame = next(frames)
                    for got, expected in zip(frame.planes, planes, strict=True):
                        np.testing.assert_array_equal(got, expected)

    def test_tensors(self):
        for dtype, name in ((np.float32, "f32"), (np.float16, "f16"), (np.uint8, "u8"), (np.int32, "i32"),
                            (np.int64, "i64")):
            data = np.arange(24).astype(dtype).reshape(2, 3, 4)
            with self.subTest(dtype=name), millrace.Pipeline(text=PUSHED.replace("FORMAT", f"{name} 2x3x4")) as p:
                frames = p.frames("answers")
                p.start()
                p.push("camera", data)
                frame = next(frames)
                self.assertEqual((frame.kind, frame.array.dtype), ("tensor", dtype))
                np.testing.assert_array_equal(frame.array, data)

    def test_wrong_arrays_are_refused_with_both_shapes(self):
        with millrace.Pipeline(text=PUSHED.replace("FORMAT", "RGB24 64x48")) as p:
            p.start()
            for wrong, says in ((np.zeros((48, 64), np.uint8), "uint8 48x64, but .* uint8 48x64x3"),
                                (np.zeros((48, 64, 3), np.uint16), "uint16 48x64x3, but"),
                                (np.zeros((48, 64, 3), np.float64), "<f8"),
                                (np.zeros((48, 64, 6), np.uint8)[:, :, ::2], "ascontiguousarray"),
                                (np.zeros((20, 20, 3), np.uint8),
                                 "takes picture RGB24 64x48, but picture RGB24 20x20 was pushed"),
                                (_Strides(), "a stride for each dimension"),
                                (np.zeros((48, 64, 3), ">u2"), "type >u2, with bytes in the order of other machines"),
                                (object(), "an array of type .O: use uint8")):
                with self.assertRaisesRegex((ValueError, TypeError, millrace.Error), says):
                    p.push("camera", wrong)
            with self.assertRaisesRegex(millrace.Error, 'no stage or source "kamera"; it has camera, answers'):
                p.push("kamera", np.zeros((48, 64, 3), np.uint8))

        with millrace.Pipeline(text=PUSHED.replace("FORMAT", "f32 3x4")) as p:
            p.start()
            for wrong, says in ((np.zeros((0, 4), np.float32), "float32 0x4, but the pipeline takes no empty ones"),
                                (np.zeros((3, 4), ">f4"), "type >f4, with bytes in the order of other machines")):
                with self.assertRaisesRegex((ValueError, TypeError), says):
                    p.push("camera", wrong)

    def test_a_shared_array_is_kept_until_it_was_read(self):
        class Array(np.ndarray):
            pass
        data = np.zeros((33, 65), np.uint8).view(Array)
        gone = weakref.ref(data)
        with millrace.Pipeline(text=PUSHED.replace("FORMAT", "GRAY8 65x33")) as p:
            frames = p.frames("answers")
            p.start()
            p.push("camera", data, copy=False)
            del data
            gc.collect()
            self.assertIsNotNone(gone())
            frame = next(frames)
            array = frame.array
            del frame
            gc.collect()
            self.assertIsNotNone(gone())
            del array
            self.wait_until(lambda: gc.collect() is not None and gone() is None, "the array is released")


class _Strides:
    """Strides for two of three dimensions."""
    memory = np.zeros((48, 64, 3), np.uint8)
    __array_interface__ = {**memory.__array_interface__, "strides": (192, 3)}


class _Dl:
    """NumPy takes a DLPack capsule from any object; a NumPy array would give its own."""

    def __init__(self, frame):
        self.array = frame.array
        while not isinstance(self.array, millrace.Array):
            self.array = self.array.base

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Holding(Module):
    def test_a_program_that_holds_all_frames_gets_an_error(self):
        kept = []
        with self.assertRaisesRegex(millrace.FramesHeld, r"still holds 4 frames.*detach.*hold=16"):
            for frame in millrace.run(text=NUMBERS.replace("COUNT", "100"), hold=4):
                kept.append(frame)
        self.assertEqual([frame.seq for frame in kept], [0, 1, 2, 3])

    def test_detached_frames_are_not_counted(self):
        frames = [frame.detach() for frame in millrace.run(
            text=pipeline(dict(video=f'uri: "{CLIP}"'), decode="", answers="type: callback"), hold=4)]
        self.assertEqual([frame.seq for frame in frames], list(range(len(frames))))
        self.assertGreater(len(frames), 20)
        self.assertEqual(frames[3].planes[0].shape, (240, 320))
        self.assertGreater(len({frame.planes[0].tobytes() for frame in frames}), 20)

    def test_a_slow_loop_holds_up_the_source(self):
        run = millrace.run(text=NUMBERS.replace("COUNT", "1000"), hold=4)
        next(run)
        time.sleep(0.3)
        self.assertLess(run.summary["ledger"]["in"], 30)
        self.assertEqual(sum(1 for _ in run), 999)

    def test_ten_thousand_frames_and_a_thousand_pipelines_keep_memory(self):
        if "libasan" in os.environ.get("LD_PRELOAD", ""):
            self.skipTest("the address sanitizer keeps freed memory")
        def resident():
            gc.collect()
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        data = np.zeros((64, 64), np.uint8)
        def push_and_read(count):
            with millrace.Pipeline(text=PUSHED.replace("FORMAT", "GRAY8 64x64")) as p:
                frames = p.frames("answers")
                p.start()
                for i in range(count):
                    p.push("camera", data, copy=i % 2)
                    self.assertEqual(next(frames).array.sum(), 0)
        push_and_read(200)
        before = resident()
        push_and_read(10000)
        self.assertLess(resident() - before, 8 << 20)
        def open_and_close(count):
            for _ in range(count):
                millrace.Pipeline(text=NUMBERS.replace("COUNT", "1")).close()
        open_and_close(100)
        before = resident()
        open_and_close(1000)
        self.assertLess(resident() - before, 8 << 20)


class Control(Module):
    def test_check_gives_diagnostics_as_data(self):
        path = self.write("version: 1\npipeline: p\nsources:\n  a: {uri: {uri}}\nstages:\n  decode: {input: b}\n"
                          .replace("{uri}", str(CLIP)))
        (found,) = [one for one in millrace.check(path) if one.severity == "error"]
        self.assertEqual((found.file, found.line, found.severity), (str(path), 6, "error"))
        told = call([MILLRACE, "check", str(path)])
        self.assertIn(str(found), told.stderr)
        self.assertEqual(found.exit_code, told.returncode)
        with self.assertRaises(millrace.PipelineError) as raised:
            millrace.Pipeline(path)
        self.assertEqual([one.message for one in raised.exception.diagnostics if one.severity == "error"],
                         [found.message])
        self.assertEqual(raised.exception.exit_code, told.returncode)

    def test_plan_is_the_commands(self):
        path = self.write(pipeline(dict(video=f'uri: "{CLIP}"'), decode="", answers="type: callback"))
        made = millrace.plan(path)
        told = json.loads(call([MILLRACE, "plan", str(path), "--json"]).stdout)
        self.assertEqual((made.pipeline, made.digest, made.workers),
                         (told["pipeline"], told["digest"], told["workers"]))
        self.assertEqual([one["id"] for one in made.stages if one["role"] == "stage"],
                         [one["id"] for one in told["stages"]])
        self.assertEqual(made.stages[0]["outputs"][0]["format"], told["sources"][0]["format"]["text"])
        self.assertEqual([(one["from"], one["to"]) for one in made.links], [("video", "decode"), ("decode", "answers")])
        with self.assertRaises(millrace.PipelineError):
            millrace.plan(path, input=self.folder / "missing.mp4")

    def test_sources_come_and_go(self):
        text = ("version: 1\npipeline: p\nsources: {max: 3, like: {type: media}}\nstages:\n"
                "  decode: {input: sources.*}\n  answers: {type: callback, input: decode}\n")
        with millrace.Pipeline(text=text) as p:
            frames = p.frames("answers")
            p.start()
            p.add_source("one", uri=str(CLIP))
            self.assertEqual(next(frames).source, "one")
            with self.assertRaises(millrace.Error) as raised:
                p.add_source("two", uri=str(self.folder / "missing.mp4"))
            self.assertIn("missing.mp4", str(raised.exception))
            with self.assertRaisesRegex(millrace.Error, "one"):
                p.add_source("one", uri=str(CLIP))
            p.stop()
            rest = sum(1 for _ in frames)
            self.assertTrue(p.wait(10))
            self.assertEqual(p.summary()["ledger"]["in"], rest + 1)

    def test_a_frame_that_is_held_does_not_keep_the_run(self):
        """Neither the end of a pipeline whose sources come and go, nor the ledger, waits for it."""
        text = ("version: 1\npipeline: p\nsources: {max: 2, like: {type: media}}\nstages:\n"
                "  decode: {input: sources.*}\n  answers: {type: callback, input: decode}\n")
        with millrace.Pipeline(text=text) as p:
            frames = p.frames("answers")
            p.start()
            p.add_source("one", uri=str(CLIP))
            held = next(frames)
            p.stop()
            for _ in frames:
                pass
            self.assertTrue(p.wait(20))
            self.assertEqual(p.summary()["ledger"]["in_flight"], 0)
        self.assertEqual((held.source, held.planes[0].shape), ("one", (240, 320)))

    def test_waiting_has_a_limit(self):
        with millrace.Pipeline(text=PUSHED.replace("FORMAT", "GRAY8 8x8")) as p:
            p.start()
            started = time.monotonic()
            self.assertFalse(p.wait(0.2))
            self.assertGreaterEqual(time.monotonic() - started, 0.19)
            p.end("camera")
            self.assertTrue(p.wait())

    def test_a_full_pipeline_times_out(self):
        with millrace.Pipeline(text=PUSHED.replace("FORMAT", "GRAY8 8x8")) as p:
            frames = p.frames("answers", hold=2)
            p.start()
            with self.assertRaises(millrace.Timeout):
                for _ in range(100):
                    p.push("camera", np.zeros((8, 8), np.uint8), timeout=0.05)
            self.assertIsInstance(next(frames).array, np.ndarray)

    def test_a_closed_pipeline_says_so(self):
        p = millrace.Pipeline(text=NUMBERS.replace("COUNT", "10"))
        frames = p.frames("answers")
        p.close()
        p.close()
        self.assertEqual(list(frames), [])
        with self.assertRaisesRegex(millrace.Stopped, "closed"):
            p.start()

    def test_close_ends_calls_of_other_threads(self):
        p = millrace.Pipeline(text=PUSHED.replace("FORMAT", "GRAY8 8x8"))
        frames, ended = p.frames("answers"), []
        p.start()
        def read():
            ended.append(sum(1 for _ in frames))
        def wait():
            try:
                p.wait()
            except millrace.Error:
                pass
            ended.append("waited")
        threads = [threading.Thread(target=read), threading.Thread(target=wait)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        p.close()
        for thread in threads:
            thread.join(10)
            self.assertFalse(thread.is_alive())
        self.assertEqual(sorted(map(str, ended)), ["0", "waited"])

    def test_a_subscriber_gets_each_frame(self):
        seen, kept = [], []
        def on_frame(frame):
            seen.append((frame.seq, threading.current_thread() is threading.main_thread()))
            if frame.seq == 3:
                kept.append(frame)
        with millrace.Pipeline(text=NUMBERS.replace("COUNT", "20")) as p:
            p.subscribe("answers", on_frame)
            with self.assertRaisesRegex(millrace.Error, "already taken"):
                p.subscribe("answers", on_frame)
            p.start()
            p.wait()
        self.assertEqual(seen, [(i, False) for i in range(20)])
        self.assertEqual((kept[0].seq, kept[0].source, kept[0].results), (3, "numbers", []))

    def test_threads_that_push_and_subscribe(self):
        """One to 16 threads, each with a source that a function reads and one that a loop reads; and one for all."""
        for count in (1, 4, 16):
            with self.subTest(threads=count):
                names = [f"{kind}{i}" for i in range(count) for kind in ("f", "l")] + ["all"]
                text = pipeline({name: "type: push, format: i32 2" for name in names},
                                **{f"to_{name}": f"type: callback, input: {name}" for name in names})
                seen = {name: [] for name in names}
                with millrace.Pipeline(text=text) as p:
                    loops = {f"l{i}": p.frames(f"to_l{i}") for i in range(count)}
                    for name in names:
                        if name not in loops:
                            p.subscribe(f"to_{name}", lambda frame, to=seen[name]: to.append(frame.array.tolist()))
                    p.start()
                    def read(name):
                        for frame in loops[name]:
                            seen[name].append(frame.array.tolist())
                    def push(number):
                        for i in range(40):
                            for name in (f"f{number}", f"l{number}", "all"):
                                p.push(name, np.array([number, i], np.int32), copy=i % 2 == 0)
                        p.end(f"f{number}")
                        p.end(f"l{number}")
                    pushing = [threading.Thread(target=push, args=[i]) for i in range(count)]
                    reading = [threading.Thread(target=read, args=[name]) for name in loops]
                    for thread in pushing + reading:
                        thread.start()
                    for thread in pushing:
                        thread.join()
                    p.end("all")
                    p.wait()
                    for thread in reading:
                        thread.join()
                for name in names[:-1]:
                    self.assertEqual(seen[name], [[int(name[1:]), i] for i in range(40)], name)
                self.assertEqual(sorted(seen["all"]), [[n, i] for n in range(count) for i in range(40)])

    def test_a_subscriber_that_raises(self):
        """By default the frame is dropped; with on_error: fail the run ends, and the exception is the cause."""
        def on_frame(frame):
            if frame.seq == 3:
                raise ValueError("the fourth")
        def run(policy):
            p = millrace.Pipeline(text=NUMBERS.replace("COUNT", "10"), settings={"stages.answers.on_error": policy})
            self.addCleanup(p.close)
            p.subscribe("answers", on_frame)
            p.start()
            return p
        p = run("drop")
        p.wait()
        self.assertEqual(p.summary()["ledger"]["dropped"], [{"stage": "answers", "reason": "error", "frames": 1}])
        self.assertEqual(p.summary()["ledger"]["delivered"], 9)
        p = run("fail")
        with self.assertRaisesRegex(millrace.StageError, "ValueError: the fourth .*test_python_frames.py") as raised:
            p.wait()
        self.assertIsInstance(raised.exception.__cause__, ValueError)

    def test_a_subscriber_cannot_wait_for_its_own_run(self):
        said = []
        def on_frame(frame):
            for call in (p.close, p.wait):
                try:
                    call()
                except millrace.Error as error:
                    said.append(str(error))
            p.stop()
        p = millrace.Pipeline(text=NUMBERS.replace("COUNT", "10"))
        p.subscribe("answers", on_frame)
        p.start()
        p.wait()
        p.close()
        self.assertRegex(said[0], "must not wait for a pipeline's end or change its sources; it may call stop")
        self.assertEqual(said[0], said[1])

    def test_run_says_whose_frames_it_needs(self):
        text = pipeline(dict(numbers='type: "null", frames: 5'), a="type: \"null\"",
                        b="type: jsonl, input: a, path: /dev/null", c="type: jsonl, input: a, path: /dev/null")
        with self.assertRaisesRegex(millrace.Error, "2 sinks: .*stage= one of numbers, a, b, c"):
            millrace.run(text=text)
        self.assertEqual([frame.seq for frame in millrace.run(text=text, stage="a")], [0, 1, 2, 3, 4])
        with self.assertRaisesRegex(millrace.Error, 'no stage "d"'):
            millrace.run(text=text, stage="d")

    def test_the_only_sink_writes_if_there_is_an_output(self):
        text = pipeline(dict(numbers='type: "null", frames: 5'), out="type: jsonl, path: \"-\"")
        output = self.folder / "out.jsonl"
        self.assertEqual(sum(1 for _ in millrace.run(text=text)), 5)
        self.assertEqual(sum(1 for _ in millrace.run(text=text, output=output)), 5)
        self.assertEqual(len(output.read_text().splitlines()), 5)

    def test_wrong_arguments(self):
        p = millrace.Pipeline(text=NUMBERS.replace("COUNT", "1"))
        self.addCleanup(p.close)
        for call, says in ((lambda: millrace.Pipeline(5), "PathLike"), (lambda: millrace.Pipeline(), "text="),
                           (lambda: millrace.run(NUMBERS), "YAML text: give it as text="),
                           (lambda: millrace.Pipeline("p.yaml\0q"), "null byte"),
                           (lambda: millrace.plan(text=NUMBERS + "\0"), "null byte"),
                           (lambda: millrace.plan(text=NUMBERS, input=["a\0b"]), "null byte"),
                           (lambda: millrace.Frame(), "come from pipelines"), (lambda: millrace.Array(), "come from"),
                           (lambda: type(p._core)(), "come from"), (lambda: p.subscribe("answers", 5), "function"),
                           (lambda: p.wait(-1), "at least 0"), (lambda: p.wait("x"), "number"),
                           (lambda: millrace._core.add_stage({}, 5), "list of accepts"),
                           (lambda: millrace._core.open({"path": 5}), "bytes")):
            with self.assertRaisesRegex((TypeError, ValueError), says):
                call()

    def test_paths_that_are_not_utf_8(self):
        """They come back as Python writes them, so that open finds the file."""
        name = os.fsencode(self.folder / "film") + b" \xff.mp4"
        shutil.copy(CLIP, name)
        text = pipeline(dict(video='uri: "x.mp4"'), decode="", answers="type: callback")
        for given in (name, os.fsdecode(name)):
            with millrace.run(text=text, input=given) as run:
                self.assertEqual(os.fsencode(next(run).file), name)

    def test_errors_and_results_go_to_other_processes(self):
        with self.assertRaises(millrace.PipelineError) as raised:
            millrace.Pipeline(text="version: 1\npipeline: [")
        error = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((type(error), str(error), error.exit_code, error.diagnostics),
                         (millrace.PipelineError, str(raised.exception), 78, raised.exception.diagnostics))
        with self.assertRaises(millrace.FramesHeld) as raised:
            list(millrace.run(text=NUMBERS.replace("COUNT", "9"), hold=2))
        self.assertEqual(pickle.loads(pickle.dumps(raised.exception)).exit_code, 75)
        frame = next(millrace.run(text=NUMBERS.replace("COUNT", "1")))
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "take its results"):
                copied(frame)

    def test_tap_gives_a_copy(self):
        text = pipeline(dict(numbers='type: "null", rate: 100fps'), out="type: \"null\"")
        with millrace.Pipeline(text=text) as p:
            p.start()
            frame = p.tap("numbers", 5)
            self.assertEqual((frame.source, frame.kind), ("numbers", "results"))
            with self.assertRaises(millrace.Error):
                p.tap("nobody", 1)
