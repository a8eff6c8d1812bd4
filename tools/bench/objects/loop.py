"""Peer: a Python loop with OpenCV, ONNX Runtime and supervision: finds people with YOLOX-nano and follows them.

Prints a row for each frame.

    loop.py MODEL VIDEO FRAMES"""
import json
import sys

import cv2
import numpy as np
import onnxruntime
import supervision as sv

SIDE, SCORE, OVERLAP = 416, 0.25, 0.45


def grids():
    cells, strides = [], []
    for stride in (8, 16, 32):
        y, x = np.mgrid[:SIDE // stride, :SIDE // stride]
        cells.append(np.stack([x.ravel(), y.ravel()], axis=1))
        strides.append(np.full(len(cells[-1]), stride))
    return np.concatenate(cells).astype(np.float32), np.concatenate(strides).astype(np.float32)[:, None]


def prepare(picture):
    scale = min(SIDE / picture.shape[0], SIDE / picture.shape[1])
    small = cv2.resize(picture, (int(picture.shape[1] * scale), int(picture.shape[0] * scale)))
    padded = np.full((SIDE, SIDE, 3), 114, np.uint8)
    padded[:small.shape[0], :small.shape[1]] = small
    return np.ascontiguousarray(padded.transpose(2, 0, 1), dtype=np.float32)[None], scale


def find(rows, cells, strides, scale):
    scores = rows[:, 4] * rows[:, 5]
    kept = scores > SCORE
    rows, scores = rows[kept], scores[kept]
    centre, size = (rows[:, :2] + cells[kept]) * strides[kept], np.exp(rows[:, 2:4]) * strides[kept]
    boxes = np.concatenate([centre - size / 2, size], axis=1) / scale
    best = np.array(cv2.dnn.NMSBoxes(boxes.tolist(), scores.tolist(), SCORE, OVERLAP), int).ravel()
    boxes[:, 2:] += boxes[:, :2]
    return sv.Detections(xyxy=boxes[best], confidence=scores[best], class_id=np.zeros(len(best), int))


def main():
    model, path, frames = sys.argv[1:]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name, (cells, strides), tracker = session.get_inputs()[0].name, grids(), sv.ByteTrack(frame_rate=10)
    video = cv2.VideoCapture(path)
    for seq in range(int(frames)):
        good, picture = video.read()
        if not good:
            raise SystemExit(f"only {seq} frames")
        tensor, scale = prepare(picture)
        found = find(session.run(None, {name: tensor})[0][0], cells, strides, scale)
        found = tracker.update_with_detections(found)
        print(json.dumps({"seq": seq, "objects": [
            {"track": int(track), "score": float(score), "box": box.tolist()}
            for box, score, track in zip(found.xyxy, found.confidence, found.tracker_id)]}), flush=True)


main()
