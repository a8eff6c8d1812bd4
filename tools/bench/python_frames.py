#!/usr/bin/env python3
"""Measures what the Python module costs per frame, over a callback in C: build/bench_callback, a loop over
millrace.run, a function of Pipeline.subscribe, and a stage in Python with batches.

    python3 tools/bench/python_frames.py [--build build] [--frames 200000] [--rounds 5]

The contestants take turns. Prints one JSON object: the median microseconds per frame, by the clock and of
processors."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

TEXT = """version: 1
pipeline: numbers
sources:
  numbers: {type: "null", frames: FRAMES}
stages:
"""
ENDS = {"loop": "  answers: {type: callback, input: numbers}\n",
        "loop, hold=64": "  answers: {type: callback, input: numbers}\n",
        "subscriber": "  answers: {type: callback, input: numbers}\n",
        "stage, batches of 16": "  nothing: {input: numbers, batch: {size: 16, timeout: 1ms}}\n  end: {type: \"null\", "
                                "input: nothing}\n"}


def python(millrace, name, frames):
    text, hold = TEXT.replace("FRAMES", str(frames)) + ENDS[name], 64 if "64" in name else None
    clock, cpu = time.perf_counter(), time.process_time()
    if name.startswith("loop"):
        count = sum(1 for _ in millrace.run(text=text, hold=hold))
        assert count == frames
    else:
        with millrace.Pipeline(text=text) as pipeline:
            if name == "subscriber":
                pipeline.subscribe("answers", lambda frame: None)
            pipeline.start()
            pipeline.wait()
    return (time.perf_counter() - clock) / frames * 1e6, (time.process_time() - cpu) / frames * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "build")
    parser.add_argument("--frames", type=int, default=200000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    sys.path.insert(0, str(given.build / "python"))
    import millrace
    millrace.stage(lambda frames: None, name="nothing")
    found = {name: [] for name in ["C callback", *ENDS]}
    for _ in range(given.rounds):
        done = subprocess.run([given.build / "bench_callback", str(given.frames)], check=True, capture_output=True,
                              text=True)
        found["C callback"].append(tuple(map(float, done.stdout.split())))
        for name in ENDS:
            found[name].append(python(millrace, name, given.frames))
    print(json.dumps({name: {"clock_us": round(statistics.median(one[0] for one in rows), 2),
                             "cpu_us": round(statistics.median(one[1] for one in rows), 2)}
                      for name, rows in found.items()}, indent=1))


if __name__ == "__main__":
    main()
