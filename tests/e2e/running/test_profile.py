"""Stage costs: `millrace plan --profile`, and plans made from measurements."""
import json
import os

from harness import MILLRACE, MODELS, SAMPLES, Case, need_models, pipeline
from plans import SMALL, plan

# Seconds for pipelines that end; not all are needed.
WHOLE = "60"


class Costs(Case):
    """A profile's measurements decide where `device: auto` puts stages: in plans, drawings and runs alike."""
    TEXT = pipeline({"in": 'type: "null", format: RGB24 64x64, frames: 400'}, name="spread",
                    devices=dict(one='device: "sim:0?call=2ms"', two='device: "sim:1?call=2ms"'),
                    small="type: preprocess, size: 32x32, device: auto", done='type: "null"')

    def test_a_profile_balances_later_plans_and_runs(self):
        path, costs = self.write(self.TEXT), self.folder / "costs.json"
        first = plan(path, "--profile", "0.5", "--json")
        self.assertEqual(first.returncode, 0, first.stderr)
        costs.write_text(first.stdout)
        measured = {cost["id"]: cost for cost in json.loads(first.stdout)["profile"]["costs"]}
        self.assertGreaterEqual(measured["small"]["device_ns"], 1e6)
        self.assertIsNone(measured["done"]["device_ns"])
        small = next(stage for stage in json.loads(first.stdout)["stages"] if stage["id"] == "small")
        self.assertEqual(small["devices"], ["sim:0?call=2ms"])
        again = plan(path, "--costs", costs, "--json")
        self.assertEqual(again.returncode, 0, again.stderr)
        small = next(stage for stage in json.loads(again.stdout)["stages"] if stage["id"] == "small")
        self.assertEqual(small["devices"], ["sim:0?call=2ms", "sim:1?call=2ms"])
        self.assertIn("spread over 2 devices", small["device_reason"])
        self.assertEqual(plan(path, "--costs", costs, "--json").stdout, again.stdout)
        done = self.millrace("run", path, "--costs", costs, "--json")
        stage = next(stage for stage in json.loads(done.stdout)["stages"] if stage["id"] == "small")
        self.assertEqual([share["name"] for share in stage["devices"]], small["devices"])
        self.assertEqual(sum(share["frames"] for share in stage["devices"]), 400)
        self.assertTrue(all(share["frames"] and share["state"] == "works" for share in stage["devices"]))

    def test_what_is_no_profile_is_refused(self):
        path = self.write(self.TEXT)
        unprofiled, broken = self.folder / "plan.json", self.folder / "broken.json"
        unprofiled.write_text(plan(path, "--json").stdout)
        broken.write_text("{\"profile\": ")
        for file, code, said in ((unprofiled, 65, "holds no profile"), (broken, 65, "is not JSON"),
                                 (self.folder / "none.json", 66, "No such file")):
            for verb in ("plan", "run", "graph"):
                self.millrace(verb, path, "--costs", file, code=code, says=("millrace: error: ", said))


