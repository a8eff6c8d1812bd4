"""Nodes that pause and continue, nodes asked to end at any moment, and strangers that send everything invalid: nodes
not involved is not affected, and every frame is accounted for."""
import json
import os
import random
import signal
import subprocess
import time

import harness
import zmq
import zmq.auth
from harness import MILLRACE, Case, free_port, pipeline


def faulty(frames, rate, out, listen, reads, works, writes):
    return pipeline(dict(a=f'type: "null", frames: {frames}, rate: {rate}'),
                    first='type: "null", cut: {heartbeat: 200ms}',
                    second=f"type: jsonl, path: {out}, cut: {{heartbeat: 200ms}}",
                    nodes=dict(reads=f'sources: [a], listen: "{listen}"{reads}', works=f"stages: [first]{works}",
                               writes=f"stages: [second]{writes}"))


NODES = ("reads", "works", "writes")
PATIENCE = int(harness.TIMEOUT)
SEED = random.randrange(1 << 32)


class Nodes(Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.out = self.folder / "out.jsonl"
        self.environment = {**os.environ, "MILLRACE_RUNTIME": str(self.folder), "MILLRACE_RUN": "00000000000000f1"}

    def pipeline(self, frames, rate, listen="ipc://{folder}/reads", **keys):
        keys = {"reads": "", "works": "", "writes": "", **keys}
        return self.write(faulty(frames=frames, rate=rate, out=self.out, listen=listen.format(folder=self.folder),
                                 **keys))

    def start_nodes(self, path, *arguments):
        self.nodes = {}
        for name in NODES:
            log = open(self.folder / f"{name}.log", "w+")
            self.addCleanup(log.close)
            child = self.spawn([MILLRACE, "run", path, "--node", name, "--json", *harness.PATIENT, *arguments,
                                "--audit", self.folder / f"{name}.audit"],
                               stdout=subprocess.PIPE, stderr=log, env=self.environment)
            self.nodes[name] = child

    def await_rows(self, rows):
        self.wait_until(lambda: self.out.exists() and self.out.read_bytes().count(b"\n") >= rows, pause=0.01)

    def wait_until(self, happened, **how):
        super().wait_until(happened, lambda: f"seed {SEED}: {self.told()}", **how)

    def told(self):
        return {log.stem: log.read_text()[-1000:] for log in self.folder.glob("*.log")}

    def finish(self):
        """The ledgers of all nodes, which have ended well; `cuts` has what the cuts counted."""
        ledgers, self.cuts = {}, {}
        for name, child in self.nodes.items():
            text = self.ended(child)[0]
            told = json.loads(text)
            ledgers[name] = told["ledger"]
            self.cuts[name] = told["cuts"]
            self.assertTrue(ledgers[name]["balanced"], f"seed {SEED}: {ledgers}")
        return ledgers

    def numbers(self):
        return [row["seq"] for row in harness.rows_in(self.out)]


class Faults(Nodes):
    def test_each_node_stands_still_and_goes_on(self):
        """Once for longer than the time after which it counts as lost, once for a moment."""
        self.start_nodes(self.pipeline(3000, 1500))
        for i, name in enumerate(self.random.sample(NODES, 3)):
            self.await_rows(200 * (i + 1))
            self.nodes[name].send_signal(signal.SIGSTOP)
            time.sleep(0.9 if i == 0 else 0.1)
            self.nodes[name].send_signal(signal.SIGCONT)
        ledger = self.finish()["reads"]
        self.assertEqual(self.numbers(), list(range(3000)), f"seed {SEED}")
        self.assertEqual((ledger["in"], ledger["delivered"]), (3000, 3000))
        sessions = [cut["sessions"] for cuts in self.cuts.values() for cut in cuts]
        self.assertEqual(len(sessions), 4)
        self.assertGreater(sum(sessions), 4, "nobody was thought lost")

    def test_asked_to_end_at_any_moment(self):
        """Ends nodes as service managers do: all at once, in any order, or the supervisor."""
        for turn in range(4):
            with self.subTest(turn=turn, seed=SEED):
                self.out.unlink(missing_ok=True)
                self.start_nodes(self.pipeline(1000000, 1000))
                self.await_rows(self.random.choice((0, 1, 50, 300)) or 1)
                time.sleep(self.random.random() / 10)
                for name in self.random.sample(NODES, 3):
                    self.nodes[name].send_signal(signal.SIGTERM)
                ledger = self.finish()["reads"]
                lost = sum(line["frames"] for line in ledger["dropped"])
                self.assertEqual(ledger["in"], ledger["delivered"] + lost)
                rows = self.numbers()
                self.assertEqual(rows, sorted(set(rows)))
                self.assertGreaterEqual(len(rows), ledger["delivered"])

    def test_the_supervisor_is_asked_to_end(self):
        child = harness.start([MILLRACE, "run", self.pipeline(1000000, 1000), "--json", *harness.PATIENT],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        self.await_rows(self.random.randrange(1, 300))
        text = self.ended(child, signal.SIGTERM)[0]
        ledger = json.loads(text)["ledger"]
        self.assertTrue(ledger["balanced"])
        self.assertEqual((ledger["in"], ledger["in_flight"]), (ledger["delivered"], 0), f"seed {SEED}: {ledger}")
        self.assertEqual(self.numbers(), list(range(ledger["in"])))


class Strangers(Nodes):
    """Anyone who can connect sends what no node would send."""

    def stranger(self, address, **options):
        one = zmq.Context.instance().socket(zmq.DEALER)
        one.linger = 0
        for name, value in options.items():
            setattr(one, name, value)
        one.connect(address)
        self.addCleanup(one.close)
        return one

    def bother(self, address):
        """Garbage with every size, empty messages, endless parts, half messages, and a node's earlier messages."""
        numbers = self.random
        overheard = [numbers.randbytes(numbers.randrange(1, 200)) for _ in range(20)]
        for i in range(12):
            one = self.stranger(address)
            for text in overheard:
                one.send(text)
            one.send_multipart([b""] * numbers.randrange(1, 5))
            one.send_multipart([numbers.randbytes(3) for _ in range(700)])
            one.send(numbers.randbytes(1 << 20))
            one.send(b"half", zmq.SNDMORE)  # the rest never comes
            if i % 2:
                one.close()
        with_name = self.stranger(address, identity=b"works")
        with_name.send(b"I am works")

    def end_and_check(self):
        """Ends the run, which is endless; nothing that it read may be missing."""
        self.nodes["reads"].send_signal(signal.SIGTERM)
        ledger = self.finish()["reads"]
        self.assertEqual(self.numbers(), list(range(ledger["in"])), f"seed {SEED}: {self.told()}")
        self.assertEqual((ledger["in"], ledger["in_flight"]), (ledger["delivered"], 0))

    def audited(self):
        return [entry for entry in harness.rows_in(self.folder / "reads.audit") if entry["event"] == "peer refused"]

    def test_strangers_do_no_harm(self):
        port = free_port()
        address = f"tcp://127.0.0.1:{port}"
        self.start_nodes(self.pipeline(1000000, 1500, listen=address))
        self.await_rows(100)
        self.bother(address)
        self.wait_until(lambda: "is refused" in (self.folder / "reads.log").read_text())
        self.await_rows(len(self.numbers()) + 1000)
        self.end_and_check()
        self.assertGreaterEqual(self.cuts["reads"][0]["malformed"], 1)

    def test_more_than_may_come(self):
        """Connections beyond the plan's limit are refused and logged; existing ones stay."""
        address = f"tcp://127.0.0.1:{free_port()}"
        self.start_nodes(self.pipeline(1000000, 1500, listen=address))
        self.await_rows(100)
        for _ in range(200):  # one consumer, eight more while it reconnects, four connections each, and 128
            self.stranger(address)
        self.wait_until(lambda: any(line["reason"] == "too many peers" for line in self.audited()))
        self.end_and_check()
        self.assertGreaterEqual(self.cuts["reads"][0]["refused"], 1)

    def test_who_has_no_key_does_not_come_in(self):
        """Strangers without a key, with another key or with a wrong key for the other end are refused, counted and
        logged."""
        for name in (*NODES, "stranger"):
            self.millrace("keygen", name, "--output", self.folder)
        port = free_port()
        address = f"tcp://127.0.0.1:{port}"
        keys = {name: f", key: {self.folder}/{name}.key" for name in NODES}
        self.start_nodes(self.pipeline(1000000, 1500, listen=address, **keys))
        self.await_rows(100)
        public, secret = zmq.auth.load_certificate(self.folder / "stranger.key")
        known, _ = zmq.auth.load_certificate(self.folder / "reads.pub")
        sockets = [self.stranger(address),
                   self.stranger(address, curve_publickey=public, curve_secretkey=secret, curve_serverkey=known),
                   self.stranger(address, curve_publickey=public, curve_secretkey=secret, curve_serverkey=public)]
        for one in sockets:
            try:
                one.send(b"let me in", zmq.DONTWAIT)
            except zmq.Again:
                pass  # it was refused already
        self.wait_until(lambda: any(line["key"] == public.decode() for line in self.audited()))
        self.assertGreaterEqual(max(line["refused"] for line in self.audited()), 1)
        self.end_and_check()
        self.assertGreaterEqual(self.cuts["reads"][0]["refused"], 1)
