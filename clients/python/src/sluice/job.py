# SPDX-License-Identifier: Apache-2.0
"""What a received message is, for the blocking job, the asyncio job and the job of a worker."""
from __future__ import annotations

import functools
from typing import Any, Dict, Mapping, cast

from . import _steps, calls
from ._core import Call, now
from ._steps import TYPE_HEADER, Codec


def one(call: Call[Dict[str, Any]]) -> Call[calls.Outcome]:
    """A request with one token is answered by its outcome."""
    return cast("Call[calls.Outcome]", call)


class JobData:
    """The fields of a message, and the calls that settle it."""

    def __init__(self, codec: Codec, queue: str, row: Mapping[str, Any]) -> None:
        self.codec = codec
        self.queue_name = queue
        self.row = row  # the JSON of the node, with fields that have no name here
        self.id: str = row["id"]
        self.token: str = row["token"]
        self.attempt: int = row.get("attempt", 1)
        self.retries: int = row.get("retries", 0)
        self.headers: Dict[str, str] = dict(row.get("headers") or {})
        self.content_type: str = row.get("contentType", "")
        self.lease = row.get("leaseMs", 0) / 1000  # seconds
        self.deadline = now() + self.lease  # the node's estimate is on the safe side
        self.settled = False

    @functools.cached_property
    def body(self) -> Any:
        """What was sent. A codec that cannot read it raises its error here, in the job."""
        return _steps.decoded(self.codec, self.row, "body", self.content_type)

    @property
    def type(self) -> str:
        """The value of the header sluice-type, or an empty text."""
        return self.headers.get(TYPE_HEADER, "")

    @property
    def group(self) -> str:
        return str(self.row.get("group", ""))

    @property
    def priority(self) -> int:
        return int(self.row.get("priority", 0))

    @property
    def workflow(self) -> str:
        return str(self.row.get("workflow", ""))

    @property
    def fence(self) -> int:
        """Rises with every lock of the shard. Other systems can use it to refuse a stale worker."""
        return int(self.row.get("fence", 0))

    def ack_row(self, result: Any) -> Dict[str, Any]:
        return {"token": self.token, **({} if result is None else _steps.encoded(self.codec, result, "result"))}

    def ack_call(self, result: Any) -> Call[calls.Outcome]:
        call = calls.ack_messages(self.queue_name)
        call.body = self.ack_row(result)
        return one(call)

    def fail_call(self, reason: str) -> Call[calls.Outcome]:
        return one(calls.fail_messages(self.queue_name, token=self.token, reason=reason or None))

    def release_call(self, delay: float | None) -> Call[calls.Outcome]:
        return one(calls.release_messages(self.queue_name, token=self.token, delay=_steps.ms(delay)))

    def renew_call(self, visibility: float | None, percent: float | None = None, text: str | None = None
                   ) -> Call[calls.Outcome]:
        if percent is not None:
            percent, text = _steps.progress(percent, text)
        return one(calls.renew_locks(self.queue_name, token=self.token, visibility=_steps.ms(visibility), progress=percent,
                                     progress_text=text))

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.queue_name}, attempt {self.attempt}>"
