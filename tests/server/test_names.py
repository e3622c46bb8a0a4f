# SPDX-License-Identifier: Apache-2.0
"""The name of a registered worker belongs to one process, as long as that process gives signs of life."""
import signal
import time

from harness import case, contains, holds, main, same, until
from registering import Receive, join, made, workers
from serving import Node

LONG = "10m"  # a row that ends by itself after the test


def signs(row, name):
    return {"Sluice-Worker": f"{row['instance']} {name}"}


def try_join(node, queue, name, **more):
    return node.raw("POST", f"/v1/queues/{queue}/workers", {"worker": name} | more)


@case
def a_worker_that_was_killed_comes_back_under_its_name(sluice):
    made(sluice, "jobs", "shards=2")
    with Node(sluice) as node:
        url = "http://" + node.address
        at_work = ("--store", url, "work", "jobs", "--worker", "pod-1", "--register", "--ttl", LONG, "--", "true")
        first = sluice.start(*at_work)
        until(lambda: workers(node, "jobs").get("pod-1", {"waiting": 0})["waiting"] > 0, "it waits")
        before = workers(node, "jobs")["pod-1"]["since"]
        first.kill()
        first.wait()
        starts, worker = 0, None

        def is_back():
            nonlocal starts, worker
            if worker is None or worker.poll() is not None:
                starts, worker = starts + 1, sluice.start(*at_work)
            time.sleep(1)  # as a supervisor does
            return workers(node, "jobs").get("pod-1", {"since": before})["since"] != before

        until(is_back, "the new process is registered, although its joins were refused", 120)
        sluice.ok("--store", url, "send", "jobs", "x")
        until(lambda: node.does(200, "GET", "/jobs/stats")["processed"] == 1, "it works")
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
        print(f"# registered after {starts} starts")


@case
def a_refused_join_and_a_receive_of_another_process_do_not_extend_a_row(sluice):
    made(sluice, "jobs")
    with Node(sluice) as node:
        join(node, "jobs", "w1", ttl="5s")
        seen = workers(node, "jobs")["w1"]["seenAt"]
        refused = try_join(node, "jobs", "w1", ttl="5s")
        same((refused.status, refused.json["reason"]), (409, "worker-name-taken"))
        contains(refused.json["detail"], "its row ends in ", "s, unless it gives another sign of life")
        holds(seen > 0, seen)

        def joins():
            node.does(200, "POST", "/jobs/receive", {"worker": "w1"})
            return try_join(node, "jobs", "w1", ttl="5s").status == 200

        until(joins, "the name is free when the row ends")


@case
def a_process_that_disconnected_loses_its_name_to_the_next_one(sluice):
    made(sluice, "jobs", "shards=3")
    with Node(sluice) as node:
        row = join(node, "jobs", "w1", ttl=LONG)
        receive = Receive(node, "jobs", "w1", signs(row, "w1"))
        until(lambda: workers(node, "jobs")["w1"]["waiting"] == 1, "it waits")
        same(try_join(node, "jobs", "w1").status, 409, "a process that waits is alive")
        receive.leave()
        until(lambda: try_join(node, "jobs", "w1", ttl=LONG).status == 200, "another process takes over", 60)
        same(join(node, "jobs", "w1", 404, instance=row["instance"], beat=True)["reason"], "unknown-worker")


@case
def a_worker_at_another_node_keeps_its_name(sluice):
    made(sluice, "jobs")
    with Node(sluice, "--node", "a") as a, Node(sluice, "--node", "b") as b:
        row = join(a, "jobs", "w1", ttl=LONG)
        receive = Receive(a, "jobs", "w1", signs(row, "w1"))
        until(lambda: workers(a, "jobs")["w1"]["waiting"] == 1, "it waits")
        receive.leave()  # and goes on at the other node
        until(lambda: workers(a, "jobs")["w1"]["waiting"] == 0, "it left")
        receive = Receive(b, "jobs", "w1", signs(row, "w1"))
        until(lambda: workers(a, "jobs")["w1"]["waiting"] == 1, "it waits there")
        end = time.monotonic() + 7  # longer than a process may be gone
        while time.monotonic() < end:
            same(try_join(a, "jobs", "w1").status, 409)
            time.sleep(0.5)
        receive.leave()


@case
def a_renewal_is_a_sign_of_life(sluice):
    made(sluice, "jobs")
    with Node(sluice) as node:
        row = join(node, "jobs", "w1", ttl="5s")
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        token = node.does(200, "POST", "/jobs/receive", {"worker": "w1"}, signs(row, "w1"))["messages"][0]["token"]
        end = time.monotonic() + 9  # longer than its ttl
        while time.monotonic() < end:
            before = time.time() * 1000
            node.does(200, "POST", "/jobs/renew", {"token": token}, signs(row, "w1"))
            shown = workers(node, "jobs")["w1"]
            holds(shown["capacity"] > 0, "it is still registered")
            holds(shown["seenAt"] >= before - 1000, f"it was seen now: {shown}")
            time.sleep(0.5)


@case
def a_header_that_names_no_instance_is_refused(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/jobs")
        for bad in ("w1", "0123456789abcdef", "0123456789abcdeg w1", "0000000000000000 w1", "0123456789abcdef " + "w" * 129):
            answer = node.does(400, "POST", "/jobs/receive", {"worker": "w1"}, {"Sluice-Worker": bad})
            contains(answer["detail"], "16 hex digits")


main()
