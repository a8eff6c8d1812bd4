"""A live cut as one of two paths to a join, between processes that are killed, stopped and restarted: the other path
must continue, every frame is accounted for, no record may be duplicated, and everything ends."""
import json
import os
import signal

from harness import pipeline
from watched import Watched, children_of

ENDLESS = 10 ** 9
MANY = 200  # more than all queues and windows on the path can hold


class Live(Watched):
    def begin(self, frames):
        return self.start(self.write(pipeline(
            dict(a=f'type: "null", rate: 500, frames: {frames}'), first='type: "null"',
            here='type: "null", cut: {window: 16, heartbeat: 200ms}',
            there='type: "null", input: first, cut: {mode: live, heartbeat: 200ms}',
            both="type: join, join: {left: here, right: there}, cut: {mode: live, heartbeat: 200ms}",
            out=f"type: jsonl, path: {self.folder}/out.jsonl",
            nodes=dict(reads="stages: [first]", works="stages: [there]", writes="stages: [here, both, out]"))),
            "--json")

    def await_more_rows(self):
        self.wait_for_rows(len(self.rows()) + MANY)

    def kill(self, child, node):
        """Kills it as soon as it is there, unless everything ended before."""
        pid = self.wait_until(lambda: children_of(child.pid).get(node) or child.poll() is not None, f"no {node}")
        if child.poll() is None:
            os.kill(pid, signal.SIGKILL)

    def finish(self, child):
        """The ledger has everything, and the file what was delivered."""
        out = self.ended(child)[0]
        ledger = json.loads(out)["ledger"]
        self.assertTrue(ledger["balanced"], ledger)
        gone = sum(line["frames"] for what in ("dropped", "absorbed") for line in ledger[what])
        self.assertEqual(ledger["in"], ledger["delivered"] + gone, ledger)
        rows = self.rows()
        self.assertEqual(rows, sorted(set(rows)))
        return ledger

    def test_nobody_is_waited_for(self):
        child = self.begin(ENDLESS)
        self.wait_for_rows(MANY)
        for node in ("works", "writes", "works"):
            self.kill(child, node)
            self.await_more_rows()
        pid = children_of(child.pid)["works"]
        os.kill(pid, signal.SIGSTOP)
        lost = []
        self.ledger_of(child, lambda found: lost.append(found["dropped"]) or lost[-1] >= lost[0] + MANY,
                       "what is not there is waited for")
        os.kill(pid, signal.SIGCONT)
        self.await_more_rows()
        child.send_signal(signal.SIGTERM)
        self.finish(child)

    def test_it_ends_by_itself(self):
        child = self.begin(2000)
        self.kill(child, "works")
        self.assertEqual(self.finish(child)["in"], 2000)
