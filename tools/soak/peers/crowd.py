"""Receives cameras, decodes every picture, classifies every tenth, and prints a line for each of those.

    crowd.py gstreamer|opencv EVERY WIDTHxHEIGHT MODEL URL...

A thread for each camera does what it has to do one after the other; the network is one session of ONNX Runtime that all
threads call, each call on one thread. A line is {"source": "cN", "seq": number of the picture, "classes": [...]}."""
import json
import os
import pathlib
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
import numpy  # noqa: E402

import network  # noqa: E402


def tell(source, seq, best):
    os.write(1, (json.dumps({"source": f"c{source}", "seq": seq, "classes": best}) + "\n").encode())


def opencv(source, url, every, size, net):
    import cv2
    cv2.setNumThreads(1)
    capture = cv2.VideoCapture(url, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    blob = numpy.empty((1, 3, network.SIZE, network.SIZE), numpy.float32)
    rows, columns = network.middle(*size)
    seq = 0
    while capture.grab():  # decodes it; retrieve converts
        if seq % every == 0:
            picture = cv2.resize(capture.retrieve()[1], network.resized(*size), interpolation=cv2.INTER_LINEAR)
            rgb = cv2.cvtColor(picture[rows, columns], cv2.COLOR_BGR2RGB)
            tell(source, seq, net.best(network.normalise(rgb, blob)))
        seq += 1


def gstreamer(source, url, every, size, net):
    from gi.repository import Gst
    width, height = network.resized(*size)
    width += -width % 4  # rows of RGB are padded to four bytes
    rows, columns = network.middle(*size)
    pipeline = Gst.parse_launch(f"rtspsrc location={url} protocols=tcp latency=0 ! rtph264depay ! h264parse ! "
                                f"avdec_h264 name=decoder max-threads=1 ! videoscale ! video/x-raw,width={width},"
                                f"height={height} ! videoconvert ! video/x-raw,format=RGB ! "
                                "appsink name=sink sync=false max-buffers=2")
    count = -1

    def choose(pad, info):
        nonlocal count
        count += 1
        return Gst.PadProbeReturn.DROP if count % every else Gst.PadProbeReturn.OK

    pipeline.get_by_name("decoder").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, choose)
    sink = pipeline.get_by_name("sink")
    pipeline.set_state(Gst.State.PLAYING)
    blob = numpy.empty((1, 3, network.SIZE, network.SIZE), numpy.float32)
    seq = 0
    while sample := sink.emit("pull-sample"):
        buffer = sample.get_buffer()
        ok, memory = buffer.map(Gst.MapFlags.READ)
        rgb = numpy.frombuffer(memory.data, numpy.uint8).reshape(height, width, 3)
        network.normalise(rgb[rows, columns], blob)
        buffer.unmap(memory)
        tell(source, seq, net.best(blob))
        seq += every


def main():
    kind, every, size, model, *urls = sys.argv[1:]
    size = [int(one) for one in size.split("x")]
    os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "rtsp_transport;tcp|threads;1"
    if kind == "gstreamer":
        sys.path.append("/usr/lib/python3/dist-packages")  # GStreamer's bindings come with Debian, not with pip
        import gi
        gi.require_version("Gst", "1.0")
        from gi.repository import Gst
        Gst.init(None)
    net = network.Network(model)
    work = {"gstreamer": gstreamer, "opencv": opencv}[kind]
    threads = [threading.Thread(target=work, args=(source, url, int(every), size, net), daemon=True)
               for source, url in enumerate(urls)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


if __name__ == "__main__":
    main()
