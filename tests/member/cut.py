#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""One node of three is cut off from clients and peers for a while. The coordination service still sees it.

    cut.py [--seconds N]

SLUICE names the program, TIMED_CLIENT the client. It prints how long calls took, and says in TAP whether the bounds of
docs/cluster.md hold.
"""
import os
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from nodes import Cluster, Node, Wrong, die_with_parent, holds, until
from proxy import Link

QUEUE, SHARDS = "lane", 6
CLIENT = os.environ["TIMED_CLIENT"]
LEAST = 10  # calls a second in the second half of the cut; one in 2.5 s if each call waits for the node


class Reached:
    """A node that its peers and clients reach through a proxy."""

    def __init__(self, cluster, name):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.link = Link(f"127.0.0.1:{port}")
        options, cluster.options = cluster.options, ("--set", f"advertise=http://{self.link.address}")
        try:
            self.node = Node(cluster, name, port=port)
        finally:
            cluster.options = options


class Lanes(Cluster):
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sluice-cut-")
        self.store_url = "file://" + os.path.join(self.folder, "store")
        self.coord, self.options, self.cuttable, self.nodes, self.reached = "store:", (), False, {}, {}
        for name in "abc":
            self.start(name)

    def start(self, name, program=None):
        self.reached[name] = Reached(self, name)
        self.nodes[name] = self.reached[name].node
        return self.nodes[name]

    def owners(self, but=None):
        shards = self.any(but).ask("GET", "/v1/cluster")[1]["shards"]
        return {row["shard"]: row["owner"] for row in shards if row["queue"] == QUEUE and row["owner"]}


    def have_moved(self, cut):
        """Whether the other nodes serve all shards, by their logs."""
        others = [node for name, node in self.nodes.items() if name != cut]
        return all(any((QUEUE, shard) in node.owned() for node in others) for shard in range(SHARDS))


class Client:
    def __init__(self, cluster):
        url = "http://" + ",".join(one.link.address for one in cluster.reached.values())
        self.process = subprocess.Popen([CLIENT, url, QUEUE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=die_with_parent, text=True)

    def sums(self):
        """The slow calls, and the sums, since the last time."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        slow = []
        while line := self.process.stdout.readline():
            words = line.split()
            if words[0] == "slow":
                slow.append((int(words[1]), int(words[2]), words[3], int(words[4])))
            else:
                return slow, {words[i]: int(words[i + 1]) for i in range(0, len(words), 2)}
        raise Wrong("the client ended")

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def show(name, slow, sums, seconds):
    waited = sum(took for _, took, _, _ in slow) / 1000
    mean = sums["sum"] / sums["calls"]
    print(f"# {name}: {sums['calls']} calls in {seconds:.0f} s, mean {mean:.1f} ms, longest {sums['longest']} ms, "
          f"{sum(took >= 500 for _, took, _, _ in slow)} over 0.5 s, {waited:.1f} s in calls over 0.1 s, "
          f"{sums['failed']} failed; load {os.getloadavg()[0]:.1f}", flush=True)
    for at, took, call, code in slow:
        if took >= 500 or code:
            print(f"#   {at / 1000:.1f} s: {call} {took} ms, code {code}")
    return waited


def started():
    cluster = Lanes()
    try:
        until(cluster.settled, "the cluster has a leader")
        status, answer = cluster.any().ask("PUT", f"/v1/queues/{QUEUE}", {"shards": SHARDS})
        holds(status in (200, 201), answer)
    except BaseException:
        cluster.__exit__()
        raise
    return cluster


def await_owners(cluster):
    until(lambda: len(cluster.owners()) == SHARDS and set(cluster.owners().values()) == set("abc"),
          "each node owns shards")
    return cluster.any().ask("GET", "/v1/cluster")[1]["leader"]


def calls_go_around_an_owner_that_its_peers_cannot_reach(cluster, client, seconds):
    leader = await_owners(cluster)
    time.sleep(2)
    client.sums()
    began = time.monotonic()
    time.sleep(5)
    show("before the cut", *client.sums(), time.monotonic() - began)
    cut = next(name for name in "bca" if name != leader)
    cluster.reached[cut].link.cut()
    halves = []
    for half in ("first", "second"):
        began = time.monotonic()
        time.sleep(seconds / 2)
        slow, sums = client.sums()
        took = time.monotonic() - began
        show(f"{cut} is cut off, {half} half", slow, sums, took)
        halves.append((sums, took))
    until(lambda: cluster.have_moved(cut), f"the shards of {cut} have moved")
    cluster.reached[cut].link.mend()
    time.sleep(8)
    show("after it", *client.sums(), 8)
    holds(all(sums["failed"] == 0 for sums, _ in halves), "no call fails")
    sums, took = halves[1]
    holds(sums["calls"] >= LEAST * took, f"{sums['calls']} calls in {took:.1f} s")


def the_shards_move_away_from_a_leader_that_its_peers_cannot_reach(cluster, client, seconds):
    cut = await_owners(cluster)
    holds(not cluster.have_moved(cut), "the leader owns shards")
    began = time.monotonic()
    cluster.reached[cut].link.cut()
    until(lambda: cluster.have_moved(cut), f"the shards of {cut} have moved")
    print(f"# the leader's shards have moved {time.monotonic() - began:.1f} s after the cut; "
          f"load {os.getloadavg()[0]:.1f}", flush=True)
    cluster.reached[cut].link.mend()


CASES = [calls_go_around_an_owner_that_its_peers_cannot_reach,
         the_shards_move_away_from_a_leader_that_its_peers_cannot_reach]


def main():
    seconds = int(sys.argv[sys.argv.index("--seconds") + 1]) if "--seconds" in sys.argv else 20
    print(f"1..{len(CASES)}")
    bad = 0
    for number, case in enumerate(CASES, 1):
        name = case.__name__.replace("_", " ")
        with started() as cluster:
            client = Client(cluster)
            try:
                case(cluster, client, seconds)
                print(f"ok {number} - {name}", flush=True)
            except Exception:
                bad += 1
                print(f"not ok {number} - {name}")
                print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), flush=True)
            finally:
                for one in cluster.reached.values():
                    one.link.mend()
                client.end()
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
