"""An RTMP server whose messages a test chooses: it answers clients correctly and sends raw bytes otherwise."""
import struct

import harness

CONTROL, VIDEO, COMMAND = 2, 6, 3  # chunk streams


def amf(*values):
    """Encodes values as AMF0."""
    def one(value):
        if isinstance(value, str):
            return b"\2" + struct.pack(">H", len(value)) + value.encode()
        if isinstance(value, dict):
            inner = b"".join(struct.pack(">H", len(name)) + name.encode() + one(of) for name, of in value.items())
            return b"\3" + inner + b"\0\0\t"
        return b"\5" if value is None else b"\0" + struct.pack(">d", value)
    return b"".join(map(one, values))


def basic(on, form):
    """The start of a chunk on that stream; form 3 continues a message."""
    if on >= 64:
        return bytes([form << 6, on - 64]) if on < 320 else bytes([form << 6 | 1]) + struct.pack("<H", on - 64)
    return bytes([form << 6 | on])


def begin(on, kind, length, time=0, stream=1):
    """A full message header."""
    return (basic(on, 0) + (time & 0xffffff).to_bytes(3, "big") + length.to_bytes(3, "big") + bytes([kind]) +
            struct.pack("<I", stream))


def message(on, kind, data, time=0, stream=1, chunk=128):
    parts = [data[at:at + chunk] for at in range(0, len(data), chunk)]
    return begin(on, kind, len(data), time, stream) + basic(on, 3).join(parts)


def command(*values, stream=0):
    return message(COMMAND, 20, amf(*values), stream=stream)


def pictures(flv):
    """(time, data) for each video tag in a file's bytes."""
    at, found = 13, []
    while at < len(flv):
        length, time = int.from_bytes(flv[at + 1:at + 4], "big"), int.from_bytes(flv[at + 4:at + 7], "big")
        if flv[at] == 9:
            found.append((time, flv[at + 11:at + 11 + length]))
        at += length + 15
    return found


def read_messages(stream):
    """(kind, data) for each message from the client."""
    heads, data, chunk = {}, {}, 128
    while first := stream.read(1):
        on, form = first[0] & 63, first[0] >> 6
        head = stream.read((11, 7, 3, 0)[form])
        kind, length = heads.get(on, (0, 0)) if form > 1 else (head[6], int.from_bytes(head[3:6], "big"))
        heads[on] = kind, length
        data[on] = data.get(on, b"") + stream.read(min(chunk, length - len(data.get(on, b""))))
        if len(data[on]) == length:
            chunk = int.from_bytes(data[on], "big") if kind == 1 else chunk
            yield kind, data.pop(on)


class Server:
    """Calls `serve(connection, stream name, connection number)` when a client plays or publishes, on a separate thread.
    `enter(command bytes)` may return a description to refuse a client; `asked` has the bytes of all commands."""

    def __init__(self, case, serve, enter=lambda data: None, tls=None):
        self.serve, self.enter, self.asked, self.played, self.tls = serve, enter, [], [], tls
        self.at = f"127.0.0.1:{harness.serve(case, self.talk)}"

    def talk(self, connection):
        try:
            with self.tls.wrap_socket(connection, server_side=True) if self.tls else connection as socket:
                self.greet(socket)
        except OSError:
            pass  # the client has gone

    def greet(self, connection):
        stream = connection.makefile("rb")
        hello = stream.read(1537)
        connection.sendall(b"\3" + bytes(1536) + hello[1:])
        stream.read(1536)
        for kind, data in read_messages(stream):
            if kind != 20:
                continue
            self.asked.append(data)
            if data.startswith(amf("connect")):
                refusal = self.enter(data)
                answer = {"level": "error" if refusal else "status", "code": "NetConnection.Connect.Rejected"
                          if refusal else "NetConnection.Connect.Success", "description": refusal or ""}
                connection.sendall(command("_error" if refusal else "_result", 1, None, answer))
                if refusal:
                    return
            elif data.startswith(amf("createStream")):
                number, = struct.unpack(">d", data[16:24])
                connection.sendall(command("_result", number, None, 1))
            elif data.startswith((amf("play"), amf("publish"))):
                code = "NetStream.Play.Start" if data.startswith(amf("play")) else "NetStream.Publish.Start"
                connection.sendall(command("onStatus", 0, None, {"level": "status", "code": code}, stream=1))
                at = data.index(b"\5\2") + 4
                name = data[at:at + data[at - 1]].decode()
                self.played.append(name)
                return self.serve(connection, name, self.played.count(name))
