"""A pipeline with three nodes under a real Slurm on this machine: plain `srun millrace run`, and the script from
`millrace deploy`. A process's Slurm task decides which node it runs."""
import json
import os
import pathlib
import re
import signal
import subprocess

import slurm
from harness import MILLRACE, TIMEOUT, pipeline
from slurm import FRAMES

AT_ONCE = 10


class Deployed(slurm.UnderSlurm):
    def assert_all_went_through(self, told):
        """`told` has each task's summary: the first reads, the others process; all account for everything."""
        for number, (summary, stage) in enumerate(zip(told, ("first", "second", "out"), strict=True)):
            ran = [one["id"] for one in summary["stages"] if "->" not in one["id"]]
            self.assertEqual(ran, ["numbers", stage] if number == 0 else [stage])
            self.assertEqual(summary["sources"][0]["elsewhere"], number > 0)
            self.assertEqual((summary["ledger"]["in"], summary["ledger"]["delivered"]), (FRAMES, FRAMES))
            self.assertTrue(summary["ledger"]["balanced"])
        rows = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]
        self.assertEqual([row["seq"] for row in rows], list(range(FRAMES)))

    def test_srun_runs_the_pipeline(self):
        """One task on each of three Slurm nodes; each writes to TASK-NODE.json."""
        self.call("srun", "--nodes=3", "--ntasks=3", f"--output={self.folder}/%t-%n.json", MILLRACE, "run",
                  self.pipeline(), "--json")
        written = sorted(self.folder.glob("*.json"))
        self.assertEqual([one.name for one in written], ["0-0.json", "1-1.json", "2-2.json"])
        self.assert_all_went_through([json.loads(one.read_text()) for one in written])

    def test_the_script_that_deploy_writes(self):
        done = self.millrace("deploy", self.pipeline(), "--target", "slurm", "--output", self.folder / "jobs")
        script = done.stdout.strip()
        self.complete(script)
        # A node that begins late is missed, which is only a warning.
        self.assertNotIn("error", (self.folder / "log").read_text())
        rows = [json.loads(line)["seq"] for line in (self.folder / "out.jsonl").read_text().splitlines()]
        self.assertEqual(rows, list(range(FRAMES)))

    def test_the_script_that_trains(self):
        """On three Slurm nodes; the weights equal one process's to the last bit."""
        data, (reader, worker) = self.folder / "data", slurm.free_ports(2)
        for label, picture in (("noise", "nullsrc=s=48x48,geq=random(1)*255:128:128"), ("test", "testsrc=s=48x48")):
            (data / label).mkdir(parents=True)
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", picture, "-frames:v", "30",
                            data / label / "%02d.png"], check=True)
        path = self.write(pipeline(
            dict(pictures="uri: none.png"), top="workers: 1", decode="",
            hog="size: 24x24, block: 8x8, stride: 4x4, cell: 4x4", classify="head: head", out='type: "null"',
            nodes=dict(reader=f'stages: decode, listen: "tcp://127.0.0.1:{reader}"',
                       worker=f'stages: hog, listen: "tcp://127.0.0.1:{worker}"', center="stages: [classify, out]")))
        options = ["--data", data, "--cache", self.folder / "cache", "--penalty", "1", "--validation", "0"]
        self.millrace("train", path, "--one-process", "--output", self.folder / "alone", *options[:2], "--cache",
                      self.folder / "other", *options[4:])
        done = self.millrace("deploy", path, "--target", "slurm", "--output", self.folder / "jobs", "--train", "--",
                             "--output", self.folder / "head", *options)
        script = done.stdout.strip()
        self.complete(script)
        self.assertIn("made in", (self.folder / "log").read_text())
        self.assertEqual(*((self.folder / head / "weights.npy").read_bytes() for head in ("alone", "head")))
        # Options after the script go to the command. The vectors come from the cache.
        self.complete(script, "--model", "logistic", "--resume")
        told = (self.folder / "log").read_text()
        self.assertRegex(told, r"model +logistic")
        self.assertIn("all from the cache", told)

    def deployed(self, pipeline, *arguments):
        done = self.millrace("deploy", pipeline, "--target", "slurm", "--output", self.folder / "jobs", *arguments)
        return done.stdout.strip()

    def submit(self, script, *arguments, **environment):
        """Submits a job and returns its number; output goes to `log`."""
        done = self.call("sbatch", "--parsable", f"--output={self.folder}/log", script, *arguments,
                         environment=environment)
        return done.stdout.strip().split(";")[0]

    def await_end(self, job):
        """The state in which the job ended."""
        def ended():
            state = re.search(r"JobState=(\w+)", self.call("scontrol", "show", "job", job).stdout)[1]
            return state not in ("PENDING", "RUNNING", "COMPLETING") and state

        return self.wait_until(ended, pause=0.1)

    def complete(self, script, *arguments, **environment):
        """Runs a job to its end. `sbatch --wait` would look every ten seconds."""
        state = self.await_end(self.submit(script, *arguments, **environment))
        self.assertEqual(state, "COMPLETED", (self.folder / "log").read_text())

    def test_a_task_that_is_killed_is_started_again(self):
        """The script restarts it: Slurm restarts no single task. No record may be lost or duplicated."""
        pipeline = self.pipeline(rate=200)
        job = self.submit(self.deployed(pipeline))
        self.await_rows(100)
        self.kill_task(pipeline, 1)
        self.assertEqual(self.await_end(job), "COMPLETED", (self.folder / "log").read_text())
        self.assertIn("task 1 was ended by signal 9: it is started again", (self.folder / "log").read_text())
        rows = [json.loads(line)["seq"] for line in (self.folder / "out.jsonl").read_text().splitlines()]
        self.assertEqual(rows, list(range(FRAMES)))
        self.assertEqual(list(self.folder.glob("*.state")), [])

    def test_a_task_that_fails_ends_the_job(self):
        """No other task may wait for it and hold the allocation."""
        pipeline = self.pipeline(rate=2000, frames=10**9)
        job = self.submit(self.deployed(pipeline, "--set", "stages.out.path=/dev/full", "--set",
                                        "stages.out.on_full=fail"))
        self.assertEqual(self.await_end(job), "FAILED")
        self.assertIn("ExitCode=74:0", self.call("scontrol", "show", "job", job).stdout)

    def test_another_job_goes_on_where_one_was_cancelled(self):
        pipeline, state = self.pipeline(rate=200), self.folder / "kept"
        script = self.deployed(pipeline)
        job = self.submit(script, MILLRACE_STATE=str(state))
        self.await_rows(100)
        self.call("scancel", "--signal=KILL", "--full", job)
        self.assertNotEqual(self.await_end(job), "COMPLETED")
        output = self.folder / "out.jsonl"
        self.assertLess(output.read_bytes().count(b"\n"), FRAMES)
        with output.open("r+b") as file:  # an existing row is not written again
            begin = file.read(40).replace(b'"pts":0', b'"pts":7')
            file.seek(0)
            file.write(begin)
        self.complete(script, MILLRACE_STATE=str(state))
        self.assertIn(b'"pts":7', output.read_bytes()[:40])
        rows = [json.loads(line)["seq"] for line in (self.folder / "out.jsonl").read_text().splitlines()]
        self.assertEqual(rows, list(range(FRAMES)))
        self.assertFalse(state.exists())

    def test_too_many_tasks(self):
        told = subprocess.run([slurm.find("srun"), "--ntasks=4", "--overcommit", MILLRACE, "run", self.pipeline()],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT,
                              env=self.cluster.environment)
        self.assertEqual(told.returncode, 64, told.stderr)
        self.assertIn("4 processes were started, but the pipeline has 3", told.stderr)

    def step(self, pipeline, node):
        """Starts a separate step for one node."""
        with open(self.folder / f"{node}.log", "a") as log:
            child = self.spawn([slurm.find("srun"), "--ntasks=1", "--overcommit", "--exact", MILLRACE, "run",
                                pipeline, "--node", node, "--json"], stdout=log, stderr=log,
                               env=self.cluster.environment)
        return child

    def kill_node(self, pipeline, node):
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if words[1:5] == ["run", str(pipeline), "--node", node]:
                os.kill(int(path.parent.name), signal.SIGKILL)

    def kill_and_start(self, victim):
        """Each node is a job. No record may be lost or duplicated, whichever is killed and started again."""
        pipeline = self.pipeline(rate=200)
        steps = {node: self.step(pipeline, node) for node in ("camera", "worker", "center")}
        self.await_rows(100)
        self.kill_node(pipeline, victim)
        self.assertNotEqual(steps[victim].wait(timeout=TIMEOUT), 0)
        steps[victim] = self.step(pipeline, victim)
        for node, child in steps.items():
            self.assertEqual(child.wait(timeout=TIMEOUT), 0, (self.folder / f"{node}.log").read_text())
        rows = [json.loads(line)["seq"] for line in (self.folder / "out.jsonl").read_text().splitlines()]
        self.assertEqual(rows, list(range(FRAMES)))

    def test_a_first_node_that_is_killed_and_started_again(self):
        self.kill_and_start("camera")

    def test_a_node_amid_others_that_is_killed_and_started_again(self):
        self.kill_and_start("worker")

    def test_a_last_node_that_is_killed_and_started_again(self):
        self.kill_and_start("center")
