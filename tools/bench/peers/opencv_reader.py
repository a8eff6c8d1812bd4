"""Peer: OpenCV with a reader thread a video."""
import network
import opencv

network.measured(network.with_readers(opencv.read))
