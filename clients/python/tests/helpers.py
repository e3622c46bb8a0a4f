# SPDX-License-Identifier: Apache-2.0
"""What the tests share."""
from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable

import sluice


def until(done: Callable[[], bool], what: str, timeout: float = 5.0) -> None:
    """Waits for a state that another process or thread brings about."""
    end = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        time.sleep(0.005)


def raises(kind: type, call: Callable[[], Any]) -> Any:
    try:
        call()
    except kind as e:
        return e
    raise AssertionError(f"{kind.__name__} was not raised")


class Running:
    """An app that works in the background."""

    def __init__(self, app: sluice.App, client: sluice.Client) -> None:
        self.app = app
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.main, args=(client,), daemon=True)

    def main(self, client: sluice.Client) -> None:
        try:
            self.app.run(client)
        except BaseException as e:
            self.error = e

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *args: Any) -> None:
        self.app.stop()
        self.thread.join(20)
        assert not self.thread.is_alive(), "the app does not end"


class Tests:
    def __init__(self, client: sluice.Client) -> None:
        self.client = client
        self.count = 0

    def queue(self, **settings: Any) -> sluice.Queue:
        self.count += 1
        return self.client.create(f"q{self.count}", settings)  # type: ignore[arg-type]


def run_all(tap: Any, tests: Tests, folder: str) -> None:
    """Runs the tests of a class, or those whose name has $ONLY."""
    wanted = os.environ.get("ONLY", "").replace(" ", "_")
    helpers = {name for kind in type(tests).__mro__[1:] for name in vars(kind)} | set(getattr(tests, "HELPERS", ()))
    for name, test in vars(type(tests)).items():
        if name[0] != "_" and callable(test) and name not in helpers and wanted in name:
            arguments = [folder] if "folder" in test.__code__.co_varnames[:test.__code__.co_argcount] else []
            tap.run(name.replace("_", " "), lambda: test(tests, *arguments))
