"""`millrace submit`, `status` and `cancel`: with a real Slurm on this machine, with the real kubectl and a small API
server, and with programs that stand in for systemctl, and for sites that refuse, hang or print garbage."""
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import unittest

import slurm
from harness import MILLRACE, Case, pipeline, rows_in
from kubernetes_api import Api, condition, pod
from slurm import FRAMES

AT_ONCE = 10


class Submitting:
    """Mixed into a case. `environment` is that of all commands; submissions are remembered in the case's folder."""

    def site(self):
        return {"XDG_STATE_HOME": str(self.folder / "state")}

    def run_verb(self, *words, **options):
        return self.millrace(*words, environment=self.site(), cwd=self.folder, **options)

    def submit(self, path, target, *words, **options):
        """The id."""
        done = self.run_verb("submit", path, "--target", target, *words, **options)
        self.assertRegex(done.stdout, r"\A[a-z0-9-]+\n\Z")
        return done.stdout.strip()

    def status(self, name, *words, **options):
        done = self.run_verb("status", name, "--json", *words, **options)
        (one,) = json.loads(done.stdout)["submitted"]
        return one

    def kept(self):
        """The folders of what was submitted."""
        return sorted(path for path in (self.folder / "state/millrace/submitted").glob("*") if path.is_dir())


class UsingSlurm(Submitting, slurm.UnderSlurm):
    def site(self):
        return {**self.cluster.environment, **super().site()}

    def sequence(self):
        return [row["seq"] for row in rows_in(self.folder / "out.jsonl")]


