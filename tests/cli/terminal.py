# SPDX-License-Identifier: Apache-2.0
"""A terminal of a program's own, of any size: what is on it, and keys to type."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios

from harness import PROGRAM, Skipped, until


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, sluice, *arguments, rows=24, columns=80, **env):
        self.program = None
        try:
            self.master, slave = pty.openpty()
        except OSError as error:
            raise Skipped(f"no terminals here: {error}") from error
        self.slave = slave
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.program = subprocess.Popen([PROGRAM, *arguments], stdin=slave, stdout=slave, stderr=slave,
                                        cwd=sluice.folder, env=sluice.env | {"TERM": "xterm"} | env,
                                        start_new_session=True)
        self.seen = ""

    def wait_for(self, text):
        def look():
            self.read()
            return text in self.seen
        until(look, f"{text!r} on the screen")

    def read(self):
        while select.select([self.master], [], [], 0.05)[0]:
            self.seen += os.read(self.master, 65536).decode(errors="replace")

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if self.program:
            self.program.send_signal(signal.SIGWINCH)

    def screen(self):
        """The lines of the last drawing."""
        self.read()
        drawing = self.seen.rpartition("\x1b[H")[2].partition("\x1b[J")[0]
        return [line.replace("\x1b[K", "") for line in drawing.split("\r\n")]

    def wait_for_screen(self, *parts):
        """Until the last whole drawing has all of them."""
        def look():
            self.read()
            whole = self.seen.rpartition("\x1b[J")[0]
            return all(part in whole.rpartition("\x1b[H")[2] for part in parts)
        until(look, f"{parts} on the screen: {self.screen()}")
        return self.screen()

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        def ended():  # read on meanwhile: a screen that is full keeps it from ending
            self.read()
            return self.program.poll() is not None
        until(ended, "the program ends")
        status = self.program.returncode
        self.read()
        restored = termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)
        return status, restored


def on_terminal(sluice, *arguments, **env):
    terminal = Terminal(sluice, *arguments, **env)
    terminal.end()
    return terminal.seen
