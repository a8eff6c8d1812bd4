"""Nodes started by hand whose cut has lost the other end. They wait, since whoever started that end can restart
it, and say so, and say what ends the wait; nothing may be lost."""
import json
import signal

from harness import MILLRACE, SAMPLES, Case, call, free_port, pipeline, start

AT_ONCE = 4


# The pipeline never ends by itself, so somebody is always waited for.
def left_alone(mode, port):
    return pipeline(
        dict(a='type: "null", rate: 100'), out=f'type: "null", cut: {{mode: {mode}, heartbeat: 100ms, window: 8}}',
        nodes=dict(left=f'stages: [], sources: [a], listen: "tcp://127.0.0.1:{port}"', right="stages: [out]"))


PATIENCE = 120


class Node:
    """One node of the pipeline: process and output."""

    def __init__(self, case, path, name, number=1, options=()):
        self.case, (self.told, self.out) = case, (
            case.folder / f"{path.stem}-{name}{number}.{kind}" for kind in ("log", "json"))
        with open(self.out, "w") as out, open(self.told, "w") as told:
            self.child = start([MILLRACE, "run", path, "--node", name, "--json", "--log", "info", *options],
                               stdout=out, stderr=told)
        case.addCleanup(self.child.wait)
        case.addCleanup(self.child.kill)

    def await_line(self, *words, times=1):
        self.case.wait_until(lambda: sum(all(word in line for word in words)
                                         for line in self.told.read_text().splitlines()) >= times,
                             lambda: f"no {words} in {self.told.read_text()}", self.child)

    def kill(self):
        self.child.kill()
        self.child.wait()

    def stop(self):
        """Asks it to end, which works in order; returns the ledger."""
        self.child.send_signal(signal.SIGTERM)
        self.case.assertEqual(self.child.wait(timeout=PATIENCE), 0, self.told.read_text())
        ledger = json.loads(self.out.read_text())["ledger"]
        self.case.assertTrue(ledger["balanced"], ledger)
        return ledger


class Absent(Case):
    def start(self, mode):
        path = self.write(left_alone(mode=mode, port=free_port()), f"{mode}.yaml")
        left, right = Node(self, path, "left"), Node(self, path, "right")
        left.await_line("a->right: right: joined")
        right.await_line("a->right: left: joined")
        return path, left, right

    def test_who_is_gone_is_waited_for(self):
        """The waits take all the time, so both modes run at once."""
        pairs = {mode: self.start(mode) for mode in ("reliable", "live")}
        for _, _, right in pairs.values():
            right.kill()
        for mode, (_, left, _) in pairs.items():
            left.await_line("a->right: right is down (", "SIGTERM",
                            {"reliable": "its frames wait here", "live": "its frames are dropped"}[mode])
        again = {mode: Node(self, path, "right", 2) for mode, (path, _, _) in pairs.items()}
        for right in again.values():
            right.await_line("a->right: left: joined")
        # One producer dies. In the other pair the consumer is asked to end; then that one is waited for too.
        _, left, _ = pairs["live"]
        left.kill()
        again["reliable"].stop()
        again["live"].await_line("a->right: left at tcp://127.0.0.1:", "is down (", "SIGTERM")
        again["live"].stop()
        _, left, _ = pairs["reliable"]
        left.await_line("a->right: right is down (", "its frames wait here", times=2)
        self.assertLessEqual({line["reason"] for line in left.stop()["dropped"]}, {"stopped"})

    def test_who_has_another_version_is_waited_for(self):
        """Both ends say why they cannot work together; then a producer with the consumer's version takes over."""
        text = left_alone(mode="reliable", port=free_port())
        old, new = self.write(text, "old.yaml"), self.write(text.replace("rate: 100", "rate: 200"), "new.yaml")
        left, right = Node(self, old, "left"), Node(self, new, "right")
        for node in (left, right):
            node.await_line("a->right: ", "refused: node right runs a different pipeline, or another version of it: "
                                          "all nodes")
            node.await_line("a->right: left and right do not work together (node right runs a different pipeline",
                            "SIGTERM" if node is left else "this node fails in 25 s, unless left is started again")
        left.kill()
        newer = Node(self, new, "left")
        right.await_line("a->right: left: joined")
        newer.await_line("a->right: right: joined")
        newer.stop()
        right.stop()

    def test_what_nobody_has_taken_is_not_settled(self):
        """Nodes asked to end while the next one is missing drop what they have: a later run brings it."""
        path = self.write(pipeline(
            dict(a=f"uri: {SAMPLES}/cockatoo.mp4, duration: 3s"), name="chain", decode="", phash="cut: {window: 8}",
            results="type: jsonl, cut: {window: 8}, tensors: true, path: results.jsonl",
            nodes=dict(reader=f'stages: [decode], listen: "tcp://127.0.0.1:{free_port()}"',
                       hasher=f'stages: [phash], listen: "tcp://127.0.0.1:{free_port()}"',
                       writer="stages: [results]")), "chain.yaml")
        resumed = ("--resume", self.folder / "checkpoint")
        reader, hasher = Node(self, path, "reader", 1, resumed), Node(self, path, "hasher")
        hasher.await_line("phash->writer: writer has not connected to take frames")
        hasher.child.send_signal(signal.SIGTERM)
        dropped = reader.stop()["dropped"]
        self.assertEqual({line["reason"] for line in dropped}, {"stopped"})
        hasher.stop()
        source = json.loads((self.folder / "checkpoint").read_text())["sources"]["a"]
        self.assertEqual((source["seq"], source["ended"]), (None, False))
        nodes = [Node(self, path, "reader", 2, resumed), *(Node(self, path, name, 2) for name in ("hasher", "writer"))]
        for node in nodes:
            self.assertEqual(node.child.wait(timeout=PATIENCE), 0, node.told.read_text())
        got = (self.folder / "results.jsonl").read_text()
        whole = call([MILLRACE, "run", path, "--one-process", "--output", "-"])
        self.assertEqual(got, whole.stdout)
