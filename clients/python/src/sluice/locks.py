# SPDX-License-Identifier: Apache-2.0
"""The renewal of locks."""
from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Dict, List

from . import _steps, calls
from ._core import now
from .errors import PASSES, SluiceError
from .running import WorkerJob

if TYPE_CHECKING:
    from .queue_worker import QueueWorker

log = logging.getLogger("sluice")
IDLE = 60.0


class Locks:
    """Renews all locks of a worker at a third of the shortest lease, on a connection of its own."""

    def __init__(self, worker: QueueWorker) -> None:
        self.worker = worker
        self.changed: threading.Condition = threading.Condition(worker.lock)
        self.wakes_at = 0.0  # when the renewal wakes by itself
        self.client = worker.client._with_own_connections(grace=0.0)

    def renew(self) -> None:
        while True:
            with self.worker.lock:
                if self.worker.closes:
                    return
                at = now()
                jobs = [job for job in self.worker.held.values() if not job.lost]
                self.wakes_at = min((job.renew_at for job in jobs), default=at + IDLE)
                if self.wakes_at > at:
                    self.changed.wait(self.wakes_at - at)
                    continue
                due = [job for job in jobs if job.renew_at - job.lease / 12 <= at]  # also those that are due soon
                rows = [job.renewal() for job in due]
            try:
                self.renew_all(due, rows)
            except Exception:  # the renewal never ends of an error
                log.exception("queue %s: a renewal failed", self.worker.name)
                self.renew_later(due)
            self.tell_losses()

    def renew_all(self, due: List[WorkerJob], rows: List[Dict[str, Any]]) -> None:
        left = min(job.told_at for job in due) - now()
        call = calls.renew_locks(self.worker.name, visibility=_steps.ms(self.worker.app.visibility), renewals=rows)
        self.worker.listener.as_worker(call)
        asked = now()
        try:
            outcomes = self.client.call(call, max(0.02, min(left, max(job.lease for job in due) / 6)))["outcomes"]
        except PASSES as e:
            log.warning("queue %s: a renewal got no answer: %s", self.worker.name, e)
            self.renew_later(due)
            return
        except SluiceError as e:
            log.warning("queue %s: a renewal was refused: %s", self.worker.name, e)
            outcomes = [{"code": e.code}] * len(due)
        for job, row in zip(due, outcomes):
            if row["code"] == "OK":
                job.renewed(asked, row["until"])
            elif row["code"] in ("UNAVAILABLE", "UNKNOWN", "LIMIT"):
                self.renew_later([job])
            elif job.token in self.worker.held:
                job.lose(str(row.get("reason", row["code"])))

    @staticmethod
    def renew_later(jobs: List[WorkerJob]) -> None:
        for job in jobs:
            job.renew_at = min(now() + max(job.lease / 12, 0.02), max(now() + 0.02, job.told_at))

    def tell_losses(self) -> None:
        """A job whose lock could not be renewed is told before the lock ends."""
        with self.worker.lock:
            late = [job for job in self.worker.held.values() if not job.lost and now() >= job.told_at]
        for job in late:
            job.lose("not-renewed")
