"""Compares millrace with a floor and with peers: 1080p H.264, EfficientNet-Lite0 on every frame.

The floor is the unavoidable work: ffmpeg decoding to null, and at the same time the bare model loop over the same
number of frames. It runs the float and the int8 network, with one file and with four files at once.

The floor and millrace are measured from outside, loading included. The peers are measured from inside, without imports
and loading, which favours them."""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import contest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = pathlib.Path(__file__).resolve().parent / "peers"
SAMPLE = "/usr/lib/python3/dist-packages/imageio/resources/images/cockatoo.mp4"
FRAMES = 300
# NumPy's threads would spin and slow the peers' decoder threads.
ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}

PIPELINE = """\
version: 1
pipeline: end-to-end
sources:
  video: {{uri: none}}
stages:
  decode:     {{input: sources.*}}
  preprocess: {{input: decode, size: 224x224, fit: center-crop, crop_fraction: 0.875, antialias: {antialias},
                mean: 127, std: 128}}
  features:   {{input: preprocess, model: {model}, tensor: features}}
  classify:   {{input: features, weights: {models}/lite0-head.npy, labels: {models}/imagenet.txt, top_k: 5}}
  results:    {{type: jsonl, input: classify, path: {output}}}
"""


def clip(folder):
    """Makes ten seconds of 1080p H.264 at 11 Mb/s from the sample, with a little noise like a camera's. The clip
    declares BT.601, because FFmpeg's scaler assumes that for any clip by default."""
    path = folder / "1080p.mp4"
    if not path.exists():
        part = folder / "part.mp4"
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-stream_loop", "1", "-i", SAMPLE, "-an", "-vf",
                        "setpts=N/30/TB,scale=1920:1080,noise=alls=6:allf=t,format=yuv420p", "-r", "30",
                        "-frames:v", str(FRAMES), "-c:v", "libx264", "-b:v", "11M", "-maxrate", "13M",
                        "-bufsize", "22M", "-colorspace", "smpte170m", part], check=True)
        part.rename(path)
    return str(path)


def floor(model, videos, build):
    threads = 2 if len(videos) == 1 else 1
    decoders = [["ffmpeg", "-nostdin", "-v", "error", "-threads", str(threads), "-i", video, "-an", "-f", "null", "-"]
                for video in videos]
    loop = [str(build / "bench_model_loop"), model, str(FRAMES * len(videos))]
    return contest.Contestant("floor", [*decoders, loop])


def millrace(model, videos, build, folder, antialias):
    pipeline = folder / "end-to-end.yaml"
    pipeline.write_text(PIPELINE.format(model=model, models=build / "models", antialias=antialias,
                                        output=folder / "millrace.jsonl"))
    inputs = [word for video in videos for word in ("--input", video)]
    return contest.Contestant("millrace", [[str(build / "millrace"), "run", str(pipeline), "--quiet", *inputs]])


def peers(model, videos, folder):
    for script in sorted(PEERS.glob("*_*.py")):
        if script.stem.startswith("gstreamer") and not has_gstreamer():
            continue
        command = [sys.executable, str(script), model, str(folder / f"{script.stem}.jsonl"), *videos]
        yield contest.Contestant(script.stem.replace("_", " "), [command],
                                 self_measured=True, environment=ENVIRONMENT)


def has_gstreamer():
    return os.path.isdir("/usr/lib/python3/dist-packages/gi") and subprocess.run(
        ["gst-inspect-1.0", "--exists", "avdec_h264"], stderr=subprocess.DEVNULL).returncode == 0


def agreement(folder, name, frames):
    """Counts the frames in which a peer has the same first class as millrace. The race is fair only if all did the same
    work."""
    def firsts(path):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows.sort(key=lambda row: (str(row["source"]), row["seq"]))
        return [row["classes"][0]["index"] for row in rows]

    own, peer = firsts(folder / "millrace.jsonl"), firsts(folder / f"{name}.jsonl")
    if len(own) != frames or len(peer) != frames:
        raise SystemExit(f"{frames} frames went in, {len(own)} came out of millrace and {len(peer)} of {name}")
    return sum(one == other for one, other in zip(own, peer)) / frames


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--models", nargs="+", default=["lite0-features", "lite0-int8"])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--antialias", choices=["true", "false"], default="false",
                        help="how millrace shrinks; OpenCV, the fastest peer, does without")
    parser.add_argument("--without-peers", action="store_true", help="only millrace and its floor")
    return parser.parse_args()


def main():
    given = arguments()
    folder = given.build / "bench"
    folder.mkdir(exist_ok=True)
    video = clip(folder)
    if not has_gstreamer():
        print("GStreamer is not installed and takes no part")
    for name in given.models:
        model = str(given.build / f"models/{name}.onnx")
        for files in given.files:
            videos = [video] * files
            contestants = [floor(model, videos, given.build),
                           millrace(model, videos, given.build, folder, given.antialias)]
            if not given.without_peers:
                contestants += peers(model, videos, folder)
            results = contest.hold(contestants, given.rounds)
            title = f"{name}, {files} file{'s' if files > 1 else ''} of {FRAMES} frames"
            contest.table(title, results, FRAMES * files)
            if not given.without_peers:
                print(f"same first class as the OpenCV loop: {agreement(folder, 'opencv_loop', FRAMES * files):.1%}")


if __name__ == "__main__":
    main()
