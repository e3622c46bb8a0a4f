# SPDX-License-Identifier: Apache-2.0
"""The registration of a worker, and the signals of its jobs."""
from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, List

from . import _steps, calls
from ._core import Call, now
from .client import Client
from .errors import PASSES, Conflict, Fenced, Limit, NotFound, OutcomeUnknown, SluiceError, Unavailable
from .running import WorkerJob

if TYPE_CHECKING:
    from .queue_worker import QueueWorker

log = logging.getLogger("sluice")
TTL = 60.0
RETRY_PAUSE = 1.0
LISTEN_AFTER = 0.1  # a short job does not cost a poll
LISTEN_FULL, LISTEN = 2.0, 0.5  # a poll does not hear of new jobs, so it is short if one may come


class Listener:
    """Receives the signals of all jobs in one call, and keeps the registration alive."""

    def __init__(self, worker: QueueWorker) -> None:
        self.worker = worker
        self.changed = threading.Condition(worker.lock)
        self.is_idle = False  # it waits for the first job
        self.registered = False
        self.client = worker.client._with_own_connections()

    def join_queue(self, client: Client) -> None:
        """Registers the worker. It works without a registration, too, if the queue is too old or the name is taken."""
        if not self.worker.app.register:
            return
        try:
            client.call(calls.join_worker(
                self.worker.name, worker=self.worker.app.name, instance=self.worker.instance, capacity=self.worker.places,
                labels=self.worker.app.labels or None, ttl=round(TTL * 1000)))
            self.registered = True
        except (Conflict, Unavailable, OutcomeUnknown, Limit) as e:
            log.warning("queue %s: worker %s is not registered: %s", self.worker.name, self.worker.app.name, e)

    def beat(self) -> None:
        """Asks whether the registration is still there."""
        if not self.worker.app.register:
            return
        if not self.registered:
            self.join_queue(self.client)
            return
        try:
            self.client.call(calls.join_worker(self.worker.name, worker=self.worker.app.name, instance=self.worker.instance,
                                               beat=True))
        except NotFound:
            self.registered = False
            self.join_queue(self.client)

    def as_worker(self, call: Call[Any]) -> None:
        if self.registered:
            call.headers["Sluice-Worker"] = f"{self.worker.instance} {self.worker.app.name}"

    def listen(self) -> None:
        beat_at = now() + TTL / 2
        while not self.worker.closes:
            with self.worker.lock:
                running = [job for job in self.worker.running() if not job.lost]
                jobs = [job for job in running if job.began + LISTEN_AFTER <= now()]
                if not jobs and now() < beat_at:
                    self.is_idle = not running
                    self.changed.wait(min([beat_at] + [job.began + LISTEN_AFTER for job in running]) - now())
                    self.is_idle = False
                    continue
            try:
                if now() >= beat_at:
                    beat_at = now() + TTL / 2
                    self.beat()
                elif jobs:
                    self.poll(jobs)
            except PASSES as e:
                log.info("queue %s: signals: %s", self.worker.name, e)
                self.pause_listening(RETRY_PAUSE)
            except Fenced as e:
                self.worker.app.fail(e)
                return
            except SluiceError as e:
                log.warning("queue %s: signals: %s", self.worker.name, e)
                self.pause_listening(TTL)

    def pause_listening(self, seconds: float) -> None:
        until = now() + seconds
        with self.worker.lock:
            while not self.worker.closes and now() < until:
                self.changed.wait(until - now())

    def poll(self, jobs: List[WorkerJob]) -> None:
        wait = LISTEN_FULL if len(jobs) == self.worker.places and not self.worker.ends else LISTEN
        answer = self.client.call(calls.receive_signals(
            self.worker.name, tokens=[job.token for job in jobs], after=[job.signals.last for job in jobs],
            wait=round(wait * 1000)))
        by_token = {job.token: job for job in jobs}
        for row in answer["signals"]:
            job = by_token.get(row.get("token", ""))
            if job is None or not job.runs:
                continue
            if row.get("code", "OK") == "OK":
                job.signals.put(row)
            else:
                job.lose(row.get("reason", row["code"]))

    def answer_signal(self, token: str, number: int, answer: Any, decline: bool,
                      timeout: float | None = None) -> None:
        call = calls.ack_signals(self.worker.name, token=token, number=number, decline=decline or None)
        if answer is not None and call.body is not None:
            call.body.update(_steps.encoded(self.worker.client.codec, answer, "answer"))
        self.worker.client.call(call, timeout)
