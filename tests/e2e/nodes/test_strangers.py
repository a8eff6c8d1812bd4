"""Two nodes, one of which listens on a local port. Strangers connect there: they stay silent, or begin a handshake, in
crowds and again and again. The right node gets through."""
import json
import socket
import threading
import time

from harness import MILLRACE, Case, free_port, pipeline, start

FRAMES = 3000
# The beginning of a handshake, part of it and all of it.
GREETING = (b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL").ljust(64, b"\0")
BEGINNINGS = (b"", GREETING[:11], GREETING)
CROWD = 200


class Crowd:
    """Keeps CROWD connections open until it ends. Each round replaces closed ones, at most `at_once`."""

    def __init__(self, port):
        self.port, self.ended, self.closed, self.at_once = port, threading.Event(), 0, CROWD
        self.thread = threading.Thread(target=self.come, daemon=True)
        self.thread.start()

    def end(self):
        self.ended.set()
        self.thread.join()

    def come(self):
        there = []
        while not self.ended.is_set():
            there = [one for one in there if not self.is_over(one)]
            for _ in range(min(self.at_once, CROWD - len(there))):
                try:
                    one = socket.create_connection(("127.0.0.1", self.port))
                    one.sendall(BEGINNINGS[len(there) % len(BEGINNINGS)])
                except OSError:
                    break  # nobody is listening
                one.setblocking(False)
                there.append(one)
            time.sleep(0.01)
        for one in there:
            one.close()

    def is_over(self, one):
        try:
            over = one.recv(4096) == b""
        except BlockingIOError:
            return False
        except OSError:
            over = True
        if over:
            one.close()
            self.closed += 1
        return over


class Strangers(Case):
    def wait_until(self, reached, child):
        for _ in range(6000):
            if reached():
                return
            self.assertIsNone(child.poll(), "it has ended")
            time.sleep(0.02)
        self.fail("it does not come")

    def test_who_is_planned_gets_through(self):
        port, audit = free_port(), self.folder / "audit.jsonl"
        path = self.write(pipeline(dict(a=f'type: "null", frames: {FRAMES}'),
                                   out=f"type: jsonl, path: {self.folder}/out.jsonl, cut: {{inline: true}}",
                                   nodes=dict(left=f'sources: [a], listen: "tcp://127.0.0.1:{port}"',
                                              right="stages: [out]")))
        with open(self.folder / "left.json", "w") as out, open(self.folder / "left.log", "w") as log:
            left = start([MILLRACE, "run", path, "--node", "left", "--json", "--audit", audit], stdout=out, stderr=log)
        self.addCleanup(left.kill)
        crowd = Crowd(port)
        self.addCleanup(crowd.end)
        self.wait_until(lambda: audit.exists() and "too many peers" in audit.read_text() and crowd.closed, left)
        crowd.at_once = 2
        self.millrace("run", path, "--node", "right", "--json")
        self.assertEqual(left.wait(timeout=300), 0, (self.folder / "left.log").read_text())
        told = json.loads((self.folder / "left.json").read_text())
        self.assertEqual((told["ledger"]["delivered"], told["ledger"]["balanced"]), (FRAMES, True))
        rows = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]
        self.assertEqual([row["seq"] for row in rows], list(range(FRAMES)))
        refused = [one for one in map(json.loads, audit.read_text().splitlines()) if one["event"] == "peer refused"]
        self.assertEqual({one["stage"] for one in refused}, {"a->right"})
        self.assertEqual([int(one["refused"]) for one in refused], sorted({int(one["refused"]) for one in refused}))
        self.assertIn("127.0.0.1", {one["address"].removeprefix("::ffff:") for one in refused})
