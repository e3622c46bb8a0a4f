# SPDX-License-Identifier: Apache-2.0
"""The blocking client. tools/make-clients writes the asyncio client, aio.py, from this file."""
from __future__ import annotations

import time
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence, Type, TypeVar, Union

from . import _steps, calls
from ._core import Call, Core
from ._steps import Codec, Event, EventReader, JsonCodec, SentRow, Steps
from ._sync import Transport
from .errors import Invalid, Limit, SluiceError, Unavailable
from .job import JobData

T = TypeVar("T")
TIMEOUT = 30.0
RECONNECT = 0.5


class Client:
    """Calls one or several nodes of a cluster. Any number of threads may use it at a time.

    url: "http://host:7333", or several nodes of one cluster: "http://a:7333,b:7333". Default: $SLUICE_STORE. Without a port
    it is 80, or 443 with https.
    token: default $SLUICE_TOKEN.
    timeout: how many seconds a call is repeated before it fails. A call that waits for messages may take longer.
    codec: turns bodies and results into JSON or bytes, and back."""

    def __init__(self, url: str | None = None, *, token: str | None = None, timeout: float = TIMEOUT,
                 codec: Codec | None = None) -> None:
        self.core = Core(url, token, timeout)
        self.codec: Codec = codec or JsonCodec()
        self._transport = Transport(self.core)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Calls of other threads end with an error."""
        self._transport.close()

    def _with_own_connections(self, grace: float | None = None) -> Client:
        """A client with the same settings. It shares what this one knows of the nodes."""
        own = Client("http://127.0.0.1", token="", timeout=self.core.timeout, codec=self.codec)
        own.core.nodes, own.core.owners, own.core.token = self.core.nodes, self.core.owners, self.core.token
        own.core.grace = self.core.grace if grace is None else grace
        own._transport.tls = self._transport.tls
        return own

    def call(self, call: Call[T], timeout: float | None = None) -> T:
        """Makes any call of `sluice.calls` and returns its answer."""
        return self._transport.call(call, timeout)

    def queue(self, name: str) -> Queue:
        return Queue(self, name)

    def queues(self) -> List[str]:
        """The names of the queues that the token may read."""
        names: List[str] = []
        more = True
        while more:
            answer = self.call(calls.list_queues(names=True, after=names[-1] if names else None))
            names += [row["name"] for row in answer["queues"]]
            more = answer.get("more", False)
        return names

    def create(self, name: str, settings: calls.QueueSettings | None = None) -> Queue:
        """Creates a queue. A queue that exists with the same settings is no error."""
        self.call(calls.create_queue(name, settings or {}))
        return Queue(self, name)

    def node(self) -> calls.Node:
        """Describes the node that answers."""
        return self.call(calls.show_node())

    def collect(self, messages: Iterable[Union[Sent, str]], timeout: float = TIMEOUT, *, queue: str | None = None
                ) -> Dict[str, calls.Ended]:
        """Waits until all these messages have ended, and returns how.

        A message is what send() returned, or an id. The queues of the first kind may differ; `queue` is that of the ids."""
        ids: Dict[str, List[str]] = {}
        for one in messages:
            if isinstance(one, str) and queue is None:
                raise Invalid(f"the queue of message {one} is not known: collect(ids, queue=...)", field="queue")
            ids.setdefault(queue or "" if isinstance(one, str) else one.queue.name, []).append(
                one if isinstance(one, str) else one.id)
        found: Dict[str, calls.Ended] = {}
        for name, rows in ids.items():
            found.update(self._run(_steps.collect(name, rows, timeout)))
        return found

    def stream(self, queues: Sequence[str] = (), *, from_: str = "now", types: Sequence[str] = (),
               workflow: str | None = None) -> Iterator[Event]:
        """The events of several queues, or of all. It connects again where it was, and misses no event."""
        return self._events(lambda: calls.watch_queues(queue=list(queues), from_=from_, type=list(types), workflow=workflow),
                            False)

    def _events(self, make: Callable[[], Call[None]], ends: bool) -> Iterator[Event]:
        """ends: with the deletion of the queue."""
        reader = EventReader()
        while True:
            call = make()
            if reader.last_id:
                call.query.pop("from", None)
                call.headers["Last-Event-ID"] = reader.last_id
            reader = EventReader(reader.last_id)
            try:
                for part in self._transport.stream(call):
                    for event in reader.feed(part):
                        yield event
            except Unavailable:
                if not reader.last_id:
                    raise
            if ends and reader.ended:
                return
            time.sleep(RECONNECT)

    def _run(self, steps: Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                try:
                    answer = self.call(call)
                except Exception as e:
                    call = steps.throw(e)
                else:
                    call = steps.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value


class Queue:
    """One queue. It makes no request of its own until you call a method."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name

    def send(self, body: Any, *, group: str | None = None, delay: Union[float, timedelta, None] = None,
             at: Union[datetime, float, None] = None, priority: int | None = None, dedup: str | None = None,
             headers: Mapping[str, str] | None = None, workflow: str | None = None, workflow_last: bool | None = None,
             requires: str | None = None, type: str | None = None) -> Sent:
        """Sends a message. When it returns, the message is durable.

        delay: seconds, or a timedelta. at: a datetime, or seconds since 1970. priority: 0 to 9, higher ones first. dedup: a second message
        with this key is not sent. type: the name of a job, for workers that have several for one queue."""
        row = _steps.message(self.client.codec, body, group=group, delay=delay, at=at, priority=priority, dedup=dedup,
                             headers=headers, workflow=workflow, workflow_last=workflow_last, requires=requires, type=type)
        return Sent(self, self.client._run(_steps.send(self.name, row)))

    def send_many(self, bodies: Iterable[Any], **options: Any) -> List[Sent]:
        """Sends many messages with the same options of send(), in few requests.

        If messages are refused, the others are sent. The error of the first refusal has all of them in `sent`."""
        rows = [_steps.message(self.client.codec, body, **options) for body in bodies]
        return [Sent(self, row) for row in self.client._run(_steps.send_many(self.name, rows))]

    def buffer(self, size: int = 1000) -> Buffer:
        """`with q.buffer() as b: b.send(...)` sends many messages in few requests, the last ones at the end."""
        return Buffer(self, size)

    def receive(self, max: int = 1, wait: float = 0, *, visibility: float | None = None,
                worker: str | None = None) -> List[Job]:
        """Locks up to `max` messages. It waits up to `wait` seconds, at most 20, for the first one.

        Each job is yours until job.deadline. Settle it with ack(), fail() or release(), or renew() it."""
        call = calls.receive_messages(self.name, max=max, wait=_steps.ms(wait), visibility=_steps.ms(visibility),
                                      worker=worker)
        answer = self.client.call(call)
        return [Job(self, row) for row in answer["messages"]]

    def show(self) -> calls.Queue:
        """The settings of the queue, its id, and whether it is paused."""
        return self.client.call(calls.show_queue(self.name))

    def change(self, settings: calls.QueueSettings) -> calls.Queue:
        """Changes some settings: all or none."""
        return self.client.call(calls.change_queue(self.name, settings))

    def delete(self, id: str | None = None) -> None:
        """Deletes the queue and all its messages. With the id of the queue the call can be repeated."""
        self.client.call(calls.delete_queue(self.name, id=id))

    def stats(self) -> calls.Stats:
        return self.client.call(calls.queue_stats(self.name))

    def pause(self) -> None:
        """Stops the delivery of messages until resume()."""
        self.client.call(calls.pause_queue(self.name))

    def resume(self) -> None:
        self.client.call(calls.resume_queue(self.name))

    def purge(self, dead: bool = False) -> int:
        """Deletes the messages that wait, or the dead ones. Returns how many."""
        answer = self.client.call(calls.purge_queue(self.name, dead=dead))
        return answer["purged"]

    def redrive(self, to: str | None = None, max: int | None = None, ids: List[str] | None = None) -> int:
        """Sends dead messages again. Returns how many."""
        answer = self.client.call(calls.redrive(self.name, to=to, max=max, ids=ids))
        return answer["redriven"]

    def peek(self, state: str | None = None, max: int | None = None, after: str | None = None) -> List[calls.Message]:
        """Shows messages and does not lock them."""
        answer = self.client.call(calls.peek_messages(self.name, state=state, max=max, after=after))
        return answer["messages"]

    def message(self, id: str) -> calls.Message:
        """One message, in any state."""
        return self.client.call(calls.show_message(self.name, id))

    def cancel(self, ids: List[str], reason: str | None = None) -> calls.Cancelled:
        """Ends messages that no worker holds."""
        return self.client.call(calls.cancel_messages(self.name, ids=ids, reason=reason))

    def signal(self, id: str, kind: str, payload: Any = None, **options: Any) -> calls.Signalled:
        """Sends a signal to a message: steer, ask or interrupt. The options are those of calls.signal_message."""
        return self.client.call(calls.signal_message(self.name, id, kind=kind, payload=payload, **options))

    def signal_answer(self, signal: str, wait: float = 10) -> List[calls.Signal]:
        """Waits until the signal with this id has ended. The rows have the answers."""
        answer = self.client.call(calls.wait_for_signal(self.name, signal=signal, wait=_steps.ms(wait)))
        return answer["signals"]

    def workers(self) -> List[calls.Worker]:
        answer = self.client.call(calls.list_workers(self.name))
        return answer["workers"]

    def result(self, id: str, timeout: float = TIMEOUT) -> Any:
        """Waits for the result of a message. Raises JobFailed if it has none, and TimeoutError."""
        return self.client._run(_steps.result(self.client.codec, self.name, id, timeout))

    def collect(self, ids: Iterable[str], timeout: float = TIMEOUT) -> Dict[str, calls.Ended]:
        """Waits until all these messages have ended, and returns how."""
        return self.client._run(_steps.collect(self.name, ids, timeout))

    def events(self, *, from_: str = "0", types: Sequence[str] = (), message: str | None = None) -> Iterator[Event]:
        """The events of the queue, from the oldest one or from "now". It ends when the queue is deleted."""
        return self.client._events(lambda: calls.watch_events(self.name, from_=from_, type=list(types), message=message), True)


