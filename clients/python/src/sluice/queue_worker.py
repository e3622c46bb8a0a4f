# SPDX-License-Identifier: Apache-2.0
"""What works on one queue. It has these threads. All of them are daemons, so that none keeps a process alive.

    places    run the jobs, one at a time each
    fetch     asks for as many messages as there are free places, and takes the acks along
    settle    sends the other outcomes (outcomes.py)
    renew     renews the locks (locks.py)
    listen    receives signals, and keeps the registration alive (listener.py)
"""
from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import queue
import secrets
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

from . import _steps, calls
from ._core import Call, now
from .client import Client
from .errors import PASSES, Cancelled, OutcomeUnknown, SluiceError, Snooze
from .listener import Listener
from .locks import Locks
from .outcomes import LEAVE_TIMEOUT, Outcomes, reason_of
from .running import WorkerJob

if TYPE_CHECKING:
    from .worker import App

log = logging.getLogger("sluice")
WAIT = calls.LIMITS["receiveMessages.wait"] / 1000
UNKNOWN_TYPE_DELAY = 10.0
ORDERS = ("worker-paused", "worker-draining")  # of an operator
RETRY_PAUSE = 1.0


class QueueWorker:
    """Works on one queue. `lock` protects the jobs and the outcomes. Each thread waits for what concerns it."""

    def __init__(self, app: App, client: Client, name: str) -> None:
        self.app = app
        self.name = name
        self.client = client
        self.places = app.places[name]
        self.instance = secrets.token_hex(8)
        self.ends = False  # it receives no more
        self.fetches = True  # a receive may be under way
        self.closes = False  # the threads end
        self.lock = threading.RLock()
        self.to_fetch = threading.Condition(self.lock)
        self.held: Dict[str, WorkerJob] = {}  # by token, until the outcome is known
        self.inbox: queue.SimpleQueue[WorkerJob | None] = queue.SimpleQueue()
        self.loop: asyncio.AbstractEventLoop | None = None
        # Own connections: a receive that waits, and a call that a stop aborts, hold up no other.
        self.fetching = client._with_own_connections()
        self.outcomes = Outcomes(self)
        self.locks = Locks(self)
        self.listener = Listener(self)
        self.threads: List[threading.Thread] = []

    # The life of the worker.

    def start(self) -> None:
        for target, count in ((self.fetch, 1), (self.outcomes.settle, 1), (self.locks.renew, 1), (self.listener.listen, 1),
                              (self.work, self.places)):
            for _ in range(count):
                self.spawn(target)

    def spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=self.guarded, args=(target,), daemon=True, name=f"sluice {self.name} {target.__name__}")
        self.threads.append(thread)
        thread.start()

    def guarded(self, target: Callable[[], None]) -> None:
        try:
            target()
        except Exception as e:  # a fault of the library: the worker must not go on with a part of its threads
            log.exception("queue %s: %s failed", self.name, target.__name__)
            self.app.fail(e)

    def is_idle(self) -> bool:
        with self.lock:
            return not self.fetches and not self.running() and not self.outcomes.waiting and not self.outcomes.under_way

    def running(self) -> List[WorkerJob]:
        return [job for job in self.held.values() if job.runs]

    def notify(self) -> None:
        with self.lock:
            for condition in (self.to_fetch, self.outcomes.added, self.locks.changed, self.listener.changed):
                condition.notify_all()
        if self.ends:  # the app waits for the end
            self.app.changed()

    def stop_receiving(self) -> None:
        self.ends = True
        self.fetching._transport.abort()
        self.notify()

    def cancel_all(self) -> None:
        with self.lock:
            running = self.running()
        for job in running:
            job.cancel("stop")

    def finish(self) -> None:
        """Releases what is still held, leaves, and ends the threads."""
        with self.lock:
            left = self.running()
            for job in left:
                job.runs = False
                job.abandoned = True
        if left:
            log.warning("queue %s: %d jobs do not end; their messages are released", self.name, len(left))
            self.last_call(calls.release_messages(self.name, tokens=[job.token for job in left]))
        if self.listener.registered:
            self.last_call(calls.leave_worker(self.name, worker=self.app.name, instance=self.instance))
        self.closes = True
        self.notify()
        for _ in range(self.places):
            self.inbox.put(None)
        for client in (self.fetching, self.locks.client, self.listener.client):
            client.close()
        if self.loop:
            self.loop.call_soon_threadsafe(self.loop.stop)

    def last_call(self, call: Call[Any]) -> None:
        try:
            self.client.call(call, LEAVE_TIMEOUT)
        except SluiceError as e:
            log.warning("queue %s: %s at the end: %s", self.name, call.operation, e)

    # Receive.

    def fetch(self) -> None:
        try:
            self.listener.join_queue(self.fetching)
            self.locks.learn()
            self.receive()
        except SluiceError as e:
            if not self.ends:
                self.app.fail(e)
        finally:
            self.ends = True
            self.fetches = False
            self.notify()

    def receive(self) -> None:
        call: Call[calls.Received] | None = None
        acked: List[WorkerJob] = []
        while True:
            if call is None:
                places, acked = self.free_places()
                if places == 0:
                    return
                call = self.receive_call(places, acked)
            try:
                answer = self.fetching.call(call)
            except SluiceError as e:
                # A receive that may have locked messages is repeated with its id until it is answered.
                call.again = call.again or isinstance(e, OutcomeUnknown)
                if call.again and isinstance(e, PASSES) and e.reason not in ORDERS:
                    if self.ends:
                        self.give_back(call, acked)
                        return
                    log.warning("queue %s: the receive got no answer: %s", self.name, e)
                    self.pause(e.retry_after or RETRY_PAUSE)
                    continue
                self.put_back(acked)
                if not self.goes_on(e):
                    return
            else:
                self.take(call, answer, acked)
            call, acked = None, []

    def receive_call(self, places: int, acked: List[WorkerJob]) -> Call[calls.Received]:
        """It waits at most a third of a lease, because the lease of a message counts from the request."""
        wait = 0.0 if acked else min(WAIT, self.locks.lease / 3 or WAIT)
        call = calls.receive_messages(
            self.name, max=places, wait=_steps.ms(wait), worker=self.app.name, visibility=_steps.ms(self.app.visibility),
            ack=[job.token for job in acked] or None)
        self.listener.as_worker(call)
        return call

    def free_places(self) -> Tuple[int, List[WorkerJob]]:
        """Waits for a free place. Returns 0 if the worker receives no more. The acks of jobs without a result go along."""
        with self.lock:
            while not self.ends and self.places == len(self.running()):
                self.to_fetch.wait()
            if self.ends:
                return 0, []
            plain = [row for row in self.outcomes.waiting if row[1] == "ack" and row[2] is None]
            self.outcomes.waiting = [row for row in self.outcomes.waiting if row not in plain]
            self.outcomes.under_way += len(plain)
            return self.places - len(self.running()), [row[0] for row in plain]

    def take(self, call: Call[calls.Received], answer: calls.Received, acked: List[WorkerJob]) -> None:
        """Starts the jobs of an answer. Those for which it is too late go back."""
        for job, row in zip(acked, answer.get("acked", [])):
            self.outcomes.settled(job, row)
        # A lock without a lease has expired while the answer was lost.
        jobs = [WorkerJob(self, message, call.sent_at) for message in answer["messages"] if message.get("leaseMs")]
        self.locks.seen(jobs, call.again)
        late = [job for job in jobs if self.ends or now() >= job.told_at]
        with self.lock:
            for job in jobs:
                self.held[job.token] = job
            for job in late:
                job.runs, job.outcome = False, ("release", None)
                self.outcomes.waiting.append((job, *job.outcome))
            self.outcomes.under_way -= len(acked)
            if late:
                self.outcomes.added.notify()
            if any(job.renew_at < self.locks.wakes_at for job in jobs):
                self.locks.changed.notify()
            if self.listener.is_idle:
                self.listener.changed.notify()
        for job in jobs:
            if job.runs:
                self.inbox.put(job)
        if late:
            log.info("queue %s: %d messages came too late, and go back", self.name, len(late))
        if "error" in answer:
            log.warning("queue %s: the receive failed: %s", self.name, answer["error"].get("detail"))
            self.pause(RETRY_PAUSE)

    def goes_on(self, error: SluiceError) -> bool:
        """After a receive that had no effect. False: the worker receives no more."""
        if self.ends:
            return False
        if error.reason == "worker-draining":
            log.info("queue %s: an operator drains worker %s: it finishes what it has, and ends", self.name, self.app.name)
            return False
        if isinstance(error, PASSES):
            if error.reason != "worker-paused":
                log.warning("queue %s: the receive failed: %s", self.name, error)
            self.pause(error.retry_after or RETRY_PAUSE)
            return True
        self.app.fail(error)
        return False

    def put_back(self, acked: List[WorkerJob]) -> None:
        """The acks of a receive that had no effect go alone, or with the next one."""
        with self.lock:
            self.outcomes.waiting += [(job, "ack", None) for job in acked]
            self.outcomes.under_way -= len(acked)
        self.notify()

    def give_back(self, call: Call[calls.Received], acked: List[WorkerJob]) -> None:
        """The worker ends, and the receive was aborted. It may have locked messages: they are released."""
        assert call.body is not None
        call.body["wait"] = 0
        try:
            answer = self.client.call(call, LEAVE_TIMEOUT)
        except SluiceError as e:
            log.warning("queue %s: messages of the last receive return when their locks expire: %s", self.name, e)
            with self.lock:
                self.outcomes.under_way -= len(acked)
        else:
            self.take(call, answer, acked)

    def pause(self, seconds: float) -> None:
        until = now() + seconds
        with self.lock:
            while not self.ends and now() < until:
                self.to_fetch.wait(until - now())

    # Work.

    def work(self) -> None:
        while True:
            job = self.inbox.get()
            if job is None:
                return
            kind, value = self.run_job(job)
            with self.lock:
                job.runs = False
                job.outcome = (kind, value)
                if job.abandoned or kind == "lost":
                    self.held.pop(job.token, None)
                else:
                    self.outcomes.waiting.append((job, kind, value))
                self.to_fetch.notify()
                self.outcomes.added.notify()
            if self.ends:  # the app waits for the last job
                self.app.changed()

    def run_job(self, job: WorkerJob) -> Tuple[str, Any]:
        """Returns how the job ended: ack with a result, fail with a reason, release with a delay, or lost."""
        handlers = self.app.handlers[self.name]
        handler = handlers.get(job.type) or handlers.get("")
        if handler is None:
            log.warning("queue %s: no function for the type %r of message %s; it is released for %g s", self.name, job.type,
                        job.id, UNKNOWN_TYPE_DELAY)
            return "release", UNKNOWN_TYPE_DELAY
        _steps.traceparent.set(job.headers.get("traceparent", ""))
        result, error = job.run(handler)
        if job.lost:
            log.warning("queue %s: the lock of message %s is lost; its outcome is not sent", self.name, job.id)
            return "lost", None
        if job.interrupted or isinstance(error, (Cancelled, asyncio.CancelledError, concurrent.futures.CancelledError)):
            return "release", None  # after an interrupt this ends the message
        if isinstance(error, Snooze):
            return "release", error.after
        if error is not None:
            log.error("queue %s: message %s failed", self.name, job.id, exc_info=error)
            return "fail", reason_of(error)
        return self.checked(job, result)

    @staticmethod
    def checked(job: WorkerJob, result: Any) -> Tuple[str, Any]:
        try:
            job.ack_row(result)
        except Exception as e:  # it is no JSON, or the codec of the program does not take it
            return "fail", reason_of(e)
        return "ack", result

    def event_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of all asyncio functions of the queue."""
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(target=self.loop.run_forever, daemon=True, name=f"sluice {self.name} loop").start()
            return self.loop
