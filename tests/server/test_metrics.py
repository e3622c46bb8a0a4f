# SPDX-License-Identifier: Apache-2.0
"""Every number of /metrics moves under a load that does everything once, but for those that say why not."""
import os
import re

from harness import case, holds, main, same, until
from serving import Node, Stream

# Nothing here makes them move.
STILL = {
    "sluice_http_unauthenticated_total": "the next case",
    "sluice_http_forbidden_total": "the next case",
    "sluice_http_throttled_total": "the next case",
    "sluice_http_no_room_total": "more bodies at once than there is memory for",
    "sluice_http_answer_memory_bytes": "a client that does not read its answer",
    "sluice_dispatch_withheld_total": "flags.dispatch=shadow",
    "sluice_stream_bus_wakes_total": "a message of a bus",
    "sluice_streams_lagged_total": "a client of a stream that does not read",
    "sluice_messages_given_back_total": "an answer that no client took",
    "sluice_forwarded_total": "a second node, whose clients came to the wrong one",
    "sluice_forwards_failed_total": "the same",
    "sluice_cluster_leader": "a second node: one alone needs no leader",
    "sluice_cluster_epoch": "the same",
    "sluice_cluster_elections_total": "the same",
    "sluice_cluster_epoch_renewals_total": "the same",
    "sluice_cluster_shards_moving": "the moment of a move",
    "sluice_cluster_moves_waiting": "more moves than a round allows",
    "sluice_cluster_draining": "an order to drain",
    "sluice_cluster_shards_unowned": "a leader, and an owner that ended: tests/publish/coordinator.py",
    "sluice_cluster_unowned_events": "the same",
    "sluice_cluster_hints_total": "a second node",
    "sluice_cluster_fenced_epochs_total": "a restored coordination service",
    "sluice_coordination_outage_seconds": "a coordination service that does not answer",
    "sluice_coordination_outages_total": "the same",
    "sluice_coordination_errors_total": "the same",
    "sluice_store_charged_requests_total": "a bucket",
    "sluice_queue_charged_requests_total": "a bucket",
    "sluice_queue_damaged": "a store that loses slots: tests/redis/test_node_loss.py",
    "sluice_queues_unread": "more queues than are shown, or a store that fails",
}
# Calls that take less than a millisecond do not show here.
ENDS = ["processed", "dead_lettered", "redriven", "purged", "cancelled"]
PERHAPS = {"sluice_coordination_latency_seconds_total", "sluice_coordination_latency_max_seconds"}


def read(node, headers=None):
    """Family -> {labels: value}; a histogram by how many it counted."""
    text = node.raw("GET", "/metrics", headers=headers).body.decode()
    families = {name: {} for name in re.findall(r"^# TYPE (\w+) ", text, re.M)}
    for name, labels, value in re.findall(r"^(\w+?)(?:\{(.*)\})? (\S+)$", text, re.M):
        family = name if name in families else name.removesuffix("_count")
        if family in families:
            families[family][labels] = float(value)
    return families


def moved(families):
    return {name for name, samples in families.items() if sum(samples.values()) > 0}


def receive(node, queue, **more):
    return [m["token"] for m in node.does(200, "POST", f"/{queue}/receive", more)["messages"]]


