"""`millrace bench ops`: ceilings and shares on a simulated device, whose times follow from its rates; every library
kernel is measured; the table, the JSON, the picture, and what is refused. No real device's figure is asserted."""
import json
import pathlib
import re
import tempfile
import unittest

import harness
from harness import MILLRACE, MODELS, ROOT

# Bytes per nanosecond: 10, 5 and 4.
SIM = "sim:0?compute=10GB/s&upload=5GB/s&download=4GB/s&call=2us"


def call(*arguments):
    return harness.call([MILLRACE, "bench", "ops", *arguments])


def enqueued():
    """The functions in the kernels' headers, and streams' copy functions."""
    text = "".join(path.read_text() for path in (ROOT / "kernels").rglob("*.h"))
    text += (ROOT / "engine/device/device.h").read_text()
    return set(re.findall(r"\b(mr_\w+_enqueue|mr_stream_copy\w*)\(mr_stream \*", text))


class Ops(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        done = call("--device", SIM, "--json")
        assert done.returncode == 0 and done.stderr == "", done
        cls.told = json.loads(done.stdout)
        cls.device = cls.told["devices"][0]
        cls.operations = {one["name"]: one for one in cls.device["operations"]}

    def test_every_kernel_is_measured(self):
        functions = {one["function"] for one in self.operations.values()}
        self.assertGreater(len(enqueued()), 12)
        self.assertEqual(enqueued() - functions, set(), "add it to a table of stages/operations")
        self.assertEqual(functions - enqueued(), set())

    def test_ceilings_are_the_rates_of_the_device(self):
        ceilings = self.device["ceilings"]
        self.assertAlmostEqual(ceilings["memory_bytes_s"], 10e9, delta=1e7)
        self.assertAlmostEqual(ceilings["upload_bytes_s"], 5e9, delta=1e7)
        self.assertAlmostEqual(ceilings["download_bytes_s"], 4e9, delta=1e7)
        self.assertEqual(ceilings["launch_ns"], 2000)
        gemm = self.operations["gemm"]
        self.assertAlmostEqual(ceilings["flops_s"], gemm["flops_s"], delta=1e6)
        self.assertTrue(self.device["simulated"])
        self.assertEqual(self.device["clocks"]["before"], {"core_mhz": None, "memory_mhz": None})

    def test_shares_are_those_of_the_roofline(self):
        paths = {way: self.device["ceilings"][f"{way}_bytes_s"] for way in ("memory", "upload", "download")}
        for one in self.operations.values():
            with self.subTest(one["name"]):
                self.assertGreater(one["median_ns"], 0)
                self.assertLessEqual(one["best_ns"], one["low_ns"])
                self.assertLessEqual(one["low_ns"], one["median_ns"])
                self.assertLessEqual(one["median_ns"], one["high_ns"])
                if one["name"] == "launch":
                    self.assertIsNone(one["share"])
                    continue
                roof = min(paths[one["path"]] * one["flops"] / one["bytes"], self.device["ceilings"]["flops_s"])
                share = one["flops_s"] / roof if one["flops"] else one["bytes_s"] / paths[one["path"]]
                self.assertAlmostEqual(one["share"], share, delta=1e-4 * share)
                self.assertLessEqual(one["share"], 1.0001)

    def test_the_table_fits_a_pipe(self):
        done = call("--device", SIM, "--only", "preprocess-*")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn("simulated", lines[0])
        shown = {line.split()[0] for line in lines if line.startswith("  ")}
        kernels = {name for name, one in self.operations.items() if name.startswith("preprocess-")}
        self.assertLessEqual(kernels, shown)
        self.assertLessEqual({"triad", "gemm", "launch"}, shown, "ceilings are always measured")
        self.assertNotIn("hog", shown)

    def test_a_launch_may_take_no_time(self):
        done = call("--device", "sim:0?compute=10GB/s&upload=5GB/s&download=4GB/s", "--only", "launch")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("  launch ")]
        self.assertEqual(row, ["launch", "0.00", "ns", "-", "-", "-", "-", "-"])
        self.assertNotIn("nan", done.stdout)

    def test_the_processors_and_a_network(self):
        models = ["--model", MODELS / "lite0.onnx"] if (MODELS / "lite0.onnx").exists() else []
        done = call("--device", "cpu", "--only", "[np]*o[or]*", *models, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        device = json.loads(done.stdout)["devices"][0]
        self.assertFalse(device["simulated"])
        self.assertGreater(device["clocks"]["before"]["core_mhz"], 0)
        self.assertIsNone(device["ceilings"]["upload_bytes_s"])
        for one in device["operations"]:
            self.assertTrue(one["samples"] >= 5 if "left_out" not in one else one["group"] == "network", one)
        if models:
            network = device["operations"][-1]
            self.assertEqual((network["name"], network["group"]), ("network-lite0", "network"))
            if "left_out" not in network:
                # `inspect` counts 385 million multiply-adds; other operators also have work.
                self.assertGreater(network["flops"], 2 * 384e6)
                self.assertLess(network["flops"], 2.2 * 390e6)

    def test_networks_on_simulated_devices_are_left_out(self):
        file = self.folder / "none.onnx"
        file.write_bytes(b"not a network")
        done = call("--device", "sim:0", "--only", "network-*", "--model", file)
        self.assertEqual(done.returncode, 0)
        self.assertIn("left out: network-none: a simulated device", done.stdout)

    def test_wrong_use(self):
        for words, code, what in (
                (("--device", "gpu:0"), 64, 'there is no device "gpu:0"'),
                (("--device", "sim:0", "--only", "nothing-like-it"), 64, "names no operation"),
                (("--device", "sim:0", "--seconds", "0"), 64, "--seconds"),
                (("--model", "/nonexistent/a.onnx"), 66, "/nonexistent/a.onnx"),
                (("--device", "sim:0?fail_after=2"), 69, "simulated failure"),
                (("more",), 64, "name one benchmark")):
            with self.subTest(words):
                done = call(*words)
                self.assertEqual((done.returncode, done.stdout), (code, ""))
                self.assertIn(what, done.stderr)
