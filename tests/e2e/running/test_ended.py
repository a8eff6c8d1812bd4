"""Nodes die after the nodes that they serve or use have ended: nobody may wait for those, no record may be duplicated,
and every frame is accounted for."""
import json
import os
import signal
import threading
import time

from harness import pipeline
from watched import Watched, children_of, nodes_of


# Source b's rows go into a pipe that is not read at first, which keeps b's nodes from ending.
def side(folder, camera, worker):
    return pipeline(dict(a='type: "null", frames: 300', b='type: "null", frames: 20000'), name="side", top="workers: 1",
                    first='type: "null", input: a', second='type: "null"', out=f"type: jsonl, path: {folder}/out.jsonl",
                    third='type: "null", input: b', fourth='type: "null"', side=f"type: jsonl, path: {folder}/side",
                    nodes=dict(camera=f"stages: [first, {camera}]", worker=f"stages: [second, {worker}]",
                               center="stages: out", aside="stages: side"))


class Ended(Watched):
    def begin(self, **stages):
        """A run whose source a has ended, with the nodes that serve only it."""
        os.mkfifo(self.folder / "side")
        self.reader = os.fdopen(os.open(self.folder / "side", os.O_RDONLY | os.O_NONBLOCK), "rb")
        self.addCleanup(self.reader.close)
        path = self.write(side(folder=self.folder, **stages))
        return self.start(path, "--json")

    def await_end_of(self, child, *names):
        self.wait_for_rows(300)
        self.wait_until(lambda: not set(names) & set(children_of(child.pid)), f"{names} do not end")

    def kill(self, child, name):
        victim = children_of(child.pid)[name]
        os.kill(victim, signal.SIGKILL)
        self.wait_until(lambda: children_of(child.pid).get(name, victim) != victim, f"{name} is not started again")

    def read(self, child, pieces):
        """The writer may not have opened the pipe yet, which looks like an end of file."""
        ended = False
        while not ended:
            ended = child.poll() is not None
            pieces.append(self.reader.read())
            time.sleep(0.01)

    def finish(self, child):
        """Reads the side pipe; returns b's rows, and what the run reports."""
        os.set_blocking(self.reader.fileno(), True)
        pieces = []
        reading = threading.Thread(target=self.read, args=(child, pieces))
        reading.start()
        out = self.ended(child)[0]
        reading.join()
        told = json.loads(out)
        self.assertEqual(self.rows(), list(range(300)))
        self.assertEqual([json.loads(line)["seq"] for line in b"".join(pieces).splitlines()],
                         list(range(20000)))
        self.assertTrue(told["ledger"]["balanced"], told["ledger"])
        self.assertEqual(told["ledger"]["dropped"], [])
        return {name: node["restarts"] for name, node in nodes_of(out).items()}

    def test_who_read_what_others_have_done_with(self):
        child = self.begin(camera="third, fourth", worker="")
        self.await_end_of(child, "worker", "center")
        self.kill(child, "camera")
        self.assertEqual(self.finish(child), {"camera": 1, "worker": 0, "center": 0, "aside": 0})

    def test_who_only_passed_frames_on(self):
        child = self.begin(camera="third", worker="fourth")
        self.await_end_of(child, "center")
        self.kill(child, "worker")
        self.assertEqual(self.finish(child), {"camera": 0, "worker": 1, "center": 0, "aside": 0})
