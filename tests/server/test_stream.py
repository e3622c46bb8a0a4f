# SPDX-License-Identifier: Apache-2.0
"""/v1/stream: the events of many queues in one stream, in order, and on where a client stopped, at any node."""
import http.client
import json
import os
import signal
import socket
import time

from harness import case, contains, holds, main, same, until
from serving import Node, Stream, make_tokens

SUBSCRIBERS = 200


def stream(node, query="", headers=None):
    return Stream(node.address, "/v1/stream" + query, headers)


def opened(node, query="", headers=None):
    """A stream that has said that it sent what existed."""
    made = stream(node, query, headers)
    kind, _, _ = made.next()
    same(kind, None, "the first comment")
    return made


def event(made):
    """The next event; comments are passed over."""
    while True:
        found = made.next()
        if found is None or found[0] is not None:
            return found


def send(node, queue, *bodies, **more):
    for body in bodies:
        node.does(201, "POST", f"/{queue}/messages", {"body": body} | more)


def finish(node, queue):
    token = node.does(200, "POST", f"/{queue}/receive", {"worker": "one"})["messages"][0]["token"]
    node.does(200, "POST", f"/{queue}/ack", {"token": token})


def journal(node, queue):
    """The ids of all events of a queue, by the stream of that queue."""
    found, made = [], node.stream(f"/{queue}/events?from=0")
    while True:
        kind, value, _ = made.next()
        if kind is None:
            return found
        found.append(value["id"])


@case
def one_stream_has_the_events_of_many_queues(sluice):
    with Node(sluice) as node:
        for queue, shards in (("a", 1), ("b", 3), ("c", 1)):
            node.does(201, "PUT", f"/{queue}", {"shards": shards})
        made = opened(node, "?queue=a&queue=b")
        for _ in range(5):
            for queue in "abc":
                send(node, queue, "x")
        finish(node, "a")
        got = [event(made)[1] for _ in range(12)]
        same(sorted({e["queue"] for e in got}), ["a", "b"])
        for queue in "ab":
            same(sorted(e["event_id"] for e in got if e["queue"] == queue), sorted(journal(node, queue)))
        same([e["event_type"] for e in got if e["queue"] == "a"],
             5 * ["message-enqueued"] + ["message-claimed", "message-outcome"], "the order of one shard")
        same({e["schema_version"] for e in got}, {1})


