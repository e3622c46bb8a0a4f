# SPDX-License-Identifier: Apache-2.0
"""A worker: an App with its jobs. It has a QueueWorker for each queue."""
from __future__ import annotations

import logging
import os
import queue
import secrets
import signal
import socket
import threading
from datetime import timedelta
from types import FrameType
from typing import Any, Callable, Dict, List, TypeVar, Union

from ._core import now
from .client import Client
from .errors import Invalid
from .queue_worker import QueueWorker
from .running import WorkerJob

log = logging.getLogger("sluice")
Handler = Callable[[WorkerJob], Any]
F = TypeVar("F", bound=Callable[..., Any])

PLACES_MAX = 1024
GRACE = 25.0
CANCEL_WAIT = 2.0  # a job that was cancelled gets this time to clean up


class App:
    """The jobs of a program.

        app = sluice.App()

        @app.job("mail", concurrency=8)
        def send_mail(job):
            ...

        app.run()

    name: of the worker, as operators see it. labels: such as "host=a7,kind=gpu". grace: seconds that running jobs get after
    SIGTERM. visibility: seconds of a lock, or a timedelta; default: the queue's setting."""

    def __init__(self, client: Client | None = None, *, name: str = "", labels: str = "", grace: float = GRACE,
                 visibility: Union[float, timedelta, None] = None, register: bool = True) -> None:
        self._client = client
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        self.labels = labels
        self.grace = grace
        self.visibility = visibility
        self.register = register
        self.handlers: Dict[str, Dict[str, Handler]] = {}
        self.places: Dict[str, int] = {}
        self.error: BaseException | None = None
        # A signal handler writes the next three. It may interrupt any code of the main thread, so it takes no lock: put()
        # of this queue may interrupt itself.
        self._stops = 0  # how often it was asked to
        self._at_once = False
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._runs = threading.Event()

    @property
    def client(self) -> Client:
        """The client of the app. Default: one for $SLUICE_STORE."""
        if self._client is None:
            self._client = Client()
        return self._client

    @property
    def queues(self) -> List[str]:
        return list(self.handlers)

    def job(self, queue: str, *, type: str = "", concurrency: int = 1) -> Callable[[F], F]:
        """Declares the function for the messages of a queue. What it returns is the result of the job.

        With a `type`, the function is only for messages whose header sluice-type is this. A function without a type takes
        all messages that no other one takes. The places of a queue are the largest `concurrency` of its functions."""
        if not isinstance(queue, str) or not queue:
            raise Invalid('a job needs the name of its queue: @app.job("mail")', field="queue")
        if not isinstance(concurrency, int) or not 1 <= concurrency <= PLACES_MAX:
            raise Invalid(f"concurrency is {concurrency!r}; it is 1 to {PLACES_MAX}", field="concurrency")

        def declare(function: F) -> F:
            known = self.handlers.setdefault(queue, {})
            if type in known:
                raise Invalid(f"queue {queue} has two functions for the type {type!r}", field="type")
            known[type] = function
            self.places[queue] = max(concurrency, self.places.get(queue, 1))
            return function

        return declare

    def run(self, client: Client | None = None, *, signals: bool = True) -> None:
        """Works until stop(), SIGTERM, SIGINT, or until operators have drained all its workers.

        After the first signal it receives no more, and running jobs get the grace. Then, or after a second signal, it
        cancels them and releases their messages. Raises the error of a queue that cannot be worked on."""
        if not self.handlers:
            raise Invalid("the app has no jobs; declare them with @app.job(queue)", field="queue")
        client = client or self.client
        self.error = None
        self._stops, self._at_once = 0, False
        self._runs.set()
        workers = [QueueWorker(self, client, name) for name in self.handlers]
        restore = self._catch_signals() if signals and threading.current_thread() is threading.main_thread() else {}
        started: List[QueueWorker] = []
        try:
            for worker in workers:
                started.append(worker)
                worker.start()
            self._wait(lambda: self._stops > 0 or all(w.is_idle() and w.ends for w in workers))
        finally:
            self._end(started)
            self._runs.clear()
            for number, handler in restore.items():
                signal.signal(number, handler)
        if self.error:
            raise self.error

    def stop(self, at_once: bool = False) -> None:
        """Ends run(), from any thread."""
        self._at_once = self._at_once or at_once
        self._stops += 1
        self._wakes.put(None)

    def fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.stop()

    def changed(self) -> None:
        self._wakes.put(None)

    def _catch_signals(self) -> Dict[int, Any]:
        def on_signal(number: int, frame: FrameType | None) -> None:
            self.stop(at_once=self._stops > 0)

        return {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}

    def _wait(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        until = None if timeout is None else now() + timeout
        while not done():
            left = None if until is None else until - now()
            if left is not None and left <= 0:
                return
            try:
                self._wakes.get(timeout=left)
            except queue.Empty:
                pass

    def _end(self, workers: List[QueueWorker]) -> None:
        log.info("the worker receives no more; running jobs get %g s", 0 if self._at_once else self.grace)
        for worker in workers:
            worker.stop_receiving()
        self._wait(lambda: self._at_once or all(w.is_idle() for w in workers), self.grace)
        for worker in workers:
            worker.cancel_all()
        self._wait(lambda: all(w.is_idle() for w in workers), CANCEL_WAIT)
        for worker in workers:
            worker.finish()
