"""Shared by the tests of full disks: small disks that have room only when the test says so."""
import unittest

from harness import call


class Disk:
    """A disk that has room only when the test says so."""

    def __init__(self, case):
        self.case = case
        self.folder = case.folder / "disk"
        self.folder.mkdir(mode=0o700)
        self.environment = {}


class Mounted(Disk):
    SIZE = 4 << 20

    def __init__(self, case):
        super().__init__(case)
        done = call(["mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "tmpfs", self.folder])
        if done.returncode:
            raise unittest.SkipTest(f"no file system can be mounted here: {done.stderr.strip()}")
        case.addCleanup(call, ["umount", "-l", self.folder])
        self.ballast = self.folder / "ballast"

    def fill(self):
        """Leaves a few pages, so that it fills up in the middle of the work."""
        with open(self.ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                file.truncate(max(0, file.tell() - 20000))

    def empty(self):
        self.ballast.unlink()
