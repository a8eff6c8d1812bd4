"""A terminal for programs under test."""
import codecs
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

PATIENCE = 60


class Screen:
    """A terminal in which a program runs."""

    def __init__(self, case, arguments, lines=30, columns=100):
        self.case, self.text, self.quiet = case, "", False
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        # The program finds a terminal of that size, however early it looks.
        self.end, far = pty.openpty()
        self.size(lines, columns)
        self.pid = os.fork()
        if self.pid == 0:
            os.login_tty(far)
            os.environ.update(case.environment, TERM="xterm")
            os.execv(arguments[0], arguments)
        os.close(far)
        case.addCleanup(self.close)

    def close(self):
        os.close(self.end)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def size(self, lines, columns):
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self):
        self.quiet = True
        if select.select([self.end], [], [], 0.1)[0]:
            try:
                self.text += self.decoder.decode(os.read(self.end, 65536))
                self.quiet = False
            except OSError:  # the program has closed it
                return False
        return True

    def page(self):
        """The latest page that is there as a whole."""
        pages = self.text.split("\x1b[H")
        return pages[-1] if self.quiet else pages[-2] if len(pages) > 2 else ""

    def until(self, found, what):
        end = time.monotonic() + PATIENCE
        while not found(self.page()):
            self.case.assertLess(time.monotonic(), end, f"{what}: {self.text[-2000:]}")
            self.case.assertTrue(self.read(), f"{what}: the program has ended")

    def press(self, key):
        os.write(self.end, key)

    def ended(self):
        end = time.monotonic() + PATIENCE
        while self.read() and time.monotonic() < end:
            pass
        pid, self.pid = self.pid, None
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
