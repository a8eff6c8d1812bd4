"""millrace verify: what it finds, where, and how large it says it is. A simulated device's wrong bit, 0x40 in a word's
third byte, is 64 in an 8-bit value and 2 to the 22 units in a float's last place."""
import json
import signal
import subprocess
import time

from harness import MILLRACE, MODELS, ROOT, SAMPLES, TIMEOUT, Case, blocks, call, need_models, pipeline

PIPELINE = pipeline(dict(lobby='uri: "lavfi:testsrc=size=96x64:duration=4:rate=25"'), decode="",
                    small="type: preprocess, size: 32x32, dtype: %s", colours="type: histogram, input: decode",
                    out="type: jsonl, path: %s")


class Verify(Case):
    def verify(self, pipeline, *arguments, code=0):
        path = self.write(pipeline)
        done = self.millrace("verify", path, "--json", *arguments, code=code)
        return json.loads(done.stdout)

    def pipeline(self, dtype="f32"):
        return PIPELINE % (dtype, self.folder / "out.jsonl")

    def output(self, told, stage):
        return next(one for one in told["outputs"] if one["stage"] == stage)

    def test_equal_devices(self):
        told = self.verify(self.pipeline(), "--tolerance", "0")
        self.assertTrue(told["within"])
        self.assertEqual(told["on"], "cpu")
        self.assertEqual([one["stage"] for one in told["outputs"]], ["decode", "small", "colours"])
        for one in told["outputs"]:
            self.assertEqual((one["frames"], one["first"]), (100, None))
            for what in one["gives"]:
                self.assertEqual((what["largest"], what["values_differing"], what["frames"]), (0, 0, 100))
        small = self.output(told, "small")["gives"][0]
        self.assertEqual((small["kind"], small["values"]), ("tensor", 100 * 3 * 32 * 32))
        self.assertFalse((self.folder / "out.jsonl").exists())

    def test_one_wrong_value_is_found(self):
        """The wrong bit is in the stage that works on the frame first. It is small in a histogram, so nothing is
        tolerated."""
        told = self.verify(self.pipeline(), "--against", "sim:0?corrupt=38", "--tolerance", "0", code=1)
        found = [one for one in told["outputs"] if not one["within"]]
        self.assertEqual(len(found), 1)
        first, what = found[0]["first"], found[0]["gives"][0]
        self.assertIn(found[0]["stage"], ("small", "colours"))
        self.assertEqual((first["source"], first["seq"], first["only_on"]), ("lobby", 37, None))
        self.assertEqual(what["frames_differing"], 1)
        if found[0]["stage"] == "small":  # a histogram is computed from the wrong value
            self.assertEqual((what["values_differing"], what["largest_ulps"]), (1, 1 << 22))
            self.assertAlmostEqual(what["mean"] * what["values"], what["largest"], delta=1e-4 * what["largest"])
        self.assertAlmostEqual(first["error"], what["largest"], delta=1e-6 * what["largest"])

    def test_the_size_of_the_error_and_the_tolerance(self):
        """Only one stage is on devices; 64 in an 8-bit value is within 64, and exceeds anything less."""
        pipeline = self.pipeline("u8").replace("  colours: {type: histogram, input: decode}\n", "").replace(
            "input: colours", "input: small")
        told = self.verify(pipeline, "--against", "sim:0?corrupt=5", "--tolerance", "63", code=1)
        small = self.output(told, "small")
        self.assertEqual((small["first"]["seq"], small["first"]["error"]), (4, 64))
        self.assertEqual((small["gives"][0]["largest"], small["gives"][0]["values_beyond"]), (64, 1))
        self.assertNotIn("largest_ulps", small["gives"][0])
        told = self.verify(pipeline, "--against", "sim:0?corrupt=5", "--tolerance", "64")
        self.assertEqual(self.output(told, "small")["first"]["error"], 64)
        text = self.millrace("verify", self.folder / "pipeline.yaml", "--against", "sim:0?corrupt=5", code=1)
        self.assertIn("small: the first frame that differs is lobby:4, in tensor u8 3x32x32 by 64\n", text.stdout)
        self.assertIn("1 of 2 outputs beyond the tolerance", text.stdout)

    def test_frames_that_only_one_side_has(self):
        told = self.verify(self.pipeline(), "--against", "sim:0?fail_after=1", "--frames", "20", code=1)
        for stage in ("decode", "small"):
            one = self.output(told, stage)
            self.assertEqual((one["frames"], one["frames_only_on"], one["frames_only_against"]), (0, 20, 0))
            self.assertEqual((one["first"]["seq"], one["first"]["only_on"]), (0, "cpu"))

    def test_two_simulated_devices_and_a_device_of_the_file(self):
        pipeline = self.pipeline().replace("size: 32x32", "size: 32x32, device: [sim:3, sim:4]")
        told = self.verify(pipeline, "--on", "sim:1", "--against", "sim:2", "--frames", "10", "--workers", "1")
        self.assertEqual((told["on"], told["against"], told["within"]), ("sim:1", "sim:2", True))
        self.assertEqual(self.output(told, "small")["frames"], 10)

    def test_decoders_are_compared_by_software(self):
        """A GPU's decoder gives another layout; what the file requires is set aside, and becomes valid again when
        repeated."""
        text = self.pipeline().replace("decode: {input: lobby}", "decode: {input: lobby, hardware: require}")
        told = self.verify(text, "--against", "sim:0", "--frames", "5")
        self.assertEqual(self.output(told, "decode")["frames"], 5)
        self.millrace("verify", self.folder / "pipeline.yaml", "--against", "sim:0", "--set",
                      "stages.decode.hardware=require", code=78, says="hardware: require needs a CUDA device")

    def test_sources_keep_step_and_nothing_is_dropped(self):
        """A paced source, with a deadline and a queue that drops, next to a much longer one."""
        told = self.verify(pipeline(
            dict(slow='type: "null", format: I420 64x64, frames: 20, rate: 40fps, deadline: 1ms',
                 fast='type: "null", format: I420 64x64, frames: 3000'),
            small="type: preprocess, size: 16x16, queue: {size: 8, when_full: drop-oldest}", done='type: "null"'),
            "--against", "sim:0")
        self.assertEqual(self.output(told, "small")["frames"], 3020)

    def test_interrupted(self):
        """Compared frames are shown. Frames that only one side has read do not count against the other. At first the
        signal may come before any frame was compared."""
        path = self.write(self.pipeline().replace(":duration=4", ""))
        wait, seen = 0.001, None
        while seen != 0:
            child = self.spawn([MILLRACE, "verify", path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
            self.wait_until(lambda: blocks(child.pid, signal.SIGINT), "signals are not blocked", child, pause=0)
            time.sleep(wait)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=TIMEOUT)
            seen = child.returncode
            self.assertIn((seen, "no frame came" in err), ((65, True), (0, False)), err)
            self.assertLess(wait, TIMEOUT, "it never begins")
            wait *= 2
        self.assertGreater(max(one["frames"] for one in json.loads(out)["outputs"]), 0)

    def test_a_network(self):
        need_models()
        done = self.millrace("verify", ROOT / "pipelines/classify-video.yaml", "--input", SAMPLES / "realshort.mp4",
                             "--frames", "12", "--json", environment={"MODELS": str(MODELS)})
        told = json.loads(done.stdout)
        classes = [what for one in told["outputs"] for what in one["gives"] if what["kind"] == "classes"]
        self.assertEqual((classes[0]["frames"], classes[0]["places_differing"], classes[0]["largest"]), (12, 0, 0))

    def test_what_cannot_be_verified(self):
        nothing = pipeline(dict(clock='type: "null", frames: 3'), name="nothing", done='type: "null"')
        for arguments, code, words in (
                (("--on", "gpu"), 64, "there is no device \"gpu\""),
                (("--tolerance", "-1"), 64, "--tolerance takes a number"),
                (("--frames", "0"), 64, "--frames takes a number"),
                (("--against", "sim:0?corupt=3"), 64, "has no parameter \"corupt\""),
        ):
            self.millrace("verify", self.write(self.pipeline()), *arguments, code=code, says=words)
        self.millrace("verify", self.write(nothing), code=78, says="no stage of this pipeline works on devices")
        first = "compare its first frames with --frames N"
        for source, decode, words in (("uri: clip.mp4, loop: true", {"decode": ""}, first),
                                      ("uri: 'rtsp://127.0.0.1:9/a'", {"decode": ""},
                                       f"{first}, or verify a recording of it"),
                                      ('type: "null", format: I420 64x64', {}, first)):
            done = call([MILLRACE, "verify", self.write(pipeline(
                dict(cam=source), **decode, small="type: preprocess, size: 16x16", done='type: "null"'))])
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn(f"source cam has no end: {words}\n", done.stderr)
        self.millrace("verify", self.folder / "missing.yaml", code=66)
        self.millrace("verify", code=64)
