# SPDX-License-Identifier: Apache-2.0
"""A program in a pseudo-terminal, and what a terminal shows of it: pyte draws the screen."""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

try:
    import pyte
except ImportError:  # Debian's python3-pyte, for a Python that is not Debian's
    sys.path.append("/usr/lib/python3/dist-packages")
    import pyte

ROWS = 60  # so that nothing scrolls away


class Terminal:
    """Starts the words in a terminal of so many columns."""

    def __init__(self, words, columns, rows=ROWS, env=None, cwd=None, is_controlling=True):
        self.columns = columns
        self.raw = b""
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._master, slave = pty.openpty()
        self._rows = rows
        self._set_size()
        words = [os.path.abspath(words[0]), *words[1:]]
        whole = {**os.environ, "TERM": "xterm-256color", **(env or {})}
        whole = {key: value for key, value in whole.items() if value is not None}
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                if is_controlling:
                    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
                for fd in (0, 1, 2):
                    os.dup2(slave, fd)
                os.closerange(3, 64)
                os.chdir(cwd or ".")
                os.execve(words[0], words, whole)
            finally:
                os._exit(127)  # never back into the tests
        os.close(slave)
        self.status = None

    def _set_size(self):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", self._rows, self.columns, 0, 0))

    def resize(self, columns):
        self.columns = columns
        self._set_size()
        self.screen.resize(columns=columns)

    def type(self, data):
        os.write(self._master, data)

    def hang_up(self):
        os.close(self._master)
        self._master = -1

    def _read(self, timeout):
        if not select.select([self._master], [], [], timeout)[0]:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the program has ended
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def lines(self):
        lines = [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def text(self):
        return "\n".join(self.lines())

    def wait_until(self, arrived, timeout=120):
        """Reads what is drawn until arrived() says so."""
        end = time.monotonic() + timeout
        while not arrived():
            if not self._read(1) or time.monotonic() > end:
                raise AssertionError(f"it does not come to this:\n{self.text()}")

    def wait_for(self, pattern, timeout=120):
        """Until the screen shows the pattern."""
        self.wait_until(lambda: re.search(pattern, self.text(), re.MULTILINE), timeout)

    def finish(self, timeout=120):
        """Reads to the end of the program; its exit code."""
        end = time.monotonic() + timeout
        while self._master >= 0 and self._read(1):
            if time.monotonic() > end:
                os.kill(self.pid, 9)
                raise AssertionError(f"it does not end:\n{self.text()}")
        return self.wait()

    def wait(self):
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            if self._master >= 0:
                os.close(self._master)
        return self.status
