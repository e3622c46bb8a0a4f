# SPDX-License-Identifier: Apache-2.0
"""Celery on Sluice: a transport for kombu.

    import sluice.celery
    app = Celery("jobs", broker="sluice://127.0.0.1:7333")

The import makes the scheme known. `sluice+https://host` is a node with TLS, `sluice://a:7333,b:7333` is a cluster.

A message keeps its lock as long as the process of its worker lives: a thread renews it. After a kill the lock expires, and
another worker gets the message. A task with a countdown or an ETA waits in the queue, not in the memory of a worker.

Options, in `broker_transport_options`: `settings` of the queues that it creates, `token`, `timeout`.

It has no broadcasts, so there is no remote control (`celery inspect`), and no `rpc://` for results."""
from __future__ import annotations

import logging
import os
import re
import socket
import weakref
from datetime import datetime, timezone
from queue import Empty
from typing import Any, Callable, Dict, List, Mapping, Sequence, Set

from kombu.transport import TRANSPORT_ALIASES, virtual  # type: ignore[import]

from . import _steps, calls
from ._codes import VERSION
from .client import Client
from .errors import Conflict, Denied, Invalid, NotFound, OutcomeUnknown, SluiceError, Unavailable
from .renewals import Locks

log = logging.getLogger("sluice")
TRANSPORT_ALIASES["sluice"] = "sluice.celery:Transport"

SETTINGS: Mapping[str, Any] = {"visibilityTimeout": "60s"}
RECEIVE_MAX = 100
WAIT = 1.0  # of a receive, if Celery does not say how long
WAIT_BUSY = 0.2  # Celery sends the acks of running tasks between two receives
WAIT_SEVERAL = 0.1  # a receive waits at one of several queues
CHECK_TIMEOUT = 4.0
CLOSE_TIMEOUT = 5.0  # for the last acks of a channel
PORT = 7333


consumers: weakref.WeakSet[Any] = weakref.WeakSet()  # of Celery, in this process
try:
    from celery.signals import worker_ready  # type: ignore[import]
    worker_ready.connect(lambda sender, **_: consumers.add(sender), weak=False)
except ImportError:
    pass  # a program of kombu alone