class Sent(SentRow):
    """A message that was sent. `duplicate`: its dedup key was known, and the id is that of the first message."""

    def __init__(self, queue: Queue, row: SentRow) -> None:
        super().__init__(row.id, row.duplicate, row.error)
        self.queue = queue

    def result(self, timeout: float = TIMEOUT) -> Any:
        """Waits for the result of the message. Raises JobFailed if it has none, and TimeoutError."""
        return self.queue.result(self.id, timeout)


class Buffer:
    """Collects messages. What send() returns has its id after the flush.

    If a flush fails, the messages that were certainly not sent stay here for the next one, as far as a later attempt may
    succeed. The `error` of the others says what became of them."""

    def __init__(self, queue: Queue, size: int) -> None:
        self.queue = queue
        self.size = size
        self.rows: List[Dict[str, Any]] = []
        self.sent: List[Sent] = []

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.flush()

    def send(self, body: Any, **options: Any) -> Sent:
        """Takes the options of Queue.send."""
        self.rows.append(_steps.message(self.queue.client.codec, body, **options))
        sent = Sent(self.queue, SentRow(""))
        self.sent.append(sent)
        if len(self.rows) >= self.size:
            self.flush()
        return sent

    def flush(self) -> None:
        rows, waiting = self.rows, self.sent
        self.rows, self.sent = [], []
        try:
            found = self.queue.client._run(_steps.send_many(self.queue.name, rows))
        except SluiceError as e:
            self._take(rows, waiting, e.sent or [SentRow("", error=e) for _ in rows])
            raise
        self._take(rows, waiting, found)

    def _take(self, rows: List[Dict[str, Any]], waiting: List[Sent], found: List[SentRow]) -> None:
        again = [isinstance(row.error, (Unavailable, Limit)) for row in found]
        for sent, row in zip(waiting, found):
            sent.id, sent.duplicate, sent.error = row.id, row.duplicate, row.error
        self.rows = [row for row, stays in zip(rows, again) if stays] + self.rows
        self.sent = [sent for sent, stays in zip(waiting, again) if stays] + self.sent


