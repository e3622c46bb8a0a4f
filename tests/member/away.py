#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Real nodes that start while their coordination service is away. Under tests/servers/with-coord.

    away.py [--rounds N]

Each round kills the servers of the service, starts a node, and starts the servers again. The figures are printed as
comments. Speaks TAP.
"""
import secrets
import signal
import sys
import time
import traceback

from nodes import COORD, COORD_SERVERS, PATIENCE, Cluster, Node, Wrong, control, holds, until

LANE = {"consume": "owner", "visibilityTimeout": "100ms"}


def everywhere(order):
    for server in range(COORD_SERVERS):
        control(f"{order} {server}")


class Away:
    """The service is away inside of the block."""

    def __enter__(self):
        everywhere("kill")
        return self

    def __exit__(self, *_):
        self.started = time.monotonic()
        everywhere("start")
        self.served = time.monotonic()


def prepare(node):
    for name, settings in (("jobs", {}), ("lane", LANE)):
        holds(node.ask("PUT", f"/v1/queues/{name}", settings)[0] in (200, 201), f"{name} is there")
    holds(node.ask("POST", "/v1/queues/lane/messages", {"body": "1"})[0] == 201, "a message is sent")


def lane_is_served(node):
    """Whether a receive that only an owner can serve is served."""
    return node.ask("POST", "/v1/queues/lane/receive", {"max": 1, "wait": "0ms"}, timeout=5)[0] == 200


def works(node):
    """Sends, receives and acknowledges, without an owner."""
    status, sent = node.ask("POST", "/v1/queues/jobs/messages", {"body": "x"})
    holds(status == 201, sent)
    status, got = node.ask("POST", "/v1/queues/jobs/receive", {"max": 1, "wait": "5s"})
    holds(status == 200 and len(got["messages"]) == 1, got)
    status, done = node.ask("POST", "/v1/queues/jobs/ack", {"token": got["messages"][0]["token"]})
    holds(status == 200, done)


def stop(node):
    node.signal(signal.SIGTERM)
    holds(node.process.wait(timeout=PATIENCE) == 0, "it ends with 0")


def started_alone(cluster):
    """Seconds to the start without the service, and to an owner after its servers were started, and served."""
    with Away() as away:
        began = time.monotonic()
        node = cluster.start("a")
        start = time.monotonic() - began
        holds(node.degraded(), "it says that it is degraded")
        holds("event=coordination-away" in node.log(), "the log says why")
        works(node)
        holds(not lane_is_served(node), "it claims nothing")
        holds(not node.owned(), node.owned())
        status, shown = node.ask("GET", "/v1/cluster")
        holds(status == 200 and shown["degraded"] and shown["members"] == [], shown)
    until(lambda: lane_is_served(node), "the lane has an owner")
    owner = time.monotonic()
    until(node.recovered, "it is not degraded any more")
    holds([m["name"] for m in node.ask("GET", "/v1/cluster")[1]["members"]] == ["a"], "it is a member")
    stop(node)
    return start, owner - away.started, owner - away.served


def figures(what, seconds):
    seconds = sorted(seconds)
    print(f"# {COORD.partition(':')[0]}, {what}: p50 {seconds[len(seconds) // 2]:.1f} s, max {seconds[-1]:.1f} s"
          f" ({len(seconds)} times)", flush=True)


def a_node_starts_and_joins_when_the_service_is_back(count):
    with Cluster(nodes=1) as cluster:
        prepare(cluster.nodes["a"])
        until(lambda: lane_is_served(cluster.nodes["a"]), "the lane has an owner")
        stop(cluster.nodes["a"])
        rows = [started_alone(cluster) for _ in range(count)]
        figures("a start without the service", [row[0] for row in rows])
        figures("the servers are started again, to an owner", [row[1] for row in rows])
        figures("the servers serve again, to an owner", [row[2] for row in rows])


def its_calls_go_to_live_owners(_):
    with Cluster(nodes=1) as cluster:
        owner = cluster.nodes["a"]
        prepare(owner)
        until(lambda: lane_is_served(owner), "the lane has an owner")
        with Away():
            node = cluster.start("b")
            holds(node.degraded(), "it says that it is degraded")
            until(lambda: lane_is_served(node), "a receive that only the owner can serve is served")
            works(node)
            holds(not node.owned(), node.owned())
        until(lambda: node.recovered() and owner.recovered(), "both are members")
        until(cluster.settled, "they see each other")


def a_refusal_of_the_service_is_named_later(_):
    """The journals follow `store:`. The node cannot know which service it will meet."""
    with Cluster(nodes=1, coord="store:") as cluster:
        prepare(cluster.nodes["a"])
        until(lambda: lane_is_served(cluster.nodes["a"]), "the lane has an owner")
        stop(cluster.nodes["a"])
        cluster.coord = COORD + "/t-" + secrets.token_hex(6)
        with Away():
            node = cluster.start("a")
        until(lambda: "follows the coordination service" in node.ask("GET", "/v1/cluster")[1].get("degradedWhy", ""),
              "the node says why it does not join")
        contains = node.ready()[1]["degraded"]
        holds("coord-switch" in contains, contains)
        works(node)
        holds(not lane_is_served(node) and not node.owned(), "it claims nothing")
        stop(node)


def a_node_that_waits_for_the_service_ends_in_order(_):
    with Cluster(nodes=1) as cluster:
        stop(cluster.nodes["a"])
        with Away():
            stop(cluster.start("a"))
        everywhere("stop")  # silent: the start waits for an answer
        try:
            node = Node(cluster, "b", waits=False)
            time.sleep(1)
            node.signal(signal.SIGTERM)
            # Before the program has taken the signals, the system ends it.
            holds(node.process.wait(timeout=PATIENCE) in (143, -signal.SIGTERM), "a signal during the start ends it")
        finally:
            everywhere("cont")


CASES = [a_node_starts_and_joins_when_the_service_is_back, its_calls_go_to_live_owners,
         a_refusal_of_the_service_is_named_later,
         a_node_that_waits_for_the_service_ends_in_order]


def main():
    count = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 2
    good = True
    for number, case in enumerate(CASES, 1):
        words = case.__name__.replace("_", " ")
        try:
            case(count)
            print(f"ok {number} - {words}", flush=True)
        except (Wrong, OSError) as why:
            good = False
            print("# " + "# ".join(traceback.format_exc().splitlines(True)), end="")
            print(f"not ok {number} - {words}: {why}", flush=True)
    print(f"1..{len(CASES)}")
    return not good


sys.exit(main())
