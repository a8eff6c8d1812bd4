"""Shared by both OpenCV peers: VideoCapture, crop, resize, blobFromImage."""
import cv2

import network

cv2.setNumThreads(1)


def read(video, threads):
    capture = cv2.VideoCapture(video, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, threads])
    while True:
        ok, frame = capture.read()
        if not ok:
            break
        pts = capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
        height, width = frame.shape[:2]
        side = min(width, height) * network.SIZE // network.RESIZED
        top, left = (height - side) // 2, (width - side) // 2
        small = cv2.resize(frame[top:top + side, left:left + side], (network.SIZE, network.SIZE))
        yield pts, cv2.dnn.blobFromImage(small, 1 / 128, mean=(127, 127, 127), swapRB=True)
