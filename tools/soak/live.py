#!/usr/bin/env python3
"""Live cameras in large: what fails, and what that costs the others.

    tools/soak/live.py [--parts PART,...] [--full] [--json FILE]

    faults      a camera beside good ones is killed and comes back, is stopped, is silent but for RTCP, gives a picture
                in three seconds: when that is seen, when its pictures are back, the gaps of the good ones meanwhile
    beside      fifteen good cameras, in turn without and with a dead and a slow one: gaps from row to row
    loss        1% and 5% of the packets of UDP are lost, by nftables: wrong pictures that pass, beside ffmpeg
    reconnects  one camera breaks off again and again: descriptors, threads and memory
    changes     sources are added and removed while others run, by `millrace ctl`; the same counts

Cameras are those of tools/camera (RTSP, H.264, 720p, 20 pictures and 2 Mbit a second), behind a proxy if they are to
fail. Needs gst-rtsp-server. Without --full each part takes less than a minute. Prints a table for each part, and what
promises do not hold; exit code 1 if any does not: a stall seen within `stall` and a second, pictures back within two
seconds of the server, descriptors and threads as before, memory within 5 MB, and no wrong picture."""
import argparse
import json
import pathlib
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import live_faults  # noqa: E402
import live_loss  # noqa: E402
import live_many  # noqa: E402
from live_run import ROOT  # noqa: E402

PARTS = {"faults": live_faults.faults, "beside": live_faults.beside, "loss": live_loss.loss,
         "reconnects": live_many.reconnects, "changes": live_many.changes}
# Short and full: seconds, and how many.
LENGTHS = {"seconds": (8, 20), "away": (5, 20), "stopped": (8, 60), "quiet": (3, 10), "reconnects": (60, 1000)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="default: all")
    parser.add_argument("--full", action="store_true", help="as long as the promises say")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write a line of JSON for each part")
    words = {"seconds": "of each run that is measured", "away": "without the server that was killed",
             "stopped": "that a server stands still", "quiet": "before the first fault",
             "reconnects": "of one camera; and additions and removals"}
    for name, (short, full) in LENGTHS.items():
        parser.add_argument(f"--{name}", type=int, help=f"{words[name]}; {short}, with --full {full}")
    parser.add_argument("--bad", type=int, default=16, help="cameras where one of them fails")
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--bitrate", default="2M")
    parser.add_argument("--millrace", type=pathlib.Path, default=ROOT / "build/millrace")
    given = parser.parse_args()
    for name, lengths in LENGTHS.items():
        if getattr(given, name) is None:
            setattr(given, name, lengths[given.full])
    given.parts = given.parts.split(",")
    for name in given.parts:
        if name not in PARTS:
            parser.error(f"there is no part {name}; parts are {', '.join(PARTS)}")
    given.millrace = given.millrace.resolve()
    return given


def print_rows(rows):
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def print_table(name, found, wrong, seconds):
    """Single values one to a line; groups of values as rows under their common columns."""
    print(f"{name} ({seconds:.0f} s)")
    single = [[key, str(value)] for key, value in found.items() if not isinstance(value, dict)]
    groups = {key: value for key, value in found.items() if isinstance(value, dict)}
    columns = list(dict.fromkeys(key for group in groups.values() for key in group))
    if single:
        print_rows(single)
    if groups:
        print_rows([["", *columns]] + [[key, *(str(group.get(column, "")) for column in columns)]
                                       for key, group in groups.items()])
    for line in wrong:
        print(f"  does not hold: {line}")
    print(flush=True)


def main():
    given = arguments()
    failed = False
    for name in given.parts:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="millrace-live-") as folder:
            found, wrong = PARTS[name](given, folder)
        failed |= bool(wrong)
        print_table(name, found, wrong, time.monotonic() - begun)
        if given.json:
            with given.json.open("a") as file:
                file.write(json.dumps({"part": name, **found, "wrong": wrong}) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
