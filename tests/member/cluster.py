#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Three real nodes on one directory under load, while owners are killed, stopped and resumed, and coordination goes away.

    cluster.py [--long KILLS] [--idle SECONDS] [--credentials]

SLUICE names the program. Under tests/servers/with-coord the nodes coordinate through that server, otherwise through
the store. Every message must be acknowledged exactly once. --long prints the failover times over so many kills; --idle
prints the requests of idle nodes. Speaks TAP.
"""
import ctypes
import http.client
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

PROGRAM = os.environ["SLUICE"]
COORD = os.environ.get("SLUICE_TEST_COORD") or "store:"
LEASE = 5.0
PATIENCE = 60.0
SHARDS = 3


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class Wrong(Exception):
    pass


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def holds(condition, what):
    if not condition:
        raise Wrong(what)


def until(question, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        holds(time.monotonic() < end, f"never: {what}")
        time.sleep(0.02)


def control(line):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.environ["SLUICE_TEST_COORD_SOCKET"])
        s.sendall(line.encode())
        return s.recv(80).decode()


class Node:
    def __init__(self, cluster, name, port=0):
        self.name, self.log_path = name, os.path.join(cluster.folder, name + "-" + secrets.token_hex(2) + ".log")
        log = open(self.log_path, "wb")
        command = [PROGRAM, "serve", "--listen", f"127.0.0.1:{port}", "--json", "--node", name, "--coord", cluster.coord,
                   "--store", "file://" + cluster.store, "--set", "log.level=debug", *cluster.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL,
                                        preexec_fn=die_with_parent)
        log.close()
        line = self.process.stdout.readline()
        if not line:
            with open(self.log_path) as file:
                raise Wrong("a node did not start: " + file.read()[-400:])
        self.address = json.loads(line)["address"]

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def ask(self, method, path, body=None, request=None, timeout=25):
        line = http.client.HTTPConnection(self.address, timeout=timeout)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if request:
            headers["Sluice-Request"] = request
        try:
            line.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = line.getresponse()
            text = answer.read()
        finally:
            line.close()
        return answer.status, json.loads(text) if text else None

    def signal(self, number):
        self.process.send_signal(number)

    def owned(self):
        """The shards that it took and did not lose, by its log."""
        mine = set()
        for event, queue, shard in re.findall(r"event=ownership-(acquired|lost|handed-over) .*?queue=(\S+) shard=(\d+)",
                                              self.log()):
            (mine.add if event == "acquired" else mine.discard)((queue, int(shard)))
        return mine


class Cluster:
    def __init__(self, *options, coord=None, nodes=3):
        self.folder = tempfile.mkdtemp(prefix="sluice-cluster-")
        self.store = os.path.join(self.folder, "store")
        self.coord = coord or (COORD if COORD == "store:" else COORD + "/t-" + secrets.token_hex(6))
        self.options = options
        self.nodes = {}
        for name in "abcdefgh"[:nodes]:
            self.start(name)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        for node in self.nodes.values():
            node.process.kill()
            node.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name):
        self.nodes[name] = Node(self, name)
        return self.nodes[name]

    def live(self):
        return [n for n in self.nodes.values() if n.process.poll() is None]

    def any(self, but=None):
        return random.choice([n for n in self.live() if n.name != but])

    def settled(self):
        """Every node sees all others as healthy, and there is a leader."""
        names = {n.name for n in self.live()}
        for n in self.live():
            text = n.log()
            seen = {}
            for name, life in re.findall(r"event=member-health node=(\S+) life=(\S+)", text):
                seen[name] = life
            if any(seen.get(name) != "healthy" for name in names):
                return False
        return any("event=coordinator-elected" in n.log() for n in self.live())

    def owner(self, queue, shard):
        return next((n for n in self.live() if (queue, shard) in n.owned()), None)


class Load:
    """Senders and workers that use random nodes and repeat what got no answer, with the same request id."""

    def __init__(self, cluster, queue, senders=2, workers=2, pause=0.01):
        self.cluster, self.queue, self.pause = cluster, queue, pause
        self.sent, self.acked, self.twice, self.errors = set(), set(), [], 0
        self.lock, self.sending, self.working = threading.Lock(), True, True
        self.slowest, self.gaps, self.last = 0.0, [], {}
        self.avoid = None
        self.threads = [threading.Thread(target=self.send, daemon=True) for _ in range(senders)]
        self.threads += [threading.Thread(target=self.work, daemon=True) for _ in range(workers)]
        for t in self.threads:
            t.start()

    def call(self, path, body, timeout=8):
        request = secrets.token_hex(16)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                status, answer = self.cluster.any(self.avoid).ask("POST", f"/v1/queues/{self.queue}/{path}", body, request,
                                                                  timeout)
                if status < 500 and status != 429:
                    return status, answer
            except (OSError, http.client.HTTPException, IndexError):
                pass
            with self.lock:
                self.errors += 1
            time.sleep(0.02)
        raise Wrong(f"no answer to {path}")

    def send(self):
        while self.sending:
            body = secrets.token_hex(8)
            began = time.monotonic()
            try:
                status, answer = self.call("messages", {"body": body, "group": body[:2]})
            except Wrong:
                continue
            took = time.monotonic() - began
            with self.lock:
                self.slowest = max(self.slowest, took)
                if status == 201:
                    self.sent.add(body)
            time.sleep(self.pause)

    def work(self):
        while self.working:
            try:
                status, batch = self.call("receive", {"max": 10, "wait": "500ms"})
                messages = batch["messages"] if status == 200 else []
                if not messages:
                    continue
                status, answer = self.call("ack", {"tokens": [m["token"] for m in messages]})
            except Wrong:
                continue
            outcomes = answer if isinstance(answer, list) else answer.get("outcomes", [answer])
            with self.lock:
                for m, outcome in zip(messages, outcomes):
                    if outcome.get("code") != "OK":
                        continue
                    if m["body"] in self.acked:
                        self.twice.append(m["body"])
                    self.acked.add(m["body"])

    def finish(self):
        self.sending = False
        until(lambda: self.sent <= self.acked, "every message is acknowledged", 90)
        self.working = False
        for t in self.threads:
            t.join(timeout=PATIENCE)
        holds(not self.twice, f"acknowledged twice: {self.twice[:3]}")
        lost = self.sent - self.acked
        holds(not lost, f"lost: {len(lost)} of {len(self.sent)}")
        return len(self.sent)


def prepared(*options, nodes=3):
    cluster = Cluster(*options, nodes=nodes)
    cluster.any().ask("PUT", "/v1/queues/jobs", {"shards": SHARDS})
    return cluster


def all_owned(cluster):
    return all(cluster.owner("jobs", s) for s in range(SHARDS))


def the_owner_is_killed(cluster, load):
    victim = until(lambda: cluster.owner("jobs", 0), "shard 0 has an owner")
    victim.signal(signal.SIGKILL)
    victim.process.wait()
    until(lambda: all_owned(cluster), "every shard has an owner again", 3 * LEASE + 15)
    cluster.start(victim.name)


def the_owner_is_stopped_past_its_lease_and_resumes(cluster, load):
    victim = until(lambda: cluster.owner("jobs", 1), "shard 1 has an owner")
    victim.signal(signal.SIGSTOP)
    load.avoid = victim.name
    others = lambda: any(("jobs", 1) in n.owned() for n in cluster.live() if n is not victim)
    try:
        until(others, "another node owns shard 1", 4 * LEASE + 15)
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
    until(lambda: all_owned(cluster), "every shard has an owner again", 3 * LEASE + 15)
    load.avoid = None
    cluster.start(victim.name)


OUTAGE = 8  # seconds; 30 in the long form


def coordination_goes_away(cluster, load):
    if COORD == "store:":
        return
    control("stop 0")
    try:
        until(lambda: any("degraded" in (n.ask("GET", "/readyz")[1] or {}) for n in cluster.live()), "a node is degraded")
        end = time.monotonic() + OUTAGE
        before = len(load.sent)
        while time.monotonic() < end:
            time.sleep(0.2)
        holds(len(load.sent) > before, "messages are taken without coordination")
    finally:
        control("cont 0")
    until(lambda: not any("degraded" in (n.ask("GET", "/readyz")[1] or {}) for n in cluster.live()), "all recovered")


FAULTS = [the_owner_is_killed, the_owner_is_stopped_past_its_lease_and_resumes, a_node_stops_in_order,
          coordination_goes_away]


def no_message_is_lost_or_acknowledged_twice():
    with prepared() as cluster:
        until(cluster.settled, "the cluster has a leader")
        load = Load(cluster, "jobs")
        until(lambda: all_owned(cluster), "every shard has an owner")
        for fault in FAULTS:
            fault(cluster, load)
            print(f"# {fault.__name__.replace('_', ' ')}: {len(load.sent)} sent, {len(load.acked)} acknowledged, "
                  f"{load.errors} attempts repeated", flush=True)
        count = load.finish()
        print(f"# {count} messages, each acknowledged once; the slowest send took {load.slowest * 1000:.0f} ms")


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
        code, text = fails("--store", "file://" + cluster.store, "--coord", COORD)
        holds(code == 9 and "queue jobs follows the coordination service 00000000000000000000000000000000" in text, text)


def mistakes_at_the_start_are_named():
    if COORD != "store:":
        journals_of_another_service_are_named()
    with Cluster(nodes=1) as cluster:
        at = ["--store", "file://" + cluster.store]
        code, text = fails(*at, "--coord", "zookeeper://host")
        holds(code == 2 and "is no coordination backend" in text, text)
        code, text = fails(*at, "--coord", cluster.coord, "--node", "a")
        holds(code == 4 and "the name \"a\" is in use by a live node" in text, text)
        code, text = fails(*at, "--coord", "etcd://127.0.0.1:1", "--node", "x")
        holds(code == 7, text)
        code, text = fails(*at, "--capacity", "65")
        holds(code == 2 and "capacity 65 is not between 1 and 64" in text, text)


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


def a_node_without_the_queue_serves_it_when_its_owner_is_killed():
    """The calls write directly. They do not wait until the claims of the killed node have expired."""
    with prepared() as cluster:
        until(cluster.settled, "the cluster has a leader")
        victim = cluster.any()
        until(lambda: (victim.ask("POST", "/v1/queues/jobs/messages", {"body": "x", "group": secrets.token_hex(4)}),
                       all(("jobs", s) in victim.owned() for s in range(SHARDS)))[1], "one node owns every shard")
        victim.signal(signal.SIGKILL)
        victim.process.wait()
        took = served(cluster, None)
        holds(took < LEASE / 2, f"the first message after the kill took {took:.1f} s")


def figures(kills):
    service, ownership = [], []
    with prepared() as cluster:
        until(cluster.settled, "the cluster has a leader")
        until(lambda: (served(cluster, None), all_owned(cluster))[1], "every shard has an owner")
        for _ in range(kills):
            victim = until(lambda: cluster.owner("jobs", 0), "shard 0 has an owner")
            began = time.monotonic()
            victim.signal(signal.SIGKILL)
            victim.process.wait()
            served(cluster, None)
            service.append(time.monotonic() - began)
            until(lambda: (served(cluster, None), cluster.owner("jobs", 0))[1], "shard 0 has another owner")
            ownership.append(time.monotonic() - began)
            cluster.start(victim.name)
            until(cluster.settled, "the cluster is whole again")
            until(lambda: (served(cluster, None), all_owned(cluster))[1], "every shard has an owner")
    for name, times in (("service failover", service), ("ownership failover", ownership)):
        times.sort()
        print(f"# {COORD.split(':')[0]}: {name} over {kills} kills: p50 {times[len(times) // 2] * 1000:.0f} ms, "
              f"max {times[-1] * 1000:.0f} ms", flush=True)


def transfer_pause(rounds=5):
    """The longest time of a call to a shard while it moves in order."""
    pauses = []
    with prepared(nodes=2) as cluster:
        until(cluster.settled, "the cluster has a leader")
        until(lambda: (served(cluster, None), all_owned(cluster))[1], "every shard has an owner")
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
    line = http.client.HTTPConnection(node.address, timeout=10)
    line.request("GET", "/metrics")
    text = line.getresponse().read().decode()
    line.close()
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


def main():
    cases = [no_message_is_lost_or_acknowledged_twice, mistakes_at_the_start_are_named,
             a_node_without_the_queue_serves_it_when_its_owner_is_killed]
    arguments = sys.argv[1:]
    if arguments[:1] == ["--long"]:
        global OUTAGE
        OUTAGE = 30
        cases = [lambda: figures(int(arguments[1])), transfer_pause, no_message_is_lost_or_acknowledged_twice]
    if arguments[:1] == ["--credentials"]:
        cases = [wrong_credentials_are_named]
    if arguments[:1] == ["--idle"]:
        cases = [lambda: idle(int(arguments[1]))]
    print(f"1..{len(cases)}")
    bad = 0
    for number, run in enumerate(cases, 1):
        name = run.__name__.replace("_", " ").replace("<lambda>", "figures")
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
