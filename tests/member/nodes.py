# SPDX-License-Identifier: Apache-2.0
"""Real nodes of one cluster, a load on them, and links between them and their surroundings that can be cut.

SLUICE names the program. Under tests/servers/with-coord the nodes coordinate through that service, otherwise through
the store. Under tests/servers/with-radosgw the store is a bucket, otherwise a directory.
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
import tempfile
import threading
import time

from proxy import Link
from remote import Remote

PROGRAM = os.environ["SLUICE"]
COORD = os.environ.get("SLUICE_TEST_COORD") or "store:"
COORD_SERVERS = int(os.environ.get("SLUICE_TEST_COORD_NODES") or 0)
BUCKET = os.environ.get("SLUICE_TEST_S3")
PATIENCE = 60.0
SHARDS = 3
GROUPS = 4  # of each sender
LOG_LEVEL = "debug"

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
    began = time.monotonic()
    end = began + seconds
    while True:
        answer = question()
        if answer:
            if "SLUICE_TEST_TRACE" in os.environ:
                print(f"# {time.strftime('%H:%M:%S')} after {time.monotonic() - began:.1f} s: {what}", flush=True)
            return answer
        holds(time.monotonic() < end, f"never: {what}")
        time.sleep(0.02)


def control(line, to="SLUICE_TEST_COORD_SOCKET"):
    """An order to with-coord or with-radosgw."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.environ[to])
        s.sendall(line.encode())
        return s.recv(80).decode()


class Links:
    """The links of one node: to coordination, to the store, and from clients to it."""

    def __init__(self, coord):
        self.coord, self.store, self.clients, self.env = [], None, None, {}
        self.coord_url = coord
        if coord != "store:":
            scheme, _, rest = coord.partition("://")
            places, slash, prefix = rest.partition("/")
            self.coord = [Link(place) for place in places.split(",")]
            self.coord_url = scheme + "://" + ",".join(link.address for link in self.coord) + slash + prefix
        if BUCKET:
            scheme, _, place = os.environ["AWS_ENDPOINT_URL_S3"].partition("://")
            self.store = Link(place)
            self.env["AWS_ENDPOINT_URL_S3"] = f"{scheme}://{self.store.address}"

    def close(self):
        for link in [*self.coord, self.store, self.clients]:
            if link:
                link.close()


class Node(Remote):
    def __init__(self, cluster, name, port=0, program=PROGRAM, waits=True):
        self.name, self.log_path = name, os.path.join(cluster.folder, name + "-" + secrets.token_hex(2) + ".log")
        self.links = Links(cluster.coord) if cluster.cuttable else None
        coord, env = (self.links.coord_url, self.links.env) if self.links else (cluster.coord, {})
        log = open(self.log_path, "wb")
        command = [program, "serve", "--listen", f"127.0.0.1:{port}", "--json", "--node", name, "--coord", coord,
                   "--store", cluster.store_url, "--set", f"log.level={LOG_LEVEL}", *cluster.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL,
                                        preexec_fn=die_with_parent, env={**os.environ, **env})
        log.close()
        self.trust_of_cluster = cluster.trust
        if waits:
            self.await_start()

    def await_start(self):
        line = self.process.stdout.readline()
        if not line:
            with open(self.log_path) as file:
                raise Wrong("a node did not start: " + file.read()[-400:])
        self.direct = Remote(json.loads(line)["address"], self.trust_of_cluster)  # past any cut of the clients
        super().__init__(self.direct.address, self.trust_of_cluster)
        if self.links:
            self.links.clients = Link(self.direct.address)
            self.address = self.links.clients.address

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def metric(self, name):
        """The value of a metric without labels, past any cut of the clients."""
        _, text = self.direct.text("GET", "/metrics")
        return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])

    def ready(self):
        """The status and the answer of /readyz; 0: no answer, because the request waits for the store."""
        try:
            status, text = self.direct.text("GET", "/readyz", timeout=5)
        except TimeoutError:
            return 0, {}
        return status, json.loads(text)

    def degraded(self):
        """/readyz and the metric must agree, so both are asked until they do."""
        return "degraded" in self.ready()[1] and self.metric("sluice_coordination_up") == 0

    def recovered(self):
        status, answer = self.ready()
        return status == 200 and "degraded" not in answer and self.metric("sluice_coordination_up") == 1

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.kill()
        self.process.wait()
        if self.links:
            self.links.close()

    def owned(self):
        """The shards that it took and did not lose, by its log."""
        mine = set()
        for event, queue, shard in re.findall(r"event=ownership-(acquired|lost|handed-over) .*?queue=(\S+) shard=(\d+)",
                                              self.log()):
            (mine.add if event == "acquired" else mine.discard)((queue, int(shard)))
        return mine


