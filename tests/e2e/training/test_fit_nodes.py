"""millrace train whose nodes help with the fit: the same weights, to the last bit, as one process makes, with any
number of nodes and whichever is killed; and the nodes that may not help."""
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

import test_train_nodes as nodes
from harness import call, free_port, main, start

PATIENCE = nodes.PATIENCE
# {0}, {1}: ports that are free
MORE_NODES = {
    "two": nodes.NODES["two"],
    "three": nodes.NODES["three"],
    "sockets": "{{left: {{stages: [decode, hog]}}, right: {{stages: [classify, results]}}}}",
    "keys": "{{left: {{stages: [decode, hog], listen: \"tcp://*:{0}\", address: \"tcp://127.0.0.1:{0}\", "
            "key: left.key}}, "
            "right: {{stages: [classify, results], key: right.key}}}}",
}
LONG = ("--penalty", ",".join(f"{0.0001 * 1.3 ** i:.6g}" for i in range(14)))  # takes some seconds


class FitNodes(nodes.Nodes):
    alone = {}  # weights by the arguments they were made with

    def pipeline(self, name, hog=""):
        text = nodes.STAGES % hog + "nodes: " + MORE_NODES[name].format(free_port(), free_port()) + "\n"
        return self.write(text, f"{name}.yaml")

    def train(self, pipeline, *arguments, data=None):
        done = call(nodes.command(pipeline, data or self.all, self.head, self.cache, *arguments))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["helpers"]

    def await_file(self, pattern, process, what):
        """Waits until a file is there that is not empty, or the process has ended."""
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            if any(path.stat().st_size for path in self.folder.glob(pattern)):
                return
            time.sleep(0.002)
        self.fail(f"{what}: {process.poll()}")

    def helpers(self, process):
        """The processes of nodes below those that the process has started, by their name."""
        found = {}
        for number in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            try:
                words = pathlib.Path(f"/proc/{number}/task/{number}/children").read_text().split()
                for child in words:
                    line = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")
                    if "--node" in line:
                        found[line[line.index("--node") + 1] + line[line.index("--replica") + 1]] = int(child)
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found

    def weights_alone(self, *arguments):
        """Of one process without nodes, made once."""
        if arguments not in self.alone:
            head = self.folder / "alone"
            call(nodes.command(self.write(nodes.STAGES % ""), self.all, head, self.cache, *arguments), check=True)
            self.alone[arguments] = (head / "weights.npy").read_bytes()
        return self.alone[arguments]

    def assert_weights(self, expected):
        self.assertEqual((self.head / "weights.npy").read_bytes(), expected)


class Same(FitNodes):
    def test_any_nodes(self):
        for name, processes in (("two", 1), ("three", 3), ("sockets", 1)):
            self.head = self.folder / f"{name}-head"
            told = self.train(self.pipeline(name), "--fit", "nodes", "--threads", "1")
            self.assertEqual(told["processes"], processes)
            self.assertGreater(told["share"], 0)
            self.assertGreaterEqual(told["evaluations"], 10)
            # The weights: 10 x 900 floats and 10 doubles, to each process; back comes at least one sum.
            self.assertLessEqual(told["sent_bytes"], processes * told["evaluations"] * (36000 + 80))
            self.assertGreaterEqual(told["received_bytes"], 8 * 9011)
            self.assert_as_alone(self.all)
            self.assert_nothing_left()

    def test_losses_and_doubles(self):
        for arguments in (("--model", "logistic"), ("--model", "squared-hinge"), ("--doubles",),
                          ("--class-weights", "balanced")):
            told = self.train(self.pipeline("two"), "--fit", "nodes", *arguments)
            self.assertGreater(told["share"], 0, arguments)
            self.assert_weights(self.weights_alone(*arguments))

    def test_at_home(self):
        for arguments, why in (((), "this process has the cores of all nodes"), (("--fit", "home"), "as --fit says"),
                               (("--model", "prototypes"), "only fits of softmax, logistic and squared-hinge")):
            told = self.train(self.pipeline("two"), *arguments, data=self.some)
            self.assertEqual((told["processes"], told["evaluations"]), (0, 0))
            self.assertIn(why, told["why_none"])

    def test_refused(self):
        done = call(nodes.command(self.pipeline("two"), self.some, self.head, self.cache, "--fit", "nodes", "--model",
                                  "perceptron"))
        self.assertEqual(done.returncode, 64)
        self.assertIn("--fit nodes: the nodes cannot help with this fit: only fits of softmax", done.stderr)
        self.assertFalse(self.head.exists())
        done = call(nodes.command(self.pipeline("two"), self.some, self.head, self.cache, "--fit", "there"))
        self.assertEqual(done.returncode, 64)
        self.assertIn('--fit takes nodes or home, not "there"', done.stderr)