class QoS(virtual.QoS):  # type: ignore[misc]  # kombu has no types
    """The messages that a worker has. The delivery tag of a message is the token of its lock."""

    def __init__(self, channel: Channel, prefetch_count: int = 0) -> None:
        super().__init__(channel, prefetch_count)
        self.process = os.getpid()

    def ack(self, delivery_tag: str) -> None:
        """Celery acknowledges its tasks between two receives, and the next one takes the acks along."""
        self.channel.acks.append(delivery_tag)
        if not self.channel._consumers:
            self.channel.send_acks()
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Without requeue the message ends, as in AMQP."""
        self.channel.settle(delivery_tag, calls.release_messages if requeue else calls.ack_messages)
        self._quick_ack(delivery_tag)

    def restore_unacked(self) -> List[Any]:
        """Gives all messages back. A child process has them in its memory, but they belong to its parent."""
        self._flush()
        tokens = list(self._delivered) if self.process == os.getpid() else []
        self._delivered.clear()
        for queue in {self.channel.locks.queue(token) for token in tokens} - {""}:
            rows = [token for token in tokens if self.channel.locks.drop(token, queue)]
            try:
                self.channel.client.call(calls.release_messages(queue, tokens=rows), CLOSE_TIMEOUT)
            except SluiceError as e:
                log.warning("queue %s: %d messages return when their locks expire: %s", queue, len(rows), e)
        return []


class Channel(virtual.Channel):  # type: ignore[misc]
    QoS = QoS
    supports_fanout = False
    do_restore = True

    def __init__(self, connection: Transport, **options: Any) -> None:
        super().__init__(connection, **options)
        self.client = connection.sluice()
        self.locks = Locks(self.client)
        self.known: Set[str] = set()  # queues that exist
        self.local: Set[str] = set()  # for broadcasts, which it does not have
        self.no_ack: Set[str] = set()
        self.acks: List[str] = []  # tokens of tasks that are done
        self.turn = 0
        self.process = os.getpid()
        self.name = f"celery-{socket.gethostname()}-{self.process}"

    def close(self) -> None:
        for consumer in list(consumers):  # Celery 5.2 forgets the acks of tasks that end during its shutdown
            consumer.perform_pending_operations()
        own = self.process == os.getpid()  # a child may not touch what threads of its parent had locked
        try:
            if own:
                self.send_last_acks()
            super().close()  # gives the other messages back
        finally:
            if own:
                self.locks.close()
                self.client.close()

    def send_last_acks(self) -> None:
        try:
            self.send_acks(CLOSE_TIMEOUT)
        except SluiceError as e:
            log.warning("%d tasks are not acknowledged, and may run again: %s", len(self.acks), e)

    # Queues.

    def _new_queue(self, queue: str, auto_delete: bool = False, **options: Any) -> None:
        if auto_delete:
            self.local.add(queue)
        elif queue not in self.known:
            settings = self.connection.client.transport_options.get("settings", SETTINGS)
            try:
                self.client.create(queue, settings)
            except Conflict:
                pass  # it exists with settings of its own
            except Denied:
                self.client.queue(queue).stats()  # a token that may not create queues can use those that exist
            self.known.add(queue)

    def _has_queue(self, queue: str, **options: Any) -> bool:
        try:
            self.client.queue(queue).show()
        except NotFound:
            return False
        return True

    def _size(self, queue: str) -> int:
        return 0 if queue in self.local else self.client.queue(queue).stats()["ready"]

    def _purge(self, queue: str) -> int:
        return 0 if queue in self.local else self.client.queue(queue).purge()

    def _delete(self, queue: str, *args: Any, **options: Any) -> None:
        if queue not in self.local:
            self.client.queue(queue).delete()
        self.known.discard(queue)

    # Messages.

    def _put(self, queue: str, message: Dict[str, Any], **options: Any) -> None:
        if queue not in self.local:
            self.client.queue(queue).send(message, priority=self._get_message_priority(message) or None, at=eta(message))

    def _get(self, queue: str, timeout: float | None = None) -> Dict[str, Any]:
        for message in self.receive(queue, 1, 0):
            return message
        raise Empty

    def receive(self, queue: str, most: int, wait: float) -> List[Dict[str, Any]]:
        acks = [token for token in self.acks if self.locks.queue(token) == queue]
        answer = self.client.call(calls.receive_messages(queue, max=most, wait=0 if acks else round(wait * 1000),
                                                         worker=self.name, ack=acks or None))
        self.acked(queue, acks, answer.get("acked", []))
        return [message for message in (self.taken(queue, row) for row in answer["messages"]) if message]

    def send_acks(self, timeout: float | None = None) -> None:
        """Sends the acks alone, of one queue after another."""
        for queue in {self.locks.queue(token) for token in self.acks}:
            acks = [token for token in self.acks if self.locks.queue(token) == queue]
            outcomes = self.client.call(calls.ack_messages(queue, tokens=acks), timeout)["outcomes"] if queue else []
            self.acked(queue, acks, outcomes)

    def acked(self, queue: str, tokens: List[str], outcomes: Sequence[Mapping[str, Any]]) -> None:
        """Those whose outcome is not known go again with the next receive, as long as they have their lock."""
        known = [token for token, row in zip(tokens, outcomes) if row["code"] not in ("UNAVAILABLE", "UNKNOWN", "LIMIT")]
        for row in outcomes:
            if row["code"] in ("FENCED", "CONFLICT", "NOT_FOUND"):
                log.warning("queue %s: the ack of a task was refused: %s", queue, row.get("detail", row["code"]))
        if tokens and not queue:
            log.warning("%d tasks are not acknowledged, because their locks are lost", len(tokens))
        for token in known if queue else tokens:
            self.acks.remove(token)
            self.locks.drop(token)

    def taken(self, queue: str, row: Mapping[str, Any]) -> Dict[str, Any] | None:
        """The message of kombu in a message of the queue. One that is not of kombu fails, and others go on."""
        message = row.get("body")
        if not isinstance(message, dict) or not isinstance(message.get("properties"), dict):
            log.error("queue %s: message %s is not of Celery", queue, row["id"])
            self.client.call(calls.fail_messages(queue, token=row["token"], reason="it is not a message of Celery"))
            return None
        message["properties"]["delivery_tag"] = row["token"]
        message["properties"].setdefault("delivery_info", {})["redelivered"] = row.get("attempt", 1) > 1
        self.locks.add(row["token"], queue, row.get("leaseMs", 0) / 1000)
        if queue in self.no_ack:
            self.settle(row["token"], calls.ack_messages)
        return message

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **options: Any) -> None:
        if no_ack:
            self.no_ack.add(queue)
        super().basic_consume(queue, no_ack, *args, **options)

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Any:
        message = super().basic_get(queue, no_ack, **options)
        if message and no_ack:
            self.settle(message.delivery_tag, calls.ack_messages)
        return message

    def drain_events(self, timeout: float | None = None, callback: Callable[..., Any] | None = None) -> None:
        """Delivers what one receive brings. If nothing is there, the node waits for it."""
        queues = [queue for queue in self._active_queues if queue not in self.local]
        if not queues or not self.qos.can_consume():
            self.send_acks()
            raise Empty
        self.turn = (self.turn + 1) % len(queues)
        waits = WAIT if timeout is None else timeout
        waits = min(waits, WAIT_BUSY) if self.locks.rows else waits
        waits = min(waits, WAIT_SEVERAL) if len(queues) > 1 else waits
        most = min(self.qos.can_consume_max_estimate() or 1, RECEIVE_MAX)
        for queue, wait in [(q, 0.0) for q in queues[self.turn + 1:] + queues[:self.turn]] + [(queues[self.turn], waits)]:
            messages = self.receive(queue, most, min(wait, _steps.WAIT_MAX))
            for message in messages:
                (callback or self.connection._deliver)(message, queue)
            if messages:
                return
        raise Empty

    def settle(self, token: str, make: Callable[..., Any]) -> None:
        """If it fails, the lock expires, and the message comes again: so its renewals end first."""
        queue = self.locks.drop(token)
        if not queue:
            log.warning("the outcome of a task is not sent, because its lock is lost")
            return
        try:
            self.client.call(make(queue, token=token))
        except (Unavailable, OutcomeUnknown):
            raise
        except SluiceError as e:
            log.warning("queue %s: the outcome of a task was refused: %s", queue, e)


class Transport(virtual.Transport):  # type: ignore[misc]
    Channel = Channel
    can_parse_url = True
    default_port = PORT
    driver_type = "sluice"
    driver_name = "sluice"
    polling_interval = 0.01  # the node waits, so this is for a worker whose places are taken
    connection_errors = (Unavailable, OutcomeUnknown, OSError)
    channel_errors = (SluiceError,)

    def sluice(self) -> Client:
        """A client of the node in the URL."""
        options = self.client.transport_options
        scheme, _, nodes = (self.client.hostname or "").partition("://")
        if scheme not in ("sluice", "http", "https"):
            raise Invalid(f"{self.client.hostname!r} is not sluice://host:7333", field="broker")
        names = [name for name in nodes.rstrip("/").split(",") if name]
        if scheme == "sluice":  # a scheme of its own, so it has a port of its own
            scheme, names = "http", [name if re.search(r":\d+$", name) else f"{name}:{PORT}" for name in names]
        url = f"{scheme}://{','.join(names)}" if names else None
        return Client(url, token=options.get("token"), timeout=options.get("timeout", 30.0))

    def establish_connection(self) -> Any:
        connection = super().establish_connection()
        client: Client = self._avail_channels[0].client
        try:
            client.call(calls.show_node(), min(CHECK_TIMEOUT, client.core.timeout))
        except Denied:
            pass  # the node is there, and its token is for queues
        return connection

    def driver_version(self) -> str:
        return VERSION


def eta(message: Mapping[str, Any]) -> datetime | None:
    """When the task is due. Celery writes its times in UTC."""
    text = (message.get("headers") or {}).get("eta")
    if not text:
        return None
    at = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc)
