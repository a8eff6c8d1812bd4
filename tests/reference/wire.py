"""Python's protobuf and xxHash must read the messages that millrace writes, and millrace must read theirs.

The schema compiler reads the schema from proto/millrace.proto, so no generated file is kept here.

    wire.py PROGRAM    (tests/reference/wire_messages.c)
"""
import os
import struct
import subprocess
import sys
import tempfile

try:
    import xxhash
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

program = sys.argv[1]
proto = os.path.join(os.path.dirname(__file__), "..", "..", "proto")
with tempfile.NamedTemporaryFile() as out:
    subprocess.run(["protoc-c", f"-I{proto}", f"--descriptor_set_out={out.name}", "millrace.proto"], check=True)
    files = descriptor_pb2.FileDescriptorSet.FromString(out.read())
pool = descriptor_pool.DescriptorPool()
for file in files.file:
    pool.Add(file)


def message(name):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"millrace.v1.{name}"))


Envelope, Media = message("Envelope"), message("Media")


def same(got, expected, what):
    if got != expected:
        sys.exit(f"{what}: {got!r} instead of {expected!r}")


def kind(text):
    """FNV-1a (32 bits)."""
    sum = 2166136261
    for byte in text.encode():
        sum = (sum ^ byte) * 16777619 % 2 ** 32
    return sum


CLASSES, TENSOR = kind("classes index:i32 label:text score:f32"), kind("tensor")
TEXT = kind("text text:string score:f32")
CLASS = "<iIf"


def sealed(envelope):
    data = envelope.SerializeToString(deterministic=True)
    return data + b"\x79" + struct.pack("<Q", xxhash.xxh3_64_intdigest(data))


def framed(parts):
    return struct.pack("<I", len(parts)) + b"".join(struct.pack("<I", len(part)) + part for part in parts)


def split(data):
    at = 0
    while at < len(data):
        count, = struct.unpack_from("<I", data, at)
        at += 4
        parts = []
        for _ in range(count):
            length, = struct.unpack_from("<I", data, at)
            parts.append(data[at + 4:at + 4 + length])
            at += 4 + length
        yield parts


def read_ours():
    written = subprocess.run([program, "write"], check=True, capture_output=True).stdout
    hello, report, items = split(written)
    for parts in (hello, report, items):
        envelope = Envelope.FromString(parts[0])
        same(envelope.checksum, xxhash.xxh3_64_intdigest(parts[0][:-9]), "checksum")
        same(envelope.SerializeToString(), parts[0], "bytes written again")
        same(envelope.version, 3, "version")
    said = Envelope.FromString(hello[0]).hello
    same((said.name, said.incarnation, said.attempt, said.cut, said.formats, said.memory, said.newest_version),
         ("center", 2 ** 64 - 1, 3, "a->b", "pictures", "", 2), "hello")
    same(said.digest, bytes([0, 1, 2] + 29 * [0]), "digest")
    envelope = Envelope.FromString(report[0])
    said = envelope.report
    same((envelope.session, envelope.number), (8, 1), "session and number")
    same((said.granted_frames, said.granted_bytes, said.progress, said.withdrawn), (10, 2 ** 50, 30, True), "report")
    same(list(said.ended), [2, 0], "ended")
    same([(s.first, s.count, s.outcome) for s in said.settled], [(1, 5, 2), (6, 1, 3)], "settled")
    same((said.names[said.settled[1].stage - 1], said.names[said.settled[1].reason - 1]), ("s", "late"), "reason")
    said = Envelope.FromString(items[0]).items
    same(said.made_by, 3 << 60, "maker")
    frame, gone = said.items
    same((frame.kind, frame.position, frame.source, frame.epoch, frame.seq, frame.sub), (0, 300, 1, 2, 2 ** 40, 4),
         "frame")
    same((frame.pts_ns, frame.dts_ns, frame.age_ns, frame.remaining_ns, frame.flags), (-5, -2 ** 63, 70, 30, 1),
         "times")
    same((len(said.formats), frame.format), (1, 1), "formats")
    format = said.formats[frame.format - 1]
    same((format.payload, format.pixel, format.width, format.height), (2, 6, 16, 8), "format")
    way, = said.geometries
    same((frame.geometry, list(way.x), list(way.y), way.width, way.height, way.source_width, way.source_height,
          way.rotation, way.flip), (1, [0, -1.5, 640], [2, 0, -7], 16, 8, 640, 481, 90, True), "geometry")
    same((gone.kind, gone.seq, said.names[gone.reason - 1]), (1, 9, "late"), "gone")
    block, = said.blocks
    same((len(items), block.bytes, block.checked), (2, len(items[1]), True), "block")
    same(block.checksum, xxhash.xxh3_64_intdigest(items[1]), "checksum of a payload")
    pixels = b"".join(items[1][plane.offset:plane.offset + plane.bytes] for plane in frame.planes)
    same(pixels, bytes(range(192)), "pixels")
    result, text = frame.results
    first, second = struct.iter_unpack(CLASS, result.elements)
    origin = said.origins[result.origin - 1]
    same((said.names[origin.stage - 1], origin.name, origin.kind), ("classify", 0, CLASSES), "origin")
    same((first[0], said.names[first[1] - 1], first[2], second), (89, "cockatoo", 0.75, (-1, 0, 0.125)), "classes")
    origin = said.origins[text.origin - 1]
    same((said.names[origin.stage - 1], origin.kind, text.count), ("ctc", TEXT, 2), "origin of text")
    same(text.elements, struct.pack("<IfI5sf", 0, 0, 5, "Köln".encode(), 0.25), "text")


