"""Two nodes with a proxy between them that closes, resets, halves, freezes, delays, slows, damages and swallows TCP
traffic. Each frame still arrives once, and the ledger says so."""
import random
import socket
import struct
import threading
import time

from harness import SAMPLES, Case, free_port, pipeline, serve

FRAMES = 12000


def results(frames, here, there, left, right):
    return pipeline(dict(a=f'type: "null", frames: {frames}'), name="proxied",
                    out="type: jsonl, cut: {checksum: payload, inline: true, window: 256, heartbeat: 100ms}",
                    nodes=dict(left=f'stages: [], sources: [a], listen: "tcp://127.0.0.1:{here}", '
                                    f'address: "tcp://127.0.0.1:{there}"{left}', right=f"stages: [out]{right}"))


# Packets, decoded after the cut, and pictures.
def media(clip, before, behind, left, here, there, right):
    return pipeline(dict(a=f"uri: {clip}, loop: 8"), name="proxied", decode=before, phash=behind,
                    out="type: jsonl, tensors: true",
                    nodes=dict(left=f'stages: {left}, sources: [a], listen: "tcp://127.0.0.1:{here}", '
                                    f'address: "tcp://127.0.0.1:{there}"', right=f"stages: {right}"))


CUT = ", cut: {checksum: payload, compress: lz4, inline: true, window: 32, heartbeat: 100ms}"


class Proxy:
    """Connects clients with `port`. Each connection gets a fault in one direction after some bytes, and another if it
    survives, until each kind has occurred once."""

    KINDS = ("close", "reset", "half-close", "freeze", "delay", "slow", "damage", "swallow")

    def __init__(self, case, port, seed):
        self.port, self.random = port, random.Random(seed)
        self.left = self.random.sample(self.KINDS, len(self.KINDS))
        self.done = []
        self.lock = threading.Lock()
        self.address = serve(case, self.connect)

    def connect(self, near):
        """Both directions of one connection."""
        try:
            far = socket.create_connection(("127.0.0.1", self.port))
        except OSError:
            return near.close()  # nobody is there yet
        forward = self.random.randrange(2)
        with near, far:
            back = threading.Thread(target=self.pump, args=(far, near, not forward), daemon=True)
            back.start()
            self.pump(near, far, forward)
            back.join()

    def pump(self, source, sink, faulty):
        """Forwards what comes from one end."""
        passed, at = 0, self.random.randrange(20, 600)
        frozen = False
        try:
            while data := source.recv(4096):
                passed += len(data)
                kind = None
                with self.lock:
                    if faulty and passed > at and not frozen and self.left:
                        kind = self.left.pop()
                        self.done.append(kind)
                        at = passed + self.random.randrange(1000)
                if kind:
                    data = self.fault(kind, source, sink, data)
                    frozen = kind == "freeze"
                if not frozen:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.end(source, sink)

    @staticmethod
    def end(*sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already

    def fault(self, kind, source, sink, data):
        """The data that is still forwarded."""
        if kind in ("close", "reset"):
            if kind == "reset":
                for one in (source, sink):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.end(source, sink)
        elif kind == "half-close":
            sink.shutdown(socket.SHUT_WR)
        elif kind == "delay":
            time.sleep(0.2)
        elif kind == "slow":
            for i in range(0, len(data), 16):
                sink.sendall(data[i:i + 16])
                time.sleep(0.001)
            return b""
        elif kind == "damage":
            at = self.random.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 1 << self.random.randrange(8)]) + data[at + 1:]
        elif kind == "swallow":
            return data[self.random.randrange(len(data)) + 1:]
        return data


class Proxied(Case):
    def proxied(self, seed):
        here = free_port()
        proxy = Proxy(self, here, seed)
        return proxy, {"here": here, "there": proxy.address}

    def check_results(self, seed, left="", right=""):
        proxy, ports = self.proxied(seed)
        run = self.run_pipeline(results(frames=FRAMES, left=left, right=right, **ports))
        told = f"seed {seed}: {proxy.done}"
        self.assertEqual(sorted(proxy.done), sorted(Proxy.KINDS), told)
        self.assertEqual(sorted(row["seq"] for row in run.rows), list(range(FRAMES)), told)
        self.assert_balanced(run)
        self.assertEqual((run.ledger["in"], run.ledger["delivered"]), (FRAMES, FRAMES), told)

    def test_results_arrive_once(self):
        for seed in (1, 2):
            with self.subTest(seed=seed):
                self.check_results(seed)

    def test_with_encryption(self):
        for name in ("left", "right"):
            self.millrace("keygen", name, "--output", self.folder)
        self.check_results(3, f", key: {self.folder}/left.key", f", key: {self.folder}/right.key")

    def test_what_is_decoded_is_the_same(self):
        """Whether packets or pictures pass: none may be missing, and no two may be exchanged."""
        clip = SAMPLES / "realshort.mp4"
        if not clip.exists():
            self.skipTest(f"no {clip}")
        for seed, left, right in ((4, "[]", "[decode, phash, out]"), (5, "[decode]", "[phash, out]")):
            with self.subTest(seed=seed):
                proxy, ports = self.proxied(seed)
                packets = left == "[]"
                text = media(clip=clip, left=left, right=right, before=CUT if packets else "",
                             behind="" if packets else CUT, **ports)
                expected = self.run_pipeline(text, "--one-process").rows
                self.assertEqual((len(expected), proxy.done), (8 * 36, []))
                run = self.run_pipeline(text)
                self.assertGreater(len(proxy.done), 0)
                self.assertEqual(run.rows, expected, f"seed {seed}: {proxy.done}")
                self.assert_balanced(run)
