# SPDX-License-Identifier: Apache-2.0
"""cluster coord-switch beside a real etcd or Consul: every shard follows it, an interrupted run goes on, messages stay."""
import os
import signal
import subprocess
import time

from harness import INVALID, PATIENCE, PROGRAM, case, contains, holds, main, same
from node import Node

SERVICE = os.environ["SLUICE_TEST_COORD"]
STORE_ID = "0" * 32


def switch(sluice, *arguments):
    return sluice.ok("--json", "cluster", "coord-switch", *arguments).lines()


def fill(sluice):
    sluice.ok("queue", "create", "wide", "shards=12")
    sluice.ok("queue", "create", "small")
    for queue in ("small", "wide"):
        for i in range(3):
            sluice.ok("send", queue, f"{queue} {i}", "--group", str(i))


@case
def every_shard_follows_the_service_and_back(sluice):
    fill(sluice)
    rows = switch(sluice, "--coord", SERVICE, "--check")
    same([(row["queue"], row["shards"], row["following"], row["switched"]) for row in rows],
         [("small", 1, 0, 0), ("wide", 12, 0, 0)])
    same([row["from"] for row in rows], [STORE_ID, STORE_ID])
    holds(rows[0]["to"] != STORE_ID and rows[0]["to"] == rows[1]["to"], rows)
    done = switch(sluice, "--coord", SERVICE, "--yes")
    same([row["switched"] for row in done], [1, 12])
    again = switch(sluice, "--coord", SERVICE, "--yes")
    same([(row["following"], row["switched"], "from" in row) for row in again], [(1, 0, False), (12, 0, False)])
    words = sluice.ok("cluster", "coord-switch", "--coord", "store:", "--yes", "wide")
    same(words.out, "[1/1] wide: switched 12 of 12 shards\n")
    contains(words.err, "switched 12 of 12 shards to store:")
    same([row["following"] for row in switch(sluice, "--coord", SERVICE, "--check")], [1, 0])


@case
def messages_and_locks_survive(sluice):
    fill(sluice)
    [held] = sluice.receive("small")
    switch(sluice, "--coord", SERVICE, "--yes")
    sluice.ok("ack", "small", held["token"])
    same(sorted(m["body"] for m in sluice.receive("small", "--max", "9")), ["small 1", "small 2"])
    same(sluice.stats("wide")["ready"], 3)


@case
def a_live_owner_goes_on_until_a_node_of_the_new_service_takes_over(sluice):
    fill(sluice)
    with Node(sluice) as node:
        status, _ = node.ask("POST", "/v1/queues/small/messages", {"body": "owned"})
        same(status, 201)
        switch(sluice, "--coord", SERVICE, "--yes")
        status, _ = node.ask("POST", "/v1/queues/small/messages", {"body": "after"})
        same(status, 201)
    same(len(sluice.receive("small", "--max", "9")), 5)


@case
def a_run_that_was_killed_is_completed_by_the_next_one(sluice):
    for i in range(40):
        sluice.ok("queue", "create", f"q{i:02}", "shards=4")
    run = subprocess.Popen([PROGRAM, "cluster", "coord-switch", "--coord", SERVICE, "--yes"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=sluice.folder, env=sluice.on_store)
    for _ in range(5):  # progress comes line by line
        contains(run.stdout.readline().decode(), "switched 4 of 4 shards")
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=PATIENCE)
    rows = switch(sluice, "--coord", SERVICE, "--yes")
    same([row["following"] for row in rows], [4] * 40)
    switched = sum(row["switched"] for row in rows)
    holds(0 < switched <= 140, f"{switched} shards were left")


@case
def it_refuses_what_it_cannot_do(sluice):
    fill(sluice)
    sluice.refused(INVALID, "cluster", "coord-switch", says=["needs --coord"])
    sluice.refused(INVALID, "cluster", "coord-switch", "--coord", SERVICE,
                   says=["nodes of another coordination service", "--yes"], field="--yes")
    sluice.refused(INVALID, "cluster", "coord-switch", "--coord", "zookeeper://a", says="is no coordination backend")
    sluice.refused(INVALID, "cluster", "coord-switch", "--coord", "zookeeper://a", "--yes",
                   says=["\"zookeeper://a\" is no coordination backend", "etcd://"], field="coord")
    with Node(sluice) as node:
        sluice.refused(INVALID, "--store", f"http://{node.address}", "cluster", "coord-switch", "--coord", SERVICE, "--yes",
                       says=["open the store itself"])
    same([row["following"] for row in switch(sluice, "--coord", SERVICE, "--check")], [0, 0])


@case
def a_service_that_does_not_answer_changes_nothing(sluice):
    fill(sluice)
    began = time.monotonic()
    run = sluice.run("cluster", "coord-switch", "--coord", SERVICE.split("://")[0] + "://127.0.0.1:1", "--yes")
    holds(run.status != 0, str(run))
    holds(time.monotonic() - began < PATIENCE, "it waits for the service without a limit")
    same([row["following"] for row in switch(sluice, "--coord", SERVICE, "--check")], [0, 0])


main()
