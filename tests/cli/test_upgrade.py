# SPDX-License-Identifier: Apache-2.0
"""Programs of two releases on one store: a rolling upgrade, and a downgrade that is refused."""
import http.client
import http.server
import json
import os
import re
import subprocess
import threading
import time

from harness import CONFLICT, INVALID, NOT_FOUND, PATIENCE, UNAVAILABLE, Result, case, contains, holds, main, same
from node import Node

BEFORE = os.environ["SLUICE_BEFORE"]
NEEDED = "upgrade needed: its journal has version 6 of the rules, and this program knows 1 to 5; use a newer release"


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
         ["tasks", 1, 6, 1, 0, False])
    same([report[key] for key in ("current", "old", "unknown")], [1, 2, 0])
    holds(0 < report["oldAgoMs"] < 600_000, report)
    contains(report["changes"], "events are numbered")
    error = sluice.refused(CONFLICT, "upgrade", "tasks", says=["too old", "2 too old, 0 unknown"], field="force")
    same(error["error"], "CONFLICT")
    same(sluice.json("upgrade", "tasks", "--check")["version"], 1)
    done = sluice.json("upgrade", "tasks", "--force")
    same([done[key] for key in ("version", "newest", "raised", "upgraded")], [1, 6, 1, True])
    stopped(before(sluice, "send", "tasks", "too late"), "tasks")
    worked(before(sluice, "send", "other", "other queues go on"))
    sluice.send("tasks", "after it")
    same(bodies(sluice, "tasks"), ["from the old one", "from the new one", "once more", "after it"])
    events = sluice.events("tasks")
    same([event["count"] for event in events if event["type"] == "queue-upgraded"], [2, 3, 4, 5, 6])
    raised = [event["type"] for event in events].index("queue-upgraded")
    same([event.get("sequence") for event in events],
         [None] * raised + list(range(1, len(events) - raised + 1)))


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
        same([report["owner"], report["ownerVersion"], report["old"]], [url, 5, 1])
        contains(sluice.ok("upgrade", "tasks", "--check").out, f"owner: {url}, knows version 5 and is too old")
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
                "these nodes are too old for version 6: old; replace them, or force the upgrade"])
        rows = {row["name"]: row for row in sluice.ok("--json", "--store", url, "cluster", "status", "--members").lines()}
        same([rows[name]["rulesNewest"] for name in ("new", "old")], [6, 5])
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
        same([report[key] for key in ("queue", "version", "newest", "shards", "raised")], ["tasks", 1, 6, 3, 0])
        same(report["old"], 1)
        sluice.refused(CONFLICT, "upgrade", "--store", url, says="too old", field="force")
        same(sluice.json("upgrade", "--force", "--store", url)["raised"], 3)
        status, again = node.ask("POST", "/v1/queues/tasks/upgrade", {"check": True})
        same([status, again["version"], again["raised"]], [200, 6, 3])
        same(node.ask("POST", "/v1/queues/tasks/upgrade", {"chekc": True})[0], 400)
        same(node.ask("POST", "/v1/queues/nope/upgrade", {})[0], 404)


@case
def an_upgrade_goes_queue_by_queue_and_can_be_repeated(sluice):
    for queue in ("a", "b", "c"):
        sluice.create(queue, "rules=1")
    text = sluice.ok("upgrade", "--check")
    contains(text.out, "[1/3] a: has version 1, can be raised to 6 (shards: 1, raised: 0)", "changes: events are")
    contains(text.err, "3 of 3 queues can be raised")
    contains(sluice.ok("upgrade", "b").out, "[1/1] b: raised from version 1 to 6 (shards: 1)")
    text = sluice.ok("upgrade")
    contains(text.out, "[1/3] a: raised from version 1 to 6", "[2/3] b: has version 6, nothing to do", "[3/3] c: raised")
    contains(text.err, "raised 2 of 3 queues")
    same([row["upgraded"] for row in sluice.ok("upgrade", "--json").lines()], [False] * 3)
    sluice.refused(NOT_FOUND, "upgrade", "nope", says="nope")
    sluice.refused(INVALID, "upgrade", "--chekc", says="--check")


