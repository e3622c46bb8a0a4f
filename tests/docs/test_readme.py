#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Runs the ten lines of the README as they are, but for the build and the node: test_readme.py <program> <README>"""
import json
import os
import subprocess
import sys
import tempfile

PATIENCE = 60


def block(readme):
    section = readme.split("\n## Ten lines\n")[1].split("\n## ")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    return "\n".join(line for line in lines if not line.startswith(("make ", "sluice serve")))


def main():
    program, page = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        script = block(file.read())
    with tempfile.TemporaryDirectory() as folder:
        keep = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
        env = keep | {"PATH": os.path.dirname(os.path.abspath(program)) + ":" + os.environ["PATH"], "HOME": folder,
                      "SLUICE_STORE": os.path.join(folder, "jobs")}
        run = subprocess.run(["bash", "-ec", script], cwd=folder, env=env, capture_output=True, text=True,
                             timeout=PATIENCE, check=False)
        stats = subprocess.run([program, "stats", "--json"], env=env, capture_output=True, text=True, check=False)
        rows = {row["queue"]: row for row in map(json.loads, stats.stdout.splitlines())}
        good = run.returncode == 0 and "redriven 19 messages" in run.stderr
        done = rows["tasks"]["processed"] == 101 and rows["tasks_dead"]["processed"] == 19
    print(f"1..2\n{'ok' if good else 'not ok'} 1 - the ten lines run as they are\n"
          f"{'ok' if done else 'not ok'} 2 - every job is processed in the end")
    if not (good and done):
        print("# " + (run.stdout + run.stderr + stats.stdout).replace("\n", "\n# "))
    sys.exit(0 if good and done else 1)


main()