def messages(node, sluice):
    """Sends, outcomes, a lock that runs out and its holder that comes too late, a dead letter, another writer."""
    strategy = {"mode": "dead-letter", "deadLetterQueue": "letters"}
    node.does(201, "PUT", "/tasks", {"failureStrategy": strategy})
    node.does(201, "PUT", "/kept", {"failureStrategy": {"mode": "retry", "maxRetries": 0}})
    node.does(200, "POST", "/tasks/messages", {"messages": [{"body": str(i)} for i in range(20)]})
    for _ in range(2):
        node.does(201, "POST", "/tasks/messages", {"body": "once", "dedup": "k"})
    tokens = receive(node, "tasks", max=10, worker="a")
    node.does(200, "POST", "/tasks/ack", {"tokens": tokens[:3]})
    node.does(200, "POST", "/tasks/renew", {"token": tokens[3]})
    node.does(200, "POST", "/tasks/release", {"token": tokens[3]})
    node.does(200, "POST", "/tasks/fail", {"token": tokens[4]})
    node.does(200, "POST", "/tasks/renew", {"token": tokens[5], "visibility": "10ms"})
    until(lambda: node.does(200, "GET", "/tasks/stats")["locked"] == 4, "a lock runs out")
    again = receive(node, "tasks", max=20, worker="b")
    node.does(410, "POST", "/tasks/ack", {"token": tokens[5]})
    node.does(200, "POST", "/tasks/release", {"tokens": again, "delay": "1h"})
    node.does(201, "POST", "/kept/messages", {"body": "x"})
    node.does(200, "POST", "/kept/fail", {"token": receive(node, "kept")[0]})
    node.does(200, "POST", "/kept/redrive", {})
    node.does(200, "POST", "/kept/purge", {})
    node.does(201, "POST", "/kept/messages", {"body": "waits"})
    node.does(204, "POST", "/kept/pause")
    sluice.ok("send", "tasks", "directly", env={"SLUICE_STORE": sluice.store, "SLUICE_FORWARD": "off"})
    node.does(201, "POST", "/tasks/messages", {"body": "after it"})


def jobs(node):
    """Jobs with a result, a body that is kept, signals, and one that is cancelled."""
    node.does(201, "PUT", "/jobs", {"retainBody": True})
    node.does(200, "POST", "/jobs/messages", {"messages": [{"body": str(i)} for i in range(3)]})
    held = node.does(200, "POST", "/jobs/receive", {"max": 2})["messages"]
    node.does(200, "POST", f"/jobs/messages/{held[0]['id']}/signals", {"kind": "ask"})
    node.does(200, "POST", "/jobs/signals/receive", {"tokens": [held[0]["token"]], "wait": "10s"})
    node.does(200, "POST", "/jobs/signals/ack", {"token": held[0]["token"], "number": 1})
    node.does(200, "POST", "/jobs/collect", {"ids": [held[0]["id"]]})
    node.does(200, "POST", "/jobs/ack", {"token": held[0]["token"], "result": "42"})
    node.does(200, "POST", f"/jobs/messages/{held[1]['id']}/signals", {"kind": "ask"})
    waits = node.does(200, "GET", "/jobs/messages")["messages"][0]["id"]
    node.does(200, "DELETE", f"/jobs/messages/{waits}")


@case
def everything_moves_under_load(sluice):
    with Node(sluice) as node:
        messages(node, sluice)
        jobs(node)
        stream = node.stream("/tasks/events")
        until(lambda: stream.next()[0] is None, "all that is old has been told")
        node.does(201, "POST", "/tasks/messages", {"body": "news"})
        stream.until("message-enqueued")
        node.does(201, "PUT", "/quiet")
        all_queues = Stream(node.address, "/v1/stream", None)
        all_queues.next()
        waiting = node.connect()
        waiting.request("POST", "/v1/queues/quiet/receive", '{"wait": "20s"}', {"Content-Type": "application/json"})
        until(lambda: read(node)["sluice_waiters"][""] == 1, "one waits")
        gone = node.connect()
        gone.request("POST", "/v1/queues/quiet/receive", '{"wait": "20s"}', {"Content-Type": "application/json"})
        until(lambda: read(node)["sluice_waiters"][""] == 2, "another one")
        gone.close()
        until(lambda: read(node)["sluice_waits_hung_up_total"][""] == 1, "which hung up")
        families = settled(node)
        same(sorted(set(families) - moved(families) - set(STILL) - PERHAPS), [], "did not move")
        same(sorted(moved(families) & set(STILL)), [], "moved, though nothing should have made them")
        states = {re.search(r'state="(\w+)"', labels)[1] for labels, value in families["sluice_queue_messages"].items()
                  if value > 0}
        same(states, {"ready", "delayed", "locked"}, "the states that are held")
        holds(families["sluice_store_request_duration_seconds"]['call="append"'] > 10, "commits are measured")
        for queue, sent in families["sluice_queue_sent_total"].items():
            held = sum(value for labels, value in families["sluice_queue_messages"].items() if labels.startswith(queue + ","))
            gone = sum(families[f"sluice_queue_{end}_total"][queue] for end in ENDS)
            same(held + gone, sent, f"the messages of {queue} add up")
        stream.close()
        all_queues.close()
        waiting.close()


