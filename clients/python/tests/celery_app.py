# SPDX-License-Identifier: Apache-2.0
"""A program of Celery. It writes a line when a task begins and when it ends, on a clock that all processes share."""
import json
import os
import time

from celery import Celery

import sluice.celery

assert sluice.celery.Transport  # the import makes the scheme sluice:// known
app = Celery("jobs", broker=os.environ["BROKER"])
app.conf.update(
    task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1, task_ignore_result=True,
    worker_enable_remote_control=False, worker_hijack_root_logger=False,
    broker_transport_options={"settings": {"visibilityTimeout": os.environ.get("LEASE", "3s"), "failureStrategy": {
        "mode": "retry", "maxRetries": 1000, "backoff": {"initial": "10ms", "max": "100ms"}}}})


def note(what, n):
    with open(os.environ["LOG"], "a", encoding="utf-8") as f:
        f.write(json.dumps({"what": what, "n": n, "group": os.getpgid(0), "at": time.monotonic()}) + "\n")


@app.task
def work(n, seconds=0.0):
    note("begin", n)
    time.sleep(seconds)
    note("end", n)


@app.task(bind=True, max_retries=3)
def twice(self, n):
    note("begin", n)
    if self.request.retries == 0:
        raise self.retry(countdown=0.2)
    note("end", n)


@app.task(acks_late=True)
def breaks(n):
    note("begin", n)
    raise ValueError("it is wrong")
