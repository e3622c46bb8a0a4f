# SPDX-License-Identifier: Apache-2.0
"""cluster status, plan, drain, leave and events: three nodes of one store."""
import contextlib
import json
import os
import pty
import signal
import subprocess
import time

from harness import CONFLICT, INVALID, PATIENCE, PROGRAM, case, contains, holds, main, same
from node import Node

SHARD_KEYS = ["queue", "shard", "owner", "epoch", "planned", "moving"]
MEMBER_KEYS = ["name", "url", "version", "status", "capacity", "shards", "rulesLowest", "rulesNewest", "beatAgeMs", "leads",
               "self", "settings"]


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        holds(time.monotonic() < end, f"never happened: {what}")
        time.sleep(0.2)
    return found


class Cluster:
    """Nodes a, b and c."""

    def __init__(self, sluice, *options):
        self.sluice = sluice
        self.stack = contextlib.ExitStack()
        self.nodes = {name: self.stack.enter_context(Node(sluice, "--node", name, *options)) for name in "abc"}
        self.url = "http://" + ",".join(node.address for node in self.nodes.values())

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.stack.close()

    def ok(self, *words):
        return self.sluice.ok("--store", self.url, *words)

    def shards(self):
        return self.ok("--json", "cluster", "status").lines()

    def members(self):
        return {row["name"]: row for row in self.ok("--json", "cluster", "status", "--members").lines()}

    def healthy(self, count=3):
        until(f"{count} healthy nodes", lambda: sum(m["status"] == "healthy" for m in self.members().values()) == count)

    def owned(self, use):
        """Until every shard has the owner that the plan gives it; `use` keeps the shards in use."""
        def settled():
            use()
            rows = self.shards()
            return rows if rows and all(row["owner"] and row["owner"] == row["planned"] for row in rows) else None
        return until("every shard has its planned owner", settled)


def use_of(cluster, shards=12):
    def use():
        for i in range(3 * shards):
            cluster.ok("send", "wide", "x", "--group", str(i))
    return use


@case
def status_shows_members_leader_and_owners(sluice):
    sluice.ok("queue", "create", "wide", "shards=12")
    with Cluster(sluice) as cluster:
        cluster.healthy()
        rows = cluster.owned(use_of(cluster))
        same([(row["queue"], row["shard"]) for row in rows], [("wide", i) for i in range(12)])
        same(list(rows[0])[:6], SHARD_KEYS)
        holds({row["owner"] for row in rows} == {"a", "b", "c"}, rows)
        holds(all(row["epoch"] >= 1 for row in rows), rows)
        members = cluster.members()
        same(list(members["a"]), MEMBER_KEYS)
        [leader] = [name for name, m in members.items() if m["leads"]]
        same(sum(m["shards"] for m in members.values()), 12)
        text = cluster.ok("cluster", "status").out
        contains(text, f"coordination store, leader {leader} (epoch ", "healthy", "NODE", "QUEUE", "OWNER", "wide")
        # The store alone says the same of the owners.
        direct = sluice.ok("--json", "cluster", "status").lines()
        same([(r["queue"], r["shard"], r["owner"], r["epoch"]) for r in direct],
             [(r["queue"], r["shard"], r["owner"], r["epoch"]) for r in cluster.shards()])
        contains(sluice.ok("cluster", "status").out, "listed")


@case
def a_lone_node_counts_the_shards_that_it_owns(sluice):
    sluice.ok("queue", "create", "wide", "shards=2")
    with Node(sluice, "--node", "a") as node:
        at = ("--store", f"http://{node.address}")

        def owned():
            for i in range(6):
                sluice.ok(*at, "send", "wide", "x", "--group", str(i))
            return [row["owner"] for row in sluice.ok(*at, "--json", "cluster", "status").lines()] == ["a", "a"]
        until("a owns both shards", owned)
        [member] = sluice.ok(*at, "--json", "cluster", "status", "--members").lines()
        same((member["name"], member["shards"]), ("a", 2))


@case
def a_drained_node_has_no_shard_and_still_serves_until_it_is_undrained(sluice):
    sluice.ok("queue", "create", "wide", "shards=12")
    with Cluster(sluice) as cluster:
        cluster.healthy()
        cluster.owned(use_of(cluster))
        same(cluster.ok("--json", "cluster", "drain", "b").lines(), [{"node": "b", "draining": True}])
        use = use_of(cluster)

        def gone():
            use()
            return all(row["owner"] in ("a", "c") for row in cluster.shards())
        until("b has no shard", gone)
        same(cluster.members()["b"]["shards"], 0)
        status, _ = cluster.nodes["b"].ask("POST", "/v1/queues/wide/messages", {"body": "still"})
        same(status, 201)
        sluice.refused(CONFLICT, "--store", f"http://{cluster.nodes['a'].address}", "cluster", "drain", "b",
                       says=["this node is \"a\"", f"at http://{cluster.nodes['b'].address}"], field="node")
        sluice.refused(CONFLICT, "--store", cluster.url, "cluster", "drain", "z", says=["no member has the name \"z\""])
        same(cluster.ok("--json", "cluster", "undrain", "b").lines(), [{"node": "b", "draining": False}])
        cluster.healthy()
        until("the plan gives b shards again", lambda: (use(), cluster.members()["b"]["shards"] > 0)[1])


