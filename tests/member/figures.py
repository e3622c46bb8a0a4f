# SPDX-License-Identifier: Apache-2.0
"""Figures of three nodes: failover over many kills, calls during a planned transfer, requests of idle nodes."""
import datetime
import http.client
import os
import re
import secrets
import signal
import threading
import time

from nodes import COORD, PATIENCE, Cluster, Load, holds, prepared, until


def served(cluster, but):
    """One message goes through the cluster; returns how long that took."""
    began = time.monotonic()
    body = secrets.token_hex(8)
    load = Load(cluster, "jobs", senders=0, workers=0)
    load.avoid = but
    status, _ = load.call("messages", {"body": body, "group": "probe"}, 3)
    while status == 201:
        _, batch = load.call("receive", {"max": 10, "wait": "100ms"}, 3)
        messages = batch["messages"]
        if messages:
            load.call("ack", {"tokens": [m["token"] for m in messages]}, 3)
        if any(m["body"] == body for m in messages):
            break
    return time.monotonic() - began


def owned_since(node, queue, shard):
    """When the node became the owner, by its log, as seconds since 1970."""
    found = re.findall(rf"time=(\S+)Z level=\S+ event=ownership-acquired .*?queue={queue} shard={shard} ", node.log())
    return datetime.datetime.fromisoformat(found[-1] + "+00:00").timestamp()


def show_events(cluster, began):
    """The events of every node since shortly before the kill."""
    since = datetime.datetime.fromtimestamp(began - 12, datetime.timezone.utc).isoformat()
    for node in cluster.nodes.values():
        for line in node.log().splitlines():
            if line.startswith("time=") and line[5:] > since and re.search(r"event=(member|coord|owner)", line):
                print(f"# {node.name}: {line}")


def failover(kills):
    service, ownership = [], []
    with prepared() as cluster:
        limit = (2 if COORD.startswith("consul") else 1) * cluster.lease + 1
        until(cluster.settled, "the cluster has a leader")
        until(lambda: (served(cluster, None), cluster.all_owned())[1], "every shard has an owner")
        for number in range(kills):
            victim = until(lambda: cluster.owner("jobs", 0), "shard 0 has an owner")
            began, killed_at = time.monotonic(), time.time()
            victim.signal(signal.SIGKILL)
            victim.process.wait()
            served(cluster, None)
            service.append(time.monotonic() - began)
            owner = until(lambda: (served(cluster, None), cluster.owner("jobs", 0))[1], "shard 0 has another owner")
            ownership.append(owned_since(owner, "jobs", 0) - killed_at)
            if ownership[-1] > limit or service[-1] > 1.5:
                print(f"# kill {number + 1} of {victim.name}: service after {service[-1]:.2f} s, owner {owner.name} after "
                      f"{ownership[-1]:.2f} s, load average {os.getloadavg()[0]:.1f}")
                show_events(cluster, killed_at)
            cluster.start(victim.name)
            until(cluster.settled, "the cluster is whole again")
            until(lambda: (served(cluster, None), cluster.all_owned())[1], "every shard has an owner")
    for name, times in (("service failover", service), ("ownership failover", ownership)):
        times.sort()
        print(f"# {COORD.split(':')[0]}: {name} over {kills} kills: p50 {times[len(times) // 2] * 1000:.0f} ms, "
              f"max {times[-1] * 1000:.0f} ms, load average {os.getloadavg()[0]:.1f}", flush=True)


def transfer_pause(rounds=5):
    """The longest time of a call to a shard while it moves in order."""
    pauses = []
    with prepared(nodes=2) as cluster:
        until(cluster.settled, "the cluster has a leader")
        until(lambda: (served(cluster, None), cluster.all_owned())[1], "every shard has an owner")
        for _ in range(rounds):
            victim = until(lambda: cluster.owner("jobs", 0), "shard 0 has an owner")
            other = next(n for n in cluster.live() if n is not victim)
            stop, slowest = threading.Event(), [0.0]

            def probe():
                while not stop.is_set():
                    began = time.monotonic()
                    try:
                        other.ask("POST", "/v1/queues/jobs/messages", {"body": "x", "group": "probe"}, secrets.token_hex(16))
                    except (OSError, http.client.HTTPException):
                        pass
                    took = time.monotonic() - began
                    if took > slowest[0]:
                        slowest[0] = took
                        slowest[1:] = [time.strftime("%H:%M:%S", time.gmtime(time.time() - took))]
            thread = threading.Thread(target=probe)
            thread.start()
            time.sleep(2)  # the first calls find out where the shard is
            slowest[:] = [0.0]
            victim.signal(signal.SIGTERM)
            victim.process.wait(timeout=PATIENCE)
            until(lambda: cluster.owner("jobs", 0), "shard 0 has an owner")
            stop.set()
            thread.join()
            pauses.append(slowest[0])
            if slowest[0] > 0.2:
                print(f"# a call at {slowest[1]} took {slowest[0] * 1000:.0f} ms while {victim.name} stopped")
                print("".join("# " + line + "\n" for n in (victim, other) for line in n.log().splitlines()[-8:]), flush=True)
            cluster.start(victim.name)
            until(cluster.settled, "the cluster is whole again")
            time.sleep(1)
    pauses.sort()
    print(f"# {COORD.split(':')[0]}: the slowest call during a planned transfer, {rounds} rounds: "
          f"p50 {pauses[len(pauses) // 2] * 1000:.0f} ms, max {pauses[-1] * 1000:.0f} ms", flush=True)


def requests(node):
    _, text = node.text("GET", "/metrics")
    found = {}
    for labels, value in re.findall(r"^sluice_store_requests_total\{(.*)\} (\d+)", text, re.M):
        found[labels] = found.get(labels, 0) + int(value)
    return found


def idle(seconds):
    for nodes in (1, 3):
        with Cluster(nodes=nodes) as cluster:
            time.sleep(15)
            if nodes > 1:
                until(cluster.settled, "the cluster has a leader")
            requests(cluster.live()[0])  # the first reading opens what later ones use
            before = {n.name: requests(n) for n in cluster.live()}
            again = {n.name: requests(n) for n in cluster.live()}  # what one reading costs
            time.sleep(seconds)
            after = {n.name: requests(n) for n in cluster.live()}
            for name in before:
                spent = {k: after[name][k] - again[name][k] - (again[name][k] - before[name][k]) for k in before[name]}
                spent = {k: v for k, v in spent.items() if v}
                day = {k: round(v * 86400 / seconds) for k, v in spent.items()}
                print(f"# {nodes} nodes, node {name}: {spent} in {seconds} s; per day {day}", flush=True)
