"""An RTSP server that receives one stream (ANNOUNCE, RECORD) and writes the H.264 to a file, for a system Python with
GStreamer's RTSP server: `python3 rtsp_receiver.py FILE`. Prints the port."""
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service("0")
factory = GstRtspServer.RTSPMediaFactory()
factory.set_transport_mode(GstRtspServer.RTSPTransportMode.RECORD)
factory.set_launch(f"( rtph264depay name=depay0 ! h264parse ! video/x-h264,stream-format=byte-stream ! "
                   f"filesink sync=false buffer-mode=unbuffered location={sys.argv[1]} )")
server.get_mount_points().add_factory("/live", factory)
server.attach(None)
print(server.get_bound_port(), flush=True)
GLib.MainLoop().run()
