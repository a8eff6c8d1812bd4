#!/usr/bin/env python3
"""Pushes pictures that have one colour each. A pipeline shrinks them and turns them into numbers from 0 to 1, as
pipelines/embed/embed.c does in C.

    python3 pipelines/python/push.py"""

import pathlib
import threading

import millrace
import numpy as np

PIPELINE = pathlib.Path(__file__).resolve().parents[1] / "embed" / "embed.yaml"
PICTURES = 10


def push(pipeline: millrace.Pipeline) -> None:
    for n in range(PICTURES):
        pipeline.push("camera", np.full((48, 64, 3), n * 25, np.uint8), pts=n / 25)
    pipeline.end("camera")


def main() -> None:
    with millrace.Pipeline(PIPELINE) as pipeline:
        frames = pipeline.frames("answers")
        pipeline.start()
        thread = threading.Thread(target=push, args=[pipeline])
        thread.start()
        wrong = 0
        for frame in frames:
            mean = float(frame.array.mean())
            wrong += abs(mean - frame.seq * 25 / 255) > 1e-5
            print(f"{frame.source} {frame.seq}: {frame.array.size} numbers, mean {mean:.4f}")
        thread.join()
        pipeline.wait()
    print(f"{PICTURES} answers, {wrong} wrong")


if __name__ == "__main__":
    main()
