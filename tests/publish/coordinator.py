#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Each event of a coordinator, of its tickets and of its locks is seen at a real node and on a real bus.

It runs under tests/servers/with-nats, with the environment of publish.py. Speaks TAP.
"""
import json
import signal
import subprocess
import sys

from publish import BUS, DUMP, Load, PATIENCE, PROGRAM, equals, nats, of_the_bus, prepared, run
from nodes import holds, until

SHARDS = 6


def at_node(node):
    """The events that the node keeps."""
    out = subprocess.run([PROGRAM, "--store", "http://" + node.address, "--json", "cluster", "events"],
                         stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
    return [json.loads(line) for line in out.splitlines()]


def types_at(node):
    return [e["type"] for e in at_node(node)]


def own(prefix):
    """The bus of one store: the stream of the cluster takes the events of one only."""
    return f"{BUS}?prefix={prefix}"


def on_the_bus(prefix):
    """Rows of publisher, type, node, status, queue, shard."""
    out = subprocess.run([DUMP, own(prefix), "--cluster"], stdout=subprocess.PIPE, check=True, timeout=3 * PATIENCE).stdout
    rows = [line.split(" ") for line in out.decode().splitlines()]
    holds(not [row for row in rows if row[0] == "refused"], f"an event does not fit its schema: {rows}")
    return [row[1:7] for row in rows if row[0] == "cluster"]


def leader_of(cluster):
    """The node that leads and says so."""
    for node in cluster.live():
        if node.metric("sluice_cluster_leader") == 1:
            return node
    return None


def send_groups(node, queue):
    """Sends to every shard."""
    body = [{"body": "x", "group": f"g{i}"} for i in range(60)]
    status, answer = node.ask("POST", f"/v1/queues/{queue}/messages", {"messages": body})
    holds(status in (200, 201), answer)


def events_of_a_coordinator():
    with prepared("led", SHARDS, nodes=3, bus=own("led")) as cluster:
        first = until(lambda: leader_of(cluster), "a node leads")
        until(lambda: "epoch-renewed" in types_at(first), "the leader renews its epoch")
        status, answer = first.ask("POST", "/v1/cluster/drain", {"node": first.name})
        holds(status == 204, answer)
        until(lambda: "coordinator-demoted" in types_at(first), "a leader that drains gives the lead up")
        second = until(lambda: [n for n in cluster.live() if n is not first and "coordinator-promoted" in types_at(n)],
                       "another node leads")[0]
        until(lambda: "epoch-renewed" in types_at(second), "the second leader renews its epoch")
        elected = [e for e in at_node(second) if e["type"] == "coordinator-elected"]
        holds([e["node"] for e in elected][-1] == second.name, f"its election: {elected}")
        for node in (first, second):
            renewed = [e["epoch"] for e in at_node(node) if e["type"] == "epoch-renewed"]
            holds(len(renewed) == len(set(renewed)), f"one event an epoch in so short a time: {renewed}")
            holds(node.metric("sluice_cluster_epoch_renewals_total") >= len(renewed), "each renewal is counted")
        for node in (first, second):
            holds("event=member-health" in node.log() and '=""' not in node.log(), "a line of the log has no empty value")
        wanted = {(first.name, "coordinator-elected"), (first.name, "coordinator-promoted"),
                  (first.name, "coordinator-demoted"), (first.name, "epoch-renewed"),
                  (second.name, "coordinator-elected"), (second.name, "coordinator-promoted"),
                  (second.name, "epoch-renewed")}
        until(lambda: wanted <= {(row[0], row[1]) for row in on_the_bus("led")}, "they are on the bus")


def a_paused_owner_says_which_shards_it_lost():
    with prepared("paused", SHARDS, nodes=3, bus=own("paused")) as cluster:
        until(cluster.settled, "the cluster has a leader")
        load = Load(cluster, "paused", senders=4, pause=0.0)
        owners = until(lambda: [n for n in cluster.live() if len(n.owned()) == SHARDS / 3] if
                       sum(len(n.owned()) for n in cluster.live()) == SHARDS else None, "every shard has an owner")
        victim = owners[-1]
        mine = victim.owned()
        lost_before = victim.metric("sluice_cluster_fenced_epochs_total")
        victim.signal(signal.SIGSTOP)
        load.avoid = victim.name
        try:
            others = [n for n in cluster.live() if n is not victim]
            until(lambda: mine <= others[0].owned() | others[1].owned(), "the others own its shards")
        finally:
            victim.signal(signal.SIGCONT)
        names = {f"{queue}/{shard}" for queue, shard in mine}

        def lost():
            return {f"{e['queue']}/{e['shard']}" for e in at_node(victim) if e["type"] == "ownership-lost"}
        until(lambda: names <= lost(), f"it says that it lost {names}")
        holds(victim.metric("sluice_cluster_fenced_epochs_total") >= lost_before + len(mine), "the metric counts them")
        holds("level=info event=ownership-lost" in victim.log(), "the log has it at the level info")
        holds(any("level=info event=ownership-acquired" in n.log() for n in others), "the log has the next owners")
        until(lambda: names <= {f"{row[4]}/{row[5]}" for row in on_the_bus("paused")
                                if row[:2] == [victim.name, "ownership-lost"]}, "they are on the bus")
        load.avoid = None
        load.finish()


def events_of_tickets_and_locks():
    with prepared("tickets", dispatch="tickets", orderingGuarantee=False) as cluster:
        node = cluster.any()

        def do(path, body, method="POST", fine=(200, 201, 204)):
            status, answer = node.ask(method, "/v1/queues/tickets" + path, body)
            holds(status in fine, answer)
            return answer

        def seen():
            out = subprocess.run([PROGRAM, "--store", "http://" + node.address, "--json", "events", "tickets"],
                                 stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
            return [(e["type"], e.get("reason") or None) for e in map(json.loads, out.splitlines())]

        joined = do("/workers", {"worker": "one", "capacity": 1, "ttl": "5m"})
        do("/messages", {"body": "x"})
        until(lambda: ("tickets-recovered", "lock-expired") in seen(), "a ticket that is not taken returns")
        until(lambda: [kind for kind, _ in seen()].count("tickets-published") == 2, "it is published again")
        do(f"/workers?worker=one&instance={joined['instance']}", None, "DELETE")
        until(lambda: ("tickets-recovered", "unknown-worker") in seen(), "the ticket of a worker that left returns")
        token = do("/receive", {"worker": "two", "wait": "20s"})["messages"][0]["token"]
        do("/renew", {"token": token})
        do("/ack", {"token": token})
        do("/renew", {"token": token}, fine=(409, 410))
        wanted = {("tickets-published", None), ("tickets-recovered", "lock-expired"),
                  ("tickets-recovered", "unknown-worker"), ("lock-renewed", None), ("lock-renewal-rejected", "terminal")}
        holds(wanted <= set(seen()), f"at the node: {seen()}")
        until(lambda: wanted <= {(e["event_type"], e["payload"].get("reason")) for e in of_the_bus("tickets")},
              "they are on the bus")
        holds("event=bus-schema" not in node.log(), "each fits its schema")


def events_of_a_shard_without_an_owner_are_counted():
    """Its owner is killed while the bus is away, and no call uses the shard again. The leader finds what waits there, tells
    the next owner, and the events reach the bus when it is back."""
    with prepared("other", nodes=3) as cluster:
        until(cluster.settled, "the cluster has a leader")
        leader = until(lambda: leader_of(cluster), "a node leads")
        victim = next(n for n in cluster.live() if n is not leader)
        # A node that has owned a shard before claims it at once. So only the victim owns more than its own.
        settings = {"shards": 3, "orderingGuarantee": True, "publishKeep": "2d"}
        holds(victim.ask("PUT", "/v1/queues/orphan", settings)[0] == 201, "the queue is there")

        def settled():
            send_groups(victim, "orphan")
            rows = [row for row in leader.ask("GET", "/v1/cluster")[1]["shards"] if row["queue"] == "orphan"]
            return victim.owned() and len(rows) == 3 and all(row["owner"] == row["planned"] for row in rows)
        until(settled, "every shard is where the plan has it, and the node owns one")
        shard = next(iter(victim.owned()))
        nats("kill 0")
        try:
            send_groups(victim, "orphan")
            until(lambda: victim.metric("sluice_bus_lag_events") > 0, "events wait for the bus")
            victim.signal(signal.SIGKILL)
            victim.process.wait()
            until(lambda: leader.metric("sluice_cluster_unowned_events") > 0, "the leader counts the events")
            holds(leader.metric("sluice_cluster_shards_unowned") > 0, "and the shard")
            until(lambda: any(shard in n.owned() for n in cluster.live()), "the shard gets an owner without a call")
            until(lambda: leader.metric("sluice_cluster_unowned_events") == 0, "nothing waits without an owner")
        finally:
            nats("start 0")
        equals(cluster, "orphan")


CASES = [events_of_a_shard_without_an_owner_are_counted, events_of_a_coordinator, a_paused_owner_says_which_shards_it_lost, events_of_tickets_and_locks]


def main():
    print(f"1..{len(CASES)}", flush=True)
    failed = 0
    for number, case in enumerate([c for c in CASES if not sys.argv[1:] or sys.argv[1] in c.__name__], 1):
        name, trace = run(case)
        failed += bool(trace)
        print("".join(f"# {line}\n" for line in trace) + f"{'not ok' if trace else 'ok'} {number} {name}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
