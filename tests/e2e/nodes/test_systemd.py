"""Services in a real systemd: what `deploy --target systemd` writes, and the package's millrace@.service. systemd is
process 1 in namespaces of its own, above this machine's files; what it writes is in memory."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from harness import MILLRACE, ROOT, Case, call, pipeline

AT_ONCE = 3
INIT = pathlib.Path("/lib/systemd/systemd")
BOOT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in run tmp dev; do mount -t tmpfs tmpfs $folder; done
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/pts dev/shm
mount -t devpts devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s /proc/self/fd dev/fd
echo 0123456789abcdef0123456789abcdef >etc/machine-id
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /lib/systemd/systemd --unit=basic.target
"""


def live(name, sink='type: "null"', **more):
    return pipeline(dict(cam='uri: "lavfi:testsrc=size=64x64:rate=50", realtime: true'), name=name, decode="",
                    results=sink, **more)


def own_cgroup():
    """A new group in the unified hierarchy; None: there is none that may be written."""
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    for at in (pathlib.Path(line[1]) for line in mounts if line[2] == "cgroup2"):
        try:
            return pathlib.Path(tempfile.mkdtemp(prefix="millrace-", dir=at))
        except OSError:
            pass
    return None


@unittest.skipUnless(os.geteuid() == 0 and INIT.exists() and shutil.which("nsenter"), "needs root and systemd")
class Systemd(Case):
    def setUp(self):
        super().setUp()
        group = own_cgroup()
        if not group:
            self.skipTest("no cgroup2 that may be written")
        self.addCleanup(self.remove, group)
        (self.folder / "machine").mkdir()
        self.log = self.folder / "boot.log"
        boot = self.spawn(["unshare", "--pid", "--fork", "--mount", "--cgroup", "--uts", "--ipc", "sh", "-c", BOOT,
                           "sh", self.folder / "machine"],
                          stdout=self.log.open("w"), stderr=subprocess.STDOUT,
                          preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
        children = pathlib.Path(f"/proc/{boot.pid}/task/{boot.pid}/children")
        self.init = None

        def is_up():
            """Or cannot: then the process has ended."""
            self.init = int((children.read_text().split() or [0])[0]) if boot.poll() is None else None
            if boot.poll() is not None or not self.init:
                return boot.poll() is not None
            return self.inside("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

        self.wait_until(is_up, self.log)
        if boot.poll() is not None:
            self.skipTest("systemd cannot start here: " + self.log.read_text()[-300:])
        self.addCleanup(os.kill, self.init, signal.SIGKILL)
        self.root = pathlib.Path(f"/proc/{self.init}/root")
        shutil.copy(MILLRACE, self.root / "usr/bin/millrace")
        (self.root / "etc/millrace").mkdir(exist_ok=True)

    @staticmethod
    def remove(group):
        """Once its processes are gone, from the leaves up."""
        for _ in range(250):
            for at, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(at)
                except OSError:
                    time.sleep(0.02)
            if not group.exists():
                return

    def inside(self, *words):
        return call(["nsenter", "-t", self.init, "-m", "-p", "-C", "-u", "-i", "-r", "-w", *words])

    def systemctl(self, *words, code=0):
        done = self.inside("systemctl", *words)
        self.assertEqual(done.returncode, code, (words, done.stderr, self.journal()))
        return done.stdout

    def journal(self):
        return self.inside("journalctl", "--no-pager", "-o", "cat").stdout

    def show(self, unit, name):
        return self.systemctl("show", unit, "-p", name, "--value").strip()

    def pid(self, unit):
        return int(self.show(unit, "MainPID"))

    def deploy(self, name, text):
        (self.root / f"etc/millrace/{name}.yaml").write_text(text)
        done = self.inside("/usr/bin/millrace", "deploy", f"/etc/millrace/{name}.yaml", "--target", "systemd",
                           "--output", "/etc/systemd/system")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.systemctl("daemon-reload")

    def send(self, unit, number):
        """Returns once another process has taken its place."""
        before = self.pid(unit)
        self.inside("kill", f"-{number}", str(before))
        self.wait_until(lambda: self.pid(unit) not in (0, before) and self.show(unit, "ActiveState") == "active",
                        self.journal)
        return before

    def frames(self, unit):
        return int((re.match("[0-9]+", self.show(unit, "StatusText")) or [0])[0])

    def test_services(self):
        self.deploy("porch", live("porch"))
        self.systemctl("start", "porch")
        self.wait_until(lambda: self.frames("porch") > 50, self.journal)
        self.assertIn("porch:", self.inside("/usr/bin/millrace", "ctl", "status").stdout)
        self.systemctl("reload", "porch")
        self.send("porch", 9)
        self.assertEqual(self.show("porch", "NRestarts"), "1")
        # One that stands still is found by the watchdog.
        (self.root / "etc/systemd/system/porch.service.d").mkdir()
        (self.root / "etc/systemd/system/porch.service.d/soon.conf").write_text("[Service]\nWatchdogSec=1\n")
        self.systemctl("daemon-reload")
        self.systemctl("restart", "porch")
        self.wait_until(lambda: self.frames("porch") > 100, self.journal)  # it reports in time
        self.send("porch", 19)
        # The package's service runs beside root's, as a user of its own.
        self.install_lobby()
        self.systemctl("start", "millrace@lobby")
        self.wait_until(lambda: self.frames("millrace@lobby") > 20, self.journal)
        self.assertNotEqual(os.stat(f"/proc/{self.init}/root/run/millrace/lobby").st_uid, 0)
        self.apart()
        with socket.socket(socket.AF_UNIX) as page:
            page.connect(str(self.root / "run/millrace/lobby/http"))
            page.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertIn(b"200 OK", page.recv(4096))
        self.assertIn("2 runs can be reached", self.inside("/usr/bin/millrace", "ctl", "status").stderr)
        for name in ("porch", "millrace@lobby"):
            # A start may make TensorRT's engines, and the run itself says after 20 s which call does not return.
            self.assertEqual([self.show(name, f"Timeout{what}USec") for what in ("Start", "Stop")], ["15min", "25s"])
            self.systemctl("stop", name)
            self.assertEqual((self.show(name, "ActiveState"), self.show(name, "ExecMainStatus")), ("inactive", "0"))
        self.assertGreater((self.root / "var/lib/private/millrace/lobby/rows.jsonl").stat().st_size, 0)

    def apart(self):
        """Services of the package have one user, and do not see each other's files; one can have another user."""
        (self.root / "etc/systemd/system/millrace@yard.service.d").mkdir()
        for name, drop in (("garden", ""), ("yard", "[Service]\nUser=millrace-yard\n")):
            shutil.copy(self.root / "etc/millrace/lobby.yaml", self.root / f"etc/millrace/{name}.yaml")
            if drop:
                (self.root / f"etc/systemd/system/millrace@{name}.service.d/user.conf").write_text(drop)
            self.systemctl("daemon-reload")
            self.systemctl("start", f"millrace@{name}")
            self.wait_until(lambda: self.frames(f"millrace@{name}") > 20, self.journal)
        user = {name: os.stat(f"{self.root}/run/millrace/{name}").st_uid for name in ("lobby", "garden", "yard")}
        self.assertEqual((user["lobby"] == user["garden"], user["lobby"] == user["yard"]), (True, False))
        for name in user:
            seen = self.inside("ls", f"/proc/{self.pid(f'millrace@{name}')}/root/var/lib/private/millrace")
            self.assertEqual(seen.stdout.split(), [name], seen.stderr)
        self.systemctl("stop", "millrace@garden", "millrace@yard")

    def install_lobby(self):
        unit = (ROOT / "tools/debian/millrace@.service").read_text()
        (self.root / "etc/systemd/system/millrace@.service").write_text(unit)
        (self.root / "etc/millrace/lobby.yaml").write_text(
            live("lobby", 'type: jsonl, path: "${STATE_DIRECTORY}/rows.jsonl"') +
            'http: {listen: "unix:${RUNTIME_DIRECTORY}/http"}\n')
        self.systemctl("daemon-reload")

    def test_folder_of_root_and_services(self):
        """Whoever makes /run/millrace first, and with whatever mode: root's run listens there, and services get
        through. Only a folder that others may write to is not used."""
        self.deploy("porch", live("porch"))
        self.install_lobby()
        folder = self.root / "run/millrace"
        self.assertFalse(folder.exists())
        for order in (("millrace@lobby", "porch"), ("porch", "millrace@lobby")):
            for name in order:
                self.systemctl("start", name)
                self.wait_until(lambda: self.frames(name) > 20, self.journal)
                if name == "porch":
                    self.assertTrue((folder / f"{self.pid(name)}.sock").exists(), self.journal())
                    self.assertEqual(folder.stat().st_mode & 0o777, 0o711)
            self.assertIn("2 runs can be reached", self.inside("/usr/bin/millrace", "ctl", "status").stderr)
            self.systemctl("stop", *order)
            folder.chmod(0o700)
        folder.chmod(0o777)
        self.systemctl("start", "porch")
        self.wait_until(lambda: self.frames("porch") > 20, self.journal)
        self.assertTrue((self.root / f"tmp/millrace-0/{self.pid('porch')}.sock").exists(), self.journal())
        self.assertEqual((folder.stat().st_mode & 0o777, list(folder.glob("*.sock"))), (0o777, []))

    def test_exit_codes(self):
        """What would fail again is not restarted; what may succeed is, at most five times a minute."""
        self.deploy("wrong", live("wrong"))
        wrong = self.root / "etc/millrace/wrong.yaml"
        wrong.write_text(wrong.read_text().replace('"null"', "nothing"))
        self.systemctl("start", "wrong", code=1)
        self.assertEqual([self.show("wrong", name) for name in ("ActiveState", "ExecMainStatus", "NRestarts")],
                         ["failed", "78", "0"])
        self.assertIn('unknown type "nothing"', self.journal())
        self.deploy("full", live("full", "type: jsonl, path: /dev/full"))
        self.inside("systemctl", "start", "full")
        self.wait_until(lambda: self.show("full", "ActiveState") == "failed", self.journal)
        self.assertEqual([self.show("full", name) for name in ("ExecMainStatus", "NRestarts")], ["74", "5"])
        self.assertIn("No space left on device", self.journal())

    def test_a_service_without_a_pipeline(self):
        """A name with a mistake is an error that says which file is missing, and starting it again would not help."""
        self.install_lobby()
        self.systemctl("start", "millrace@loby", code=1)
        status = self.inside("systemctl", "status", "millrace@loby").stdout
        self.assertIn("/etc/millrace/loby.yaml: error: cannot read the pipeline", status)
        self.assertEqual([self.show("millrace@loby", name) for name in ("ActiveState", "ExecMainStatus", "NRestarts")],
                         ["failed", "66", "0"])

    def test_nodes(self):
        self.deploy("lane", live("lane", nodes=dict(near="stages: decode", far="stages: results")))
        self.systemctl("start", "lane.target")
        self.wait_until(lambda: self.frames("lane-far") > 50, self.journal)
        near = self.pid("lane-near")
        self.send("lane-far", 9)
        self.wait_until(lambda: self.frames("lane-far") > 50, self.journal)
        self.assertEqual(self.pid("lane-near"), near)
        self.systemctl("stop", "lane.target")
        for name in ("lane-near", "lane-far"):
            self.wait_until(lambda: self.show(name, "ActiveState") == "inactive", self.journal)
            self.assertEqual(self.show(name, "ExecMainStatus"), "0")