class UnderSlurm(UsingSlurm):
    def test_until_the_end(self):
        name = self.submit(self.pipeline(), "slurm", "--wait", "--target-option", "time=10:00")
        self.assertEqual(self.sequence(), list(range(FRAMES)))
        one = self.status(name)
        self.assertEqual((one["state"], one["exit_code"], one["target"]), ("ended", 0, "slurm"))
        self.assertEqual([(process["node"], process["state"], process["exit_code"], process["restarts"])
                          for process in one["processes"]],
                         [(node, "ended", 0, 0) for node in ("camera", "worker", "center")])
        for process in one["processes"]:
            self.assertRegex(process["host"], r"^n[123]$")
        (folder,) = self.kept()
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE((folder / "three.sbatch").stat().st_mode), 0o600)
        # The job's files have the mode that the user's mask gives.
        self.assertEqual(stat.S_IMODE((self.folder / "out.jsonl").stat().st_mode) & 0o044, 0o044)
        self.assertFalse((folder / "checkpoints").exists())
        # By Slurm's number, without Slurm: the end is remembered.
        gone = {**super().site(), "SLURM_CONF": "/none"}
        told = self.millrace("status", one["site_id"], environment=gone).stdout
        self.assertRegex(told, rf"\A{name} \(slurm {one['site_id']}\): ended on n")
        self.assertRegex(told, r"\n  camera +0 +ended +n[123] +0 +0 +-\n")
        listed = self.run_verb("status").stdout
        self.assertRegex(listed, rf"\n  {name} +slurm {one['site_id']} +[-0-9: ]+ ended +0 +n")

    def test_a_pipeline_without_nodes(self):
        path = self.write(pipeline(dict(numbers='type: "null", frames: 7'), name="one",
                                   out=f'type: jsonl, path: "{self.folder}/out.jsonl"'))
        done = self.run_verb("submit", path, "--target", "slurm", "--wait", "--json")
        one = json.loads(done.stdout)
        self.assertEqual((one["state"], [process["node"] for process in one["processes"]]), ("ended", ["run"]))
        self.assertEqual(self.sequence(), list(range(7)))

    def test_from_within_a_job(self):
        """What Slurm has set for the job in which `submit` runs does not reach the new one: srun would refuse it, or
        bind all tasks to that job's cores."""
        outer = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "9", "SLURM_PROCID": "5", "SLURM_CPU_BIND": "mask_cpu:0x4000000",
                 "SLURM_MEM_PER_CPU": "7", "SLURM_MEM_PER_NODE": "8", "SLURM_RESTART_COUNT": "3"}
        path = self.write(pipeline(dict(numbers='type: "null", frames: 7'), name="inner",
                                   out=f'type: jsonl, path: "{self.folder}/out.jsonl"'))
        self.millrace("submit", path, "--target", "slurm", "--wait", environment={**self.site(), **outer})
        self.assertEqual(self.sequence(), list(range(7)))
        log = (self.kept()[0] / "log").read_text()
        self.assertNotIn("srun", log)

    def test_names_with_signs(self):
        """Folders, and the name of a job, as people give them."""
        where = {**self.site(), "XDG_STATE_HOME": str(self.folder / "st%x a|b's \"ü")}
        path = self.write(pipeline(dict(numbers='type: "null", frames: 7'), name="one",
                                   out=f'type: jsonl, path: "{self.folder}/out.jsonl"'), "my pipe's %j.yaml")
        named = "a|b JobState=FAILED ExitCode=9:0 Reason=x"
        done = self.millrace("submit", path, "--target", "slurm", "--wait", "--json", "--target-option",
                             f"job-name={named}", environment=where)
        one = json.loads(done.stdout)
        self.assertEqual((one["state"], one["exit_code"], one["reason"]), ("ended", 0, None))
        self.assertEqual([process["state"] for process in one["processes"]], ["ended"])
        self.assertEqual(self.sequence(), list(range(7)))
        self.assertEqual(len(list(self.folder.glob("st*/millrace/submitted/*/log"))), 1)
        where["XDG_STATE_HOME"] = str(self.folder / "a\\b")
        done = self.millrace("submit", path, "--target", "slurm", environment=where, code=64)
        self.assertIn("Slurm removes the \\ from the name of the log", done.stderr)

    def test_a_failure(self):
        """The exit code is the failed node's, and no other node waits for it."""
        path = self.pipeline(rate=2000, frames=10**9)
        name = self.submit(path, "slurm", "--wait", "--set", "stages.out.path=/dev/full", "--set",
                           "stages.out.on_full=fail", code=74)
        one = self.status(name)
        self.assertEqual((one["state"], one["exit_code"]), ("failed", 74))
        center = one["processes"][2]
        self.assertEqual((center["state"], center["exit_code"]), ("failed", 74))
        self.run_verb("status", name, "--wait", code=74)
        self.assertIn("No space left", (self.kept()[0] / "log").read_text())

    def test_a_task_that_dies(self):
        """It is started again, or ends the job, as asked for."""
        path = self.pipeline(rate=200)
        name = self.submit(path, "slurm")
        self.await_rows(100)
        self.kill_task(path, 1)
        one = self.status(name, "--wait")
        self.assertEqual([process["restarts"] for process in one["processes"]], [0, 1, 0])
        self.assertEqual(self.sequence(), list(range(FRAMES)))
        (self.folder / "out.jsonl").unlink()
        path = self.pipeline(rate=200, frames=10**9)
        name = self.submit(path, "slurm", "--on-death", "end")
        self.await_rows(100)
        self.kill_task(path, 1)
        one = self.status(name, "--wait", code=137)
        self.assertEqual((one["state"], one["processes"][1]["exit_code"]), ("failed", 137))

    def test_what_was_cancelled_continues(self):
        path = self.pipeline(rate=50)
        first = self.submit(path, "slurm")
        self.await_rows(50)
        self.run_verb("submit", path, "--target", "slurm", "--resume", first, code=64, says="is running")
        self.run_verb("cancel", first)
        self.run_verb("status", first, "--wait", code=75)
        before = len(self.sequence())
        self.assertLess(before, FRAMES)
        # What is refused leaves the checkpoints where they were.
        self.run_verb("submit", path, "--target", "slurm", "--resume", first, "--target-option", "partition=none",
                      code=64, says="invalid partition")
        self.run_verb("submit", path, "--target", "slurm", "--target-option", "partition", code=64,
                      says="if --partition needs a value")
        second = self.submit(path, "slurm", "--resume", first, "--wait")
        self.assertEqual(self.sequence(), list(range(FRAMES)))
        self.run_verb("submit", path, "--target", "slurm", "--resume", first, code=66, says="has no checkpoints")
        self.assertEqual([path.name for path in self.kept()], sorted([first, second]))

    def test_a_requeued_job_continues(self):
        name = self.submit(self.pipeline(rate=100), "slurm")
        number = self.status(name)["site_id"]
        self.await_rows(100)
        self.call("scontrol", "requeue", number)
        show = ("scontrol", "--oneliner", "show", "job", number)
        self.wait_until(lambda: re.search("JobState=PENDING.* Restarts=1", self.call(*show).stdout), pause=0.2)
        # Slurm starts it again after two minutes; a test need not wait so long.
        self.call("scontrol", "update", f"JobId={number}", "StartTime=now")
        self.run_verb("status", name, "--wait")
        self.assertEqual(self.sequence(), list(range(FRAMES)))

    def test_a_time_limit(self):
        """A minute before it, the frames in flight are delivered, and the checkpoints stay."""
        name = self.submit(self.pipeline(rate=50, frames=10**6), "slurm", "--target-option", "time=10")
        self.await_rows(50)
        # The limit comes nearer when all tasks handle signals.
        self.call("scontrol", "update", f"JobId={self.status(name)['site_id']}", "EndTime=now+60")
        self.assertEqual(self.status(name, "--wait")["state"], "ended")
        self.assertEqual(self.sequence(), list(range(len(self.sequence()))))
        self.assertTrue(list((self.kept()[0] / "checkpoints").glob("*.checkpoint")))


class Queue(UsingSlurm):
    """No job of another case may wait or run."""

    def drained(self, state):
        for node in ("n1", "n2", "n3"):
            self.call("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=test")

    def test_a_queue(self):
        """Drained machines take nothing: the reason is told, and a queued job can be cancelled."""
        self.drained("DRAIN")
        self.addCleanup(self.drained, "RESUME")
        name = self.submit(self.pipeline(), "slurm")
        one = self.wait_until(lambda: (one := self.status(name))["reason"] and one, pause=0.2)
        self.assertEqual((one["state"], one["hosts"]), ("queued", None))
        self.assertRegex(one["reason"], "DRAIN|Resources|ReqNodeNotAvail")
        self.run_verb("cancel", name, says=f"{name} is being ended")
        one = self.status(name, "--wait", code=75)
        self.assertEqual((one["state"], one["exit_code"]), ("cancelled", None))
        self.run_verb("cancel", one["site_id"], says=f"{name} is over: cancelled")
        self.assertFalse((self.folder / "out.jsonl").exists())


