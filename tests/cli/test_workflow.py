# SPDX-License-Identifier: Apache-2.0
"""Workflows: sends that belong together, their counts and events, on a store and through a node."""
from harness import CONFLICT, INVALID, NOT_FOUND, case, contains, holds, main, same
from node import Node

KEYS = ("state", "open", "done", "failed", "cancelled", "run", "last")


def counts(row):
    return [row[key] for key in KEYS]


@case
def a_workflow_completes_when_its_last_message_is_done(sluice):
    sluice.create("tasks")
    sluice.ok("send", "tasks", "reserve", "--workflow", "order-7")
    sluice.ok("send", "tasks", "ship", "--workflow", "order-7", "--workflow-last")
    shown = sluice.json("workflow", "show", "tasks", "order-7")
    same(counts(shown), ["open", 2, 0, 0, 0, 1, True])
    same([task["state"] for task in shown["tasks"]], ["ready", "ready"])
    for message in sluice.receive("tasks", "--max", "2"):
        sluice.ok("ack", "tasks", message["token"])
    same(counts(sluice.json("workflow", "show", "tasks", "order-7")), ["completed", 0, 2, 0, 0, 1, True])
    events = sluice.events("tasks")
    same(events[0]["type"], "workflow-submitted")
    same(events[-1]["type"], "workflow-completed")
    same(events[-1]["count"], 2)
    same({event["workflow"] for event in events}, {"order-7"})
    same([events[0]["orderingKey"], events[1]["orderingKey"]], ["workflow:tasks:order-7", "task:" + events[1]["message"]])
    contains(sluice.ok("workflow", "list", "tasks").out, "order-7", "completed")
    contains(sluice.ok("workflow", "show", "tasks", "order-7").out, "0 open, 2 done, 0 failed, 0 cancelled")


@case
def bad_input_has_its_sentence(sluice):
    sluice.create("tasks", "shards=4")
    sluice.refused(INVALID, "send", "tasks", "x", "--workflow-last", says="needs a workflow", field="workflowLast")
    sluice.refused(INVALID, "send", "tasks", "x", "--workflow", "w", "--group", "g",
                   says="both group and workflow needs a queue with one shard")
    sluice.refused(NOT_FOUND, "workflow", "show", "tasks", "w",
                   says='no workflow "w"; a finished one is kept for 1h (the setting retention)')
    sluice.refused(INVALID, "queue", "set", "tasks", "workflowOrder=on", says="needs orderingGuarantee")
    same(sluice.ok("workflow", "list", "tasks", "--json").lines(), [])
    sluice.create("strict", "orderingGuarantee=true", "workflowOrder=on")
    sluice.refused(INVALID, "send", "strict", "x", "--group", "g", says="takes no group")


@case
def all_messages_of_a_workflow_are_in_one_shard(sluice):
    sluice.create("tasks", "shards=4")
    for number in range(8):
        for _ in range(3):
            sluice.ok("send", "tasks", "x", "--workflow", f"w{number}")
    rows = sluice.ok("workflow", "list", "tasks", "--json").lines()
    same(sorted(row["id"] for row in rows), [f"w{number}" for number in range(8)])
    same({row["open"] for row in rows}, {3})
    holds(len({row["shard"] for row in rows}) > 1, rows)


@case
def a_node_shows_workflows(sluice):
    sluice.create("tasks")
    with Node(sluice) as node:
        url = f"http://{node.address}"
        status, sent = node.ask("POST", "/v1/queues/tasks/messages",
                                {"messages": [{"body": "a", "workflow": "über/7"},
                                              {"body": "b", "workflow": "über/7", "workflowLast": True}]})
        same(status, 200)
        holds(sent, "an answer")
        sluice.ok("send", "tasks", "c", "--workflow", "w", "--workflow-last", "--store", url)  # the compact encoding
        status, answer = node.ask("GET", "/v1/queues/tasks/workflows/%C3%BCber%2F7")
        same([status, answer["id"], answer["open"], len(answer["tasks"])], [200, "über/7", 2, 2])
        same(node.ask("GET", "/v1/queues/tasks/workflows?max=1")[1]["workflows"][0]["id"], "w")
        same(node.ask("GET", "/v1/queues/tasks/workflows/nope")[0], 404)
        same(counts(sluice.json("workflow", "show", "tasks", "über/7", "--store", url)), ["open", 2, 0, 0, 0, 1, True])
        same(counts(sluice.json("workflow", "show", "tasks", "w", "--store", url)), ["open", 1, 0, 0, 0, 1, True])
        same(len(sluice.ok("workflow", "list", "tasks", "--json", "--store", url).lines()), 2)


@case
def a_workflow_shows_the_progress_of_its_jobs(sluice):
    sluice.create("tasks")
    with Node(sluice) as node:
        for body in ("a", "b"):
            sluice.ok("send", "tasks", body, "--workflow", "w")
        _, batch = node.ask("POST", "/v1/queues/tasks/receive", {"worker": "one"})
        status, answer = node.ask("POST", "/v1/queues/tasks/renew", {"token": batch["messages"][0]["token"], "progress": 40})
        same(status, 200, answer)
        for store in (sluice.store, f"http://{node.address}"):
            shown = sluice.json("workflow", "show", "tasks", "w", "--store", store)
            same([task.get("progress") for task in shown["tasks"]], [40, None])
            contains(sluice.ok("workflow", "show", "tasks", "w", "--store", store).out, "PROGRESS", "40 %")


if __name__ == "__main__":
    main()
