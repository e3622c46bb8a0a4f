# SPDX-License-Identifier: Apache-2.0
"""A node of one's own, and plain HTTP to it."""
import http.client
import json
import subprocess

from harness import PATIENCE, PROGRAM, Wrong, same

JSON = "application/json"


class Answer:
    def __init__(self, reply):
        self.status, self.headers = reply.status, reply.headers
        self.type = (reply.headers.get("Content-Type") or "").split(";")[0]
        self.body = b"" if self.type == "text/event-stream" else reply.read()
        self.json = json.loads(self.body) if self.body and self.type.endswith("json") else None

    def __str__(self):
        return f"{self.status} {self.type} {self.body[:300]!r}"


class Stream:
    """Server-Sent Events, as they come."""

    def __init__(self, address, path, headers):
        self.line = http.client.HTTPConnection(address, timeout=PATIENCE)
        self.line.request("GET", path, headers=headers or {})
        self.reply = self.line.getresponse()
        same(self.reply.status, 200, path)

    def next(self):
        """(type, data, id): None for what it does not have; None when the stream has ended."""
        block = {}
        while True:
            line = self.reply.readline()
            if not line:
                return None
            word, _, rest = line.decode().rstrip("\n").partition(": ")
            if word in ("event", "data", "id"):
                block[word] = rest
            elif not word and block:
                data = json.loads(block["data"]) if "data" in block else None
                return block.get("event"), data, block.get("id")

    def until(self, kind):
        """The events up to the first of a kind, which is among them."""
        found = []
        while not found or found[-1][0] != kind:
            event = self.next()
            if event is None:
                raise Wrong(f"the stream ended without {kind}: {found}")
            if event[0] is not None:
                found.append(event)
        return found

    def close(self):
        self.line.close()


class Node:
    """sluice serve on the case's store; ended with the block."""

    def __init__(self, sluice, *options, **more):
        self.process = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--json", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                        cwd=sluice.folder, env=sluice.on_store, **more)
        self.address = json.loads(self.process.stdout.readline())["address"]

    def __enter__(self):
        return self

    def __exit__(self, *what):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=PATIENCE)

    def raw(self, method, path, body=None, kind=None, headers=None):
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        line = self.connect()
        about = {"Content-Type": kind or JSON} if data is not None else {}
        line.request(method, path, data, about | (headers or {}))
        answer = Answer(line.getresponse())
        line.close()
        return answer

    def does(self, status, method, path, body=None, headers=None):
        """The answer's JSON, under /v1/queues; its status is this one."""
        answer = self.raw(method, "/v1/queues" + path, body, headers=headers)
        same(answer.status, status, f"{method} {path} {body}: {answer}")
        return answer.json

    def stream(self, path, headers=None):
        return Stream(self.address, "/v1/queues" + path, headers)


def make_tokens(sluice, **tokens):
    """A file of tokens; with the headers of each."""
    made = {name: sluice.json("token", "new", "--name", name, "--scope", "read", "--queue", "none") for name in tokens}
    lines = "".join(made[name]["line"].partition(" scope=")[0] + f" {grants}\n" for name, grants in tokens.items())
    headers = {name: {"Authorization": "Bearer " + token["token"]} for name, token in made.items()}
    return sluice.path("tokens", lines), headers


def guarded(sluice, **tokens):
    """A node with tokens; with the headers of each."""
    path, headers = make_tokens(sluice, **tokens)
    return Node(sluice, "--tokens", path), headers
