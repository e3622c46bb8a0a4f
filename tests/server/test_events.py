# SPDX-License-Identifier: Apache-2.0
"""The stream of a queue that is deleted, and of the next one of its name; where a dead letter comes from."""
import socket

from harness import FENCED, case, contains, holds, main, measures_memory, same, until
from serving import Node


def life(place):
    """The queue's id in the id of an event."""
    return place.partition("-")[0]


def is_new(node, queue, body):
    return node.does(201, "POST", f"/{queue}/messages", {"body": body})["id"]


@case
def an_event_s_id_names_the_queue_s_life(sluice):
    with Node(sluice) as node:
        queue = node.does(201, "PUT", "/tasks")
        is_new(node, "tasks", "a")
        kind, event, place = node.stream("/tasks/events").next()
        same((kind, place), ("message-enqueued", f"{queue['id']}-{event['position']}.1"))
        holds(event["id"].startswith(f"{queue['id']}-0-{event['position']}-"), event["id"])


@case
def the_stream_of_a_queue_that_is_deleted_says_so_and_ends(sluice):
    for shards in (1, 3):
        with Node(sluice) as node:
            queue = node.does(201, "PUT", "/tasks", {"shards": shards})
            all_of_it = node.stream("/tasks/events")
            some = node.stream("/tasks/events?type=message-outcome&from=now")
            is_new(node, "tasks", "a")
            node.does(204, "DELETE", "/tasks")
            kinds = [kind for kind, _, _ in all_of_it.until("end")]
            same(sorted(kinds[:-1]), ["message-enqueued"] + shards * ["queue-deleted"])
            same(all_of_it.next(), None, "after the end")
            _, value, place = some.until("end")[-1]  # whatever is filtered
            same(value, {"queue": "tasks", "queueId": queue["id"], "reason": "queue-deleted"})
            same(life(place), queue["id"])
            same(some.next(), None, "after the end")


@case
def a_reader_that_resumes_in_a_new_queue_of_the_name_gets_the_gap_and_every_event(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks")
        for body in "abc":
            is_new(node, "tasks", body)
        seen = node.stream("/tasks/events?from=0").until("message-enqueued")[-1][2]
        node.does(204, "DELETE", "/tasks")
        same(node.raw("GET", "/v1/queues/tasks/events", headers={"Last-Event-ID": seen}).status, 404)
        queue = node.does(201, "PUT", "/tasks", {"shards": 2})
        first = is_new(node, "tasks", "new")
        for stream in (node.stream("/tasks/events", {"Last-Event-ID": seen}), node.stream(f"/tasks/events?from={seen}"),
                       node.stream("/tasks/events?type=message-enqueued", {"Last-Event-ID": seen})):
            kind, value, place = stream.next()
            same((kind, value), ("gap", {"queue": "tasks", "queueId": queue["id"], "reason": "another-life"}))
            same(life(place), queue["id"])
            kind, value, place = stream.next()
            same((kind, value["message"]), ("message-enqueued", first))
        second = is_new(node, "tasks", "newer")  # and from there as ever
        same(node.stream("/tasks/events", {"Last-Event-ID": place}).next()[1]["message"], second)
        for wrong in ("17.2", seen.replace("-", ""), queue["id"] + "-", queue["id"] + "-1.1", "x" * 32 + "-1.1"):
            same(node.raw("GET", f"/v1/queues/tasks/events?from={wrong}").status, 400, wrong)
        for wrong in ("zzz", f"{first}x", f"{first[:8]}-0"):
            answer = node.raw("GET", f"/v1/queues/tasks/events?message={wrong}")
            same((answer.status, answer.json["field"]), (400, "message"), wrong)


@case
def a_place_has_numbers_of_64_bits(sluice):
    with Node(sluice) as node:
        life_id = node.does(201, "PUT", "/tasks")["id"]
        most, over = 2**64 - 1, 2**64
        for place, status in ((most, 200), (over, 400), (10 * over, 400), (f"{life_id}-{most}.{most}", 200),
                              (f"{life_id}-{over}.1", 400), (f"{life_id}-1.{over}", 400), (f"{life_id}-1.", 400)):
            path = "/v1/queues/tasks/events"
            same(node.raw("HEAD", path, headers={"Last-Event-ID": str(place)}).status, status, place)
            same(node.raw("HEAD", f"{path}?from={place}").status, status, place)


@case
def streams_that_no_client_reads_cost_little(sluice):
    """However much there is to tell: what a client has not read is not read from the journal either."""
    def sample(node, name):
        text = node.raw("GET", "/metrics").body.decode()
        return sum(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))

    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks")
        for _ in range(20):
            node.does(200, "POST", "/tasks/messages", {"messages": [{"body": "x"}] * 5000})
        before = sample(node, "process_resident_memory_bytes")
        lines = [node.connect() for _ in range(8)]
        for line in lines:
            line.connect()
            line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.request("GET", "/v1/queues/tasks/events")
        until(lambda: sample(node, "sluice_events_written_total") >= 8 * 2000, "every stream is as full as it gets")
        grown = sample(node, "process_resident_memory_bytes") - before
        if measures_memory():
            holds(grown < 8 * 16 * 2**20, f"8 streams took {grown / 2**20:.0f} MiB")
        for line in lines:
            line.close()


