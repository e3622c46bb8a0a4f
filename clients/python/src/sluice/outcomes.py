# SPDX-License-Identifier: Apache-2.0
"""The outcomes of jobs: acks, fails and releases."""
from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence, Tuple

from . import _steps, calls
from ._core import Call, error_of_row, now
from .errors import PASSES, Denied, Fenced, Limit, NotFound, SluiceError
from .running import WorkerJob

if TYPE_CHECKING:
    from .queue_worker import QueueWorker

log = logging.getLogger("sluice")
ACK_PAUSE = 0.01  # an ack waits so long for a receive that takes it along
LEAVE_TIMEOUT = 5.0
RETRY_PAUSE = 0.1
REASON_MAX = 1000


def reason_of(error: BaseException) -> str:
    """The reason of a fail. A faulty exception of the program must not end the worker."""
    try:
        text = str(error)
    except Exception as e:
        text = f"(its text raises {type(e).__name__})"
    return _steps.cut(f"{type(error).__name__}: {text}", REASON_MAX)


class Outcomes:
    """Sends the outcomes that no receive took along within 10 ms."""

    def __init__(self, worker: QueueWorker) -> None:
        self.worker = worker
        self.added = threading.Condition(worker.lock)
        self.waiting: List[Tuple[WorkerJob, str, Any]] = []
        self.under_way = 0

    def settle(self) -> None:
        while True:
            with self.worker.lock:
                while not self.waiting and not self.worker.closes:
                    self.added.wait()
                if not self.waiting:
                    return
                until = now() + ACK_PAUSE
                while self.waiting and now() < until and not self.worker.ends:
                    self.added.wait(until - now())
                rows, self.waiting = self.waiting, []
                self.under_way += len(rows)
            if not rows:  # a receive took them along
                continue
            for jobs, call in self.settle_calls(rows):
                self.send_outcomes(jobs, call)
            with self.worker.lock:
                self.under_way -= len(rows)
            if self.worker.ends:  # the app waits for the last outcome
                self.worker.app.changed()

    def settle_calls(self, rows: Sequence[Tuple[WorkerJob, str, Any]]) -> List[Tuple[List[WorkerJob], Call[Any]]]:
        """One call for all acks, and one for each reason and each delay."""
        groups: Dict[Tuple[str, Any], List[Tuple[WorkerJob, Any]]] = {}
        for job, kind, value in rows:
            groups.setdefault((kind, None if kind == "ack" else value), []).append((job, value))
        found: List[Tuple[List[WorkerJob], Call[Any]]] = []
        for (kind, value), members in groups.items():
            jobs = [job for job, _ in members]
            tokens = [job.token for job in jobs]
            if kind == "fail":
                found.append((jobs, calls.fail_messages(self.worker.name, tokens=tokens, reason=value)))
            elif kind == "release":
                found.append((jobs, calls.release_messages(self.worker.name, tokens=tokens, delay=_steps.ms(value))))
            elif all(result is None for _, result in members):
                found.append((jobs, calls.ack_messages(self.worker.name, tokens=tokens)))
            else:
                found.append((jobs, calls.ack_messages(self.worker.name, acks=[
                    job.ack_row(result) for job, result in members])))
        return found

    def send_outcomes(self, jobs: List[WorkerJob], call: Call[Any]) -> None:
        """Repeats the same request until its answer is known, or until all locks have ended."""
        while True:
            try:
                answer = self.worker.client.call(call, None if not self.worker.ends else LEAVE_TIMEOUT)
            except PASSES as e:
                log.warning("queue %s: %s got no answer: %s", self.worker.name, call.operation, e)
                if isinstance(e, Limit) and not e.retry_after:  # too large for a request: it stays so
                    self.refuse_one(jobs, call, e)
                    return
                if self.worker.closes or now() > max(job.deadline for job in jobs):
                    break
                self.pause(e.retry_after or RETRY_PAUSE)
            except SluiceError as e:
                self.refuse_one(jobs, call, e)
                return
            else:
                for job, row in zip(jobs, answer["outcomes"]):
                    self.settled(job, row)
                return
        for job in jobs:
            self.forget(job)

    def pause(self, seconds: float) -> None:
        """It pauses while the worker stops, too, and ends when its threads must end."""
        until = now() + seconds
        with self.worker.lock:
            while not self.worker.closes and now() < until:
                self.added.wait(until - now())

    def refuse_one(self, jobs: List[WorkerJob], call: Call[Any], error: SluiceError) -> None:
        """The request as a whole is wrong. Its parts are sent alone, so that one bad result refuses no other."""
        body = call.body or {}
        if len(jobs) > 1:
            for i, job in enumerate(jobs):
                alone: Call[Any] = Call(call.operation, call.method, call.path, call.repeat, queue=call.queue, body={
                    name: value[i:i + 1] if name in ("acks", "tokens") else value for name, value in body.items()})
                self.send_outcomes([job], alone)
            return
        log.error("queue %s: the outcome of message %s was refused: %s", self.worker.name, jobs[0].id, error)
        if call.operation == "ackMessages" and not isinstance(error, (Denied, NotFound, Fenced)):
            reason = _steps.cut(str(error), REASON_MAX)
            self.send_outcomes(jobs, calls.fail_messages(self.worker.name, tokens=[jobs[0].token], reason=reason))
        else:
            self.forget(jobs[0])

    def settled(self, job: WorkerJob, row: Mapping[str, Any]) -> None:
        if row["code"] in ("UNAVAILABLE", "UNKNOWN", "LIMIT") and now() < job.deadline:
            with self.worker.lock:
                self.waiting.append((job, *job.outcome))
            return
        if row["code"] != "OK":
            log.warning("queue %s: the outcome of message %s was refused: %s", self.worker.name, job.id,
                        error_of_row(row, row["code"]))
        self.forget(job)

    def forget(self, job: WorkerJob) -> None:
        with self.worker.lock:
            self.worker.held.pop(job.token, None)
