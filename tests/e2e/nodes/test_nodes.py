"""Nodes: one command starts a process for each and supervises them; others can start single nodes; a service manager
learns the state. The suites in tests/transport cover what goes between nodes."""
import concurrent.futures
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

import harness
from harness import MILLRACE, call, pipeline
from slurm import free_ports
from watched import PATIENCE, Watched, children_of, command_line, nodes_of

AT_ONCE = 4


# Two unrelated nodes.
def two(a, b, out):
    return pipeline(dict(a=f'type: "null", {a}', b=f'type: "null", {b}'), name="two",
                    one=f"type: jsonl, input: a, path: {out}", two='type: "null", input: b',
                    nodes=dict(left="stages: one", right="stages: two"))


# Three, so that the last one's frames have crossed two cuts.
def three(out, mode):
    return pipeline(dict(numbers='type: "null", rate: 1000'), name="three", top="workers: 1", first='type: "null"',
                    second='type: "null"', out=f"type: jsonl, path: {out}, cut: {mode}",
                    nodes=dict(camera="stages: first", worker="stages: second", center="stages: out"))


# Work that two processes share, and a node whose frames only another one of these three takes.
def shared(out, mode):
    cut = f"{{mode: {mode}, heartbeat: 300ms}}"
    return pipeline(dict(a='type: "null", rate: 500, frames: 2000', b='type: "null", rate: 500, frames: 2000'),
                    name="shared", top="workers: 1", first='type: "null", input: a', other='type: "null", input: b',
                    work=f'type: "null", input: first, cut: {cut}', out=f"type: jsonl, input: [work, other], "
                    f"cut: {cut}, path: {out}", nodes=dict(camera="stages: first", second="stages: other",
                                                           worker="stages: work, replicas: 2", center="stages: out"))


ROUND = pipeline(dict(a='type: "null", frames: 300, format: RGB24 64x48'), first="type: preprocess, size: 32x32",
                 there='type: "null"', both="type: join, join: {left: first, right: there}", out="type: jsonl",
                 nodes=dict(left="stages: [first, both, out]", right="stages: there"))


# Three nodes as on three machines: a port each, on all addresses.
def everywhere(out, camera, keys, worker):
    return pipeline(dict(numbers='type: "null", frames: 300'), name="everywhere", top="workers: 1",
                    first='type: "null"', second='type: "null"', out=f"type: jsonl, path: {out}",
                    nodes=dict(camera=f'stages: first, listen: "tcp://*:{camera}", key: {keys}/camera.key',
                               worker=f'stages: second, listen: "tcp://*:{worker}", key: {keys}/worker.key',
                               center=f"stages: out, key: {keys}/center.key"))


PICTURES = pipeline(dict(a='uri: "lavfi:testsrc=size=64x48:rate=25:duration=1"'), name="pictures", decode="", phash="",
                    out="type: jsonl", nodes=dict(near="stages: [decode]", far="stages: [phash, out]"))
# Paths that part and meet again over cuts. One goes through two processes, which take sources in different orders; from
# one source only every second picture comes. Decoder threads hold packets back.


