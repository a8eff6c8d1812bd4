"""What it costs to cut a pipeline: the demo's pipeline in one process, cut into two, and into three, all on this host.

    tools/bench/cut [--rounds 5] [--loop 3]

The three take turns; the ratios are medians over the rounds of those within a round. Processor time is that of all
processes together, their start included: a longer video (--loop) shows less of it. All must write the same records."""
import argparse
import pathlib
import tempfile

import contest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIP_FRAMES = 280  # of the demo's video, which is what the pipelines read without --input
TWO_NODES = """\
nodes:
  camera: {stages: [decode, preprocess]}
  center: {stages: [features, classify, results]}
"""


def pipelines(folder):
    """Name -> the file of the pipeline."""
    whole, cut = (ROOT / "pipelines" / name for name in ("classify-video.yaml", "nodes.yaml"))
    two = folder / "two.yaml"
    two.write_text(whole.read_text() + TWO_NODES)
    return {"one process": whole, "two processes": two, "three processes": cut}


def contestant(command, name, path, folder, loop):
    words = [command, "run", str(path), "--quiet", "--set", f"sources.video.loop={loop}",
             "--output", str(folder / f"{name}.jsonl")]
    return contest.Contestant(name, [words], environment={"MODELS": str(ROOT / "build/models")})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loop", type=int, default=3, help="how often the video is read")
    parser.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results = contest.hold([contestant(given.millrace, name, path, folder, given.loop)
                                for name, path in pipelines(folder).items()], given.rounds)
        written = {(folder / f"{name}.jsonl").read_text() for name in results}
    contest.table("the demo's pipeline, cut", results, CLIP_FRAMES * given.loop)
    if len(written) > 1:
        raise SystemExit("tools/bench/cut: the records of the processes differ")


if __name__ == "__main__":
    main()
