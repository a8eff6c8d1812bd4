"""What a profile expects of a run, beside what the run does: frame rates, medians over rounds in which the two take
turns.

The cases: the demo's pipeline, four files at once through one network, a sink that is slower than all before it, and a
source that keeps to a clock. The rate of a run is counted as the profile counts it, from its first delivered frame on.
On a machine that others use too, the processor time a frame, which hardly depends on them, tells more than the rate;
that of a run has its start in it, such as loading a network."""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIP = "/usr/lib/python3/dist-packages/imageio/resources/images/cockatoo.mp4"
SLOW_SINK = """
version: 1
pipeline: slow-sink
sources:
  video: {uri: CLIP}
stages:
  decode: {input: video}
  images: {input: decode, path: FOLDER, overwrite: true}
"""
WITHIN = 0.15


def millrace(command, *words):
    done = subprocess.run([command, *words, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command} {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def cases(folder):
    """Name -> what stands behind `plan` and `run`."""
    classify = str(ROOT / "pipelines/classify-video.yaml")
    results = ["--output", str(folder / "results.jsonl")]
    slow = folder / "slow.yaml"
    slow.write_text(SLOW_SINK.replace("CLIP", CLIP).replace("FOLDER", str(folder / "pictures")))
    looped = ["--set", "sources.video.loop=3"]
    return {
        "demo": [classify, "--input", CLIP, *looped, *results],
        "four files": [classify, *["--input", CLIP] * 4, *results],
        "slow sink": [str(slow)],
        "paced source": [classify, "--input", CLIP, "--set", "sources.video.realtime=true", *results],
    }


def rate(summary):
    """Frames a second from the first delivered frame to the end."""
    return summary["ledger"]["in"] / (summary["wall_s"] - summary["first_s"])


def cpu_of_profile(profile):
    """Processor seconds a frame."""
    return profile["cores"] * profile["seconds"] / profile["frames"]


def turns(command, words, seconds, rounds):
    """Expected and found frame rates, and the processor time a frame of the run relative to that of the profile."""
    expected, found, costs = [], [], []
    for _ in range(rounds):
        profile = millrace(command, "plan", *words, "--profile", seconds)["profile"]
        summary = millrace(command, "run", *words)
        expected.append(profile["expected"]["rate"])
        found.append(rate(summary))
        costs.append(summary["cpu_s"] / summary["ledger"]["in"] / cpu_of_profile(profile))
    return expected, found, statistics.median(costs), profile["bottleneck"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="5", help="how long each profile runs")
    parser.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    given = parser.parse_args()
    print(f"{'':14} {'expected fps':>12} {'run fps':>9} {'run / expected':>15} {'same of CPU':>12}   bottleneck")
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, words in cases(pathlib.Path(folder)).items():
            expected, found, cost, bottleneck = turns(given.millrace, words, given.seconds, given.rounds)
            ratio = statistics.median(ran / told for ran, told in zip(found, expected))
            worst = max(worst, abs(ratio - 1))
            print(f"{name:14} {statistics.median(expected):12.1f} {statistics.median(found):9.1f} {ratio:15.2f} "
                  f"{cost:12.2f}   {bottleneck['kind']}, {bottleneck['stage']}", flush=True)
    print(f"the largest difference is {worst:.0%}; {WITHIN:.0%} are allowed")
    raise SystemExit(worst > WITHIN)


if __name__ == "__main__":
    main()
