# SPDX-License-Identifier: Apache-2.0
"""Prints the results of tests as TAP."""
from __future__ import annotations

import sys
import time
import traceback
from typing import Any, Callable, Iterable


class Tap:
    def __init__(self) -> None:
        self.count = 0
        self.failed = 0

    def result(self, ok: bool, name: str, problems: Iterable[str] = ()) -> None:
        self.count += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}")
        for text in problems if not ok else ():
            for line in text.splitlines():
                print(f"# {line}")
        sys.stdout.flush()

    def run(self, name: str, test: Callable[[], Any]) -> None:
        """The test is wrong if it raises an exception."""
        began = time.monotonic()
        try:
            test()
        except Exception:
            self.result(False, name, [traceback.format_exc()])
        else:
            self.result(True, name)
        print(f"# {time.monotonic() - began:.1f} s")

    def end(self) -> int:
        print(f"1..{self.count}")
        return 1 if self.failed else 0
