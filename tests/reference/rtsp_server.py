"""Runs gst-rtsp-server. Needs the system's Python, which has GObject introspection:

    rtsp_server.py PATH=LAUNCH... [--protocols tcp|udp] [--user NAME:PASSWORD] [--tls CERTIFICATE_AND_KEY]

Prints the port once the server listens. Each path has a separate factory, which its clients share."""
import argparse
import sys

try:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstRtsp", "1.0")
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import Gio, GLib, Gst, GstRtsp, GstRtspServer
except (ImportError, ValueError) as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

parser = argparse.ArgumentParser()
parser.add_argument("factories", nargs="+")
parser.add_argument("--protocols", choices=("tcp", "udp"))
parser.add_argument("--user")
parser.add_argument("--tls")
parser.add_argument("--port", default="0")
parser.add_argument("--not-shared", action="store_true")
arguments = parser.parse_args()

Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service(arguments.port)
role = GstRtspServer.RTSPToken()
role.set_string("media.factory.role", "user")
if arguments.user or arguments.tls:
    auth = GstRtspServer.RTSPAuth()
    if arguments.user:
        auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
        auth.add_digest(*arguments.user.split(":"), role)
    else:
        auth.set_default_token(role)
    if arguments.tls:
        auth.set_tls_certificate(Gio.TlsCertificate.new_from_file(arguments.tls))
    server.set_auth(auth)
for factory in arguments.factories:
    path, launch = factory.split("=", 1)
    made = GstRtspServer.RTSPMediaFactory()
    made.set_launch(launch)
    made.set_shared(not arguments.not_shared)
    if arguments.protocols:
        made.set_protocols(GstRtsp.RTSPLowerTrans.TCP if arguments.protocols == "tcp" else GstRtsp.RTSPLowerTrans.UDP)
    if arguments.user or arguments.tls:
        allowed = Gst.Structure.new_empty("user")
        for right in ("media.factory.access", "media.factory.construct"):
            allowed.set_value(right, True)
        made.add_role_from_structure(allowed)
    server.get_mount_points().add_factory(path, made)
server.attach(None)
print(server.get_bound_port(), flush=True)
GLib.MainLoop().run()
