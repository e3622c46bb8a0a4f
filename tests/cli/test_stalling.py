# SPDX-License-Identifier: Apache-2.0
"""A bucket whose server stalls: one deadline for the whole command."""
import concurrent.futures
import threading
import time

from between import Between, between
from harness import UNAVAILABLE, case, contains, holds, main, same

UNKNOWN = 8
SLOW = 4         # seconds for each answer
DEADLINE = 6     # seconds; longer than one answer, shorter than all that a command needs
AT_MOST = 20     # seconds, on a busy machine; the answers of a send take longer
COMMANDS = (["send", "tasks", "x"], ["receive", "tasks"], ["peek", "tasks"], ["queue", "create", "other"],
            ["ack", "tasks", "0-1-1-1"])


class Slow(Between):
    """Each answer takes its time, none of them too long."""
    def before(self):
        time.sleep(SLOW)


class Silent(Between):
    """No answer comes."""
    over = threading.Event()

    def before(self):
        Silent.over.wait(120)
        return 503, [], b""


def ends_in_time(sluice, env, words):
    began = time.monotonic()
    result = sluice.run("--timeout", f"{DEADLINE}s", *words, env=env)
    took = time.monotonic() - began
    holds(result.status in (UNAVAILABLE, UNKNOWN), str(result))
    holds(took < AT_MOST, f"{words} took {took:.1f} s")


def all_end_in_time(sluice, env, commands):
    """They run at the same time: each of them mostly waits."""
    with concurrent.futures.ThreadPoolExecutor(len(commands)) as threads:
        for _ in threads.map(lambda words: ends_in_time(sluice, env, words), commands):
            pass


@case
def requests_that_are_slow_one_after_another_share_one_deadline(sluice):
    sluice.create("tasks")
    with between(Slow) as env:
        all_end_in_time(sluice, env, COMMANDS[:4])


class Late(Between):
    """Quick, but for entries of the journal, which it takes in and does not answer for."""
    over = threading.Event()

    def before(self):
        if self.command == "PUT" and "/log/" in self.path:
            Late.over.wait(120)


@case
def a_send_whose_answer_is_late_is_unknown_at_the_deadline(sluice):
    sluice.create("tasks")
    with between(Late) as env:
        began = time.monotonic()
        result = sluice.run("--timeout", f"{DEADLINE}s", "send", "tasks", "x", env=env)
        same(result.status, UNKNOWN, str(result))
        holds(time.monotonic() - began < AT_MOST, "the command took too long")
        Late.over.set()


@case
def a_server_that_does_not_answer_costs_no_more_than_the_deadline(sluice):
    sluice.create("tasks")
    with between(Silent) as env:
        all_end_in_time(sluice, env, COMMANDS)
        Silent.over.set()


@case
def a_command_that_may_take_any_time_refuses_the_option(sluice):
    result = sluice.run("--timeout", "5s", "stats")
    same(result.status, 2, str(result))
    contains(result.err, "does not accept --timeout")


main(at_once=4)
