"""Peer: OpenCV with one loop per video, which reads a frame, then runs the network."""
import threading

import network
import opencv


def work(net, results, videos):
    def loop(source, video):
        for seq, (pts, blob) in enumerate(opencv.read(video, 2 if len(videos) == 1 else 1)):
            results.add(source, seq, pts, net.best(blob))

    threads = [threading.Thread(target=loop, args=one) for one in enumerate(videos)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


network.measured(work)
