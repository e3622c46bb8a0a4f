#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Runs cluster.py on each service and each store, several at a time, and joins their TAP.

    everywhere.py [--one-by-one] [--long KILLS]

The runs mostly wait for leases to end, so they take little more time together than the longest alone. --long runs the
long form of each.
"""
import concurrent.futures
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = [sys.executable, "-B", os.path.join(HERE, "cluster.py")]
WITH = os.path.join(HERE, "..", "servers", "with-")
BUCKET = [WITH + "radosgw"]
AT_A_TIME = 3

# What runs the test, and the faults of the short form (none: all that can happen there). Longest first.
PLACES = [
    ("Consul, a directory", [WITH + "coord", "consul", "--nodes", "3"], None),
    ("etcd, a directory", [WITH + "coord", "etcd", "--nodes", "3"], None),
    ("store:, a bucket", BUCKET, "the_owner_is_killed,the_store_goes_away"),
    ("etcd, a bucket", [*BUCKET, WITH + "coord", "etcd"], "the_owner_is_killed,the_owner_is_cut_off_from_the_store"),
    ("Consul, a bucket", [*BUCKET, WITH + "coord", "consul"], "the_owner_is_killed"),
    ("store:, a directory", [], None),
]


def run(place, arguments):
    name, under, faults = place
    own = ["--faults", faults] if faults and not arguments else []
    env = dict(os.environ)
    env.pop("SLUICE_TEST_COORD", None)
    env.pop("SLUICE_TEST_S3", None)
    done = subprocess.run([*under, *TEST, *own, *arguments], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env,
                          check=False)
    return name, done.returncode, done.stdout.decode(errors="replace")


def join(number, name, status, text):
    """Prints the cases of one run. Returns the number of the last case, and whether all is well."""
    print(f"# {name}")
    good, before = status == 0, number
    for line in text.splitlines():
        skip = re.match(r"1\.\.0 # SKIP (.*)", line)
        case = re.match(r"(not )?ok \d+ - (.*)", line)
        if skip or case:
            number += 1
        if skip:
            print(f"ok {number} - {name} # SKIP {skip[1]}")
        elif case:
            print(f"{case[1] or ''}ok {number} - {name}: {case[2]}")
        elif not line.startswith("1.."):
            print(line)
    if number == before or (not good and "not ok" not in text):
        number, good = number + 1, False
        print(f"not ok {number} - {name}: exit status {status}")
    sys.stdout.flush()
    return number, good


def main():
    arguments = sys.argv[1:]
    at_a_time = 1 if "--one-by-one" in arguments else AT_A_TIME
    arguments = [word for word in arguments if word != "--one-by-one"]
    number, all_good = 0, True
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        for one in concurrent.futures.as_completed([pool.submit(run, place, arguments) for place in PLACES]):
            number, good = join(number, *one.result())
            all_good = all_good and good
    print(f"1..{number}")
    return not all_good


sys.exit(main())
