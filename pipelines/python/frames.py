#!/usr/bin/env python3
"""Prints the best class of each picture of a video.

    python3 pipelines/python/frames.py lobby.mp4

The network is found by its name: `millrace models get lite0` makes it."""

import argparse
import pathlib
import sys

import millrace

PIPELINE = pathlib.Path(__file__).resolve().parents[1] / "classify-video.yaml"


def main() -> int:
    parser = argparse.ArgumentParser(description="Prints the best class of each picture of a video.")
    parser.add_argument("video", nargs="?", help="a file or an address; by default that of the pipeline")
    frames = millrace.run(PIPELINE, input=parser.parse_args().video)
    for frame in frames:
        best = frame.classes[0]
        print(f"{frame.source} {frame.pts:.2f} s: {best.label} ({best.score:.3f})")
    print(f"{frames.summary['ledger']['in']} pictures", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except millrace.Error as error:
        print(f"frames.py: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
