# SPDX-License-Identifier: Apache-2.0
"""A worker: an App with its jobs, and one QueueWorker for each queue.

A QueueWorker has these threads. All of them are daemons, so that none keeps a process alive.

    places    run the jobs, one at a time each
    fetch     asks for as many messages as there are free places, and takes the acks along
    settle    sends the outcomes that no receive took along within 10 ms
    renew     renews all locks at a third of the shortest lease, on a connection of its own
    listen    receives the signals of all jobs in one call, and keeps the registration alive
"""
from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import queue
import secrets
import signal
import socket
import threading
from types import FrameType
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple, TypeVar

from . import _steps, calls
from ._core import Call, error_of_row, now
from .client import Client
from .errors import (Cancelled, Conflict, Denied, Fenced, Invalid, Limit, NotFound, OutcomeUnknown, SluiceError, Snooze,
                     Unavailable)
from .running import WorkerJob

log = logging.getLogger("sluice")
Handler = Callable[[WorkerJob], Any]
F = TypeVar("F", bound=Callable[..., Any])

PLACES_MAX = 1024
GRACE = 25.0
WAIT = calls.LIMITS["receiveMessages.wait"] / 1000
ACK_PAUSE = 0.01  # an ack waits so long for a receive that takes it along
UNKNOWN_TYPE_DELAY = 10.0
CANCEL_WAIT = 2.0  # a job that was cancelled gets this time to clean up
LEAVE_TIMEOUT = 5.0
RETRY_PAUSE = 1.0
IDLE = 60.0
TTL = 60.0
LISTEN_AFTER = 0.1  # a short job does not cost a poll
LISTEN_FULL, LISTEN = 2.0, 0.5  # a poll does not hear of new jobs, so it is short if one may come
PASSES = (Unavailable, OutcomeUnknown, Limit)  # a later attempt may succeed


