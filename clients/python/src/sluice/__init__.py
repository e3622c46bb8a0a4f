# SPDX-License-Identifier: Apache-2.0
"""The client library of Sluice, a durable work queue.

    import sluice

    with sluice.Client("http://127.0.0.1:7333") as client:
        client.queue("mail").send({"to": "ann@example.com"})
"""
from . import calls, testing
from ._core import Call, now
from ._steps import Codec, Event, JsonCodec, traceparent
from .aio import AsyncBuffer, AsyncClient, AsyncJob, AsyncQueue, AsyncSent
from ._codes import VERSION as __version__
from .client import Buffer, Client, Job, Queue, Sent
from .errors import (Cancelled, Conflict, Corrupt, Denied, Fenced, Invalid, JobFailed, Limit, NotFound, OutcomeUnknown,
                     SluiceError, Snooze, Unavailable)
from .running import Signal, WorkerJob
from .worker import App

__all__ = [
    "App", "AsyncBuffer", "AsyncClient", "AsyncJob", "AsyncQueue", "AsyncSent", "Buffer", "Call", "Cancelled", "Client", "Codec", "Conflict", "Corrupt", "Denied", "Event", "Fenced", "Invalid", "Job",
    "JobFailed", "JsonCodec", "Limit", "NotFound", "OutcomeUnknown", "Queue", "Sent", "Signal", "SluiceError", "Snooze",
    "Unavailable", "WorkerJob", "__version__", "calls", "now", "testing", "traceparent",
]
