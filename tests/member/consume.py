#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Real nodes and a queue with consume=owner: on a directory, under with-redis on Redis, under with-radosgw on a bucket.

    consume.py [--figures ROUNDS]

SLUICE names the program. --figures prints the pause of consumption at planned transfers and at killed owners.
"""
import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from nodes import BUCKET, PATIENCE, PROGRAM, Cluster, Wrong, holds, until

QUEUE = "lane"
SHARDS = 3
NODES = 5  # a case that ends one does not start it again: to see a node as a member takes a lease
TAKEN = 15.0 if BUCKET else 5.0  # the lease


def store_url(cluster):
    name = "t-" + secrets.token_hex(6)
    if "SLUICE_TEST_REDIS" in os.environ:
        url = os.environ["SLUICE_TEST_REDIS"]
        return url + ("&" if "?" in url else "?") + "prefix=" + name
    return f"{BUCKET}/{name}" if BUCKET else "file://" + cluster.store


class Lanes(Cluster):
    """Nodes on the store of the environment, and one queue."""

    def __init__(self, nodes=NODES, shards=SHARDS):
        self.folder = tempfile.mkdtemp(prefix="sluice-consume-")
        self.store = os.path.join(self.folder, "store")
        self.store_url = self.url = store_url(self)
        self.coord, self.options, self.cuttable, self.nodes = "store:", (), False, {}
        for name in "abcde"[:nodes]:
            self.start(name)
        self.shards = shards
        status, answer = self.any().ask("PUT", f"/v1/queues/{QUEUE}", {"consume": "owner", "shards": shards,
                                                                     "visibilityTimeout": "60s"})
        holds(status in (200, 201), answer)

    def ready(self):
        until(self.settled, "the cluster has a leader")
        until(self.all_owned, "every shard has an owner", 3 * TAKEN + 15)
        return self

    def all_owned(self):
        return all(self.owner(QUEUE, s) for s in range(self.shards))

    def sluice(self, *words, status=0):
        """A process that uses the store directly."""
        done = subprocess.run([PROGRAM, *words], env={**os.environ, "SLUICE_STORE": self.url}, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=PATIENCE)
        holds(done.returncode == status, f"{words}: {done.returncode} {done.stderr.decode()}")
        return done.stdout.decode(), done.stderr.decode()

    def lines(self, *words):
        return [json.loads(line) for line in self.sluice(*words, "--json")[0].splitlines()]

    def events(self):
        return self.lines("events", QUEUE)


def receive(node, wait="500ms", max=10, timeout=25):
    status, answer = node.ask("POST", f"/v1/queues/{QUEUE}/receive", {"max": max, "wait": wait}, secrets.token_hex(16), timeout)
    return (answer["messages"] if status == 200 else []), status, answer


def send(node, body, **more):
    status, answer = node.ask("POST", f"/v1/queues/{QUEUE}/messages", {"body": body, **more}, secrets.token_hex(16))
    holds(status in (200, 201), (status, answer))
    return answer


def ack(node, token):
    status, answer = node.ask("POST", f"/v1/queues/{QUEUE}/ack", {"tokens": [token]}, secrets.token_hex(16))
    rows = answer if isinstance(answer, list) else answer.get("outcomes", [answer])
    return status, rows[0].get("code")


def call(cluster, path, body, avoid=None):
    """Repeats what got no answer, with the same request id, at any node."""
    request, end = secrets.token_hex(16), time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            status, answer = cluster.any(avoid).ask("POST", f"/v1/queues/{QUEUE}/{path}", body, request, 8)
            if status < 500 and status != 429:
                return answer
        except (OSError, http.client.HTTPException, IndexError):
            pass
        time.sleep(0.02)
    raise Wrong(f"no answer to {path}")


class Traffic:
    """A sender and two workers."""

    def __init__(self, cluster, avoid):
        self.cluster, self.avoid = cluster, avoid
        self.sent, self.acked, self.wrong, self.lock = set(), set(), [], threading.Lock()
        self.sending = self.working = True
        self.threads = [threading.Thread(target=self.run, args=(f,), daemon=True) for f in (self.send, self.work, self.work)]
        for t in self.threads:
            t.start()

    def run(self, what):
        try:
            what()
        except Exception as why:
            self.wrong.append(str(why))

    def send(self):
        while self.sending:
            body = secrets.token_hex(6)
            call(self.cluster, "messages", {"body": body}, self.avoid)
            self.sent.add(body)
            time.sleep(0.02)

    def work(self):
        while self.working:
            messages = call(self.cluster, "receive", {"max": 10, "wait": "500ms"}, self.avoid).get("messages", [])
            if not messages:
                continue
            answer = call(self.cluster, "ack", {"tokens": [m["token"] for m in messages]}, self.avoid)
            rows = answer if isinstance(answer, list) else answer.get("outcomes", [answer])
            with self.lock:
                for m, row in zip(messages, rows):
                    if row.get("code") == "OK" and m["body"] in self.acked:
                        self.wrong.append("acknowledged twice")
                    if row.get("code") == "OK":
                        self.acked.add(m["body"])

    def finish(self):
        self.sending = False
        until(lambda: self.wrong or self.sent <= self.acked, "every message is acknowledged", 90)
        self.working = False
        for t in self.threads:
            t.join(timeout=PATIENCE)
        holds(not self.wrong, self.wrong)


def drain(cluster, count, direct=False):
    """Consumes so many messages; returns their bodies."""
    bodies = []

    def some():
        if direct:
            for m in cluster.lines("receive", QUEUE, "--max", "50", "--wait", "1s"):
                cluster.sluice("ack", QUEUE, m["token"])
                bodies.append(m["body"])
        node = cluster.any()
        try:
            for m in receive(node)[0]:
                holds(ack(cluster.any(), m["token"])[1] == "OK", "an ack with the current token is done")
                bodies.append(m["body"])
        except (OSError, http.client.HTTPException):
            pass
        return len(bodies) >= count
    until(some, f"{count} messages are consumed", 90)
    return bodies


def one_outcome_each(cluster, bodies):
    """By the journal: every message was processed once, and no lock was granted outside the owner's epoch."""
    done = {}
    for e in cluster.events():
        holds(e["type"] != "claim-rejected", f"a process proposed a claim that it may not make: {e}")
        if e["type"] == "message-outcome" and e.get("status") == "processed":
            done[e["message"]] = done.get(e["message"], 0) + 1
    holds(all(n == 1 for n in done.values()), f"an outcome came twice: {done}")
    holds(sorted(bodies) == sorted(set(bodies)), "a message was consumed twice")