def settled(node):
    """What is shown when the queues' numbers have caught up, and the node has freed the answers before."""
    ready = lambda f: f["sluice_http_answer_memory_bytes"][""] == 0 and \
        f["sluice_queue_dead_lettered_total"].get('queue="tasks"', 0) > 0 and \
        f["sluice_queue_oldest_message_age_seconds"].get('queue="kept"', 0) > 0
    return until(lambda: (lambda f: f if ready(f) else None)(read(node)), "the queues' numbers are fresh")


@case
def what_was_counted_stays_counted_when_its_queue_is_deleted(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks")
        for _ in range(5):
            node.does(201, "POST", "/tasks/messages", {"body": "x"})
        sluice.ok("send", "tasks", "directly", env={"SLUICE_STORE": sluice.store, "SLUICE_FORWARD": "off"})
        node.does(201, "POST", "/tasks/messages", {"body": "x"})
        before = read(node)
        node.does(204, "DELETE", "/tasks")
        after = read(node)
        for name in ("sluice_entry_ops", "sluice_entries_foreign_total"):
            holds(before[name][""] > 0, name)
            holds(after[name][""] >= before[name][""], f"{name} went back: {before[name]}, {after[name]}")
        node.does(201, "PUT", "/tasks")
        holds(read(node)["sluice_entry_ops"][""] >= after["sluice_entry_ops"][""], "nor by another queue")


@case
def refused_requests_are_counted(sluice):
    made = sluice.json("token", "new", "--scope", "read", "--queue", "*", "--name", "reader")
    reader = {"Authorization": "Bearer " + made["token"]}
    with Node(sluice, "--tokens", sluice.path("tokens", made["line"] + "\n"), "--set",
              "limits.requestsPerSecond=20") as node:
        same(node.raw("GET", "/v1/queues").status, 401)
        same(node.raw("PUT", "/v1/queues/tasks", headers=reader).status, 403)
        until(lambda: node.raw("GET", "/v1/node", headers=reader).status == 429, "too often")
        families = until(lambda: read(node, reader), "in a while again")
        for name in ("unauthenticated", "forbidden", "throttled"):
            holds(families[f"sluice_http_{name}_total"][""] > 0, name)


@case
def a_replay_is_no_lag(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks")
        node.does(201, "POST", "/tasks/messages", {"body": "old"})
        node.stream("/tasks/events").until("message-enqueued")
        families = read(node)
        same((families["sluice_events_written_total"][""], families["sluice_event_lag_seconds"][""]), (1, 0))


@case
def the_page_names_what_there_is(sluice):
    with open(os.environ["SERVE_DOC"], encoding="utf-8") as file:
        page = file.read()
    part = page[page.index("## Metrics"):]
    part = part[:part.index("\n## ", 4)]
    named = set()
    for word in re.findall(r"`((?:sluice|process)_[\w{},*]+)`", part):
        word = re.sub(r"\{[a-z]+(,[a-z]+)*\}$", lambda m: "" if not word.endswith("_total") else m[0], word)
        choice = re.search(r"\{([\w,]+)\}", word)
        named |= {word.replace(choice[0], one) for one in choice[1].split(",")} if choice else {word}
    with Node(sluice, "--bus", "nats://127.0.0.1:1") as node:  # no server is there
        node.does(201, "PUT", "/tasks")
        there = set(read(node))
        for name in named:
            holds(name in there or name.endswith("*") and any(n.startswith(name[:-1]) for n in there), f"no {name}")
        holds(len(named) > 15, f"{named}")


main()
