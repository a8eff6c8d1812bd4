"""millrace train for a pipeline with nodes: vectors and weights must equal one process's to the last bit, with any
nodes, and whichever is killed; nodes that others start; and what is reported if it is impossible."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import digits
from harness import MILLRACE, Case, call, free_port, start

STAGES = """\
version: 1
pipeline: digits
sources:
  pictures: {uri: nowhere.png}
stages:
  decode: {input: pictures}
  hog: {input: decode, size: 24x24, block: 8x8, stride: 4x4, cell: 4x4, signed: true%s}
  classify: {input: hog, head: head%s}
  results: {type: jsonl, input: classify, path: "-"}
"""
# {0}, {1}: free ports
NODES = {
    "one": "{{all: {{stages: [decode, hog, classify, results]}}}}",
    "two": "{{left: {{stages: [decode, hog], listen: \"tcp://127.0.0.1:{0}\"}}, "
           "right: {{stages: [classify, results]}}}}",
    "three": "{{reader: {{stages: [decode], listen: \"tcp://127.0.0.1:{0}\"}}, "
             "worker: {{stages: [hog], replicas: 2, listen: \"tcp://127.0.0.1:{1}\"}}, "
             "center: {{stages: [classify, results]}}}}",
    # Vectors are collected where the classes would be.
    "moved": "{{reader: {{stages: [decode]}}, worker: {{stages: [hog, classify], replicas: 2}}, "
             "center: {{stages: [results]}}}}",
    # No single process follows classify.
    "homeless": "{{reader: {{stages: [decode]}}, worker: {{stages: [hog, classify, results], replicas: 2}}}}",
    "away": "{{reader: {{stages: [decode], listen: \"tcp://*:{0}\", address: \"tcp://192.0.2.7:{0}\", "
            "key: reader.key}}, "
            "center: {{stages: [hog, classify, results], key: center.key}}}}",
}
HOMELESS = ("--set", "stages.results={type: \"null\", input: classify}")  # several processes can share that
PATIENCE = 120
AT_ONCE = 4
KEPT = (".vectors", ".made")


def command(pipeline, data, head, cache, *arguments):
    return [MILLRACE, "train", pipeline, "--data", data, "--output", head, "--cache", cache, "--penalty", "0.0001",
            "--no-look-alikes", "--json", *arguments]


def made_in(cache, head):
    vectors, = cache.glob("*.vectors")
    return digits.by_content(vectors), (head / "weights.npy").read_bytes()


class Data:
    """Digit lists, and the vectors and weights that a pipeline without nodes gives for them. Made once."""
    made = None

    def __init__(self):
        kept = tempfile.TemporaryDirectory(prefix="millrace-")
        unittest.addModuleCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.digits = digits.cut()
        self.some, self.all = (digits.write_list(self.folder / f"{each}.csv", self.rows(each)) for each in (30, 120))
        self.alone = {data: self.train_alone(data) for data in (self.some, self.all)}

    def rows(self, each):
        rows = digits.files(self.digits, each)
        return [[path, label, "", part] for (path, label), part in zip(rows, digits.parts(len(rows)))]

    def train_alone(self, data):
        pipeline, cache, head = (self.folder / f"{data.stem}-{what}" for what in ("alone.yaml", "cache", "head"))
        pipeline.write_text(STAGES % ("", ""))
        call(command(pipeline, data, head, cache), check=True)
        return made_in(cache, head)


class Nodes(Case):
    @classmethod
    def setUpClass(cls):
        Data.made = Data.made or Data()
        cls.data, cls.some, cls.all = Data.made, Data.made.some, Data.made.all

    def setUp(self):
        super().setUp()
        self.head, self.cache = self.folder / "head", self.folder / "cache"

    def pipeline(self, name, hog="", classify=""):
        text = STAGES % (hog, classify) + "nodes: " + NODES[name].format(free_port(2), free_port(2)) + "\n"
        return self.write(text, f"{name}.yaml")

    def quick(self, name):
        """For processes that are killed: others get their frames after three silent heartbeats."""
        beat = ", cut: {heartbeat: 300ms}"
        return self.pipeline(name, beat if name == "three" else "", beat)

    def assert_as_alone(self, data):
        self.assertEqual(made_in(self.cache, self.head), self.data.alone[data])

    def assert_nothing_left(self):
        self.assertEqual([path.name for path in self.cache.iterdir() if path.suffix not in KEPT], [])

    def children(self, process):
        """The running node processes, by name."""
        found = {}
        for number in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            try:
                words = pathlib.Path(f"/proc/{number}/cmdline").read_text().split("\0")
            except FileNotFoundError:
                continue
            if "--node" in words:
                found[words[words.index("--node") + 1] + words[words.index("--replica") + 1]] = int(number)
        return found

    def await_vectors(self, process, count):
        """Waits until enough vectors have been collected, or the process has ended."""
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            if any(path.stat().st_size >= 64 + count * digits.RECORD.size for path in self.cache.glob("*.made")):
                return
            time.sleep(0.001)
        self.assertIsNone(process.poll(), "it had ended before")
        self.fail(f"{count} vectors have not come")

    def start(self, pipeline, node, *arguments, replica=0, data=None, run="a1"):
        """Starts one node, as Slurm and Kubernetes do; its errors go to NODE0.log."""
        errors = open(self.folder / f"{node}{replica}.log", "a")
        self.addCleanup(errors.close)
        process = start([*command(pipeline, data or self.all, self.head, self.cache), "--threads", "1", "--node", node,
                         "--replica", str(replica), *arguments], env={**os.environ, "MILLRACE_RUN": run},
                        stdout=subprocess.PIPE, stderr=errors, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()


class Same(Nodes):
    def test_any_nodes(self):
        for name in ("one", "two", "three", "moved"):
            audit = self.folder / f"{name}.audit"
            self.head, self.cache = self.folder / f"{name}-head", self.folder / f"{name}-cache"
            done = call(command(self.pipeline(name), self.some, self.head, self.cache, "--audit", audit))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["vectors"]["made"], 300)
            self.assert_as_alone(self.some)
            self.assert_nothing_left()
            # Each process reports what it did: the nodes' processes must have made the vectors.
            lines = [json.loads(line) for line in audit.read_text().splitlines()]
            frames = sorted(line["in"] for line in lines if line["event"] == "run ends")
            self.assertEqual(frames[-1], 300)
            self.assertEqual(len(frames), {"one": 1, "two": 2, "three": 4, "moved": 4}[name])
            joined = {(line["cut"], line["peer"]) for line in lines if line["event"] == "cut peer"}
            self.assertEqual(bool(joined), name != "one")

    def test_cuts_that_would_drop(self):
        """As live cuts do in service."""
        for name, cut in (("two", "live"), ("three", "{mode: live, window: 2}")):
            self.head, self.cache = self.folder / f"{name}-head", self.folder / f"{name}-cache"
            done = call(command(self.pipeline(name, hog=f", cut: {cut}"), self.all, self.head, self.cache))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_as_alone(self.all)

    def test_vectors_of_the_cache_start_no_node(self):
        pipeline = self.pipeline("three")
        call(command(pipeline, self.some, self.head, self.cache), check=True)
        audit = self.folder / "audit"
        done = call(command(pipeline, self.some, self.head, self.cache, "--audit", audit))
        self.assertEqual(json.loads(done.stdout)["vectors"]["made"], 0)
        self.assertFalse(audit.exists())

    def test_damaged_pictures(self):
        rows = self.data.rows(12)
        for i in (3, 50, 119):
            damaged = self.folder / f"damaged{i}.png"
            damaged.write_bytes(pathlib.Path(rows[i][0]).read_bytes()[:90 + i])
            rows[i][0] = damaged
        data = digits.write_list(self.folder / "damaged.csv", rows)
        done = call(command(self.pipeline("three"), data, self.head, self.cache))
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual({(pathlib.Path(row["file"]).name, row["reason"]) for row in told["left_out"]},
                         {(f"damaged{i}.png", "damaged") for i in (3, 50, 119)})
        self.assertEqual(told["vectors"]["rows"], 117)


    def test_videos(self):
        """Rows with ranges give several vectors each; home is killed after some have come."""
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=96x80:r=25:d=40", "-c:v", "libx264",
                        "-bf", "3", self.folder / "a.mp4"], check=True)
        names = ("path", "label", "start", "end", "split", "group")
        rows = [["a.mp4", "x", 1, 15, "train", "a"], ["a.mp4", "y", 17, "", "train", "a"],
                ["a.mp4", "x", 0, 1, "test", "b"], ["a.mp4", "y", 15, 17, "validation", "c"]]
        rows += [[row[0], "y", "", "", row[3], f"g{i}"] for i, row in enumerate(self.data.rows(2))]
        data = digits.write_list(self.folder / "videos.csv", rows, names)
        told = json.loads(call(command(self.pipeline("three"), data, self.head, self.cache, "--one-process"),
                               check=True).stdout)
        alone = (self.head / "weights.npy").read_bytes()
        self.assertEqual(told["vectors"]["made"], 40 * 25 + 20)
        self.head, self.cache = self.folder / "other-head", self.folder / "other"
        process = start(command(self.pipeline("three"), data, self.head, self.cache, "--threads", "1"),
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.kill)
        self.await_vectors(process, 100)
        os.kill(self.children(process)["center0"], signal.SIGKILL)
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(json.loads(out)["vectors"]["made"], told["vectors"]["made"])
        self.assertEqual((self.head / "weights.npy").read_bytes(), alone)


class Killed(Nodes):
    def test_each_node(self):
        """Half of the work remains when the first one dies."""
        errors = self.folder / "errors"
        with open(errors, "w") as stream:
            process = start(command(self.quick("three"), self.all, self.head, self.cache, "--threads", "1"),
                            stdout=subprocess.PIPE, stderr=stream, text=True)
        self.addCleanup(process.kill)
        killed = set()
        for count, name in ((100, "worker0"), (250, "center0"), (400, "reader0"), (550, "worker1"), (700, "center0")):
            self.await_vectors(process, count)
            number = self.children(process).get(name)
            if number:
                os.kill(number, signal.SIGKILL)
                killed.add(name)
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors.read_text())
        self.assertGreaterEqual(len(killed), 2, "they have ended too early")
        self.assertRegex(errors.read_text(), r"node \S+ was ended by signal 9; it is started again")
        self.assertEqual(json.loads(out)["vectors"]["made"], 1200)
        self.assert_as_alone(self.all)
        self.assert_nothing_left()

    def test_a_node_that_dies_again_and_again(self):
        process = start(command(self.quick("three"), self.all, self.head, self.cache),
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        told, end = "", time.monotonic() + PATIENCE
        last = None
        while process.poll() is None and time.monotonic() < end:
            number = self.children(process).get("center0")
            if number and number != last:
                os.kill(number, signal.SIGKILL)
                last = number
            time.sleep(0.005)
        _, told = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 70, told)
        self.assertIn("node center was ended by signal 9; it has died 5 times within a minute and is given up", told)
        self.assertFalse(self.head.exists())
        self.assert_nothing_left()

    def test_interrupted(self):
        process = start(command(self.quick("three"), self.all, self.head, self.cache, "--threads", "1"),
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.await_vectors(process, 50)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, told)
        self.assertIn("nothing was written; the same command with --resume continues", told)
        self.assertFalse(self.head.exists())
        self.assert_nothing_left()
        done = call(command(self.quick("two"), self.all, self.head, self.cache))
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)["vectors"]["made"]
        self.assertTrue(made <= 1150, made)
        self.assertEqual((self.head / "weights.npy").read_bytes(), self.data.alone[self.all][1])

    def test_killed(self):
        """Collected vectors must be kept, except a damaged one; the nodes end with the process that supervises them."""
        process = start(command(self.quick("three"), self.all, self.head, self.cache, "--threads", "1"),
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        self.await_vectors(process, 300)
        nodes = self.children(process)
        process.kill()
        process.wait()
        for number in nodes.values():
            while pathlib.Path(f"/proc/{number}").exists():
                time.sleep(0.01)
        vectors, = self.cache.glob("*.vectors")
        kept = len(digits.by_content(vectors)) - 1
        with open(vectors, "r+b") as file:
            file.seek(7 * 3600 + 1000)
            file.write(b"\1\2\3\4")
        done = call(command(self.quick("two"), self.all, self.head, self.cache))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the file was damaged", done.stderr)
        self.assertEqual(json.loads(done.stdout)["vectors"]["made"], 1200 - kept)
        self.assertEqual((self.head / "weights.npy").read_bytes(), self.data.alone[self.all][1])
        self.assert_nothing_left()


class ByHand(Nodes):
    """Nodes that others start, as Slurm and Kubernetes do."""

    def test_home_is_killed(self):
        pipeline = self.quick("three")
        others = [self.start(pipeline, node, replica=i) for node, i in (("reader", 0), ("worker", 0), ("worker", 1))]
        home = self.start(pipeline, "center")
        self.await_vectors(home, 300)
        home.kill()
        home.wait()
        self.assertFalse(self.head.exists())
        home = self.start(pipeline, "center")
        out, _ = home.communicate(timeout=PATIENCE)
        self.assertEqual(home.returncode, 0, self.log("center0"))
        for other in others:
            self.assertEqual(other.wait(timeout=PATIENCE), 0, self.log("reader0") + self.log("worker0"))
        self.assertLessEqual(json.loads(out)["vectors"]["made"], 900)
        self.assert_as_alone(self.all)
        self.assertEqual({(path.name, path.stat().st_size) for path in self.cache.glob("a1.nodes/*")},
                         {("data.jsonl", 0)})

        # If all vectors exist, the other nodes have nothing to do.
        others = [self.start(pipeline, node, replica=i, run="b2") for node, i in (("reader", 0), ("worker", 1))]
        home = self.start(pipeline, "center", run="b2")
        out, _ = home.communicate(timeout=PATIENCE)
        self.assertEqual(json.loads(out)["vectors"]["made"], 0)
        for other in others:
            self.assertEqual(other.wait(timeout=PATIENCE), 0)

    def test_home_is_killed_when_all_vectors_have_come(self):
        """Finished nodes must wait until home releases them, and serve it once more if it needs that."""
        pipeline = self.quick("two")
        other, home = (self.start(pipeline, node, data=self.some) for node in ("left", "right"))
        self.await_vectors(home, 300)
        home.kill()
        home.wait()
        home = self.start(pipeline, "right", data=self.some)
        home.communicate(timeout=PATIENCE)
        self.assertEqual((home.returncode, other.wait(timeout=PATIENCE)), (0, 0), self.log("left0"))
        self.assert_as_alone(self.some)

    def test_home_is_killed_in_the_fit(self):
        """The others have ended by then, and are no longer needed."""
        pipeline = self.quick("two")
        arguments = ("--model", "perceptron", "--hidden", "1024,1024")
        other, home = (self.start(pipeline, node, *arguments, data=self.some) for node in ("left", "right"))
        self.assertEqual(other.wait(timeout=PATIENCE), 0, self.log("left0"))
        self.assertIsNone(home.poll(), self.log("right0"))
        home.kill()
        home.wait()
        self.assertFalse(self.head.exists())
        home = self.start(pipeline, "right", data=self.some)
        told = json.loads(home.communicate(timeout=PATIENCE)[0])
        self.assertEqual((home.returncode, told["vectors"]["made"]), (0, 0), self.log("right0"))
        self.assert_as_alone(self.some)

    def test_home_that_cannot_train(self):
        """The others must not wait for a training that was refused."""
        pipeline = self.quick("two")
        one = digits.write_list(self.folder / "one.csv", self.data.rows(5)[:5])
        other = self.start(pipeline, "left", data=one)
        home = self.start(pipeline, "right", data=one)
        self.assertEqual(home.wait(timeout=PATIENCE), 65)
        self.assertIn('has one class, "0"', self.log("right0"))
        self.assertEqual(other.wait(timeout=PATIENCE), 0)

    def test_another_training_of_the_same_run(self):
        """The first one's nodes have ended: they must not be waited for."""
        pipeline = self.quick("two")
        rows = self.data.rows(30)
        rows[7][0] = self.folder / "damaged.png"
        rows[7][0].write_bytes(b"\x89PNG")
        data = digits.write_list(self.folder / "damaged.csv", rows)
        other, home = (self.start(pipeline, node, data=data) for node in ("left", "right"))
        out, _ = home.communicate(timeout=PATIENCE)
        self.assertEqual((home.returncode, other.wait(timeout=PATIENCE)), (0, 0), self.log("right0"))
        # From the same data nothing need be made, not even for the damaged file.
        again = self.start(pipeline, "right", data=data)
        told = json.loads(again.communicate(timeout=PATIENCE)[0])
        self.assertEqual((told["vectors"]["made"], len(told["left_out"])), (0, 1))
        more = self.start(pipeline, "right", data=self.all)
        self.assertEqual(more.wait(timeout=PATIENCE), 64, self.log("right0"))
        self.assertIn("takes another MILLRACE_RUN; `millrace deploy` writes one", self.log("right0"))
        other, home = (self.start(pipeline, node, data=self.all, run="b2") for node in ("left", "right"))
        out, _ = home.communicate(timeout=PATIENCE)
        self.assertEqual(json.loads(out)["vectors"]["made"], 901)
        self.assertEqual(other.wait(timeout=PATIENCE), 0)

    def test_home_that_is_not_there(self):
        other = self.start(self.quick("two"), "left")
        end = time.monotonic() + PATIENCE
        while "node right has not written" not in self.log("left0"):
            self.assertLess(time.monotonic(), end)
            self.assertIsNone(other.poll(), self.log("left0"))
            time.sleep(0.05)
        self.assertRegex(self.log("left0"), r"a1\.nodes/data\.jsonl yet, which all nodes must find: it is waited for")
        other.terminate()
        self.assertEqual(other.wait(timeout=PATIENCE), 128 + signal.SIGTERM)