def owner_only_consumption(cluster):
    bodies = [secrets.token_hex(6) for _ in range(40)]
    for i, body in enumerate(bodies):
        if i % 8 == 0:
            cluster.sluice("send", QUEUE, body)
        else:
            send(cluster.any(), body)
    got = drain(cluster, len(bodies), direct=True)
    holds(sorted(got) == sorted(bodies), "what was sent is what was consumed")
    one_outcome_each(cluster, got)
    status, rows = cluster.any().ask("GET", "/v1/cluster")
    holds(status == 200, rows)


def ownership_transfer(cluster):
    """In order: the work that is in flight keeps its lock, and what waits at the former owner is served by the next."""
    victim = until(lambda: cluster.owner(QUEUE, 0), "shard 0 has an owner")
    for i in range(6):
        send(victim, f"in flight {i}")
    held = until(lambda: receive(victim, max=6)[0], "something is received")
    traffic = Traffic(cluster, victim.name)
    victim.signal(signal.SIGTERM)
    holds(victim.process.wait(timeout=PATIENCE) == 0, "it ends with 0")
    until(cluster.all_owned, "every shard has an owner again", 3 * TAKEN + 15)
    for m in held:
        holds(ack(cluster.any(), m["token"])[1] == "OK", "a lock survives the transfer")
        holds(ack(cluster.any(), m["token"])[1] != "OK", "... and ends once")
    traffic.finish()
    holds(not traffic.acked & {m["body"] for m in held}, "a message in flight was given to another worker")


def failover_with_a_pending_queue(cluster):
    """kill -9: dedup keys hold, and every message that waited is consumed once."""
    until(cluster.settled, "the cluster is whole")
    keys = [secrets.token_hex(6) for _ in range(30)]
    first = {key: send(cluster.any(), key, dedup=key) for key in keys}
    victim = until(lambda: cluster.owner(QUEUE, 1), "shard 1 has an owner")
    victim.signal(signal.SIGKILL)
    victim.process.wait()
    began = time.monotonic()
    for key in keys:
        again = call(cluster, "messages", {"body": key, "dedup": key})
        holds(again["id"] == first[key]["id"], f"the key names its first message: {again} {first[key]}")
    got = drain(cluster, len(keys))
    took = time.monotonic() - began
    holds(sorted(got) == sorted(keys), "what was sent is what was consumed")
    print(f"# {len(keys)} messages were consumed {took:.1f} s after the kill", flush=True)
    until(cluster.all_owned, "every shard has an owner again", 3 * TAKEN + 15)