class StandIns(Submitting, Case):
    """Programs in the case's folder take the place of a site's."""

    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.path = self.write(pipeline(
            dict(numbers='type: "null", frames: 3'), name="three", first='type: "null"', second='type: "null"',
            out='type: "null"', nodes=dict(camera="stages: first", worker="stages: second, replicas: 2",
                                           center="stages: out")))

    def site(self):
        return {**super().site(), "PATH": f"{self.bin}:{os.environ['PATH']}", "CALLS": str(self.folder / "calls"),
                "REAL": shutil.which("systemctl") or ""}

    def stand_in(self, program, script):
        """It also notes its words, one line per call, with | between words."""
        path = self.bin / program
        path.write_text(f'#!/bin/bash\n(IFS="|"; echo "{program}|$*") >>"$CALLS"\n{script}\n')
        path.chmod(0o755)

    def calls(self):
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line.split("|") for line in lines]

    def pods(self):
        listen = 'listen: "tcp://*:700{}", key: keys/k.key'
        return self.write(pipeline(
            dict(numbers='type: "null", frames: 3'), name="three", first='type: "null"', second='type: "null"',
            out='type: "null"', nodes=dict(camera=f"stages: first, {listen.format(1)}",
                                           my_Worker=f"stages: second, replicas: 2, {listen.format(5)}",
                                           center="stages: out, key: keys/k.key")), "pods.yaml")


