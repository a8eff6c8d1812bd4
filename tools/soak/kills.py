"""Kills a pipeline's nodes at random with SIGKILL and restarts them until the run is done. The sorted output must equal
that of an uninterrupted run, byte for byte.

    tools/soak/kills.py [--kills 200] [--seed N] [--millrace build/millrace]

There are three nodes: one reads videos, one computes, one writes. Runs alternate: all nodes keep checkpoints, none
does, or each does at random. Runs follow each other until enough nodes have been killed. If the output is wrong, it
prints the differences and the seed, keeps that run's folder and exits with code 1."""
import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = pathlib.Path("/usr/lib/python3/dist-packages/imageio/resources/images")
PIPELINE = """\
version: 1
pipeline: soak
sources:
  a: {{uri: {samples}/cockatoo.mp4, every: 2, duration: 4s, loop: {cockatoo}}}
  b: {{uri: {samples}/realshort.mp4, loop: {short}}}
stages:
  decode:  {{input: sources.*}}
  hog:     {{input: decode, size: 64x64, cut: {{window: 12, inline: {inline}, heartbeat: 200ms}}}}
  results: {{type: jsonl, input: hog, features: true, path: "${{OUTPUT}}", cut: {{heartbeat: 200ms}}}}
nodes:
  reads:    {{stages: [decode]}}
  computes: {{stages: [hog]}}
  writes:   {{stages: [results]}}
"""
ORDER = ("reads", "computes", "writes")  # frames go this way
PATIENCE = 120  # seconds without a new line before a run counts as hung
QUIET = 3       # the same for a node whose producers have all ended


class Wrong(Exception):
    pass


class Node:
    """One node's process. A restart uses its checkpoint if it keeps one."""

    def __init__(self, run, name, resumes):
        self.run, self.name, self.resumes, self.process, self.killed = run, name, resumes, None, 0
        self.log = run.folder / f"{name}.log"

    def start(self):
        command = [self.run.millrace, "run", self.run.pipeline, "--node", self.name, "--json"]
        if self.resumes:
            command += ["--resume", self.run.folder / f"{self.name}.checkpoint"]
        with open(self.log, "a") as log:
            log.write(f"---- start, {self.killed} times killed\n")
            log.flush()
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=log, env=self.run.environment)

    def runs(self):
        code = self.process.poll()
        if code:
            raise Wrong(f"the node {self.name} has ended with {code}:\n{self.log.read_text()[-2000:]}")
        return code is None

    def can_be_asked(self):
        """Whether it handles SIGTERM yet; before that the signal would kill it."""
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        except FileNotFoundError:
            return False
        blocked = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk"))
        return bool(int(blocked, 16) & 1 << (signal.SIGTERM - 1))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.killed += 1


