# SPDX-License-Identifier: Apache-2.0
"""What Client and AsyncClient share: bodies, messages, events, and operations of several calls.

An operation is a generator. It yields calls, and gets their answers. `Client._run` and `AsyncClient._run` drive it, so that
an operation is written once."""
from __future__ import annotations

import base64
import contextvars
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Dict, Generator, Iterable, Iterator, List, Mapping, Optional, Protocol, Sequence, Tuple, TypeVar, Union, cast

from . import calls, errors
from ._core import READ, Call, error_of_row, json_bytes, now

R = TypeVar("R")
Steps = Generator[Call[Any], Any, R]
BYTES_TYPE = "application/octet-stream"
JSON_TYPE = "application/json"
TYPE_HEADER = "sluice-type"
PROGRESS_TEXT_MAX = 256
REQUEST_MAX = 8 << 20  # bytes of the messages of one request
WAIT_MAX = calls.LIMITS["collectMessages.wait"] / 1000
# The W3C trace context of the job that runs, or one that the program sets. A send adds it to the headers of its message.
traceparent: contextvars.ContextVar[str] = contextvars.ContextVar("sluice_traceparent", default="")


class Codec(Protocol):
    """Turns values of the program into bodies and back.

    encode() returns a JSON value, or bytes, and the content type or None. decode() gets what encode() returned."""

    def encode(self, value: Any) -> Tuple[Any, Optional[str]]: ...

    def decode(self, body: Any, content_type: str) -> Any: ...


class JsonCodec:
    """JSON values as they are, bytes as bytes."""

    def encode(self, value: Any) -> Tuple[Any, Optional[str]]:
        return (bytes(value), BYTES_TYPE) if isinstance(value, (bytes, bytearray, memoryview)) else (value, None)

    def decode(self, body: Any, content_type: str) -> Any:
        return body


def ms(time: Union[float, timedelta, None]) -> int | None:
    if isinstance(time, timedelta):
        return round(time.total_seconds() * 1000)
    if time is None or isinstance(time, (int, float)):
        return None if time is None else round(time * 1000)
    raise errors.Invalid(f"{time!r} is not a time: it is a number of seconds, or a timedelta")


def due_ms(at: Union[datetime, float, None]) -> int | None:
    """A datetime without a zone is in local time, as Python has it."""
    return None if at is None else ms(at.timestamp() if isinstance(at, datetime) else at)


def encoded(codec: Codec, value: Any, name: str) -> Dict[str, Any]:
    """The fields of a body, a result, a payload or an answer."""
    body, kind = codec.encode(value)
    if isinstance(body, bytes):
        fields: Dict[str, Any] = {name + "Base64": base64.b64encode(body).decode("ascii")}
    else:
        try:
            json.dumps(body, allow_nan=False)
        except (TypeError, ValueError) as e:
            raise errors.Invalid(f"{name} is not JSON: {e}; send bytes, or use a codec", field=name) from None
        fields = {name: body}
    if name == "result" and kind is None and not isinstance(body, (str, bytes)):
        kind = JSON_TYPE  # the node keeps a text: its type tells the number 3 from the string "3"
    if kind and name in ("body", "result"):
        fields["contentType" if name == "body" else "resultType"] = kind
    return fields


