"""An installation works as it is, wherever it was put: the command finds ONNX Runtime and the models of its prefix."""
import os
import pathlib
import re
import shutil
import subprocess

import harness
from harness import MILLRACE, MODELS, ROOT, SAMPLES, Case


class Installed(Case):
    def setUp(self):
        super().setUp()
        runtimes = sorted(ROOT.glob("build/venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*"))
        if not runtimes or not (MODELS / "lite0-features.onnx").exists():
            self.skipTest("no ONNX Runtime or models (tools/test makes them)")
        self.runtime = runtimes[-1]
        build = pathlib.Path(MILLRACE).resolve().parent
        self.prefix = self.folder / "one prefix"
        subprocess.run(["cmake", "--install", build, "--prefix", self.prefix], check=True, capture_output=True)
        cache = (build / "CMakeCache.txt").read_text()
        libraries = re.search(r"^CMAKE_INSTALL_LIBDIR:\w+=(.*)$", cache, re.M)[1]
        self.libraries = self.prefix / libraries / "millrace"
        self.environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}

    def test_a_name_like_that_of_a_library(self):
        """A program is named as its caller likes; its own folder is still found."""
        models = self.prefix / "share/millrace/models"
        shutil.copytree(MODELS, models)
        for name in ("/gone.sources/millrace", "my.software/bin/millrace"):
            done = subprocess.run([name, "models", "--json"], executable=self.prefix / "bin/millrace", cwd="/",
                                  env=self.environment, capture_output=True, text=True, timeout=harness.TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f'"{models}/lite0-features.onnx"', done.stdout)

    def run_installed(self, code, says, prefix=None):
        """Runs as a user does, who has set no variables."""
        prefix = prefix or self.prefix
        command = [prefix / "bin/millrace", "run", prefix / "share/millrace/pipelines/classify-video.yaml", "--input",
                   SAMPLES / "cockatoo.mp4", "--set", "sources.video.every=100", "--log", "info"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, cwd="/",
                              timeout=harness.TIMEOUT)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(says, done.stderr)
        return done.stdout

    def test_runs_and_moves(self):
        self.run_installed(66, "`millrace models get lite0` makes it")
        shutil.copytree(MODELS, self.prefix / "share/millrace/models")
        self.run_installed(69, "the ONNX Runtime library was not found; install the package millrace-onnxruntime")
        self.libraries.mkdir(exist_ok=True)
        (self.libraries / "libonnxruntime.so.1").symlink_to(self.runtime)
        rows = self.run_installed(0, f"ONNX Runtime {self.runtime.name.split('.so.')[1]} from {self.libraries}")
        self.assertIn("sulphur-crested cockatoo", rows)
        moved = self.folder / "moved"
        self.prefix.rename(moved)
        self.assertEqual(self.run_installed(0, f" from {moved}", moved), rows)
