"""What `plan` expects for cards that are not present, and runs on simulated devices like them: results equal the
processors', bit for bit, with any number of workers. test_expect covers the arithmetic."""
import json

from harness import Case, pipeline

TEXT = pipeline(dict(a='uri: "lavfi:testsrc=size=640x480:rate=100:duration=0.2"'), decode="",
                pre='type: preprocess, size: 32x32, device: "%s"', mean='type: histogram, input: decode, device: "%s"',
                features="type: classify, activation: none, device: cpu", out='type: jsonl, path: "-"',
                trash='type: "null", input: pre')

# Launches per call for each: shrinking the picture, and the feature itself.
LAUNCHES = {"hog": 2, "histogram": 4, "phash": 2, "motion": 4, "sharpness": 3}
CLASSICAL = pipeline(dict(a='uri: "lavfi:testsrc=size=640x480:rate=100:duration=0.2,format=yuv420p"'), name="features",
                     decode="") + "".join(f"""  {name}: {{input: decode, device: "cuda:0"}}
  {name}-end: {{type: "null", input: {name}}}
""" for name in LAUNCHES)


class Expected(Case):
    def plan(self, device, *more):
        done = self.millrace("plan", self.write(TEXT % (device, device)), *more)
        return done.stdout

    def test_a_rate_is_expected_and_said_to_be_a_model(self):
        expected = json.loads(self.plan("cuda:0", "--assume", "cuda:1xH100", "--json"))["expected"]
        self.assertTrue(expected["model"] and expected["upper_bound"])
        (card,) = expected["cards"]
        self.assertEqual((card["like"], card["measured"], card["device"]), ("h100", False, "cuda:0"))
        stages = {stage["id"]: stage for stage in expected["stages"]}
        # RGB24 at 640x480 over 16 lanes with 32 GT/s and 128b/130b coding, eight tenths of it.
        upload = 640 * 480 * 3 / (32e9 * 16 * 128 / 130 / 8 * 0.8) * 1e9
        self.assertAlmostEqual(stages["decode->cuda:0"]["upload_ns"], upload, delta=upload / 100)
        self.assertEqual(expected["limit"], {"what": "uploads", "device": "cuda:0", "stage": "decode->cuda:0"})
        self.assertAlmostEqual(expected["rate"], 1e9 / upload, delta=1e7 / upload)
        self.assertIn("host's processors", stages["decode"]["not_modelled"])
        text = self.plan("cuda:0", "--assume", "cuda:1xH100")
        self.assertIn("expected by this model of bytes and launches, not measured", text)
        self.assertIn("limited by uploads of cuda:0", " ".join(text.split()))
        self.assertIn("not modelled: decode", text)

    def test_launches_and_bytes_of_classical_features_are_counted(self):
        expected = self.planned(CLASSICAL, "--assume", "cuda:1xH100")["expected"]
        stages = {stage["id"]: stage for stage in expected["stages"]}
        (card,) = expected["cards"]
        for name, launches in LAUNCHES.items():
            with self.subTest(name):
                self.assertIsNone(stages[name]["not_modelled"])
                self.assertEqual(stages[name]["launch_ns"], launches * card["launch_ns"])
        # Only luma is read, once; all that is written is a float and its index.
        least = 640 * 480 / card["memory_bytes_s"] * 1e9
        self.assertAlmostEqual(stages["sharpness"]["memory_ns"], least, delta=least / 100)

    def test_nothing_is_expected_of_a_device_that_is_like_no_card(self):
        self.assertIsNone(json.loads(self.plan("sim:0", "--json"))["expected"])
        self.assertNotIn("expected by", self.plan("cuda:0", "--assume", "cuda:1x80GiB"))

    def test_results_are_those_of_the_processors(self):
        def rows(device, workers):
            run = self.run_pipeline(TEXT % (device, device), "--workers", workers, rows=True)
            self.assert_balanced(run)
            return run.rows
        truth = rows("cpu", 1)
        self.assertTrue(truth)
        for workers in (1, 4, 16):
            with self.subTest(workers=workers):
                self.assertEqual(rows("sim:0?like=h100", workers), truth)
