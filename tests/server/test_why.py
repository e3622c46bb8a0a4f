# SPDX-License-Identifier: Apache-2.0
"""Why messages failed, as a node tells it in JSON: reason, time and worker of every failure."""
import json
import os

from harness import case, holds, main, same, until
from schema import Schema
from serving import Node

with open(os.environ["OPENAPI"], "rb") as source:
    SCHEMA = Schema(json.load(source))


def shown(node, id):
    """One message by its id, as the file for machines says."""
    message = node.does(200, "GET", f"/tasks/messages/{id}")
    same(SCHEMA.check(message, {"$ref": "#/components/schemas/Message"}), [])
    return message


def fails(node, queue, worker, reason):
    token = node.does(200, "POST", f"/{queue}/receive", {"worker": worker, "wait": "20s"})["messages"][0]["token"]
    node.does(200, "POST", f"/{queue}/fail", {"token": token, "reason": reason})


def told(failures):
    return [(failure["attempt"], failure["worker"], failure["reason"], failure["kind"]) for failure in failures]


@case
def a_dead_message_tells_every_failure(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks", {"failureStrategy": {"maxRetries": 1, "backoff": {"initial": 0}}})
        id = node.does(201, "POST", "/tasks/messages", {"body": "x"})["id"]
        holds("failures" not in shown(node, id), "it did not fail yet")
        fails(node, "tasks", "one", "no disk")
        same(told(shown(node, id)["failures"]), [(1, "one", "no disk", "failed")])
        node.does(200, "POST", "/tasks/receive", {"worker": "two", "wait": "20s", "visibility": "50ms"})
        dead = lambda: shown(node, id)
        until(lambda: dead()["state"] == "dead", "its lock expires")
        same(told(dead()["failures"]),
             [(1, "one", "no disk", "failed"), (2, "two", "lock-expired", "lock-expired")])
        peeked = node.does(200, "GET", "/tasks/messages?state=dead")["messages"][0]
        same(peeked["failures"], dead()["failures"][1:])
        received = node.does(200, "POST", "/tasks/redrive", {})
        same(received["redriven"], 1)
        again = node.does(200, "POST", "/tasks/receive", {"wait": "20s"})["messages"][0]
        holds("failures" not in again, "a receive has none")


@case
def a_message_that_waits_for_its_retry_tells_its_failure(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks", {"failureStrategy": {"backoff": {"initial": "5m"}}})
        node.does(201, "POST", "/tasks/messages", {"body": "x"})
        fails(node, "tasks", "one", "no disk")
        waits = node.does(200, "GET", "/tasks/messages?state=delayed")["messages"][0]
        same(told(waits["failures"]), [(1, "one", "no disk", "failed")])


@case
def a_finished_message_that_is_not_kept_has_no_number_of_attempts(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks", {"retention": "0s"})
        id = node.does(201, "POST", "/tasks/messages", {"body": "x"})["id"]
        token = node.does(200, "POST", "/tasks/receive", {})["messages"][0]["token"]
        node.does(200, "POST", "/tasks/ack", {"token": token})
        done = shown(node, id)
        same((done["state"], done["attempt"], done["body"]), ("finished", None, None))


@case
def status_of_a_finished_message(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks", {"retention": "1d"})
        ids = [node.does(201, "POST", "/tasks/messages", {"body": "x"})["id"] for _ in range(2)]
        token = node.does(200, "POST", "/tasks/receive", {"worker": "one"})["messages"][0]["token"]
        node.does(200, "POST", "/tasks/ack", {"token": token})
        done = shown(node, ids[0])
        same([done[key] for key in ("state", "worker", "attempts", "attempt", "body")],
             ["processed", "one", 1, None, None])
        holds(done["finishedAt"] > 0, done)
        node.does(200, "POST", "/tasks/purge", {})
        gone = shown(node, ids[1])
        same([gone["state"], gone["attempts"], "worker" in gone], ["purged", 0, False])
        remote = sluice.ok("--json", "--store", f"http://{node.address}", "show", "tasks", ids[0]).lines()[0]
        same([remote[key] for key in ("state", "worker", "attempts", "finishedAt")],
             [done[key] for key in ("state", "worker", "attempts", "finishedAt")])


if __name__ == "__main__":
    main()
