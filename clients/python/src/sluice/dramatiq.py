# SPDX-License-Identifier: Apache-2.0
"""Dramatiq on Sluice: a broker.

    import dramatiq
    from sluice.dramatiq import SluiceBroker
    dramatiq.set_broker(SluiceBroker("http://127.0.0.1:7333"))

A message keeps its lock as long as the process of its worker lives: a thread renews it. After a kill the lock expires, and
another worker gets the message. A message with a delay waits in the queue, not in the memory of a worker. A message that
fails for good moves to the queue NAME.XQ, as it does with other brokers of Dramatiq.

`settings` are those of the queues that it creates. The option `broker_priority` of a message is its priority, 0 to 9."""
from __future__ import annotations

import logging
import os
import socket
import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, Mapping, Set

import dramatiq  # type: ignore[import]
from dramatiq.common import xq_name  # type: ignore[import]
from dramatiq.errors import ConnectionClosed, DecodeError, QueueJoinTimeout, QueueNotFound  # type: ignore[import]

from . import _steps, calls
from ._core import Call, now
from .client import Client
from .errors import PASSES, Conflict, Denied, SluiceError
from .renewals import Locks

log = logging.getLogger("sluice")
SETTINGS: calls.QueueSettings = {"visibilityTimeout": "60s"}
RECEIVE_MAX = 100
RECEIVE_TIMEOUT = 5.0  # beside the wait; a receive without an answer is then repeated with its id
CLOSE_TIMEOUT = 5.0
JOIN_PAUSE = 0.05  # the node has no call that waits for an empty queue


