"""Cascades whose pictures go over other nodes and come back, drawn from a number, with sinks everywhere on the way.
Nodes are killed. Each row of each sink must be there once, in order.

    MILLRACE_CIRCLES=60 MILLRACE_SEED=7 tests/e2e/run PYTHON tests/e2e/nodes/test_circles.py

draws more of them, the first one from this number."""
import csv
import json
import os
import random
import signal
import sqlite3
import subprocess

from cascades import CASCADE, CascadeCase
from harness import MILLRACE, PATIENT, TIMEOUT, pipeline, rows_in
from watched import children_of

AT_ONCE = 4
FIRST = int(os.environ.get("MILLRACE_SEED", "100"))
COUNTS = [3, 0, 5, 1, 12] * 14
HEAD = ["decode", "tensor", "detect", "look", "crop"]
SINKS = ("jsonl", "sqlite", "csv")


class Circle:
    """A drawn pipeline. `sinks` has those on the way: the kind, and whether their frames are pictures of objects."""

    def __init__(self, seed, folder):
        self.dice = random.Random(seed)
        self.folder, self.changes, self.sinks = folder, {}, {}
        way = self.draw_cascade() if self.dice.random() < 0.7 else self.draw_frames()
        self.draw_sinks(way)
        # The one that makes the pictures is the hard case.
        self.kills = sorted((self.dice.randrange(2, len(COUNTS) - 10), self.dice.choice(["one", *self.nodes]))
                            for _ in range(self.dice.randrange(1, 4)))

    def spread(self, stages):
        """Cuts a way into one to three nodes."""
        count = self.dice.randrange(1, min(3, len(stages)) + 1)
        starts = [0, *sorted(self.dice.sample(range(1, len(stages)), count - 1)), len(stages)]
        return [stages[a:b] for a, b in zip(starts, starts[1:])]

    def draw_cascade(self):
        """Pictures of objects come back to their node, or frames that have gathered their classes."""
        gathers, joins = self.dice.random() < 0.3, self.dice.random() < 0.3
        way = ["small", "features", "classify"]
        if joins:
            way.append("both")
            self.changes |= dict(both="type: join, join: {classes: classify, tensors: small}",
                                 gather="join: {frames: look, crops: both}")
        if self.dice.random() < 0.5:
            self.changes["features"] = f"{CASCADE['features']}, batch: {{size: 4, timeout: 20ms}}"
        parts, last = self.spread(way), ["gather"] * gathers
        parts[-1] += last
        self.nodes = {"one": HEAD + ([] if gathers else ["gather"]) + ["rows"]}
        self.nodes |= {f"far{i}": part for i, part in enumerate(parts)}
        return [(stage, True) for stage in way] + [(stage, False) for stage in last]

    def draw_frames(self):
        """Whole frames come back, to a join or without one."""
        joins = self.dice.random() < 0.5
        way = ["sharp", "least", "vectors", "last"]
        self.changes |= dict(sharp="type: sharpness, input: decode",
                             least="type: preprocess, size: 16x16, input: sharp",
                             vectors="type: histogram, input: sharp", last="type: join, join: {a: least, b: vectors}",
                             rows=f'type: jsonl, input: {"back" if joins else "last"}, path: "${{OUTPUT:--}}"')
        if joins:
            self.changes["back"] = "type: join, join: {first: look, last: last}"
        self.changes |= dict.fromkeys(("crop", "small", "features", "classify", "gather"))
        parts = self.spread(way)
        self.nodes = {"one": [stage for stage in HEAD if stage != "crop"] + ["back"] * joins + ["rows"]}
        self.nodes |= {f"far{i}": part for i, part in enumerate(parts)}
        return [(stage, False) for stage in way]

    def draw_sinks(self, way):
        chosen = [one for one in way if self.dice.random() < 0.6] or way[-1:]
        for stage, of_objects in chosen:
            kind = self.dice.choice(SINKS if stage in ("classify", "both") else SINKS[:2])
            name = f"{stage}_{kind}"
            path = self.folder / f"{name}.out"
            self.changes[name] = f"type: {kind}, input: {stage}, path: '{path}'"
            node = next(node for node, stages in self.nodes.items() if stage in stages)
            self.nodes.setdefault("aside" if self.dice.random() < 0.15 else node, []).append(name)
            self.sinks[path] = kind, of_objects

    def text(self):
        nodes = {node: f"{'sources: [a], ' * (node == 'one')}stages: [{', '.join(stages)}]"
                 for node, stages in self.nodes.items()}
        stages = {name: text for name, text in {**CASCADE, **self.changes}.items() if text is not None}
        return pipeline({"a": f"uri: '{self.folder}/clip.mkv', realtime: true"}, nodes=nodes, **stages)


def read_keys(path, kind):
    """The frames of a sink in the order of its rows; each once, though it may have several rows in csv."""
    if kind == "jsonl":
        return [(row["seq"], row.get("sub", 0)) for row in rows_in(path)]
    if kind == "sqlite":
        with sqlite3.connect(path) as database:
            (total,), = database.execute("SELECT sum(frames) FROM sources")
            found = list(database.execute("SELECT seq, sub FROM frames"))
            return found if total == len(found) else [("frames", total)]
    with open(path) as file:
        rows = [(int(row["seq"]), int(row["sub"]), row["rank"]) for row in csv.DictReader(file)]
    if len(set(rows)) < len(rows):
        return rows
    return [row[:2] for i, row in enumerate(rows) if i == 0 or rows[i - 1][:2] != row[:2]]


class Circles(CascadeCase):
    def run_circle(self, seed):
        self.video(COUNTS)
        drawn = Circle(seed, self.folder)
        path, rows, log = self.write(drawn.text()), self.folder / "rows.jsonl", self.folder / "log"
        told = f"seed {seed}: {drawn.nodes} {drawn.kills}"
        with open(log, "w") as errors:
            command = [MILLRACE, "run", path, "--json", *PATIENT, "--resume", self.folder / "checkpoint", "--set",
                       f"stages.rows.path={rows}"]
            child = self.spawn(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            for wanted, node in drawn.kills:
                self.wait_until(lambda: child.poll() is not None or len(rows_in(rows)) >= wanted, log, pause=0.01)
                process = children_of(child.pid).get(node)
                if process:  # it may have ended, or be dead
                    os.kill(process, signal.SIGKILL)
            out, _ = child.communicate(timeout=TIMEOUT)
        told += f"\n{log.read_text()[-3000:]}"
        self.assertEqual(child.returncode, 0, told)
        ledger = json.loads(out)["ledger"]
        self.assertTrue(ledger["balanced"], told)
        self.assertEqual((ledger["in"], ledger["missing"]), (len(COUNTS), []), told)
        frames = [(seq, 0) for seq in range(len(COUNTS))]
        self.assertEqual([(row["seq"], row.get("sub", 0)) for row in rows_in(rows)], frames, told)
        objects = [(seq, sub) for seq, count in enumerate(COUNTS) for sub in range(1, count + 1)]
        self.assertNotIn("may ", self.millrace("plan", path).stderr, told)
        for path, (kind, of_objects) in drawn.sinks.items():
            self.assertEqual(read_keys(path, kind), objects if of_objects else frames, f"{path.name}, {told}")


def of_seed(seed):
    return lambda case: case.run_circle(seed)


for place in range(int(os.environ.get("MILLRACE_CIRCLES", "4"))):
    setattr(Circles, f"test_{FIRST + place}", of_seed(FIRST + place))
