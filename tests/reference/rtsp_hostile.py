"""An RTSP server whose bytes a test chooses: correct ones with faults among them."""
import socket
import struct
import threading
import time

SDP = (b"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\na=control:*\r\na=range:npt=now-\r\n"
       b"m=video 0 RTP/AVP 26\r\na=control:track1\r\na=framerate:25\r\n")


SDP_H264 = SDP.split(b"m=")[0] + b"m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:track1\r\n"
SDP_HEVC = SDP_H264.replace(b"H264", b"H265")


def jpeg(number, timestamp, width=16, height=16, source=0x1234, marker=True, payload=26, tables=b""):
    """Makes an RTP packet with a whole JPEG of at most 16 grey blocks (RFC 2435, type 1, Q 50, or 255 with tables)."""
    head = struct.pack(">BBHII", 0x80, (0x80 if marker else 0) | payload, number & 0xffff, timestamp & 0xffffffff,
                       source)
    quality = struct.pack(">HH", 0, len(tables)) + tables if tables else b""
    return (head + struct.pack(">IBBBB", 0, 1, 255 if tables else 50, width // 8, height // 8) + quality +
            b"\x28\xa0\x02\x8a\x00\x28\xa0\x0f" * 4)


def h264(annex_b, number, timestamp, hevc=False):
    """Makes the RTP packets for one access unit (RFC 6184, RFC 7798): single NAL units, or fragments."""
    payloads = []
    head = 2 if hevc else 1
    for nal in filter(None, (part.rstrip(b"\0") for part in annex_b.split(b"\0\0\1"))):
        if len(nal) <= 1000:
            payloads.append(nal)
            continue
        pieces = [nal[i:i + 1000] for i in range(head, len(nal), 1000)]
        for i, piece in enumerate(pieces):
            place = (0x80 if i == 0 else 0) | (0x40 if i == len(pieces) - 1 else 0)
            kind = nal[0] >> 1 & 63 if hevc else nal[0] & 31
            fragment = bytes([nal[0] & 0x81 | 49 << 1, nal[1]]) if hevc else bytes([nal[0] & 0xe0 | 28])
            payloads.append(fragment + bytes([place | kind]) + piece)
    return [struct.pack(">BBHII", 0x80, (0x80 if i == len(payloads) - 1 else 0) | 96, (number + i) & 0xffff,
                        timestamp & 0xffffffff, 5) + payload
            for i, payload in enumerate(payloads)]


def interleaved(packet, channel=0):
    return b"$" + struct.pack(">BH", channel, len(packet)) + packet


class Server:
    """Answers each connection in a separate thread. A test overrides the functions below to insert faults."""

    def __init__(self, **wrong):
        self.wrong = wrong
        self.requests = []  # (method, URL, headers)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"rtsp://127.0.0.1:{self.port}/x"
        self.stopped = False
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.stopped = True
        self.socket.close()
        for connection in self.connections:
            connection.close()

    def accept(self):
        while not self.stopped:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            self.talk(connection)
        except OSError:
            pass  # the client has gone

    def talk(self, connection):
        if "greeting" in self.wrong:
            self.wrong["greeting"](connection)
            return
        text = b""
        while not self.stopped:
            got = connection.recv(65536)
            if not got:
                return
            text += got
            while True:
                if text[:1] == b"$" and len(text) >= 4:  # the client's reports
                    text = text[4 + struct.unpack(">H", text[2:4])[0]:]
                elif b"\r\n\r\n" in text and text[:1] != b"$":
                    head, text = text.split(b"\r\n\r\n", 1)
                    self.answer(connection, head.decode())
                else:
                    break

    def answer(self, connection, head):
        lines = head.split("\r\n")
        method, url, _ = lines[0].split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        self.requests.append((method, url, headers))
        reply = self.wrong.get(method, getattr(self, method.lower(), self.other))
        answer = reply(self, headers) if method in self.wrong else reply(headers)
        if answer is None:
            return
        count = self.wrong.get("count", str)(int(headers["cseq"]))
        answer = answer.replace(b"CSEQ", str(count).encode())
        for part in ([answer[i:i + 1] for i in range(len(answer))] if self.wrong.get("bytewise") else [answer]):
            connection.sendall(part)
        if method == "PLAY":
            threading.Thread(target=self.stream, args=(connection,), daemon=True).start()

    def stream(self, connection):
        try:
            self.wrong.get("packets", self.packets)(connection)
        except OSError:
            pass  # the client has gone

    def packets(self, connection):
        for number in range(100000):
            packet = interleaved(jpeg(65500 + number, 4294960000 + number * 3600))
            for part in ([packet[i:i + 1] for i in range(len(packet))] if self.wrong.get("bytewise") else [packet]):
                connection.sendall(part)
            time.sleep(0.005)

    def options(self, headers):
        return (b"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\n"
                b"Public: OPTIONS, DESCRIBE, SETUP, PLAY, GET_PARAMETER, TEARDOWN\r\n\r\n")

    def describe(self, headers):
        return described(self.wrong.get("sdp", SDP), self.wrong.get("base"))

    def setup(self, headers):
        transport = headers["transport"]
        if "TCP" not in transport:
            return b"RTSP/1.0 461 Unsupported Transport\r\nCSeq: CSEQ\r\n\r\n"
        return (f"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nTransport: {transport}\r\n"
                f"Session: 7;timeout={self.wrong.get('timeout', 60)}\r\n\r\n").encode()

    def other(self, headers):
        return b"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nSession: 7\r\n\r\n"


def described(sdp, base=None):
    lines = f"Content-Base: {base}\r\n".encode() if base else b""
    return (b"RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nContent-Type: application/sdp\r\n%s"
            b"Content-Length: %d\r\n\r\n" % (lines, len(sdp))) + sdp


def refusing(status, *headers):
    """Sends an answer with this status."""
    lines = "".join(f"{header}\r\n" for header in headers)
    return lambda server, request: f"RTSP/1.0 {status}\r\nCSeq: CSEQ\r\n{lines}\r\n".encode()