def cut(text: str, size: int) -> str:
    """The text with at most `size` bytes. Half of a surrogate pair, which is no UTF-8, becomes "?"."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


def progress(percent: float, text: str | None) -> Tuple[int, str | None]:
    """What the node takes: a whole number from 0 to 100, and a short text."""
    if isinstance(percent, bool) or not isinstance(percent, (int, float)) or percent != percent:
        raise errors.Invalid(f"progress is {percent!r}; it is a number from 0 to 100", field="progress")
    return round(min(100, max(0, percent))), None if text is None else cut(str(text), PROGRESS_TEXT_MAX)


def decoded(codec: Codec, row: Mapping[str, Any], name: str, kind: str) -> Any:
    """A body of bytes that happen to be UTF-8 comes as a string. Its content type says that it is bytes."""
    body = row.get(name)
    if name + "Base64" in row:
        body = base64.b64decode(row[name + "Base64"])
    elif kind == BYTES_TYPE and isinstance(body, str):
        body = body.encode("utf-8")
    elif name == "result" and kind == JSON_TYPE and isinstance(body, str):
        body = json.loads(body)
    return codec.decode(body, kind)


def message(codec: Codec, body: Any, *, group: str | None = None,
            delay: Union[float, timedelta, None] = None, at: Union[datetime, float, None] = None, priority: int | None = None, dedup: str | None = None,
            headers: Mapping[str, str] | None = None, workflow: str | None = None, workflow_last: bool | None = None,
            requires: str | None = None, type: str | None = None) -> Dict[str, Any]:
    all_headers = dict(headers or {})
    if type is not None:
        all_headers[TYPE_HEADER] = type
    if traceparent.get():
        all_headers.setdefault("traceparent", traceparent.get())
    row = {"group": group, "delay": ms(delay), "due": due_ms(at), "priority": priority, "dedup": dedup,
           "workflow": workflow, "workflowLast": workflow_last, "requires": requires, "headers": all_headers or None}
    return {**encoded(codec, body, "body"), **{k: v for k, v in row.items() if v is not None}}


@dataclass
class SentRow:
    """A message that was sent. `duplicate`: its dedup key was known, and the id is that of the first message.
    `error`: in a send of several messages, why this one has no id."""
    id: str
    duplicate: bool = False
    error: errors.SluiceError | None = None


def send(queue: str, row: Dict[str, Any]) -> Steps[SentRow]:
    call = calls.send_messages(queue)
    call.body = row
    answer = yield call
    return SentRow(answer["id"], answer.get("duplicate", False))


def send_many(queue: str, rows: Sequence[Dict[str, Any]]) -> Steps[List[SentRow]]:
    """If messages are refused, it sends the others. The error of the first one has in `sent` what became of each.

    After a request that failed as a whole there is no further one: its messages and the later ones were not sent."""
    sent: List[SentRow] = []
    for part in parts(rows):
        call = calls.send_messages(queue, messages=[cast(calls.NewMessage, row) for row, _ in part])
        call.data = b'{"messages":[' + b",".join(data for _, data in part) + b"]}"
        try:
            answer = yield call
        except errors.SluiceError as e:
            sent += [SentRow("", error=e) for _ in part]
            later = errors.Unavailable("it was not sent, because a message before it was not", field="messages")
            sent += [SentRow("", error=later) for _ in rows[len(sent):]]
            break
        for row in answer["sent"]:
            error = None
            if row["code"] != "OK":
                error = error_of_row(row, f"message {len(sent)} was refused with {row['code']}", call)
            sent.append(SentRow(row.get("id", ""), row.get("duplicate", False), error))
    for one in sent:
        if one.error:
            one.error.sent = sent
            raise one.error
    return sent


def parts(rows: Sequence[Dict[str, Any]]) -> Iterator[List[Tuple[Dict[str, Any], bytes]]]:
    """The messages of each request, with their JSON."""
    part: List[Tuple[Dict[str, Any], bytes]] = []
    size = 0
    for row in rows:
        data = json_bytes(row)
        if part and (len(part) == calls.LIMITS["sendMessages.messages"] or size + len(data) > REQUEST_MAX):
            yield part
            part, size = [], 0
        part.append((row, data))
        size += len(data)
    if part:
        yield part


def collect(queue: str, ids: Iterable[str], timeout: float) -> Steps[Dict[str, calls.Ended]]:
    """Waits until all have ended. Raises TimeoutError, which names the others."""
    missing = list(dict.fromkeys(ids))
    until = now() + timeout
    found: Dict[str, calls.Ended] = {}
    while missing:
        wait = max(0.0, min(WAIT_MAX, until - now()))
        part = missing[:calls.LIMITS["collectMessages.ids"]]
        call = calls.collect_messages(queue, ids=part, wait=round(wait * 1000))
        call.repeat = READ  # it asks no running job, so it changes nothing
        answer = yield call
        for row in answer["messages"]:
            found[row["id"]] = row
        missing = [i for i in missing if i not in found]
        if missing and not answer["messages"] and now() >= until:
            raise TimeoutError(f"{len(missing)} of {len(missing) + len(found)} messages of {queue} have not ended: "
                               + ", ".join(missing[:3]))
    return found


def result(codec: Codec, queue: str, message_id: str, timeout: float) -> Steps[Any]:
    row = (yield from collect(queue, [message_id], timeout))[message_id]
    if row["state"] != "processed":
        why = f": {row['reason']}" if row.get("reason") else ""
        raise errors.JobFailed(f"message {message_id} of {queue} ended as {row['state']}{why}", state=row["state"],
                               reason=row.get("reason", ""))
    return decoded(codec, row, "result", row.get("resultType", ""))


@dataclass
class Event:
    """One event of a stream. docs/events.md has the types and their data."""
    type: str
    id: str
    data: Any


@dataclass
class EventReader:
    """Server-Sent Events without I/O."""
    last_id: str = ""
    ended: bool = False  # the queue was deleted
    _buffer: bytes = b""
    _fields: Dict[str, List[str]] = field(default_factory=dict)

    def feed(self, data: bytes) -> List[Event]:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        found = [self._line(line.rstrip(b"\r").decode("utf-8", "replace")) for line in lines]
        return [event for event in found if event]

    def _line(self, line: str) -> Event | None:
        if line:
            name, _, value = line.partition(":")
            self._fields.setdefault(name, []).append(value[1:] if value.startswith(" ") else value)
            return None
        rows, self._fields = self._fields, {}
        self.last_id = rows["id"][-1] if "id" in rows else self.last_id
        if "data" not in rows:
            return None
        text = "\n".join(rows["data"])
        try:
            data = json.loads(text)
        except ValueError:
            data = text
        kind = rows.get("event", ["message"])[-1]
        self.ended = kind == "end" and isinstance(data, dict) and data.get("reason") == "queue-deleted"
        return Event(kind, self.last_id, data)
