"""Small inputs from which the fuzzers begin: FOLDER/fuzz_NAME/*, made of what independent programs write.

    seeds.py FOLDER [WIRE_MESSAGES]    (tests/reference/wire_messages.c)

Nothing of them is committed but tests/fuzz/corpus, which holds what these programs cannot make.
"""
import fractions
import glob
import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys

import av
import numpy
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from rtmp_server import amf, begin, command, message
folder = sys.argv[1]


def put(target, name, data):
    where = os.path.join(folder, "fuzz_" + target)
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, name), "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def pieces(*all, order=">"):
    """Each one after its length in two bytes."""
    return b"".join(struct.pack(order + "H", len(piece)) + piece for piece in all)


# ---- what stands in the repository --------------------------------------------------------------------------------

def committed():
    for path in glob.glob(os.path.join(HERE, "corpus", "*", "*")):
        where = os.path.join(folder, "fuzz_" + os.path.basename(os.path.dirname(path)))
        os.makedirs(where, exist_ok=True)
        shutil.copy(path, where)


def pipelines():
    found = glob.glob(os.path.join(ROOT, "pipelines", "*.yaml"))
    found += glob.glob(os.path.join(ROOT, "tests", "wrong", "*", "*.yaml"))
    for path in found:
        with open(path, "rb") as file:
            put("spec", path[len(ROOT):].replace("/", "_"), file.read())


# ---- texts --------------------------------------------------------------------------------------------------------

ADDRESSES = [
    "rtsp://user:pass%20word@camera.example:554/a/b?c=d#e", "htp://user:hunter2@host/x", "rtsp:/u:hunter2@host/x",
    "http://[fe80::1]:8080/../a/./b", "srt://host:9000?mode=caller&passphrase=secret", "u:p@h", "localhost:8090",
    "[::1]:0", "127.0.0.1:8090", "https://a:b/c@d:e@host/f\0../g?h", "camera.example\0*.example,10.0.*",
    "text http://a:b@c/d, and rtsp://e:f@g/h?i=j@k", "data:image/jpeg,a@b", "//host/path\0//other/path",
    "srt://h@st:90s00?mode=calt://h@sler&passphrase=",
]
REQUESTS = [
    {"millrace": 1, "do": "status"}, {"millrace": 1, "do": "disable", "argument": "cuda:1"},
    {"millrace": 1, "do": "add", "argument": "door", "options": {"uri": "door.mp4", "every": "10"}},
    {"millrace": 2, "do": "stop"}, {"millrace": 1, "do": "log", "argument": "debug"}, [1, {"a": [None, True, 1.5e3]}],
]
CSV = ("path,label,group,split\n" "a.jpg,cat,one,train\r\n" "\"b, \"\"c\"\".jpg\" , dog,,test\n\n",
       "path,start,end,label,other\nv.mp4,0.5,12.5,x,y\nw.mp4,,3,z,\n")
LINES = ('{"path": "a.jpg", "label": "cat", "split": "train"}\n{"path": "b", "label": 7, "other": {"x": [1]}}\n',
         '{"path": "v.mp4", "start": 0.5, "end": 12.5, "group": null}\n')


def texts():
    for i, text in enumerate(ADDRESSES):
        put("address", f"address{i}", text)
    for i, (csv, lines) in enumerate(zip(CSV, LINES)):
        for vectors in 0, 1:
            put("lists", f"csv{i}{vectors}", chr(vectors) + csv)
            put("lists", f"lines{i}{vectors}", chr(2 + vectors) + lines)
    for i, request in enumerate(REQUESTS):
        put("lists", f"json{i}", "\4" + json.dumps(request))
        put("lists", f"request{i}", "\5" + json.dumps(request))
    put("lists", "yolo", "\6" + "0 0.5 0.5 0.25 0.25\n2 0.1 0.1 0.2 0.2 0.1 0.3\n")
    put("lists", "mot", "\7" + "1,7,10,20,30.5,40,1,1,0.5\n2,7,11,20,30.5,40,0,2,1\n")
    put("lists", "coco", "\10" + json.dumps({
        "videos": [{"id": 1, "name": "v", "fps": 10}],
        "images": [{"id": 2, "file_name": "a.png", "video_id": 1, "frame_id": 0}],
        "categories": [{"id": 5, "name": "owl"}], "annotations": [
            {"image_id": 2, "category_id": 5, "bbox": [0, 1.5, 2, 3], "area": 6, "iscrowd": 1, "track_id": 4}]}))


