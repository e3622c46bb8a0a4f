# SPDX-License-Identifier: Apache-2.0
"""docs/rollout.md, stage by stage: each capability goes off, shadow, on and back, and messages flow all the time."""
import re
import signal
import time

from harness import case, contains, holds, main, same, until
from serving import Node, Stream


def flags(node):
    return dict(word.split("=") for word in node.raw("GET", "/v1/node").json["flags"].split())


def metric(node, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", node.raw("GET", "/metrics").body.decode(), re.M)
    return float(found[1]) if found else None


def cycle(node, queue="tasks"):
    """One message through the queue."""
    node.does(201, "POST", f"/{queue}/messages", {"body": "x"})
    got = node.does(200, "POST", f"/{queue}/receive", {"worker": "one", "wait": "20s"})["messages"]
    same(len(got), 1)
    node.does(200, "POST", f"/{queue}/ack", {"token": got[0]["token"]})


class Stage:
    """A node with a configuration file, which a stage changes and a reload or a restart takes over."""

    def __init__(self, sluice):
        self.sluice, self.node = sluice, None
        self.set()
        self.restart()

    def set(self, **states):
        self.config = self.sluice.path("node.conf", "".join(f"flags.{name} = {state}\n"
                                                            for name, state in states.items()))

    def reload(self, **states):
        self.set(**states)
        self.node.process.send_signal(signal.SIGHUP)
        until(lambda: {name: flags(self.node)[name] for name in states} == states, f"the node takes over {states}")

    def restart(self):
        if self.node:
            self.node.process.terminate()
            same(self.node.process.wait(timeout=60), 0)
            self.node.__exit__()
        self.node = Node(self.sluice, "--config", self.config, "--node", "near")

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.node.__exit__(*what)


@case
def a_flag_is_shown_by_the_node_the_cluster_and_a_metric(sluice):
    with Stage(sluice) as stage:
        same(flags(stage.node), {"bus": "on", "placement": "on", "dispatch": "on", "stream": "on"})
        stage.reload(stream="shadow")
        same(metric(stage.node, 'sluice_flag{capability="stream",state="shadow"}'), 1)
        same(metric(stage.node, 'sluice_flag{capability="stream",state="on"}'), None)
        contains(stage.node.raw("GET", "/v1/cluster").json["flags"], "stream=shadow")
        told = sluice.ok("cluster", "status", "--store", f"http://{stage.node.address}").out
        contains(told, "stream=shadow")


@case
def a_state_that_is_none_is_refused(sluice):
    told = sluice.run("serve", "--listen", "127.0.0.1:0", "--set", "flags.stream=maybe")
    holds(told.status != 0, "the node does not start")
    contains(told.err, "flags.stream", "maybe", "off, shadow, on")


@case
def stage_stream(sluice):
    with Stage(sluice) as stage:
        stage.node.does(201, "PUT", "/tasks")
        stage.reload(stream="off")
        answer = stage.node.raw("GET", "/v1/stream")
        same((answer.status, answer.json["reason"]), (503, "off"))
        contains(answer.json["detail"], "flags.stream")
        cycle(stage.node)
        for state in ("shadow", "on"):
            stage.reload(stream=state)
            made = Stream(stage.node.address, "/v1/stream?queue=tasks", None)
            same(made.next()[0], None, "it has begun")
            cycle(stage.node)
            same(made.until("message-outcome")[-1][1]["payload"]["status"], "processed")
            made.close()
        stage.reload(stream="off")  # and back
        same(stage.node.raw("GET", "/v1/stream").status, 503)
        cycle(stage.node)


def tickets(node):
    return [e for e in events(node) if e == "tickets-published"]


def events(node):
    made, found = node.stream("/tasks/events?from=0"), []
    while True:
        kind, _, _ = made.next()
        if kind is None:
            return found
        found.append(kind)


@case
def stage_dispatch(sluice):
    with Stage(sluice) as stage:
        node = stage.node
        sluice.ok("queue", "create", "tasks", "dispatch=tickets")
        node.does(200, "POST", "/tasks/workers", {"worker": "one", "capacity": 3, "ttl": "5m"})
        for state, granted in (("off", False), ("shadow", False), ("on", True), ("off", False)):
            stage.reload(dispatch=state)
            before, withheld = len(tickets(node)), metric(node, "sluice_dispatch_withheld_total")
            node.does(201, "POST", "/tasks/messages", {"body": "x"})
            if granted:
                until(lambda seen=before: len(tickets(node)) > seen, "a ticket is granted")
            if state == "shadow":
                until(lambda seen=withheld: metric(node, "sluice_dispatch_withheld_total") > seen, "it is counted")
            if not granted:
                time.sleep(0.3)
                same(len(tickets(node)), before, f"no ticket with dispatch={state}")
            got = node.does(200, "POST", "/tasks/receive", {"worker": "one", "wait": "20s"})["messages"]
            same(len(got), 1, f"the worker gets the message with dispatch={state}")
            node.does(200, "POST", "/tasks/ack", {"token": got[0]["token"]})


def owned(node):
    cluster = node.raw("GET", "/v1/cluster").json
    return [row for row in cluster["shards"] if row["owner"] == "near"]


@case
def stage_placement(sluice):
    with Stage(sluice) as stage:
        stage.node.does(201, "PUT", "/tasks")
        for state in ("off", "shadow", "on", "off"):
            stage.set(placement=state)
            stage.restart()
            same(flags(stage.node)["placement"], state)
            cycle(stage.node)
            answer = stage.node.raw("GET", "/v1/cluster")
            if state == "off":
                same(answer.status, 409, "the node is no member")
            else:
                same(answer.json["observeOnly"], state == "shadow")
            if state == "on":
                until(lambda: owned(stage.node), "the node owns the shard that it uses")
            if state == "shadow":
                same(owned(stage.node), [], "a node that observes claims nothing")


main()
