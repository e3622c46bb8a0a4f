#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of docs/migration.md: test_migration.py SLUICE MIGRATION.MD CLIENTS

A program that needs something that is not installed is a skip, and a failure with CI=true."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

program, page, clients = map(os.path.abspath, sys.argv[1:4])
os.environ["SLUICE"] = program
sys.path[:0] = [os.path.join(clients, "python", "src"), os.path.join(clients, "python", "tests")]
from packages import interpreter, skipped  # noqa: E402  the path is set above
from sluice import testing  # noqa: E402
from tap import Tap  # noqa: E402

SECONDS = 90


def block(text, section, language):
    """The only program of a section in this language, or that of a subsection."""
    part = re.split(r"\n## ", text.split(f"\n{section}\n", 1)[1])[0].split("\n### Cut-over")[0]
    if section.startswith("### "):
        part = part.split("\n### ")[0]
    found = re.findall(rf"```{language}\n(.*?)```", part, re.S)
    assert len(found) == 1, f"{section} has {len(found)} programs in {language}"
    return found[0]


def prints(line, folder, env, expected):
    """Starts a program, and ends it as soon as it has printed the text."""
    child = subprocess.Popen(line, cwd=folder, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    limit = threading.Timer(SECONDS, child.kill)
    limit.start()
    seen = []
    for text in child.stdout:
        seen.append(text)
        if expected in text:
            child.terminate()
    limit.cancel()
    child.wait()
    assert any(expected in text for text in seen), "".join(seen)


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(text)


def bullmq(text, url, folder):
    os.mkdir(os.path.join(folder, "node_modules"))
    os.symlink(os.path.join(clients, "node"), os.path.join(folder, "node_modules", "sluice"))
    write(folder, "mail.mjs", block(text, "## From BullMQ", "javascript").replace("http://127.0.0.1:7333", url))
    prints(["node", "mail.mjs"], folder, {}, "delivered to ann")


def celery_url(text, url, folder):
    write(folder, "jobs.py", block(text, "### Change the URL", "python").replace("127.0.0.1:7333", url.split("://")[1]))
    python, env = interpreter("celery"), {"PYTHONPATH": sys.path[0], "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([python, "-c", "import jobs; jobs.deliver.apply_async(('ann',), countdown=1)"], cwd=folder, check=True,
                   env={**os.environ, **env})
    prints([python, "-m", "celery", "-A", "jobs", "worker", "-c", "1"], folder, env, "delivered to ann")


def celery_code(text, url, folder):
    write(folder, "jobs.py", block(text, "### Change the code", "python").replace("http://127.0.0.1:7333", url))
    env = {"PYTHONPATH": sys.path[0], "PYTHONDONTWRITEBYTECODE": "1"}
    child = subprocess.Popen([sys.executable, "jobs.py"], cwd=folder, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)
    try:
        sent = child.stdout.readline().strip()
        with testing.Client(url) as client:
            assert client.queue("mail").result(sent, timeout=SECONDS) == "delivered to ann"
    finally:
        child.terminate()
        child.stdout.close()
    assert child.wait(SECONDS) == 0


def river(text, url, folder):
    write(folder, "main.go", block(text, "## From River", "go").replace("http://127.0.0.1:7333", url))
    write(folder, "go.mod", f"module mail\n\ngo 1.19\n\nrequire sluice v0.0.0\n\nreplace sluice => {clients}/go\n")
    subprocess.run(["go", "build", "-o", "mail", "."], cwd=folder, check=True)
    prints(["./mail"], folder, {}, "delivered to ann")


def main():
    with open(page, encoding="utf-8") as f:
        text = f.read()
    tap = Tap()
    for name, test, there in (("BullMQ", bullmq, shutil.which("node")), ("Celery, with its URL", celery_url, interpreter("celery")),
                              ("Celery, with its code", celery_code, True), ("River", river, shutil.which("go"))):
        if not there:
            skipped(tap, f"the program from {name} runs", "its language or library is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            process, url = testing.start("mem:")
            try:
                tap.run(f"the program from {name} runs", lambda: test(text, url, folder))
            finally:
                process.kill()
                process.wait()
    return tap.end()


sys.exit(main())
