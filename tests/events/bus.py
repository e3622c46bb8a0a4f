# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of consumers on a real bus: put events, follow them, control the servers."""
import json
import os
import subprocess

BUS = os.environ["SLUICE_TEST_NATS"] + os.environ.get("PUT_SETTINGS", "")
PUT = os.environ["PUT_EVENTS"]
CONTROL = os.environ["SLUICE_TEST_NATS_CONTROL"]
NUMBER = iter(range(1, 1000))


def queue_name(kind="q"):
    """Each case has queues of its own: the server is shared."""
    return f"{kind}.{os.getpid()}.{next(NUMBER)}"


def put(queue, shard, first, last, *again):
    subprocess.run([PUT, queue, str(shard), str(first), str(last), *again], check=True, timeout=120,
                   env=os.environ | {"SLUICE_TEST_NATS": BUS})


class Follower:
    """`sluice events --follow` as a child. Use it with `with`."""

    def __init__(self, sluice, queue):
        self.file = sluice.path(f"position-{queue}")
        self.words = [os.environ["SLUICE"], "events", "--bus", BUS, "--json", "--follow", "--position", self.file, queue]

    def __enter__(self):
        self.child = subprocess.Popen(self.words, stdout=subprocess.PIPE, text=True)
        return self

    def read(self, count):
        return [json.loads(self.child.stdout.readline())["sequence"] for _ in range(count)]

    def kill(self):
        """What it had printed before it died: its position may cover that."""
        self.child.kill()
        return [json.loads(line)["sequence"] for line in self.child.stdout if line.endswith("\n")]

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait(60)
        self.child.stdout.close()


def control(*words):
    subprocess.run(f"{CONTROL} {' '.join(words)}", shell=True, check=True, timeout=60)
