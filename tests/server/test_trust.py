# SPDX-License-Identifier: Apache-2.0
"""What a node of a cluster does for a small token, and what it tells other machines."""
import base64
import http.client
import json
import os
import re
import secrets
import socket
import threading

from harness import case, contains, holds, main, same, until
from serving import Node, Stream, make_tokens

COORD = os.environ.get("SLUICE_TEST_COORD")  # under with-coord etcd
QUEUE = "a-jobs"


def start(sluice, name, tokens, *options):
    return Node(sluice, "--node", name, "--tokens", tokens, *options)


@case
def a_token_for_some_queues_neither_drains_nor_ends_a_node(sluice):
    tokens, keys = make_tokens(sluice, boss="scope=admin queue=*", some="scope=admin queue=a-*")
    with start(sluice, "a", tokens) as node:
        for order in ("drain", "undrain", "leave"):
            answer = node.raw("POST", f"/v1/cluster/{order}", {}, headers=keys["some"])
            same(answer.status, 403, f"{order}: {answer}")
            contains(answer.json["detail"], "scope admin", "all queues (*)")
        holds(not node.raw("GET", "/v1/cluster", headers=keys["boss"]).json["draining"], "it is not drained")
        same(node.raw("POST", "/v1/cluster/leave", {}, headers=keys["boss"]).status, 204)
        same(node.process.wait(timeout=60), 0, "the end of the node")


@case
def the_events_of_the_cluster_leave_out_queues_that_the_token_may_not_read(sluice):
    tokens, keys = make_tokens(sluice, boss="scope=admin queue=*", some="scope=read queue=a-*")
    with start(sluice, "a", tokens) as node:
        for queue in ("b-first", "a-second"):
            node.does(201, "PUT", f"/{queue}", headers=keys["boss"])
            node.does(201, "POST", f"/{queue}/messages", {"body": "x"}, headers=keys["boss"])
        heard = {}
        for key in keys:
            stream = Stream(node.address, "/v1/cluster/events", keys[key])
            heard[key] = [data["queue"] for _, data, _ in until_queue(stream, "a-second")]
            stream.close()
        same(heard, {"boss": ["b-first", "a-second"], "some": ["a-second"]})


class Listener:
    """A process that listens where a node should be. It says that it is that node, and remembers what it was told."""

    def __init__(self, address="127.0.0.1:0", node="b"):
        host, _, port = address.rpartition(":")
        self.server = socket.create_server((host, int(port)))
        self.address = f"{host}:{self.server.getsockname()[1]}"
        self.node, self.heard = node, b""
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client):
        rows = json.dumps({"node": self.node, "workers": [], "missing": [], "status": "alive"})
        while some := client.recv(65536):
            self.heard += some
            key = re.search(rb"key=([0-9a-f]{16})", some)
            client.sendall(f"HTTP/1.1 200 OK\r\nSluice-Node: {self.node}\r\nSluice-Key: "
                           f"{key[1].decode() if key else ''}\r\nSluice-Proof: {secrets.token_hex(32)}\r\n"
                           f"Sluice-Nonce: {secrets.token_hex(16)}\r\nContent-Type: application/json\r\n"
                           f"Content-Length: {len(rows)}\r\n\r\n{rows}".encode())

    def close(self):
        self.server.close()


def secret_of(key):
    return key["Authorization"].split()[1]


def ask_everything(sluice, node, key):
    """Each call that may ask other nodes, with a token: through the node, and by a program that opens the store."""
    for path in ("/v1/node/workers?all=1", f"/v1/queues/{QUEUE}/workers", f"/v1/queues/{QUEUE}/stats",
                 "/v1/queues?stats=1", "/v1/cluster", "/v1/cluster/plan", "/metrics"):
        same(node.raw("GET", path, headers=key).status, 200, path)
    node.does(200, "POST", f"/{QUEUE}/messages", {"messages": [{"body": "x"}] * 9}, headers=key)
    batch = node.does(200, "POST", f"/{QUEUE}/receive", {"max": 9}, headers=key)
    node.does(200, "POST", f"/{QUEUE}/ack", {"tokens": [m["token"] for m in batch["messages"]]}, headers=key)
    for words in (("workers", QUEUE), ("stats", QUEUE), ("send", QUEUE, "y"), ("receive", QUEUE)):
        sluice.ok(*words, env={"SLUICE_TOKEN": secret_of(key)})


def use(node, key, status=201):
    node.does(status, "PUT", f"/{QUEUE}", {"shards": 4}, headers=key)
    node.does(200, "POST", f"/{QUEUE}/messages", {"messages": [{"body": "x"}] * 9}, headers=key)


def others(node, key):
    return [m["name"] for m in node.raw("GET", "/v1/cluster", headers=key).json["members"] if not m["self"]]


@case
def a_listener_on_the_port_of_a_dead_member_gets_no_token(sluice):
    tokens, keys = make_tokens(sluice, boss="scope=admin queue=*")
    key = keys["boss"]
    with start(sluice, "b", tokens) as b, start(sluice, "a", tokens) as a:
        use(b, key)
        until(lambda: others(a, key) == ["b"], "a knows b")
        same(a.does(200, "GET", f"/{QUEUE}/workers", headers=key)["missing"], [], "b proves itself")
        b.process.kill()
        b.process.wait()
        listener = Listener(b.address)
        ask_everything(sluice, a, key)
        holds(secret_of(key).encode() not in listener.heard, listener.heard)
        holds(b"nonce=" in listener.heard, "the listener was asked for a proof")
        listener.close()


