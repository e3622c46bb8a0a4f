#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of docs/clients.md against a node: the producer, then the worker, until its jobs are done.

    test_clients.py <program> <page> <libsluice.so> <folder of sluice.h>

A language that is not installed is a skip, or a failure where CI=true."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

PATIENCE = 120
PROGRAM, PAGE, LIBRARY, HEADER = sys.argv[1:]
LIBRARY = os.path.dirname(os.path.abspath(LIBRARY))
KEEP = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}

# heading, language of the block, file, needed programs, how it is made, how it is run
CLIENTS = [
    ("Python", "python", "jobs.py", ["python3"], None, ["python3", "jobs.py"]),
    ("Node", "javascript", "jobs.mjs", ["node"], None, ["node", "jobs.mjs"]),
    ("Go", "go", "jobs.go", ["go"], ["go", "build", "-o", "jobs", "jobs.go"], ["./jobs"]),
    ("Shell, with curl", "sh", "jobs.sh", ["curl", "jq"], None, ["sh", "jobs.sh"]),
    ("C", "c", "jobs.c", ["cc"], ["cc", "-Wall", "-Wextra", "-Werror", f"-I{HEADER}", "jobs.c", "-o", "jobs", f"-L{LIBRARY}",
                                  f"-Wl,-rpath,{LIBRARY}", "-lsluice"], ["./jobs"]),
]


class Node:
    def __init__(self, folder):
        env = KEEP | {"PATH": os.environ["PATH"], "HOME": folder}
        store = os.path.join(folder, "store")
        self.process = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--json", "--store", store],
                                        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env)
        self.url = "http://" + json.loads(self.process.stdout.readline())["address"]
        settings = {"failureStrategy": {"mode": "hybrid", "maxRetries": 1, "deadLetterQueue": "mail_dead",
                                        "backoff": {"initial": 0}}}
        self.ask("PUT", "mail", settings)

    def ask(self, method, path, body=None):
        request = urllib.request.Request(f"{self.url}/v1/queues/{path}", json.dumps(body).encode() if body else None,
                                         {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


def block_of(page, heading, language):
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.search(rf"```{language}\n(.*?)```", section, re.S).group(1)


def await_end(node, worker):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and worker.poll() is None:
        stats = node.ask("GET", "mail/stats")
        if stats["processed"] == 1 and stats["moved"] == 1:
            return
        time.sleep(0.05)
    raise AssertionError(f"the jobs were not done: {node.ask('GET', 'mail/stats')}")


def try_client(folder, node, make, run):
    env = KEEP | {"PATH": os.environ["PATH"], "HOME": folder, "SLUICE_NODE": node.url, "GOFLAGS": "-mod=mod"}
    if make:
        subprocess.run(make, cwd=folder, env=env, check=True, timeout=PATIENCE, capture_output=True)
    sent = subprocess.run(run + ["send"], cwd=folder, env=env, timeout=PATIENCE, capture_output=True, text=True, check=True)
    assert len(sent.stdout.split()) == 2, sent
    worker = subprocess.Popen(run + ["work"], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        await_end(node, worker)
    finally:
        worker.terminate()
        out, errors = worker.communicate(timeout=PATIENCE)
    assert "delivered to ann@example.org" in out, (out, errors)
    assert worker.returncode == 0, (worker.returncode, errors)
    dead = node.ask("GET", "mail_dead/messages")["messages"]
    assert [one["from"]["reason"] for one in dead] == ["not an address: bob"], dead


def main():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    failed = 0
    print(f"1..{len(CLIENTS)}")
    for number, (heading, language, file_name, programs, make, run) in enumerate(CLIENTS, 1):
        title = f"{number} - the producer and the worker in {heading}"
        missing = [name for name in programs if not shutil.which(name)]
        if missing and os.environ.get("CI") != "true":
            print(f"ok {title} # SKIP {' and '.join(missing)} not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, file_name), "w", encoding="utf-8") as out:
                out.write(block_of(page, heading, language))
            node = Node(folder)
            try:
                try_client(folder, node, make, run)
                print(f"ok {title}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                words = f"{error}\n{getattr(error, 'stderr', '') or ''}"
                print(f"not ok {title}\n# " + words.replace("\n", "\n# "), flush=True)
            finally:
                node.stop()
    sys.exit(1 if failed else 0)


main()
