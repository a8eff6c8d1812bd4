"""A three-node Slurm on this machine, with munge, for the length of a test. Everything is in a separate folder, and no
installed configuration is read. It needs slurmctld, slurmd, srun and munged, and root: slurmd starts tasks as the user
who requested them."""
import ctypes
import functools
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from harness import MILLRACE, TIMEOUT, Case, free_ports, pipeline

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
PATIENCE = 240
FRAMES = 500  # of a pipeline
# Seconds after which daemons that were asked to end are killed.
GRACE = 10

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmctldPort={control}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MpiDefault=none
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
{nodes}
PartitionName=all Nodes=n[1-3] Default=YES State=UP OverSubscribe=FORCE:16
"""


def missing():
    """Why it cannot run here; empty if it can."""
    gone = [name for name in PROGRAMS if not find(name)]
    if gone:
        return "no " + ", ".join(gone)
    return "" if os.geteuid() == 0 else "not root"


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def adopt_orphans():
    """Makes processes that daemons leave children of the test, which can wait for them."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1)


def end_with_parent():
    """Called in a daemon's process before it starts: whatever happens to the test, the daemon must not stay."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


class Unavailable(Exception):
    """Slurm cannot start here, for reasons unrelated to the test."""


class Slurm:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.started = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self, *command):
        log = open(self.folder / "log", "a")
        self.started.append(subprocess.Popen([find(command[0]), *map(str, command[1:])], env=self.environment,
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             preexec_fn=end_with_parent))
        log.close()

    def wait_for(self, what, why):
        end = time.monotonic() + PATIENCE
        while not what():
            ended = any(one.poll() is not None for one in self.started)  # for good: nothing starts daemons again
            if ended or time.monotonic() > end:
                logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*log"))
                raise Unavailable(f"{why}\n{logs}")
            time.sleep(0.1)

    def start_munge(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                   f"--pid-file={self.folder}/munge.pid", f"--log-file={self.folder}/munge.log",
                   f"--seed-file={self.folder}/munge.seed")
        self.wait_for((self.folder / "munge.socket").exists, "munged does not start")

    def __enter__(self):
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        control, *ports = free_ports(4)
        nodes = "\n".join(f"NodeName=n{i + 1} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} "
                          "CPUs=2 State=UNKNOWN" for i, port in enumerate(ports))
        (self.folder / "slurm.conf").write_text(CONFIG.format(
            host=socket.gethostname(), folder=self.folder, control=control, nodes=nodes))
        adopt_orphans()
        try:
            self.start_munge()
            self.start("slurmctld", "-D")
            for i in range(3):
                (self.folder / f"spool-n{i + 1}").mkdir()
                self.start("slurmd", "-D", "-N", f"n{i + 1}")
            self.wait_for(self.all_idle, "the nodes do not become idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def all_idle(self):
        done = subprocess.run([find("sinfo"), "-h", "-N", "-o", "%t"], env=self.environment, capture_output=True,
                              text=True)
        return done.stdout.split() == ["idle"] * 3

    def __exit__(self, *_):
        """Ends everything in dependency order: jobs, then daemons, munged last."""
        end = time.monotonic() + GRACE
        while len(self.started) > 4 and not self.all_idle() and time.monotonic() < end:
            time.sleep(0.1)
        for one in reversed(self.started):
            one.terminate()
            try:
                one.wait(timeout=GRACE)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self.bury_orphans()

    def bury_orphans(self):
        end = time.monotonic() + GRACE
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
        while left := children.read_text().split():
            if time.monotonic() > end:
                for one in left:
                    os.kill(int(one), signal.SIGKILL)
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)


@functools.cache
def cluster():
    """Started by a script's first case, and stopped after the last one."""
    why = missing()
    if why:
        raise unittest.SkipTest(f"Slurm cannot be started: {why}")
    folder = tempfile.TemporaryDirectory(prefix="millrace-slurm-")
    unittest.addModuleCleanup(folder.cleanup)
    try:
        started = Slurm(folder.name).__enter__()
    except Unavailable as why:
        raise unittest.SkipTest(f"Slurm cannot be started: {why}") from None
    unittest.addModuleCleanup(started.__exit__)
    return started


class UnderSlurm(Case):
    """Cases that share a cluster. It has room for the jobs of all at once, and starts a job without a delay."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = cluster()

    def pipeline(self, rate=0, frames=FRAMES):
        camera, worker = free_ports(2)
        return self.write(pipeline(
            dict(numbers=f'type: "null", frames: {frames}, rate: {rate}'), name="three", top="workers: 1",
            first='type: "null"', second='type: "null"', out=f'type: jsonl, path: "{self.folder}/out.jsonl"',
            nodes=dict(camera=f'stages: first, listen: "tcp://127.0.0.1:{camera}"',
                       worker=f'stages: second, listen: "tcp://127.0.0.1:{worker}"', center="stages: out")))

    def call(self, program, *arguments, environment=None):
        done = subprocess.run([find(program), *map(str, arguments)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIMEOUT, cwd=self.folder,
                              env={**self.cluster.environment, **(environment or {})})
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return done

    def await_rows(self, count):
        output = self.folder / "out.jsonl"
        self.wait_until(lambda: output.exists() and output.read_bytes().count(b"\n") >= count, "no rows")

    def kill_task(self, pipeline, task):
        """Kills a task's command, not the shell that watches it, once it runs: rows may come before."""
        self.wait_until(lambda: self.has_killed(pipeline, task), f"task {task} does not run")

    def has_killed(self, pipeline, task):
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace").split("\0")
                theirs = f"SLURM_PROCID={task}" in (path.parent / "environ").read_bytes().decode().split("\0")
            except OSError:
                continue
            if words[0] == MILLRACE and words[1:3] == ["run", str(pipeline)] and theirs:
                os.kill(int(path.parent.name), signal.SIGKILL)
                return True
        return False
