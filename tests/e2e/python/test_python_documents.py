"""The Python module's document and examples do what they say, and their types are right."""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import numpy as np

from harness import MILLRACE, MODELS, ROOT, SAMPLES, Case, call

AT_ONCE = 4
MODULE = pathlib.Path(MILLRACE).parent / "python"
EXAMPLES = ROOT / "pipelines/python"
DOCUMENT = ROOT / "tools/python/README.md"
CLIP = SAMPLES / "realshort.mp4"


def luma_of(clip):
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", clip, "-vf", "extractplanes=y", "-f", "rawvideo", "-"],
                         capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, 240, 320)


class Documents(Case):
    def setUp(self):
        if not list(MODULE.glob("millrace/_core*.so")):
            self.skipTest("the module is not built (Debian: python3-dev)")
        super().setUp()

    def python(self, *arguments, code=0):
        done = call([sys.executable, *map(str, arguments)], environment={"PYTHONPATH": str(MODULE)}, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_pushing(self):
        lines = self.python(EXAMPLES / "push.py").stdout.splitlines()
        self.assertEqual(lines[-1], "10 answers, 0 wrong")
        self.assertEqual(lines[:-1], [f"camera {n}: 576 numbers, mean {n * 25 / 255:.4f}" for n in range(10)])

    def test_classes(self):
        if not (MODELS / "lite0-features.onnx").exists():
            self.skipTest("no build/models (tools/demo makes it)")
        done = self.python(EXAMPLES / "frames.py", CLIP)
        rows = self.run_pipeline(ROOT / "pipelines/classify-video.yaml", "--input", CLIP).rows
        self.assertEqual(done.stdout.splitlines(),
                         [f"video {row['pts']:.2f} s: {row['classes'][0]['label']} ({row['classes'][0]['score']:.3f})"
                          for row in rows])
        self.assertEqual(done.stderr, f"{len(rows)} pictures\n")
        self.assertIn("usage: frames.py [-h] [video]", self.python(EXAMPLES / "frames.py", "--help").stdout)
        self.assertIn("missing.mp4", self.python(EXAMPLES / "frames.py", "missing.mp4", code=66).stderr)

    def test_the_models_of_the_build(self):
        """They are found by name, though the program is python3."""
        if not (MODULE.parent / "models/lite0-features.onnx").exists():
            self.skipTest("no build/models (tools/demo makes it)")
        alone = dict.fromkeys(("MODELS", "MILLRACE_MODELS", "XDG_DATA_HOME", "HOME"), "")
        done = call([sys.executable, EXAMPLES / "frames.py", CLIP], cwd=self.folder,
                    environment={"PYTHONPATH": str(MODULE), **alone})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_stages(self):
        done = self.python("-m", "millrace", "--stages", EXAMPLES / "stages.py", "run", EXAMPLES / "stages.yaml",
                           "--input", CLIP, "--set", "stages.bright.above=0")
        luma = luma_of(CLIP)[:, ::4, ::4].mean((1, 2))
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        np.testing.assert_allclose([row["tensors"][0]["data"][0] for row in rows], luma, rtol=1e-5)

    def test_the_stage_of_the_document(self):
        (text,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
        path = self.write(text, "dark.py")
        pipeline = self.write(f"version: 1\npipeline: p\nsources:\n  v: {{uri: '{CLIP}'}}\nstages:\n"
                              "  decode: {input: v}\n  dark: {input: decode, below: 40}\n"
                              "  rows: {type: jsonl, input: dark, tensors: true}\n")
        done = self.python("-m", "millrace", "--stages", path, "run", pipeline)
        shares = [json.loads(line)["tensors"][0]["data"][0] for line in done.stdout.splitlines()]
        np.testing.assert_allclose(shares, (luma_of(CLIP) < 40).mean((1, 2)), atol=1e-6)

    def test_the_rgb_of_the_document(self):
        """Pixels are those of ffmpeg, which resizes chroma in another way, and no channel is brighter."""
        (stage,) = re.findall(r"^`rgb: (\{type: preprocess.*?\})`", DOCUMENT.read_text(), re.M)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", CLIP, "-vf",
                              "scale=160:120:flags=area+accurate_rnd+full_chroma_inp+full_chroma_int", "-f",
                              "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, check=True).stdout
        (self.folder / "raw").write_bytes(raw)
        path = self.write(f"version: 1\npipeline: p\nsources:\n  v: {{uri: '{CLIP}'}}\nstages:\n"
                          f"  decode: {{input: v}}\n  rgb: {stage}\n  out: {{type: callback, input: rgb}}\n")
        self.python("-c", f"""
import millrace, numpy as np
raw = np.fromfile("raw", np.uint8).reshape(-1, 120, 160, 3).astype(int)
for frame, expected in zip(millrace.run({str(path)!r}), raw, strict=True):
    assert frame.array.shape == (120, 160, 3) and frame.array.dtype == np.uint8
    difference = frame.array - expected
    assert np.abs(difference).mean() < 2, np.abs(difference).mean()
    assert np.abs(difference.mean((0, 1))).max() < 0.5, difference.mean((0, 1))
""")

    def test_types(self):
        if not importlib.util.find_spec("mypy"):
            self.skipTest("no mypy (tools/test installs it)")
        for what in (list(EXAMPLES.glob("*.py")), ["-p", "millrace"]):
            done = call([sys.executable, "-m", "mypy", "--strict", "--cache-dir", self.folder / "cache", *what],
                        environment={"MYPYPATH": str(MODULE)}, cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_public_function_has_a_docstring(self):
        done = self.python("-c", """
import inspect, millrace
for name in millrace.__all__:
    one = getattr(millrace, name)
    members = [(name, one)] + ([(f"{name}.{m}", v) for m, v in vars(one).items() if not m.startswith("_")
                                and (callable(v) or isinstance(v, property) or inspect.isgetsetdescriptor(v))]
                               if inspect.isclass(one) else [])
    for at, value in members:
        if not inspect.getdoc(value): print(at)
""")
        self.assertEqual(done.stdout, "")
