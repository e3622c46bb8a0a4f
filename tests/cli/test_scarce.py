# SPDX-License-Identifier: Apache-2.0
"""serve when files that may be open are few: it says so, does nothing half, and gets over it."""
import http.client
import json
import os
import resource
import socket
import subprocess
import threading

from harness import PATIENCE, PROGRAM, case, contains, holds, main, same, until

FILES = 128


class Node:
    """sluice serve on a free port, with few files; ended with the block."""

    def __init__(self, sluice):
        self.process = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--json"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                        cwd=sluice.folder, env=sluice.on_store,
                                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)))
        self.address = json.loads(self.process.stdout.readline())["address"]
        self.line = http.client.HTTPConnection(self.address, timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.line.close()
        self.process.kill()
        self.process.communicate()

    def ask(self, method, path, body=None, line=None):
        """On a connection that stays."""
        line = line or self.line
        line.request(method, path, json.dumps(body) if body is not None else None,
                     {"Content-Type": "application/json"} if body is not None else {})
        answer = line.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def send(self, queue, line=None):
        return self.ask("POST", f"/v1/queues/{queue}/messages", {"body": "x"}, line)[0]

    def ready(self, queue):
        return self.ask("GET", f"/v1/queues/{queue}/stats")[1]["ready"]

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu(self):
        """Seconds of processor time so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def allow(self, files):
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (files, FILES))


@case
def connections_leave_files_for_the_store(sluice):
    with Node(sluice) as node:
        same(node.ask("PUT", "/v1/queues/first")[0], 201)
        host, port = node.address.rsplit(":", 1)
        idle = []
        before = node.files()
        for _ in range(FILES + 50):
            idle.append(socket.create_connection((host, int(port)), PATIENCE))
        # One address has a share of the places, and its oldest connection without a request makes way.
        until(lambda: node.files() > before + FILES / 8, "connections are accepted")
        before = node.cpu()
        for queue in ("first", "second", "third"):
            if queue != "first":
                same(node.ask("PUT", f"/v1/queues/{queue}")[0], 201)
            same(node.send(queue), 201)
        same(node.ask("GET", "/readyz")[0], 200)
        for connection in idle:
            connection.close()
        fresh = http.client.HTTPConnection(node.address, timeout=PATIENCE)
        same(node.send("first", fresh), 201)
        fresh.close()
        holds(node.cpu() - before < 5, "connections that could not be accepted kept it busy")


@case
def without_files_it_is_not_ready_and_gets_over_it(sluice):
    with Node(sluice) as node:
        same(node.ask("PUT", "/v1/queues/tasks")[0], 201)
        same(node.send("tasks"), 201)
        line = http.client.HTTPConnection(node.address, timeout=PATIENCE)
        same(node.send("tasks", line), 201)
        node.allow(3)
        until(lambda: node.ask("GET", "/readyz")[0] == 503, "it is not ready")
        contains(node.ask("GET", "/readyz")[1]["detail"], "too many files are open", "this process may have 3")
        answers = []
        sender = threading.Thread(target=lambda: answers.append(node.send("tasks", line)))
        sender.start()  # it waits for better times
        node.allow(FILES)
        sender.join(PATIENCE)
        same(answers, [201])
        until(lambda: node.ask("GET", "/readyz")[0] == 200, "it is ready again")
        same(node.ready("tasks"), 3)
        line.close()


main()
