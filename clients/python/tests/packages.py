# SPDX-License-Identifier: Apache-2.0
"""The types and the names are right, and the packages have what they need."""
from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from typing import Any, List

CLIENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def command(tap: Any, name: str, line: List[str], cwd: str) -> bool:
    done = subprocess.run(line, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    tap.result(done.returncode == 0, name, [done.stdout])
    return done.returncode == 0


def skipped(tap: Any, name: str, why: str) -> None:
    """With CI=true everything must be there (tools/deps.sh clients)."""
    if os.environ.get("CI") == "true":
        tap.result(False, name, [why])
    else:
        tap.result(True, f"{name} # SKIP {why}")


def interpreter(module: str) -> str:
    """A Python that has the module: this one, or that of the system."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return ""


def run(tap: Any, folder: str) -> None:
    python = interpreter("pyflakes")
    if python:
        command(tap, "pyflakes has nothing to say", [python, "-m", "pyflakes", "src", "tests", "test", "test-celery", "test-dramatiq", "storm", "bench",
                                                       "load", "build-packages", "../spec"], CLIENT)
    else:
        skipped(tap, "pyflakes has nothing to say", "pyflakes is not installed")
    python = interpreter("mypy")
    if python:
        cache = os.path.join(folder, "mypy")
        command(tap, "the types are right", [python, "-m", "mypy", "--strict", "--python-version", "3.9", "--cache-dir", cache, "sluice"],
                os.path.join(CLIENT, "src"))
    else:
        skipped(tap, "the types are right", "mypy is not installed")
    python = interpreter("setuptools, wheel")
    if not python:
        skipped(tap, "the packages are built", "setuptools or wheel is not installed")
        return
    # A build leaves files beside its sources.
    sources = os.path.join(folder, "sources")
    shutil.copytree(CLIENT, sources, ignore=shutil.ignore_patterns("__pycache__", "build", "dist"))
    built = command(tap, "the packages are built", [sys.executable, "-B", os.path.join(sources, "build-packages"), python], sources)
    if not built:
        return
    (wheel,) = glob.glob(os.path.join(sources, "dist", "*.whl"))
    (archive,) = glob.glob(os.path.join(sources, "dist", "*.tar.gz"))
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(archive) as tar:
        in_archive = {name.split("/", 1)[-1] for name in tar.getnames()}
    need = {f"sluice/{os.path.basename(p)}" for p in glob.glob(os.path.join(CLIENT, "src", "sluice", "*.py"))}
    need.add("sluice/py.typed")
    missing = sorted(need - in_wheel) + sorted({f"src/{n}" for n in need} - in_archive)
    tap.result(not missing, "the packages have all files", missing)
    check = "import sluice, sys; assert sluice.__file__.startswith(sys.argv[1]), sluice.__file__; sluice.Client('http://a')"
    target = os.path.join(folder, "installed")
    zipfile.ZipFile(wheel).extractall(target)
    command(tap, "an installed package is imported", [sys.executable, "-B", "-c", "import sys; sys.path.insert(0, sys.argv[1])\n"
                                                      + check, target], folder)
