"""tools/bench/gpu, as far as it goes without a GPU: on simulated devices, and what it says where a GPU is missing."""
import json
import os
import pathlib
import re
import subprocess
import sys

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

    def test_without_a_gpu_nothing_is_measured(self):
        if GPUS:
            self.skipTest("this machine has a GPU")
        told = self.told(exits=69)
        for name in ("preprocess", "upload", "flow", "latency"):
            self.assertRegex(str(told["benchmarks"][name]["not_measured"]), "cuda:0|without CUDA")
        self.assertEqual(told["targets"], [])

    def test_help(self):
        done = subprocess.run([sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        for option in ("--pack", "--only", "--built", "--quick", "--json"):
            self.assertIn(option, done.stdout)


if __name__ == "__main__":
    main()
