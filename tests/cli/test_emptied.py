# SPDX-License-Identifier: Apache-2.0
"""A store that is emptied or replaced while a node or a command works on it."""
import os
import time

from harness import CORRUPT, ON_S3, PATIENCE, case, contains, holds, main, same, until
from node import Node
from objects import remove

BOUND = 5  # seconds; docs/s3.md, "A bucket that is emptied"


def send_until_refused(node):
    """Sends until the store is known to be lost. A send that begins after the bound must not be taken."""
    emptied = time.monotonic()

    def refused():
        began = time.monotonic()
        status, answer = node.ask("POST", "/v1/queues/tasks/messages", {"body": "x"})
        holds(status != 201 or began - emptied < BOUND, "a send was taken after the bound")
        # A directory without its files may fail before that.
        return (status, answer) if status not in (201, 503) else None
    return until(refused, "a send that is refused for good")


@case
def a_node_stops_taking_messages_when_its_store_is_emptied(sluice):
    sluice.create("tasks")
    with Node(sluice) as node:
        same(node.ask("POST", "/v1/queues/tasks/messages", {"body": "1"})[0], 201)
        remove(sluice)
        status, problem = send_until_refused(node)
        same((status, problem["code"]), (500, "CORRUPT"))
        contains(problem["detail"], "emptied", "format")
        status, problem = node.ask("GET", "/readyz")
        same((status, problem["code"]), (503, "CORRUPT"))
        contains(problem["detail"], "emptied")
        same(node.ask("GET", "/healthz")[0], 200)
        same(node.ask("POST", "/v1/queues/tasks/receive", {})[0], 500)
        same(node.ask("PUT", "/v1/queues/other", {})[0], 500)
        words = []
        until(lambda: words.append(node.logged()) or "store-lost" in "".join(words), "a line in the log")
        same(node.ask("GET", "/readyz")[0], 503)  # it stays: another process would begin an empty store
        status, rest = node.stop()
        same((status, ("".join(words) + rest).count("store-lost")), (0, 1))


@case
def an_idle_node_is_not_ready_when_its_store_is_emptied(sluice):
    sluice.create("tasks")
    with Node(sluice) as node:
        same(node.ask("GET", "/readyz")[0], 200)
        remove(sluice)
        # A directory without its folders fails at once; that it was emptied is known within the bound.
        until(lambda: node.ask("GET", "/readyz")[1].get("code") == "CORRUPT", "a node that is not ready")
        same(node.ask("GET", "/readyz")[0], 503)


@case
def a_node_does_not_go_on_in_a_store_made_anew(sluice):
    sluice.create("tasks")
    with Node(sluice) as node:
        same(node.ask("POST", "/v1/queues/tasks/messages", {"body": "1"})[0], 201)
        remove(sluice)
        sluice.create("tasks")
        status, problem = send_until_refused(node)
        same((status, problem["code"]), (500, "CORRUPT"))
        # A node that looked between the two commands says that the store was emptied.
        holds("replaced by another" in problem["detail"] or "emptied" in problem["detail"], problem["detail"])
    same([m["body"] for m in sluice.ok("peek", "tasks", "--json").lines()], [])


def feed_until_ended(process, feed, piece):
    emptied = time.monotonic()
    with os.fdopen(feed, "wb", buffering=0) as lines:
        while process.poll() is None:
            holds(time.monotonic() - emptied < BOUND + PATIENCE, "the command goes on")
            try:
                lines.write(piece)
            except BrokenPipeError:
                return
            time.sleep(0.2)


@case
def a_command_that_goes_on_sending_ends_with_corrupt(sluice):
    piece = (b"x" * 1023 + b"\n") * 1024  # what the command reads at a time
    sluice.create("tasks")
    lines, feed = os.pipe()
    process = sluice.start("send", "tasks", "--lines", "-", "--quiet", stdin=lines)
    os.close(lines)
    with os.fdopen(os.dup(feed), "wb") as first:
        first.write(piece)
    until(lambda: sluice.json("stats", "tasks")["ready"] == 1024, "the first messages")
    remove(sluice)
    feed_until_ended(process, feed, piece)
    _, words = process.communicate(timeout=PATIENCE)
    same(process.returncode, CORRUPT, words)
    contains(words.decode(), "emptied")


if not ON_S3:
    @case
    def a_node_whose_directory_was_replaced_stops(sluice):
        sluice.create("tasks")
        with Node(sluice) as node:
            same(node.ask("POST", "/v1/queues/tasks/messages", {"body": "1"})[0], 201)
            os.rename(sluice.store, sluice.store + "-old")
            sluice.create("tasks")
            status, problem = send_until_refused(node)
            same((status, problem["code"]), (500, "CORRUPT"))
            contains(problem["detail"], "another directory")


main(at_once=4)
