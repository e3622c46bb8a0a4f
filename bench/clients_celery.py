# SPDX-License-Identifier: Apache-2.0
"""The job loop of Celery, for tools/bench-clients: clients_celery.py MESSAGES PLACES. The broker is $BROKER."""
import json
import os
import subprocess
import sys
import time

from celery import Celery

if os.environ["BROKER"].startswith("sluice"):
    import sluice.celery
    assert sluice.celery.Transport  # the import makes the scheme known

app = Celery("clients_celery", broker=os.environ["BROKER"])
app.conf.update(task_ignore_result=True, task_acks_late=True, worker_enable_remote_control=False, worker_prefetch_multiplier=4)
BODY = "x" * 300


@app.task
def nothing(number, body):
    if number == 0:
        with open(os.environ["DONE"], "w", encoding="utf-8"):
            pass


def main():
    count, places = int(sys.argv[1]), sys.argv[2]
    began = time.monotonic()
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(count - 1, -1, -1):
            nothing.apply_async((number, BODY), producer=producer)
    print(json.dumps({"part": "send", "count": count, "seconds": time.monotonic() - began}), flush=True)
    began = time.monotonic()
    worker = subprocess.Popen([sys.executable, "-B", "-m", "celery", "-A", "clients_celery", "worker", "-c", places, "-P",
                               "threads", "--loglevel", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"],
                              cwd=os.path.dirname(os.path.abspath(__file__)), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    while not os.path.exists(os.environ["DONE"]) and worker.poll() is None:
        time.sleep(0.01)
    print(json.dumps({"part": f"work {places}", "count": count, "seconds": time.monotonic() - began}), flush=True)
    worker.terminate()
    worker.wait()


if __name__ == "__main__":
    main()
