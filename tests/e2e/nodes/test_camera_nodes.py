"""Nodes behind a camera, killed with SIGKILL: the camera session continues, or the node that holds it reconnects, and
each picture is written once, with separate numbers."""
import json
import os
import signal

from harness import pipeline, rows_in
import streams
from watched import Watched, children_of, nodes_of

SOME = 20


class CameraNodes(Watched):
    def setUp(self):
        super().setUp()
        _, at = streams.rtsp(self, f"/a={streams.pattern()}")
        self.out = self.folder / "out.jsonl"
        self.child = self.start(self.write(pipeline(
            dict(cam=f'uri: "rtsp://127.0.0.1:{at}/a", allow_hosts: [127.0.0.1], clock: arrival, {streams.SOON}'),
            decode="", sharpness="", out=f"type: jsonl, path: {self.out}",
            nodes=dict(camera="stages: decode", worker="stages: sharpness", center="stages: out"))), "--json")
        self.epoch = 0
        self.go_on()

    def lines(self):
        return rows_in(self.out)

    def go_on(self):
        """Waits until more pictures from this epoch were written."""
        count = len(self.lines())
        self.wait_until(lambda: sum(row.get("epoch", 0) == self.epoch for row in self.lines()[count:]) >= SOME,
                      f"no more pictures of epoch {self.epoch}")

    def kill(self, *names):
        before = children_of(self.child.pid)
        for name in names:
            os.kill(before[name], signal.SIGKILL)
        self.epoch += "camera" in names
        self.go_on()
        after = self.wait_until(lambda: len(now := children_of(self.child.pid)) == len(before) and now,
                                "a node is gone")
        self.assertEqual({name for name in before if before[name] != after[name]}, set(names))

    def end(self):
        """Each node's report, and what the camera's node says about the source."""
        out = self.ended(self.child, signal.SIGTERM)[0]
        self.ledger, nodes = json.loads(out)["ledger"], nodes_of(out)
        self.assertTrue(self.ledger["balanced"], out)
        [camera] = nodes["camera"]["summary"]["sources"]
        self.assertEqual((camera["connection"]["tries"], camera["connection"]["connections"]), (1, 1))
        return nodes, camera

    def check_rows(self, epochs):
        rows = self.lines()
        for epoch in range(epochs):
            of = [row["seq"] for row in rows if row.get("epoch", 0) == epoch]
            self.assertEqual(of, list(range(len(of))))
            self.assertGreaterEqual(len(of), SOME)
        self.assertEqual({row.get("epoch", 0) for row in rows}, set(range(epochs)))
        # Whatever the numbers, no picture may have arrived before the one written before it, or have the same time.
        times = [(row["captured"], row.get("epoch", 0), row["pts"]) for row in rows]
        self.assertEqual(times, sorted(set(times)))
        return rows

    def test_killed_behind_the_camera(self):
        for names in (("worker",), ("center",), ("worker", "center")):
            self.kill(*names)
        nodes, camera = self.end()
        self.assertEqual({name: node["restarts"] for name, node in nodes.items()},
                         {"camera": 0, "worker": 2, "center": 2})
        rows = self.check_rows(1)
        self.assertEqual((self.ledger["in"], self.ledger["delivered"]), (len(rows), len(rows)))
        self.assertEqual((camera["in"], camera["delivered"]), (len(rows), len(rows)))

    def test_killed_with_the_camera(self):
        for names in (("camera",), ("camera", "worker")):
            self.kill(*names)
        nodes, camera = self.end()
        self.assertEqual({name: node["restarts"] for name, node in nodes.items()},
                         {"camera": 2, "worker": 1, "center": 0})
        rows = self.check_rows(3)
        [written] = nodes["center"]["summary"]["sources"]
        self.assertEqual((written["in"], written["delivered"]), (len(rows), len(rows)))
        self.assertEqual(camera["in"], sum(row.get("epoch", 0) == 2 for row in rows))
