# SPDX-License-Identifier: Apache-2.0
"""The client without I/O.

A Call is one request to any node. An Exchange decides what happens with it: which node gets the next attempt, whether an
answer ends it, and what may have taken effect. The shells in _sync.py and _async.py only carry bytes:

    x = Exchange(core, call)
    while True:
        attempt = x.begin()
        ...send attempt.data to attempt.node, and read the answer...
        pause = x.answered(response), or x.not_sent(why), or x.lost(why)
        if pause is None: return x.answer
        ...sleep for the pause...
"""
from __future__ import annotations

import json
import os
import random
import re
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Generic, List, Mapping, Set, Tuple, TypeVar, Union
from urllib.parse import quote, urlencode, urlsplit

from . import errors
from ._http import Response, request_bytes

T = TypeVar("T")

# How a call may be repeated when its answer is lost.
READ = "read"  # it changes nothing
SAME = "same"  # a repetition has the same result
ID = "id"  # it may be repeated with its request id
ONCE = "once"  # it may not be repeated after it may have arrived

PAUSE_MIN = 0.01
PAUSE_MAX = 1.0
GRACE = 1.0  # a node whose time runs out together with ours can still answer
CONNECT = 1.0  # for a connection, if there are other nodes
PROBE = 3.0  # a node that is silent for so long while it waits itself is asked whether it is alive
PROBE_TARGET = "/healthz"
ATTEMPT = 5.0  # for an answer, if there are other nodes
AWAY_MIN, AWAY_MAX = 0.5, 4.0  # how long a node without an answer is left out
NODES_MAX = 64
EXAMPLE = "http://127.0.0.1:7333, or http://a:7333,b:7333"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# A later attempt would meet the same, or an operator ordered it and the caller must know.
FINAL_REASONS = {"upgrade-needed", "no-owner", "worker-paused", "worker-draining"}
AFTER_UNKNOWN = (errors.Limit, errors.Unavailable, errors.Denied)
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def now() -> float:
    """Seconds on a clock that also runs while the machine is suspended: locks end then, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def given(fields: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def path(pattern: str, *parts: str) -> str:
    """Puts the percent-encoded parts into the places of the pattern."""
    values = iter(parts)
    return re.sub(r"{\w+}", lambda _: quote(next(values), safe=""), pattern)


def ms(duration: Union[int, str, None]) -> str | None:
    """A duration in a query needs its unit."""
    return f"{duration}ms" if isinstance(duration, int) else duration


def to_ms(duration: Union[int, str, None]) -> int:
    if isinstance(duration, int):
        return duration
    found = DURATION.fullmatch(duration or "")
    return int(float(found[1]) * UNITS[found[2]]) if found else 0


def json_bytes(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except (TypeError, ValueError) as e:  # UnicodeEncodeError, half of a surrogate pair, is a ValueError
        raise errors.Invalid(f"the request is not JSON: {e}; send bytes, or use a codec", field="body") from None


@dataclass
class Call(Generic[T]):
    """One request. `sluice.calls` has a function for each. A Call that is sent again keeps its request id."""

    operation: str
    method: str
    path: str
    repeat: str
    query: Dict[str, Any] = field(default_factory=dict)
    body: Dict[str, Any] | None = None
    queue: str = ""  # of a call that goes to the owner of a shard
    stream: bool = False
    headers: Dict[str, str] = field(default_factory=dict)
    request_id: str = ""
    data: bytes | None = None  # the body as JSON, if the caller has it
    sent_at: float = 0.0  # when the last attempt began
    again: bool = False  # an attempt before the last one may have taken effect

    def __post_init__(self) -> None:
        if self.repeat == ID and not self.request_id:
            self.request_id = secrets.token_hex(16)

    @property
    def wait(self) -> float:
        """How long the node itself may wait, in seconds."""
        return to_ms((self.body or {}).get("wait", self.query.get("wait"))) / 1000

    @property
    def target(self) -> str:
        rows = [(name, ("1" if v else "0") if isinstance(v, bool) else v) for name, value in self.query.items()
                for v in (value if isinstance(value, list) else [value])]
        return self.path + ("?" + urlencode(rows, quote_via=quote) if rows else "")

    def encoded(self) -> bytes:
        return self.data if self.data is not None else b"" if self.body is None else json_bytes(self.body)

    def shards(self) -> List[int]:
        """The shards of the tokens in the request."""
        body = self.body or {}
        tokens = [body.get("token")] + body.get("tokens", []) + body.get("ack", [])
        tokens += [row.get("token") for row in body.get("acks", []) + body.get("renewals", [])]
        parts = [str(token).split("-") for token in tokens if token]
        return [int(p[1]) for p in parts if len(p) == 4 and p[1].isdigit()]


@dataclass
class Node:
    url: str
    host: str
    port: int
    tls: bool
    prefix: str  # of the path, if the node is behind a proxy
    authority: str  # the value of Host
    away_until: float = 0.0
    failures: int = 0


def parse_node(url: str) -> Node:
    parts = urlsplit(url)
    if parts.username is not None:
        raise errors.Invalid("the URL of a node may not contain a user; put the token into SLUICE_TOKEN", field="url")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise errors.Invalid(f"{url} has no valid port; a URL looks like {EXAMPLE}", field="url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise errors.Invalid(f"{url!r} is not the URL of a node; one looks like {EXAMPLE}", field="url")
    host = parts.hostname.lower()
    authority = parts.netloc.lower()
    prefix = parts.path.rstrip("/")
    return Node(f"{parts.scheme}://{authority}{prefix}", host, port, parts.scheme == "https", prefix, authority)


def parse_nodes(url: str) -> List[Node]:
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise errors.Invalid(f"{url!r} is not the URL of a node; one looks like {EXAMPLE}", field="url")
    nodes: List[Node] = []
    for name in rest.split(",") if rest else [""]:
        node = parse_node(name if "://" in name else f"{scheme}://{name}")
        if any(node.url == other.url for other in nodes):
            raise errors.Invalid(f"the list names {node.url} twice", field="url")
        nodes.append(node)
    if len(nodes) > NODES_MAX:
        raise errors.Invalid(f"the list names more than {NODES_MAX} nodes", field="url")
    return nodes


class Core:
    """The nodes of a client: which of them answer, and which own the shards of the queues."""

    def __init__(self, url: str | None, token: str | None, timeout: float, grace: float = GRACE) -> None:
        url = url or os.environ.get("SLUICE_STORE", "")
        if not url:
            raise errors.Invalid(f"no node is named: give the client a URL, or set SLUICE_STORE; one looks like {EXAMPLE}",
                                 field="url")
        self.nodes = parse_nodes(url)
        self.token = os.environ.get("SLUICE_TOKEN", "") if token is None else token
        if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
            raise errors.Invalid("the token has characters that a header cannot carry", field="token")
        self.timeout = timeout
        self.grace = grace
        self.turn = random.randrange(len(self.nodes))
        self.lock = threading.Lock()
        self.owners: Dict[str, Tuple[bool, List[int]]] = {}  # queue: ordered, the node of each shard or -1

    def pick(self, tried: Set[int], prefer: int) -> int:
        """The node of the next attempt. All nodes are tried before one is tried again."""
        at = now()
        with self.lock:
            self.turn += 1
            order = [(self.turn + i) % len(self.nodes) for i in range(len(self.nodes))]
        untried = [i for i in order if i not in tried] or order
        here = [i for i in untried if self.nodes[i].away_until <= at]
        return prefer if prefer in here else (here or untried)[0]

    def report(self, number: int, answered: bool) -> None:
        node = self.nodes[number]
        if answered:
            node.failures, node.away_until = 0, 0.0
        else:
            node.away_until = now() + min(AWAY_MAX, AWAY_MIN * 2 ** min(node.failures, 10))
            node.failures += 1

    def learn(self, queue: str, line: str) -> None:
        """Keeps what the header Sluice-Owners says. Only nodes of the list are used, and a malformed line is ignored."""
        words = line.split(" ")
        if len(words) < 2 or words[1] not in ("ordered", "unordered"):
            return
        numbers = {node.url: i for i, node in enumerate(self.nodes)}
        urls = [numbers.get(url, -1) for url in words[2:]]
        places = [DIGITS.find(c) for c in words[0]]
        if any(place >= len(urls) for place in places):
            return
        owners = [urls[place] if place >= 0 else -1 for place in places]
        with self.lock:
            known = self.owners.get(queue)
            if known and len(known[1]) == len(owners):  # "-" says nothing against another node's word
                owners = [old if place < 0 else new for old, new, place in zip(known[1], owners, places)]
            self.owners[queue] = (words[1] == "ordered", owners)

    def preferred(self, call: Call[Any]) -> int:
        """The node that owns most of the shards of the call, or -1."""
        with self.lock:
            ordered, owners = self.owners.get(call.queue, (False, []))
        if not owners or not call.queue:
            return -1
        shards = [s for s in call.shards() if s < len(owners)]
        if not shards and call.operation == "receiveMessages":
            shards = [random.randrange(len(owners))]
        elif not shards and call.operation == "sendMessages" and (len(owners) == 1 or ordered and not grouped(call)):
            shards = [0]  # the shard of another message depends on a hash, which the node computes
        votes = [owners[s] for s in shards if owners[s] >= 0]
        return max(set(votes), key=votes.count) if votes else -1

    def headers(self, call: Call[Any]) -> Dict[str, str]:
        headers = {"Accept": "text/event-stream" if call.stream else "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        if call.request_id:
            headers["Sluice-Request"] = call.request_id
        if call.queue and len(self.nodes) > 1:
            headers["Sluice-Owners"] = "?"  # the node answers with its line
        headers.update(call.headers)
        return headers


def grouped(call: Call[Any]) -> bool:
    body = call.body or {}
    return any(row.get("group") for row in body.get("messages", [body]))


@dataclass
class Attempt:
    number: int
    node: Node
    data: bytes
    timeout: float
    connect: float
    silence: float  # after so much time without a byte, the shell asks whether the node is alive


class Exchange(Generic[T]):
    """One call, from its first attempt to its answer or error."""

    answer: T

    def __init__(self, core: Core, call: Call[T], timeout: float | None = None) -> None:
        self.core = core
        self.call = call
        self.body = call.encoded()
        self.until = now() + (core.timeout if timeout is None else timeout)
        self.others = len(core.nodes) > 1 and call.repeat != ONCE
        self.tried: Set[int] = set()
        self.rounds = 0
        self.maybe = False  # an attempt may have taken effect
        self.current = -1

    def begin(self) -> Attempt:
        core, call = self.core, self.call
        if len(self.tried) == len(core.nodes):
            self.tried = set()
        self.current = core.pick(self.tried, core.preferred(call))
        self.tried.add(self.current)
        node = core.nodes[self.current]
        left = max(0.0, self.until - now())
        limit = min(left, ATTEMPT) if self.others else left
        data = request_bytes(call.method, node.prefix + call.target, node.authority, core.headers(call), self.body)
        timeout = limit + call.wait + core.grace
        call.sent_at, call.again = now(), call.again or self.maybe
        return Attempt(self.current, node, data, timeout, min(timeout, CONNECT) if self.others else timeout,
                       PROBE if self.others and call.wait > 0 else timeout)

    def not_sent(self, why: str) -> float | None:
        """The request did not reach the node."""
        self.core.report(self.current, False)
        return self._failed(errors.Unavailable(why, field="store"), False)

    def aborted(self, why: str, sent: bool) -> float | None:
        """The caller ended the call. That says nothing about the node, and there is no further attempt."""
        self.until = 0.0
        return self._failed((errors.OutcomeUnknown if sent else errors.Unavailable)(why, field="store"), sent)

    def lost(self, why: str) -> float | None:
        """The request may have reached the node, and no answer came."""
        self.core.report(self.current, False)
        maybe = self.call.repeat != READ
        kind = errors.OutcomeUnknown if maybe else errors.Unavailable
        return self._failed(kind(why, field="store"), maybe)

    def answered(self, status: int, headers: Mapping[str, str], body: bytes) -> float | None:
        self.core.report(self.current, True)
        if self.call.queue and "sluice-owners" in headers:
            self.core.learn(self.call.queue, headers["sluice-owners"])
        if 200 <= status < 300:
            self.answer = self._read(body)
            return None
        error = read_error(self.core.nodes[self.current], status, headers, body)
        maybe = isinstance(error, errors.OutcomeUnknown) and self.call.repeat != READ
        if isinstance(error, errors.OutcomeUnknown) and not maybe:
            error = as_class(errors.Unavailable, error)
        return self._failed(error, maybe)

    def _read(self, body: bytes) -> Any:
        if not body:
            return None
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            url = self.core.nodes[self.current].url
            raise errors.Corrupt(f"cannot read the answer of {url}: its {len(body)} bytes are not a JSON object")
        return value

    def _failed(self, error: errors.SluiceError, maybe: bool) -> float | None:
        """Returns how long to pause before the next attempt, or raises the error of the call."""
        self.maybe = self.maybe or maybe
        error.request_id = self.call.request_id
        again = isinstance(error, (errors.Unavailable, errors.OutcomeUnknown))
        if not again or (maybe and self.call.repeat == ONCE):
            raise self._given_up(error)
        if len(self.tried) < len(self.core.nodes) and now() < self.until:
            return 0.0  # another node may answer at once
        if error.reason in FINAL_REASONS:
            raise self._given_up(error)
        pause = random.uniform(0.001, min(PAUSE_MAX, PAUSE_MIN * 2 ** min(self.rounds, 7)))
        self.rounds += 1
        if now() + pause >= self.until:
            raise self._given_up(error)
        return pause

    def _given_up(self, error: errors.SluiceError) -> errors.SluiceError:
        """If an earlier attempt may yet take effect, a refusal of a later one says nothing about the call."""
        if self.maybe and isinstance(error, AFTER_UNKNOWN):
            return as_class(errors.OutcomeUnknown, error)
        return error


def as_class(kind: type[errors.SluiceError], error: errors.SluiceError) -> errors.SluiceError:
    return kind(error.detail, reason=error.reason, field=error.field, request_id=error.request_id,
                retry_after=error.retry_after)


def read_error(node: Node, status: int, headers: Mapping[str, str], body: bytes) -> errors.SluiceError:
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or problem.get("code") not in errors.CLASSES:
        return not_a_node(node, status)
    reason = str(problem.get("reason", ""))
    if reason in ("unknown-path", "method-not-allowed"):
        return errors.Unavailable(f"the node at {node.url} does not know this call; use a newer release there",
                                  reason="upgrade-needed", field="store")
    after = headers.get("retry-after", "")
    return errors.CLASSES[problem["code"]](
        str(problem.get("detail", "")), reason=reason, field=str(problem.get("field", "")),
        retry_after=float(after) if after.isdigit() else None)


def not_a_node(node: Node, status: int) -> errors.SluiceError:
    """A proxy or another server sent the answer."""
    text = f"{node.url} answered {status}, but not like a Sluice node"
    if status in (401, 403):
        return errors.Denied(text, field="store")
    if status in (413, 429):
        return errors.Limit(text, field="store")
    if status in (500, 502, 503, 504):
        return errors.OutcomeUnknown(text, field="store")
    return errors.Invalid(f"{node.url} answered {status} and is not a Sluice node; check the URL (a node listens on "
                          "7333 by default)", field="store")


def error_of_row(row: Mapping[str, Any], detail: str, call: Call[Any] | None = None) -> errors.SluiceError:
    """The error of one part of a batch. If an earlier attempt may have taken effect, a refusal says nothing about it."""
    kind = errors.CLASSES.get(str(row.get("code")), errors.SluiceError)
    if call and call.again and issubclass(kind, AFTER_UNKNOWN):
        kind = errors.OutcomeUnknown
    return kind(detail, reason=str(row.get("reason", "")), request_id=call.request_id if call else "")


__all__ = ["Attempt", "Call", "Core", "Exchange", "Response"]
