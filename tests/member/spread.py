#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Three real nodes: where the shards of several queues go, and what every node says about them.

nodes.py says which service and which store the nodes use. Speaks TAP.
"""
import os
import signal
import sys
import traceback

from nodes import PATIENCE, Cluster, holds, until

TWELVE = 12


def use_all_shards(node, queue, shards):
    """Sends until every shard of the queue was used. Returns the number of messages."""
    body = [{"body": "x", "group": f"g{i}"} for i in range(30 * shards)]
    status, answer = node.ask("POST", f"/v1/queues/{queue}/messages", {"messages": body})
    holds(status in (200, 201), answer)
    return len(body)


def create(node, queue, shards):
    status, answer = node.ask("PUT", f"/v1/queues/{queue}", {"shards": shards})
    holds(status in (200, 201), answer)
    return use_all_shards(node, queue, shards)


def owned_of(cluster, queue):
    """The shards of the queue that each node took and did not lose, by its log."""
    return [len([1 for name, _ in n.owned() if name == queue]) for n in cluster.nodes.values()]


def every_queue_is_spread_over_the_nodes():
    """All calls come to one node, which is the first owner of everything. Small queues come before the large ones."""
    with Cluster(nodes=3) as cluster:
        until(cluster.settled, "the cluster has a leader")
        first = cluster.any()
        for i in range(7):
            create(first, f"small{i}", 1)
        even = [TWELVE // 3] * 3
        for i in range(3):
            create(first, f"large{i}", TWELVE)
            until(lambda: owned_of(cluster, f"large{i}") == even, f"large{i} is spread evenly")
        for i in range(3):
            counts = owned_of(cluster, f"large{i}")
            print(f"# large{i}: {counts}", flush=True)
            holds(counts == even, f"large{i} is at {counts}")


def view(node, queue):
    status, answer = node.ask("GET", "/v1/cluster")
    holds(status == 200, answer)
    return [row for row in answer["shards"] if row["queue"] == queue]


def all_counted(cluster, queue, shards):
    """Every node counts all shards of the queue."""
    return all(len(rows) == shards and all(row["counted"] for row in rows)
               for rows in (view(n, queue) for n in cluster.live()))


def is_stopped(pid):
    """Every thread of the process is."""
    folder = f"/proc/{pid}/task"
    stats = [open(f"{folder}/{thread}/stat").read().rpartition(")")[2].split()[0] for thread in os.listdir(folder)]
    return set(stats) == {"T"}


def every_node_shows_what_the_owners_have():
    """A node that does not own a shard asks its owner. If that does not answer, the node says that it does not know."""
    shards = 6
    with Cluster(nodes=3) as cluster:
        until(cluster.settled, "the cluster has a leader")
        sent = create(cluster.any(), "counted", shards)
        until(lambda: sum(owned_of(cluster, "counted")) == shards and min(owned_of(cluster, "counted")) > 0,
              "every node owns some of it")
        for _ in range(3):
            sent += use_all_shards(cluster.any(), "counted", 1)
            until(lambda: all_counted(cluster, "counted", shards), "every node knows every shard")
            owners = set()
            for node in cluster.live():
                rows = view(node, "counted")
                total = sum(row["ready"] for row in rows)
                holds(total == sent or not all(row["counted"] for row in rows), f"{node.name} shows {total}, not {sent}")
                owners.add(tuple(row["owner"] for row in rows))
            holds(len(owners) == 1, f"the nodes name different owners: {owners}")
        stopped, asked = cluster.live()[:2]
        stopped.signal(signal.SIGSTOP)
        try:
            until(lambda: is_stopped(stopped.process.pid), "the process is stopped")
            rows = view(asked, "counted")
            wrong = [row for row in rows if row["owner"] == stopped.name and row["counted"]]
            holds(not wrong, f"counts of an owner that does not answer: {wrong}")
            holds([row for row in rows if row["owner"] == asked.name and row["counted"]], f"its own are known: {rows}")
        finally:
            stopped.signal(signal.SIGCONT)


def busy_queues_of_one_node_are_moved_away():
    """Nine queues of one shard, two to four at each node. Those of one node get all the traffic."""
    queues = [f"one{i}" for i in range(9)]
    with Cluster(nodes=3) as cluster:
        until(cluster.settled, "the cluster has a leader")
        for queue in queues:
            create(cluster.any(), queue, 1)
        until(lambda: sum(len(n.owned()) for n in cluster.live()) == 9 and
              all(2 <= len(n.owned()) <= 4 for n in cluster.live()), "every node has some")
        busy = max(cluster.live(), key=lambda n: len(n.owned()))
        hot = sorted(name for name, _ in busy.owned())

        def moved():
            for queue in hot:
                use_all_shards(busy, queue, 2)
            return [n for n in cluster.live() if n is not busy and {name for name, _ in n.owned()} & set(hot)]
        until(moved, "a busy queue is at another node", 4 * PATIENCE)
        rows = [row for queue in hot for row in view(busy, queue)]
        holds("traffic" in {row.get("reason") for row in rows}, f"the reason is the traffic: {rows}")
        leader = next(n for n in cluster.live() if n.metric("sluice_cluster_leader") == 1)
        plan = leader.ask("GET", "/v1/cluster/plan")[1]["shards"]
        holds([row for row in plan if row["queue"] in hot and row.get("traffic", 0) > 0], f"the plan shows it: {plan}")


CASES = [every_queue_is_spread_over_the_nodes, every_node_shows_what_the_owners_have,
         busy_queues_of_one_node_are_moved_away]


def main():
    print(f"1..{len(CASES)}")
    bad = 0
    for number, run in enumerate([case for case in CASES if not sys.argv[1:] or sys.argv[1] in case.__name__], 1):
        name = run.__name__.replace("_", " ")
        try:
            run()
            print(f"ok {number} - {name}", flush=True)
        except Exception:
            bad += 1
            print(f"not ok {number} - {name}")
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
