"""The demo's rows must be the same on ARM64, under an emulator, as on this machine: everything but the scores exactly,
and the scores within SCORES. Rows without a network, of all kinds of kernels, must be equal to the last byte.

    demo_rows.py build/millrace EMULATOR... build/aarch64/millrace

MILLRACE_ONNXRUNTIME_EMULATED names ONNX Runtime's library for ARM64. Without it, only rows without a network are
compared: a processor without AVX2 is emulated that way, too.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIP = "/usr/lib/python3/dist-packages/imageio/resources/images/cockatoo.mp4"
RUNTIME = os.environ.get("MILLRACE_ONNXRUNTIME_EMULATED")
SCORES = 1e-5  # the network's sums have another order
NAMED = """
version: 1
pipeline: kernels
sources:
  video: {uri: "%s"}
stages:
  decode:     {input: video}
  motion:     {input: decode, threshold: 0}
  sharpness:  {input: motion}
  phash:      {input: sharpness}
  resized:    {type: preprocess, input: phash, size: 61x47, dtype: u8, interpolation: area}
  pixels:     {type: jsonl, input: resized, features: true, tensors: true, path: OUT/pixels.jsonl}
  colours:    {type: histogram, input: phash, space: hsv, bins: 16}
  counted:    {type: jsonl, input: colours, features: true, path: OUT/counted.jsonl}
  directions: {type: hog, input: phash, size: 64x64, color: true}
  edges:      {type: jsonl, input: directions, features: true, path: OUT/edges.jsonl}
  enlarged:   {type: preprocess, input: phash, size: 70x150, fit: letterbox, interpolation: bicubic, dtype: f16}
  floats:     {type: jsonl, input: enlarged, features: true, path: OUT/floats.jsonl}
""" % CLIP

native, emulated = sys.argv[1], sys.argv[2:]
for needed in (native, CLIP, *((RUNTIME, ROOT / "build/models/lite0-features.onnx") if RUNTIME else ())):
    if not os.path.exists(needed):
        print(f"skipped: no {needed} (tools/test aarch64 makes it)")
        sys.exit(77)
if not shutil.which(emulated[0]):
    print(f"skipped: no {emulated[0]} (Debian: qemu-user-static)")
    sys.exit(77)


def run(command, folder, duration, runtime=None):
    """Runs both pipelines for the first `duration` of the clip; returns {file name: text}."""
    folder = pathlib.Path(folder)
    (folder / "kernels.yaml").write_text(NAMED.replace("OUT", str(folder)))
    environment = {**os.environ, **({"MILLRACE_ONNXRUNTIME": runtime} if runtime else {})}
    demo = (ROOT / "pipelines/classify-video.yaml", "--output", folder / "classes.jsonl")
    for arguments in ((folder / "kernels.yaml",), demo)[:2 if RUNTIME else 1]:
        done = subprocess.run([*command, "run", *arguments, "--quiet", "--set", f"sources.video.duration={duration}"],
                              env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr}")
    return {file.name: file.read_text() for file in sorted(folder.glob("*.jsonl"))}


def compare(expected, found):
    """Returns the largest difference between two files of classes."""
    worst, rows = 0, [[json.loads(line) for line in text.splitlines()] for text in (expected, found)]
    if len(rows[0]) != len(rows[1]):
        sys.exit(f"{len(rows[1])} rows instead of {len(rows[0])}")
    for one, two in zip(*rows):
        for a, b in zip(one["classes"], two["classes"]):
            worst = max(worst, abs(a.pop("score") - b.pop("score")))
        if one != two:
            sys.exit(f"different rows:\n{one}\n{two}")
    return worst


with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
    expected = run([native], here, "400ms")
    found = run(emulated, there, "400ms", RUNTIME)
for name, text in expected.items():
    rows = len(text.splitlines())
    if rows < 5:
        sys.exit(f"{name} has only {rows} rows")
    if name != "classes.jsonl" and text != found[name]:
        both = [(a, b) for a, b in zip(text.splitlines(), found[name].splitlines()) if a != b]
        sys.exit(f"{name} differs: {both[:1]!r:.2000}")
    print(f"{name}: {rows} rows")
worst = compare(expected["classes.jsonl"], found["classes.jsonl"]) if RUNTIME else 0
if RUNTIME:
    print(f"scores differ by {worst:.2g} at most")
sys.exit(worst > SCORES)
