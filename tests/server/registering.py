# SPDX-License-Identifier: Apache-2.0
"""Workers that register at a node and receive there."""
import threading


class Receive:
    """A receive that waits, on its own connection."""

    def __init__(self, node, queue, worker=None, headers=None, wait="20s"):
        self.answer = None
        self.line = node.connect()
        body = '{"wait": "%s"%s}' % (wait, f', "worker": "{worker}"' if worker else "")
        self.line.request("POST", f"/v1/queues/{queue}/receive", body,
                          {"Content-Type": "application/json"} | (headers or {}))
        self.thread = threading.Thread(target=self.read, daemon=True)

    def read(self):
        self.answer = self.line.getresponse().read()

    def leave(self):
        self.line.sock.close()


def workers(node, queue, headers=None):
    return {row["name"]: row for row in node.does(200, "GET", f"/{queue}/workers", headers=headers)["workers"]}


def made(sluice, queue, *settings):
    sluice.ok("queue", "create", queue, *settings)


def join(node, queue, name, status=200, **more):
    return node.does(status, "POST", f"/{queue}/workers", {"worker": name} | more)
