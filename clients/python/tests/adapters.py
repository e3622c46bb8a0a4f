# SPDX-License-Identifier: Apache-2.0
"""What the tests of the adapters share: a node, real workers, and a storm in which both are killed with -9."""
import collections
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time

TASKS = 400 if "--long" in sys.argv else 60
LEASE = 3.0
WORKERS = 3
KILL, KILLS = 2.5, 30 if TASKS > 60 else 5  # then the long task gets a worker that lives
LIMIT = 120.0


def until(done, what, timeout=60.0):
    end = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < end, f"not within {timeout:g} s: {what}"
        time.sleep(0.05)


class World:
    """A node, workers, and what their tasks wrote. `line` is the command of a worker with so many places."""

    def __init__(self, folder, scheme, line):
        import sluice
        self.line = line
        self.folder = folder
        self.log = os.path.join(folder, "log")
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.address = f"127.0.0.1:{s.getsockname()[1]}"
        os.environ.update(BROKER=f"{scheme}://{self.address}", LOG=self.log, LEASE=f"{LEASE:g}s",
                          PYTHONPATH=os.pathsep.join(sys.path[:2] + sys.path[-1:]), PYTHONDONTWRITEBYTECODE="1")
        self.start_node()
        self.client = sluice.Client(f"http://{self.address}", timeout=60)
        self.workers = []
        self.killed = {}  # process group: when it was dead

    def start_node(self):
        from sluice import testing
        self.node, _ = testing.start(os.path.join(self.folder, "store"), "--listen", self.address, "--node", "a")

    def kill_node(self):
        self.node.kill()
        self.node.wait()

    def start_worker(self, *options, concurrency=2):
        line = [*self.line(concurrency), *options]
        worker = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=open(os.path.join(self.folder, "out"), "ab"),
                                  stderr=subprocess.STDOUT, cwd=self.folder, start_new_session=True)
        self.workers.append(worker)
        return worker

    def kill(self, worker):
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        self.killed[worker.pid] = time.monotonic()
        self.workers.remove(worker)

    def stop_workers(self):
        for worker in self.workers:
            worker.terminate()
        codes = [worker.wait(60) for worker in self.workers]
        self.workers.clear()
        return codes

    def close(self):
        for worker in list(self.workers):
            self.kill(worker)
        self.client.close()
        self.kill_node()

    def rows(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def ended(self):
        return {row["n"] for row in self.rows() if row["what"] == "end"}

    def stats(self, queue):
        return self.client.queue(queue).stats()

    def settled(self, queue):
        """All messages were processed."""
        stats = self.stats(queue)
        return stats["processed"] == stats["sent"]


def overlaps(world, first):
    runs = collections.defaultdict(list)
    for row in world.rows():
        if row["n"] < first:
            continue
        if row["what"] == "begin":
            runs[row["n"]].append({**row, "end": world.killed.get(row["group"])})
        else:
            next(run for run in reversed(runs[row["n"]]) if run["group"] == row["group"])["end"] = row["at"]
    for n, rows in runs.items():
        rows.sort(key=lambda run: run["at"])
        for one, two in zip(rows, rows[1:]):
            if one["end"] is None or two["at"] < one["end"]:
                yield f"task {n}: {one} and {two}"


def storm(world, tap, send, *options):
    """send(n, seconds) sends a task to the queue storm, of which workers with the options take it. Tasks of 0.05 to 0.5 s, and one that takes three leases. A worker dies every 2.5 s, with its processes. So does the node."""
    chance = random.Random(1)
    q = world.client.create("storm", {"visibilityTimeout": f"{LEASE:g}s", "failureStrategy": {
        "mode": "retry", "maxRetries": 1000, "backoff": {"initial": "10ms", "max": "100ms"}}})
    for _ in range(WORKERS):
        world.start_worker(*options)
    ids = range(1000, 1000 + TASKS)
    for n in ids:
        send(n, 3 * LEASE if n == 1000 else chance.uniform(0.05, 0.5))
    nodes, began = 0, time.monotonic()
    while not world.settled("storm") and time.monotonic() - began < LIMIT:
        time.sleep(KILL)
        busy = {row["group"] for row in world.rows() if row["n"] >= 1000}
        for worker in [w for w in world.workers if w.pid in busy and len(world.killed) < KILLS][:1]:
            world.kill(worker)
            world.start_worker(*options)
        if nodes < KILLS // 2:
            world.kill_node()
            nodes += 1
            world.start_node()
    until(lambda: world.settled("storm"), "all tasks", LIMIT)
    codes = world.stop_workers()
    runs = sum(row["what"] == "begin" and row["n"] >= 1000 for row in world.rows())
    print(f"# {TASKS} tasks, {runs} runs, {len(world.killed)} workers and {nodes} nodes killed, "
          f"{time.monotonic() - began:.0f} s")
    tap.result(set(ids) <= world.ended(), "nothing is lost", [str(set(ids) - world.ended())])
    acks = collections.Counter()
    last = q.send("the last event", delay=3600).id
    for event in q.events():
        if event.data.get("task_id") == last or event.data.get("message") == last:
            break
        if event.type == "message-outcome" and event.data.get("status") == "processed":
            acks[event.data["message"]] += 1
    tap.result(len(acks) == TASKS and set(acks.values()) == {1}, "nothing is acknowledged twice", [str(acks.most_common(3))])
    bad = list(overlaps(world, 1000))
    tap.result(not bad, "no task is at two workers", bad)
    tap.result(codes == [0] * WORKERS, "workers end with status 0", [str(codes)])
    tap.result(len(world.killed) >= 2, "it was a storm", [str(world.killed)])
