# SPDX-License-Identifier: Apache-2.0
"""A worker whose lines a test awaits, and signals to its jobs."""
import json
import os
import queue
import threading

from harness import PATIENCE, same, until

ENDLESS = "while :; do sleep 0.02; done"


class Worker:
    """A worker whose JSON lines are awaited, one after another."""

    def __init__(self, sluice, script, *options, name="tasks", once=True):
        self.sluice = sluice
        self.ready = sluice.path("ready")
        self.process = sluice.start("work", name, *(["--once"] if once else []), "--json", *options, "--", "bash", "-c",
                                    script.replace("READY", f"touch {self.ready}"))
        self.lines = queue.Queue()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        self.errors = []
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def runs(self):
        """Waits until the program says that it is ready."""
        until(lambda: os.path.exists(self.ready), "the program runs")
        return self

    def next(self, **wanted):
        """The next line that has these values."""
        while True:
            line = self.lines.get(timeout=PATIENCE)
            if all(line.get(key) == value for key, value in wanted.items()):
                return line

    def ends(self):
        """How the job ended."""
        job = self.next(type="job")
        same(self.process.wait(timeout=PATIENCE), 0 if job["status"] == "processed" else 1)
        return job


def told(sluice, id, *words):
    """How a signal ended: the state and the answer."""
    run = sluice.run("signal", "tasks", id, *words, "--wait", "60s", "--json")
    row = json.loads(run.out)
    same(run.status, 0 if row["state"] in ("acked", "applied") else 1, str(run))
    return row["state"], row.get("answer", "")
