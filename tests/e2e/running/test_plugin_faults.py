"""Mistakes that authors of plugins make: each is reported with the stage's place, and ends the run without a crash."""
import subprocess

from harness import MILLRACE, ROOT, Case, call, main, pipeline

SOURCE = dict(camera='uri: "lavfi:color=gray:size=32x32:rate=25:duration=4,format=gray"')
AUTHOR = 'the stage type "faulty"'


class Faults(Case):
    def setUp(self):
        super().setUp()
        done = call(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT}/engine/include",
                     ROOT / "tests/plugin/faults.c", "-o", self.folder / "libfaults.so"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def faulty(self, fault, top=""):
        return pipeline(SOURCE, top=f"plugins: libfaults.so\n{top}", decode="",
                        small="type: preprocess, size: 16", find=f'type: faulty, fault: "{fault}"', rows="type: jsonl")

    def read_twice(self, fault):
        """Two stages read the same frames, one of them faulty."""
        return pipeline(SOURCE, top="plugins: libfaults.so", decode="", small="type: preprocess, size: 16",
                        marked='type: faulty, fault: "classes"',
                        find=f'type: faulty, input: marked, fault: "{fault}"',
                        rows="type: jsonl", other="type: callback, input: marked")

    def test_misuse_of_a_call_ends_the_run_with_a_message(self):
        for fault, says in [("twice", "forwards an input that it does not have; its author must forward each input"),
                            ("index", "forwards an input that it does not have"),
                            ("port", "emits on an output that it does not have"),
                            ("null", "emits NULL"),
                            ("count", "says that a result has more elements than it asked room for"),
                            ("items", "gives an element items that are not among those of its result"),
                            ("answer", "returned 12345; its author must return a value of mr_answer")]:
            with self.subTest(fault):
                run = self.run_pipeline(self.faulty(fault), code=70)
                self.assertIn(f"{AUTHOR} {says}", run.err)
                self.assert_balanced(run)

    def test_a_failure_without_a_message_has_the_words_of_its_status(self):
        for fault, code, says in [("negotiate", 69, "stages.find: not available"),
                                  ("open", 69, "find: not available"),
                                  ("process", 0, "find: bad data")]:
            with self.subTest(fault):
                run = self.run_pipeline(self.faulty(fault), code=code)
                self.assertIn(says, run.err)

    def test_an_exit_is_no_end_of_the_run(self):
        done = call([MILLRACE, "run", self.write(self.faulty("exit")), "--workers", "8"], cwd=self.folder)
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertIn("a stage or library has called exit: the run ends at once", done.stderr)

    def test_a_message_belongs_to_one_failure(self):
        run = self.run_pipeline(self.faulty("spoken"), "--workers", "1")
        self.assertIn("find: the first reason\n", run.err)
        self.assertIn("find: not available", run.err)

    def test_a_stage_that_changes_its_input_is_found(self):
        for fault, says in [("paint", "changes the picture or data of its input, which other stages may read; its "
                                      "author must call mr_promise_changes in negotiate, and mr_io_change before"),
                            ("score", "changes a result of its input, which other stages may read"),
                            ("time", "changes its input, which other stages may read")]:
            for workers in "1", "4":
                with self.subTest(fault, workers=workers):
                    run = self.run_pipeline(self.read_twice(fault), "--check-stages", "--workers", workers, code=70)
                    self.assertIn(f": find: {AUTHOR} {says}", run.err)
                    self.assert_balanced(run)
        run = self.run_pipeline(self.read_twice("none"), "--check-stages")
        self.assert_balanced(run)

    def test_verify_finds_a_stage_that_changes_its_input(self):
        file = self.write(self.read_twice("paint"))
        done = call([MILLRACE, "verify", file, "--against", "sim:0", "--frames", "5"])
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertIn(f"find: {AUTHOR} changes the picture or data of its input", done.stderr)

    def test_frames_that_a_stage_keeps_to_the_end_are_not_balanced(self):
        run = self.run_pipeline(self.faulty("keep").replace("duration=4", "duration=0.2"), code=70)
        self.assertIn("the ledger of camera does not balance: 5 frames in, 0 accounted for", run.err)
        self.assertFalse(run.ledger["balanced"])

    def test_a_stage_that_keeps_its_frames_is_reported(self):
        log = self.folder / "log"
        pattern = r"warning: \d+ frames are in flight, and none has moved for \d s: a stage keeps frames"
        with open(log, "w") as stream:
            child = self.spawn([MILLRACE, "run", self.write(self.faulty("keep", "http: {stall: 1s}"))],
                               stderr=stream, stdout=subprocess.DEVNULL)
        self.wait_until(lambda: "none has moved" in log.read_text(), log, running=child)
        self.assertRegex(log.read_text(), pattern)


if __name__ == "__main__":
    main()