class Cluster:
    trust = None  # what the certificates of its nodes are checked by, if they use TLS

    def __init__(self, *options, coord=None, nodes=3, cuttable=False):
        self.folder = tempfile.mkdtemp(prefix="sluice-cluster-")
        self.store = os.path.join(self.folder, "store")
        self.store_url = f"{BUCKET}/{secrets.token_hex(6)}" if BUCKET else "file://" + self.store
        self.coord = coord or (COORD if COORD == "store:" else COORD + "/t-" + secrets.token_hex(6))
        self.options, self.cuttable = options, cuttable
        self.nodes = {}
        for name in "abcdefgh"[:nodes]:
            self.start(name)
        self.lease = self.any().ask("GET", "/v1/cluster")[1]["leaseMs"] / 1000

    def __enter__(self):
        return self

    def __exit__(self, *what):
        for node in self.nodes.values():
            node.end()
        if what and what[0]:
            self.show_logs()
        shutil.rmtree(self.folder, ignore_errors=True)

    def show_logs(self):
        """A test failed: what each node saw last."""
        for node in self.nodes.values():
            lines = [line for line in node.log().splitlines() if "event=" in line and "event=request" not in line]
            print("".join(f"# {node.name}: {line}\n" for line in lines[-25:]), end="", flush=True)

    def start(self, name, program=PROGRAM):
        if name in self.nodes:
            self.nodes[name].end()
        self.nodes[name] = Node(self, name, program=program)
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

    def all_owned(self):
        return all(self.owner("jobs", s) for s in range(SHARDS))

    def at_rest(self):
        """Each node owns its share of the shards, so the leader has none to move."""
        share = SHARDS // len(self.live())
        return all(len(n.owned()) == share for n in self.live())

    def takeover_seconds(self):
        """How long another owner may take: Consul ends a session after twice its lease; the machine may be busy."""
        return (2 if COORD.startswith("consul") else 1) * self.lease + 25


class Load:
    """Senders and workers that use random nodes and repeat what got no answer, with the same request id.

    Each sender numbers the messages of its groups. A message may be delivered only after the acknowledgement of every
    earlier one of its group was sent, and never after its own was answered.
    """

    def __init__(self, cluster, queue, senders=2, workers=2, pause=0.03):
        self.cluster, self.queue, self.pause = cluster, queue, pause
        self.sent, self.acking, self.acked, self.errors = set(), set(), {}, 0
        self.wrong = []
        self.lock, self.sending, self.working = threading.Lock(), True, True
        self.slowest, self.timeout, self.avoid = 0.0, 8, None
        self.senders = [threading.Thread(target=self.send, args=(i,), daemon=True) for i in range(senders)]
        self.threads = self.senders + [threading.Thread(target=self.work, daemon=True) for _ in range(workers)]
        for t in self.threads:
            t.start()

    def call(self, path, body, timeout=None):
        request = secrets.token_hex(16)
        end, last = time.monotonic() + 2 * PATIENCE, None
        while time.monotonic() < end:
            try:
                node = self.cluster.any(self.avoid or last)
                last = node.name  # the next attempt goes to another one
                status, answer = node.ask("POST", f"/v1/queues/{self.queue}/{path}", body, request, timeout or self.timeout)
                if status < 500 and status != 429:
                    return status, answer
            except (OSError, http.client.HTTPException, IndexError):
                pass
            with self.lock:
                self.errors += 1
            time.sleep(0.02)
        raise Wrong(f"no answer to {path}")

    def send(self, sender):
        last = [0] * GROUPS
        while self.sending:
            group = random.randrange(GROUPS)
            last[group] += 1
            name = f"{sender}-{group}"
            began = time.monotonic()
            try:
                status, answer = self.call("messages", {"body": f"{name}:{last[group]}", "group": name})
            except Wrong as why:
                self.wrong.append(str(why))
                return
            took = time.monotonic() - began
            with self.lock:
                self.slowest = max(self.slowest, took)
                if status == 201:
                    self.sent.add((name, last[group]))
                else:
                    self.wrong.append(f"a send is refused: {answer}")
            time.sleep(self.pause)

    def received(self, message, began):
        group, number = message["body"].split(":")
        number = int(number)
        for earlier in range(1, number):
            if (group, earlier) in self.sent and (group, earlier) not in self.acking:
                self.wrong.append(f"{group}:{number} is delivered before {group}:{earlier} is acknowledged")
                break
        if self.acked.get((group, number), began) < began:
            self.wrong.append(f"{group}:{number} is delivered after its acknowledgement")
        return group, number

    def work(self):
        while self.working:
            began = time.monotonic()
            try:
                status, batch = self.call("receive", {"max": 10, "wait": "500ms"})
                messages = batch["messages"] if status == 200 else []
                if not messages:
                    continue
                with self.lock:
                    keys = [self.received(m, began) for m in messages]
                    self.acking.update(keys)
                status, answer = self.call("ack", {"tokens": [m["token"] for m in messages]})
            except Wrong as why:
                self.wrong.append(str(why))
                return
            outcomes = answer if isinstance(answer, list) else answer.get("outcomes", [answer])
            with self.lock:
                for key, outcome in zip(keys, outcomes):
                    if outcome.get("code") != "OK":
                        continue
                    if key in self.acked:
                        self.wrong.append(f"acknowledged twice: {key}")
                    self.acked[key] = time.monotonic()

    def progresses(self, seconds=20):
        """Messages are taken and acknowledged now."""
        sent, acked = len(self.sent), len(self.acked)
        until(lambda: len(self.sent) > sent + 3 and len(self.acked) > acked + 3, "messages go through", seconds)

    def finish(self):
        self.sending = False
        for t in self.senders:  # a message that is being sent counts, too
            t.join(timeout=2 * PATIENCE)
        until(lambda: self.wrong or self.sent <= self.acked.keys(), "every message is acknowledged", 2 * PATIENCE)
        self.working = False
        for t in self.threads:
            t.join(timeout=PATIENCE)
        holds(not self.wrong, f"{len(self.wrong)} wrong: {self.wrong[:3]}")
        lost = self.sent - self.acked.keys()
        holds(not lost, f"lost: {len(lost)} of {len(self.sent)}")
        return len(self.sent)


def prepared(*options, nodes=3, cuttable=False):
    cluster = Cluster(*options, nodes=nodes, cuttable=cuttable)
    try:
        status, answer = cluster.any().ask("PUT", "/v1/queues/jobs", {"shards": SHARDS, "orderingGuarantee": True})
        holds(status in (200, 201), answer)
    except BaseException:
        cluster.__exit__()
        raise
    return cluster