@case
def a_member_that_owns_nothing_proves_that_it_can_read_the_store(sluice):
    tokens, keys = make_tokens(sluice, boss="scope=admin queue=*")
    key = keys["boss"]
    with start(sluice, "a", tokens) as a, start(sluice, "b", tokens, "--observe-only") as b:
        use(a, key)
        until(lambda: others(a, key) == ["b"] and others(b, key) == ["a"], "they know each other")
        b.does(201, "POST", f"/{QUEUE}/messages", {"body": "x"}, headers=key)
        for one, other in ((a, b), (b, a)):
            same(one.does(200, "GET", f"/{QUEUE}/workers", headers=key)["missing"], [], one.address)


class Recorder:
    """A proxy that remembers the requests of each connection, and the answers."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        self.to, self.known, self.requests, self.answers = None, threading.Event(), [], []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            self.known.wait()
            host, _, port = self.to.rpartition(":")
            node = socket.create_connection((host, int(port)))
            parts = ([], [])
            self.requests.append(parts[0])
            self.answers.append(parts[1])
            for ends in ((client, node, parts[0]), (node, client, parts[1])):
                threading.Thread(target=self.copy, args=ends, daemon=True).start()

    def leads_to(self, address):
        self.to = address
        self.known.set()

    @staticmethod
    def copy(source, target, to):
        try:
            while some := source.recv(1 << 20):
                to.append(some)
                target.sendall(some)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def first_post(some):
    """The challenge, and the first request after it."""
    at = some.index(b"POST ")
    body = some.index(b"\r\n\r\n", at) + 4
    return some[:at], some[at:body + int(re.search(rb"Content-Length: (\d+)", some[at:body])[1])]


def answers_to(address, *requests):
    """The statuses of the answers to these requests, on a new connection."""
    host, _, port = address.rpartition(":")
    text = b""
    with socket.create_connection((host, int(port)), timeout=60) as line:
        for count, request in enumerate(requests, 1):
            line.sendall(request)
            while text.count(b"HTTP/1.1 ") < count:
                more = line.recv(65536)
                holds(more, f"the connection was closed: {text}")
                text += more
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+)", text)]


@case
def a_request_to_an_owner_that_was_seen_is_refused_on_another_connection(sluice):
    tokens, keys = make_tokens(sluice, boss="scope=admin queue=*")
    key, recorder = keys["boss"], Recorder()
    with start(sluice, "b", tokens, "--set", f"advertise={recorder.url}") as b, start(sluice, "a", tokens) as a:
        recorder.leads_to(b.address)
        use(b, key)
        until(lambda: others(a, key) == ["b"], "a knows b")
        sent = lambda: [i for i, parts in enumerate(recorder.requests) if any(b"/shards " in part for part in parts)]
        until(lambda: a.does(201, "POST", f"/{QUEUE}/messages", {"body": "x"}, headers=key) and sent(), "a asks b")
        index = sent()[0]
        until(lambda: len(recorder.answers[index]) > 1, "b answers")
        challenge, request = first_post(b"".join(recorder.requests[index]))
        same(re.findall(rb"HTTP/1.1 (\d+)", b"".join(recorder.answers[index]))[:2], [b"200", b"200"], "as it was sent")
        before = b.does(200, "GET", f"/{QUEUE}/stats", headers=key)["sent"]
        same(answers_to(b.address, request), [403], "the request alone")
        same(answers_to(b.address, challenge, request), [200, 403], "with the challenge before it")
        same(b.does(200, "GET", f"/{QUEUE}/stats", headers=key)["sent"], before)


def etcd(path, body):
    line = http.client.HTTPConnection(COORD.partition("://")[2].partition("/")[0].split(",")[0], timeout=60)
    line.request("POST", "/v3/" + path, json.dumps(body))
    answer = json.loads(line.getresponse().read())
    line.close()
    return answer


def text64(text):
    return base64.b64encode(text.encode()).decode()


@case
def a_record_that_was_made_up_in_etcd_gets_no_token(sluice):
    if not COORD:
        return
    tokens, keys = make_tokens(sluice, boss="scope=admin queue=*")
    key, listener, prefix = keys["boss"], Listener(), "t-" + secrets.token_hex(6)
    with start(sluice, "a", tokens, "--coord", f"{COORD}/{prefix}") as a:
        use(a, key)
        rows = etcd("kv/range", {"key": text64(prefix), "range_end": text64(prefix + "~")})["kvs"]
        found = [(base64.b64decode(row["key"]).decode(), json.loads(base64.b64decode(row["value"]))) for row in rows
                 if b"live/member/a" in base64.b64decode(row["key"])]
        name, record = found[0]
        record |= {"name": "b", "url": "http://" + listener.address, "incarnationSha256": secrets.token_hex(32)}
        lease = etcd("lease/grant", {"TTL": "60"})["ID"]
        etcd("kv/put", {"key": text64(name[:-1] + "b"), "value": text64(json.dumps(record)), "lease": lease})
        until(lambda: others(a, key) == ["b"], "the record is believed")
        ask_everything(sluice, a, key)
        holds(secret_of(key).encode() not in listener.heard, listener.heard)
        holds(b"nonce=" in listener.heard, "the listener was asked for a proof")
        same(a.does(200, "GET", f"/{QUEUE}/workers", headers=key)["missing"], ["b"])
    listener.close()


def until_queue(stream, queue):
    """The events about queues, up to the first of this one."""
    found = []
    while not found or found[-1][1]["queue"] != queue:
        event = stream.next()
        holds(event is not None, f"the stream ended: {found}")
        if event[1] and event[1].get("queue"):
            found.append(event)
    return found


main()
