# SPDX-License-Identifier: Apache-2.0
"""sluice serve as a child of a case."""
import http.client
import json
import os
import signal
import subprocess

from harness import PATIENCE, PROGRAM


class Node:
    """sluice serve on a free port; ended with the block."""

    def __init__(self, sluice, *options, program=PROGRAM):
        self.process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", "--json", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                        cwd=sluice.folder, env=sluice.on_store)
        self.hello = json.loads(self.process.stdout.readline())
        self.address = self.hello["address"]

    def __enter__(self):
        return self

    def __exit__(self, *what):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def ask(self, method, path, body=None):
        line = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        line.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = line.getresponse()
        text = answer.read()
        line.close()
        return answer.status, json.loads(text) if text else None

    def logged(self):
        """What it has written to its log since this was last asked."""
        words = b""
        os.set_blocking(self.process.stderr.fileno(), False)
        while (more := self.process.stderr.read()):
            words += more
        os.set_blocking(self.process.stderr.fileno(), True)
        return words.decode()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, words = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, words.decode()
