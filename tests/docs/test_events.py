#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Runs the consumers of docs/events.md on a real NATS server, with duplicates, a gap and a restart. Under with-nats:

    test_events.py <page> <libsluice.so> <folder of sluice.h> <put-events> <folder for npm>

A language that is not installed is a skip, or a failure where CI=true."""
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile

PATIENCE = 120
PAGE, LIBRARY, HEADER, PUT, MODULES = sys.argv[1:]
LIBRARY = os.path.dirname(os.path.abspath(LIBRARY))
LISTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "events")
KEEP = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}


class Missing(Exception):
    """A package cannot be fetched here."""


def made_c(folder):
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{HEADER}", "events.c", "-o", "events",
                    f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}", "-lsluice"], cwd=folder, check=True, timeout=PATIENCE,
                   capture_output=True, text=True)


def made_node(folder):
    """npm ci, unless the same list was fetched before."""
    os.makedirs(MODULES, exist_ok=True)
    with open(f"{LISTS}/package-lock.json", encoding="utf-8") as file:
        wanted = file.read()
    with open(f"{MODULES}/fetching", "w", encoding="utf-8") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        done = f"{MODULES}/fetched"
        if not os.path.exists(done) or open(done, encoding="utf-8").read() != wanted:
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(f"{LISTS}/{name}", f"{MODULES}/{name}")
            run = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=MODULES, check=False,
                                 timeout=PATIENCE, capture_output=True, text=True)
            if run.returncode != 0:
                raise Missing("npm cannot fetch the package nats: " + " ".join(run.stderr.split())[:300])
            with open(done, "w", encoding="utf-8") as file:
                file.write(wanted)
    os.symlink(f"{MODULES}/node_modules", f"{folder}/node_modules")


# heading, language of the block, file, needed programs, how it is made, how it is run
CONSUMERS = [
    ("C", "c", "events.c", ["cc"], made_c, ["./events"]),
    ("Node", "javascript", "events.mjs", ["node", "npm"], made_node, ["node", "events.mjs"]),
]


def put(queue, *words):
    subprocess.run([PUT, queue, *words], check=True, timeout=PATIENCE)


def try_consumer(folder, heading, make, run):
    make(folder)
    queue = f"mail.{heading}.{os.getpid()}"
    env = KEEP | {"PATH": os.environ["PATH"], "HOME": folder, "NATS_URL": os.environ["SLUICE_TEST_NATS"]}

    def read(count):
        done = subprocess.run([*run, queue, "position", str(count)], cwd=folder, env=env, timeout=PATIENCE,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        return done.stdout.splitlines()
    def line(sequence):
        return f"event 0 {sequence} message-{'outcome' if sequence % 3 else 'enqueued'}"
    put(queue, "0", "1", "10")
    put(queue, "0", "3", "12", ".again")
    first = read(11)
    assert first == [line(n) for n in range(1, 12)], first
    put(queue, "0", "13", "14", "gap")
    put(queue, "0", "10", "12", ".once-more")
    put(queue, "0", "15", "16")
    second = read(4)
    assert second == [line(12), "gap 0 13-14", line(15), line(16)], second


def main():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    failed = 0
    print(f"1..{len(CONSUMERS)}")
    for number, (heading, language, name, programs, make, run) in enumerate(CONSUMERS, 1):
        title = f"{number} - the consumer in {heading} sees each event once, and the gap"
        missing = [program for program in programs if not shutil.which(program)]
        if missing and os.environ.get("CI") != "true":
            print(f"ok {title} # SKIP {' and '.join(missing)} not installed")
            continue
        section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/{name}", "w", encoding="utf-8") as out:
                out.write(re.search(rf"```{language}\n(.*?)```", section, re.S).group(1))
            try:
                try_consumer(folder, heading, make, run)
                print(f"ok {title}", flush=True)
            except Missing as why:
                failed += os.environ.get("CI") == "true"
                print(f"not ok {title}\n# {why}" if os.environ.get("CI") == "true" else f"ok {title} # SKIP {why}")
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                words = f"{error}\n{getattr(error, 'stderr', '') or ''}"
                print(f"not ok {title}\n# " + words.replace("\n", "\n# "), flush=True)
    sys.exit(1 if failed else 0)


main()
