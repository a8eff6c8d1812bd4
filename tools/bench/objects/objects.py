"""Compares detect and track with a floor and with Python.

People: Debian's vtest.avi through YOLOX-nano. The loop is Python with OpenCV, ONNX Runtime and supervision (loop.py).
Both print a row for each frame, and the time between the tenth and the tenth last row counts, as if all frames had
taken as long: neither loading nor filling up counts on either side. The floor is the unavoidable work, with bare
libavcodec and ONNX Runtime, without loading: one thread decodes a frame and runs the network, in turn. Decoding and the
network alone are also measured: together they take less, since in turn each finds the caches full of the other's data.

Cascade: every person that YOLOX-nano finds is cut out and classified by EfficientNet-Lite0. The floor is decoding, and
both bare networks as often.

Tracks: the same boxes in scenes whose true tracks are known (tests/reference/track.py), through track and through
supervision's ByteTrack with the same thresholds: quality by trackeval, and the time for a frame.

Drawing: 20 labelled boxes on a 1920x1080 picture, in processor time: draw's on I420 (bench_draw), OpenCV's rectangle
and putText, and supervision's annotators, both on BGR, which leaves out the conversions from and to the video. draw's
time grows by that of the copy if another stage also holds the picture."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time
import warnings

import contest
import cv2
import numpy as np
import supervision as sv
import track

ROOT = pathlib.Path(__file__).resolve().parents[3]
VIDEO = "/usr/share/doc/opencv-doc/examples/data/vtest.avi"
BEGINNING = """\
version: 1
pipeline: people
sources:
  video: {{uri: {video}}}
stages:
  decode:     {{input: video}}
  preprocess: {{input: decode, fit: letterbox, place: top-left, pad: 114, order: bgr}}
  detect:     {{input: preprocess, model: {model}, score: 0.25, classes: [0]}}
"""
PIPELINE = BEGINNING + """\
  track:      {{input: detect}}
  results:    {{type: jsonl, input: track, path: {output}}}
"""
CASCADE = BEGINNING + """\
  look:       {{type: join, join: {{picture: decode, objects: detect}}}}
  crop:       {{input: look}}
  small:      {{type: preprocess, input: crop, mean: 127, std: 128}}
  infer:      {{input: small, model: {classifier}}}
  classify:   {{input: infer}}
  gather:     {{join: {{frames: look, crops: classify}}}}
  results:    {{type: jsonl, input: gather, path: {output}}}
"""


def cut(given, folder):
    """The video's first frames, and the command that decodes them."""
    video = folder / "people.avi"
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-i", given.video, "-frames:v", str(given.frames), "-c",
                    "copy", video], check=True)
    return video, ["ffmpeg", "-nostdin", "-v", "error", "-threads", "2", "-i", str(video), "-an", "-f", "null", "-"]


def loop(given, model, count, *video):
    """The command that runs a bare network as often, and before each run decodes a frame of the video, if given."""
    return [str(given.build / "bench_model_loop"), str(model), str(count), *(["--video", str(*video)] if video else [])]


def cascade(given, folder):
    video, decoder = cut(given, folder)
    pipeline, output = folder / "cascade.yaml", folder / "cascade.jsonl"
    pipeline.write_text(CASCADE.format(video=video, model=given.model.absolute(),
                                       classifier=given.classifier.absolute(), output=output))
    run = [str(given.build / "millrace"), "run", str(pipeline), "--quiet"]
    subprocess.run(run, check=True)
    found = sum(len(json.loads(line)["objects"]) for line in output.read_text().splitlines())
    contestants = [contest.Contestant("floor", [decoder, loop(given, given.model, given.frames),
                                                loop(given, given.classifier, found)]),
                   contest.Contestant("millrace", [run])]
    contest.table(f"cascade: {found} people in {given.frames} frames", contest.hold(contestants, given.rounds),
                  given.frames)


def people(given, folder):
    video, _ = cut(given, folder)
    pipeline = folder / "people.yaml"
    pipeline.write_text(PIPELINE.format(video=video, model=given.model.absolute(), output="'-'"))
    run = [str(given.build / "millrace"), "run", str(pipeline), "--quiet"]
    contestants = [
        contest.Contestant("floor", [loop(given, given.model, given.frames, video)], self_measured=True),
        contest.Contestant("decoding alone", [loop(given, "-", given.frames, video)], self_measured=True),
        contest.Contestant("network alone", [loop(given, given.model, given.frames)], self_measured=True),
        contest.Contestant("millrace, one worker", [[*run, "--workers", "1"]], rows=given.frames),
        contest.Contestant("millrace", [run], rows=given.frames),
        contest.Contestant("Python loop", [[sys.executable, str(pathlib.Path(__file__).with_name("loop.py")),
                                            str(given.model), str(video), str(given.frames)]],
                           rows=given.frames, environment={"OPENBLAS_NUM_THREADS": "1"})]
    results = contest.hold(contestants, given.rounds)
    contest.table(f"people: {given.frames} frames", results, given.frames)
    for name in ("millrace, one worker", "millrace"):
        ratio = statistics.median(own.cpu / (decoding.cpu + network.cpu) for own, decoding, network in
                                  zip(results[name], results["decoding alone"], results["network alone"]))
        print(f"{name}: {ratio:.3f} of the processor time of decoding and the network alone")


