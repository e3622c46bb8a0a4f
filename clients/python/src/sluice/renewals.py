# SPDX-License-Identifier: Apache-2.0
"""The locks of workers that are not of this library: of Celery and of Dramatiq."""
from __future__ import annotations

import logging
import threading
from typing import Any, Dict, List, Tuple

from . import calls
from ._core import now
from .client import Client
from .errors import PASSES

log = logging.getLogger("sluice")
RENEW_TIMEOUT = 5.0


class Locks:
    """A thread renews each lock at a third of its lease, until it is dropped."""

    def __init__(self, client: Client) -> None:
        self.client = client._with_own_connections(grace=0.0)
        self.rows: Dict[str, Tuple[str, float, float]] = {}  # by token: the queue, the lease, when to renew
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None
        self.closed = False

    def add(self, token: str, queue: str, lease: float) -> None:
        with self.changed:
            self.rows[token] = (queue, lease, now() + lease / 3)
            if self.thread is None:
                self.thread = threading.Thread(target=self.main, daemon=True, name="sluice renew")
                self.thread.start()
            self.changed.notify()

    def drop(self, token: str, queue: str = "") -> str:
        """Returns the queue of the lock. With a queue it drops only a lock of this one."""
        with self.changed:
            found = self.rows.get(token, ("", 0.0, 0.0))[0]
            if not queue or queue == found:
                self.rows.pop(token, None)
                return found
            return ""

    def queue(self, token: str) -> str:
        with self.changed:
            return self.rows.get(token, ("", 0.0, 0.0))[0]

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify()
        self.client.close()

    def main(self) -> None:
        while True:
            with self.changed:
                if self.closed:
                    return
                at = min((row[2] for row in self.rows.values()), default=now() + 60)
                if at > now():
                    self.changed.wait(at - now())
                    continue
                # Those that are due soon come along.
                due = {token: row for token, row in self.rows.items() if row[2] - row[1] / 12 <= now()}
            for queue in {row[0] for row in due.values()}:
                self.renew(queue, {token: row[1] for token, row in due.items() if row[0] == queue})

    def renew(self, queue: str, leases: Dict[str, float]) -> None:
        asked = now()
        timeout = min(RENEW_TIMEOUT, max(0.1, min(leases.values()) / 6))  # a later one goes to another node
        try:
            outcomes: List[Any] = self.client.call(calls.renew_locks(queue, tokens=list(leases)), timeout)["outcomes"]
        except PASSES as e:
            log.warning("queue %s: a renewal got no answer: %s", queue, e)
            outcomes = [{"code": e.code}] * len(leases)
        except Exception as e:  # the renewal never ends of an error
            log.error("queue %s: a renewal was refused: %s", queue, e)
            outcomes = [{"code": getattr(e, "code", "UNKNOWN")}] * len(leases)
        with self.changed:
            for (token, lease), row in zip(leases.items(), outcomes):
                if token not in self.rows:
                    continue
                if row["code"] == "OK":
                    self.rows[token] = (queue, lease, asked + lease / 3)
                elif row["code"] in ("UNAVAILABLE", "UNKNOWN", "LIMIT"):
                    self.rows[token] = (queue, lease, now() + max(0.1, lease / 12))
                else:
                    del self.rows[token]
                    log.warning("queue %s: a lock is lost (%s): another worker may run the task, too", queue,
                                row.get("reason", row["code"]))
