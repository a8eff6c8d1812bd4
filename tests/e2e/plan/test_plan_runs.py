"""A run does what `millrace plan` printed: stages, threads, queues and memory."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest.mock

from harness import MILLRACE, MODELS, PATIENT, ROOT, TIMEOUT, Case, need_models, pipeline, start
from watched import children_of


def has_rows_of(sources, output):
    """Whether each source has given a row, in CSV or JSON."""
    text = output.read_text() if output.exists() else ""
    return all(re.search(rf'^({source},|\{{"source":"{source}",).*\n', text, re.MULTILINE) for source in sources)


def threads_of(process):
    return [(task / "comm").read_text().strip() for task in pathlib.Path(f"/proc/{process}/task").iterdir()]


class RunIsThePlan(Case):
    """The printed plan is what runs: in the process, and in the summary afterwards."""

    PATTERNS = pipeline(dict(a='uri: "lavfi:testsrc=size=320x240:rate=200:duration=3600", realtime: true',
                             b='uri: "lavfi:testsrc2=size=640x480:rate=200:duration=3600", realtime: true'), decode="",
                        top='http: {listen: "127.0.0.1:0"}\notlp: {endpoint: "http://127.0.0.1:9"}',
                        shrink="type: preprocess, size: 64x64, device: DEVICE",
                        gather="type: preprocess, input: decode, size: 96x96, queue: 3",
                        all='type: "null", input: [shrink, gather], queue: {size: 5, when_full: drop-oldest}',
                        results='type: csv, path: "${OUTPUT:--}"')

    SIZES = pipeline(dict(a='type: "null", rate: 200fps, frames: 720000, format: RGB24 640x480',
                          b='type: "null", rate: 200fps, frames: 720000, format: RGB24 640x480'),
                     shrink="type: preprocess, size: 64x64, device: DEVICE",
                     enlarge="type: preprocess, input: sources.*, size: 700x500",
                     all='type: "null", input: [shrink, enlarge], queue: 3', results='type: csv, path: "${OUTPUT:--}"')

    NODES = pipeline(
        dict(a='type: "null", rate: 200fps, frames: 720000, format: RGB24 640x480',
             b='type: "null", rate: 200fps, frames: 720000, format: RGB24 640x480'), name="nodes",
        shrink='type: preprocess, size: 64x64, device: "sim:0"', twice='type: "null", cut: {compress: lz4}',
        enlarge="type: preprocess, input: sources.*, size: 700x500, cut: {mode: live, window: 5}, queue: 3",
        all='type: "null", input: [twice, enlarge]', results='type: csv, path: "${OUTPUT:--}"',
        nodes=dict(camera="stages: shrink, sources: [a, b]", worker="stages: [twice, enlarge]",
                   center="stages: [all, results]"))

    def look_while_it_runs(self, command, sources, look):
        """Calls `look` when each source has given results, so that everything is open; then ends the process."""
        output = pathlib.Path(command[command.index("--output") + 1])
        output.unlink(missing_ok=True)
        process = start([*command, "--json", *PATIENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until and process.poll() is None and not has_rows_of(sources, output):
            time.sleep(0.01)
        names = look(process.pid)
        process.send_signal(signal.SIGINT)
        summary = json.loads(process.communicate(timeout=TIMEOUT)[0])
        self.assertEqual(process.returncode, 0)
        return names, summary

    def check(self, path, *arguments):
        words = [path, "--workers", "2", "--output", self.folder / "results", *arguments]
        planned = self.planned(*words)
        sources = [source["id"] for source in planned["sources"]]
        threads = planned["processes"][0]["threads"]
        names, summary = self.look_while_it_runs([MILLRACE, "run", *words], sources,
                                                 lambda process: self.named_threads(process, threads))
        self.check_threads(threads, names)
        self.check_stages(planned, summary)
        return planned, summary

    def named_threads(self, process, planned):
        """Until a thread has run for a moment, it has the name of the one that started it."""
        told = sum(thread["count"] for thread in planned if thread["name"] == "millrace")
        self.wait_until(lambda: threads_of(process).count("millrace") <= told)
        return threads_of(process)

    def check_threads(self, planned, names):
        self.assertEqual(sum(thread["count"] for thread in planned), len(names), (planned, names))
        for name in {thread["name"] for thread in planned} - {None}:
            told = sum(thread["count"] for thread in planned if thread["name"] == name)
            self.assertEqual(names.count(name), told, (planned, names))

    def check_stages(self, planned, summary):
        ran = {stage["id"]: stage for stage in summary["stages"]}
        vertices = planned["sources"] + planned["stages"] + planned["copies"]
        self.assertEqual(set(ran), {vertex["id"] for vertex in vertices})
        for stage in planned["stages"]:
            self.assertEqual(ran[stage["id"]]["device"], ", ".join(stage["devices"]))
            self.assertEqual(ran[stage["id"]]["instances"], len(stage["instances"]))
            self.assertLessEqual(ran[stage["id"]]["batch_peak"], max(stage["batch"], stage["gathers"] or 1))
            self.assertGreater(ran[stage["id"]]["in"], 0)
        for link in planned["links"]:
            self.assertLessEqual(ran[link["to"]]["queue_peak"], link["queue"], link)
            self.assertGreater(ran[link["to"]]["queue_peak"], 0, link)

    def check_memory(self, planned, summary):
        """Every size is known, so there is one bound."""
        bounds, held = planned["memory"], summary["buffers"]
        devices = {device["name"]: device["pools"] for device in planned["devices"]}
        for bound in (bounds["host"], bounds["pinned"], *devices.values()):
            self.assertFalse(bound["unknown"], planned["devices"])
        self.assertLessEqual(held["host_bytes"], bounds["host"]["bytes"])
        self.assertLessEqual(held["pinned_bytes"], bounds["pinned"]["bytes"])
        for device in held["devices"]:
            self.assertLessEqual(device["bytes"], devices[device["name"]]["bytes"])
            self.assertGreater(device["bytes"], 0)
        self.assertGreater(held["host_bytes"] + held["pinned_bytes"], 0)

    def test_memory(self):
        for device in ("cpu", "sim:0", "[sim:0, sim:1]"):
            with self.subTest(device):
                self.check_memory(*self.check(self.write(self.SIZES.replace("DEVICE", device))))

    def test_patterns(self):
        self.check_memory(*self.check(self.write(self.PATTERNS.replace("DEVICE", "cpu"))))

    def test_nodes(self):
        """Every process has the printed threads, and holds no more memory than printed."""
        path = self.write(self.NODES)
        words = [path, "--workers", "2", "--output", self.folder / "results"]
        planned = self.planned(*words)
        nodes = {process["name"]: process for process in planned["processes"]}
        threads, summary = self.look_while_it_runs([MILLRACE, "run", *words], ["a", "b"], lambda process: {
            node: self.named_threads(child, nodes[node]["threads"]) for node, child in children_of(process).items()})
        self.assertEqual(set(threads), set(nodes))
        ran = {node["node"]: node["summary"] for node in summary["nodes"]}
        for name, node in nodes.items():
            with self.subTest(name):
                # A supervised run also has the checkpoint thread.
                self.check_threads(node["threads"], [one for one in threads[name] if one != "mr-checkpoint"])
                self.assertFalse(any(bound["unknown"] for bound in node["memory"].values()), node["memory"])
                held = {kind: ran[name]["buffers"][f"{kind}_bytes"] for kind in ("host", "pinned", "shared")}
                held.update((device["name"], device["bytes"]) for device in ran[name]["buffers"]["devices"])
                for kind, bytes_held in held.items():
                    self.assertLessEqual(bytes_held, node["memory"][kind]["bytes"], kind)
        stages = {stage["id"]: stage for node in ran.values() for stage in node["stages"]}
        for link in planned["links"]:
            self.assertLessEqual(stages[link["to"]]["queue_peak"], link["queue"], link)
        self.assertEqual({(link["from"], link["to"]): link["when_full"] for link in planned["links"]
                          if "->worker" in link["to"]},
                         {("shrink->host", "shrink->worker"): "block", ("a", "a->worker"): "drop-oldest",
                          ("b", "b->worker"): "drop-oldest"})

    def test_on_a_simulated_device(self):
        self.check_memory(*self.check(self.write(self.PATTERNS.replace("DEVICE", "sim:0"))))

    def test_a_network_in_batches(self):
        need_models()
        self.enterContext(unittest.mock.patch.dict(os.environ, MODELS=str(MODELS)))
        settings = [f"sources.{source}.loop=true" for source in ("cockatoo", "short", "walkers")]
        settings.append("stages.features.batch.timeout=1h")
        planned, summary = self.check(ROOT / "pipelines/many-videos.yaml",
                                      *(word for one in settings for word in ("--set", one)))
        self.check_memory(planned, summary)
        (features,) = [stage for stage in summary["stages"] if stage["id"] == "features"]
        self.assertEqual(features["batch_peak"], 8)
