#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""A scripted node for the cases of clients/spec/cases.json: scripted_node.py

It prints one line, the address of its control port: http://127.0.0.1:PORT. A runner asks this port:

    GET  /__cases        all cases, in their order
    POST /__case/NUMBER  begins a case. The answer is {"url": "http://127.0.0.1:P1,127.0.0.1:P2"} for the client
    GET  /__record       the requests that the nodes of the case got
    GET  /__check        compares them with the requests that the case expects: {"wrong": ["a sentence"]}

README.md explains the cases. The program ends when its standard input ends, so it does not outlive its runner."""
import json
import os
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.json")
LOOPBACK = "127.0.0.1"


class Case:
    """The nodes of one case, what they answer and what they got."""

    def __init__(self, case):
        self.case = case
        self.lock = threading.Lock()
        self.script = list(case["script"])
        self.record = []
        self.connections = 0
        self.closed = []
        self.nodes = [self.open(i, kind) for i, kind in enumerate(case.get("nodes", ["scripted"]))]
        self.addresses = [f"{LOOPBACK}:{node.server_port if isinstance(node, Node) else node.getsockname()[1]}"
                          for node in self.nodes]

    def open(self, number, kind):
        if kind == "scripted":
            node = Node(self, number)
            threading.Thread(target=node.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
            return node
        # The port is bound and does not listen: a connection is refused, and no other program can take the port.
        dead = socket.socket()
        dead.bind((LOOPBACK, 0))
        return dead

    @property
    def url(self):
        return "http://" + ",".join(self.addresses)

    def next_step(self):
        """The last step of a script stays if it has "again". A request after the end of the script is not expected."""
        with self.lock:
            if not self.script:
                return {"status": 500, "text": "the script has ended"}
            return self.script[0] if self.script[0].get("again") else self.script.pop(0)

    def filled(self, value):
        """Puts the URLs of the nodes in the place of $NODE0 and $NODE1."""
        text = json.dumps(value)
        for i, address in enumerate(self.addresses):
            text = text.replace(f"$NODE{i}", "http://" + address)
        return json.loads(text)

    def close(self):
        for node in self.nodes:
            if isinstance(node, Node):
                node.shutdown()
                node.server_close()
            else:
                node.close()

    def check(self):
        """Sentences about the differences between the record and the expected requests."""
        expected, got = self.case["requests"], list(self.record)
        wrong = []
        many = expected[-1].get("repeats") if expected else False
        if len(got) < len(expected) + (1 if many else 0) or (len(got) > len(expected) and not many):
            wrong.append(f"{len(got)} requests came, not {len(expected)}{' or more, and at least one more' if many else ''}")
        if self.script and not self.script[0].get("again"):
            wrong.append(f"{len(self.script)} steps of the script were not used")
        names = {}
        for i, request in enumerate(got):
            want = expected[min(i, len(expected) - 1)] if expected else {}
            wrong += [f"request {i}: {what}" for what in differences(want, request, names)]
        return wrong


def differences(want, got, names):
    """`names` has what the labels of ids, nodes and connections stand for."""
    for key in ("method", "path"):
        if key in want and want[key] != got[key]:
            yield f"{key} is {got[key]}, not {want[key]}"
    for key, value in want.get("query", {}).items():
        if got["query"].get(key) != value:
            yield f"parameter {key} is {got['query'].get(key)}, not {value}"
    for key, value in want.get("headers", {}).items():
        if got["headers"].get(key.lower()) != value:
            yield f"header {key} is {got['headers'].get(key.lower())}, not {value}"
    if "body" in want and not matches(want["body"], got["body"]):
        yield f"body is {json.dumps(got['body'])}, not {json.dumps(want['body'])}"
    for field in want.get("without", []):
        if isinstance(got["body"], dict) and field in got["body"]:
            yield f"body has {field}"
    if want.get("id") is None and "id" in want and got["id"] is not None:
        yield "it has a request id"
    if want.get("id") and not (got["id"] and len(got["id"]) == 32):
        yield f"request id is {got['id']}, not 32 hex digits"
    if isinstance(want.get("node"), int) and want["node"] != got["node"]:
        yield f"it came to node {got['node']}, not {want['node']}"
    for key in ("id", "node", "connection"):
        label = want.get(key)
        if not isinstance(label, str):
            continue
        known = names.setdefault((key, label), got[key])
        others = {value for (kind, name), value in names.items() if kind == key and name != label}
        if known != got[key]:
            yield f"{key} {label} is {got[key]}, and was {known}"
        elif got[key] in others:
            yield f"{key} {label} is {got[key]}, which has another name"


def matches(want, got):
    """An object may have more fields than the expected one. "$any" stands for any value."""
    if want == "$any":
        return got is not None
    if isinstance(want, dict):
        return isinstance(got, dict) and all(key in got and matches(value, got[key]) for key, value in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(matches, want, got))
    return want == got and isinstance(want, bool) == isinstance(got, bool)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # a client may close a connection at any time


class Node(Server):
    def __init__(self, case, number):
        self.case = case
        self.number = number
        super().__init__((LOOPBACK, 0), NodeHandler)


class NodeHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.server.case.lock:
            self.number = self.server.case.connections
            self.server.case.connections += 1

    def log_message(self, *args):
        pass

    def any_method(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        target = urlsplit(self.path)
        if target.path == "/healthz":  # a probe of the client is no part of a case
            self.answer(200, {"status": "alive"}, {})
            return
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        case = self.server.case
        with case.lock:
            case.record.append({
                "node": self.server.number, "connection": self.number, "method": self.command, "path": target.path,
                "query": dict(parse_qsl(target.query)), "headers": {k.lower(): v for k, v in self.headers.items()},
                "id": self.headers.get("Sluice-Request"), "body": body})
        self.do_step(case.filled(case.next_step()))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = any_method

    def do_step(self, step):
        if step.get("silent_ms"):
            time.sleep(step["silent_ms"] / 1000)  # the script asks for a node that is silent for this time
        if step.get("lose"):
            self.drop(bool(step.get("reset")))
            return
        status = step["status"]
        headers = dict(step.get("headers", {}))
        body = self.problem(step) if "code" in step else step.get("text", step.get("body"))
        self.answer(status, body, headers, step.get("cut", 0))
        if step.get("cut") or step.get("close"):
            self.drop(False)

    def problem(self, step):
        return {"type": "about:blank", "title": "scripted", "status": step["status"], "code": step["code"],
                "detail": step.get("detail", "the script says so"), **{k: step[k] for k in ("reason", "field") if k in step}}

    def answer(self, status, body, headers, cut=0):
        text = isinstance(body, str)
        data = b"" if body is None else body.encode() if text else json.dumps(body).encode()
        kind = "text/html" if text else "application/problem+json" if status >= 400 else "application/json"
        self.send_response_only(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            if status != 204 or name != "Content-Length":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[:len(data) - cut])
        self.wfile.flush()

    def drop(self, reset):
        """Closes the connection. With `reset` the client gets ECONNRESET instead of an end of file."""
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


class Control(Server):
    def __init__(self):
        with open(CASES, encoding="utf-8") as f:
            self.cases = json.load(f)
        self.current = None
        self.lock = threading.Lock()
        super().__init__((LOOPBACK, 0), ControlHandler)

    def begin(self, number):
        with self.lock:
            if self.current:
                self.current.close()
            self.current = Case(self.cases[number])
            return {"url": self.current.url}


class ControlHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def any_method(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path).path.strip("/").split("/")
        server = self.server
        if self.command == "POST" and parts[0] == "__case":
            body = server.begin(int(parts[1]))
        elif parts[0] == "__cases":
            body = server.cases
        elif parts[0] == "__record":
            body = server.current.record
        else:
            body = {"wrong": server.current.check()}
        data = json.dumps(body).encode()
        self.send_response_only(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = any_method


def main():
    control = Control()
    threading.Thread(target=control.serve_forever, daemon=True).start()
    print(f"http://{LOOPBACK}:{control.server_port}", flush=True)
    while sys.stdin.buffer.read(4096):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