@case
def a_stream_of_a_deleted_queue_ends(sluice):
    """The command line, on the store and over a node: the same lines, the same end."""
    with Node(sluice) as node:
        told = []
        for store in (sluice.store, f"http://{node.address}"):
            node.does(201, "PUT", "/tasks")
            is_new(node, "tasks", "a")
            follower = sluice.start("events", "tasks", "--follow", "--json", "--store", store)
            line = follower.stdout.readline()
            contains(line.decode(), "message-enqueued")
            node.does(204, "DELETE", "/tasks")
            node.does(201, "PUT", "/tasks")
            rest, why = follower.communicate(timeout=30)
            same(follower.returncode, FENCED, why.decode())
            contains(why.decode(), "tasks", "deleted")
            told.append([word for word in ("queue-deleted", "message-") if word in rest.decode()])
            node.does(204, "DELETE", "/tasks")
        same(told, [["queue-deleted"], ["queue-deleted"]])


@case
def a_dead_letter_says_where_it_comes_from(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks", {"failureStrategy": {"mode": "hybrid", "maxRetries": 0,
                                                             "deadLetterQueue": "letters"}})
        dead = is_new(node, "tasks", "a")
        token = node.does(200, "POST", "/tasks/receive", {"worker": "one"})["messages"][0]["token"]
        node.does(200, "POST", "/tasks/fail", {"token": token, "reason": "no such address"})
        arrived = until(lambda: node.does(200, "GET", "/letters/messages")["messages"], "the letter arrives")[0]
        died_at = arrived["from"].pop("diedAt")
        origin = {"queue": "tasks", "id": dead, "reason": "no such address", "retries": 0, "attempts": 1,
                  "worker": "one"}
        same(arrived["from"], origin)
        holds(died_at >= arrived["sentAt"] - 60_000, "it died about when it was sent")
        # Everywhere the same: the event, one message, a receive; the command line on the store and over the node.
        full = origin | {"diedAt": died_at}
        same(node.stream("/letters/events").next()[1]["from"], full)
        same(node.does(200, "GET", "/letters/messages/" + arrived["id"])["from"], full)
        for store in (sluice.store, f"http://{node.address}"):
            on = ("--store", store)
            same(sluice.ok("events", "letters", "--json", *on).lines()[0]["from"], full)
            same(sluice.ok("peek", "letters", "--json", *on).lines()[0]["from"], full)
            same(sluice.ok("show", "letters", arrived["id"], "--json", *on).lines()[0]["from"], full)
            message = sluice.ok("receive", "letters", "--json", *on).lines()[0]
            same(message["from"], full)
            sluice.ok("release", "letters", message["token"], *on)


@case
def a_redriven_message_names_the_one_it_continues(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/tasks", {"failureStrategy": {"mode": "retry", "maxRetries": 0}})
        dead = is_new(node, "tasks", "a")
        token = node.does(200, "POST", "/tasks/receive", {})["messages"][0]["token"]
        node.does(200, "POST", "/tasks/fail", {"token": token})
        same(node.does(200, "POST", "/tasks/redrive", {})["redriven"], 1)
        stream = node.stream("/tasks/events?type=message-enqueued")
        sent, again = stream.next()[1], stream.next()[1]
        holds("from" not in sent, "the first one continues nothing")
        same(again["from"], {"queue": "tasks", "id": dead})


@case
def a_sender_cannot_forge_the_origin_of_a_message(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/letters")
        node.does(201, "PUT", "/tasks")
        node.does(201, "POST", "/letters/messages", {"body": "x", "headers": {"sluice-dead-queue": "tasks"}})
        holds("from" not in node.does(200, "GET", "/letters/messages")["messages"][0], "it is no dead letter")
        same(node.does(200, "POST", "/letters/redrive", {})["redriven"], 0)
        same(node.does(200, "GET", "/tasks/stats")["sent"], 0)


main()
