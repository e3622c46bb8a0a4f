# SPDX-License-Identifier: Apache-2.0
"""A job that runs in a worker: its lock, its signals, and how it is cancelled."""
from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import functools
import inspect
import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ._core import now
from ._steps import decoded, progress
from .errors import Cancelled, SluiceError
from .job import JobData

if TYPE_CHECKING:
    from .queue_worker import QueueWorker

log = logging.getLogger("sluice")
PROGRESS_PAUSE = 1.0  # progress travels with renewals, and brings one forward at most this often
TOLD_BEFORE = 0.1  # the part of the lease before its end, when a job learns that its lock could not be renewed
DRIFT, AHEAD = 1 / 128, 0.011  # the store's clock may be faster than ours by this part, and ahead by so much
INTERRUPT_TIMEOUT = 1.0  # for the ack of an interrupt: the job is cancelled after it
ASYNC_END = 2.0  # an asyncio job that was cancelled gets this time to clean up


Progress = Tuple[int, Optional[str]]


def surely(lease: float) -> float:
    """How long a lock of this length lasts at least by our clock."""
    return max(0.0, lease - lease * DRIFT - AHEAD)


def void(value: object) -> None:
    """For a lambda that returns nothing."""


class Signal:
    """A signal to a running job. Answer it with ack() or decline()."""

    def __init__(self, job: WorkerJob, row: Mapping[str, Any]) -> None:
        self.number: int = row["number"]
        self.kind: str = row["kind"]  # steer or ask; an interrupt cancels the job
        self._job = job
        self._row = row

    @functools.cached_property
    def payload(self) -> Any:
        return decoded(self._job.codec, self._row, "payload", "")

    def ack(self, answer: Any = None) -> None:
        self._job.worker.listener.answer_signal(self._job.token, self.number, answer, False)

    def decline(self, why: str = "") -> None:
        self._job.worker.listener.answer_signal(self._job.token, self.number, why or None, True)


class Signals:
    """The signals of a job. `for s in job.signals` has those that came and were not taken yet. It does not wait.

    A function waits with get(), an `async def` with `await job.signals.next()`."""

    def __init__(self, job: WorkerJob) -> None:
        self._job = job
        self._rows: List[Signal] = []
        self._changed = threading.Condition()
        self._tasks: List[Callable[[], object]] = []  # wake the coroutines that wait
        self.last = 0  # the number of the last one that came

    def __iter__(self) -> Iterator[Signal]:
        while True:
            found = self.get(0)
            if found is None:
                return
            yield found

    def get(self, timeout: float) -> Signal | None:
        """The next signal, or None if none comes within `timeout` seconds."""
        with self._changed:
            if not self._rows:
                self._changed.wait(timeout)
            return self._rows.pop(0) if self._rows else None

    async def next(self, timeout: float | None = None) -> Signal | None:
        """get() for an `async def`. Without a timeout it waits until a signal comes."""
        until = None if timeout is None else now() + timeout
        while True:
            came = asyncio.Event()
            loop = asyncio.get_running_loop()
            with self._changed:
                if self._rows:
                    return self._rows.pop(0)
                self._tasks.append(lambda: loop.call_soon_threadsafe(came.set))
            try:
                await asyncio.wait_for(came.wait(), None if until is None else max(0.0, until - now()))
            except asyncio.TimeoutError:
                return None

    def put(self, row: Mapping[str, Any]) -> None:
        number = row.get("number", 0)
        if number <= self.last:
            return
        self.last = number
        if row.get("kind") == "interrupt":
            self._job.interrupt(number, row.get("graceMs"))
            return
        with self._changed:
            self._rows.append(Signal(self._job, row))
            self._changed.notify_all()
            tasks, self._tasks = self._tasks, []
        for wake in tasks:
            wake()


