#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of docs/signals.md: each is asked, steered and collected, then another one is interrupted.

    test_signals.py <program> <page> <libsluice.so> <folder of sluice.h>"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

PATIENCE = 120
PROGRAM, PAGE, LIBRARY, HEADER = (os.path.abspath(path) for path in sys.argv[1:])
LIBRARY = os.path.dirname(LIBRARY)
KEEP = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
STEPS = 40

# language of the block, file, needed programs, how it is made, how it is run
WORKERS = [
    ("bash", "steps.sh", ["bash", "jq"], None, [PROGRAM, "work", "tasks", "--once", "--quiet", "--", "bash", "steps.sh"]),
    ("shell", "single.sh", ["bash", "jq"], None, ["bash", "single.sh"]),
    ("javascript", "steps.mjs", ["node"], None,
     [PROGRAM, "work", "tasks", "--once", "--quiet", "--", "node", "steps.mjs"]),
    ("c", "steps.c", ["cc"], ["cc", "-Wall", "-Wextra", "-Werror", f"-I{HEADER}", "steps.c", "-o", "steps", f"-L{LIBRARY}",
                              f"-Wl,-rpath,{LIBRARY}", "-lsluice"], ["./steps"]),
]


class Case:
    def __init__(self, folder, run):
        self.folder, self.run = folder, run
        self.env = KEEP | {"PATH": f"{os.path.dirname(PROGRAM)}:{os.environ['PATH']}", "HOME": folder, "SLUICE_STORE": os.path.join(folder, "store")}
        self.sluice("queue", "create", "tasks")

    def sluice(self, *words, status=0):
        run = subprocess.run([PROGRAM, *words], cwd=self.folder, env=self.env, timeout=PATIENCE, capture_output=True,
                             text=True, check=False)
        assert run.returncode == status, (words, run)
        return run.stdout.strip()

    def start(self):
        """The worker, with a message that it will get."""
        id = self.sluice("send", "tasks", str(STEPS))
        return id, subprocess.Popen(self.run, cwd=self.folder, env=self.env, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)


def try_worker(case):
    id, worker = case.start()
    try:
        answer = case.sluice("signal", "tasks", id, "ask", "--wait", "60s")
        assert re.fullmatch(rf"step \d+ of {STEPS}", answer), answer
        case.sluice("signal", "tasks", id, "steer", "pace=0.01", "--wait", "60s")
        assert case.sluice("collect", "tasks", id) == f'{id}  processed  {{"steps":{STEPS}}}'
        worker.wait(PATIENCE)
    finally:
        worker.kill()
    id, worker = case.start()
    try:
        case.sluice("signal", "tasks", id, "ask", "--wait", "60s")  # the program runs and listens
        case.sluice("signal", "tasks", id, "interrupt", "--reason", "enough", "--wait", "60s")
        case.sluice("collect", "tasks", id, status=11)
        worker.wait(PATIENCE)
        shown = json.loads(case.sluice("show", "tasks", id, "--json"))
        assert (shown["state"], shown["reason"]) == ("cancelled", "enough"), shown
    finally:
        worker.kill()


def main():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    print(f"1..{len(WORKERS)}", flush=True)
    failed = False
    for number, (language, name, needs, make, run) in enumerate(WORKERS, 1):
        missing = [program for program in needs if not shutil.which(program)]
        if missing and os.environ.get("CI") != "true":
            print(f"ok {number} - {language} # SKIP {' and '.join(missing)} not installed", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="sluice-signals-") as folder:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(re.search(rf"```{language}\n(.*?)```", page, re.S).group(1))
            try:
                if make:
                    subprocess.run(make, cwd=folder, check=True, timeout=PATIENCE, capture_output=True)
                try_worker(Case(folder, run))
                print(f"ok {number} - {language}", flush=True)
            except Exception as error:  # the other languages are tried, too
                failed = True
                print(f"not ok {number} - {language}\n# {error!r}"[:2000], flush=True)
    sys.exit(1 if failed else 0)


main()