@case
def a_node_that_leaves_ends_with_status_0_and_the_plan_follows(sluice):
    sluice.ok("queue", "create", "wide", "shards=12")
    with Cluster(sluice) as cluster:
        cluster.healthy()
        cluster.owned(use_of(cluster))
        cluster.ok("cluster", "leave", "c")
        same(cluster.nodes["c"].process.wait(timeout=PATIENCE), 0)
        rows = cluster.owned(use_of(cluster))
        same({row["owner"] for row in rows}, {"a", "b"})
        kinds = [event["type"] for event in cluster.ok("--json", "cluster", "events").lines()]
        holds("coordinator-elected" in kinds and "ownership-acquired" in kinds and "member-health" in kinds, kinds)


@case
def the_plan_explains_itself(sluice):
    sluice.ok("queue", "create", "wide", "shards=12")
    with Cluster(sluice) as cluster:
        cluster.healthy()
        cluster.owned(use_of(cluster))
        rows = cluster.ok("--json", "cluster", "plan", "--all").lines()
        same([row["shard"] for row in rows], list(range(12)))
        same(list(rows[0]), ["queue", "shard", "from", "to", "reason", "why"])
        same({row["to"] for row in rows}, {"a", "b", "c"})
        contains(cluster.ok("cluster", "plan").err, "shards move")


@case
def events_resume_after_the_last_id(sluice):
    with Cluster(sluice) as cluster:
        cluster.healthy()
        one = f"http://{cluster.nodes['a'].address}"
        events = sluice.ok("--store", one, "--json", "cluster", "events").lines()
        holds(len(events) >= 6, events)
        rest = sluice.ok("--store", one, "--json", "cluster", "events", "--from", events[1]["id"]).lines()
        same([event["id"] for event in rest[:len(events) - 2]], [event["id"] for event in events[2:]])
        # Another node cannot continue from there, and says so.
        other = sluice.ok("--store", f"http://{cluster.nodes['b'].address}", "--json", "cluster", "events", "--from",
                          events[1]["id"]).lines()
        same(other[0]["type"], "gap")
        sluice.refused(INVALID, "--store", one, "cluster", "events", "--from", "17", says=["\"17\" is not a place"])
        same(sluice.ok("--store", one, "--json", "cluster", "events", "--from", "now").lines(), [])


@case
def following_sees_what_happens(sluice):
    with Cluster(sluice) as cluster:
        cluster.healthy()
        run = subprocess.Popen([PROGRAM, "--store", f"http://{cluster.nodes['a'].address}", "--json", "cluster", "events",
                                "--follow", "--from", "now"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                               cwd=sluice.folder, env=sluice.on_store)
        time.sleep(1)
        cluster.nodes["b"].process.kill()
        seen = []
        while not seen or (seen[-1]["node"], seen[-1].get("status")) not in (("b", "unhealthy"), ("b", "gone")):
            line = run.stdout.readline()
            holds(line, f"the stream has ended: {seen}")
            seen.append(json.loads(line))
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=PATIENCE)


@case
def the_live_screen_shows_the_table_and_ends_with_q(sluice):
    with Cluster(sluice) as cluster:
        cluster.healthy()
        master, slave = pty.openpty()
        run = subprocess.Popen([PROGRAM, "--store", cluster.url, "cluster", "status", "--watch"], stdin=slave, stdout=slave,
                               stderr=subprocess.PIPE, cwd=sluice.folder, env=sluice.on_store | {"TERM": "xterm"})
        os.close(slave)
        text = b""
        end = time.monotonic() + PATIENCE
        while b"healthy" not in text and time.monotonic() < end:
            text += os.read(master, 4096)
        contains(text.decode(errors="replace"), "NODE", "healthy")
        os.write(master, b"q")
        while True:  # what is drawn must be read, or the program waits for the terminal
            try:
                if not os.read(master, 4096):
                    break
            except OSError:
                break
        same(run.wait(timeout=PATIENCE), 0)
        os.close(master)


@case
def a_store_takes_no_orders(sluice):
    for words in (["plan"], ["drain", "a"], ["undrain", "a"], ["leave", "a"], ["events"]):
        sluice.refused(INVALID, "cluster", *words, says=["only a node can", "http://host:7333"], field="store")
    same(sluice.ok("--json", "cluster", "status").lines(), [])
    sluice.refused(INVALID, "cluster", "status", "--coord", "zk://a", says=["no coordination backend"], field="coord")


@case
def a_node_of_no_cluster_says_so(sluice):
    with Node(sluice, "--coord", "none") as node:
        sluice.refused(CONFLICT, "--store", f"http://{node.address}", "cluster", "status", says=["no member of a cluster"])


main(at_once=4)
