"""tools/bench/gpu, as far as it goes without a GPU: on simulated devices, and what it says where a GPU is missing."""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

from harness import MILLRACE, Case, main

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/bench/gpu.py"
BUILT = str(pathlib.Path(MILLRACE).parent)
GPUS = any(re.fullmatch(r"nvidia\d+", name) for name in os.listdir("/dev"))


class GpuScript(Case):
    def told(self, *arguments, exits=0):
        done = subprocess.run([sys.executable, str(SCRIPT), "--built", BUILT, "--only", "benchmarks", "--quick", *arguments],
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, exits, done.stderr)
        return json.loads(done.stdout)

    def test_benchmarks_on_a_simulated_device(self):
        told = self.told("--device", "sim:0")
        flow, latency = told["benchmarks"]["flow"], told["benchmarks"]["latency"]
        self.assertEqual(flow["frames"], 80)
        for rate in ("upload_per_s", "compute_per_s", "flow_per_s", "of_slower"):
            self.assertGreater(flow[rate], 0)
        self.assertEqual([(one["work"], one["graphs"]) for one in latency["latency"]], [("kernels", False)] * 2)
        for one in latency["latency"]:
            self.assertLessEqual(one["median_us"], one["p99_us"])
        self.assertIn("only cuda:0 is", told["benchmarks"]["upload"]["not_measured"])
        self.assertTrue(all(target["met"] for target in told["targets"]))
        self.assertTrue(told["machine"]["sim"]["usable"])

    def loaded(self):
        spec = importlib.util.spec_from_file_location("gpu_script", SCRIPT)
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        return script

    def test_a_pack_has_programs_and_their_libraries(self):
        script = self.loaded()
        script.PROGRAMS = [pathlib.Path(sys.executable).resolve().name]
        script.pack(pathlib.Path(sys.executable).resolve().parent, self.folder / "pack")
        with tarfile.open(self.folder / "pack.tar.xz") as packed:
            names = packed.getnames()
        self.assertIn(f"pack/bin/{script.PROGRAMS[0]}", names)
        self.assertIn("pack/gpu.py", names)
        self.assertIn("pack/lib", names)
        self.assertFalse([name for name in names if name.startswith("pack/lib/libc.so")])

    def test_what_was_not_measured_is_not_met(self):
        script = self.loaded()
        good = {"preprocess": {"of_copy": 0.8, "times_unfused": 4.0}, "upload": {"of_bare": 0.97},
                "flow": {"of_slower": 0.93, "calls": {"cudaMalloc": 0, "cudaStreamSynchronize": 0}},
                "latency": {"latency": [{"work": "kernels", "graphs": False, "median_us": 90.0},
                                        {"work": "kernels", "graphs": True, "median_us": 40.0}]}}

        def unmet(benchmarks, **more):
            report = {"device": "cuda:0", "benchmarks": benchmarks, **more}
            return [one["figure"] for one in script.judge(report) if not one["met"]]
        self.assertEqual(unmet(good), [])
        self.assertEqual(unmet({**good, "preprocess": {"exit": 70, "not_measured": ["x"]}}),
                         ["preprocess.of_copy", "preprocess.times_unfused"])
        self.assertEqual(unmet({**good, "upload": {"of_bare": 0.94}}), ["upload.of_bare"])
        self.assertEqual(unmet({**good, "flow": {"of_slower": 0.93}}), ["flow.calls"])
        self.assertEqual(unmet({**good, "flow": {"of_slower": 0.93, "calls": {"cudaMalloc": 1}}}), ["flow.calls"])
        self.assertEqual(unmet({**good, "latency": {"latency": good["latency"]["latency"][:1]}}), ["latency"])
        self.assertEqual(len(unmet({})), 6)
        skipped = {"test_cuda_flow": {"exit": 0, "passed": 1, "failed": 0, "skipped": 1}}
        one, two = ({"cuda": {"devices": [{}] * count}} for count in (1, 2))
        self.assertEqual(unmet(good, tests=skipped, machine=one), [])
        self.assertEqual(unmet(good, tests=skipped, machine=two), ["tests.test_cuda_flow"])
        self.assertEqual(unmet(good, sanitizer={"missing": "compute-sanitizer"}), ["sanitizer"])

    def test_what_there_is_no_time_for_is_done_later(self):
        report = str(self.folder / "report.json")
        on = ("--device", "sim:0", "--json", report, "--resume")
        self.assertTrue(self.told(*on, "--budget", "0", exits=75)["unfinished"])
        whole = self.told(*on)
        self.assertFalse(whole["unfinished"])
        self.assertEqual(whole["benchmarks"]["flow"]["frames"], 80)
        # What has been told is not asked again, for which there would be no time.
        whole["benchmarks"]["flow"]["frames"] = 81
        with open(report, "w") as file:
            json.dump(whole, file)
        again = self.told(*on, "--budget", "0")
        self.assertEqual(again["benchmarks"], whole["benchmarks"])
        self.told_wrong("--device", "sim:1", "--json", report, "--resume")

    def told_wrong(self, *arguments):
        done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertIn("tools/bench/gpu: ", done.stderr)

    def test_wrong_arguments(self):
        self.told_wrong("--resume")
        self.told_wrong("--device", "gpu")
        self.told_wrong("--only", "everything")

    def test_without_a_gpu_that_is_said_at_once(self):
        if GPUS:
            self.skipTest("this machine has a GPU")
        folder = str(self.folder / "build")
        done = subprocess.run([sys.executable, str(SCRIPT), "--build", folder], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("driver", json.loads(done.stdout)["unavailable"])
        self.assertFalse(os.path.exists(folder))

    def test_help(self):
        done = subprocess.run([sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        for option in ("--pack", "--only", "--built", "--quick", "--json", "--budget", "--resume"):
            self.assertIn(option, done.stdout)


if __name__ == "__main__":
    main()
