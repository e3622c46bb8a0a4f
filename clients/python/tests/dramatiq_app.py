# SPDX-License-Identifier: Apache-2.0
"""A program of Dramatiq. It writes a line when an actor begins and when it ends, on a clock that all processes share."""
import json
import os
import time

import dramatiq

from sluice.dramatiq import SluiceBroker

broker = SluiceBroker(os.environ["BROKER"], settings={"visibilityTimeout": os.environ.get("LEASE", "3s"), "failureStrategy": {
    "mode": "retry", "maxRetries": 1000, "backoff": {"initial": "10ms", "max": "100ms"}}})
dramatiq.set_broker(broker)


def note(what, n):
    with open(os.environ["LOG"], "a", encoding="utf-8") as f:
        f.write(json.dumps({"what": what, "n": n, "group": os.getpgid(0), "at": time.monotonic()}) + "\n")


@dramatiq.actor
def work(n, seconds=0.0):
    note("begin", n)
    time.sleep(seconds)
    note("end", n)


@dramatiq.actor(queue_name="storm")
def blow(n, seconds=0.0):
    note("begin", n)
    time.sleep(seconds)
    note("end", n)


@dramatiq.actor(max_retries=3, min_backoff=100)
def twice(n):
    note("begin", n)
    with open(os.environ["LOG"], encoding="utf-8") as f:
        if sum(json.loads(line)["n"] == n for line in f) < 2:
            raise ValueError("the first attempt fails")
    note("end", n)


@dramatiq.actor(max_retries=0)
def breaks(n):
    note("begin", n)
    raise ValueError("it is wrong")