def stale_consumer_after_lease_loss(cluster):
    """SIGSTOP past the lease: what waits at the former owner gets nothing from it afterwards."""
    until(cluster.settled, "the cluster is whole")
    victim = until(lambda: cluster.owner(QUEUE, 2), "shard 2 has an owner")
    send(victim, "before", group="x")
    before = until(lambda: receive(victim, max=1)[0], "one message is in flight")[0]
    stale = []

    def wait_at_the_victim():
        for _ in range(2):
            try:
                stale.extend(receive(victim, "20s", timeout=60)[0])
            except (OSError, http.client.HTTPException):
                pass
    waiting = threading.Thread(target=wait_at_the_victim, daemon=True)
    waiting.start()
    time.sleep(0.3)
    victim.signal(signal.SIGSTOP)
    others = [n for n in cluster.live() if n is not victim]
    try:
        until(lambda: any((QUEUE, 2) in n.owned() for n in others), "another node owns shard 2", 4 * TAKEN + 15)
        bodies = [secrets.token_hex(6) for _ in range(20)]
        for body in bodies[:10]:
            call(cluster, "messages", {"body": body}, victim.name)
    finally:
        victim.signal(signal.SIGCONT)
    for body in bodies[10:]:
        call(cluster, "messages", {"body": body})
    got = []

    def some():
        for m in receive(others[0])[0]:
            holds(ack(others[0], m["token"])[1] == "OK", "an ack with the current token is done")
            got.append(m["body"])
        for m in list(stale):  # given by the new owner: its lock is current
            stale.remove(m)
            holds(ack(others[0], m["token"])[1] == "OK", "a lock that a former owner granted")
            got.append(m["body"])
        return len(got) >= len(bodies)
    until(some, "every message is consumed", 90)
    holds(sorted(got) == sorted(bodies), "what was sent is what was consumed, once")
    holds(ack(others[0], before["token"])[1] == "OK", "the lock of before is the worker's")
    one_outcome_each(cluster, got)


def without_a_node_a_direct_worker_gets_no_owner(cluster):
    for n in cluster.live():
        n.signal(signal.SIGKILL)
        n.process.wait()
    cluster.sluice("send", QUEUE, "left")
    text = cluster.sluice("receive", QUEUE, status=7)[1]
    holds("only the owner of a shard hands out its messages (consume=owner)" in text, text)


class Probe:
    """A sender and a receiver that use one node; the gaps between deliveries."""

    def __init__(self, node):
        self.node, self.stop, self.times, self.lock = node, threading.Event(), [], threading.Lock()
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.send, self.receive)]
        for t in self.threads:
            t.start()

    def send(self):
        while not self.stop.is_set():
            try:
                send(self.node, "probe")
            except Exception:
                pass
            time.sleep(0.01)

    def receive(self):
        while not self.stop.is_set():
            try:
                messages, status, answer = receive(self.node, "1s", 50)
            except (OSError, http.client.HTTPException):
                continue
            if status == 503:
                time.sleep(0.05)
            if messages:
                with self.lock:
                    self.times.append(time.monotonic())
                self.node.ask("POST", f"/v1/queues/{QUEUE}/ack", {"tokens": [m["token"] for m in messages]})

    def end(self, since):
        self.stop.set()
        for t in self.threads:
            t.join(timeout=PATIENCE)
        times = [t for t in self.times if t >= since - 1]
        return max(b - a for a, b in zip(times, times[1:]))


def pauses(rounds, number, name):
    found = []
    with Lanes(nodes=2, shards=1) as cluster:
        cluster.ready()
        for _ in range(rounds):
            victim = until(lambda: cluster.owner(QUEUE, 0), "the queue has an owner")
            other = next(n for n in cluster.live() if n is not victim)
            probe = Probe(other)
            time.sleep(2)
            since = time.monotonic()
            victim.signal(number)
            victim.process.wait(timeout=PATIENCE)
            until(lambda: cluster.owner(QUEUE, 0), "the queue has another owner", 3 * TAKEN + 15)
            time.sleep(2)
            found.append(probe.end(since))
            cluster.start(victim.name)
            until(cluster.settled, "the cluster is whole again")
            time.sleep(1)
    found.sort()
    print(f"# consume=owner: pause at {name}, {rounds} rounds: p50 {found[len(found) // 2] * 1000:.0f} ms, "
          f"max {found[-1] * 1000:.0f} ms; load {os.getloadavg()[0]:.1f}", flush=True)


CASES = [owner_only_consumption, ownership_transfer, failover_with_a_pending_queue, stale_consumer_after_lease_loss,
         without_a_node_a_direct_worker_gets_no_owner]


def main():
    if sys.argv[1:2] == ["--figures"]:
        pauses(int(sys.argv[2]), signal.SIGTERM, "a planned transfer")
        pauses(int(sys.argv[2]), signal.SIGKILL, "a killed owner")
        return False
    print(f"1..{len(CASES)}")
    bad = 0
    with Lanes() as cluster:
        cluster.ready()
        for number, case in enumerate(CASES, 1):
            name = case.__name__.replace("_", " ").capitalize().replace("Owner only", "Owner-only")
            try:
                case(cluster)
                print(f"ok {number} - {name}", flush=True)
            except Exception:
                bad += 1
                print(f"not ok {number} - {name}")
                print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
