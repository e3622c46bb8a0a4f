# SPDX-License-Identifier: Apache-2.0
"""Programs of two releases on one store: a rolling upgrade, and a downgrade that is refused. SLUICE is a program of the
next release, with a made-up version 2 of the rules (tests/support/rules_next.c). SLUICE_BEFORE is the product."""
import json
import os
import subprocess
import time

from harness import CONFLICT, INVALID, NOT_FOUND, PATIENCE, UNAVAILABLE, Result, case, contains, holds, main, same
from node import Node

BEFORE = os.environ["SLUICE_BEFORE"]
NEEDED = "upgrade needed: its journal has version 2 of the rules, and this program knows only 1; use a newer release"


def before(sluice, *arguments, store=None):
    """A command of the release before."""
    env = sluice.on_store | ({"SLUICE_STORE": store} if store else {})
    return Result(arguments, subprocess.run([BEFORE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                            stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False, cwd=sluice.folder,
                                            env=env))


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        holds(time.monotonic() < end, f"never happened: {what}")
        time.sleep(0.1)


def worked(result):
    same(result.status, 0, str(result))
    return result


def stopped(result, queue):
    same(result.status, UNAVAILABLE, str(result))
    same(result.err, f"sluice: queue {queue}: {NEEDED}\n")


def bodies(sluice, queue):
    return [message["body"] for message in sluice.receive(queue, "--max", "99")]


@case
def a_rolling_upgrade_loses_nothing(sluice):
    worked(before(sluice, "queue", "create", "tasks", "visibilityTimeout=1h", "rules=1"))
    worked(before(sluice, "queue", "create", "other", "rules=1"))
    worked(before(sluice, "send", "tasks", "from the old one"))
    sluice.send("tasks", "from the new one")  # both work at the same time
    worked(before(sluice, "send", "tasks", "once more"))
    report = sluice.json("upgrade", "tasks", "--check")
    same([report[key] for key in ("queue", "version", "newest", "shards", "raised", "upgraded")],
         ["tasks", 1, 2, 1, 0, False])
    same([report[key] for key in ("current", "old", "unknown")], [1, 2, 0])
    holds(0 < report["oldAgoMs"] < 600_000, report)
    same(report["changes"], "made up for tests")
    error = sluice.refused(CONFLICT, "upgrade", "tasks", says=["too old", "2 too old, 0 unknown"], field="force")
    same(error["error"], "CONFLICT")
    same(sluice.json("upgrade", "tasks", "--check")["version"], 1)
    done = sluice.json("upgrade", "tasks", "--force")
    same([done[key] for key in ("version", "newest", "raised", "upgraded")], [1, 2, 1, True])
    stopped(before(sluice, "send", "tasks", "too late"), "tasks")
    worked(before(sluice, "send", "other", "other queues go on"))
    sluice.send("tasks", "after it")
    same(bodies(sluice, "tasks"), ["from the old one", "from the new one", "once more", "after it"])
    events = sluice.events("tasks")
    same([event["count"] for event in events if event["type"] == "queue-upgraded"], [2])
    same([event["sequence"] for event in events], list(range(1, len(events) + 1)))


@case
def a_downgrade_is_refused_and_changes_nothing(sluice):
    sluice.create("tasks", "rules=1")
    sluice.send("tasks", "x")
    sluice.ok("upgrade")
    stored = sluice.fingerprint()
    for words in (["send", "tasks", "y"], ["receive", "tasks"], ["stats", "tasks"], ["peek", "tasks"],
                  ["queue", "purge", "tasks", "--yes"], ["queue", "show", "tasks"], ["upgrade", "tasks"]):
        stopped(before(sluice, *words), "tasks")
    same(sluice.fingerprint(), stored)
    told = before(sluice, "send", "tasks", "y", "--json")
    error = json.loads(told.err)
    same([error["error"], error["message"]], ["UNAVAILABLE", f"queue tasks: {NEEDED}"])
    same(bodies(sluice, "tasks"), ["x"])


@case
def an_old_node_answers_503_for_that_queue_only(sluice):
    sluice.create("tasks", "rules=1")
    sluice.create("other", "rules=1")
    with Node(sluice, program=BEFORE) as node:
        for queue in ("tasks", "other"):
            same(node.ask("POST", f"/v1/queues/{queue}/messages", {"body": "x"})[0], 201)
        url = f"http://{node.address}"
        report = sluice.json("upgrade", "tasks", "--check")
        same([report["owner"], report["ownerVersion"], report["old"]], [url, 1, 1])
        contains(sluice.ok("upgrade", "tasks", "--check").out, f"owner: {url}, knows version 1 and is too old")
        sluice.ok("upgrade", "tasks", "--force")
        status, problem = node.ask("POST", "/v1/queues/tasks/messages", {"body": "y"})
        same([status, problem["code"], problem["reason"]], [503, "UNAVAILABLE", "upgrade-needed"])
        same(problem["detail"], f"queue tasks: {NEEDED}")
        same(node.ask("GET", "/v1/queues/tasks/stats")[1]["reason"], "upgrade-needed")
        same(node.ask("POST", "/v1/queues/other/messages", {"body": "y"})[0], 201)
        same(node.ask("GET", "/readyz")[0], 200)
        stopped(before(sluice, "send", "tasks", "y", store=url), "tasks")  # at once, not after its timeout
        sluice.send("tasks", "past the old node")
    same(bodies(sluice, "tasks"), ["x", "past the old node"])


@case
def a_cluster_of_mixed_versions_is_named_and_keeps_its_queues(sluice):
    sluice.create("tasks", "rules=1")
    with Node(sluice, "--node", "new") as new, Node(sluice, "--node", "old", program=BEFORE) as old:
        url = f"http://{new.address}"
        same(new.ask("POST", "/v1/queues/tasks/messages", {"body": "by the new one"})[0], 201)
        for store in ([], ["--store", url]):  # the store's members, and those that the node sees
            until("the members are seen", lambda: sluice.json("upgrade", "--check", *store).get("oldMembers"))
            same(sluice.json("upgrade", "--check", *store)["oldMembers"], "old")
            contains(sluice.ok("upgrade", "--check", *store).out, "nodes of the cluster that are too old: old")
            sluice.refused(CONFLICT, "upgrade", *store, field="force", says=[
                "queue tasks keeps version 1: the cluster has mixed versions",
                "these nodes are too old for version 2: old; replace them, or force the upgrade"])
        rows = {row["name"]: row for row in sluice.ok("--json", "--store", url, "cluster", "status", "--members").lines()}
        same([rows[name]["rulesNewest"] for name in ("new", "old")], [2, 1])
        same(old.ask("POST", "/v1/queues/tasks/messages", {"body": "by the old one"})[0], 201)
        old.stop()
        until("the old one has left", lambda: "oldMembers" not in sluice.json("upgrade", "--check", "--store", url))
        sluice.ok("upgrade", "--force", "--store", url)
    same(bodies(sluice, "tasks"), ["by the new one", "by the old one"])


@case
def an_old_client_works_through_a_new_node(sluice):
    sluice.create("tasks", "rules=1")
    sluice.ok("upgrade")
    with Node(sluice) as node:
        url = f"http://{node.address}"
        worked(before(sluice, "send", "tasks", "x", store=url))
        same(json.loads(before(sluice, "receive", "tasks", "--json", store=url).out)["body"], "x")


@case
def a_node_upgrades_its_queues(sluice):
    sluice.create("tasks", "shards=3", "rules=1")
    worked(before(sluice, "send", "tasks", "x"))
    with Node(sluice) as node:
        url = f"http://{node.address}"
        report = sluice.json("upgrade", "--check", "--store", url)
        same([report[key] for key in ("queue", "version", "newest", "shards", "raised")], ["tasks", 1, 2, 3, 0])
        same(report["old"], 1)
        sluice.refused(CONFLICT, "upgrade", "--store", url, says="too old", field="force")
        same(sluice.json("upgrade", "--force", "--store", url)["raised"], 3)
        status, again = node.ask("POST", "/v1/queues/tasks/upgrade", {"check": True})
        same([status, again["version"], again["raised"]], [200, 2, 3])
        same(node.ask("POST", "/v1/queues/tasks/upgrade", {"chekc": True})[0], 400)
        same(node.ask("POST", "/v1/queues/nope/upgrade", {})[0], 404)


@case
def an_upgrade_goes_queue_by_queue_and_can_be_repeated(sluice):
    for queue in ("a", "b", "c"):
        sluice.create(queue, "rules=1")
    text = sluice.ok("upgrade", "--check")
    contains(text.out, "[1/3] a: has version 1, can be raised to 2 (shards: 1, raised: 0)", "changes: made up")
    contains(text.err, "3 of 3 queues can be raised")
    contains(sluice.ok("upgrade", "b").out, "[1/1] b: raised from version 1 to 2 (shards: 1)")
    text = sluice.ok("upgrade")
    contains(text.out, "[1/3] a: raised from version 1 to 2", "[2/3] b: has version 2, nothing to do", "[3/3] c: raised")
    contains(text.err, "raised 2 of 3 queues")
    same([row["upgraded"] for row in sluice.ok("upgrade", "--json").lines()], [False] * 3)
    sluice.refused(NOT_FOUND, "upgrade", "nope", says="nope")
    sluice.refused(INVALID, "upgrade", "--chekc", says="--check")


@case
def a_new_queue_has_the_newest_rules_that_all_members_know(sluice):
    sluice.create("alone", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=alone_dead")
    same([row["version"] for row in sluice.ok("upgrade", "--check", "--json").lines()], [2, 2])
    with Node(sluice, "--node", "old", program=BEFORE) as node:
        sluice.create("beside")
        same(sluice.json("upgrade", "beside", "--check")["version"], 1)
        same(node.ask("POST", "/v1/queues/beside/messages", {"body": "x"})[0], 201)
    sluice.create("first", "rules=1")
    worked(before(sluice, "send", "first", "x"))
    report = json.loads(worked(before(sluice, "upgrade", "first", "--json")).out)
    same([report["version"], report["newest"], report["upgraded"]], [1, 1, False])
    sluice.ok("queue", "set", "first", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=first_dead")
    same(sluice.json("upgrade", "first_dead", "--check")["version"], 1)  # as the queue that names it
    for wrong in ("0", "3", "-1", "x", "02", ""):
        sluice.refused(INVALID, "queue", "create", "wrong", f"rules={wrong}", says="from 1 to 2", field="rules")
    told = before(sluice, "queue", "create", "wrong", "rules=2")
    same((told.status, told.err), (INVALID, 'sluice: rules is "2"; this program knows only version 1 of the rules\n'))


@case
def a_queue_created_with_the_rules_of_this_release_needs_this_release(sluice):
    sluice.create("kept")
    sluice.create("other", "rules=1")
    for words in (["send", "kept", "x"], ["receive", "kept"], ["stats", "kept"]):
        told = before(sluice, *words)
        same(told.status, UNAVAILABLE, str(told))
        same(told.err, "sluice: queue kept: upgrade needed: it was created with a version of the rules that this "
                       "program does not know; use a newer release\n")
    worked(before(sluice, "send", "other", "x"))
    with Node(sluice, program=BEFORE) as node:
        status, problem = node.ask("POST", "/v1/queues/kept/messages", {"body": "y"})
        same([status, problem["code"], problem["reason"]], [503, "UNAVAILABLE", "upgrade-needed"])
        same(node.ask("GET", "/readyz")[0], 200)
    sluice.send("kept", "x")
    same(bodies(sluice, "kept"), ["x"])


@case
def a_queue_that_fails_does_not_end_the_run(sluice):
    sluice.create("a", "rules=1")
    sluice.create("b", "rules=1")
    worked(before(sluice, "send", "a", "x"))
    run = sluice.run("upgrade")
    same(run.status, CONFLICT, str(run))
    contains(run.out, "[2/2] b: raised")
    contains(run.err, "queue a keeps version 1")


if __name__ == "__main__":
    main()