class Job(JobData):
    """A message with its lock. An outcome has `status`, such as processed, retrying or dead-lettered."""

    def __init__(self, queue: Queue, row: Mapping[str, Any]) -> None:
        super().__init__(queue.client.codec, queue.name, row)
        self._client = queue.client

    def ack(self, result: Any = None) -> calls.Outcome:
        """The message is processed. The result is kept for the queue's retention."""
        return self._settle(self.ack_call(result))

    def fail(self, reason: str = "") -> calls.Outcome:
        """The attempt failed. The queue's settings say whether it is retried."""
        return self._settle(self.fail_call(reason))

    def release(self, delay: float | None = None) -> calls.Outcome:
        """Gives the message back, after `delay` seconds. No attempt counts."""
        return self._settle(self.release_call(delay))

    def renew(self, visibility: float | None = None) -> calls.Outcome:
        """Extends the lock, by default by the queue's visibilityTimeout."""
        return self._client.call(self.renew_call(visibility))

    def progress(self, percent: float, text: str | None = None) -> None:
        """Renews the lock, and shows how far the job is: 0 to 100."""
        self._client.call(self.renew_call(None, percent, text))

    def _settle(self, call: Call[calls.Outcome]) -> calls.Outcome:
        outcome = self._client.call(call)
        self.settled = True
        return outcome