class Profile(Case):
    """A profile's report on pipelines whose costs are far apart; no test here asks how fast anything is."""

    UNEVEN = pipeline(dict(pictures='type: "null", format: RGB24 640x480'),
                      light="type: preprocess, size: 8x8, interpolation: nearest",
                      heavy="type: preprocess, input: pictures, size: 1600x1200, interpolation: bicubicIN_FLIGHT",
                      both='type: "null", input: [light, heavy]')

    def profiled(self, text, *arguments, seconds="0.5", **options):
        path = self.write(text)
        words = [MILLRACE, "plan", path, "--workers", "2", "--profile", seconds, "--json", *arguments]
        done = self.checked(words, **options)
        return json.loads(done.stdout)["profile"]

    def test_the_stage_that_costs_most_is_named(self):
        profile = self.profiled(self.UNEVEN.replace("IN_FLIGHT", ""))
        costs = {cost["id"]: cost for cost in profile["costs"]}
        self.assertGreater(costs["heavy"]["cpu_ns"], 50 * costs["light"]["cpu_ns"])
        self.assertGreater(costs["heavy"]["cpu_share"], 0.8)
        self.assertLessEqual(sum(cost["cpu_share"] for cost in profile["costs"]), 1.05)
        self.assertEqual(profile["bottleneck"]["stage"], "heavy")
        self.assertGreater(profile["frames"], 0)
        self.assertEqual(profile["dropped"], 0)
        self.assertFalse(profile["ended"])
        self.assertIsNone(profile["expected"]["run_s"])

    def test_one_thread_may_be_the_limit(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("needs two cores")
        profile = self.profiled(self.UNEVEN.replace("IN_FLIGHT", ", in_flight: 1"))
        self.assertEqual(profile["bottleneck"], {"kind": "stage", "stage": "heavy"})

    def applied(self, text, cure):
        """The pipeline with the remedy applied, as `--set` words."""
        key, _, value = cure["set"].partition(": ")
        place = f"stages.{cure['stage']}." if cure["stage"] else ""
        return self.profiled(text, "--set", f"{place}{key}={value}", seconds="1")

    ON_DEVICE = pipeline({"in": 'type: "null", format: RGB24 64x64'}, name="device",
                         devices=dict(one='device: "sim:0?call=20ms"', two='device: "sim:1?call=20ms"'),
                         small="type: preprocess, size: 32x32, device: one", done='type: "null"')

    def test_a_device_that_is_busy_is_the_limit_and_another_cures_it(self):
        """Cores are free, so they are not the limit; the remedy gives what it promises."""
        profile = self.profiled(self.ON_DEVICE, seconds="1")
        self.assertEqual(profile["bottleneck"], {"kind": "device", "stage": "small"})
        (cure,) = [cure for cure in profile["cures"] if cure["set"].startswith("device:")]
        self.assertEqual((cure["stage"], cure["set"]), ("small", "device: [one, two]"))
        self.assertAlmostEqual(cure["rate"] / profile["expected"]["rate"], 2, delta=0.1)
        cured = self.applied(self.ON_DEVICE, cure)
        self.assertGreater(cured["expected"]["rate"], 1.5 * profile["expected"]["rate"])

    def test_a_batch_is_a_cure_of_a_device_whose_calls_cost_most(self):
        text = self.ON_DEVICE.replace("32x32", "224x224").replace("64x64", "320x240") + """\
  network: {type: features, input: small, model: "MODEL", device: "sim:2?call=50ms"}
  last: {type: "null", input: network}
""".replace("MODEL", str(MODELS / "lite0-features.onnx"))
        need_models()
        text = text.replace("device: one", "device: cpu")
        profile = self.profiled(text, seconds="2")
        self.assertEqual(profile["bottleneck"]["stage"], "network")
        if profile["bottleneck"]["kind"] != "device":  # The network itself took more than the calls.
            self.skipTest("the processors were too busy for the network")
        (cure,) = [cure for cure in profile["cures"] if cure["set"].startswith("batch:")]
        self.assertIsNone(cure["rate"])

    def test_calls_in_flight_cure_a_stage_that_takes_one_at_a_time(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("needs two cores")
        profile = self.profiled(self.UNEVEN.replace("IN_FLIGHT", ", in_flight: 1"))
        if profile["bottleneck"]["kind"] != "stage":
            self.skipTest("other processes took the cores")
        self.assertIn(("heavy", "in_flight: 4"), [(cure["stage"], cure["set"]) for cure in profile["cures"]])

    def test_more_workers_are_a_cure_where_there_are_more_cores(self):
        cores = len(os.sched_getaffinity(0))
        if cores < 2:
            self.skipTest("needs two cores")
        profile = self.profiled(self.UNEVEN.replace("IN_FLIGHT", ""), "--workers", "1")
        self.assertEqual(profile["bottleneck"], {"kind": "workers", "stage": "heavy"})
        (cure,) = profile["cures"]
        self.assertEqual((cure["stage"], cure["set"]), (None, f"workers: {cores}"))
        self.assertGreater(cure["rate"], 1.5 * profile["expected"]["rate"])

    def test_nothing_is_said_where_nothing_is_known_to_help(self):
        profile = self.profiled(pipeline(dict(clock='type: "null", rate: 20fps'), name="slow", null=""))
        self.assertEqual(profile["cures"], [])

    def test_fewer_frames_and_another_network_cure_the_processors(self):
        """Another network is not suggested for an integer network. No cure promises more than half the frames."""
        need_models()
        text = pipeline(dict(video=f'uri: "{SAMPLES}/realshort.mp4", loop: true'), name="heavy", decode="",
                        preprocess="fit: center-crop, mean: 127, std: 128", network='type: infer, model: "MODEL"',
                        last='type: "null"')
        profile = self.profiled(text.replace("MODEL", str(MODELS / "lite0.onnx")), seconds="1")
        self.assertEqual(profile["bottleneck"]["stage"], "network")
        self.assertIn(profile["bottleneck"]["kind"], ("processors", "other processes"))
        cures = {cure["set"]: cure for cure in profile["cures"]}
        self.assertEqual(set(cures), {"model: one of int8", "every: 2"})
        self.assertLess(cures["every: 2"]["rate"], 2.01 * profile["expected"]["rate"])
        profile = self.profiled(text.replace("MODEL", str(MODELS / "lite0-int8.onnx")), seconds="1")
        self.assertNotIn("model: one of int8", [cure["set"] for cure in profile["cures"]])

    def test_sources_may_be_the_limit(self):
        profile = self.profiled(pipeline(dict(clock='type: "null", rate: 20fps'), name="slow", null=""))
        self.assertEqual(profile["bottleneck"]["kind"], "sources")
        self.assertLessEqual(profile["expected"]["rate"], 20)

    def test_deadlines_are_compared_with_what_was_measured(self):
        text = self.UNEVEN.replace("1600x1200", "3200x2400").replace("IN_FLIGHT", ", in_flight: 1")
        text = text.replace("format:", "rate: 5fps, deadline: DEADLINE, format:")
        profile = self.profiled(text.replace("DEADLINE", "1h"))
        self.assertEqual((profile["deadlines"], profile["diagnostics"]), (1, []))
        late = text.replace("DEADLINE", "8ms")
        profile = self.profiled(late, seconds="2")
        (warning,) = profile["diagnostics"]
        self.assertIn("sources.pictures.deadline: 8ms is less than", warning["message"])
        done = plan(self.write(late), "--profile", "2", "--deny-warnings")
        self.assertEqual(done.returncode, 78)
        self.assertIn("deadlines: 0 of 1 can be met", done.stdout)
        self.assertIn("--deny-warnings", done.stderr)

    def test_what_ends_is_told_as_it_was(self):
        profile = self.profiled(pipeline(dict(few='type: "null", frames: 1000'), null=""), seconds=WHOLE)
        self.assertTrue(profile["ended"])
        self.assertEqual(profile["frames"], 1000)
        self.assertGreater(profile["expected"]["run_s"], 0)

    def test_nodes_are_measured_in_one_process(self):
        """The plan is still the nodes', and errors in it are reported first."""
        text = (pipeline({"in": 'type: "null", format: RGB24 64x64, frames: 50'}, name="nodes",
                         small="type: preprocess, size: 32x32", done='type: "null"',
                         nodes=dict(left="stages: small", right="stages: DONE")))
        path = self.write(text.replace("DONE", "done"))
        told = json.loads(plan(path, "--profile", WHOLE, "--json").stdout)
        self.assertEqual([process["name"] for process in told["processes"]], ["left", "right"])
        self.assertEqual([cut["name"] for cut in told["cuts"]], ["small->right"])
        self.assertEqual([(cost["id"], cost["frames"]) for cost in told["profile"]["costs"]],
                         [("in", 50), ("small", 50), ("done", 50)])
        self.assertIn("measured in one process", " ".join(plan(path, "--profile", WHOLE).stdout.split()))
        done = plan(self.write(text.replace("DONE", "dome")), "--profile", "5")
        self.assertEqual(done.returncode, 78)
        self.assertIn('there is no stage "dome"', done.stderr)
        self.assertEqual(done.stdout, "")

    def test_threads_of_libraries_count_for_their_stage(self):
        profile = self.profiled(pipeline(dict(video=f'uri: "{SAMPLES}/cockatoo.mp4", loop: true'), decode="threads: 2",
                                         null=""))
        costs = {cost["id"]: cost for cost in profile["costs"]}
        self.assertEqual(profile["bottleneck"]["stage"], "decode")
        self.assertGreater(costs["decode"]["cpu_share"], 0.8)

    def test_nothing_is_written(self):
        kept = self.folder / "kept.jsonl"
        kept.write_text("what was there\n")
        aside = self.folder / "aside"
        aside.mkdir()
        text = pipeline(dict(pictures='type: "null", format: RGB24 32x32, frames: 20'),
                        lines="type: jsonl, path: kept.jsonl", rows='type: csv, input: pictures, path: "-"',
                        images="input: pictures, path: pictures")
        profile = self.profiled(text, seconds=WHOLE, environment={"TMPDIR": str(aside)})
        self.assertEqual(profile["frames"], 20)
        self.assertEqual(kept.read_text(), "what was there\n")
        self.assertFalse((self.folder / "pictures").exists())
        self.assertEqual(list(aside.iterdir()), [])

    def test_the_text_says_what_to_expect(self):
        done = plan(self.write(self.UNEVEN.replace("IN_FLIGHT", "")), "--profile=0.3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  expected: [0-9.]+ fps")
        self.assertRegex(" ".join(done.stdout.split()), r" bottleneck: .*heavy")
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_wrong_words(self):
        path = self.write(SMALL)
        for words in (["--profile=x"], ["--profile", "0"], ["--profile=1e9"], ["--profile", "--offline"],
                      ["--profile", "--assume", "sim:2"]):
            self.assertEqual(plan(path, *words).returncode, 64, words)
        pushed = self.write(pipeline(dict(s="type: push, format: RGB24 8x8"), null=""), "push.yaml")
        done = plan(pushed, "--profile")
        self.assertEqual(done.returncode, 64)
        self.assertIn("source s is of type push", done.stderr)
