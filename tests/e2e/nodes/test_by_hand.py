"""Nodes that a person starts one by one, without variables or a supervisor: whichever is killed and restarted, no
record may be lost or duplicated; a new run begins the file again."""
import collections
import concurrent.futures
import csv
import json
import os
import shlex
import signal
import time

import harness
from harness import pipeline

AT_ONCE = 4

FRAMES = 120
NODES = ("reads", "computes", "writes")
# From an earlier run, with numbers that the next one also uses.
STALE = {"jsonl": "".join(f'{{"source": "a", "seq": {seq}, "pts": -1, "classes": []}}\n' for seq in range(30)),
         "csv": "source,epoch,seq,sub,pts,file,label,rank,index,class,score\r\n"
                + "".join(f"a,0,{seq},0,-1,,,,,,\r\n" for seq in range(30))}


class Nodes:
    """One pipeline's nodes, in a separate folder where an earlier run has left results."""

    def __init__(self, folder, resumed=(), type="jsonl"):
        folder.mkdir()
        self.folder, self.resumed, self.type, self.processes = folder, resumed, type, {}
        self.path, self.results = folder / "pipeline.yaml", folder / "results"
        self.path.write_text(pipeline(
            dict(a='uri: "lavfi:testsrc=size=64x48:rate=60:duration=2", realtime: true'), name="by-hand",
            top="workers: 1", decode="",
            hog="type: hog, size: 32x32, cut: {window: 8, heartbeat: 200ms}",
            results=f'type: {type}, path: "{folder}/results", cut: {{window: 8, heartbeat: 200ms}}',
            nodes=dict(reads="stages: [decode]", computes="stages: [hog]", writes="stages: [results]")))
        self.results.write_text(STALE[type], newline="")

    def command(self, name):
        """The command that a person types, and its variables."""
        resume = ["--resume", self.folder / f"{name}.checkpoint"] if name in self.resumed else []
        return [harness.MILLRACE, "run", self.path, "--node", name, "--json", *resume], {}

    def start(self, *names):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MILLRACE_R")}
        for name in names:
            command, more = self.command(name)
            with open(self.folder / f"{name}.log", "a") as log:
                self.processes[name] = harness.start(
                    command, stdout=log, stderr=log,
                    env={**environment, "XDG_RUNTIME_DIR": str(self.folder), **more})

    def kill(self, *names):
        for name in names:
            self.processes[name].send_signal(signal.SIGKILL)
        for name in names:
            self.processes[name].wait()

    def end(self):
        self.kill(*(name for name, process in self.processes.items() if process.poll() is None))

    def logs(self):
        return "".join(f"---- {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))

    def wait(self, condition, what):
        until = time.monotonic() + harness.TIMEOUT
        while not condition():
            if time.monotonic() > until or any((process.poll() or 0) > 0 for process in self.processes.values()):
                raise AssertionError(f"{what}: {self.logs()}")
            time.sleep(0.01)

    def await_rows(self, count):
        """Waits until this run has written so much that the earlier run's rows are gone."""
        stale = STALE[self.type].replace("\r", "")
        self.wait(lambda: (text := self.results.read_text()) != stale and text.count("\n") >= count, f"no {count} rows")

    def finish(self):
        self.wait(lambda: all(process.poll() is not None for process in self.processes.values()), "nodes do not end")
        return {name: process.returncode for name, process in self.processes.items()}

    def rows(self):
        lines = self.results.read_text().splitlines()
        rows = csv.DictReader(lines) if self.type == "csv" else map(json.loads, lines)
        return collections.Counter(int(row["seq"]) for row in rows if float(row["pts"]) >= 0)


class Units(Nodes):
    """Units with the commands, variables and folder that `deploy` writes."""

    def __init__(self, folder, resumed, type):
        super().__init__(folder, resumed, type)
        done = harness.call([harness.MILLRACE, "deploy", self.path, "--target", "systemd", "--output",
                             folder / "units"])
        assert done.returncode == 0, done.stderr
        (folder / "millrace-by-hand").mkdir(mode=0o700)  # RuntimeDirectory

    def command(self, name):
        lines = (self.folder / "units" / f"by-hand-{name}.service").read_text().replace("%t", str(self.folder)).replace(
            "%S", str(self.folder))
        fields = dict(line.split("=", 1) for line in lines.splitlines() if "=" in line and line[0] != "#")
        return shlex.split(fields["ExecStart"]), dict(word.split("=", 1) for word in shlex.split(fields["Environment"]))


class Pictures(Nodes):
    """A picture folder that is empty when a run begins."""

    def __init__(self, folder, resumed, type):
        super().__init__(folder, resumed, "jsonl")
        self.results.unlink()
        self.path.write_text(self.path.read_text().replace("type: jsonl", "type: images").replace(
            "{type: hog, input: decode, size: 32x32,", "{type: \"null\", input: decode,"))

    def written(self):
        return sorted(self.results.glob("*.png")) if self.results.exists() else []

    def await_rows(self, count):
        self.wait(lambda: len(self.written()) >= count, f"no {count} pictures")

    def rows(self):
        assert all(path.read_bytes().endswith(b"IEND\xaeB`\x82") for path in self.written())
        return collections.Counter(path.name for path in self.written())


class ByHand(harness.Case):
    def kill_and_start(self, number, victims, resumed, type, kind=Nodes):
        """Returns what is wrong at the end; "" if nothing is. The folder's name is short, since socket paths are
        limited."""
        nodes = kind(self.folder / str(number), resumed, type)
        try:
            nodes.start(*NODES)
            nodes.await_rows(30)
            nodes.kill(*victims)
            time.sleep(0.1)
            nodes.start(*victims)
            codes = nodes.finish()
        finally:
            nodes.end()
        rows = nodes.rows()
        missing, doubled = FRAMES - len(rows), sum(rows.values()) - len(rows)
        if missing or doubled or any(codes.values()):
            return (f"{kind.__name__}, {type}, killed {victims}, --resume of {resumed}: {missing} missing, "
                    f"{doubled} twice, {codes}\n{nodes.logs()}")
        return ""

    def test_a_node_that_is_stopped_before_anything_comes_leaves_what_it_finds(self):
        kinds = {"jsonl": Nodes, "csv": Nodes, "images": Pictures}
        all_nodes = [kind(self.folder / type, (), type) for type, kind in kinds.items()]
        found = [nodes.results.read_text() if nodes.results.exists() else None for nodes in all_nodes]
        try:
            for nodes in all_nodes:
                nodes.start("writes")
            for nodes in all_nodes:
                nodes.wait(lambda: "computes does not answer" in nodes.logs(), "it does not run")
                nodes.processes["writes"].terminate()
            for nodes, before in zip(all_nodes, found):
                self.assertEqual(nodes.finish(), {"writes": 0}, nodes.logs())
                self.assertEqual(nodes.results.read_text() if before else nodes.written() or None, before)
        finally:
            for nodes in all_nodes:
                nodes.end()

    def test_results_that_are_gone_or_foreign_are_waited_for(self):
        """The returning node ends; the others keep what it should write until the file is right again."""
        damages = {"gone": (66, lambda path: path.unlink()), "foreign": (65, lambda path: path.write_text("1,2,3\n"))}
        for type in ("jsonl", "csv"):
            for damage, (code, harm) in damages.items():
                with self.subTest(type=type, damage=damage):
                    nodes = Nodes(self.folder / f"{type}-{damage}", (), type)
                    try:
                        nodes.start(*NODES)
                        nodes.await_rows(30)
                        nodes.kill("writes")
                        kept = nodes.folder / "kept"
                        kept.write_bytes(nodes.results.read_bytes())
                        harm(nodes.results)
                        nodes.start("writes")
                        self.assertEqual(nodes.processes["writes"].wait(harness.TIMEOUT), code, nodes.logs())
                        self.assertEqual([nodes.processes[name].poll() for name in NODES[:2]], [None, None])
                        kept.replace(nodes.results)
                        nodes.start("writes")
                        codes = nodes.finish()
                    finally:
                        nodes.end()
                    self.assertEqual(codes, dict.fromkeys(NODES, 0), nodes.logs())
                    self.assertEqual(nodes.rows(), collections.Counter(range(FRAMES)), nodes.logs())

    def test_whoever_is_killed_no_record_is_lost_or_comes_twice(self):
        victims = [("reads",), ("computes",), ("writes",), ("reads", "computes"), ("computes", "writes"),
                   ("reads", "writes"), NODES]
        trials = [(some, (), "jsonl") for some in victims]
        trials += [(some, NODES, "jsonl") for some in (*victims[:3], NODES)]
        trials += [(some, some[:1], "jsonl") for some in victims[2:6]]
        trials += [(some, (), "csv") for some in victims[2:5:2]]
        trials += [(some, (), "images", Pictures) for some in victims[2:6:3]]
        trials += [(some, (), "jsonl", Units) for some in victims[:4]]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            told = pool.map(lambda number: self.kill_and_start(number, *trials[number]), range(len(trials)))
            wrong = [text for text in told if text]
        self.assertEqual(wrong, [], "\n".join(wrong))
