"""Shared by the node tests: a run that supervises processes, which are found by node name."""
import json
import pathlib
import re
import signal
import subprocess

import harness
from harness import MILLRACE, Case

PATIENCE = int(harness.TIMEOUT)
LEDGER = re.compile(r"  ledger: (.*): (?:balanced|NOT BALANCED)$")


def nodes_of(done):
    return {node["node"]: node for node in json.loads(done)["nodes"]}


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def children_of(pid, replica=None):
    """The processes that it has started, by node name; only those with that number, if one is given."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # the thread has ended
            continue
        for child in children:
            words = command_line(child)
            if "--node" in words and replica in (None, words[words.index("--replica") + 1]):
                found[words[words.index("--node") + 1]] = int(child)
    return found


class Watched(Case):
    def start(self, path, *arguments, grace=harness.PATIENT, **options):
        return self.spawn([MILLRACE, "run", path, *grace, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, **options)

    def wait_for_rows(self, rows):
        path = self.folder / "out.jsonl"
        self.wait_until(lambda: path.exists() and path.read_text().count("\n") >= rows, "no results")

    def ledger_of(self, child, wanted, why):
        """Requests the table until the ledger has what is wanted."""
        def ask():
            child.send_signal(signal.SIGUSR1)
            while not (found := LEDGER.match(child.stderr.readline())):
                self.assertIsNone(child.poll())
            return wanted({what: int(frames) for frames, what in re.findall(r"(\d+) ([a-z][a-z ]*[a-z])", found[1])})

        self.wait_until(ask, why)

    def rows(self):
        return [row["seq"] for row in harness.rows_in(self.folder / "out.jsonl")]
