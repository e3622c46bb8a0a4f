# SPDX-License-Identifier: Apache-2.0
"""Owner-only consumption (consume=owner) from the command line: its sentences, and work that waits for an owner."""
import time

from harness import CONFLICT, INVALID, PATIENCE, UNAVAILABLE, case, contains, holds, main, same, until
from node import Node

SENTENCE = ("queue tasks: only the owner of a shard hands out its messages (consume=owner), and no node that owns shard 0 "
            "answers; start a node (sluice serve), or set consume=any")


@case
def a_word_that_is_no_choice_is_named(sluice):
    says = 'consume "sometimes" is not one of any, owner'
    sluice.refused(INVALID, "queue", "create", "tasks", "consume=sometimes", says=says)
    sluice.create("tasks")
    sluice.refused(INVALID, "queue", "set", "tasks", "consume=sometimes", says=says)


@case
def without_a_node_a_receive_is_refused_and_claims_nothing(sluice):
    sluice.create("tasks", "consume=owner")
    sluice.send("tasks", "x")
    stored = sluice.fingerprint()
    for options in ([], ["--wait", "1s"]):
        sluice.refused(UNAVAILABLE, "receive", "tasks", *options, says=SENTENCE)
    same(sluice.fingerprint(), stored)
    same(sluice.json("stats", "tasks")["ready"], 1)
    sluice.ok("queue", "set", "tasks", "consume=any")
    same([message["body"] for message in sluice.receive("tasks")], ["x"])


@case
def a_direct_worker_receives_through_the_owner(sluice):
    sluice.create("tasks", "consume=owner", "shards=2")
    with Node(sluice):
        for body in ("a", "b", "c", "d"):
            sluice.send("tasks", body)
        got = []
        for _ in range(4):
            message, = sluice.receive("tasks", "--wait", "5s")
            got.append(message["body"])
            sluice.ok("ack", "tasks", message["token"])
        same(sorted(got), ["a", "b", "c", "d"])
        same([event["type"] for event in sluice.events("tasks") if event["type"] == "claim-rejected"], [])
    sluice.send("tasks", "e")
    sluice.refused(UNAVAILABLE, "receive", "tasks", says="consume=owner")


@case
def the_holder_acks_without_an_owner(sluice):
    sluice.create("tasks", "consume=owner")
    sluice.send("tasks", "x")
    with Node(sluice) as node:
        message, = sluice.receive("tasks", "--wait", "5s")
        node.stop()
    sluice.ok("renew", "tasks", message["token"])
    sluice.ok("ack", "tasks", message["token"])
    same(sluice.json("stats", "tasks")["processed"], 1)


@case
def work_waits_for_an_owner_and_says_so_once(sluice):
    sluice.create("tasks", "consume=owner")
    sluice.send("tasks", "x")
    work = sluice.start("work", "tasks", "--once", "--", "cat")
    time.sleep(1.5)
    same(work.poll(), None)
    same(sluice.json("stats", "tasks")["ready"], 1)
    with Node(sluice):
        out, err = work.communicate(timeout=PATIENCE)
        same(work.returncode, 0, err.decode())
    contains(err.decode(), "waiting for an owner: " + SENTENCE)
    same(err.decode().count("waiting for an owner"), 1)
    holds(b"x" in out, out)


@case
def status_counts_what_is_ready_open_and_refused(sluice):
    sluice.create("tasks", "consume=owner")
    with Node(sluice, "--node", "a") as node:
        for body in ("x", "y", "z"):
            sluice.send("tasks", body)
        sluice.receive("tasks", "--wait", "5s")
        at = ("--store", f"http://{node.address}", "--json", "cluster")
        keys = ("queue", "shard", "owner", "ready", "open", "refusedClaims")
        until(lambda: [[row.get(key) for key in keys] for row in sluice.ok(*at, "status").lines()]
              == [["tasks", 0, "a", 2, 1, 0]], "the status counts them")
        events = [event["queue"] for event in sluice.ok(*at, "events").lines() if event["type"] == "ownership-acquired"]
        same(events, ["tasks"])  # it is owned by a claim


if __name__ == "__main__":
    main()