class WorkerJob(JobData):
    """The message that a function of a worker gets."""

    def __init__(self, worker: QueueWorker, row: Mapping[str, Any], asked: float) -> None:
        super().__init__(worker.client.codec, worker.name, row)
        self.worker: QueueWorker = worker
        self.signals = Signals(self)
        self.lost = False  # the lock is not ours any more
        self.interrupted = False
        self.runs = True
        self.abandoned = False
        self.outcome: Tuple[str, Any] = ("ack", None)
        self.began = now()
        # The answer may have been on its way for long, or this process may have been stopped. So the lease counts from
        # when the receive was sent.
        self.deadline = asked + self.lease
        self.limit = float("inf")  # of the deadline, after an interrupt
        self.renew_at = asked + self.lease / 3
        self._progress: Progress | None = None  # until a renewal with it is answered
        self._renewed_at = 0.0
        self._gate = threading.Lock()  # protects the next two
        self._stop: Callable[[], None] | None = None  # cancels the function while it runs
        self._cancel = ""
        for signal in row.get("signals", []):
            self.signals.put(signal)

    def progress(self, percent: float, text: str | None = None) -> None:
        """Shows how far the job is: 0 to 100. It travels with a renewal of the lock, within about a second."""
        found = progress(percent, text)
        with self.worker.lock:
            self._progress = found
            self.renew_at = min(self.renew_at, max(now(), self._renewed_at + PROGRESS_PAUSE))
            self.worker.locks.changed.notify()

    @property
    def told_at(self) -> float:
        return float(self.deadline - self.lease * TOLD_BEFORE)

    def renewal(self) -> Tuple[Dict[str, Any], Progress | None]:
        """The row of a request, and the progress that it has."""
        row: Dict[str, Any] = {"token": self.token}
        if self._progress:
            row["progress"], text = self._progress
            if text is not None:
                row["progressText"] = text
        return row, self._progress

    def renewed(self, asked: float, lease: float, sent: Progress | None) -> None:
        self.deadline = min(asked + lease, self.limit)
        self.lease = max(0.01, self.deadline - asked)
        self._renewed_at = asked
        self.renew_at = asked + self.lease / 3
        if self._progress is sent:
            self._progress = None
        if self._progress:  # it came meanwhile
            self.renew_at = min(self.renew_at, asked + PROGRESS_PAUSE)

    def lose(self, why: str) -> None:
        """The lock is gone. If the job still runs, it is cancelled."""
        self.lost = True
        if self.runs:
            log.warning("queue %s: the lock of message %s is lost: %s", self.queue_name, self.id, why)
            self.cancel("lost")

    def interrupt(self, number: int, grace_ms: int | None) -> None:
        self.interrupted = True
        if grace_ms is not None:
            self.limit = now() + grace_ms / 1000
            self.deadline = min(self.deadline, self.limit)
        try:
            self.worker.listener.answer_signal(self.token, number, None, False, INTERRUPT_TIMEOUT)
        except SluiceError as e:
            log.info("queue %s: the interrupt of message %s has no answer: %s", self.queue_name, self.id, e)
        self.cancel("interrupt")

    def cancel(self, why: str) -> None:
        """Raises Cancelled in the function, at most once. A function that has not begun does not begin."""
        with self._gate:
            if self._cancel:
                return
            self._cancel = why
            if self._stop:
                self._stop()

    def run(self, handler: Callable[[WorkerJob], Any]) -> Tuple[Any, BaseException | None]:
        if inspect.iscoroutinefunction(handler):
            return self._run_async(handler)
        # The exception comes at any line, once. Each `except` below is a place where it may arrive: after the gate is
        # closed, none can be on its way.
        try:
            try:
                self._open_gate(self._raise_in(threading.get_ident()))
                result = handler(self)
                self._close_gate()
                return result, None
            except Cancelled as e:
                self._close_gate()
                return None, e
            except BaseException as e:
                self._close_gate()
                return None, e
        except Cancelled as e:
            self._close_gate()
            return None, e

    def _open_gate(self, stop: Callable[[], None]) -> None:
        with self._gate:
            if self._cancel:
                raise Cancelled(self._cancel)
            self._stop = stop

    def _close_gate(self) -> None:
        with self._gate:
            stop, self._stop = self._stop, None
            if stop and self._cancel:  # an exception that has not arrived yet is taken back
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None)

    @staticmethod
    def _raise_in(thread: int) -> Callable[[], None]:
        def stop() -> None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Cancelled))

        return stop

    def _run_async(self, handler: Callable[[WorkerJob], Any]) -> Tuple[Any, BaseException | None]:
        ended = threading.Event()

        async def body() -> Any:
            try:
                return await handler(self)
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(body(), self.worker.event_loop())
        with self._gate:
            self._stop = lambda: void(future.cancel())
            if self._cancel:
                future.cancel()
        try:
            return future.result(), None
        except concurrent.futures.CancelledError as e:
            ended.wait(ASYNC_END)
            return None, e
        except BaseException as e:
            return None, e
        finally:
            with self._gate:
                self._stop = None