def write_theirs():
    welcome = Envelope(version=3, session=2 ** 63)
    welcome.welcome.run, welcome.welcome.live = 77, True
    items = Envelope(version=3, session=8, number=3)
    items.items.names.extend(["features", "embedding", "failed", "classify", "owl", "ctc"])
    items.items.media.append(Media(path="a.mp4").SerializeToString())
    items.items.made_by = 2 ** 64 - 2
    packet = bytes(range(1, 6)) + bytes(64)
    tensor = struct.pack("<4f", 1, 2.5, 3, 4)
    items.items.blocks.add(bytes=len(packet))
    items.items.blocks.add(bytes=len(tensor), checked=True, checksum=xxhash.xxh3_64_intdigest(tensor))
    items.items.origins.add(stage=1, name=2, kind=TENSOR)
    items.items.origins.add(stage=4, kind=CLASSES)
    items.items.origins.add(stage=6, kind=TEXT)
    items.items.formats.add(payload=1)
    items.items.formats.add(payload=3, dtype=3, layout=3, dims=[4])
    items.items.geometries.add(x=[1, 0, 9.5], y=[0, 1, -3], width=4, height=3, source_width=80, source_height=70)
    frame = items.items.items.add(position=9, format=1, source=1, epoch=1, seq=5, pts_ns=-2 ** 63, age_ns=40, media=1,
                                  geometry=1)
    frame.planes.add(block=1, bytes=5)
    frame.results.add(origin=1, format=2, block=2)
    frame.results.add(origin=2, elements=struct.pack(CLASS, 7, 5, 0.5))
    frame.results.add(origin=3, elements=struct.pack("<I2sfIf", 2, b"ab", 0.5, 0, 1), count=2)
    short_text = Envelope(version=3)
    short_text.CopyFrom(items)
    short_text.items.items[0].results[2].count = 1
    items.items.items.add(kind=2, source=3, reason=3)
    damaged = sealed(items)
    damaged = damaged[:20] + bytes([damaged[20] ^ 1]) + damaged[21:]
    many = Envelope(version=3)
    many.items.items.add(source=4)
    formless = Envelope(version=3)
    formless.items.formats.add(payload=4)
    formless.items.items.add(format=2)
    placeless, short = Envelope(version=3), Envelope(version=3)
    for envelope in (placeless, short):
        envelope.items.formats.add(payload=4)
        envelope.items.items.add(format=1, geometry=1)
    short.items.geometries.add(x=[1, 0, 0], y=[0, 1], width=4, height=3, source_width=80, source_height=70)
    maker = Envelope(version=3)
    maker.items.made_by = 2 ** 64 - 1
    given = [[sealed(welcome)], [sealed(items), packet, tensor], [damaged, packet, tensor], [sealed(items), packet],
             [sealed(items), packet[:-1] + b"x", tensor], [sealed(many)], [sealed(formless)],
             [sealed(short_text), packet, tensor], [sealed(placeless)], [sealed(short)],
             [sealed(maker)], [sealed(Envelope(version=9, number=1))]]
    told = subprocess.run([program, "read"], check=True, capture_output=True, input=b"".join(map(framed, given)))
    same(told.stdout.decode().splitlines(), [
        f"kind 2 session {2 ** 63} number 0 run 77 live 1",
        f"kind 4 session 8 number 3 by {2 ** 64 - 2} "
        "[0 9 1/1/5/0 - frame packet pts -9223372036854775808 age 40 media a.mp4 "
        "at 9.5,-3 of 80x70 plane 5:01..05 by features embedding tensor f32 4 2.5 by classify 7 0.5 owl "
        "by ctc 2 ab 0.5 0 - 1] "
        "[2 0 3/0/0/0 failed]",
        "refused: an envelope whose checksum is wrong",
        "refused: 1 parts of payload, and the envelope has 2",
        "refused: a packet that is not followed by 64 zero bytes",
        "refused: an item of an unknown source",
        "refused: a format that the message does not describe",
        "refused: a result whose elements are not those of its kind",
        "refused: a frame with a geometry that the message does not describe",
        "refused: a geometry with an impossible value",
        "refused: items of an impossible process",
        "refused: a message in version 9; 3 to 3 are read here",
    ], "what millrace reads")


read_ours()
write_theirs()
print("millrace and Python's protobuf agree")
