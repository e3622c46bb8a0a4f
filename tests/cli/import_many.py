#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Imports many jobs of a real beanstalkd, killed with -9 again and again, and reads back every message.

    tests/cli/import_many.py SLUICE [--jobs 100000] [--kills 8] [--seed 1] [--store URL] [--sync]

make chaos-import runs it. Four fifths of the jobs are ready, the others delayed or buried."""
import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("sluice")
parser.add_argument("--jobs", type=int, default=100_000)
parser.add_argument("--kills", type=int, default=8)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--store")
parser.add_argument("--sync", action="store_true", help="beanstalkd syncs every write (-f 0)")
args = parser.parse_args()
os.environ["SLUICE"] = args.sluice

from beanstalkd import Beanstalkd  # noqa: E402  (the harness reads SLUICE)

folder = tempfile.mkdtemp(prefix="sluice-import-", dir="/var/tmp")
env = os.environ | {"SLUICE_STORE": args.store or folder + "/store", "HOME": folder}
record = folder + "/record"


def sluice(*arguments):
    run = subprocess.run([args.sluice, *arguments], env=env, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"sluice {' '.join(arguments)}: status {run.returncode}\n{run.stderr}")
    return run.stdout


def fill(server):
    delayed, buried = args.jobs * 3 // 20, args.jobs // 20
    parts = {"buried": buried, "ready": args.jobs - delayed - buried, "delayed": delayed}
    for name, count in parts.items():
        server.put("jobs", [f"{name} {i}".encode() for i in range(count)], delay=86_400 if name == "delayed" else 0)
        if name == "buried":
            server.bury("jobs", count)
    return {f"{name} {i}" for name, count in parts.items() for i in range(count)}


def size():
    return os.stat(record).st_size if os.path.exists(record) else 0


def import_and_kill(server, command):
    """Kills the import after some batches, until it ends or was killed often enough. Returns how often."""
    chance = random.Random(args.seed)
    for kills in range(args.kills):
        enough = size() + chance.choice([100, 300, 600, 900])
        run = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while run.poll() is None and size() < enough:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.03))
        if run.poll() is not None:
            return kills
        run.kill()
        run.wait()
        print(f"killed; the tube has {server.counts('jobs')}", flush=True)
    return args.kills


def bodies():
    seen = collections.Counter()
    for state in ("ready", "delayed"):
        after = []
        while True:
            page = sluice("peek", "jobs", "--state", state, "--max", "10000", "--json", *after).splitlines()
            if not page:
                break
            page = [json.loads(line) for line in page]
            seen.update(one["body"] for one in page)
            after = ["--after", page[-1]["id"]]
    return seen


def main():
    sluice("queue", "create", "jobs", "visibilityTimeout=60s")
    os.mkdir(folder + "/binlog")
    with Beanstalkd(folder + "/binlog", args.sync) as server:
        expected = fill(server)
        print(f"filled: {server.counts('jobs')}", flush=True)
        command = [args.sluice, "import", "jobs", server.url("jobs"), "--state", "all", "--record", record, "--json"]
        began = time.monotonic()
        kills = import_and_kill(server, command)
        last = json.loads(sluice(*command[1:]))
        took = time.monotonic() - began
        seen = bodies()
        missing, twice = expected - set(seen), [body for body, count in seen.items() if count > 1]
        print(json.dumps(last))
        print(f"{kills} kills, {took:.1f} s, load {os.getloadavg()[0]:.0f}: {sum(seen.values())} messages, "
              f"{len(missing)} missing, {len(twice)} twice; the tube has {server.counts('jobs')}")
        good = not missing and not twice and len(seen) == args.jobs == last["imported"] == last["queueGrewBy"]
        sys.exit(0 if good else 1)


try:
    main()
finally:
    shutil.rmtree(folder, ignore_errors=True)
