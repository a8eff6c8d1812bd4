"""Shared by all peers: the network in ONNX Runtime, one result line per frame, and the measurement.

Call a peer as PEER MODEL OUTPUT VIDEO... It classifies every frame of all videos, all videos at once. It writes one
JSON object per frame to OUTPUT and prints one JSON object with the cost. Time counts from opening the first video to
the last result, without imports and loading the model.

All do the same work: they shrink the shorter side to 256 pixels, take the middle 224x224, and compute (x - 127) / 128.
Then come the network in float or int8 on one thread, the linear layer, softmax and the best five. Each does it as
cheaply as the libraries allow."""
import json
import os
import queue
import resource
import sys
import threading
import time

import numpy as np
import onnxruntime

SIZE, RESIZED = 224, 256


def normalise(rgb, blob):
    """Converts 224x224x3 bytes (any strides) to a 1x3x224x224 float array."""
    np.subtract(rgb.transpose(2, 0, 1), np.float32(127), out=blob[0])
    np.multiply(blob, np.float32(1 / 128), out=blob)
    return blob


def resized(width, height):
    """The even size of a whole picture if the shorter side has 256 pixels."""
    scale = RESIZED / min(width, height)
    return 2 * round(width * scale / 2), 2 * round(height * scale / 2)


def middle(width, height):
    """The rows and columns of that resized picture that the network gets."""
    width, height = resized(width, height)
    top, left = (height - SIZE) // 2, (width - SIZE) // 2
    return slice(top, top + SIZE), slice(left, left + SIZE)


class Network:
    def __init__(self, path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name
        head = np.load(os.path.join(os.path.dirname(path), "lite0-head.npy"))
        self.weights, self.bias = np.ascontiguousarray(head[:, :-1]), np.ascontiguousarray(head[:, -1])

    def best(self, blob):
        logits = self.weights @ self.session.run(None, {self.input: blob})[0][0] + self.bias
        scores = np.exp(logits - logits.max())
        scores /= scores.sum()
        best = np.argpartition(scores, -5)[-5:]
        best = best[np.argsort(-scores[best])]
        return [{"index": int(i), "score": round(float(scores[i]), 6)} for i in best]


class Results:
    def __init__(self, path):
        self.file = open(path, "w")
        self.lock = threading.Lock()

    def add(self, source, seq, pts, best):
        with self.lock:
            self.file.write(json.dumps({"source": source, "seq": seq, "pts": pts, "classes": best}) + "\n")


def measured(work):
    """Runs work(network, results, videos) with the command's arguments and prints the cost."""
    model, output, *videos = sys.argv[1:]
    network, results = Network(model), Results(output)
    start, cpu = time.monotonic(), cpu_seconds()
    work(network, results, videos)
    results.file.close()
    print(json.dumps({"wall": time.monotonic() - start, "cpu": cpu_seconds() - cpu}))


def cpu_seconds():
    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    return used


def with_readers(read):
    """Work with one reader thread per video: read(video, threads) yields (pts, blob), and the main thread runs the
    network. A single video gets two decoder threads; several videos get one each."""

    def work(network, results, videos):
        frames = queue.Queue(8)

        def reader(source, video):
            for seq, (pts, blob) in enumerate(read(video, 2 if len(videos) == 1 else 1)):
                frames.put((source, seq, pts, blob))
            frames.put(None)

        threads = [threading.Thread(target=reader, args=one) for one in enumerate(videos)]
        for thread in threads:
            thread.start()
        running = len(threads)
        while running:
            frame = frames.get()
            if frame is None:
                running -= 1
            else:
                source, seq, pts, blob = frame
                results.add(source, seq, pts, network.best(blob))

    return work
