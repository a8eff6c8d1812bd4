"""A PostgreSQL server of a test: in a temporary folder, as an ordinary user, on a free port and a socket."""
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from harness import TIMEOUT, free_port


def programs():
    """The folder of initdb and postgres; skips the test if there is none."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres")) or [shutil.which("postgres")]
    if not found[-1]:
        raise unittest.SkipTest("no PostgreSQL here: tools/test installs it")
    return pathlib.Path(found[-1]).parent


class Server:
    PASSWORD = "p:w/ö"

    def __init__(self):
        """The server refuses to run as root."""
        self.bin = programs()
        self.user = None
        if os.geteuid() == 0:
            there = {one.pw_name for one in pwd.getpwall()}
            self.user = "postgres" if "postgres" in there else "nobody"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-pg-", dir="/tmp"))
        self.data, self.log, self.port = self.folder / "data", self.folder / "log", free_port()
        if self.user:
            shutil.chown(self.folder, self.user)
        (self.folder / "password").write_text(self.PASSWORD)
        (self.folder / "password").chmod(0o644)
        self.call("initdb", "-D", self.data, "-U", "tester", "-A", "scram-sha-256", "--no-sync", "-E", "UTF8",
                  "--locale", "C.UTF-8", f"--pwfile={self.folder}/password", "--wal-segsize=1")
        self.process = None
        self.start()

    @property
    def url(self):
        return f"postgresql://tester:p%3Aw%2F%C3%B6@127.0.0.1:{self.port}/postgres"

    def options(self):
        """The process options of an ordinary user."""
        return {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []} if self.user else {}

    def call(self, program, *arguments):
        subprocess.run([self.bin / program, *map(str, arguments)], check=True, capture_output=True, cwd=self.folder,
                       env={**os.environ, "LC_ALL": "C.UTF-8"}, **self.options())

    def start(self):
        """fsync is off: these tests kill processes, not machines."""
        until = time.monotonic() + TIMEOUT
        with open(self.log, "ab") as log:
            while True:
                self.process = subprocess.Popen(
                    [self.bin / "postgres", "-D", self.data, "-p", str(self.port), "-k", self.folder, "-c", "fsync=off",
                     "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=20"], stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, cwd=self.folder, start_new_session=True, **self.options())
                while self.process.poll() is None and time.monotonic() < until:
                    done = self.ask("SELECT 1")
                    if done.returncode == 0:
                        return
                    time.sleep(0.05)
                assert time.monotonic() < until, self.log.read_text()
                time.sleep(0.1)  # processes of a killed server must end first

    def ask(self, query):
        return subprocess.run([self.bin / "psql", "-X", "-q", "-At", "-F", "\x1f", "-h", "127.0.0.1", "-p",
                               str(self.port), "-U", "tester", "postgres", "-c", query], capture_output=True, text=True,
                              env={**os.environ, "PGPASSWORD": self.PASSWORD, "PGCONNECT_TIMEOUT": "10"})

    def rows(self, query):
        done = self.ask(query)
        assert done.returncode == 0, done.stderr
        return [line.split("\x1f") for line in done.stdout.splitlines()]

    def backends(self):
        """All processes of the server."""
        found = [self.process.pid]
        for child in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            found.append(int(child))
        return found

    def signal(self, number):
        """To the server and all its processes, which have separate sessions."""
        for pid in self.backends():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait(TIMEOUT)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(TIMEOUT)

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Pooler:
    """PgBouncer before a server: all clients share one session, in which each has single transactions."""

    def __init__(self, server):
        self.program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        if not self.program:
            raise unittest.SkipTest("no PgBouncer here: tools/test installs it")
        self.server, self.port = server, free_port()
        self.log = server.folder / "pgbouncer.log"
        users, settings = server.folder / "users", server.folder / "pgbouncer.ini"
        users.write_text(f'"tester" "{server.PASSWORD}"\n')
        settings.write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = plain\nauth_file = {users}\n"
            f"logfile = {self.log}\npool_mode = transaction\ndefault_pool_size = 1\n")
        for path in (users, settings):
            path.chmod(0o644)
        self.process = subprocess.Popen([self.program, "-q", settings], cwd=server.folder, start_new_session=True,
                                        **server.options())
        until = time.monotonic() + TIMEOUT
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
                time.sleep(0.05)

    @property
    def url(self):
        return self.server.url.replace(str(self.server.port), str(self.port))

    def remove(self):
        self.process.terminate()
        self.process.wait(TIMEOUT)
