"""millrace devices: what it reports about this machine, with or without a GPU. tests/device/probe/test_gpu.c covers
every situation."""
import json
import os
import platform
import pathlib
import re
import signal
import subprocess
import unittest

from harness import MILLRACE, Case, call, pipeline

GPUS = any(re.fullmatch(r"nvidia\d+", name) for name in os.listdir("/dev"))


FAILING = pipeline(dict(a='uri: "lavfi:testsrc=size=64x48:rate=25:duration=2"'), decode="",
                   hash='type: phash, device: "sim:0?fail_every=7"', out="type: jsonl, tensors: true")


class Devices(Case):
    def told(self, *arguments, environment=None):
        done = self.millrace("devices", *arguments, environment=environment)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_processors(self):
        cpu = json.loads(self.told("--json"))["cpu"]
        self.assertEqual(cpu["cores"], os.cpu_count())
        self.assertLessEqual(1, cpu["usable_cores"])
        self.assertLessEqual(cpu["usable_cores"], len(os.sched_getaffinity(0)))
        self.assertEqual(cpu["memory_bytes"], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"))
        self.assertLessEqual(cpu["available_bytes"], cpu["memory_bytes"])
        self.assertIn(cpu["kernels"], ("c", "neon", "avx2", "avx512"))
        text = self.told()
        self.assertIn(f"{cpu['usable_cores']} of {cpu['cores']} core", text)
        self.assertIn(f"kernels: {cpu['kernels']}", text)

    def test_without_proc(self):
        """In a chroot, for example. What is not known is not shown as 0."""
        done = call(["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" devices', MILLRACE])
        if "unshare:" in done.stderr or "mount:" in done.stderr:
            self.skipTest(f"nothing can be mounted here: {done.stderr.strip()}")
        self.assertRegex(done.stdout, r" GiB memory\n")
        self.assertNotIn("available", done.stdout)

    def test_kernels_can_be_named(self):
        named = {**os.environ, "MILLRACE_KERNELS": "c"}
        self.assertEqual(json.loads(self.told("--json", environment=named))["cpu"]["kernels"], "c")
        self.assertIn("kernels: c\n", self.told(environment=named))
        self.millrace("devices", says='MILLRACE_KERNELS is "sse", which is not c, neon, avx2 or avx512',
                      environment={**os.environ, "MILLRACE_KERNELS": "sse"})
        other, here = ("avx2", "neon") if platform.machine() == "aarch64" else ("neon", "c")
        self.millrace("devices", says=f'MILLRACE_KERNELS is "{other}", which this processor lacks: {here} is used',
                      environment={**os.environ, "MILLRACE_KERNELS": other})

    def test_simulated_devices_are_always_there(self):
        self.assertTrue(json.loads(self.told("--json"))["sim"]["usable"])
        self.assertRegex(self.told(), r"(?m)^sim:N .*always there$")

    def test_models_are_those_that_like_knows(self):
        models = json.loads(self.told("--models", "--json"))["models"]
        names = [model["like"] for model in models]
        self.assertEqual(names, sorted(set(names)))
        refused = call([MILLRACE, "plan", self.write(FAILING.replace("fail_every=7", "like=nothing"))])
        self.assertIn(f"there are {', '.join(names)}, and files", refused.stderr)
        (h100,) = [model for model in models if model["like"] == "h100"]
        self.assertEqual((h100["memory_bytes"], h100["measured"]), (80 << 30, False))
        rows = [line.split() for line in self.told("--models").splitlines()]
        self.assertEqual(rows[0][0], "like")
        self.assertEqual([row[0] for row in rows[1:] if row and row[0] in names], names)
        for model in models:
            with self.subTest(model["like"]):
                planned = call([MILLRACE, "plan", self.write(FAILING.replace("fail_every=7", "like=" + model["like"])),
                                "--json"])
                (card,) = json.loads(planned.stdout)["expected"]["cards"]
                self.assertEqual(card.pop("device"), "sim:0?like=" + model["like"])
                self.assertEqual(model.keys(), card.keys())
                for key, value in model.items():
                    if isinstance(value, float):
                        self.assertAlmostEqual(card[key], value, delta=value / 1e5)
                    else:
                        self.assertEqual(card[key], value)

    def test_a_device_that_fails_is_told_of(self):
        """The device's work fails long after the call that submitted it: even without a summary, the reason for missing
        frames
        must be reported."""
        run = self.run_pipeline(FAILING)
        self.assert_balanced(run)
        lost = sum(one["frames"] for one in run.ledger["dropped"] if one["reason"] == "device error")
        self.assertGreater(lost, 0)
        self.assertEqual(run.ledger["delivered"], 50 - lost)
        self.assertIn(": sim:0 has failed; its frames are dropped", run.err)

    def test_without_a_gpu_it_says_what_is_wrong(self):
        if GPUS:
            self.skipTest("this machine has a GPU")
        cuda = json.loads(self.told("--json"))["cuda"]
        self.assertEqual(cuda["devices"], [])
        self.assertIsNone(cuda["driver_cuda"])
        finding = cuda["findings"][0]
        self.assertTrue(finding["fatal"])
        self.assertIn(finding["code"], ("no-gpu", "no-driver", "no-driver-library"))
        text = self.told()
        self.assertIn("NVIDIA driver", text)
        self.assertIn(f"cannot be used: {finding['what']}\n", text)
        self.assertIn(f"to mend it: {finding['mend']}\n", text)

    def test_with_a_gpu_it_is_shown(self):
        if not GPUS:
            self.skipTest("no GPU")
        gpu = json.loads(self.told("--json"))["cuda"]["devices"][0]
        self.assertEqual(gpu["name"], "cuda:0")
        self.assertGreater(gpu["memory_bytes"], 0)
        self.assertIn(gpu["uuid"], self.told())

    def test_a_gpu_by_its_uuid(self):
        uuid = "GPU-00000000-1111-2222-3333-444444444444"
        text = pipeline(dict(clock='type: "null", format: I420 64x64, frames: 3'),
                        preprocess=f'size: 32x32, device: "cuda:{uuid}"', out='type: "null"')
        run = self.run_pipeline(text, verb="check", rows=False, code=None)
        self.assertNotIn("is not a device", run.err)
        wrong = self.run_pipeline(text.replace("-1111", "-111"), verb="check", rows=False, code=78)
        self.assertIn("is not a device", wrong.err)

    def test_arguments(self):
        self.assertEqual(call([MILLRACE, "devices", "x"]).returncode, 64)
        self.assertEqual(call([MILLRACE, "devices", "--jsn"]).returncode, 64)


FAKE_BOARD = pathlib.Path(MILLRACE).parent / "tests/libfake_board.so"


class Board(Case):
    """A board's V4L2 decoder, which tests/fakes/board.c imitates."""

    @classmethod
    def setUpClass(cls):
        if not FAKE_BOARD.exists():
            raise unittest.SkipTest(f"no {FAKE_BOARD}: build the tests")
        cls.board = {**os.environ, "LD_PRELOAD": str(FAKE_BOARD)}

    def clip(self, name, *layout):
        made = self.folder / name
        self.checked(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=96x64:rate=25:duration=1", "-c:v",
                      "libx264", "-pix_fmt", *layout, made])
        return made

    def rows(self, clip, *arguments, environment=None, **options):
        text = pipeline(dict(a=f"uri: {clip}"), decode="", small="type: preprocess, size: 24x16, dtype: u8",
                        out="type: jsonl, path: '-', features: true")
        return self.millrace("run", self.write(text), *arguments, environment=environment, **options)

    def test_decoders_are_listed(self):
        told = self.millrace("devices", environment=self.board).stdout
        self.assertIn("V4L2 decodes h264 up to 1920x1088 (/dev/video19, imitated-decoder)\n", told)
        cpu = json.loads(self.millrace("devices", "--json", environment=self.board).stdout)["cpu"]
        self.assertEqual([one["codec"] for one in cpu["decoders"]], ["h264", "hevc"])
        self.assertEqual(cpu["decoders"][0]["node"], "/dev/video19")

    def test_it_decodes_what_it_can_and_says_so(self):
        clip = self.clip("a.mp4", "yuv420p")
        software = self.rows(clip)
        board = self.rows(clip, "--log", "info", environment=self.board, says="a is decoded by V4L2, with libavcodec's "
                                                                            "h264_v4l2m2m")
        self.assertEqual(len(board.stdout.splitlines()), 25)
        self.assertEqual(board.stdout, software.stdout)
        planned = self.millrace("plan", self.folder / "pipeline.yaml", environment=self.board).stdout
        self.assertIn("decodes with V4L2: /dev/video19 (imitated-decoder)", planned)

    def test_software_takes_over(self):
        clip = self.clip("a.mp4", "yuv420p")
        failing = {**self.board, "FAKE_BOARD_START_ERROR": "28"}
        board = self.rows(clip, environment=failing, says="a is decoded by software from here on: V4L2 gave no picture")
        self.assertEqual(board.stdout, self.rows(clip).stdout)
        self.rows(clip, "--set", "stages.decode.hardware=require", environment=failing, code=69,
                  says="V4L2 gave no picture")

    def test_a_driver_that_hangs_ends_with_the_grace_time(self):
        """Nothing can interrupt libavcodec's wait for a picture."""
        rows = self.folder / "rows.jsonl"
        text = pipeline(dict(a=f"uri: {self.clip('a.mp4', 'yuv420p')}"), decode="", out=f"type: jsonl, path: {rows}")
        child = self.spawn([MILLRACE, "run", self.write(text), "--grace", "1s"], stderr=subprocess.PIPE, text=True,
                           env={**self.board, "FAKE_BOARD_HANGS_AFTER": "5"})
        self.wait_until(lambda: rows.exists() and rows.read_text().count("\n") == 4, "no rows")
        error = self.ended(child, signal.SIGTERM, code=70)[1]
        self.assertIn("a call of a stage has not returned: the frames in flight are lost", error)
        self.assertIn("ledger: 25 in = 4 delivered + 0 dropped + 0 absorbed + 21 in flight: balanced", error)

    def test_what_it_cannot_decode_is_named(self):
        clip = self.clip("b.mp4", "yuv444p")
        self.rows(clip, environment=self.board)
        planned = self.millrace("plan", self.folder / "pipeline.yaml", environment=self.board).stdout
        self.assertIn("decodes by software (h264): V4L2 decodes only 4:2:0 of 8 bits", planned)
        self.rows(clip, "--set", "stages.decode.hardware=require", environment=self.board, code=78,
                  says="hardware: require cannot be: V4L2 decodes only 4:2:0 of 8 bits here; write hardware: auto")
        self.rows(clip, "--set", "stages.decode.hardware=require", code=78,
                  says="hardware: require needs a CUDA device or a V4L2 decoder, and no /dev/video* of this machine is "
                       "a V4L2 decoder; write device: cuda:0, or hardware: auto")
