# SPDX-License-Identifier: Apache-2.0
"""Signals that a queue cannot take: limits, and a shard that is halted."""
import glob
import os

from harness import CORRUPT, LIMIT, case, contains, main, same
from node import Node

OF_MESSAGE, OF_SHARD = 256, 100_000
MESSAGES = 1_000


def post(node, path, body):
    return node.ask("POST", f"/v1/queues/tasks/{path}", body)


def steer(node, ids):
    """The numbers of the signals, or why there is none."""
    status, answer = post(node, "signals", {"ids": ids, "kind": "steer", "payload": {}})
    same(status, 200, str(answer))
    return [row.get("number") or row.get("reason") for row in answer["signals"]]


@case
def a_message_has_so_many_pending_signals(sluice):
    sluice.create("tasks")
    with Node(sluice) as node:
        sluice.send("tasks", "x")
        held, other = sluice.one("tasks"), sluice.send("tasks", "y")
        for number in range(1, OF_MESSAGE + 1):
            same(steer(node, [held["id"]]), [number])
        same(steer(node, [other, held["id"]]), [1, "signals-full"])
        status, problem = post(node, f"messages/{held['id']}/signals", {"kind": "steer", "payload": {}})
        same([status, problem["code"], problem["reason"]], [429, "LIMIT", "signals-full"])
        contains(problem["detail"], "256")
    sluice.refused(LIMIT, "signal", "tasks", held["id"], "steer", "a=1", says="256")
    sluice.ok("signals", "tasks", "--token", held["token"], "--ack", "1", "--quiet")
    sluice.ok("signal", "tasks", held["id"], "steer", "a=1")


@case
def a_shard_has_so_many_pending_signals(sluice):
    sluice.create("tasks")
    with Node(sluice) as node:
        status, sent = post(node, "messages", {"messages": [{"body": "x"}] * MESSAGES})
        same(status, 200, str(sent))
        ids = [row["id"] for row in sent["sent"]]
        for number in range(1, OF_SHARD // MESSAGES + 1):
            same(steer(node, ids), [number] * MESSAGES)
        same(node.ask("GET", "/v1/queues/tasks/stats")[1]["signals"], OF_SHARD)
        status, problem = post(node, f"messages/{ids[0]}/signals", {"kind": "ask", "payload": "?"})
        same([status, problem["code"], problem["reason"]], [429, "LIMIT", "signals-full"])
        same(node.ask("DELETE", f"/v1/queues/tasks/messages/{ids[0]}")[0], 200)  # its signals end with it
        same(steer(node, [ids[1]]), [OF_SHARD // MESSAGES + 1])
    sluice.ok("signal", "tasks", ids[2], "steer", "a=1")


@case
def a_halted_shard_says_so_and_the_others_take_the_signal(sluice):
    sluice.create("tasks", "shards=3")
    ids = {}
    for group in range(30):
        id = sluice.send("tasks", "x", "--group", f"g{group}")
        ids[id.split("-")[1]] = id
    same(sorted(ids), ["0", "1", "2"])
    break_journal(sluice, "1")
    with Node(sluice) as node:
        status, answer = post(node, "signals", {"ids": [ids["0"], ids["1"], ids["2"]], "kind": "steer", "payload": {}})
        same([status, [row["code"] for row in answer["signals"]]], [200, ["OK", "CORRUPT", "OK"]])
        contains(answer["error"]["detail"], "/1/log", "fails its check")
    run = sluice.run("signal", "tasks", ids["1"], "steer", "a=1")
    same(run.status, CORRUPT, str(run))
    contains(run.err, "/1/log", "fails its check")
    for shard in ("0", "2"):
        rows = sluice.ok("signals", "tasks", ids[shard], "--json").lines()
        same([(row["number"], row["state"]) for row in rows], [(1, "pending")])


def break_journal(sluice, shard):
    [path] = glob.glob(os.path.join(sluice.folder, "**", "q", "*", shard, "log", "@0*"), recursive=True)
    with open(path, "r+b") as file:
        file.seek(200)
        byte = file.read(1)[0]
        file.seek(200)
        file.write(bytes([byte ^ 0xFF]))


if __name__ == "__main__":
    main()