@case
def signals_and_cancels_are_in_the_stream(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/a")
        made = opened(node, "?queue=a&type=signal-sent&type=signal-delivered&type=signal-ended&type=message-outcome")
        send(node, "a", "x")
        held = node.does(200, "POST", "/a/receive", {"worker": "one"})["messages"][0]["id"]
        sent = node.does(200, "POST", f"/a/messages/{held}/signals", {"kind": "ask", "payload": "how far?"})["id"]
        node.does(200, "POST", f"/a/messages/{held}/signals", {"kind": "interrupt", "now": True, "reason": "late"})
        got = [event(made)[1] for _ in range(6)]
        same([(e["event_type"], e["payload"].get("status"), e["payload"].get("signal_kind")) for e in got],
             [("signal-sent", "pending", "ask"), ("signal-delivered", "pending", "ask"),
              ("signal-sent", "applied", "interrupt"), ("signal-ended", "applied", "interrupt"),
              ("message-outcome", "cancelled", None), ("signal-ended", "missed", "ask")])
        same((got[0]["payload"]["signal"], got[0]["payload"]["count"], got[4]["payload"]["reason"]), (sent, 1, "late"))
        same({e["task_id"] for e in got}, {held})


@case
def a_stream_of_all_queues_has_new_ones_too(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/old")
        made = opened(node)
        node.does(201, "PUT", "/new")
        send(node, "new", "x")
        send(node, "old", "x")
        same(sorted(event(made)[1]["queue"] for _ in range(2)), ["new", "old"])


@case
def filters_hold_and_the_place_moves_past_what_they_hide(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks")
        made = opened(node, "?queue=tasks&type=message-outcome")
        send(node, "tasks", "x", "y")
        finish(node, "tasks")
        kind, value, place = event(made)
        same((kind, value["payload"]["status"]), ("message-outcome", "processed"))
        wanted = node.does(200, "GET", "/tasks/messages")["messages"][0]["id"]
        one = stream(node, f"?queue=tasks&from=0&message={wanted}")
        same(event(one)[1]["task_id"], wanted)
        rest = opened(node, "?queue=tasks", {"Last-Event-ID": place})
        send(node, "tasks", "z")
        same(event(rest)[0], "message-enqueued", "only what came later")


@case
def a_workflow_can_be_watched_alone(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        made = opened(node, "?workflow=order-7")
        send(node, "tasks", "x", workflow="order-8")
        send(node, "tasks", "y", workflow="order-7")
        got = [event(made)[1] for _ in range(2)]
        same({e["workflow_id"] for e in got}, {"order-7"})
        same(sorted(e["event_type"] for e in got), ["message-enqueued", "workflow-submitted"])


@case
def a_client_goes_on_at_another_node_where_it_stopped(sluice):
    with Node(sluice, "--coord", "none") as first, Node(sluice, "--coord", "none") as second:
        for queue, shards in (("a", 2), ("b", 1)):
            first.does(201, "PUT", f"/{queue}", {"shards": shards})
        nodes, got, place = (first, second), [], None
        made = opened(first, "?queue=a&queue=b")
        for turn in range(6):
            node, other = nodes[turn % 2], nodes[(turn + 1) % 2]
            for i in range(4):
                send(nodes[i % 2], "a", f"{turn}.{i}")
                send(nodes[i % 2], "b", f"{turn}.{i}")
            for _ in range(5):  # three of eight are left for the next one
                _, value, place = event(made)
                got.append(value["event_id"])
            made.close()
            made = stream(other, "?queue=a&queue=b", {"Last-Event-ID": place})
        while len(got) < 48:
            got.append(event(made)[1]["event_id"])
        same(len(set(got)), len(got), "nothing twice")
        same(sorted(got), sorted(journal(first, "a") + journal(first, "b")), "nothing is missing")


@case
def places_that_do_not_fit_are_told_apart(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks")
        send(node, "tasks", "x")
        _, _, place = event(stream(node, "?queue=tasks&from=0"))
        life = place.partition(".")[0]
        for beyond in (stream(node, f"?queue=tasks&from={life}.99_1"),
                       stream(node, "?queue=tasks", {"Last-Event-ID": f"{life}.99_1"})):
            kind, value, _ = event(beyond)
            same((kind, value["reason"]), ("gap", "beyond-the-end"))
            contains(value["detail"], "Last-Event-ID", "behind the newest event")
        node.does(204, "DELETE", "/tasks")
        queue = node.does(201, "PUT", "/tasks")
        send(node, "tasks", "y")
        other = stream(node, "?queue=tasks", {"Last-Event-ID": place})
        got = sorted((event(other) for _ in range(2)), key=lambda told: told[0])
        same([told[0] for told in got], ["gap", "message-enqueued"])
        same(got[0][1]["reason"], "another-life")
        contains(got[0][1]["detail"], "Last-Event-ID", "created after the event")
        for query, words in ((f"?from={life}", ["is not a place"]), ("?from=-", ["is not a place"]),
                             (f"?from={life}.1", ["is not a place"]), (f"?from={life}.1_{2**64}", ["is not a place"]),
                             ("?message=zzz", ["\"zzz\" is not a message id", "3f9a01cc-0-17"]),
                             ("?workflow=", ["workflow is empty"]),
                             ("?type=nothing", ["nothing", "type of event"]), ("?queue=none", ["none", "does not exist"]),
                             ("?colour=red", ["colour"])):
            answer = node.raw("GET", "/v1/stream" + query)
            holds(answer.status in (400, 404), f"{query}: {answer}")
            contains(answer.json["detail"], *words)
        holds(queue["id"], "a life of its own")


@case
def the_end_of_a_queue_is_told_and_the_others_go_on(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/a")
        node.does(201, "PUT", "/b")
        made = opened(node, "?queue=a&queue=b")
        node.does(204, "DELETE", "/a")
        same([event(made)[0] for _ in range(2)], ["queue-deleted", "end"])
        send(node, "b", "x")
        same(event(made)[1]["queue"], "b")
        node.does(204, "DELETE", "/b")
        same([event(made)[0] for _ in range(2)], ["queue-deleted", "end"])
        same(event(made), None, "there is nothing left")


class Unread:
    """A stream whose client reads nothing until it is asked to. Its buffers are small, so the node notices soon."""

    def __init__(self, address, path):
        host, port = address.rsplit(":", 1)
        self.line = socket.socket()
        self.line.settimeout(60)
        self.line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before the connection, or it has no effect
        self.line.connect((host, int(port)))
        self.line.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        self.got = b""
        while b"\n: \n" not in self.got:  # it has begun
            self.got += self.line.recv(1)

    def rest(self):
        """The blocks of the stream up to its end, as (type, data, id)."""
        self.line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        while not self.got.endswith(b"\r\n0\r\n\r\n"):
            some = self.line.recv(1 << 20)
            holds(some, "the stream was cut")
            self.got += some
        self.line.close()
        at, chunks = self.got.index(b"\r\n\r\n") + 4, []
        while True:
            end = self.got.index(b"\r\n", at)
            size = int(self.got[at:end], 16)
            if size == 0:
                break
            chunks.append(self.got[end + 2:end + 2 + size])
            at = end + 2 + size + 2
        for block in b"".join(chunks).decode().split("\n\n"):
            lines = dict(line.partition(": ")[::2] for line in block.split("\n") if ": " in line)
            if "event" in lines:
                yield lines["event"], json.loads(lines["data"]), lines["id"]


@case
def a_slow_client_is_told_that_it_lags_and_misses_nothing(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks")
        slow, total = Unread(node.address, "/v1/stream?queue=tasks"), 0
        while "sluice_streams_lagged_total 0" in node.raw("GET", "/metrics").body.decode():
            holds(total < 200_000, "a stream that is not read does not grow for ever")
            node.does(200, "POST", "/tasks/messages", {"messages": [{"body": "x"}] * 1000})
            total += 1000
        *before, (kind, _, place) = slow.rest()
        same(kind, "lagged", "its last word")
        got = [value["event_id"] for _, value, _ in before]
        rest = stream(node, "?queue=tasks", {"Last-Event-ID": place})
        while len(got) < total:
            got.append(event(rest)[1]["event_id"])
        same((len(set(got)), len(got)), (total, total), "nothing missing, nothing twice")


def threads(node):
    return len(os.listdir(f"/proc/{node.process.pid}/task"))


@case
def a_stream_has_no_thread_of_its_own(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks")
        first = opened(node, "?queue=tasks")
        before = threads(node)
        many = [opened(node, "?queue=tasks") for _ in range(SUBSCRIBERS)]
        send(node, "tasks", "x")
        got = [event(made)[1]["event_id"] for made in [first, *many]]
        same(len(set(got)), 1, "every client has the same event")
        holds(threads(node) < before + 40, f"{before} threads, then {threads(node)}")
        for made in many:
            made.close()
        until(lambda: "sluice_stream_subscribers 1\n" in node.raw("GET", "/metrics").body.decode(),
              "the streams of clients that left are gone")


@case
def a_client_has_its_share_of_the_streams(sluice):
    with Node(sluice, "--set", "limits.subscribers=2") as node:
        held = [opened(node) for _ in range(2)]
        answer = node.raw("GET", "/v1/stream")
        same((answer.status, answer.json["reason"]), (429, "too-many-streams"))
        contains(answer.json["detail"], "limits.subscribers")
        held[0].close()
        until(lambda: node.raw("HEAD", "/v1/stream").status == 200 and try_open(node), "a place is free again")


def try_open(node):
    line = http.client.HTTPConnection(node.address, timeout=10)
    line.request("GET", "/v1/stream")
    status = line.getresponse().status
    line.close()
    return status == 200


@case
def a_node_that_stops_ends_its_streams(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks")
        held = [opened(node, query) for query in ("", "?queue=tasks", "?queue=tasks&from=0")]
        node.process.terminate()
        for made in held:
            same(event(made), None, "the end")
        began = time.monotonic()
        same(node.process.wait(timeout=60), 0)
        holds(time.monotonic() - began < 30, "without waiting for anything")


def streams_of(node, headers):
    """A stream of each kind: many queues, all queues, one queue."""
    made = [Stream(node.address, path, headers)
            for path in ("/v1/stream?queue=q", "/v1/stream", "/v1/queues/q/events")]
    for one in made:
        same(one.next()[0], None, "the first comment")
    return made


def ends_by_its_token(made):
    for one in made:
        while (found := one.next()) and found[0] is None:
            pass
        same(found and (found[0], found[1]), ("end", {"reason": "token"}), "the last event")
        same(one.next(), None, "the end of the stream")


@case
def a_stream_ends_with_its_token(sluice):
    """A token that a reload removes hears nothing more; another one does."""
    path, keys = make_tokens(sluice, boss="scope=admin queue=*", gone="scope=read queue=*", kept="scope=read queue=*")
    with Node(sluice, "--tokens", path) as node:
        node.does(201, "PUT", "/q", {}, headers=keys["boss"])
        gone, kept = streams_of(node, keys["gone"]), streams_of(node, keys["kept"])
        with open(path) as file:
            rest = "".join(line for line in file if not line.startswith("gone"))
        sluice.path("tokens", rest)
        node.process.send_signal(signal.SIGHUP)
        ends_by_its_token(gone)
        same(node.raw("GET", "/v1/queues/q/events", headers=keys["gone"]).status, 401, "a new stream")
        node.does(201, "POST", "/q/messages", {"body": "x"}, headers=keys["boss"])
        for one in kept:
            while (found := one.next()) and found[0] != "message-enqueued":
                holds(found[0] != "end", f"a stream of another token ended: {found}")


@case
def a_stream_ends_when_its_token_expires(sluice):
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 20))
    path, keys = make_tokens(sluice, boss="scope=admin queue=*", brief=f"scope=read queue=* expires={when}")
    with Node(sluice, "--tokens", path) as node:
        node.does(201, "PUT", "/q", {}, headers=keys["boss"])
        ends_by_its_token(streams_of(node, keys["brief"]))


main()