class Refusals(StandIns):
    def test_arguments(self):
        for words, code, why in (
                ((), 64, "name a pipeline"), ((self.path,), 64, "--target"),
                ((self.path, "--target", "pbs"), 64, "--target takes slurm, kubernetes or systemd"),
                (("none.yaml", "--target", "slurm"), 66, "none.yaml"),
                ((self.path, "--target", "kubernetes", "--on-death", "end"), 64, "--on-death end is for"),
                ((self.path, "--target", "systemd", "--resume", "x"), 64, "--resume is for a run under Slurm"),
                ((self.path, "--target", "slurm", "--dry-run", "--wait"), 64, "--dry-run hands over nothing"),
                ((self.path, "--target", "slurm", "--set", "stages.out.path=x"), 78, "path"),
                ((self.path, "--target", "slurm", "--resume", "none-0000"), 66, "nothing of yours was submitted"),
                *(((self.path, "--target", "slurm", "--target-option", wrong), 64, "--target-option")
                  for wrong in ("", "-p", "--time=1", "a b", "x;y", "time 1", "=x", "comment=a\nb", "wrap=x",
                                "array=1-3")),
                *(((self.path, "--target", "kubernetes", "--target-option", wrong), 64, "--target-option")
                  for wrong in ("token=x", "filename=x", "dry-run")),
                ((self.path, "--target", "systemd", "--target-option", "root=/x"), 64, "--target-option root"),
                ((self.path, "--target", "slurm", "--set", "sources.numbers.uri=rtsp://me:word@camera/1"), 78, "uri")):
            with self.subTest(words):
                done = self.run_verb("submit", *words, code=code)
                self.assertIn(why, done.stderr)
                self.assertEqual(done.stdout, "")
        self.assertEqual(self.kept(), [])
        self.assertEqual(self.run_verb("status").stdout, "nothing was submitted\n")
        self.run_verb("status", "--wait", code=64, says="--wait takes the id")
        self.run_verb("status", "a", "b", code=64)
        self.run_verb("submit", self.path, "--partition", "x", code=64, says="--target-option KEY=VALUE")
        self.run_verb("submit", self.path, "-o", "x", code=64, says="--set stages.ID.path=FILE")
        self.run_verb("status", "none", code=66, says='submitted as "none"')
        self.run_verb("cancel", code=64)
        self.run_verb("cancel", "none", code=66)

    def test_secrets_are_not_handed_over(self):
        self.stand_in("sbatch", "echo 7")
        path = self.write(pipeline(dict(camera='uri: "${CAMERA}"'), decode="", out='type: "null"', name="p"), "p.yaml")
        where = {**self.site(), "CAMERA": "rtsp://me:secret@camera/1"}
        done = self.millrace("submit", path, "--target", "slurm", "--dry-run", environment=where)
        self.assertNotIn("secret", done.stdout)
        done = self.millrace("submit", path, "--target", "systemd", "--dry-run", environment=where)
        self.assertNotIn("secret", done.stdout)
        self.assertIn("EnvironmentFile=", done.stdout)
        for secret in (where["CAMERA"], "rtsp://me:secret@${HOST}/1", "rtsp://me:secret${HOST}@camera/1",
                       "rtsp://me:${WORD:-secret}@camera/1",
                       "rtsp://${HOST:-me:secret@camera}/1"):
            done = self.run_verb("submit", path, "--target", "slurm", "--input", secret, code=64,
                                 says="--input has a user or a password")
            self.assertNotIn("secret", done.stderr)
        for harmless in ("rtsp://me:${PASSWORD}@camera/1", "rtsp://${USER_AND_PASSWORD}@camera/1",
                         "rtsp://${ME}:${PASSWORD:?needed}@${HOST}/1"):
            done = self.millrace("submit", path, "--target", "slurm", "--dry-run", "--input", harmless,
                                 environment={**where, "ME": "me", "PASSWORD": "x", "USER_AND_PASSWORD": "me:x",
                                              "HOST": "camera"})
            self.assertNotIn("has a user or a password", done.stderr)
        self.assertEqual(self.calls(), [])

    def test_words_reach_the_program_whole(self):
        """No shell reads them, and what comes last wins."""
        self.stand_in("sbatch", "echo 4711")
        self.stand_in("scontrol", "echo $'JobId=4711\\n JobState=PENDING Reason=Priority ExitCode=0:0 NodeList='")
        done = self.run_verb("submit", self.path, "--target", "slurm", "--target-option", "comment=a $(touch x) 'b' %j",
                             "--target-option", "exclusive", "--target-option", "clusters=two")
        name = done.stdout.strip()
        self.assertEqual(done.stderr, "4711: queued: Priority\n")
        folder = self.folder / "state/millrace/submitted" / name
        first, second = self.calls()
        self.assertEqual(first, ["sbatch", "--parsable", "--open-mode=append", f"--output={folder}/log",
                                 "--comment=a $(touch x) 'b' %j", "--exclusive", "--clusters=two",
                                 f"{folder}/three.sbatch"])
        self.assertEqual(second, ["scontrol", "--clusters=two", "show", "job", "4711"])
        self.assertFalse((self.folder / "x").exists())

    def interrupted(self, program, answer, *words):
        """A call that is asked to end while the site's program works; that one then ends well."""
        began, go = self.folder / f"{program}-began", self.folder / f"{program}-go"
        self.stand_in(program, f"touch {began}; until [ -e {go} ]; do sleep 0.02; done; {answer}")
        child = self.spawn([MILLRACE, *words], env={**os.environ, **self.site()}, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
        self.wait_until(began.exists, running=child)
        child.send_signal(signal.SIGTERM)
        go.touch()
        self.ended(child, code=-signal.SIGTERM)
        [folder] = self.kept()
        self.assertEqual([path.name for path in folder.iterdir() if path.suffix in (".part", ".lock")], [])
        return json.loads((folder / "record.json").read_text())

    def test_a_signal_while_the_site_is_asked(self):
        """The record has what the site did."""
        self.stand_in("scontrol", "echo 'JobId=4711 JobState=PENDING Reason=Priority ExitCode=0:0 NodeList='")
        record = self.interrupted("sbatch", "echo 4711", "submit", self.path, "--target", "slurm")
        self.assertEqual((record["site_id"], record["cancelled"]), ("4711", False))
        record = self.interrupted("scancel", "exit 1", "cancel", "4711")
        self.assertEqual((record["site_id"], record["cancelled"]), ("4711", False))

    def test_sites_that_refuse_or_babble(self):
        for script, code, why in (
                ("echo 'error: Invalid account' >&2; exit 1", 64, "exit code 1: error: Invalid account"),
                ("echo 'Access/permission denied' >&2; exit 1", 77, "Access/permission denied"),
                ("echo 'Unable to contact slurm controller' >&2; exit 1", 69, "Unable to contact"),
                ("exit 3", 69, "exit code 3: it prints no reason"),
                ("echo -e 'what\\x1b[2J\\nnow' >&2; exit 1", 69, "what\\x1b[2J now")):
            with self.subTest(script):
                self.stand_in("sbatch", script)
                self.run_verb("submit", self.path, "--target", "slurm", code=code, says=why)
                self.assertEqual(self.kept(), [])
        # sbatch may have put a job into the queue.
        for script, code, why in (
                ("kill -9 $$", 69, "exit code 137"),
                ("echo garbage", 76, "prints no job's number, but: garbage"),
                ("echo '12 34'", 76, "prints no job's number"),
                ("yes | head -c 70000000", 76, "sbatch prints more than")):
            with self.subTest(script):
                self.stand_in("sbatch", script)
                before = self.kept()
                done = self.run_verb("submit", self.path, "--target", "slurm", code=code, says=[why, "; it may run"])
                (folder,) = set(self.kept()) - set(before)
                self.assertIn(f"see `millrace status {folder.name}`", done.stderr)
                one = self.status(folder.name)
                self.assertEqual((one["state"], "squeue --me" in one["reason"]), ("unknown", True))
        for target, program, package in (("slurm", "sbatch", "slurm-client"), ("kubernetes", "kubectl", "kubectl"),
                                         ("systemd", "systemctl", "systemd")):
            path = self.path if target != "kubernetes" else self.pods()
            where = {**self.site(), "PATH": "/none"}
            self.millrace("submit", path, "--target", target, code=69, environment=where,
                          says=[f"there is no program {program} here: install", package])

    def test_jobs_that_slurm_forgets(self):
        """It is asked for its accounts, which it need not keep."""
        self.stand_in("sbatch", "echo 5")
        self.stand_in("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
        self.stand_in("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
        name = self.submit(self.path, "slurm")
        self.assertEqual(self.status(name)["state"], "unknown")
        self.run_verb("status", name, "--wait", code=69, says="keeps no accounts")
        self.stand_in("sacct", "echo 'Unable to contact slurmdbd' >&2; exit 1")
        self.run_verb("status", name, code=69, says="Unable to contact slurmdbd")
        for line, state, code in (("CANCELLED by 1000|0:15|n1|None", "cancelled", None),
                                  ("TIMEOUT|0:0|n1|None", "failed", None),
                                  ("FAILED|74:0|n[1-3]|None", "failed", 74),
                                  ("OUT_OF_MEMORY|0:9|n1|None", "failed", 137),
                                  ("COMPLETED|0:0|n2|None", "ended", 0)):
            self.stand_in("sacct", f"echo '{line}'")
            name = self.submit(self.path, "slurm")
            one = self.status(name)
            self.assertEqual((one["state"], one["exit_code"], one["hosts"]), (state, code, line.split("|")[2]), line)

    def change(self, name, **fields):
        """Changes a record."""
        path = self.folder / "state/millrace/submitted" / name / "record.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    def test_what_has_ended_is_forgotten_after_a_month(self):
        """A month after the end. What Slurm does not know may have ended just now."""
        month = 31 * 24 * 3600 * 10**9
        self.stand_in("sbatch", "echo 5")
        self.stand_in("scontrol", "echo $'JobId=5\\n JobState=FAILED Reason=None ExitCode=74:0 NodeList=n1'")
        recent, old, resumed = (self.submit(self.path, "slurm") for _ in range(3))
        now = self.status(recent)["ended_ns"]
        self.assertGreater(now, self.status(recent)["submitted_ns"])
        self.change(recent, submitted_ns=now - 2 * month)
        for name in (old, resumed):
            self.change(name, submitted_ns=now - 2 * month, ended_ns=now - month)
        (self.folder / "state/millrace/submitted" / resumed / "checkpoints").mkdir()
        self.stand_in("scontrol", "echo 'Invalid job id specified' >&2; exit 1")
        self.stand_in("sacct", "exit 0")
        lost = self.submit(self.path, "slurm", "--resume", resumed)
        self.assertEqual([path.name for path in self.kept()], sorted([recent, resumed, lost]))
        self.assertTrue((self.folder / "state/millrace/submitted" / lost / "checkpoints").is_dir())
        self.change(lost, submitted_ns=now - 2 * month)
        self.submit(self.path, "slurm")
        self.assertGreaterEqual(self.status(lost)["ended_ns"], now)
        self.change(lost, ended_ns=now - month)
        self.submit(self.path, "slurm")
        self.run_verb("status", lost, code=66)

    def test_one_site_that_does_not_answer(self):
        """Others with another context are asked."""
        self.stand_in("kubectl", """case "$*" in *dead*) [ $1 = apply ] || { echo 'no route' >&2; exit 1; };; esac
            [ $1 = get ] && echo '{"items": []}'; exit 0""")
        dead = [self.submit(self.pods(), "kubernetes", "--target-option", "context=dead", "--set", f"pipeline=p{i}")
                for i in range(2)]
        alive = self.submit(self.pods(), "kubernetes", "--target-option", "context=alive", "--set", "pipeline=p0")
        self.calls()
        done = self.run_verb("status", "--json", code=69, says="no route")
        self.assertEqual({one["id"]: one["state"] for one in json.loads(done.stdout)["submitted"]},
                         {**{name: "queued" for name in dead}, alive: "unknown"})
        self.assertEqual([words[2] for words in self.calls()], ["--context=dead", "--context=alive"])

    def test_cancelled_beside_a_wait(self):
        """The site forgets it before `cancel` returns: that is no failure for others that wait."""
        self.stand_in("sbatch", "echo 5")
        self.stand_in("scontrol", """[ -e "$CALLS.gone" ] && { echo 'Invalid job id specified' >&2; exit 1; }
            echo $'JobId=5\n JobState=RUNNING Reason=None ExitCode=0:0 NodeList=n1'""")
        self.stand_in("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
        self.stand_in("scancel", 'touch "$CALLS.gone"; sleep 2')
        name = self.submit(self.path, "slurm")
        process = subprocess.Popen([MILLRACE, "status", name, "--wait", "--json"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, env={**os.environ, **self.site()})
        self.addCleanup(process.kill)
        self.wait_until(lambda: sum(words[0] == "scontrol" for words in self.calls()))
        self.run_verb("cancel", name)
        out, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, json.loads(out)["submitted"][0]["state"]), (75, "cancelled"))
        self.assertEqual(self.status(name)["state"], "cancelled")

    def test_another_submit_is_waited_for(self):
        self.stand_in("sbatch", "echo 5")
        self.stand_in("scontrol", "echo $'JobId=5\\n JobState=RUNNING Reason=None ExitCode=0:0 NodeList=n1'")
        self.submit(self.path, "slurm")
        lock, errors = self.folder / "state/millrace/submitted/all.lock", self.folder / "err"
        with open(lock, "w") as held, open(errors, "w") as err:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = subprocess.Popen([MILLRACE, "submit", self.path, "--target", "slurm"], stderr=err,
                                       stdout=subprocess.DEVNULL, env={**os.environ, **self.site()})
            self.addCleanup(process.kill)
            self.wait_until(lambda: "waits for another `millrace submit`" in errors.read_text())
        self.assertEqual(process.wait(), 0)

    def test_records_that_are_broken(self):
        """One is a warning; the others are listed."""
        self.stand_in("sbatch", "echo 5")
        self.stand_in("scontrol", "echo $'JobId=4711\\n JobState=RUNNING Reason=None ExitCode=0:0 NodeList=n1'")
        bad, good = self.submit(self.path, "slurm"), self.submit(self.path, "slurm")
        whole = json.loads((self.folder / "state/millrace/submitted" / bad / "record.json").read_text())
        parts = [json.dumps({**whole, "target": "systemd", **part}) for part in (
            {"files": []}, {"files": ["three.target"]}, {"files": ["/x/three.target", ""]}, {"processes": []})]
        for text in ("{", "[]", '{"target": "slurm"}', "[" * 100000, *parts):
            (self.folder / "state/millrace/submitted" / bad / "record.json").write_text(text)
            done = self.run_verb("status", "--json")
            self.assertIn("warning", done.stderr)
            self.assertEqual([one["id"] for one in json.loads(done.stdout)["submitted"]], [good])
            self.run_verb("cancel", bad, code=66, says=f'submitted as "{bad}"')

    def test_records_that_cannot_be_written(self):
        """What the site says is shown."""
        self.stand_in("sbatch", "echo 5")
        self.stand_in("scontrol", "echo $'JobId=4711\\n JobState=RUNNING Reason=None ExitCode=0:0 NodeList=n1'")
        self.stand_in("scancel", "exit 0")
        name = self.submit(self.path, "slurm")
        (self.kept()[0] / "record.json.lock").mkdir()
        self.run_verb("cancel", name, code=74, says=[f"{name} is being ended", "record.json.lock"])
        self.stand_in("scontrol", "echo $'JobId=4711\\n JobState=FAILED Reason=None ExitCode=74:0 NodeList=n1'")
        self.assertEqual(self.status(name, says=f"the end of {name} is not kept")["exit_code"], 74)
        self.run_verb("status", name, "--wait", code=74, says="is not kept")

    def test_a_job_without_a_record_is_ended(self):
        """Nobody would find it. What cannot be ended is named."""
        self.stand_in("sbatch", 'record="$(dirname "${@: -1}")/record.json"; rm "$record"; mkdir "$record"; echo 4711')
        self.stand_in("scancel", "exit 0")
        self.run_verb("submit", self.path, "--target", "slurm", code=74, says="record.json")
        self.assertEqual([words[0] for words in self.calls()], ["sbatch", "scancel"])
        self.stand_in("scancel", "echo 'no controller' >&2; exit 1")
        self.run_verb("submit", self.path, "--target", "slurm", code=74,
                      says=["record.json", "4711 may be left at the site", "no controller",
                            "it may run, with the folder"])
        (folder,) = self.kept()
        self.assertTrue((folder / "three.sbatch").exists())

    # It shows a file for each unit. The real one, if it is here, makes and removes links below a folder.
    SYSTEMCTL = """
units="$CALLS.units"; root="$CALLS.root"; mkdir -p "$units" "$root"
while [[ $1 == --* ]]; do shift; done
verb=$1; shift
case $verb in
link)
    for one in "${@:2}"; do test -f "$one" && mkdir -p "$root$(dirname "$one")" && cp "$one" "$root$one" || exit 1; done
    [ -z "$REAL" ] || "$REAL" --root="$root" link "$@" ;;
disable) [ -z "$REAL" ] || "$REAL" --root="$root" disable "$@" ;;
show)
    for one in "${@:2}"; do cat "$units/$one" 2>/dev/null || echo LoadState=not-found; echo; done ;;
esac
"""

    def links(self):
        """What the real systemctl has linked."""
        return sorted(path.name for path in (self.folder / "calls.root/run/systemd/system").glob("*"))

    def systemd_shows(self, **units):
        """The state of each unit of the pipeline, by node."""
        folder = self.folder / "calls.units"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for unit in ("camera.service", "worker@0.service", "worker@1.service", "center.service"):
            (folder / f"three-{unit}").write_text(units.get(unit.split(".")[0].replace("@", ""), units["other"]))

    RUNNING = ("LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0\nExecMainCode=0\n"
               "ExecMainStatus=0\nExecMainStartTimestampMonotonic=5\nStatusText=3 frames\n")
    ENDED = RUNNING.replace("active\n", "inactive\n", 1).replace("=running", "=dead").replace("Code=0", "Code=1")
    FAILED = ENDED.replace("inactive", "failed").replace("success", "exit-code").replace("Status=0", "Status=74")

    def test_systemd(self):
        """A stand-in: where tests run, systemd is not the first process, so nothing is started and shown. The links are
        those of the real systemctl; test_deploy proves the units."""
        self.stand_in("systemctl", self.SYSTEMCTL)
        self.systemd_shows(other=self.RUNNING)
        name = self.submit(self.path, "systemd", "--target-option", "user")
        folder = self.folder / "state/millrace/submitted" / name
        units = [f"three{unit}" for unit in (".target", "-end.target", "-camera.service", "-worker@.service",
                                             "-center.service")]
        services = ["three-camera.service", "three-worker@0.service", "three-worker@1.service", "three-center.service"]
        link, start, show = self.calls()
        self.assertEqual(link, ["systemctl", "--user", "link", "--runtime", *(f"{folder}/{unit}" for unit in units)])
        self.assertEqual(start[-3:], ["start", "--no-block", "three.target"])
        self.assertEqual(show[-4:], services)
        if shutil.which("systemctl"):
            self.assertEqual(self.links(), sorted(units))
        one = self.status(name)
        self.assertEqual((one["state"], one["hosts"]), ("running", os.uname().nodename))
        self.assertEqual(one["processes"][1]["reason"], "3 frames")
        # The name is taken while it runs.
        self.run_verb("submit", self.path, "--target", "systemd", "--target-option", "user", code=75,
                      says=f"`millrace cancel {name}` ends it")
        self.systemd_shows(camera=self.ENDED, worker1=self.FAILED.replace("NRestarts=0", "NRestarts=4"),
                           other=self.RUNNING)
        one = self.status(name)
        self.assertEqual((one["state"], one["processes"][2]["restarts"]), ("running", 4))
        self.systemd_shows(worker1=self.FAILED, other=self.ENDED)
        one = self.status(name, "--wait", code=74)
        self.assertEqual((one["state"], one["reason"]), ("failed", "exit-code"))
        # What has ended is removed there, and gives the name free.
        self.calls()
        self.systemd_shows(other=self.RUNNING)
        second = self.submit(self.path, "systemd", "--target-option", "user")
        self.assertEqual([words[-1 - words[::-1].index(verb)] for words, verb in
                          zip(self.calls(), ("stop", "reset-failed", "disable", "link", "start"))],
                         ["stop", "reset-failed", "disable", "link", "start"])
        self.run_verb("cancel", second)
        self.assertEqual(self.links(), [])
        shutil.rmtree(self.folder / "calls.units")
        self.assertEqual(self.status(second)["state"], "cancelled")
        self.submit(self.path, "systemd")

    def test_systemd_on_another_machine(self):
        """With a shared home, a record may be another machine's, whose systemd only that one can ask."""
        self.stand_in("systemctl", self.SYSTEMCTL)
        self.systemd_shows(other=self.RUNNING)
        name = self.submit(self.path, "systemd")
        self.change(name, submitted_on="elsewhere")
        self.calls()
        for words in (["cancel", name], ["status", name], ["status", name, "--wait"]):
            self.run_verb(*words, code=69, says=f"{name} was submitted on elsewhere")
        self.assertEqual(self.calls(), [])
        # The name is free here.
        shutil.rmtree(self.folder / "calls.root", ignore_errors=True)
        self.submit(self.path, "systemd")

    @unittest.skipUnless(shutil.which("systemctl"), "no systemctl")
    def test_systemd_that_has_such_a_unit(self):
        """No link stays, except the one that was there."""
        self.stand_in("systemctl", self.SYSTEMCTL)
        there = self.folder / "calls.root/run/systemd/system"
        there.mkdir(parents=True)
        (there / "three-camera.service").symlink_to("/other/three-camera.service")
        self.run_verb("submit", self.path, "--target", "systemd", code=69, says="three-camera.service")
        self.assertEqual((self.links(), self.kept()), (["three-camera.service"], []))

    def test_systemd_forgets_what_ended_well(self):
        """A service without a target is then shown as if it had never run: without a job, it is no longer queued."""
        self.stand_in("systemctl", self.SYSTEMCTL)
        units = self.folder / "calls.units"
        units.mkdir()
        idle = self.ENDED.replace("=5", "=0").replace("MainCode=1", "MainCode=0")
        path = self.write(pipeline(dict(numbers='type: "null", frames: 3'), name="one", out='type: "null"'), "one.yaml")
        (units / "one.service").write_text(idle + "Job=17\n")
        name = self.submit(path, "systemd")
        self.assertEqual(self.status(name)["state"], "queued")
        (units / "one.service").write_text(idle + "Job=\n")
        one = self.status(name, "--wait")
        self.assertEqual((one["state"], one["exit_code"]), ("ended", 0))
        # A target keeps its units: what shows no start had none.
        self.systemd_shows(worker0=idle, other=self.ENDED)
        name = self.submit(self.path, "systemd")
        self.run_verb("status", name, "--wait", code=69, says="the unit was not started")


class UnderKubernetes(StandIns):
    """The real kubectl, if it is here, against a small API server."""

    @unittest.skipUnless(shutil.which("kubectl"), "no kubectl")
    def test_with_kubectl(self):
        server = Api()
        self.addCleanup(server.close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = [word for option in (f"server=http://127.0.0.1:{server.server_address[1]}", "namespace=video",
                                       "validate=false")
                   for word in ("--target-option", option)]
        path = self.pods()
        name = self.submit(path, "kubernetes", *options)
        jobs = ["three-camera", "three-my-worker", "three-center"]
        self.assertEqual([job for verb, space, kind, job in server.changes
                          if (verb, space, kind) == ("create", "video", "jobs")], jobs)
        one = self.status(name)
        self.assertEqual((one["state"], one["site_id"]), ("queued", "three"))
        self.assertFalse([option for option in one["options"] if "validate" in option])
        run = one["run"]

        def show(*pods):
            for key in [key for key in server.objects if key[1] == "pods"]:
                del server.objects[key]
            for each in pods:
                each["metadata"]["labels"]["millrace/run"] = run
                server.objects[("video", "pods", each["metadata"]["name"])] = each

        waits = {"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                 "lastState": {"terminated": {"exitCode": 78, "reason": "Error"}}}
        show(pod("three-camera", 0, "Running", "m1", {"restartCount": 2}),
             pod("three-my-worker", 0, "Pending", **condition("PodScheduled", "False", reason="Unschedulable",
                                                              message="0/3 nodes\x1b have a GPU")),
             pod("three-my-worker", 1, "Running", "m2", waits),
             pod("three-center", 0, "Pending", "m1", {"state": {"waiting": {"reason": "ImagePullBackOff"}}}))
        one = self.status(name)
        self.assertEqual((one["state"], one["hosts"]), ("running", "m1,m2"))
        self.assertEqual([(p["state"], p["host"], p["restarts"], p["reason"]) for p in one["processes"]],
                         [("running", "m1", 2, None),
                          ("queued", None, 0, "Unschedulable: 0/3 nodes\\x1b have a GPU"),
                          ("running", "m2", 3, "CrashLoopBackOff; last exit code 78"),
                          ("queued", "m1", 0, "ImagePullBackOff")])
        self.run_verb("submit", path, "--target", "kubernetes", *options, code=75, says="is running")
        # The Job replaces a pod that was evicted or whose machine is lost.
        show(*(pod("three-my-worker", replica, phase, "m2", reason=why, message="low on memory")
               for replica, phase, why in ((0, "Failed", "Evicted"), (1, "Unknown", "NodeLost"))))
        one = self.status(name)
        self.assertEqual((one["state"], [p["reason"] for p in one["processes"]][1:3]),
                         ("queued", ["Evicted: low on memory", "NodeLost: low on memory"]))
        self.run_verb("submit", path, "--target", "kubernetes", *options, code=75, says="is queued")
        ended = {"state": {"terminated": {"exitCode": 0}}}
        server.objects[("video", "jobs", "three-my-worker")]["status"] = condition("Failed", reason="Backoff")
        show(pod("three-my-worker", 1, "Failed", "m2", {"state": {"terminated": {"exitCode": 74, "reason": "Error"}}}),
             *(pod(node, replica, "Succeeded", "m1", ended)
               for node, replica in (("three-camera", 0), ("three-my-worker", 0), ("three-center", 0))))
        one = self.status(name, "--wait", code=74)
        self.assertEqual((one["state"], one["reason"]), ("failed", "Error"))
        # The name is free again; what a cancelled one has left is gone.
        del server.changes[:]
        second = self.submit(path, "kubernetes", *options)
        self.assertEqual([change[0] for change in server.changes if change[2] == "jobs"],
                         3 * ["delete"] + 3 * ["create"])
        run = self.status(second)["run"]
        for job in jobs:
            server.objects[("video", "jobs", job)]["status"] = condition("Complete")
        show()
        self.assertEqual(self.status(second)["state"], "ended")
        third = self.submit(path, "kubernetes", *options)
        self.run_verb("cancel", third, says="is being ended")
        self.assertEqual(server.objects.keys() - {key for key in server.objects if key[1] == "pods"}, set())
        self.assertEqual(self.status(third)["state"], "cancelled")
        server.forbidden = True
        self.run_verb("submit", path, "--target", "kubernetes", *options, code=77, says="you cannot")
        server.forbidden = False
        # What was taken before the refusal is taken back.
        server.refused, mine = "three-center", ("video", "services", "mine")
        server.objects = {mine: {"kind": "Service", "metadata": {"name": "mine", "labels": {}}}}
        self.run_verb("submit", path, "--target", "kubernetes", *options, code=77, says="a quota is exceeded")
        self.assertIn(("create", "video", "jobs", "three-camera"), server.changes)
        self.assertEqual(list(server.objects), [mine])
        server.refused = None
        fourth = self.submit(path, "kubernetes", *options)
        server.close()
        done = self.run_verb("status", "--json", code=69, says="the last known states follow")
        self.assertEqual([one["state"] for one in json.loads(done.stdout)["submitted"] if one["id"] == fourth],
                         ["queued"])

    def test_garbage(self):
        for text, why in (("", "no JSON"), ("{}", "no list"), ("[1]", "no list"), ("{" * 100, "no JSON")):
            self.stand_in("kubectl", f"[ $1 = get ] && echo '{text}'; exit 0")
            name = self.submit(self.pods(), "kubernetes", "--set", f"pipeline=p{len(self.kept())}")
            self.run_verb("status", name, code=76, says=why)
        odd = json.dumps({"items": [1, {"kind": "Pod"}, {"kind": "Job", "metadata": 7}]})
        self.stand_in("kubectl", f"[ $1 = get ] && echo '{odd}'; exit 0")
        self.assertEqual(self.status(name)["state"], "unknown")


if __name__ == "__main__":
    unittest.main()
