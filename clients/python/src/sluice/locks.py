# SPDX-License-Identifier: Apache-2.0
"""The renewal of locks."""
from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Dict, List

from . import _steps, calls
from ._core import now, to_ms
from .errors import PASSES, Conflict, Denied, Fenced, NotFound, SluiceError
from .running import AHEAD, DRIFT, WorkerJob, surely

if TYPE_CHECKING:
    from .queue_worker import QueueWorker

log = logging.getLogger("sluice")
IDLE = 60.0
LEARN_TIMEOUT = 5.0


class Locks:
    """Renews all locks of a worker at a third of the shortest lease, on a connection of its own."""

    def __init__(self, worker: QueueWorker) -> None:
        self.worker = worker
        self.changed: threading.Condition = threading.Condition(worker.lock)
        self.wakes_at = 0.0  # when the renewal wakes by itself
        self.lease = (_steps.ms(worker.app.visibility) or 0) / 1000  # of a new lock; 0: not known
        self.client = worker.client._with_own_connections(grace=0.0)

    def learn(self) -> None:
        """Asks for the queue's setting. Without it the first messages tell."""
        if self.lease:
            return
        client = self.worker.fetching
        try:
            shown = client.call(calls.show_queue(self.worker.name), min(LEARN_TIMEOUT, client.core.timeout))
            self.lease = to_ms(shown["settings"].get("visibilityTimeout")) / 1000
        except SluiceError as e:
            log.info("queue %s: the worker cannot read its settings: %s", self.worker.name, e)

    def seen(self, jobs: List[WorkerJob], again: bool) -> None:
        """What the leases of received messages tell. again: of a receive that was repeated, so a part of them may be over."""
        if jobs and not self.worker.app.visibility:
            lease = (max(job.lease for job in jobs) + AHEAD) / (1 - DRIFT)  # the node says what surely is left
            self.lease = self.lease if again else lease

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
            try:
                self.renew_all(due)
            except Exception:  # the renewal never ends of an error
                log.exception("queue %s: a renewal failed", self.worker.name)
                self.renew_later(due)
            self.tell_losses()

    def renew_all(self, due: List[WorkerJob]) -> None:
        left = min(job.told_at for job in due) - now()
        timeout = max(0.02, min(left, max(job.lease for job in due) / 6))
        with self.worker.lock:
            pairs = [job.renewal() for job in due]
        try:
            call = self.call([row for row, _ in pairs])
            try:
                outcomes = self.client.call(call, timeout)["outcomes"]
            except SluiceError as e:
                if isinstance(e, PASSES) or not any(sent for _, sent in pairs):
                    raise
                # A progress that is refused must cost no lock.
                log.warning("queue %s: a progress was refused: %s", self.worker.name, e)
                call = self.call([{"token": job.token} for job in due])
                outcomes = self.client.call(call, timeout)["outcomes"]
        except (NotFound, Denied, Conflict, Fenced) as e:
            log.warning("queue %s: a renewal was refused: %s", self.worker.name, e)
            outcomes = [{"code": e.code, "reason": e.reason}] * len(due)
        except SluiceError as e:
            log.warning("queue %s: a renewal got no answer: %s", self.worker.name, e)
            self.renew_later(due)
            return
        for job, (_, sent), row in zip(due, pairs, outcomes):
            if row["code"] == "OK":
                with self.worker.lock:
                    job.renewed(call.sent_at, self.length(job, call.sent_at, row), sent)
            elif row["code"] in ("UNAVAILABLE", "UNKNOWN", "LIMIT"):
                self.renew_later([job])
            elif job.token in self.worker.held:
                job.lose(str(row.get("reason") or row["code"]))

    def call(self, rows: List[Dict[str, Any]]) -> Any:
        plain = not any("progress" in row for row in rows)
        call = calls.renew_locks(self.worker.name, visibility=_steps.ms(self.lease or None),
                                 tokens=[row["token"] for row in rows] if plain else None,
                                 renewals=None if plain else rows)
        self.worker.listener.as_worker(call)
        return call

    def length(self, job: WorkerJob, asked: float, row: calls.Outcome) -> float:
        """How long a renewed lock lasts, from `asked`."""
        if self.lease:
            return surely(self.lease)
        # The request named no time, so it is that of the queue. The new deadline and that of the receive are by the
        # store's clock. This is the first renewal, so the clocks had little time to differ.
        passed = row["until"] - job.row.get("deadline", row["until"])
        lease: float = job.deadline + passed / 1000 - (asked - job.began) * DRIFT - asked
        if not job.interrupted:
            self.lease = max(lease, 0.0)
        return max(lease, 0.0)

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
