# SPDX-License-Identifier: Apache-2.0
"""python -m sluice work MODULE:APP runs the worker of a module."""
from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys

from .client import Client
from .errors import SluiceError
from .worker import App


def load(place: str) -> App:
    name, _, attribute = place.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        app = getattr(importlib.import_module(name), attribute or "app")
    except ModuleNotFoundError as e:
        if e.name != name:
            raise
        raise SystemExit(f"there is no module {name}; run this in the folder that has {name}.py") from None
    except AttributeError:
        raise SystemExit(f"module {name} has no {attribute or 'app'}") from None
    if not isinstance(app, App):
        raise SystemExit(f"{place} is a {type(app).__name__}, not a sluice.App")
    return app


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sluice", description="Runs the jobs of a program.")
    commands = parser.add_subparsers(dest="command", required=True)
    work = commands.add_parser("work", help="work until SIGTERM", description="Works until SIGTERM or SIGINT.")
    work.add_argument("app", help="module:app, such as jobs:app")
    work.add_argument("--store", help="the URL of the nodes; default: that of the app, else $SLUICE_STORE")
    work.add_argument("--name", help="the name of the worker")
    work.add_argument("--labels", help="labels of the worker, such as host=a7,kind=gpu")
    work.add_argument("--grace", type=float, help="seconds that running jobs get after SIGTERM; default: 25")
    work.add_argument("-v", "--verbose", action="store_true", help="log more")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING,
                        format="%(asctime)s %(levelname)s %(message)s")
    app = load(options.app)
    app.name = options.name or app.name
    app.labels = options.labels or app.labels
    app.grace = app.grace if options.grace is None else options.grace
    try:
        app.run(Client(options.store) if options.store else None)
    except SluiceError as e:
        print(f"sluice: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