def byte_track(found, fps):
    """ByteTrack's tracks, 0 for none, and microseconds of processor time for a frame."""
    tracker = sv.ByteTrack(track_activation_threshold=0.25, lost_track_buffer=60, frame_rate=fps)
    rows, taken = [], []
    for boxes, scores, _ in found:
        given = sv.Detections(xyxy=boxes.astype(np.float32), confidence=scores.astype(np.float32),
                              class_id=np.zeros(len(boxes), int), data={"row": np.arange(len(boxes))})
        since = time.thread_time()
        done = tracker.update_with_detections(given)
        taken.append((time.thread_time() - since) * 1e6)
        row = np.zeros(len(boxes), int)
        row[np.array(done.data.get("row", []), int)] = np.maximum(done.tracker_id, 0) if len(done) else []
        rows.append(row)
    return rows, statistics.median(taken)


def tracks(given):
    program = given.build / "track_rows"
    print(f"\n{'tracks':32}{'MOTA':>7}{'IDF1':>7}{'HOTA':>7}{'switches':>10}{'us a frame':>12}")
    for count, fps in ((8, 30), (20, 30), (20, 10), (20, 5)):
        rows = {"best possible": [], "millrace": [], "ByteTrack": []}
        for seed in range(100, 100 + given.scenes):
            truth, found = track.scene(seed, count, 20, fps)
            for name, (ids, taken) in (("best possible", ([true + 1 for _, _, true in found], 0.0)),
                                       ("millrace", track.follow(program, found, fps)),
                                       ("ByteTrack", byte_track(found, fps))):
                rows[name].append((*track.judge(truth, found, ids).values(), taken))
        for name, figures in rows.items():
            mota, idf1, hota, switches, taken = np.mean(figures, axis=0)
            print(f"{f'{count} objects, {fps} fps: {name}':32}{mota:7.1f}{idf1:7.1f}{hota:7.1f}{switches:10.1f}"
                  f"{taken:12.1f}")


def boxes(count):
    """Those of bench_draw."""
    i = np.arange(count)
    left, top = 50 + i * 389 % 1500, 60 + i * 211 % 700
    return np.stack([left, top, left + 100 + i * 37 % 200, top + 100 + i * 53 % 250], axis=1)


def draw_with_opencv(picture, corners, labels):
    for (left, top, right, bottom), label in zip(corners.tolist(), labels):
        cv2.rectangle(picture, (left, top), (right, bottom), (0, 200, 0), 3)
        (width, height), base = cv2.getTextSize(label, cv2.FONT_HERSHEY_SIMPLEX, 0.8, 2)
        cv2.rectangle(picture, (left, top - height - base), (left + width, top), (0, 200, 0), -1)
        cv2.putText(picture, label, (left, top - base), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (0, 0, 0), 2, cv2.LINE_AA)


def drawing(given):
    count, frames = 20, 500
    own = json.loads(subprocess.run([given.build / "bench_draw", str(count), str(frames)], capture_output=True,
                                    text=True, check=True).stdout)
    cv2.setNumThreads(1)
    picture, corners = np.zeros((1080, 1920, 3), np.uint8), boxes(count)
    found = sv.Detections(xyxy=corners.astype(np.float32), class_id=np.arange(count) % 5)
    outline, label = sv.BoxAnnotator(thickness=3), sv.LabelAnnotator(text_scale=0.8, text_thickness=2)
    taken = {"OpenCV": [], "supervision": []}
    for frame in range(frames):
        labels = [f"person {i + 1} {(i * 7 + frame) % 100 / 100:.2f}" for i in range(count)]
        since = time.thread_time()
        draw_with_opencv(picture, corners, labels)
        between = time.thread_time()
        label.annotate(outline.annotate(picture, found), found, labels)
        taken["OpenCV"].append((between - since) * 1e6)
        taken["supervision"].append((time.thread_time() - between) * 1e6)
    print(f"\n{f'drawing {count} labelled boxes':32}{'us a frame':>12}")
    for name, us in (("millrace", own["draw_us"]), ("millrace and the copy", own["draw_us"] + own["copy_us"]),
                     *((name, statistics.median(all)) for name, all in taken.items())):
        print(f"{name:32}{us:12.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, help="YOLOX-nano; without it only tracks are compared")
    parser.add_argument("--classifier", type=pathlib.Path, help="EfficientNet-Lite0; without it there is no cascade")
    parser.add_argument("--video", default=VIDEO)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scenes", type=int, default=6)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    given = parser.parse_args()
    if given.frames <= 2 * contest.EDGE:
        parser.error(f"--frames must be above {2 * contest.EDGE}: the first and last {contest.EDGE} do not count")
    warnings.filterwarnings("ignore")
    folder = given.build / "bench"
    folder.mkdir(exist_ok=True)
    if given.model:
        people(given, folder)
    if given.model and given.classifier:
        cascade(given, folder)
    tracks(given)
    drawing(given)


if __name__ == "__main__":
    main()
