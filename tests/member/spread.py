#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Three real nodes: where the shards of several queues go, and what every node says about them.

nodes.py says which service and which store the nodes use. Speaks TAP.
"""
import sys
import traceback

from nodes import Cluster, holds, until

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


CASES = [every_queue_is_spread_over_the_nodes]


def main():
    print(f"1..{len(CASES)}")
    bad = 0
    for number, run in enumerate(CASES, 1):
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
