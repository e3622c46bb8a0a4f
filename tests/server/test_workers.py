# SPDX-License-Identifier: Apache-2.0
"""Workers that only wait: every node of a cluster shows them, to tokens that may read the queue."""
import threading
import time

from harness import case, contains, holds, main, same, until
from serving import Node, guarded


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


def now():
    return time.time() * 1000


@case
def a_worker_that_waits_is_shown_with_its_name_since_when_and_where(sluice):
    with Node(sluice, "--node", "near") as node:
        node.does(201, "PUT", "/jobs")
        before = now()
        receive = Receive(node, "jobs", "w1")
        until(lambda: workers(node, "jobs"), "the worker is listed")
        row = workers(node, "jobs")["w1"]
        same((row["open"], row["capacity"], row["waiting"], row["node"]), (0, 0, 1, "near"))
        holds(before - 1000 <= row["since"] <= row["seenAt"] <= now() + 1000, row)
        same(node.does(200, "GET", "/jobs/stats")["waiting"], 1)
        until(lambda: [row["name"] for row in sluice.ok("workers", "jobs", "--json").lines()] == ["w1"],
              "a process on the store asks the node, once that owns the queue")
        receive.leave()
        until(lambda: not workers(node, "jobs"), "a worker that disconnects is gone at once")
        same(node.does(200, "GET", "/jobs/stats")["waiting"], 0)


@case
def a_worker_stays_present_from_receive_to_receive(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/jobs")
        node.does(200, "POST", "/jobs/receive", {"worker": "w1"})
        first = workers(node, "jobs")["w1"]
        same(first["waiting"], 0, "it does not wait now")
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        token = node.does(200, "POST", "/jobs/receive", {"worker": "w1"})["messages"][0]["token"]
        row = workers(node, "jobs")["w1"]
        same((row["open"], row["since"]), (1, first["since"]), "with a lock it is the same worker")
        node.does(200, "POST", "/jobs/ack", {"token": token})


@case
def a_receive_without_a_name_has_the_name_of_its_locks(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/jobs")
        Receive(node, "jobs", wait="20s")
        until(lambda: workers(node, "jobs"), "it is listed")
        name = next(iter(workers(node, "jobs")))
        same(node.does(200, "GET", "/jobs/workers")["waiting"], [{"name": "", "receives": 1}])
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        until(lambda: workers(node, "jobs")[name]["open"] == 1, "its lock has the same name")


@case
def every_node_shows_the_workers_of_all(sluice):
    with Node(sluice, "--node", "a") as a, Node(sluice, "--node", "b") as b:
        for queue, shards in (("one", 1), ("four", 4)):
            a.does(201, "PUT", f"/{queue}", {"shards": shards})
            a.does(201, "POST", f"/{queue}/messages", {"body": "x"})
            a.does(200, "POST", f"/{queue}/receive", {"worker": "first"})
        open_receives = [Receive(node, queue, f"{queue}-{name}")
                         for name, node in (("a", a), ("b", b)) for queue in ("one", "four")]
        for node in (a, b):
            for queue in ("one", "four"):
                until(lambda: {f"{queue}-a", f"{queue}-b"} <= set(workers(node, queue)), f"both workers of {queue}")
                rows = workers(node, queue)
                same([rows[f"{queue}-{name}"]["node"] for name in "ab"], ["a", "b"])
                same([rows[f"{queue}-{name}"]["waiting"] for name in "ab"], [1, 1], "none is counted twice")
                same(sorted(rows), sorted(["first", f"{queue}-a", f"{queue}-b"]))
        until(lambda: b.does(200, "GET", "/four/stats")["waiting"] == 3, "the statistics count them")
        listed = sluice.ok("workers", "one", "--json").lines()
        same([row["name"] for row in listed], ["first", "one-a", "one-b"], "from the store")
        same(a.does(200, "GET", "/one/workers")["missing"], [])
        b.process.kill()
        b.process.wait()
        # The member is listed until its lease ends.
        answer = a.does(200, "GET", "/one/workers")
        holds(answer["missing"] in ([], ["b"]), answer)
        del open_receives


@case
def a_token_sees_the_workers_of_the_queues_that_it_may_read(sluice):
    node, keys = guarded(sluice, boss="scope=admin queue=*", some="scope=read queue=jobs")
    with node:
        for queue in ("jobs", "secret"):
            node.does(201, "PUT", f"/{queue}", headers=keys["boss"])
        both = [Receive(node, queue, "w", keys["boss"]) for queue in ("jobs", "secret")]
        told = lambda key: [row["queue"] for row in node.raw("GET", "/v1/node/workers", headers=keys[key]).json["workers"]]
        until(lambda: sorted(told("boss")) == ["jobs", "secret"], "both wait")
        same(told("some"), ["jobs"])
        same(node.raw("GET", "/v1/node/workers").status, 401)
        same(node.does(403, "GET", "/secret/workers", headers=keys["some"])["reason"], "forbidden")
        del both


@case
def a_queue_with_messages_and_no_workers_is_told(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/jobs")
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        url = "http://" + node.address
        contains(sluice.ok("--store", url, "stats", "jobs").out, "messages and no workers")
        contains(sluice.ok("--store", url, "stats").out, "messages and no workers")
        contains(sluice.ok("--store", url, "workers").out, "queue jobs has 1 ready message and no workers")
        metric = lambda: node.raw("GET", "/metrics").body.decode()
        contains(metric(), 'sluice_queue_waiting_workers{queue="jobs"} 0')
        node.does(200, "POST", "/jobs/receive", {"worker": "w1"})
        until(lambda: 'sluice_queue_waiting_workers{queue="jobs"} 1' in metric(), "the worker is counted")
        holds("no workers" not in sluice.ok("--store", url, "stats", "jobs").out, "there is one now")


main()