class App:
    """The jobs of a program.

        app = sluice.App()

        @app.job("mail", concurrency=8)
        def send_mail(job):
            ...

        app.run()

    name: of the worker, as operators see it. labels: such as "host=a7,kind=gpu". grace: seconds that running jobs get after
    SIGTERM. visibility: seconds of a lock; default: the queue's setting."""

    def __init__(self, client: Client | None = None, *, name: str = "", labels: str = "", grace: float = GRACE,
                 visibility: float | None = None, register: bool = True) -> None:
        self._client = client
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        self.labels = labels
        self.grace = grace
        self.visibility = visibility
        self.register = register
        self.handlers: Dict[str, Dict[str, Handler]] = {}
        self.places: Dict[str, int] = {}
        self.error: BaseException | None = None
        self._stops = threading.Event()
        self._at_once = threading.Event()
        self._wake = threading.Event()

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
        self._stops.clear()
        self._at_once.clear()
        workers = [QueueWorker(self, client, name) for name in self.handlers]
        restore = self._catch_signals() if signals and threading.current_thread() is threading.main_thread() else {}
        started: List[QueueWorker] = []
        try:
            for worker in workers:
                started.append(worker)
                worker.start()
            self._wait(lambda: self._stops.is_set() or all(w.is_idle() and w.ends for w in workers))
        finally:
            self._end(started)
            for number, handler in restore.items():
                signal.signal(number, handler)
        if self.error:
            raise self.error

    def stop(self, at_once: bool = False) -> None:
        """Ends run(), from any thread."""
        if at_once:
            self._at_once.set()
        self._stops.set()
        self._wake.set()

    def fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.stop()

    def changed(self) -> None:
        self._wake.set()

    def _catch_signals(self) -> Dict[int, Any]:
        def on_signal(number: int, frame: FrameType | None) -> None:
            log.info("%s: %s", signal.Signals(number).name,
                     "ends at once" if self._stops.is_set() else f"running jobs get {self.grace:g} s")
            self.stop(at_once=self._stops.is_set())

        return {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}

    def _wait(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        until = None if timeout is None else now() + timeout
        while not done():
            left = None if until is None else until - now()
            if left is not None and left <= 0:
                return
            self._wake.wait(left)
            self._wake.clear()

    def _end(self, workers: List[QueueWorker]) -> None:
        for worker in workers:
            worker.stop_receiving()
        self._wait(lambda: self._at_once.is_set() or all(w.is_idle() for w in workers), self.grace)
        for worker in workers:
            worker.cancel_all()
        self._wait(lambda: all(w.is_idle() for w in workers), CANCEL_WAIT)
        for worker in workers:
            worker.finish()


class QueueWorker:
    """Works on one queue. `lock` protects the jobs and the outcomes. Each thread waits for what concerns it."""

    def __init__(self, app: App, client: Client, name: str) -> None:
        self.app = app
        self.name = name
        self.client = client
        self.places = app.places[name]
        self.instance = secrets.token_hex(8)
        self.registered = False
        self.ends = False  # it receives no more
        self.closes = False  # the threads end
        self.lock = threading.RLock()
        self.to_fetch, self.to_settle, self.to_renew, self.to_listen = (threading.Condition(self.lock) for _ in range(4))
        self.renews_at = 0.0  # when the renewal wakes by itself
        self.listener_idle = False  # it waits for the first job
        self.held: Dict[str, WorkerJob] = {}  # by token, until the outcome is known
        self.outcomes: List[Tuple[WorkerJob, str, Any]] = []
        self.settling = 0
        self.inbox: queue.SimpleQueue[WorkerJob | None] = queue.SimpleQueue()
        self.loop: asyncio.AbstractEventLoop | None = None
        # Own connections: a receive that waits, and a call that a stop aborts, hold up no other.
        self.fetching = own_client(client)
        self.renewing = own_client(client, grace=0.0)
        self.listening = own_client(client)
        self.threads: List[threading.Thread] = []

    # The life of the worker.

    def start(self) -> None:
        self.join_queue()
        for target, count in ((self.fetch, 1), (self.settle, 1), (self.renew, 1), (self.listen, 1), (self.work, self.places)):
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
            return not self.running() and not self.outcomes and not self.settling

    def running(self) -> List[WorkerJob]:
        return [job for job in self.held.values() if job.runs]

    def notify(self) -> None:
        with self.lock:
            for condition in (self.to_fetch, self.to_settle, self.to_renew, self.to_listen):
                condition.notify_all()
        self.app.changed()

    def stop_receiving(self) -> None:
        self.ends = True
        self.fetching._transport.abort()
        self.notify()

    def cancel_all(self) -> None:
        for job in self.running():
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
        if self.registered:
            self.last_call(calls.leave_worker(self.name, worker=self.app.name, instance=self.instance))
        self.closes = True
        self.notify()
        for _ in range(self.places):
            self.inbox.put(None)
        for client in (self.fetching, self.renewing, self.listening):
            client.close()
        if self.loop:
            self.loop.call_soon_threadsafe(self.loop.stop)

    def last_call(self, call: Call[Any]) -> None:
        try:
            self.client.call(call, LEAVE_TIMEOUT)
        except SluiceError as e:
            log.warning("queue %s: %s at the end: %s", self.name, call.operation, e)

    # Registration.

    def join_queue(self) -> None:
        """Registers the worker. It works without a registration, too, if the queue is too old or the name is taken."""
        if not self.app.register:
            return
        try:
            self.client.call(calls.join_worker(self.name, worker=self.app.name, instance=self.instance, capacity=self.places,
                                               labels=self.app.labels or None, ttl=round(TTL * 1000)))
            self.registered = True
        except (Conflict, Unavailable, OutcomeUnknown, Limit) as e:
            log.warning("queue %s: worker %s is not registered: %s", self.name, self.app.name, e)

    def beat(self) -> None:
        """Asks whether the registration is still there."""
        if not self.app.register:
            return
        if not self.registered:
            self.join_queue()
            return
        try:
            self.listening.call(calls.join_worker(self.name, worker=self.app.name, instance=self.instance, beat=True))
        except NotFound:
            self.registered = False
            self.join_queue()

    def as_worker(self, call: Call[Any]) -> None:
        if self.registered:
            call.headers["Sluice-Worker"] = f"{self.instance} {self.app.name}"

    # Receive.

    def fetch(self) -> None:
        call: Call[calls.Received] | None = None
        acked: List[WorkerJob] = []
        while True:
            if call is None:
                places, acked = self.free_places()
                if places == 0:
                    break
                call = calls.receive_messages(
                    self.name, max=places, wait=0 if acked else round(WAIT * 1000), worker=self.app.name,
                    visibility=_steps.ms(self.app.visibility), ack=[job.token for job in acked] or None)
                self.as_worker(call)
            try:
                asked = now()
                answer = self.fetching.call(call)
            except OutcomeUnknown as e:
                # The receive may have locked messages. It is repeated with its id until it is answered.
                if self.ends:
                    self.give_back(call, acked)
                    break
                log.warning("queue %s: the receive got no answer: %s", self.name, e)
                self.pause(RETRY_PAUSE)
                continue
            except SluiceError as e:
                self.put_back(acked)
                call, acked = None, []
                if not self.goes_on(e):
                    break
                continue
            self.take(answer, acked, asked if call.wait == 0 else None)
            call, acked = None, []
        self.ends = True
        self.notify()

    def free_places(self) -> Tuple[int, List[WorkerJob]]:
        """Waits for a free place. Returns 0 if the worker receives no more. The acks of jobs without a result go along."""
        with self.lock:
            while not self.ends and self.places == len(self.running()):
                self.to_fetch.wait()
            if self.ends:
                return 0, []
            plain = [row for row in self.outcomes if row[1] == "ack" and row[2] is None]
            self.outcomes = [row for row in self.outcomes if row not in plain]
            self.settling += len(plain)
            return self.places - len(self.running()), [row[0] for row in plain]

    def take(self, answer: calls.Received, acked: List[WorkerJob], asked: float | None) -> None:
        """Starts the jobs of an answer. asked: when the lease began, if the receive did not wait."""
        for job, row in zip(acked, answer.get("acked", [])):
            self.settled(job, row)
        # A lock without a lease has expired while the answer was lost.
        jobs = [WorkerJob(self, message, asked) for message in answer["messages"] if message.get("leaseMs")]
        with self.lock:
            for job in jobs:
                self.held[job.token] = job
            self.settling -= len(acked)
            if any(job.renew_at < self.renews_at for job in jobs):
                self.to_renew.notify()
            if self.listener_idle:
                self.to_listen.notify()
        for job in jobs:
            self.inbox.put(job)
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
            self.outcomes += [(job, "ack", None) for job in acked]
            self.settling -= len(acked)
        self.notify()

    def give_back(self, call: Call[calls.Received], acked: List[WorkerJob]) -> None:
        """The worker ends, and the receive was aborted. It may have locked messages: they are released."""
        assert call.body is not None
        call.body["wait"] = 0
        try:
            answer = self.client.call(call, LEAVE_TIMEOUT)
            for job, row in zip(acked, answer.get("acked", [])):
                self.settled(job, row)
            tokens = [row["token"] for row in answer["messages"]]
            if tokens:
                self.client.call(calls.release_messages(self.name, tokens=tokens), LEAVE_TIMEOUT)
        except SluiceError as e:
            log.warning("queue %s: messages of the last receive return when their locks expire: %s", self.name, e)
        with self.lock:
            self.settling -= len(acked)

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
                    self.outcomes.append((job, kind, value))
                self.to_fetch.notify()
                self.to_settle.notify()
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
        if isinstance(error, (Cancelled, asyncio.CancelledError, concurrent.futures.CancelledError)):
            return "release", None  # after an interrupt this ends the message
        if isinstance(error, Snooze):
            return "release", error.after
        if error is not None:
            log.error("queue %s: message %s failed", self.name, job.id, exc_info=error)
            return "fail", f"{type(error).__name__}: {error}"[:1000]
        return self.checked(job, result)

    @staticmethod
    def checked(job: WorkerJob, result: Any) -> Tuple[str, Any]:
        try:
            job.ack_row(result)
        except Invalid as e:
            return "fail", str(e)
        return "ack", result

    def event_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of all asyncio functions of the queue."""
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(target=self.loop.run_forever, daemon=True, name=f"sluice {self.name} loop").start()
            return self.loop

    # Outcomes.

    def settle(self) -> None:
        while True:
            with self.lock:
                while not self.outcomes and not self.closes:
                    self.to_settle.wait()
                if not self.outcomes:
                    return
                until = now() + ACK_PAUSE
                while self.outcomes and now() < until and not self.ends:
                    self.to_settle.wait(until - now())
                rows, self.outcomes = self.outcomes, []
                self.settling += len(rows)
            if not rows:  # a receive took them along
                continue
            for jobs, call in self.settle_calls(rows):
                self.send_outcomes(jobs, call)
            with self.lock:
                self.settling -= len(rows)
            self.notify()

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
                found.append((jobs, calls.fail_messages(self.name, tokens=tokens, reason=value)))
            elif kind == "release":
                found.append((jobs, calls.release_messages(self.name, tokens=tokens, delay=_steps.ms(value))))
            elif all(result is None for _, result in members):
                found.append((jobs, calls.ack_messages(self.name, tokens=tokens)))
            else:
                found.append((jobs, calls.ack_messages(self.name, acks=[job.ack_row(result) for job, result in members])))
        return found

    def send_outcomes(self, jobs: List[WorkerJob], call: Call[Any]) -> None:
        """Repeats the same request until its answer is known, or until all locks have ended."""
        while True:
            try:
                answer = self.client.call(call, None if not self.ends else LEAVE_TIMEOUT)
            except PASSES as e:
                log.warning("queue %s: %s got no answer: %s", self.name, call.operation, e)
                if (self.closes or now() > max(job.deadline for job in jobs)) and not isinstance(e, Limit):
                    break
                if isinstance(e, Limit) and not e.retry_after:  # too large for a request: it stays so
                    self.refuse_one(jobs, call, e)
                    return
                self.pause(RETRY_PAUSE / 10)
            except SluiceError as e:
                self.refuse_one(jobs, call, e)
                return
            else:
                for job, row in zip(jobs, answer["outcomes"]):
                    self.settled(job, row)
                return
        for job in jobs:
            self.forget(job)

    def refuse_one(self, jobs: List[WorkerJob], call: Call[Any], error: SluiceError) -> None:
        """The request as a whole is wrong. Its parts are sent alone, so that one bad result refuses no other."""
        body = call.body or {}
        if len(jobs) > 1:
            for i, job in enumerate(jobs):
                alone: Call[Any] = Call(call.operation, call.method, call.path, call.repeat, queue=call.queue, body={
                    name: value[i:i + 1] if name in ("acks", "tokens") else value for name, value in body.items()})
                self.send_outcomes([job], alone)
            return
        log.error("queue %s: the outcome of message %s was refused: %s", self.name, jobs[0].id, error)
        if call.operation == "ackMessages" and not isinstance(error, (Denied, NotFound, Fenced)):
            self.send_outcomes(jobs, calls.fail_messages(self.name, tokens=[jobs[0].token], reason=str(error)[:1000]))
        else:
            self.forget(jobs[0])

    def settled(self, job: WorkerJob, row: Mapping[str, Any]) -> None:
        if row["code"] in ("UNAVAILABLE", "UNKNOWN", "LIMIT") and now() < job.deadline:
            with self.lock:
                self.outcomes.append((job, *job.outcome))
            return
        if row["code"] != "OK":
            log.warning("queue %s: the outcome of message %s was refused: %s", self.name, job.id, error_of_row(row, row["code"]))
        self.forget(job)

    def forget(self, job: WorkerJob) -> None:
        with self.lock:
            self.held.pop(job.token, None)

    # Locks.

    def renew(self) -> None:
        while True:
            with self.lock:
                if self.closes:
                    return
                at = now()
                jobs = [job for job in self.held.values() if not job.lost]
                self.renews_at = min((job.renew_at for job in jobs), default=at + IDLE)
                if self.renews_at > at:
                    self.to_renew.wait(self.renews_at - at)
                    continue
                due = [job for job in jobs if job.renew_at - job.lease / 12 <= at]  # also those that are due soon
                rows = [job.renewal() for job in due]
            try:
                self.renew_all(due, rows)
            except Exception:  # the renewal never ends of an error
                log.exception("queue %s: a renewal failed", self.name)
                self.renew_later(due)
            self.tell_losses()

    def renew_all(self, due: List[WorkerJob], rows: List[Dict[str, Any]]) -> None:
        left = min(job.told_at for job in due) - now()
        call = calls.renew_locks(self.name, visibility=_steps.ms(self.app.visibility), renewals=rows)
        self.as_worker(call)
        asked = now()
        try:
            outcomes = self.renewing.call(call, max(0.02, min(left, max(job.lease for job in due) / 6)))["outcomes"]
        except PASSES as e:
            log.warning("queue %s: a renewal got no answer: %s", self.name, e)
            self.renew_later(due)
            return
        except SluiceError as e:
            log.warning("queue %s: a renewal was refused: %s", self.name, e)
            outcomes = [{"code": e.code}] * len(due)
        for job, row in zip(due, outcomes):
            if row["code"] == "OK":
                job.renewed(asked, row["until"])
            elif row["code"] in ("UNAVAILABLE", "UNKNOWN", "LIMIT"):
                self.renew_later([job])
            elif job.token in self.held:
                job.lose(str(row.get("reason", row["code"])))

    @staticmethod
    def renew_later(jobs: List[WorkerJob]) -> None:
        for job in jobs:
            job.renew_at = min(now() + max(job.lease / 12, 0.02), max(now() + 0.02, job.told_at))

    def tell_losses(self) -> None:
        """A job whose lock could not be renewed is told before the lock ends."""
        with self.lock:
            late = [job for job in self.held.values() if not job.lost and now() >= job.told_at]
        for job in late:
            job.lose("not-renewed")

    # Signals.

    def listen(self) -> None:
        beat_at = now() + TTL / 2
        while not self.closes:
            with self.lock:
                running = [job for job in self.running() if not job.lost]
                jobs = [job for job in running if job.began + LISTEN_AFTER <= now()]
                if not jobs and now() < beat_at:
                    self.listener_idle = not running
                    self.to_listen.wait(min([beat_at] + [job.began + LISTEN_AFTER for job in running]) - now())
                    self.listener_idle = False
                    continue
            try:
                if now() >= beat_at:
                    beat_at = now() + TTL / 2
                    self.beat()
                elif jobs:
                    self.poll(jobs)
            except PASSES as e:
                log.info("queue %s: signals: %s", self.name, e)
                self.pause_listening(RETRY_PAUSE)
            except Fenced as e:
                self.app.fail(e)
                return
            except SluiceError as e:
                log.warning("queue %s: signals: %s", self.name, e)
                self.pause_listening(TTL)

    def pause_listening(self, seconds: float) -> None:
        until = now() + seconds
        with self.lock:
            while not self.closes and now() < until:
                self.to_listen.wait(until - now())

    def poll(self, jobs: List[WorkerJob]) -> None:
        wait = LISTEN_FULL if len(jobs) == self.places and not self.ends else LISTEN
        answer = self.listening.call(calls.receive_signals(
            self.name, tokens=[job.token for job in jobs], after=[job.signals.last for job in jobs],
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

    def answer_signal(self, token: str, number: int, answer: Any, decline: bool) -> None:
        call = calls.ack_signals(self.name, token=token, number=number, decline=decline or None)
        if answer is not None and call.body is not None:
            call.body.update(_steps.encoded(self.client.codec, answer, "answer"))
        self.client.call(call)


def own_client(client: Client, grace: float | None = None) -> Client:
    """A client with the same settings and connections of its own. It shares what the other knows of the nodes."""
    own = Client("http://127.0.0.1", token="", timeout=client.core.timeout, codec=client.codec)
    own.core.nodes, own.core.owners = client.core.nodes, client.core.owners
    own.core.token = client.core.token
    own.core.grace = client.core.grace if grace is None else grace
    own._transport.tls = client._transport.tls
    return own