def kept():
    mark = {"of": "0" * 16, "epoch": 0, "seq": 1041, "ended": False}
    checkpoint = {"checkpoint": 1, "pipeline": "p", "complete": False, "sources": {"a": mark, "b": mark}}
    cost = {"id": "out", "frames": 10, "cpu_ns": 5000, "device_ns": 100.5}
    card = {"like": "h100", "name": "mine", "decode_fps": {"h264": 640}, "memory_gib": 80}
    for kind, one in enumerate((checkpoint, {"profile": {"frames": 10, "costs": [cost, cost]}}, card)):
        put("kept", f"file{kind}", chr(kind) + json.dumps(one))


def sites():
    """Answers of scontrol, sacct, kubectl and systemctl, and a record."""
    put("sites", "scontrol", "\0" + "JobId=7 JobName=three\n   UserId=me(1) JobState=FAILED Reason=NonZeroExitCode "
        "Restarts=1 ExitCode=74:0 NodeList=n[1-3] Command=/x\n")
    put("sites", "signal", "\0JobId=7\n JobState=FAILED Reason=None ExitCode=0:2147483647 NodeList=n1\n")
    put("sites", "sacct", "\0CANCELLED by 1000|0:15|n1|None\n")
    labels = {"millrace/run": "1", "millrace/node": "three-worker"}
    container = {"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                 "lastState": {"terminated": {"exitCode": 78, "reason": "Error"}}}
    pod = {"kind": "Pod", "metadata": {"labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {
        "batch.kubernetes.io/job-completion-index": "1"}}, "spec": {"nodeName": "m1"},
        "status": {"phase": "Running", "containerStatuses": [container],
                   "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}
    job = {"kind": "Job", "metadata": {"name": "three-camera"},
           "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}}
    put("sites", "kubectl", "\1" + json.dumps({"items": [pod, job]}))
    put("sites", "systemctl", "\2LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code\nNRestarts=4\n"
        "ExecMainCode=1\nExecMainStatus=74\nExecMainStartTimestampMonotonic=5\nStatusText=x\n\nLoadState=not-found\n")
    process = {"node": "camera", "replica": 0, "state": "failed", "host": "n1", "restarts": 1, "exit_code": 74}
    put("sites", "record", "\3" + json.dumps({"target": "slurm", "name": "three", "run": "1", "site_id": "7",
                                              "state": "failed", "exit_code": 74, "processes": [process],
                                              "files": ["/x/three.sbatch"], "options": ["--clusters=a"]}))


def vectors():
    """Heads and records of right size; only their sums are wrong, which the fuzzer's own writer cannot make either."""
    key = b"k".ljust(40, b"\0")
    record = struct.pack("<QQqQIIQ", 1, 2, 40, 7, 0, 0, 3)
    made = b"MRMADE02" + struct.pack("<Q", 3) + key + bytes(8) + record * 2
    put("vectors", "cache", bytes([len(made) // 8]) + made + struct.pack("<6f", *range(6)))


# ---- messages -----------------------------------------------------------------------------------------------------

def records():
    put("record", "json", json.dumps({"pts": 1.5, "id": "a-1", "end": False, "format": "rgb24 640x480", "x": [1, {}]}))
    put("record", "integer", json.dumps({"id": 7, "pts": 3, "format": "tensor f32 3x8x8"}))
    put("record", "protobuf", b"\x28\x07\x62\x0drgb24 640x480\x78\x01\x8a\x01\x03a-1")


def hub():
    """Reports of two runs, one of which ends; numbers and lists as proto/hub.proto has them."""
    head = b"\x08\x01\x1a\x03box\x22\x05lobby\x52\x0ehttp://box:91/"
    rest = b"\x78\x80\x94\xeb\xdc\x03\x90\x01\x20\xca\x01\x06\x12\x04runs\xd2\x01\x0c\x0a\x03cpu\x12\x05works"
    one, two = (head + b"\x11" + bytes([number]) * 8 + rest for number in (1, 2))
    put("hub", "runs", pieces(one, two, one + b"\x58\x02\x60\x46"))


def mqtt():
    """Packets of brokers as the standards' figures have them, after a byte for the version."""
    properties = bytes.fromhex("2100052700000100240025001300 0a1f00026f6b260001 6b000176120001 61")
    connack = bytes([0x20, 3 + len(properties), 0, 0, len(properties)]) + properties
    put("mqtt", "five", b"\x01" + connack + bytes.fromhex("40020001 4003000297 d000 3d08000174000700 6869 62020007"))
    put("mqtt", "old", b"\0" + bytes.fromhex("20020000 40020001 300400017468 d000"))
    put("mqtt", "refused", b"\x01" + bytes.fromhex("2003008700"))
    put("mqtt", "why", b"\x01" + bytes.fromhex("400b0001 87 07 26 00016b 000176 e007 97 05 1f 0002 6f6b"))


def sealed():
    for length in 0, 15, 16, 64:
        put("sealed", f"zeros{length}", bytes(32) + b"\7\0\0" + bytes(length))


def wire(program):
    written = subprocess.run([program, "write"], stdout=subprocess.PIPE, check=True).stdout
    at, number = 0, 0
    while at < len(written):
        count, = struct.unpack_from("<I", written, at)
        at += 4
        parts = []
        for _ in range(count):
            length, = struct.unpack_from("<I", written, at)
            parts.append(written[at + 4:at + 4 + length])
            at += 4 + length
        put("wire", f"message{number}", pieces(*parts, order="<"))
        number += 1


SDP = ("v=0\r\no=- 1 1 IN IP4 1.2.3.4\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\na=control:*\r\n"
       "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n"
       "a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z0IAHukCwPaAAAA=,aM4xUg==\r\na=control:track1\r\n"
       "m=video 0 RTP/AVP 26\r\na=framerate:25\r\n")
DIGEST = 'WWW-Authenticate: Digest realm="a \\"b", nonce="c", qop="auth,auth-int", algorithm=SHA-256, stale=TRUE\r\n'


def rtsp(streams):
    put("rtsp", "sdp", "\7" + SDP)
    put("rtsp", "described", "\6RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Base: rtsp://h/x/\r\n"
        f"Content-Length: {len(SDP)}\r\n\r\n{SDP}")
    put("rtsp", "digest", f"\6RTSP/1.0 401 Unauthorized\r\nCSeq: 3\r\n{DIGEST}"
        'WWW-Authenticate: Basic realm="x"\r\n\r\n')
    put("rtsp", "moved", "\6RTSP/1.0 302 Moved\r\nLocation: rtsp://u:p@other:8554/y\r\nTransport: RTP/AVP;unicast;"
        "server_port=5000-5001;ssrc=1234ABCD\r\n\r\n")
    report = struct.pack(">BBHIIIIII", 0x80, 200, 6, 1, 0xe0000000, 0, 9000, 10, 1000)
    for kind, name in enumerate(("h264", "hevc")):
        units = [unit for packet in streams[name][1] for unit in packet.split(b"\0\0\1") if unit][:8]
        packets = [struct.pack(">BBHII", 0x80, 0xe0, n, n * 3600, 1) + unit[:1400] for n, unit in enumerate(units)]
        put("rtsp", name, bytes([kind]) + pieces(*packets, report))
        put("rtsp", name + "_late", bytes([kind + 3]) + pieces(*packets[::-1], report))
    scan = bytes(range(200))
    packets = [struct.pack(">BBHII", 0x80, 0x9a | (n % 2) << 7, n, n // 2 * 3600, 1) +
               struct.pack(">IBBBB", n % 2 * len(scan), 1, 60, 4, 3) + scan for n in range(6)]
    put("rtsp", "jpeg", b"\2" + pieces(*packets, report))


def rtmp():
    """A server's messages after the handshake."""
    answers = (message(2, 1, struct.pack(">I", 4096), stream=0) + message(2, 5, struct.pack(">I", 1000), stream=0) +
               message(2, 6, struct.pack(">IB", 1000, 2), stream=0) +
               command("_result", 1, {"fmsVer": "FMS/3"}, {"level": "status"}) + command("onBWDone", 0, None) +
               command("_result", 2, None, 1) +
               command("onStatus", 0, None, {"level": "status", "code": "NetStream.Play.Start"}))
    tag = b"\t\0\0\5\0\0\1\0\0\0\0\x17\1\0\0\0\0\0\0\x10"
    put("rtmp", "played", b"\xff" + answers + message(4, 18, amf("onMetaData", {"width": 160.0}), chunk=4096) +
        message(6, 9, b"\x17\0\0\0\0\1", 40) + message(70, 8, b"\xaf\1x") + message(400, 22, tag * 2, 80) +
        begin(6, 9, 4, 0xffffff) + b"\1\0\0\0abcd" + message(2, 4, struct.pack(">HI", 6, 7), stream=0) +
        begin(5, 9, 9000) + bytes(4096) + message(2, 2, struct.pack(">I", 5), stream=0) +
        b"\x46\0\0\x28\0\0\2\x09ab\x86\0\0\x28cd\xc6ef" +
        command("onStatus", 0, None, {"level": "status", "code": "NetStream.Play.Stop"}))
    refused = "[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=needauth&user=u&salt=ab&challenge=cd&opaque=ef"
    asks, refuses = (command("_error", 1, None, {"level": "error", "code": "Rejected", "description": text})
                     for text in ("[ code=403 need auth; authmod=adobe ]" + " " * 7, refused))
    put("rtmp", "password", bytes([len(asks) // 16]) + asks + bytes(-len(asks) % 16) + refuses + answers)


# ---- pictures and streams -----------------------------------------------------------------------------------------

def picture(size=(48, 32)):
    return Image.merge("RGB", [Image.linear_gradient("L").resize(size).rotate(90 * n) for n in range(3)])


def saved(image, kind, **options):
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def pictures():
    jpegs = [saved(picture(), "JPEG", quality=40, subsampling=n) for n in range(3)]
    jpegs += [saved(picture(), "JPEG", quality=40, progressive=True), saved(picture().convert("L"), "JPEG"),
              saved(picture().convert("CMYK"), "JPEG"), saved(picture(), "JPEG", restart_marker_blocks=1)]
    turned = Image.Exif()
    turned[0x0112] = 6
    for i, jpeg in enumerate(jpegs):
        put("jpeg", f"jpeg{i}", jpeg)
        part = b"--x\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n%s\r\n" % (len(jpeg), jpeg)
        put("mjpeg", f"parts{i}", bytes([50 + i]) + part * 2)
    for kind in "JPEG", "PNG", "WEBP", "TIFF", "AVIF", "GIF", "BMP":
        put("still", kind.lower(), saved(picture((16, 12)), kind, exif=turned))


def encoded(codec, **options):
    """Header and packets of eight small pictures."""
    context = av.CodecContext.create(codec, "w")
    context.width, context.height, context.pix_fmt, context.time_base = 64, 48, "yuv420p", fractions.Fraction(1, 25)
    context.options = options
    packets = []
    for n in range(8):
        frame = av.VideoFrame.from_image(picture((64, 48)).rotate(n * 20))
        frame.pts = n
        packets += context.encode(frame.reformat(format="yuv420p"))
    packets += context.encode(None)
    return context.extradata or b"", [bytes(packet) for packet in packets]


def streams():
    quiet = {"x265-params": "log-level=none:keyint=4"}
    made = {"h264": encoded("libx264", g="4", bf="2"), "hevc": encoded("libx265", **quiet),
            "vp9": encoded("libvpx-vp9"), "mpeg2": encoded("mpeg2video", g="4", bf="2"), "mpeg4": encoded("mpeg4")}
    for kind, (name, (header, packets)) in enumerate(made.items()):
        put("packet", name, bytes([kind]) + pieces(header, *packets))
        if kind < 2:
            for how in range(4):
                put("coded", f"{name}{how}", bytes([kind | how << 1]) + pieces(header, *packets))
    return made


def transport():
    data = io.BytesIO()
    with av.open(data, "w", format="mpegts") as to:
        stream = to.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for n in range(8):
            to.mux(stream.encode(av.VideoFrame.from_image(picture((64, 48)).rotate(n * 20))))
        to.mux(stream.encode(None))
    put("ts", "whole", b"\x10\x03\0\0" + data.getvalue())
    put("ts", "gap", b"\x10\x03\1\0" + data.getvalue()[:188 * 6] + data.getvalue()[188 * 7:])


def mxf():
    key = bytes.fromhex("060e2b34025301010d01020101100100")
    items = struct.pack(">2HQ2HQ2HI", 0x3f0d, 8, 1000, 0x3f0c, 8, 0, 0x3f05, 4, 0)
    put("indexes", "mxf", b"\2\7" + (key + b"\x83\0\0" + bytes([len(items)]) + items) * 2)


def indexes():
    """MP4 with its index at the end and in fragments, QuickTime, Matroska and WebM as a live stream."""
    for name, kind, options in (("plain", "mp4", {}), ("fragments", "mp4", {"movflags": "frag_keyframe+empty_moov"}),
                                ("sidx", "mp4", {"movflags": "dash+frag_keyframe+empty_moov"}),
                                ("quicktime", "mov", {}),
                                ("plain", "matroska", {}), ("live", "matroska", {"live": "1"})):
        data = io.BytesIO()
        with av.open(data, "w", format=kind, options=options) as to:
            stream = to.add_stream("mpeg4", rate=25)
            stream.width, stream.height, stream.pix_fmt = 16, 16, "yuv420p"
            for n in range(4):
                to.mux(stream.encode(av.VideoFrame.from_image(picture((16, 16)))))
            to.mux(stream.encode(None))
        put("indexes", f"{kind}-{name}", bytes([kind == "matroska", 0, 0, 0]) + data.getvalue())


# ---- models -------------------------------------------------------------------------------------------------------

def networks():
    def weights(name, *shape):
        return numpy_helper.from_array(numpy.full(shape, 0.5, numpy.float32), name)

    def graph(nodes, outputs, *stored):
        given = helper.make_tensor_value_info("in", TensorProto.FLOAT, ["n", 3, 8, 8])
        return helper.make_model(helper.make_graph(nodes, "g", [given], outputs, list(stored)))

    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])
    nodes = [helper.make_node("Conv", ["in", "w"], ["c"], kernel_shape=[3, 3]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("GlobalAveragePool", ["r"], ["p"]), helper.make_node("Flatten", ["p"], ["f"])]
    ends = [helper.make_node("Identity", ["f"], ["out"]), helper.make_node("Softmax", ["f"], ["out"]),
            helper.make_node("Gemm", ["f", "g"], ["out"])]
    made = [graph(nodes + [end], [out], weights("w", 3, 3, 3, 3), weights("g", 3, 3)) for end in ends]
    outside = graph(nodes + ends[:1], [out], weights("w", 3, 3, 3, 3))
    stored = outside.graph.initializer[0]
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    for key, value in ("location", "9"), ("offset", "0"), ("length", "324"):
        entry = stored.external_data.add()
        entry.key, entry.value = key, value
    for i, model in enumerate(made + [outside]):
        put("models", f"onnx{i}", b"\0" + model.SerializeToString())
        put("head", f"onnx{i}", b"\0" + model.SerializeToString())
    matrix = io.BytesIO()
    numpy.save(matrix, numpy.eye(3, 4, dtype=numpy.float32))
    put("models", "npy", b"\2" + matrix.getvalue())
    put("models", "labels", b"\1cat\ndog\r\nbird, with a comma\n")
    put("models", "note", b"\3{0: 'cat', 1: \"dog\\'s\"}")


def heads():
    matrix = io.BytesIO()
    numpy.save(matrix, numpy.arange(1, 9, dtype=numpy.float32).reshape(2, 4))
    files = {"labels.txt": hashlib.sha256(b"a\nb\n").hexdigest(),
             "weights.npy": hashlib.sha256(matrix.getvalue()).hexdigest()}
    card = {"format": 1, "kind": "softmax", "width": 3, "classes": 2, "files": files, "warnings": ["w"],
            "tried": [{"penalty": 0.1, "steps": 5, "end": "gradient"}], "figures": {"accuracy": 0.5}}
    put("head", "card", "\2" + json.dumps(card))
    put("head", "signature", b"\1" + b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEATNGAQF8nUYLw6IZ9bPEH8Cnmr"
        b"OfoqzAEduj4VIufER8=\n-----END PUBLIC KEY-----\n")


committed()
pipelines()
texts()
kept()
sites()
vectors()
records()
hub()
mqtt()
sealed()
pictures()
coded = streams()
rtsp(coded)
rtmp()
transport()
indexes()
mxf()
networks()
heads()
if len(sys.argv) > 2:
    wire(sys.argv[2])