class Nodes(Watched):
    def two(self, a="frames: 300", b="frames: 200", out="out.jsonl"):
        return self.write(two(a=a, b=b, out=self.folder / out))

    def three(self, mode="reliable"):
        return self.write(three(mode=mode, out=self.folder / "out.jsonl"))

    def test_all_nodes_in_one_table(self):
        run = self.run_pipeline(self.two(), rows=False)
        self.assert_balanced(run)
        self.assertEqual(run.ledger["in"], 500)
        nodes = nodes_of(run.out)
        self.assertEqual({name: (node["state"], node["restarts"], node["exit_code"]) for name, node in nodes.items()},
                         {"left": ("ended", 0, 0), "right": ("ended", 0, 0)})
        self.assertEqual(nodes["left"]["summary"]["ledger"]["in"], 300)
        self.assertEqual(nodes["right"]["summary"]["ledger"]["in"], 200)
        told = {name: ([source["id"] for source in node["summary"]["sources"]],
                       [stage["id"] for stage in node["summary"]["stages"]]) for name, node in nodes.items()}
        self.assertEqual(told, {"left": (["a"], ["a", "one"]), "right": (["b"], ["b", "two"])})
        self.assertEqual(len((self.folder / "out.jsonl").read_text().splitlines()), 300)

    def test_what_only_one_node_knows_of_a_source(self):
        """Only the node that opens the source knows the picture size before pictures come."""
        run = self.run_pipeline(PICTURES)
        self.assert_balanced(run)
        self.assertEqual([row["seq"] for row in run.rows], list(range(25)))

    def test_one_node_and_one_process(self):
        alone = self.run_pipeline(self.two(), "--node", "right", rows=False)
        self.assertEqual(alone.ledger["in"], 200)
        self.assertFalse((self.folder / "out.jsonl").exists())
        whole = self.run_pipeline(self.two(), "--one-process", rows=False)
        self.assertEqual(whole.ledger["in"], 500)
        self.assertNotIn("nodes", whole.summary)

    def test_what_comes_back_is_joined(self):
        """Local frames join with those from another node: each is one frame, and both nodes account for it."""
        run = self.run_pipeline(ROUND)
        self.assert_balanced(run)
        self.assertEqual([row["seq"] for row in run.rows], list(range(300)))
        self.assertEqual((run.ledger["in"], run.ledger["delivered"]), (300, 300))
        there = nodes_of(run.out)["right"]["summary"]["ledger"]
        self.assertEqual([there["in"], there["dropped"], there["in_flight"], there["balanced"]], [300, [], 0, True])
        ran = {name: {stage["id"] for stage in node["summary"]["stages"]} for name, node in nodes_of(run.out).items()}
        self.assertEqual(ran, {"left": {"a", "first", "first->right", "there->left:in", "both", "out"},
                               "right": {"first->right:in", "there", "there->left"}})
        counted = {cut["id"]: cut for node in nodes_of(run.out).values() for cut in node["summary"]["cuts"]}
        self.assertEqual(set(counted), {"first->right", "first->right:in", "there->left", "there->left:in"})
        for cut in counted.values():
            self.assertEqual((cut["frames"], cut["set_aside"], cut["malformed"], cut["rejected"], cut["refused"]),
                             (300, 0, 0, 0, 0), cut)
            self.assertGreaterEqual(cut["sessions"], 1, cut)

    def test_frames_come_back_to_a_node_of_their_way(self):
        text = ("version: 1\npipeline: p\nsources: {s: {type: 'null', frames: 20, format: 'RGB24 32x32'}}\nstages:\n"
                "  a: {type: 'null', input: s}\n  b: {type: 'null', input: a}\n  c: {type: 'null', input: b}\n"
                "  d: {type: 'null', input: c}\nnodes:\n  one: {stages: [a, c]}\n  two: {stages: [b, d]}\n")
        ran = self.millrace("run", self.write(text), "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(json.loads(ran.stdout)["ledger"]["delivered"], 20)

    def test_other_names_of_this_machine(self):
        for host, port in zip(("localhost", "127.0.0.2"), free_ports(2)):
            with self.subTest(host=host):
                run = self.run_pipeline(PICTURES.replace("near: {", f"near: {{listen: \"tcp://{host}:{port}\", "))
                self.assert_balanced(run)
                self.assertEqual(set(nodes_of(run.out)), {"near", "far"})
                self.assertEqual(len(run.rows), 25)

    def test_workers_that_poll(self):
        """Results are the same, and the plan says which processes keep a core busy."""
        polls = ROUND.replace("stages: there}", "stages: there, busy_poll: 0}")
        path = self.write(polls.replace("pipeline:", "busy_poll: 20ms\npipeline:"))
        run = self.run_pipeline(path)
        self.assert_balanced(run)
        self.assertEqual([row["seq"] for row in run.rows], list(range(300)))
        told = {one["name"]: one["busy_poll_ns"]
                for one in self.planned(path)["processes"]}
        self.assertEqual(told, {"left": 20_000_000, "right": 0})
        self.assertEqual(call([MILLRACE, "plan", path]).stdout.count("keeps a core busy for 20 ms"), 1)

    def test_ways_that_part_and_meet_again(self):
        """Every frame from every source finds a partner, however far the paths are out of step."""
        path = self.write(pipeline(dict(first='uri: "lavfi:testsrc=size=64x48:rate=25:duration=8"',
                                        second='uri: "lavfi:testsrc2=size=48x64:rate=25:duration=8"',
                                        third=f'uri: "{harness.SAMPLES}/realshort.mp4", every: 2',
                                        fourth='uri: "lavfi:testsrc=size=96x48:rate=25:duration=8", every: 3',
                                        fifth='uri: "lavfi:testsrc2=size=96x32:rate=25:duration=8"'), decode="",
                                   phash="", histogram="", sharpness="input: decode",
                                   both="type: join, join: {left: histogram, right: sharpness}",
                                   out=f"type: jsonl, tensors: true, path: {self.folder}/out.jsonl",
                                   nodes=dict(camera="stages: decode", left="stages: [phash, histogram], replicas: 2",
                                              right="stages: sharpness", center="stages: [both, out]")))
        whole = self.run_pipeline(path, "--one-process", "--output", self.folder / "whole.jsonl", rows=False)
        run = self.run_pipeline(path, rows=False)
        self.assert_balanced(run)
        self.assertEqual(run.ledger, {**whole.ledger, **{key: run.ledger[key] for key in
                                                         ("missing", "missing_frames", "absorbed")}})
        rows = sorted((self.folder / "out.jsonl").read_text().splitlines())
        self.assertEqual(rows, sorted((self.folder / "whole.jsonl").read_text().splitlines()))
        self.assertEqual(len(rows), 3 * 200 + 67 + 18)

    def test_whoever_reads_goes_away(self):
        """Nobody reads the output: all nodes end at once, silently, like other programs."""
        child = self.start(self.three(), "--output", "-", grace=())
        child.stdout.readline()
        child.stdout.close()
        err = child.stderr.read()
        self.assertEqual((child.wait(PATIENCE), err), (141, ""))

    def test_the_plan_says_which_keys_each_node_needs(self):
        text = everywhere(camera=7001, worker=7002, keys="keys", out="out.jsonl")
        path = self.write(text.replace("tcp://*", "tcp://192.0.2.1"))
        plan = self.planned(path)
        self.assertEqual([[key.rpartition("/")[2] for key in (one["key"], *one["public_keys"])]
                          for one in plan["processes"]],
                         [["camera.key", "worker.pub"], ["worker.key", "camera.pub", "center.pub"],
                          ["center.key", "worker.pub"]])
        text = call([MILLRACE, "plan", path, "--node", "center"]).stdout
        self.assertRegex(text, r"needs the public key \S*keys/worker.pub of\s+worker")

    def test_a_node_that_cannot_begin(self):
        """It could not start the next time either: the processes that wait for it are ended, and the exit code must
        say why."""
        folder = self.folder / "open"
        folder.mkdir()
        folder.chmod(0o755)
        listen = f'near: {{stages: [decode], listen: "ipc://{folder}/near"}}'
        run = self.run_pipeline(PICTURES.replace("near: {stages: [decode]}", listen), code=77)
        nodes = nodes_of(run.out)
        self.assertEqual([(nodes[name]["state"], nodes[name]["exit_code"]) for name in ("near", "far")],
                         [("given up", 77), ("ended", 0)])
        self.assertEqual(nodes["near"]["restarts"], 0)
        self.assertIn(f"others may enter {folder} (mode 755)", run.err)
        self.assertIn("all nodes that still run wait for one that has failed: ending", run.err)
        self.assertEqual(run.err.count("node near ended"), 1, run.err)

    def test_where_no_dead_letter_could_be_written(self):
        (self.folder / "letters").write_text("")
        run = self.run_pipeline(PICTURES.replace("input: decode", "input: decode, cut: {dead_letters: letters}", 1),
                                code=74)
        self.assertIn(f"cannot write dead letters to {self.folder}/letters", run.err)

    def test_where_nothing_temporary_can_be_written(self):
        """The temporary folder is read-only, as in some containers: a folder in memory replaces it."""
        pipeline = self.two()
        elsewhere = {"TMPDIR": "/proc", "MILLRACE_RUNTIME": "", "XDG_RUNTIME_DIR": ""}
        self.millrace("run", pipeline, "--quiet", environment=elsewhere)
        named = {"TMPDIR": "/proc", "MILLRACE_RUNTIME": str(self.folder / "runtime")}
        self.assertEqual(call([MILLRACE, "run", pipeline, "--quiet"], environment=named).returncode, 0)
        done = call([MILLRACE, "run", pipeline, "--quiet"], environment={"MILLRACE_RUNTIME": "/proc/none"})
        self.assertEqual(done.returncode, 74)
        self.assertIn("cannot make a folder in /proc/none", done.stderr)
        self.assertIn("name one that can be written by MILLRACE_RUNTIME=/its/path", done.stderr)

    def test_a_node_that_there_is_not(self):
        self.millrace("run", self.two(), "--node", "lift", code=64,
                      says=('there is no node "lift"', 'did you mean "left"?'))

    def test_launchers_say_which_node(self):
        path = self.two()
        for environment in ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "n[1-2]"},
                            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
                            {"PMI_RANK": "1", "PMI_SIZE": "2"},
                            {"MILLRACE_NODE": "right"}):
            with self.subTest(next(iter(environment))):
                done = self.millrace("run", path, "--json", environment=environment)
                self.assertEqual(json.loads(done.stdout)["ledger"]["in"], 200)
        self.millrace("run", path, code=64, says="3 processes were started, but the pipeline has 2",
                      environment={"SLURM_PROCID": "1", "SLURM_NTASKS": "3"})
        for environment, wrong in (({"SLURM_PROCID": "a", "SLURM_NTASKS": "2"}, 'SLURM_PROCID is "a"'),
                                   ({"MILLRACE_NODE": "right", "MILLRACE_REPLICA": "-1"}, 'MILLRACE_REPLICA is "-1"'),
                                   ({"PMI_RANK": "1", "PMI_SIZE": "two"}, 'PMI_SIZE is "two"')):
            self.millrace("run", path, code=64, says=f"{wrong} in the environment, not a number",
                          environment=environment)

    def test_launchers_say_where_the_others_are(self):
        """Nodes that listen everywhere, each started separately, as on three machines: they find each other by the
        given hosts, and admit only known keys."""
        for name in ("camera", "worker", "center"):
            self.assertEqual(call([MILLRACE, "keygen", name, "--output", self.folder / "keys"]).returncode, 0)
        hosts = {"MILLRACE_HOSTS": "127.0.0.1,localhost,127.0.0.1"}
        slurm = {"SLURM_NTASKS": "3", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "3"}
        for told in (lambda i, name: {"MILLRACE_NODE": name, **hosts},
                     lambda i, name: {"OMPI_COMM_WORLD_RANK": str(i), "OMPI_COMM_WORLD_SIZE": "3", **hosts},
                     lambda i, name: {"SLURM_PROCID": str(i), **slurm}):
            with self.subTest(next(iter(told(0, "camera")))):
                camera, worker = free_ports(2)
                path = self.write(everywhere(camera=camera, worker=worker, keys=self.folder / "keys",
                                             out=self.folder / "out.jsonl"))
                nodes = [self.start(path, "--json", env={**os.environ, **told(i, name)})
                         for i, name in enumerate(("camera", "worker", "center"))]
                for node in nodes:
                    out = self.ended(node)[0]
                    self.assertEqual(json.loads(out)["ledger"]["delivered"], 300)
                self.assertEqual(self.rows(), list(range(300)))

    def test_a_node_that_dies_is_started_again(self):
        child = self.start(self.two(a="rate: 500", b="rate: 500"), "--json")
        self.wait_for_rows(5)
        first = children_of(child.pid)["left"]
        os.kill(first, signal.SIGKILL)
        self.wait_until(lambda: children_of(child.pid).get("left", first) != first, "it is not started again")
        self.wait_for_rows(len(self.rows()) + 5)
        out, err = self.ended(child, signal.SIGTERM)
        self.assertIn("node left was ended by signal 9; it is started again", err)
        self.assertEqual({name: node["restarts"] for name, node in nodes_of(out).items()}, {"left": 1, "right": 0})

    def test_what_dies_goes_on_where_it_was(self):
        """In a reliable pipeline no record may be duplicated or missing, whichever node is killed."""
        child = self.start(self.three(), "--json")
        self.wait_for_rows(200)
        for name in ("center", "worker", "camera"):
            victim = children_of(child.pid)[name]
            os.kill(victim, signal.SIGKILL)
            self.wait_until(lambda: children_of(child.pid).get(name, victim) != victim, "it is not started again")
            self.wait_for_rows(len(self.rows()) + 200)
        out = self.ended(child, signal.SIGTERM)[0]
        ledger = json.loads(out)["ledger"]
        self.assertEqual(self.rows(), list(range(ledger["in"])))
        self.assertEqual({name: node["restarts"] for name, node in nodes_of(out).items()},
                         {"camera": 1, "worker": 1, "center": 1})
        self.assertTrue(ledger["balanced"])
        came, = [cut for cut in nodes_of(out)["worker"]["summary"]["cuts"] if cut["id"].endswith(":in")]
        self.assertGreaterEqual(came["sessions"], 2, "the camera was there twice")

    def test_results_on_standard_output(self):
        path = self.write(two(a="frames: 300", b="frames: 200", out='"-"'))
        done = self.millrace("run", path, "--quiet")
        self.assertEqual([json.loads(line)["seq"] for line in done.stdout.splitlines()], list(range(300)))

    def test_results_in_a_pipe_go_on(self):
        """A pipe cannot be read again; but a restarted node knows what was written, except one row in flight."""
        for text in (two(a="rate: 1000", b="rate: 500", out='"-"'), three(mode="reliable", out='"-"')):
            with self.subTest(text.splitlines()[1]):
                child, rows, kills = self.start(self.write(text), "--json"), [], 3
                reading = threading.Thread(target=lambda: rows.extend(map(json.loads, child.stdout)))
                reading.start()
                for kill in range(kills):
                    wanted = len(rows) + 100
                    self.wait_until(lambda: len(rows) >= wanted, "no results")
                    started = children_of(child.pid)
                    writer = "left" if "left" in started else "center"
                    os.kill(started[writer], signal.SIGKILL)
                    self.wait_until(lambda: children_of(child.pid).get(writer, started[writer]) != started[writer],
                                  "it is not started again")
                wanted = len(rows) + 100
                self.wait_until(lambda: len(rows) >= wanted, "no results")
                child.send_signal(signal.SIGTERM)
                child.wait(timeout=PATIENCE)
                reading.join()
                err = child.stderr.read()
                self.assertEqual(child.returncode, 0, err)
                self.assertNotIn("from the beginning", err)
                ledger = json.loads(next(line for line in err.splitlines() if line.startswith("{")))["ledger"]
                self.assertTrue(ledger["balanced"], ledger)
                seen = sorted(row["seq"] for row in rows)
                self.assertEqual(sorted(set(seen)), list(range(len(set(seen)))))
                self.assertLessEqual(len(seen) - len(set(seen)), kills)

    def test_what_a_live_cut_drops_is_counted(self):
        child = self.start(self.three(mode="live"), "--json")
        self.wait_for_rows(5)
        center = children_of(child.pid)["center"]
        os.kill(center, signal.SIGSTOP)
        self.ledger_of(child, lambda ledger: ledger["dropped"] > 0, "nothing is dropped")
        os.kill(center, signal.SIGKILL)
        self.wait_until(lambda: children_of(child.pid).get("center", center) != center, "it is not started again")
        self.wait_for_rows(len(self.rows()) + 5)
        out = self.ended(child, signal.SIGTERM)[0]
        ledger = json.loads(out)["ledger"]
        self.assertTrue(ledger["balanced"])
        self.assertEqual((ledger["in_flight"], ledger["missing_frames"], ledger["missing"]), (0, 0, []))
        self.assertEqual({line["stage"] for line in ledger["dropped"]}, {"second->center"})
        self.assertEqual(ledger["in"], ledger["delivered"] + sum(line["frames"] for line in ledger["dropped"]))

    def test_frames_that_are_lost_are_named(self):
        """Nobody can account for what is inside a killed source node that is not restarted."""
        child = self.start(self.three(), "--json", grace=("--grace", "12s"))
        self.wait_for_rows(5)
        started = children_of(child.pid)
        os.kill(started["center"], signal.SIGSTOP)
        self.ledger_of(child, lambda ledger: ledger["in flight"] >= 100, "nothing is in flight")
        os.kill(started["camera"], signal.SIGSTOP)
        child.send_signal(signal.SIGTERM)
        self.ledger_of(child, lambda ledger: True, "it does not answer")
        os.kill(started["camera"], signal.SIGKILL)
        os.kill(started["center"], signal.SIGCONT)
        out = self.ended(child, code=70)[0]
        ledger = json.loads(out)["ledger"]
        self.assertFalse(ledger["balanced"])
        self.assertGreaterEqual(ledger["missing_frames"], 100)
        self.assertEqual(ledger["missing_frames"], ledger["in"] - ledger["delivered"])
        first = ledger["missing"][0]
        self.assertEqual([(one["node"], one["source"], one["epoch"], one["sub"]) for one in ledger["missing"]],
                         16 * [("camera", "numbers", 0, 0)])
        self.assertEqual([one["seq"] for one in ledger["missing"]], list(range(first["seq"], first["seq"] + 16)))

    def test_a_node_that_cannot_run_is_given_up_and_others_go_on(self):
        with open(self.folder / "out.jsonl", "w") as taken:
            fcntl.flock(taken, fcntl.LOCK_EX)
            run = self.run_pipeline(self.two(b="frames: 5000, rate: 1000"), rows=False, code=74)
        nodes = nodes_of(run.out)
        self.assertEqual((nodes["left"]["state"], nodes["left"]["exit_code"]), ("given up", 74))
        self.assertEqual((nodes["right"]["state"], nodes["right"]["exit_code"]), ("ended", 0))
        self.assertEqual(nodes["right"]["summary"]["ledger"]["delivered"], 5000)
        self.assertIn("it has died 5 times within a minute and is given up", run.err)

    def kill_until_given_up(self, child, told, node, replica):
        killed = None

        def given_up():
            nonlocal killed
            victim = children_of(child.pid, replica).get(node)
            if victim and victim != killed:
                os.kill(killed := victim, signal.SIGKILL)
            return "is given up" in told.read_text()

        self.wait_until(given_up, told, child)

    def check_without(self, node, replica, mode):
        """Kills that process until it is given up. The others must end by themselves."""
        out = self.folder / f"{mode}-{node}.jsonl"
        told = out.with_suffix(".txt")
        with told.open("w") as errors:
            child = self.spawn([MILLRACE, "run", self.write(shared(out, mode), f"{mode}-{node}.yaml"), "--json"],
                               stdout=subprocess.PIPE, stderr=errors, text=True)
        self.kill_until_given_up(child, told, node, replica)
        summary = json.loads(child.stdout.read())
        self.assertEqual(child.wait(PATIENCE), 70, told.read_text())
        states = {(one["node"], str(one["replica"])): (one["state"], one["exit_code"]) for one in summary["nodes"]}
        self.assertEqual(states.pop((node, replica)), ("given up", 137))
        self.assertEqual(set(states.values()), {("ended", 0)}, states)
        rows = [(row["source"], row["seq"]) for row in harness.rows_in(out)]
        self.assertEqual(len(rows), len(set(rows)))
        if mode == "reliable":
            whole = ["a", "b"] if node == "worker" else ["a"]
            self.assertEqual(sorted(row for row in rows if row[0] in whole),
                             [(source, seq) for source in whole for seq in range(2000)])
            self.assertEqual(summary["ledger"]["dropped"], [])

    def test_what_is_given_up_is_not_waited_for(self):
        """One of two processes that share work: the other one does it. The only process of a node: the others end when
        they have nothing else to do."""
        cases = [(node, replica, mode) for node, replica in (("worker", "1"), ("second", "0"))
                 for mode in ("reliable", "live")]
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as threads:
            list(threads.map(lambda case: self.check_without(*case), cases))

    def test_both_signals_drain(self):
        for what in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(what.name):
                (self.folder / "out.jsonl").unlink(missing_ok=True)
                child = self.start(self.two(a="rate: 500", b="rate: 500"), "--json")
                self.wait_for_rows(5)
                out = self.ended(child, what)[0]
                ledger = json.loads(out)["ledger"]
                self.assertTrue(ledger["balanced"])
                self.assertEqual((ledger["in"], ledger["in_flight"]), (ledger["delivered"], 0))

    def test_asked_to_end_before_a_node_has_begun(self):
        """A node that was only just started dies from that, and is not restarted when everything is over."""
        child = self.start(self.write(PICTURES.replace("duration=1", "duration=100"), "slow.yaml"), "--grace", "2s")
        started = {}
        while "far" not in started:
            started = children_of(child.pid)
        os.kill(started["far"], signal.SIGSTOP)
        child.send_signal(signal.SIGTERM)
        self.wait_until(lambda: "near" not in children_of(child.pid), "near has not ended")
        waits = pathlib.Path(f"/proc/{started['far']}/status")
        self.wait_until(lambda: "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000" not in waits.read_text(),
                      "far was not asked to end")
        os.kill(started["far"], signal.SIGCONT)
        err = self.ended(child)[1]
        self.assertNotIn("started again", err)

    def test_children_end_with_who_started_them(self):
        child = self.start(self.two(a="rate: 500", b="rate: 500"))
        self.wait_for_rows(5)
        started = children_of(child.pid)
        self.assertEqual(sorted(started), ["left", "right"])
        child.kill()
        child.wait(timeout=PATIENCE)
        self.wait_until(lambda: not any("--node" in command_line(pid) for pid in started.values()), "they still run")

    def test_a_service_manager_is_told(self):
        for arguments in ([], ["--one-process"]):
            with self.subTest(arguments), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                path = self.folder / f"notify{len(arguments)}"
                manager.bind(str(path))
                manager.settimeout(PATIENCE)
                environment = {**os.environ, "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "400000"}
                child = self.start(self.two(a="rate: 500", b="rate: 500"), *arguments, env=environment)
                wanted = {"READY=1", "WATCHDOG=1", "STATUS="}
                while wanted:
                    told = manager.recv(4096).decode()
                    wanted = {one for one in wanted if not told.startswith(one)}
                child.send_signal(signal.SIGTERM)
                manager.settimeout(0.1)
                told, last, ended = set(), None, False
                while last or not ended:  # the last messages may still be unread when it has ended
                    ended = child.poll() is not None
                    try:
                        last = manager.recv(4096).decode()
                        told.add(last)
                    except TimeoutError:
                        last = None
                self.assertEqual(child.returncode, 0, child.stderr.read())
                if not arguments:
                    self.assertIn("STOPPING=1", told)
