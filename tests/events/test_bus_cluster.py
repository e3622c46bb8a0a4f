# SPDX-License-Identifier: Apache-2.0
"""A consumer on three NATS servers, with a stream of three copies. Runs under with-nats --nodes 3."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from bus import CONTROL, Follower, control, put, queue_name  # noqa: E402
from harness import case, main, same  # noqa: E402


def leader(queue):
    token = queue.replace(".", "=2E")
    done = subprocess.run(f"{CONTROL} leader SLUICE_{token}", shell=True, check=True, timeout=60, capture_output=True,
                          text=True)
    return done.stdout.strip()


@case
def the_leader_of_the_stream_is_killed_under_a_follower(sluice):
    queue = queue_name()
    put(queue, 0, 1, 200)
    with Follower(sluice, queue) as follower:
        same(follower.read(200), list(range(1, 201)))
        for round_number in range(2):
            first = 201 + 100 * round_number
            which = leader(queue)
            control("kill", which)
            put(queue, 0, first - 50, first + 99, f".{round_number}")  # some of them again
            same(follower.read(100), list(range(first, first + 100)))
            control("start", which)


main()
