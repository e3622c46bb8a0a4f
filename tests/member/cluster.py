#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Three real nodes under load, while nodes are killed, stopped and cut off, and coordination or the store goes away.

    cluster.py [--faults NAME,...] [--long KILLS] [--idle SECONDS] [--mistakes] [--credentials]

nodes.py says which service and which store the nodes use. Every message must be acknowledged exactly once, and the
groups must stay in order. --faults runs only these faults. --long prints the failover times over so many kills, and
runs the faults with outages of 30 s. --idle prints the requests of idle nodes. Speaks TAP.
"""
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import figures
from nodes import (BUCKET, COORD, COORD_SERVERS, PATIENCE, PROGRAM, SHARDS, Cluster, Load, control, holds, prepared,
                   until)

OUTAGE = 3  # seconds after the outage is noticed; 30 in the long form


def the_owner_is_killed(cluster, load):
    victim = until(lambda: cluster.owner("jobs", 0), "shard 0 has an owner")
    victim.signal(signal.SIGKILL)
    victim.process.wait()
    until(cluster.all_owned, "every shard has an owner again", cluster.takeover_seconds())
    cluster.start(victim.name)


def another_owns(cluster, victim, shard):
    return any(("jobs", shard) in n.owned() for n in cluster.live() if n is not victim)


def the_owner_is_stopped_past_its_lease_and_resumes(cluster, load):
    victim = until(lambda: cluster.owner("jobs", 1), "shard 1 has an owner")
    victim.signal(signal.SIGSTOP)
    load.avoid = victim.name
    try:
        until(lambda: another_owns(cluster, victim, 1), "another node owns shard 1", cluster.takeover_seconds())
    finally:
        victim.signal(signal.SIGCONT)
    load.avoid = None
    time.sleep(1)
    until(cluster.settled, "the node is a member again")


def a_node_stops_in_order(cluster, load):
    victim = until(lambda: cluster.owner("jobs", 2), "shard 2 has an owner")
    load.avoid = victim.name
    victim.signal(signal.SIGTERM)
    holds(victim.process.wait(timeout=PATIENCE) == 0, "it ends with 0")
    until(cluster.all_owned, "every shard has an owner again", cluster.takeover_seconds())
    load.avoid = None
    cluster.start(victim.name)


def all_recovered(cluster):
    until(lambda: all(n.recovered() for n in cluster.live()), "every node is ready and not degraded")


def coordination_goes_away(cluster, load):
    for server in range(COORD_SERVERS):
        holds(control(f"stop {server}") == "ok", "the server stops")
    try:
        until(lambda: all(n.degraded() for n in cluster.live()), "every node is degraded")
        end = time.monotonic() + OUTAGE
        while time.monotonic() < end:
            load.progresses()
            holds(all(n.degraded() for n in cluster.live()), "a node is degraded until coordination is back")
    finally:
        for server in range(COORD_SERVERS):
            control(f"cont {server}")
    all_recovered(cluster)


def the_leader_of_the_service_is_killed(cluster, load):
    holds(COORD_SERVERS == 3, "three servers")
    until(cluster.at_rest, "no shard is to be moved after the fault before")
    before = {n.name: n.owned() for n in cluster.live()}
    leader = control("leader")
    holds(control(f"kill {leader}") == "ok", "the leader is killed")
    load.progresses()
    another = until(lambda: control("leader") not in ("-1", leader), "the service has another leader")
    holds(another, "another leader")
    all_recovered(cluster)
    time.sleep(cluster.lease)  # the sessions outlive the leader
    holds({n.name: n.owned() for n in cluster.live()} == before, "every owner keeps its shards")
    holds(control(f"start {leader}") == "ok", "the server starts again")


def the_owner_is_cut_off_from_coordination(cluster, load):
    """It goes on until the journal names another owner, which happens if another node needs the shard."""
    victim = until(lambda: cluster.owner("jobs", 0), "shard 0 has an owner")
    for link in victim.links.coord:
        link.cut()
    try:
        until(victim.degraded, "the node says that it is degraded")
        holds(all(n.recovered() for n in cluster.live() if n is not victim), "the other nodes are not degraded")
        end = time.monotonic() + max(OUTAGE, cluster.takeover_seconds() - 25)
        while time.monotonic() < end and not (OUTAGE < 10 and another_owns(cluster, victim, 0)):
            load.progresses()
            holds(victim.degraded(), "it is degraded as long as the cut lasts")
    finally:
        for link in victim.links.coord:
            link.mend()
    all_recovered(cluster)


def the_owner_is_cut_off_from_the_store(cluster, load):
    victim = until(lambda: cluster.owner("jobs", 0), "shard 0 has an owner")
    victim.links.store.cut()
    try:
        until(lambda: victim.ready()[0] == 503, "the node says that it is not ready")
        end = time.monotonic() + OUTAGE
        while time.monotonic() < end:
            time.sleep(0.2)
            holds(victim.ready()[0] != 200, "it is not ready as long as the cut lasts")
    finally:
        victim.links.store.mend()
    all_recovered(cluster)
    load.progresses()


def the_owner_is_cut_off_from_clients(cluster, load):
    """It stays the owner: the other nodes reach it, and clients reach them."""
    until(cluster.at_rest, "no shard is to be moved after the fault before")
    victim = until(lambda: cluster.owner("jobs", 0), "shard 0 has an owner")
    before, load.timeout = {n.name: n.owned() for n in cluster.live()}, 2
    victim.links.clients.cut()
    try:
        end = time.monotonic() + max(OUTAGE, cluster.lease + 1)
        while time.monotonic() < end:
            load.progresses()
        holds(all(n.recovered() for n in cluster.live()), "no node is degraded")
        holds({n.name: n.owned() for n in cluster.live()} == before, "every owner keeps its shards")
    finally:
        victim.links.clients.mend()
        load.timeout = 8


def the_store_goes_away(cluster, load):
    on_store = COORD == "store:"
    holds(control("stop", "SLUICE_TEST_RADOSGW_SOCKET") == "ok", "the gateway stops")
    try:
        until(lambda: all(n.ready()[0] == 503 for n in cluster.live()), "every node says that it is not ready")
        if on_store:
            until(lambda: all(n.metric("sluice_coordination_up") == 0 for n in cluster.live()), "coordination is away")
        time.sleep(OUTAGE)
        holds(all(n.ready()[0] != 200 for n in cluster.live()), "no node is ready until the store is back")
    finally:
        control("start", "SLUICE_TEST_RADOSGW_SOCKET")
    all_recovered(cluster)
    load.progresses()


def faults_here():
    """What can happen to this service and this store."""
    found = [the_owner_is_killed, the_owner_is_stopped_past_its_lease_and_resumes, a_node_stops_in_order]
    if COORD != "store:":
        found += [coordination_goes_away, the_owner_is_cut_off_from_coordination]
    if COORD_SERVERS == 3:
        found += [the_leader_of_the_service_is_killed]
    found += [the_owner_is_cut_off_from_clients]
    if BUCKET:
        found += [the_owner_is_cut_off_from_the_store, the_store_goes_away]
    return found


def no_message_is_lost_or_acknowledged_twice(faults):
    with prepared(cuttable=True) as cluster:
        until(cluster.settled, "the cluster has a leader")
        load = Load(cluster, "jobs")
        until(cluster.all_owned, "every shard has an owner")
        for fault in faults:
            began = time.monotonic()
            fault(cluster, load)
            until(cluster.settled, "the cluster is whole again")
            until(cluster.all_owned, "every shard has an owner again")
            holds(not load.wrong, f"{len(load.wrong)} wrong: {load.wrong[:3]}")
            print(f"# {fault.__name__.replace('_', ' ')}, {time.monotonic() - began:.1f} s: {len(load.sent)} sent, "
                  f"{len(load.acked)} acknowledged, {load.errors} attempts repeated", flush=True)
        count = load.finish()
        print(f"# {count} messages, each acknowledged once and in order; the slowest send took "
              f"{load.slowest * 1000:.0f} ms")


def fails(*options, env=None):
    done = subprocess.run([PROGRAM, "serve", "--listen", "127.0.0.1:0", *options], env={**os.environ, **(env or {})},
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    return done.returncode, done.stderr.decode()


def wrong_credentials_are_named():
    """Under with-coord --auth."""
    wrong = {"SLUICE_COORD_USER": "root", "SLUICE_COORD_PASSWORD": "nonsense",
             "SLUICE_COORD_TOKEN": "11111111-1111-1111-1111-111111111111"}
    folder = tempfile.mkdtemp(prefix="sluice-cluster-")
    code, text = fails("--store", "file://" + folder, "--coord", COORD, env=wrong)
    shutil.rmtree(folder)
    holds(code == 10 and "refuses" in text and "nonsense" not in text, text)


def journals_of_another_service_are_named():
    with Cluster(nodes=1, coord="store:") as cluster:
        node = cluster.live()[0]
        node.ask("PUT", "/v1/queues/jobs", {})
        node.ask("POST", "/v1/queues/jobs/messages", {"body": "x"})
        until(lambda: cluster.owner("jobs", 0), "the queue has an owner")
        node.signal(signal.SIGTERM)
        node.process.wait(timeout=PATIENCE)
        code, text = fails("--store", cluster.store_url, "--coord", COORD)
        holds(code == 9 and "queue jobs follows the coordination service 00000000000000000000000000000000" in text, text)


def a_node_of_another_store_is_refused():
    """Two environments on one service and prefix: the nodes of the first one go on."""
    folder = tempfile.mkdtemp(prefix="sluice-cluster-")
    with Cluster(nodes=1) as cluster:
        code, text = fails("--store", "file://" + folder, "--coord", cluster.coord, "--node", "z")
        holds(code == 4 and "member a of this" in text and "a prefix of their own" in text, f"{code} {text}")
        names = [member["name"] for member in cluster.any().ask("GET", "/v1/cluster")[1]["members"]]
        holds(names == ["a"], f"the members are {names}")
    shutil.rmtree(folder)


def mistakes_at_the_start_are_named():
    if COORD != "store:":
        journals_of_another_service_are_named()
        a_node_of_another_store_is_refused()
    with Cluster(nodes=1) as cluster:
        at = ["--store", cluster.store_url]
        code, text = fails(*at, "--coord", "zookeeper://host")
        holds(code == 2 and "is no coordination backend" in text, text)
        code, text = fails(*at, "--coord", cluster.coord, "--node", "a")
        holds(code == 4 and "the name \"a\" is in use by a live node" in text, text)
        code, text = fails(*at, "--capacity", "65")
        holds(code == 2 and "capacity 65 is not between 1 and 64" in text, text)


def a_node_without_the_queue_serves_it_when_its_owner_is_killed():
    """The calls write directly. They do not wait until the claims of the killed node have expired."""
    with prepared() as cluster:
        until(cluster.settled, "the cluster has a leader")
        victim = cluster.any()
        until(lambda: (victim.ask("POST", "/v1/queues/jobs/messages", {"body": "x", "group": secrets.token_hex(4)}),
                       all(("jobs", s) in victim.owned() for s in range(SHARDS)))[1], "one node owns every shard")
        victim.signal(signal.SIGKILL)
        victim.process.wait()
        took = figures.served(cluster, None)
        holds(took < cluster.lease / 2, f"the first message after the kill took {took:.1f} s")


def a_queue_that_waits_for_a_node_is_owned_by_a_claim():
    """Its first node looks for such queues at once. It takes none before it has joined: the journal would follow no service,
    and the next node would be refused."""
    def stop(node):
        node.signal(signal.SIGTERM)
        holds(node.process.wait(timeout=PATIENCE) == 0, "it ends with 0")
    with Cluster(nodes=1) as cluster:
        stop(cluster.any())
        subprocess.run([PROGRAM, "--store", cluster.store_url, "queue", "create", "lane", "consume=owner"], check=True,
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
        for name in ("b", "c"):
            node = cluster.start(name)
            until(lambda: ("lane", 0) in node.owned(), f"{name} owns the queue", 3 * cluster.lease + PATIENCE)
            stop(node)


def main():
    global OUTAGE
    arguments = sys.argv[1:]
    faults = faults_here()

    def under_faults():
        no_message_is_lost_or_acknowledged_twice(faults)

    cases = [("no message is lost or acknowledged twice", under_faults),
             ("mistakes at the start are named", mistakes_at_the_start_are_named),
             ("a node without the queue serves it when its owner is killed",
              a_node_without_the_queue_serves_it_when_its_owner_is_killed),
             ("a queue that waits for a node is owned by a claim", a_queue_that_waits_for_a_node_is_owned_by_a_claim)]
    if arguments[:1] == ["--faults"]:
        faults = [fault for fault in faults if fault.__name__ in arguments[1].split(",")]
        holds(len(faults) == len(arguments[1].split(",")), f"not all of {arguments[1]} can happen here")
        cases = cases[:1]
        if arguments[2:3] == ["--seconds"]:
            OUTAGE = int(arguments[3])
    if arguments[:1] == ["--long"]:
        OUTAGE = 30
        kills = int(arguments[1])
        cases = [("failover", lambda: figures.failover(kills)), ("transfer", figures.transfer_pause), cases[0]]
    if arguments[:1] == ["--credentials"]:
        cases = [("wrong credentials are named", wrong_credentials_are_named)]
    if arguments[:1] == ["--idle"]:
        cases = [("idle", lambda: figures.idle(int(arguments[1])))]
    # Each fault is a case of its own, which passes if nothing was lost in the end.
    titles = {name: [name] for name, _ in cases}
    for name in [name for name, run in cases if run is under_faults]:
        titles[name] += [fault.__name__.replace("_", " ") for fault in faults]
    print(f"1..{sum(map(len, titles.values()))}")
    bad = number = 0
    for name, run in cases:
        trace = []
        try:
            run()
        except Exception:
            bad += 1
            trace = traceback.format_exc().splitlines()
        for title in titles[name]:
            number += 1
            print(f"{'not ok' if trace else 'ok'} {number} - {title}")
        print("".join("# " + line + "\n" for line in trace), end="", flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
