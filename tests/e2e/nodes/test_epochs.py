"""Nodes whose input cannot be read again, killed together with others: what comes afterwards is new, whatever its
numbers, and is not mistaken for earlier frames."""
import itertools
import json
import os
import signal

import zmq

from harness import pipeline, rows_in
from watched import PATIENCE, Watched, children_of

SOME = 30


class Epochs(Watched):
    def setUp(self):
        super().setUp()
        context = zmq.Context()
        self.addCleanup(context.destroy, linger=0)
        endpoint = f"ipc://{self.folder}/app"
        self.app = context.socket(zmq.PUSH)
        self.app.setsockopt(zmq.SNDTIMEO, PATIENCE * 1000)
        self.app.connect(endpoint)
        self.numbers = itertools.count()
        self.path = self.write(pipeline(
            dict(app=f'type: zmq.pull, endpoint: "{endpoint}", format: u8 4'), top="workers: 1", first='type: "null"',
            second='type: "null"', out=f"type: jsonl, features: true, path: {self.folder}/out.jsonl",
            nodes=dict(camera="stages: first", worker="stages: second", center="stages: out")))

    def lines(self):
        return rows_in(self.folder / "out.jsonl")

    def feed(self, epoch):
        """Sends frames until enough from this epoch have come out: a killed process loses what it was sent."""
        def come():
            self.app.send_multipart([b"{}", next(self.numbers).to_bytes(4, "little")])
            return sum(line.get("epoch", 0) == epoch for line in self.lines()) >= SOME

        self.wait_until(come, f"nothing of epoch {epoch} comes")

    def test_what_is_killed_with_the_camera(self):
        child = self.start(self.path, "--json")
        self.feed(0)
        killed = (["center"], ["worker"], ["worker", "center"])
        for epoch, others in enumerate(killed, 1):
            before = children_of(child.pid)
            for name in ["camera", *others]:
                os.kill(before[name], signal.SIGKILL)
            self.feed(epoch)
        out = self.ended(child, signal.SIGTERM)[0]
        self.assertTrue(json.loads(out)["ledger"]["balanced"], out)
        rows = self.lines()
        for epoch in range(len(killed) + 1):
            of = [row["seq"] for row in rows if row.get("epoch", 0) == epoch]
            self.assertEqual(of, list(range(len(of))))
        sent = [int.from_bytes(bytes(row["features"]), "little") for row in rows]
        self.assertEqual(len(sent), len(set(sent)), "a frame came twice")
