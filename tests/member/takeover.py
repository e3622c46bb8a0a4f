#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Real nodes that start at once, and a node that takes over from one that was killed. Which node leads,
and after how long does a shard have an owner?

    takeover.py [--rounds N] [--at-a-time N]

nodes.py says which service and which store the nodes use. Each round has a store of its own. The figures are printed
as comments. Speaks TAP.
"""
import concurrent.futures
import re
import signal
import subprocess
import sys
import time
import traceback

from nodes import COORD, PATIENCE, PROGRAM, SHARDS, Cluster, Node, Wrong, holds, until

NAMES = "abc"
LANE = {"consume": "owner", "visibilityTimeout": "100ms"}


class Started(Cluster):
    """A cluster whose nodes the test starts, all of them at once."""

    def __init__(self):
        super().__init__(nodes=1)
        self.nodes.pop("a").end()

    def start_all(self):
        began = time.monotonic()
        self.nodes = {name: Node(self, name, waits=False) for name in NAMES}
        for node in self.nodes.values():
            node.await_start()
        return began

    def kill_all(self):
        for node in self.nodes.values():
            node.signal(signal.SIGKILL)
        for node in self.nodes.values():
            node.end()


def has_owner(nodes):
    """Whether a receive that only an owner can serve is served."""
    for node in nodes:
        try:
            status, _ = node.ask("POST", "/v1/queues/lane/receive", {"max": 1, "wait": "0ms"}, timeout=5)
        except OSError:
            continue
        if status == 200:
            return True
    return False


def elected(cluster):
    """Every leader that a node has seen, in the order of the epochs."""
    text = "".join(node.log() for node in cluster.nodes.values())
    seen = re.findall(r"event=coordinator-elected node=(\S+) .*?epoch=(\d+)", text)
    return [name for epoch, name in sorted({(int(epoch), name) for name, epoch in seen})]


def first_leader(cluster, began):
    until(lambda: elected(cluster), "a leader is elected")
    took = time.monotonic() - began
    return elected(cluster), took


def prepare(node):
    holds(node.ask("PUT", "/v1/queues/lane", LANE)[0] in (200, 201), "the queue is there")
    holds(node.ask("POST", "/v1/queues/lane/messages", {"body": "1"})[0] == 201, "a message is sent")


def cold_start(_):
    """Three nodes at once on an empty store, and again after all of them were killed."""
    rows = []
    with Started() as cluster:
        for again in (False, True):
            began = cluster.start_all()
            if not again:
                prepare(cluster.any())
            until(lambda: has_owner(cluster.live()), "the lane has an owner", PATIENCE)
            owner = time.monotonic() - began
            leaders, lead = first_leader(cluster, began)
            rows.append({"again": again, "leaders": leaders, "owner": owner, "lead": lead})
            cluster.kill_all()
    return rows


def members(node):
    return [m["name"] for m in node.ask("GET", "/v1/cluster")[1]["members"]]


def killed_alone(_):
    """A node that was alone is killed, and a node of another name takes its place."""
    with Cluster(nodes=1) as cluster:
        prepare(cluster.nodes["a"])
        until(lambda: has_owner([cluster.nodes["a"]]), "the lane has an owner")
        cluster.nodes["a"].end()
        began = time.monotonic()
        b = cluster.start("b")
        until(lambda: has_owner([b]), "the lane has an owner again", 3 * PATIENCE)
        took = time.monotonic() - began
        until(lambda: members(b) == ["b"], "the dead node is no member any more")
        return {"owner": took, "lease": cluster.lease}


def a_lone_node_that_was_stopped_is_a_member_again(_pool, _count):
    """It answers no question, so it loses its shards. Its journals refuse it, and it finds the other node."""
    with Cluster(nodes=1) as cluster:
        a = cluster.nodes["a"]
        prepare(a)
        until(lambda: has_owner([a]), "the lane has an owner")
        a.signal(signal.SIGSTOP)
        try:
            b = cluster.start("b")
            until(lambda: has_owner([b]), "the lane has another owner", 3 * PATIENCE)
        finally:
            a.signal(signal.SIGCONT)
        holds(a.ask("POST", "/v1/queues/lane/messages", {"body": "2"})[0] == 201, "a message is sent")
        until(lambda: all(members(node) == ["a", "b"] for node in (a, b)), "both nodes list both")
        until(lambda: receives(a, "2"), "the message is received at the node that was stopped")


def receives(node, body):
    status, batch = node.ask("POST", "/v1/queues/lane/receive", {"max": 10, "wait": "100ms"})
    return status == 200 and any(m["body"] == body for m in batch["messages"])


def figures(what, seconds):
    seconds = sorted(seconds)
    print(f"# {COORD.partition(':')[0]}, {what}: p50 {seconds[len(seconds) // 2]:.1f} s, max {seconds[-1]:.1f} s"
          f" ({len(seconds)} times)", flush=True)


def rounds(pool, one, count):
    return list(pool.map(one, range(count)))


def the_first_node_by_name_leads_after_a_start_of_all(pool, count):
    rows = [row for both in rounds(pool, cold_start, count) for row in both]
    for again, what in ((False, "a start of three nodes"), (True, "a start after all were killed")):
        some = [row for row in rows if row["again"] == again]
        figures(what + ", to a leader", [row["lead"] for row in some])
        figures(what + ", to an owner", [row["owner"] for row in some])
        first = [row["leaders"][0] for row in some]
        print("# first leaders: " + ", ".join(f"{name} {first.count(name)}" for name in sorted(set(first))))
    holds(all(row["leaders"][0] == "a" for row in rows), "a leads first, each time")


def another_node_takes_over_from_a_killed_lone_node_after_a_lease(pool, count):
    rows = rounds(pool, killed_alone, count)
    figures("a lone node is killed, to an owner", [row["owner"] for row in rows])
    # Consul ends a session after twice its lease. The machine may be busy.
    most = (2 if COORD.startswith("consul") else 1) * rows[0]["lease"] + 15
    holds(all(row["owner"] < most for row in rows), f"an owner within {most:.0f} s")


def use_all(cluster):
    """Sends to more groups than there are shards."""
    for group in range(6 * SHARDS):
        body = {"body": "1", "group": f"g{group}"}
        holds(cluster.any().ask("POST", "/v1/queues/jobs/messages", body)[0] == 201, "a message is sent")


def every_shard_has_an_owner_with_its_first_call_after_a_start_of_all(_pool, _count):
    """A node claims what is used. After a start of all, no node knows what was used before."""
    with Started() as cluster:
        for again in (False, True):
            cluster.start_all()
            if not again:
                holds(cluster.any().ask("PUT", "/v1/queues/jobs", {"shards": SHARDS})[0] == 201, "the queue is there")
            until(cluster.settled, "the nodes know each other, and one leads")
            began = time.monotonic()
            use_all(cluster)
            until(cluster.all_owned, "every shard has an owner")
            figures("first calls, to an owner of every shard", [time.monotonic() - began])
            cluster.kill_all()


def differs(node):
    return node.ask("GET", "/v1/cluster")[1].get("settingsDiffer", "")


def nodes_go_by_their_settings_and_say_if_they_differ(_pool, _count):
    with Cluster("--set", "cluster.lease=3s", "--set", "cluster.coolDown=40s", nodes=1) as cluster:
        a = cluster.nodes["a"]
        status = a.ask("GET", "/v1/cluster")[1]
        holds(status["leaseMs"] == 3000 or COORD.startswith("consul"), f"the lease is {status['leaseMs']} ms")
        holds(status["settings"] == "lease=3s observe=3s coolDown=40s moves=auto movePause=2s moveCoolDown=1m",
              status["settings"])
        holds("settingsDiffer" not in status, "a lone node differs from no other")
        cluster.options = ("--set", "cluster.lease=3s", "--set", "cluster.coolDown=1m")
        b = cluster.start("b")
        for node, what in ((a, "a and b have coolDown=40s and coolDown=1m"),
                           (b, "b and a have coolDown=1m and coolDown=40s")):
            until(lambda: differs(node) == what, f"{node.name} says {what}")
            until(lambda: "event=cluster-settings-differ" in node.log(), f"the log of {node.name} says it")
        line = f"SETTINGS DIFFER: {differs(a)}. Give all nodes the same ones."
        done = subprocess.run([PROGRAM, "--store", "http://" + a.address, "cluster", "status"], stdout=subprocess.PIPE,
                              check=True)
        holds(line in done.stdout.decode(), done.stdout.decode())


CASES = [the_first_node_by_name_leads_after_a_start_of_all,
         another_node_takes_over_from_a_killed_lone_node_after_a_lease,
         a_lone_node_that_was_stopped_is_a_member_again,
         every_shard_has_an_owner_with_its_first_call_after_a_start_of_all,
         nodes_go_by_their_settings_and_say_if_they_differ]


def option(name, default):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def main():
    count, at_a_time = option("--rounds", 2), option("--at-a-time", 2)
    good = True
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        for number, case in enumerate(CASES, 1):
            try:
                case(pool, count)
                print(f"ok {number} - {case.__name__}", flush=True)
            except (Wrong, OSError) as why:
                good = False
                print("# " + "# ".join(traceback.format_exc().splitlines(True)), end="")
                print(f"not ok {number} - {case.__name__}: {why}", flush=True)
    print(f"1..{len(CASES)}")
    return not good


sys.exit(main())
