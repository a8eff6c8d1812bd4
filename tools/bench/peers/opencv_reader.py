"""Peer: OpenCV with one reader thread per video."""
import network
import opencv

network.measured(network.with_readers(opencv.read))
