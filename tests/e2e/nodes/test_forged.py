"""Text from others (file names, labels, names that strangers send, arguments) is shown as text: no terminal may
obey it, and none may form a separate line. What people write in their own language stays."""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import xxhash
import zmq

from harness import MILLRACE, ROOT, TIMEOUT, Case, call, free_port, pipeline

# A terminal title, a code that clears it, and a line that looks like ours; in ASCII, C1 and Unicode.
FORGED = "a\x1b]0;TITLE\x07\x1b[2J\nmillrace: error: forged\r\x7f\u009b2J\u2028\u202eb"
SHOWN = r"a\x1b]0;TITLE\x07\x1b[2J\x0amillrace: error: forged\x0d\x7f\u009b2J\u2028\u202eb"
HONEST = "日本 é 🐦 100%"


def visited(folder, port):
    return pipeline(dict(a='type: "null", frames: 10'),
                    out=f'type: jsonl, path: "{folder}/out.jsonl", cut: {{inline: true}}',
                    nodes=dict(left=f'sources: [a], listen: "tcp://127.0.0.1:{port}"', right="stages: [out]"))


def of_images(folder, output):
    return pipeline(dict(pictures=f'uri: "{folder}"'), decode="", out=f'type: jsonl, path: "{output}"')


class Forged(Case):
    def assert_shown(self, text):
        """Every line is plain text, and none forged."""
        self.assertNotRegex(text, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffd]")
        self.assertNotRegex(text, r"(?m)^millrace: error: forged")

    def all_of(self, *arguments):
        done = call([MILLRACE, *arguments], cwd=self.folder)
        return done.stdout + done.stderr

    def on_terminal(self, *arguments):
        """The terminal's text, with a new line where a line is cleared."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        child = subprocess.Popen([MILLRACE, *arguments], stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        got = b""
        try:
            while more := os.read(master, 65536):
                got += more
        except OSError:
            pass  # nobody holds the other end now
        child.wait()
        return got.decode().replace("\r\n", "\n").replace("\r\x1b[K", "\n")

    # ---- strangers ---------------------------------------------------------------------------------------------------

    def messages(self):
        """proto/millrace.proto in Python."""
        generated = tempfile.TemporaryDirectory()
        self.addCleanup(generated.cleanup)
        subprocess.run(["protoc", f"-I{ROOT}/proto", f"--python_out={generated.name}", "millrace.proto"], check=True)
        sys.path.insert(0, generated.name)
        self.addCleanup(sys.path.remove, generated.name)
        import millrace_pb2
        return millrace_pb2

    def sealed(self, envelope):
        envelope.checksum = xxhash.xxh3_64_intdigest(envelope.SerializeToString())
        return envelope.SerializeToString()

    def hello(self, name, cut):
        """A receiver's first message."""
        made = self.messages()
        return self.sealed(made.Envelope(version=2, hello=made.Hello(
            oldest_version=1, newest_version=9, name=name, incarnation=1, attempt=1, digest=bytes(32), cut=cut,
            formats="any")))

    @unittest.skipUnless(shutil.which("protoc"), "no protoc")
    def test_a_stranger(self):
        port, log = free_port(), self.folder / "log"
        path = self.write(visited(folder=self.folder, port=port))
        with open(log, "wb") as file:
            left = self.spawn([MILLRACE, "run", path, "--node", "left", "--log", "debug",
                               "--audit", self.folder / "audit"], stdout=file, stderr=file)
        with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
            stranger.linger = 0
            stranger.connect(f"tcp://127.0.0.1:{port}")
            stranger.send(self.hello("evil" + FORGED, "x" + FORGED))
            self.wait_until(lambda: re.search(b"evil.*refused", log.read_bytes()),
                            lambda: log.read_text(errors="replace"), left)
        self.millrace("run", path, "--node", "right")
        self.assertEqual(left.wait(TIMEOUT), 0)
        told = log.read_text()
        self.assert_shown(told)
        self.assertIn("evil" + SHOWN, told)
        # Data keep the original text.
        entries = [json.loads(line) for line in (self.folder / "audit").read_text().split("\n")[:-1]]
        self.assertIn("evil" + FORGED, [entry["peer"] for entry in entries if entry["event"] == "cut peer"])

    @unittest.skipUnless(shutil.which("protoc"), "no protoc")
    def test_a_sender_that_breaks_the_protocol(self):
        """Each request gets frames for which no room was granted; none may be kept."""
        port, made = free_port(), self.messages()
        path = self.write(visited(folder=self.folder, port=port))
        frame = made.Items(
            items=[made.Item(position=n + 1, seq=n, format=1, planes=[made.Plane(block=1, bytes=64 << 20)])
                   for n in range(2000)],
            formats=[made.Format(payload=3, dtype=1, layout=3, dims=[64 << 20])], blocks=[made.Block(bytes=64 << 20)])
        with zmq.Context() as context, context.socket(zmq.ROUTER) as sender:
            sender.linger = 0
            sender.bind(f"tcp://127.0.0.1:{port}")
            with open(self.folder / "log", "wb") as file:
                right = self.spawn([MILLRACE, "run", path, "--node", "right"], stdout=file, stderr=file)
            session = 0
            while session < 6:
                self.assertTrue(sender.poll(1000 * TIMEOUT), (self.folder / "log").read_text())
                peer, text, *_ = sender.recv_multipart()
                asked = made.Envelope.FromString(text)
                if asked.WhichOneof("body") != "hello":
                    continue
                session += 1
                version = asked.hello.newest_version
                welcome = made.Welcome(version=version, attempt=asked.hello.attempt, incarnation=7, run=7,
                                       beat_ns=10**9)
                sender.send_multipart([peer, self.sealed(made.Envelope(version=version, session=session, number=0,
                                                                       welcome=welcome))])
                sender.send_multipart([peer, self.sealed(made.Envelope(version=version, session=session, number=1,
                                                                       items=frame)), bytes(64 << 20)])
            status = pathlib.Path(f"/proc/{right.pid}/status").read_text()
        self.assertIn("more frames or bytes than were granted", (self.folder / "log").read_text())
        self.assertLess(int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10, 200 << 20)

    # ---- files -------------------------------------------------------------------------------------------------------

    def test_names_of_files(self):
        folder = self.folder / "pictures"
        folder.mkdir()
        path = self.write(of_images(folder=folder, output=self.folder / "out.jsonl"))
        for name, shown in ((FORGED, SHOWN), (HONEST, HONEST), ("\udcff broken", r"\xff broken")):
            damaged = folder / (name + ".png")
            damaged.write_bytes(b"nothing")
            told = self.all_of("run", path)
            self.assert_shown(told)
            self.assertIn(f"{shown}.png is damaged", told)
            damaged.unlink()

    def test_names_of_pipelines_files(self):
        path = self.folder / (FORGED + HONEST + ".yaml")
        path.write_text(visited(folder=self.folder, port=free_port()).split("nodes:")[0])
        for verb in (["check"], ["plan"], ["run"], ["graph"], ["verify"], ["check", "--format", "github"],
                     ["graph", "--format", "svg"], ["graph", "--format", "dot"],
                     ["run", "--set", "stages.out.path=/no/x"]):
            with self.subTest(verb):
                told = self.all_of(*verb, path)
                self.assert_shown(told)
        self.assertIn(SHOWN + HONEST, self.all_of("plan", path))
        path.write_text("version: 1\nsources: [" + FORGED.replace("\n", " ").replace("\x1b", "\\x1b"))
        for verb in (["check"], ["check", "--format", "github"], ["plan"]):
            told = self.all_of(*verb, path)
            self.assert_shown(told)
            self.assertIn(SHOWN, told.replace("%3A", ":"))

    def test_nodes(self):
        """A node's messages, and how the supervisor shows them."""
        folder = self.folder / "pictures"
        folder.mkdir()
        (folder / (FORGED + ".png")).write_bytes(b"nothing")
        text = of_images(folder=folder, output=self.folder / "out.jsonl")
        told = self.all_of("run", self.write(text + "nodes:\n  near: {stages: decode}\n  far: {stages: out}\n"))
        self.assert_shown(told)
        self.assertIn(SHOWN + ".png", told)

    # ---- labels and names of pipelines -------------------------------------------------------------------------------

    def classes(self, label, name):
        np.save(self.folder / "weights.npy", np.zeros((2, 13), dtype=np.float32))
        (self.folder / "labels.txt").write_text(f"{label}\n{label}\n")
        return self.write(pipeline(dict(made='uri: "lavfi:testsrc=size=16x16:rate=10:duration=1"'), name=f'"{name}"',
                                   decode="", colours="type: histogram, bins: 4",
                                   classify=f'weights: "{self.folder}/weights.npy", '
                                            f'labels: "{self.folder}/labels.txt", top_k: 1',
                                   out=f'type: jsonl, path: "{self.folder}/out.jsonl"'))

    def test_labels(self):
        label = FORGED.split("\n")[0] + "\x9b" + FORGED.split("\n")[1].replace("\r", "") + HONEST
        shown = SHOWN.split(r"\x0a")[0] + r"\u009b" + SHOWN.split(r"\x0a")[1].replace(r"\x0d", "") + HONEST
        path = self.classes(label, HONEST)
        told = self.on_terminal("run", path)
        self.assert_shown(told)
        # A label wider than the terminal continues on several lines.
        self.assertIn(f"10 x {shown} (100% of frames", " ".join(told.split()))
        self.assertRegex(told, rf"(?m)^{HONEST}: 10 frames")
        rows = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().split("\n")[:-1]]
        self.assertEqual([row["classes"][0]["label"] for row in rows], 10 * [label])

    def test_names_of_pipelines(self):
        """Names that cannot be printed on a line are refused where they appear."""
        path = self.classes("x", json.dumps(FORGED)[1:-1])
        for verb in ("check", "run", "plan", "graph", "verify"):
            told = self.all_of(verb, path)
            self.assert_shown(told)
            self.assertIn(f'{path}:2:11: error: pipeline: the name "{SHOWN}" holds control characters', told)

    def test_a_terminal(self):
        """Log lines appear above the progress line."""
        folder = self.folder / "pictures"
        folder.mkdir()
        (folder / (FORGED + ".png")).write_bytes(b"nothing")
        path = self.write(of_images(folder=folder, output=self.folder / "out.jsonl"))
        told = self.on_terminal("run", path)
        self.assert_shown(told)
        self.assertIn(SHOWN + ".png", told)

    # ---- arguments ---------------------------------------------------------------------------------------------------

    def test_arguments(self):
        path = self.classes("x", "x")
        for arguments in ([FORGED], ["run", "--" + FORGED], ["run", FORGED], ["run", path, FORGED], ["inspect", FORGED],
                          ["list", FORGED], ["devices", FORGED], ["keygen", FORGED], ["ctl", FORGED],
                          ["schema", FORGED], ["ctl", "--control", self.folder / FORGED, "status"], ["deploy", FORGED],
                          ["bench", FORGED], ["deploy", path, "--target", FORGED], ["run", path, "--set", FORGED],
                          ["graph", path, "--format", FORGED], ["run", path, "--set", f"{FORGED}=1"],
                          ["run", path, "--workers", FORGED], ["run", path, "--log", FORGED],
                          ["run", path, "--resume", f"/dev/null/{FORGED}"],
                          ["run", path, "--audit", f"/dev/null/{FORGED}"],
                          ["run", path, "--trace", f"/dev/null/{FORGED}"],
                          ["plan", path, "--assume", FORGED], ["plan", path, "--costs", FORGED],
                          ["verify", path, "--on", FORGED], ["run", path, "--node", FORGED]):
            with self.subTest(arguments):
                told = self.all_of(*arguments)
                self.assertTrue(told)
                self.assert_shown(told)