class Killed(FitNodes):
    def test_a_node(self):
        """Every time that it is there again; it may not die five times in a minute."""
        pipeline = self.pipeline("two")
        expected = self.weights_alone(*LONG)
        process = start(nodes.command(pipeline, self.all, self.head, self.cache, *LONG, "--fit", "nodes", "--threads",
                                      "1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.await_file("cache/*/fit", process, "the rows are not there")
        killed, end = set(), time.monotonic() + PATIENCE
        while process.poll() is None and len(killed) < 4 and time.monotonic() < end:
            number = self.helpers(process).get("left0")
            if number and number not in killed:
                time.sleep(0.4)
                try:
                    os.kill(number, signal.SIGKILL)
                    killed.add(number)
                except ProcessLookupError:
                    pass
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.assertGreaterEqual(len(killed), 2, errors)
        self.assertIn("node left was ended by signal 9; it is started again", errors)
        self.assertGreater(json.loads(out)["helpers"]["share"], 0)
        self.assert_weights(expected)
        self.assert_nothing_left()

    def test_an_end_that_cannot_be_written(self):
        """The nodes are told the end by a file: where it cannot be made, as on a disk without room, they are ended."""
        process = start(nodes.command(self.pipeline("two"), self.all, self.head, self.cache, *LONG, "--fit", "nodes"),
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.await_file("cache/*/fit", process, "the rows are not there")
        (rows,) = self.folder.glob("cache/*/fit")
        rows.with_name("fit.part").mkdir()
        errors = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("fit cannot be written", errors)
        self.assert_weights(self.weights_alone(*LONG))

    def test_interrupted(self):
        process = start(nodes.command(self.pipeline("two"), self.all, self.head, self.cache, *LONG, "--fit", "nodes"),
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.await_file("cache/*/fit", process, "the rows are not there")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, told)
        self.assertFalse(self.head.exists())
        self.assert_nothing_left()
        self.assertTrue((self.folder / "head.state").exists())
        self.train(self.pipeline("three"), *LONG, "--fit", "nodes", "--resume")
        self.assert_weights(self.weights_alone(*LONG))


class ByHand(FitNodes):
    """Nodes that others start, as Slurm and Kubernetes do."""

    def logs(self):
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))

    def finish(self, home, others):
        out, _ = home.communicate(timeout=PATIENCE)
        self.assertEqual(home.returncode, 0, self.logs())
        for other in others:
            self.assertEqual(other.wait(timeout=PATIENCE), 0, self.logs())
        return json.loads(out)["helpers"]

    def test_keys(self):
        for name in ("left", "right"):
            call([nodes.MILLRACE, "keygen", name, "--output", self.folder], check=True)
        pipeline, audit = self.pipeline("keys"), self.folder / "audit"
        others = [self.start(pipeline, "left", "--audit", audit)]
        told = self.finish(self.start(pipeline, "right", "--fit", "nodes"), others)
        self.assertGreater(told["share"], 0)
        self.assert_as_alone(self.all)
        events = [json.loads(line) for line in audit.read_text().splitlines()]
        public = (self.folder / "right.pub").read_text().split('public-key = "')[1].split('"')[0]
        self.assertIn(public, {line.get("key") for line in events}, events)
        # The work is too little for others to be asked.
        others = [self.start(pipeline, "left", run="d4")]
        told = self.finish(self.start(pipeline, "right", run="d4"), others)
        self.assertEqual((told["processes"], told["why_none"]), (0, "there is less work than messages"))

    def test_home_is_killed(self):
        """Once in order, so that there is a state, and then in the fit that goes on from it."""
        pipeline = self.pipeline("two")
        expected = self.weights_alone(*LONG)
        arguments = (*LONG, "--fit", "nodes", "--resume")
        other = self.start(pipeline, "left", *arguments)
        home = self.start(pipeline, "right", *arguments)
        self.await_file("cache/*/fit", home, "the rows are not there")
        time.sleep(0.5)
        home.send_signal(signal.SIGINT)
        self.assertEqual(home.wait(timeout=PATIENCE), 130, self.logs())
        before = [path.stat().st_ino for path in self.folder.glob("cache/*/fit")]
        self.assertTrue((self.folder / "head.state").exists())
        home = self.start(pipeline, "right", *arguments)
        while home.poll() is None and [path.stat().st_ino for path in self.folder.glob("cache/*/fit")] == before:
            time.sleep(0.002)
        self.assertIsNone(home.poll(), self.logs())
        home.kill()
        home.wait()
        self.assertFalse(self.head.exists())
        self.assertIsNone(other.poll(), self.logs())
        told = self.finish(self.start(pipeline, "right", *arguments), [other])
        self.assertGreater(told["share"], 0)
        self.assert_weights(expected)

    def test_node_of_another_pipeline(self):
        """All vectors are there, so the nodes meet in the fit only. One says that it may not help, and the other goes
        on without it."""
        expected = self.weights_alone()
        pipeline = self.pipeline("two")
        changed = pathlib.Path(self.folder / "changed.yaml")
        changed.write_text(pathlib.Path(pipeline).read_text().replace("path: \"-\"", "path: other.jsonl"))
        other = self.start(changed, "left")
        home = self.start(pipeline, "right", "--fit", "nodes")
        out, _ = home.communicate(timeout=PATIENCE)
        self.assertEqual(home.returncode, 0, self.log("right0"))
        self.assertEqual(json.loads(out)["helpers"]["share"], 0)
        self.assert_weights(expected)
        self.assertEqual(other.wait(timeout=PATIENCE), 78)
        for log in ("left0", "right0"):
            self.assertRegex(self.log(log), r"whose bits might become others: .*pipeline \w+, .*pipeline \w+")

    def test_three(self):
        """Home takes the frames of one of them; the others help as well."""
        pipeline = self.pipeline("three")
        others = [self.start(pipeline, *which) for which in (("reader",), ("worker",))]
        others.append(self.start(pipeline, "worker", replica=1))
        home = self.start(pipeline, "center", "--fit", "nodes")
        told = self.finish(home, others)
        self.assertEqual(told["processes"], 3)
        self.assertGreater(told["share"], 0)
        self.assert_as_alone(self.all)


if __name__ == "__main__":
    main()
