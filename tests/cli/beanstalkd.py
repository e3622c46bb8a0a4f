# SPDX-License-Identifier: Apache-2.0
"""A beanstalkd server of its own for a case, and a small client of it."""
import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time

from harness import Skipped, Wrong


def dies_with_the_test():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Beanstalkd:
    def __init__(self, binlog=None, sync=True):
        self.program = shutil.which("beanstalkd") or shutil.which("beanstalkd", path="/usr/bin:/usr/sbin")
        if not self.program:
            if os.environ.get("CI") == "true":
                raise Wrong("beanstalkd is not installed: make deps-servers")
            raise Skipped("beanstalkd is not installed: make deps-servers")
        self.binlog = binlog
        self.sync = sync  # every write of the binlog
        # The bound socket keeps the port for this server, also while the server is down: it does not listen,
        # and the server sets SO_REUSEADDR. Else a server of another program may get the port meanwhile.
        self.reserved = socket.socket()
        self.reserved.bind(("127.0.0.1", 0))
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.port = self.reserved.getsockname()[1]
        self.start()

    def start(self):
        keep = ["-b", self.binlog, *(["-f", "0"] if self.sync else [])] if self.binlog else []
        self.process = subprocess.Popen([self.program, "-l", "127.0.0.1", "-p", str(self.port), *keep],
                                        preexec_fn=dies_with_the_test, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=20)
                break
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.01)
        self.answers = self.socket.makefile("rb")

    def stop(self):
        self.answers.close()
        self.socket.close()
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.reserved.close()

    @contextlib.contextmanager
    def connection(self):
        """Another client: its socket, and a file of what the server answers."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as link, link.makefile("rb") as answers:
            yield link, answers

    def url(self, tube):
        return f"beanstalkd://127.0.0.1:{self.port}/{tube}"

    def ask(self, command):
        self.socket.sendall(command.encode() + b"\r\n")
        return self.answers.readline().decode().strip()

    def put(self, tube, bodies, priority=1024, delay=0, ttr=60):
        """Returns the numbers of the jobs."""
        self.ask(f"use {tube}")
        numbers = []
        for at in range(0, len(bodies), 500):
            some = bodies[at:at + 500]
            self.socket.sendall(b"".join(b"put %d %d %d %d\r\n%s\r\n" % (priority, delay, ttr, len(body), body)
                                         for body in some))
            numbers += [int(self.answers.readline().split()[1]) for _ in some]
        return numbers

    def reserve(self, tube):
        """Takes a job, which this connection then holds. Returns its number and priority."""
        self.ask(f"watch {tube}")
        self.ask("ignore default")
        _, number, size = self.ask("reserve-with-timeout 0").split()
        self.answers.read(int(size) + 2)
        return int(number)

    def bury(self, tube, count):
        """Moves jobs of a tube that are ready to its buried ones."""
        for _ in range(count):
            number = self.reserve(tube)
            if self.ask(f"bury {number} 7") != "BURIED":
                raise Wrong("not buried")

    def counts(self, tube):
        answer = self.ask(f"stats-tube {tube}")
        if answer == "NOT_FOUND":
            return {"ready": 0, "delayed": 0, "buried": 0, "reserved": 0}
        lines = self.answers.read(int(answer.split()[1]) + 2).decode().splitlines()
        values = dict(line.split(": ", 1) for line in lines if ": " in line)
        return {state: int(values["current-jobs-" + state]) for state in ("ready", "delayed", "buried", "reserved")}
