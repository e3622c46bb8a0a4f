# SPDX-License-Identifier: Apache-2.0
"""The errors of the library. There is one class per action that the caller can take."""
from __future__ import annotations

from datetime import timedelta
from typing import Any, Dict, List, Type, Union

from ._codes import CODES

SNOOZE_MAX = 86400  # the limit of a release


class SluiceError(Exception):
    """A call failed. The subclass says what the caller can do."""

    code = ""

    def __init__(self, detail: str, *, reason: str = "", field: str = "", request_id: str = "",
                 retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail  # a sentence: the thing, its value, and what would be right
        self.reason = reason  # a stable word, such as "unknown-queue"
        self.field = field  # the part of the request that is wrong, such as "messages[3].delay"
        self.request_id = request_id  # of the request, if it had one
        self.retry_after = retry_after  # seconds to wait, if the node said so
        self.sent: List[Any] = []  # of a send of several messages: what became of each

    def __str__(self) -> str:
        return f"{self.detail} ({self.reason})" if self.reason else self.detail


class Invalid(SluiceError):
    """The request is wrong. Change it."""


class Denied(SluiceError):
    """The token does not allow it."""


class NotFound(SluiceError):
    """The queue or the message does not exist."""


class Conflict(SluiceError):
    """The current state does not allow it. Reload and decide."""


class Fenced(SluiceError):
    """The lock is not yours any more. Stop working on the message."""


class Limit(SluiceError):
    """A limit is reached. Wait, then try again."""


class Corrupt(SluiceError):
    """Stored bytes or an answer are damaged."""


class Unavailable(SluiceError):
    """The request certainly had no effect. Try again later."""


class OutcomeUnknown(SluiceError):
    """The request may have had an effect, and no answer says so."""


class JobFailed(SluiceError):
    """`Sent.result()`: the message ended without a result. `state` is dead, dead-lettered, cancelled and so on."""

    def __init__(self, detail: str, *, state: str, reason: str = "") -> None:
        super().__init__(detail, reason=reason)
        self.state = state

    def __str__(self) -> str:
        return self.detail  # it has the reason


class Snooze(Exception):
    """Raise it in a job: the message is released, ready again after `after` seconds, and no attempt counts.

    after: seconds, or a timedelta, up to 24 h."""

    def __init__(self, after: Union[float, timedelta]) -> None:
        seconds = after.total_seconds() if isinstance(after, timedelta) else after
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= SNOOZE_MAX:
            raise Invalid(f"Snooze takes 0 to {SNOOZE_MAX} seconds, or a timedelta, not {after!r}", field="delay")
        super().__init__(f"released for {seconds:g} s")
        self.after = float(seconds)


class Cancelled(BaseException):
    """The worker raises it in a job whose lock is lost, that was interrupted, or that the worker must give back.

    `except Exception` does not catch it. A job may clean up in `finally`. Its outcome is not sent."""


PASSES = (Unavailable, OutcomeUnknown, Limit)  # a later attempt may succeed
CLASSES: Dict[str, Type[SluiceError]] = {code: globals()[row[0]] for code, row in CODES.items()}
for _code, _class in CLASSES.items():
    _class.code = _code
