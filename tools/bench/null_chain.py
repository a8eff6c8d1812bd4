"""What a hop costs: many frames through stages that do nothing, in millrace and in others, one worker each.

Each contestant runs the same frames through one stage and through nine; the difference, divided by frames and stages,
is a hop. Then 1,000 paced sources: what it costs to keep them all on time."""
import argparse
import json
import pathlib
import statistics
import subprocess

import contest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRAMES = 1_000_000
SHORT, LONG = 1, 9  # stages
SOURCES, RATE, SECONDS = 1000, 30, 10


def chain(names, sources):
    """YAML of a chain of null stages behind the given sources."""
    lines = ["version: 1", "pipeline: null-chain", "sources:", *sources, "stages:"]
    before = "sources.*"
    for name in names:
        lines.append(f"  {name}: {{type: 'null', input: '{before}'}}")
        before = name
    return "\n".join(lines) + "\n"


def millrace(build, folder, stages):
    names = [f"stage{n}" for n in range(stages)] + ["sink"]
    path = folder / f"null-{stages}.yaml"
    path.write_text(chain(names, [f"  frames: {{type: 'null', frames: {FRAMES}}}"]))
    return [str(build / "millrace"), "run", str(path), "--workers", "1", "--quiet"]


def ffmpeg(stages):
    source = f"nullsrc=size=16x16:rate=1000:duration={FRAMES // 1000}"
    return ["ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", source,
            "-filter_threads", "1", "-vf", ",".join(["null"] * stages), "-f", "null", "-"]


def gstreamer(stages, queues=False):
    elements = ["fakesrc", f"num-buffers={FRAMES}", "sizetype=fixed", "sizemax=16"]
    for _ in range(stages):
        elements += ["!", *(["queue", "!"] if queues else []), "identity", "silent=true"]
    return ["gst-launch-1.0", "-q", *elements, "!", "fakesink", "sync=false"]


def has(command):
    return subprocess.run(["which", command], stdout=subprocess.DEVNULL).returncode == 0


def hops(build, folder, rounds):
    kinds = {"millrace": lambda stages: millrace(build, folder, stages), "FFmpeg null": ffmpeg}
    if has("gst-launch-1.0"):
        kinds["GStreamer identity"] = gstreamer
        kinds["GStreamer queues"] = lambda stages: gstreamer(stages, queues=True)
    contestants = [contest.Contestant(f"{name} {stages}", [command(stages)])
                   for name, command in kinds.items() for stages in (SHORT, LONG)]
    results = contest.hold(contestants, rounds)
    print(f"\n{FRAMES:,} frames, microseconds of CPU (of wall) a frame and hop")
    for name in kinds:
        def hop(what):
            return statistics.median((getattr(long, what) - getattr(short, what)) / FRAMES / (LONG - SHORT) * 1e6
                                     for short, long in zip(results[f"{name} {SHORT}"], results[f"{name} {LONG}"]))
        print(f"{name:24}{hop('cpu'):8.3f} ({hop('wall'):.3f})", flush=True)


def paced(build, folder):
    """The sources' times are the clock's: what leaves late shows in the latency from source to sink."""
    path = folder / "null-paced.yaml"
    sources = [f"  s{n}: {{type: 'null', rate: {RATE}fps, frames: {RATE * SECONDS}}}" for n in range(SOURCES)]
    path.write_text(chain(["first", "second", "sink"], sources))
    run = subprocess.run([build / "millrace", "run", path, "--json", "--quiet"], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, check=True)
    summary = json.loads(run.stdout)
    print(f"\n{SOURCES:,} sources of {RATE} frames a second through two stages, {SECONDS} s")
    print(f"delivered {summary['ledger']['delivered']:,} of {SOURCES * RATE * SECONDS:,}, "
          f"{summary['cpu_s'] / summary['wall_s']:.2f} CPU-seconds a second, wall {summary['wall_s']:.2f} s")
    print({key: value for key, value in summary.items() if "latency" in key or "peak" in key})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    given = parser.parse_args()
    folder = given.build / "bench"
    folder.mkdir(exist_ok=True)
    hops(given.build, folder, given.rounds)
    paced(given.build, folder)


if __name__ == "__main__":
    main()