class Refused(Nodes):
    def refused(self, name, words, code, *arguments):
        environment = {key: value for key, value in os.environ.items() if key != "MILLRACE_RUN"}
        done = subprocess.run(command(self.pipeline(name), self.some, self.head, self.cache, *arguments),
                              capture_output=True, text=True, env=environment, timeout=PATIENCE)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(done.stderr, words)
        self.assertFalse(self.head.exists())

    def test_words(self):
        self.refused("homeless", "node worker runs classify in 2 processes, and no node after it is a single one", 78,
                     *HOMELESS)
        self.refused("two", "MILLRACE_RUN: set it to the same number of 1 to 16 hexadecimal", 64, "--node", "left")
        self.refused("two", 'there is no node "middle"', 64, "--node", "middle")
        self.refused("two", "choose one", 64, "--node", "left", "--one-process")
        for name in ("reader", "center"):
            call([MILLRACE, "keygen", name, "--output", self.folder], check=True)
        self.refused("away", r"node reader is on another machine \(tcp://192\.0\.2\.7:\d+\): start each node where", 64)

    def test_all_in_one_process(self):
        done = call(command(self.pipeline("homeless"), self.some, self.head, self.cache, "--one-process",
                            *HOMELESS))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_as_alone(self.some)

    def test_no_nodes(self):
        done = call(command(self.write(STAGES % ("", "")), self.some, self.head, self.cache, "--node", "left"))
        self.assertEqual(done.returncode, 64)
        self.assertIn("has no nodes: --node is for one that has", done.stderr)
