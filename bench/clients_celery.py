# SPDX-License-Identifier: Apache-2.0
"""The job loop of Celery, for tools/bench-clients: clients_celery.py MESSAGES PLACES. The broker is $BROKER.

The worker counts from its first task, so its start costs nothing. It writes times and CPU into $DONE."""
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


began_at = []


@app.task
def nothing(number, body):
    if not began_at:
        began_at.append((time.monotonic(), time.process_time()))
    if number == 0:
        seconds, cpu = time.monotonic() - began_at[0][0], time.process_time() - began_at[0][1]
        with open(os.environ["DONE"] + ".new", "w", encoding="utf-8") as f:
            json.dump({"seconds": seconds, "cpu": cpu}, f)
        os.rename(os.environ["DONE"] + ".new", os.environ["DONE"])


def main():
    count, places = int(sys.argv[1]), sys.argv[2]
    began, used = time.monotonic(), time.process_time()
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(count - 1, -1, -1):
            nothing.apply_async((number, BODY), producer=producer)
    print(json.dumps({"part": "send", "count": count, "seconds": time.monotonic() - began,
                      "cpu": time.process_time() - used}), flush=True)
    worker = subprocess.Popen([sys.executable, "-B", "-m", "celery", "-A", "clients_celery", "worker", "-c", places, "-P",
                               "threads", "--loglevel", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"],
                              cwd=os.path.dirname(os.path.abspath(__file__)), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    while not os.path.exists(os.environ["DONE"]) and worker.poll() is None:
        time.sleep(0.01)
    if os.path.exists(os.environ["DONE"]):
        with open(os.environ["DONE"], encoding="utf-8") as f:
            print(json.dumps({"part": f"work {places}", "count": count, **json.load(f)}), flush=True)
    worker.terminate()
    worker.wait()


if __name__ == "__main__":
    main()