class SluiceBroker(dramatiq.Broker):  # type: ignore[misc]  # Dramatiq has no types for it
    """A broker of Dramatiq. Without a URL the node is that of $SLUICE_STORE."""

    def __init__(self, url: str | None = None, *, token: str | None = None, timeout: float = 30.0,
                 settings: calls.QueueSettings = SETTINGS, middleware: Any = None) -> None:
        super().__init__(middleware=middleware)
        self.options: Dict[str, Any] = {"url": url, "token": token, "timeout": timeout}
        self.settings = settings
        self.open()

    def open(self) -> None:
        self.process = os.getpid()
        self.client = Client(**self.options)
        self.locks = Locks(self.client)
        self.known: Set[str] = set()  # queues that exist

    def here(self) -> Client:
        """The client of this process. A process that was forked has none of its parent's connections and locks."""
        if self.process != os.getpid():
            self.open()
        return self.client

    def close(self) -> None:
        if self.process == os.getpid():
            self.locks.close()
            self.client.close()

    def declare_queue(self, queue_name: str) -> None:
        """The queue is created with the first message or consumer: an import needs no node."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = None
            self.emit_after("declare_queue", queue_name)

    def create(self, queue_name: str) -> None:
        client = self.here()
        if queue_name in self.known:
            return
        try:
            client.create(queue_name, self.settings)
        except Conflict:
            pass  # it exists with settings of its own
        except Denied:
            client.queue(queue_name).stats()  # a token that may not create queues can use those that exist
        self.known.add(queue_name)

    def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
        if message.queue_name not in self.queues:
            raise QueueNotFound(message.queue_name)
        try:
            self.create(message.queue_name)
            self.emit_before("enqueue", message, delay)
            self.here().queue(message.queue_name).send(message.encode(), delay=None if delay is None else delay / 1000,
                                                       priority=message.options.get("broker_priority"))
        except PASSES as e:
            raise ConnectionClosed(str(e)) from e
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30000) -> Consumer:
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        try:
            self.create(queue_name)
        except PASSES as e:
            raise ConnectionClosed(str(e)) from e
        return Consumer(self, queue_name, prefetch, timeout / 1000)

    def flush(self, queue_name: str) -> None:
        self.create(queue_name)
        self.here().queue(queue_name).purge()

    def flush_all(self) -> None:
        for queue_name in self.queues:
            self.flush(queue_name)

    def join(self, queue_name: str, *, timeout: int | None = None) -> None:
        self.create(queue_name)
        until = None if timeout is None else now() + timeout / 1000
        changed = threading.Event()
        while True:
            stats = self.here().queue(queue_name).stats()
            if stats["ready"] + stats["locked"] + stats["delayed"] == 0:
                return
            if until is not None and now() > until:
                raise QueueJoinTimeout(queue_name)
            changed.wait(JOIN_PAUSE)


class Message(dramatiq.MessageProxy):  # type: ignore[misc]
    """A message that a worker has. The token of its lock is its name at the node."""

    def __init__(self, message: Any, token: str, lease: float) -> None:
        super().__init__(message)
        self.token, self.lease = token, lease


class Consumer(dramatiq.Consumer):  # type: ignore[misc]
    """The messages of a queue for one worker. It has at most `prefetch` of them, with those that run."""

    def __init__(self, broker: SluiceBroker, queue_name: str, prefetch: int, wait: float) -> None:
        self.broker, self.name, self.prefetch, self.wait = broker, queue_name, prefetch, wait
        self.worker = f"dramatiq-{socket.gethostname()}-{os.getpid()}"[:128]
        self.waiting: Deque[Message] = deque()  # received, not yet given to the worker
        self.held: Set[str] = set()  # tokens
        self.changed = threading.Condition()
        self.asked: Call[Any] | None = None  # a receive without an answer; it may have locked messages

    def __next__(self) -> Message | None:
        if not self.waiting:
            self.receive()
        return self.waiting.popleft() if self.waiting else None

    def receive(self) -> None:
        with self.changed:
            if len(self.held) >= self.prefetch:
                self.changed.wait(self.wait)
            free = min(self.prefetch - len(self.held), RECEIVE_MAX)
        if free <= 0:
            return
        client = self.broker.here()
        self.asked = self.asked or calls.receive_messages(self.name, max=free, wait=round(self.wait * 1000), worker=self.worker)
        try:
            answer = client.call(self.asked, min(RECEIVE_TIMEOUT, client.core.timeout))
        except PASSES as e:
            log.warning("queue %s: a receive got no answer: %s", self.name, e)
            return
        except SluiceError:
            self.broker.known.discard(self.name)  # it may have been deleted
            raise
        self.asked = None
        for row in answer["messages"]:
            self.take(row)

    def take(self, row: Mapping[str, Any]) -> None:
        """A message that is not of Dramatiq fails, and others go on."""
        try:
            message = dramatiq.Message.decode(_steps.decoded(_steps.JsonCodec(), row, "body", row.get("contentType", "")))
        except DecodeError as e:
            log.error("queue %s: message %s is not of Dramatiq: %s", self.name, row["id"], e)
            self.broker.client.call(calls.fail_messages(self.name, token=row["token"], reason="it is not a message of Dramatiq"))
            return
        taken = Message(message, row["token"], row.get("leaseMs", 0) / 1000)
        self.broker.locks.add(taken.token, self.name, taken.lease)
        with self.changed:
            self.held.add(taken.token)
        self.waiting.append(taken)

    def ack(self, message: Message) -> None:
        self.settle(message, calls.ack_messages)

    def nack(self, message: Message) -> None:
        """The dead letter has the id of its message as its dedup key, so a repeat of the move makes no second one."""
        dead = xq_name(self.name)
        try:
            self.broker.create(dead)
            self.broker.here().queue(dead).send(message.encode(), dedup=message.message_id)
        except PASSES as e:
            raise ConnectionClosed(str(e)) from e
        self.settle(message, calls.ack_messages)

    def requeue(self, messages: Iterable[Message]) -> None:
        """Gives messages back that no actor has begun. No attempt counts."""
        for message in messages:
            self.settle(message, calls.release_messages, CLOSE_TIMEOUT)

    def close(self) -> None:
        self.requeue(list(self.waiting))
        self.waiting.clear()

    def settle(self, message: Message, make: Callable[..., Call[Any]], timeout: float | None = None) -> None:
        """Dramatiq repeats it after a ConnectionClosed. Until then the lock is renewed."""
        queue = self.broker.locks.drop(message.token)
        if queue:
            try:
                self.broker.here().call(make(queue, token=message.token), timeout)
            except PASSES as e:
                self.broker.locks.add(message.token, queue, message.lease)
                raise ConnectionClosed(str(e)) from e
            except SluiceError as e:
                log.warning("queue %s: the outcome of %s was refused: %s", queue, message.message_id, e)
        else:
            log.warning("queue %s: the outcome of %s is not sent, because its lock is lost", self.name, message.message_id)
        with self.changed:
            self.held.discard(message.token)
            self.changed.notify()