@case
def a_new_queue_has_the_newest_rules_that_all_members_know(sluice):
    sluice.create("alone", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=alone_dead")
    same([row["version"] for row in sluice.ok("upgrade", "--check", "--json").lines()], [6, 6])
    with Node(sluice, "--node", "old", program=BEFORE) as node:
        sluice.create("beside")
        same(sluice.json("upgrade", "beside", "--check")["version"], 5)
        same(node.ask("POST", "/v1/queues/beside/messages", {"body": "x"})[0], 201)
    sluice.create("first", "rules=1")
    worked(before(sluice, "send", "first", "x"))
    report = json.loads(worked(before(sluice, "upgrade", "first", "--json")).out)
    same([report["version"], report["newest"], report["upgraded"]], [1, 5, True])
    sluice.ok("queue", "set", "first", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=first_dead")
    same(sluice.json("upgrade", "first_dead", "--check")["version"], 5)  # as the queue that names it
    for wrong in ("0", "7", "-1", "x", "06", ""):
        sluice.refused(INVALID, "queue", "create", "wrong", f"rules={wrong}", says="from 1 to 6", field="rules")


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


class OlderNode(http.server.ThreadingHTTPServer):
    """A node of the release before: it has no path for signals, collect and cancel."""

    def __init__(self, node):
        super().__init__(("127.0.0.1", 0), OlderAnswer)
        self.node, self.url = node, f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class OlderAnswer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if re.search("/(signals|collect|cancel)([/?]|$)", self.path):
            problem = {"type": "about:blank", "title": "no such queue, message or object", "status": 404, "code": "NOT_FOUND",
                       "reason": "unknown-path", "field": "path", "detail": f"there is nothing at {self.path}"}
            return self.answer(404, {"Content-Type": "application/problem+json"}, json.dumps(problem).encode())
        line = http.client.HTTPConnection(self.server.node.address, timeout=PATIENCE)
        line.request(self.command, self.path, body, dict(self.headers))
        answer = line.getresponse()
        kept = {key: value for key, value in answer.getheaders() if key not in ("Content-Length", "Connection")}
        return self.answer(answer.status, kept, answer.read())

    do_GET = do_POST = do_PUT = do_DELETE = pass_on

    def answer(self, status, headers, body):
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@case
def a_node_that_does_not_know_signals_is_named(sluice):
    sluice.create("tasks", "rules=5")
    with Node(sluice, program=BEFORE) as node:
        older = OlderNode(node)
        id = json.loads(worked(before(sluice, "send", "tasks", "x", "--json", store=older.url)).out)["id"]
        events = sluice.events("tasks")
        for words in (["signal", "tasks", id, "steer", "a=1"], ["signals", "tasks", id], ["cancel", "tasks", id],
                      ["collect", "tasks", id, "--timeout", "1s"]):
            sluice.refused(UNAVAILABLE, *words, "--store", older.url, says=[
                f"upgrade needed: the node at {older.url.removeprefix('http://')} does not know this call"])
        same(sluice.events("tasks"), events)
        older.shutdown()


@case
def signals_work_after_an_upgrade_while_workers_run(sluice):
    """The queue is used by the release before. Workers of this release run when it is upgraded."""
    worked(before(sluice, "queue", "create", "tasks", "visibilityTimeout=1h", "shards=2", "rules=5"))
    for number in range(6):
        worked(before(sluice, "send", "tasks", f"job {number}"))
    held = [json.loads(line) for line in worked(before(sluice, "receive", "tasks", "--max", "2", "--json")).out.splitlines()]
    with Node(sluice) as node:
        url = f"http://{node.address}"
        mine = sluice.receive("tasks", "--max", "2", "--store", url)
        sluice.refused(CONFLICT, "signal", "tasks", mine[0]["id"], "steer", "a=1", "--store", url,
                       says=["a signal needs version 6 of the rules, and queue tasks has version 5"])
        same(sluice.json("upgrade", "tasks", "--force", "--store", url)["version"], 5)
        for message in held + mine:  # the locks of before the upgrade hold, also those of the other release
            sluice.ok("signal", "tasks", message["id"], "ask", "how far?", "--store", url)
            status, got = node.ask("POST", "/v1/queues/tasks/signals/receive", {"tokens": [message["token"]], "wait": "20s"})
            same([status, [row["payload"] for row in got["signals"]]], [200, ["how far?"]])
            done = {"token": message["token"], "number": got["signals"][0]["number"], "answer": "half"}
            same(node.ask("POST", "/v1/queues/tasks/signals/ack", done)[0], 200)
            sluice.ok("ack", "tasks", message["token"], "--result", "42", "--store", url)
            same(sluice.json("show", "tasks", message["id"])["state"], "processed")
        stats = sluice.stats("tasks")
        same([stats["processed"], stats["ready"]], [len(held + mine), 6 - len(held + mine)])


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
