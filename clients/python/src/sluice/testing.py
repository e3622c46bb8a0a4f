# SPDX-License-Identifier: Apache-2.0
"""Helpers for the tests of your program: a node of its own, and a worker that ends when there is nothing to do."""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from typing import Any, Iterator, Tuple

from .client import Client
from .worker import App

END_TIMEOUT = 20.0


def program() -> str:
    """The program `sluice`: $SLUICE, else the one in the path."""
    found = os.environ.get("SLUICE") or shutil.which("sluice")
    if not found:
        raise FileNotFoundError("the program sluice is not in the path; install it, or name it in SLUICE")
    return found


def start(store: str, *options: str) -> Tuple[subprocess.Popen[bytes], str]:
    """Starts a node on a free port. Returns its process and its URL."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([program(), "serve", "--store", store, "--listen", "127.0.0.1:0", "--json", *options],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        assert process.stdout is not None
        with process.stdout as output:
            line = output.readline()
        if not line:
            status = process.wait(END_TIMEOUT)
            log.seek(0)
            why = log.read().decode("utf-8", "replace").strip()
            raise RuntimeError(f"{program()} serve ended with status {status}: {why}")
    return process, "http://" + str(json.loads(line)["address"])


@contextlib.contextmanager
def node(store: str = "mem:", *options: str, **client_options: Any) -> Iterator[Client]:
    """Starts a node on a free port, and yields a client of it. The node ends with the block.

    `store` is an empty store in memory by default. The other options are those of `sluice serve`."""
    process, url = start(store, *options)
    try:
        with Client(url, **client_options) as client:
            yield client
    finally:
        process.terminate()
        try:
            process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_until_empty(app: App, client: Client | None = None, timeout: float = 30.0) -> None:
    """Runs the jobs of the app until its queues have no message that is ready or locked.

    Messages that are delayed, also for a retry, stay. Raises TimeoutError."""
    client = client or app.client
    thread = threading.Thread(target=app.run, kwargs={"client": client, "signals": False}, daemon=True)
    thread.start()
    until = time.monotonic() + timeout
    while thread.is_alive() and not app._runs.wait(0.01):
        pass  # a stop() before the start would end nothing
    try:
        while any(row["ready"] + row["locked"] > 0 for row in (client.queue(name).stats() for name in app.queues)):
            if time.monotonic() > until:
                raise TimeoutError(f"the queues are not empty after {timeout} s")
            if not thread.is_alive():
                raise RuntimeError("the worker ended early") from app.error
            time.sleep(0.01)  # the node has no call that waits for an empty queue
    finally:
        app.stop()
        thread.join(timeout)