class Run:
    """One run of the pipeline, from the first frame to the last."""

    def __init__(self, millrace, folder, text, random_numbers, chance):
        self.millrace, self.folder, self.random = millrace, folder, random_numbers
        self.pipeline, self.output = folder / "soak.yaml", folder / "results.jsonl"
        self.pipeline.write_text(text)
        self.environment = {**os.environ, "OUTPUT": str(self.output), "MILLRACE_RUNTIME": str(folder)}
        self.nodes = [Node(self, name, self.random.random() < chance) for name in ORDER]
        self.kills = 0

    def reference(self):
        whole = self.folder / "whole.jsonl"
        done = subprocess.run([self.millrace, "run", str(self.pipeline), "--one-process", "--quiet"], check=False,
                              capture_output=True, text=True, env={**self.environment, "OUTPUT": str(whole)})
        if done.returncode:
            raise Wrong(done.stderr)
        return whole.read_bytes().splitlines(keepends=True)

    def lines(self):
        return self.output.read_bytes().count(b"\n") if self.output.exists() else 0

    def revive(self, victims):
        """Restarts killed nodes, and also the nodes that take their frames if these have ended: a restarted process may
        not know what became of the last frames."""
        first = min(self.nodes.index(node) for node in victims)
        for node in self.nodes[first:]:
            if node in victims or not node.runs():
                node.start()

    def waiting(self):
        """The first running node whose producers have all ended; None if there is none."""
        first = next((node for node in self.nodes if node.runs()), None)
        return None if first is self.nodes[0] else first

    def await_moment(self):
        """Waits for some more lines, or for some time. False if all nodes have ended, or may have: a node that was
        killed with its work done waits, after a restart, for nodes that have ended."""
        wanted, until = self.lines() + self.random.randrange(1, 40), time.monotonic() + self.random.random() * 2
        by_time, since = self.random.random() < 0.3, time.monotonic()
        while self.lines() < wanted and not (by_time and time.monotonic() > until):
            if not any([node.runs() for node in self.nodes]):
                return False
            if self.waiting() and time.monotonic() - since > QUIET:
                return False
            if time.monotonic() - since > PATIENCE:
                raise Wrong("nothing was written any more")
            time.sleep(0.002)
        return True

    def kill_some(self):
        running = [node for node in self.nodes if node.runs()]
        if not running:
            return
        count = 1 if self.random.random() < 0.8 else self.random.randrange(len(running)) + 1
        victims = self.random.sample(running, count)
        for node in victims:
            node.kill()
        self.kills += len(victims)
        self.revive(victims)

    def finish(self):
        """Waits for all nodes. Asks nodes to end if they were restarted after their producers had ended, since nothing
        will come."""
        count, since = self.lines(), time.monotonic()
        while any([node.runs() for node in self.nodes]):
            time.sleep(0.01)
            if self.lines() != count:
                count, since = self.lines(), time.monotonic()
            waiting = self.waiting()
            if waiting and waiting.can_be_asked() and time.monotonic() - since > QUIET:
                waiting.process.send_signal(signal.SIGTERM)
                since = time.monotonic() + PATIENCE / 2
            if time.monotonic() - since > PATIENCE:
                raise Wrong("nodes do not end: " + ", ".join(node.name for node in self.nodes if node.runs()))

    def compare(self, expected):
        got = self.output.read_bytes().splitlines(keepends=True)
        missing = collections.Counter(expected) - collections.Counter(got)
        beyond = collections.Counter(got) - collections.Counter(expected)
        if missing or beyond:
            raise Wrong(f"{sum(missing.values())} records are missing, {sum(beyond.values())} are too many: "
                        f"{[line[:60] for line in list(missing)[:3]]} {[line[:60] for line in list(beyond)[:3]]}")

    def go(self, kills):
        for node in self.nodes:
            node.start()
        while self.kills < kills and self.await_moment():
            self.kill_some()
        self.finish()

    def end(self):
        for node in self.nodes:
            if node.process and node.process.poll() is None:
                node.kill()


def soak(millrace, seed, kills, turns):
    """Runs until that many processes have been killed; returns the number of runs."""
    numbers, killed, runs = random.Random(seed), 0, 0
    while killed < kills:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-soak-"))
        text = PIPELINE.format(samples=SAMPLES, cockatoo=turns, short=4 * turns, inline="true" if runs % 2 else "false")
        run = Run(millrace, folder, text, numbers, (1, 0, 0.5)[(seed + runs) % 3])
        try:
            expected = run.reference()
            run.go(kills - killed)
            run.compare(expected)
        except Wrong as wrong:
            print(f"seed {seed}, run {runs}, after {killed + run.kills} kills, {folder}: {wrong}")
            return None
        finally:
            run.end()
        killed, runs = killed + run.kills, runs + 1
        print(f"{killed} killed, {len(expected)} records as they should be: "
              + ", ".join(f"{node.name} {node.killed}" for node in run.nodes), flush=True)
        shutil.rmtree(folder)
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="processes to kill in all (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--turns", type=int, default=20, help="how often the videos of one run are read (%(default)s)")
    parser.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    return 0 if soak(given.millrace, given.seed, given.kills, given.turns) else 1


if __name__ == "__main__":
    sys.exit(main())
