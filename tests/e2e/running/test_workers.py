"""Runs with an asynchronous device end with any number of workers: finished device work wakes everybody who
waits for it, however many. More in tests/base/test_waiting.c."""
import numpy as np

from harness import MILLRACE, Case, call, pipeline

COUNTS = (4, 8, 16)
SLOW = "sim:0?min_delay=200us&max_delay=1ms"

# `out` has as many entries as there are workers, and each waits for what `pre` gives.
ONE = pipeline(dict(a='uri: "lavfi:testsrc=size=64x48:rate=100:duration=0.5"'), top="workers: 8", decode="",
               pre=f'type: preprocess, size: 16x16, device: "{SLOW}"', out='type: "null"')
TWO = ONE + """\
  more: {type: "null", input: pre}
"""
FAST = ONE.replace(SLOW, "sim:0").replace("duration=0.5", "duration=0.1")

CLASSES = pipeline(dict(a='type: "null", format: GRAY8 64x128, frames: 50'), hog=f'device: "{SLOW}"',
                   classify="weights: head.npy, top_k: 1, device: cpu", out='type: jsonl, path: "-"')


class Workers(Case):
    def expect_all(self, text, frames, counts=COUNTS, times=1):
        for workers in [count for count in counts for _ in range(times)]:
            with self.subTest(workers=workers):
                run = self.run_pipeline(text, "--workers", workers, rows="jsonl" in text)
                self.assert_balanced(run)
                self.assertEqual(run.ledger["delivered"], frames)
                self.assertEqual(run.ledger["dropped"], [])
                self.assert_in_order(run.rows)

    def test_one_sink_behind_a_device(self):
        self.expect_all(ONE, 50)

    def test_two_sinks_behind_a_device(self):
        self.expect_all(TWO, 50)

    def test_work_that_is_almost_done(self):
        self.expect_all(FAST, 10, counts=(8, 16), times=4)

    def test_features_on_a_device_and_classes_on_the_processors(self):
        np.save(self.folder / "head.npy", np.random.default_rng(1).normal(size=(4, 3781)).astype("f4"))
        self.expect_all(CLASSES.replace("head.npy", str(self.folder / "head.npy")), 50)


class Threads(Case):
    def test_one_that_cannot_be_started(self):
        """It is named with the reason: its stack would need more addresses than there are."""
        done = call(["prlimit", "--stack=200000000000000", MILLRACE, "run", self.write(FAST)])
        self.assertEqual(done.returncode, 71, done.stderr)
        self.assertRegex(done.stderr, r"cannot start .*: Resource temporarily unavailable; the limit of threads \(")
