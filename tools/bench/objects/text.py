"""Compares pipelines/text.yaml with RapidOCR, which has the same networks: characters that are read wrongly, and time
on one thread.

    build/venv/bin/python tools/bench/objects/text.py PYTHON [--pictures 120]

PYTHON is an interpreter with rapidocr-onnxruntime 1.4.4. Both read the same pictures, one after the other. millrace's
time includes starting and loading, RapidOCR's does not."""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import lettering  # noqa: E402


def run_millrace(folder):
    text = (ROOT / "pipelines" / "text.yaml").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("  draw", "  drawn")))
    text = text.replace("version: 1", "version: 1\nworkers: 1").replace("most: 2016x2016", "most: 4096x4096")
    (folder / "text.yaml").write_text(text)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([ROOT / "build" / "millrace", "run", folder / "text.yaml", "--input", folder / "*.png"],
                          check=True, stdout=subprocess.PIPE, env={**os.environ, "TEXT": str(ROOT / "build" / "text")})
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {"seconds": seconds, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "found": lettering.read_rows(rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="an interpreter with rapidocr-onnxruntime")
    parser.add_argument("--pictures", type=int, default=120)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        truth = lettering.draw(folder, given.pictures)
        peer = subprocess.run([given.python, ROOT / "tools" / "bench" / "objects" / "rapidocr_loop.py", folder],
                              check=True, stdout=subprocess.PIPE)
        for who, one in (("RapidOCR", json.loads(peer.stdout)), ("millrace", run_millrace(folder))):
            wrong, letters = lettering.errors(truth, one["found"])
            print(f"{who:8} {one['seconds']:6.1f} s, {one['cpu']:6.1f} s of a processor; wrong characters {wrong:.2%}, "
                  f"without spaces {letters:.2%}")


if __name__ == "__main__":
    main()
