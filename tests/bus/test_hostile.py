#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""A real node at a server that speaks NATS and lies. The node lives, answers its calls, and says what is wrong.

SLUICE names the program.
"""
import json
import os
import re
import socket
import sys
import threading

for folder in ("cli", "server"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
from harness import case, holds, main, until  # noqa: E402
from serving import Node  # noqa: E402

INFO = {"server_id": "x", "version": "2.9.10", "proto": 1, "headers": True, "max_payload": 1048576, "jetstream": True}
STREAM = {"type": "io.nats.jetstream.api.v1.stream_info_response", "created": "2030-01-01T00:00:00Z", "state": {}}
ERROR = {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}
# What a request of the node gets, by the beginning of its subject.
LIES = {
    "no_answer_has_a_configuration": {"$JS.API.STREAM.INFO": [b"{}"]},
    "a_stream_without_a_configuration": {"$JS.API.STREAM.INFO": [json.dumps(STREAM).encode()]},
    "a_configuration_of_another_kind": {"$JS.API.STREAM.INFO": [b"null", b"[]", b'{"config":null}', b'{"config":[]}',
                                                                b'{"config":{"subjects":[null,7,{}]}}', b"", b"{"]},
    "a_created_stream_without_a_configuration": {"$JS.API.STREAM.INFO": [json.dumps(ERROR).encode()],
                                                 "$JS.API.STREAM.CREATE": [b"{}", b"null", b'{"config":{}}']},
    "a_stream_without_subjects": {"$JS.API.STREAM.INFO": [json.dumps({**STREAM, "config": {"name": "x"}}).encode()]},
}


class Server:
    """Answers requests with the lies of a case, and with a subject that no subscription has."""

    def __init__(self, lies):
        self.lies, self.answered, self.turn = lies, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                line, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.try_to_serve, args=(line,), daemon=True).start()

    def try_to_serve(self, line):
        try:
            self.serve(line)
        except OSError:
            pass  # the node is gone

    def serve(self, line):
        sids = {}
        with line, line.makefile("rb") as text:
            line.sendall(b"INFO " + json.dumps(INFO).encode() + b"\r\n")
            while word := text.readline():
                words = word.decode().split()
                if words[:1] == ["PING"]:
                    line.sendall(b"PONG\r\n")
                elif words[:1] == ["SUB"]:
                    sids[words[1]] = words[-1]
                elif words[:1] in (["PUB"], ["HPUB"]):
                    text.read(int(words[-1]) + 2)
                    size = 2 if words[0] == "PUB" else 3
                    reply = words[2] if len(words) == size + 2 else None
                    self.answer(line, sids, words[1], reply)

    def answer(self, line, sids, subject, reply):
        lies = next((rows for begin, rows in self.lies.items() if subject.startswith(begin)), None)
        match = [sid for pattern, sid in sids.items() if reply and re.fullmatch(pattern.replace(".", r"\.").replace("*", "[^.]+"), reply)]
        sid = match[0] if match else None
        if sid is None:
            return
        for acks in [sid for pattern, sid in sids.items() if pattern.startswith("_INBOX.sluice")]:
            for short in ("x", "_INBOX", "_INBOX.sluice"):
                line.sendall(f"MSG {short} {acks} 2\r\n{{}}\r\n".encode())
        body = lies[self.turn % len(lies)] if lies else b"{}"
        self.turn += 1
        line.sendall(f"MSG {reply} {sid} {len(body)}\r\n".encode() + body + b"\r\n")
        self.answered += 1

    def close(self):
        self.listener.close()


def lied_to(sluice, lies):
    server = Server(lies)
    try:
        with Node(sluice, "--bus", server.url) as node:
            node.does(201, "PUT", "/q", {})
            node.does(201, "POST", "/q/messages", {"body": "x"})
            until(lambda: server.answered >= 4 * max(len(rows) for rows in lies.values()), "the node asks again")
            holds(node.process.poll() is None, f"the node ended: {node.process.poll()}")
            node.does(201, "POST", "/q/messages", {"body": "x"})
    finally:
        server.close()


for name, rows in LIES.items():
    def run(sluice, rows=rows):
        lied_to(sluice, rows)
    run.__name__ = name
    case(run)

main()
