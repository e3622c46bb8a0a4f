# SPDX-License-Identifier: Apache-2.0
"""Workers that only wait: every node of a cluster shows them, to tokens that may read the queue."""
import time

from harness import case, contains, holds, main, same, until
from registering import Receive, join, made, workers
from serving import Node, guarded
from terminal import Terminal


def now():
    return time.time() * 1000


@case
def a_worker_that_waits_is_shown_with_its_name_since_when_and_where(sluice):
    with Node(sluice, "--node", "near") as node:
        node.does(201, "PUT", "/jobs")
        before = now()
        receive = Receive(node, "jobs", "w1")
        until(lambda: workers(node, "jobs"), "the worker is listed")
        row = workers(node, "jobs")["w1"]
        same((row["open"], row["capacity"], row["waiting"], row["node"]), (0, 0, 1, "near"))
        holds(before - 1000 <= row["since"] <= row["seenAt"] <= now() + 1000, row)
        same(node.does(200, "GET", "/jobs/stats")["waiting"], 1)
        until(lambda: [row["name"] for row in sluice.ok("workers", "jobs", "--json").lines()] == ["w1"],
              "a process on the store asks the node, once that owns the queue")
        receive.leave()
        until(lambda: not workers(node, "jobs"), "a worker that disconnects is gone at once")
        same(node.does(200, "GET", "/jobs/stats")["waiting"], 0)


@case
def a_worker_stays_present_from_receive_to_receive(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/jobs")
        node.does(200, "POST", "/jobs/receive", {"worker": "w1"})
        first = workers(node, "jobs")["w1"]
        same(first["waiting"], 0, "it does not wait now")
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        token = node.does(200, "POST", "/jobs/receive", {"worker": "w1"})["messages"][0]["token"]
        row = workers(node, "jobs")["w1"]
        same((row["open"], row["since"]), (1, first["since"]), "with a lock it is the same worker")
        node.does(200, "POST", "/jobs/ack", {"token": token})


@case
def a_receive_without_a_name_has_the_name_of_its_locks(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/jobs")
        Receive(node, "jobs", wait="20s")
        until(lambda: workers(node, "jobs"), "it is listed")
        name = next(iter(workers(node, "jobs")))
        same(node.does(200, "GET", "/jobs/workers")["waiting"], [{"name": "", "receives": 1}])
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        until(lambda: workers(node, "jobs")[name]["open"] == 1, "its lock has the same name")


@case
def every_node_shows_the_workers_of_all(sluice):
    with Node(sluice, "--node", "a") as a, Node(sluice, "--node", "b") as b:
        for queue, shards in (("one", 1), ("four", 4)):
            a.does(201, "PUT", f"/{queue}", {"shards": shards})
            a.does(201, "POST", f"/{queue}/messages", {"body": "x"})
            a.does(200, "POST", f"/{queue}/receive", {"worker": "first"})
        open_receives = [Receive(node, queue, f"{queue}-{name}")
                         for name, node in (("a", a), ("b", b)) for queue in ("one", "four")]
        for node in (a, b):
            for queue in ("one", "four"):
                until(lambda: {f"{queue}-a", f"{queue}-b"} <= set(workers(node, queue)), f"both workers of {queue}")
                rows = workers(node, queue)
                same([rows[f"{queue}-{name}"]["node"] for name in "ab"], ["a", "b"])
                same([rows[f"{queue}-{name}"]["waiting"] for name in "ab"], [1, 1], "none is counted twice")
                same(sorted(rows), sorted(["first", f"{queue}-a", f"{queue}-b"]))
        until(lambda: b.does(200, "GET", "/four/stats")["waiting"] == 3, "the statistics count them")
        listed = sluice.ok("workers", "one", "--json").lines()
        same([row["name"] for row in listed], ["first", "one-a", "one-b"], "from the store")
        same(a.does(200, "GET", "/one/workers")["missing"], [])
        b.process.kill()
        b.process.wait()
        # The member is listed until its lease ends.
        answer = a.does(200, "GET", "/one/workers")
        holds(answer["missing"] in ([], ["b"]), answer)
        del open_receives


@case
def a_name_that_no_queue_can_have_reaches_no_other_node(sluice):
    """The name becomes a part of the question to the other nodes."""
    with Node(sluice, "--node", "near") as near, Node(sluice, "--node", "far"):
        near.does(201, "PUT", "/jobs")
        until(lambda: len(near.raw("GET", "/v1/cluster").json["members"]) == 2, "both are members")
        for wrong in ("jobs%26all%3D0", "jobs%20HTTP%2F1.1", "jobs%0d%0aX%3A%20y", "..%2F..%2Fcluster", "%22"):
            problem = near.raw("GET", f"/v1/node/workers?all=1&queue={wrong}").json
            same([problem["status"], problem["code"], problem["field"]], [400, "INVALID", "queue"], wrong)
        same(near.raw("GET", "/v1/node/workers?all=1&queue=jobs").json["missing"], [])


@case
def a_token_sees_the_workers_of_the_queues_that_it_may_read(sluice):
    node, keys = guarded(sluice, boss="scope=admin queue=*", some="scope=read queue=jobs")
    with node:
        for queue in ("jobs", "secret"):
            node.does(201, "PUT", f"/{queue}", headers=keys["boss"])
        both = [Receive(node, queue, "w", keys["boss"]) for queue in ("jobs", "secret")]
        told = lambda key: [row["queue"] for row in node.raw("GET", "/v1/node/workers", headers=keys[key]).json["workers"]]
        until(lambda: sorted(told("boss")) == ["jobs", "secret"], "both wait")
        same(told("some"), ["jobs"])
        same(node.raw("GET", "/v1/node/workers").status, 401)
        same(node.does(403, "GET", "/secret/workers", headers=keys["some"])["reason"], "forbidden")
        del both


@case
def a_queue_with_messages_and_no_workers_is_told(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/jobs")
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        url = "http://" + node.address
        contains(sluice.ok("--store", url, "stats", "jobs").out, "no worker gets the ready messages")
        holds("no workers" not in sluice.ok("--store", url, "stats").out, "the table says so after a minute")
        contains(sluice.ok("--store", url, "workers").out, "queue jobs has 1 ready message and no workers")
        metric = lambda: node.raw("GET", "/metrics").body.decode()
        contains(metric(), 'sluice_queue_waiting_workers{queue="jobs"} 0')
        node.does(200, "POST", "/jobs/receive", {"worker": "w1"})
        until(lambda: 'sluice_queue_waiting_workers{queue="jobs"} 1' in metric(), "the worker is counted")
        holds("no workers" not in sluice.ok("--store", url, "stats", "jobs").out, "there is one now")


@case
def no_worker_is_missed_in_a_dead_letter_queue_and_in_a_paused_one(sluice):
    strategy = {"mode": "dead-letter", "deadLetterQueue": "jobs-dead"}
    with Node(sluice) as node:
        node.does(201, "PUT", "/jobs", {"failureStrategy": strategy})
        node.does(201, "PUT", "/held")
        node.does(201, "POST", "/held/messages", {"body": "x"})
        node.does(204, "POST", "/held/pause")
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        token = node.does(200, "POST", "/jobs/receive", {})["messages"][0]["token"]
        node.does(200, "POST", "/jobs/fail", {"token": token})
        letters = lambda: node.does(200, "GET", "/jobs-dead/stats")
        until(lambda: letters()["ready"] == 1, "the letter arrives")
        url = "http://" + node.address
        for store in (url, sluice.store):
            told = sluice.ok("--store", store, "workers").out
            holds("jobs-dead" not in told and "held" not in told, told)
            for queue, words in (("jobs-dead", "is a dead-letter queue, with 1 ready message"),
                                 ("held", "is paused, with 1 ready message")):
                holds("no workers" not in sluice.ok("--store", store, "stats", queue).out, queue)
                contains(sluice.ok("--store", store, "workers", queue).out, f"queue {queue} {words}")
        metric = lambda: node.raw("GET", "/metrics").body.decode()
        until(lambda: 'sluice_queue_messages{queue="jobs-dead",state="ready",dlq="true"} 1' in metric(), "it is marked")
        contains(metric(), 'sluice_queue_messages{queue="jobs",state="ready"} 0')
        contains(metric(), 'sluice_queue_oldest_message_age_seconds{queue="jobs-dead",dlq="true"}')
        contains(metric(), 'sluice_queue_paused{queue="held"} 1')
        contains(metric(), 'sluice_queue_paused{queue="jobs"} 0')
        same([letters()["takesDeadLetters"], node.does(200, "GET", "/jobs/stats")["takesDeadLetters"]], [True, False])


@case
def a_registered_worker_is_shown_and_expires_without_a_sign_of_life(sluice):
    made(sluice, "jobs")
    with Node(sluice) as node:
        join(node, "jobs", "w1", capacity=3, labels="kind=gpu,host=a", ttl="5s")
        row = workers(node, "jobs")["w1"]
        same((row["capacity"], row["labels"], row["mode"], row["ttlMs"]), (3, "host=a,kind=gpu", "running", 5000))
        same(node.does(200, "GET", "/jobs/stats")["workers"], 1)
        until(lambda: workers(node, "jobs").get("w1", {"capacity": 0})["capacity"] == 0, "it expires")


@case
def a_worker_counts_once_and_has_the_capacity_that_it_joined_with(sluice):
    made(sluice, "wide", "shards=4")
    with Node(sluice) as node:
        url = "http://" + node.address
        works = [sluice.start("--store", url, "work", "wide", "--worker", f"w{i}", "-c", str(i), "--", "true")
                 for i in (3, 5)]
        until(lambda: [workers(node, "wide").get(name, {"waiting": 0})["waiting"] > 0 for name in ("w3", "w5")] == [True] * 2,
              "both wait")
        shown = workers(node, "wide")
        same([shown[name]["capacity"] for name in ("w3", "w5")], [3, 5])
        same([row["capacity"] for row in sluice.ok("workers", "wide", "--json").lines()], [3, 5], "from the store")
        row = join(node, "wide", "w2", capacity=2)
        join(node, "wide", "w2", instance=row["instance"], beat=True)
        same(workers(node, "wide")["w2"]["capacity"], 2, "a beat changes nothing")
        node.raw("DELETE", f"/v1/queues/wide/workers?worker=w2&instance={row['instance']}")
        same(node.does(200, "GET", "/wide/stats")["workers"], 2)
        same(sluice.ok("stats", "wide", "--json").lines()[0]["workers"], 2)
        contains(node.raw("GET", "/metrics").body.decode(), 'sluice_queue_workers{queue="wide"} 2')
        for work in works:
            work.terminate()
            work.communicate(timeout=60)


@case
def a_receive_that_waits_keeps_the_registration(sluice):
    made(sluice, "jobs", "shards=2")
    with Node(sluice) as node:
        row = join(node, "jobs", "w1", ttl="5s")
        receive = Receive(node, "jobs", "w1", {"Sluice-Worker": f"{row['instance']} w1"})
        end = time.monotonic() + 9  # longer than its ttl
        while time.monotonic() < end:
            holds(workers(node, "jobs")["w1"]["capacity"] > 0, "it is still registered")
            time.sleep(0.5)
        receive.leave()


@case
def done_and_failed_count_since_the_worker_joined(sluice):
    made(sluice, "jobs", "failureStrategy.maxRetries=0")
    with Node(sluice) as node:
        join(node, "jobs", "w1")
        for outcome in ("ack", "ack", "fail"):
            node.does(201, "POST", "/jobs/messages", {"body": "x"})
            token = node.does(200, "POST", "/jobs/receive", {"worker": "w1"})["messages"][0]["token"]
            node.does(200, "POST", f"/jobs/{outcome}", {"token": token})
        row = workers(node, "jobs")["w1"]
        same((row["done"], row["failed"], row["open"]), (2, 1, 0))


@case
def a_paused_worker_gets_nothing_and_keeps_what_it_has(sluice):
    made(sluice, "jobs")
    with Node(sluice) as node:
        join(node, "jobs", "w1")
        node.does(200, "POST", "/jobs/messages", {"messages": [{"body": "a"}, {"body": "b"}]})
        token = node.does(200, "POST", "/jobs/receive", {"worker": "w1"})["messages"][0]["token"]
        node.does(204, "POST", "/jobs/workers/pause", {"worker": "w1"})
        same(node.does(503, "POST", "/jobs/receive", {"worker": "w1"})["reason"], "worker-paused")
        node.does(200, "POST", "/jobs/ack", {"token": token})
        node.does(204, "POST", "/jobs/workers/resume", {"worker": "w1"})
        same(len(node.does(200, "POST", "/jobs/receive", {"worker": "w1"})["messages"]), 1)


@case
def a_receive_that_waits_learns_of_an_order_at_once(sluice):
    made(sluice, "jobs")
    made(sluice, "wide", "shards=3")
    with Node(sluice) as node:
        for queue in ("jobs", "wide"):
            for order, reason in (("pause", "worker-paused"), ("drain", "worker-draining"), ("evict", "worker-evicted")):
                join(node, queue, order)
                receive = Receive(node, queue, order, wait="20s")
                receive.thread.start()
                until(lambda: workers(node, queue)[order]["waiting"] == 1, "it waits")
                node.does(204, "POST", f"/{queue}/workers/{order}", {"worker": order})
                receive.thread.join(60)
                holds(receive.answer, f"{queue}: the receive ends with the order to {order}")
                contains(receive.answer.decode(), reason)


@case
def eviction_releases_the_locks_and_makes_the_tokens_invalid(sluice):
    made(sluice, "jobs")
    with Node(sluice) as node:
        join(node, "jobs", "w1")
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        token = node.does(200, "POST", "/jobs/receive", {"worker": "w1"})["messages"][0]["token"]
        node.does(204, "POST", "/jobs/workers/evict", {"worker": "w1"})
        holds(node.raw("POST", "/v1/queues/jobs/ack", {"token": token}).status in (409, 410), "the token is invalid")
        same(node.does(410, "POST", "/jobs/receive", {"worker": "w1"})["reason"], "worker-evicted")
        message = node.does(200, "POST", "/jobs/receive", {"worker": "w2"})["messages"][0]
        same(message["attempt"], 1, "no attempt was counted")


@case
def sluice_work_registers_through_a_node_and_ends_when_it_is_drained(sluice):
    made(sluice, "jobs")
    with Node(sluice) as node:
        url = "http://" + node.address
        sluice.ok("--store", url, "send", "jobs", "x")
        work = sluice.start("--store", url, "work", "jobs", "--worker", "w1", "-c", "2", "--labels", "kind=gpu", "--",
                            "sleep", "1")
        until(lambda: workers(node, "jobs").get("w1", {"open": 0})["open"] == 1, "it works")
        row = workers(node, "jobs")["w1"]
        same((row["capacity"], row["labels"]), (2, "kind=gpu"))
        sluice.refused(4, "--store", url, "work", "jobs", "--worker", "w1", "--register", "--", "true",
                       says=["w1", "another process"])
        sluice.ok("--store", url, "worker", "drain", "jobs", "w1")
        _, said = work.communicate(timeout=60)
        same(work.returncode, 0)
        contains(said.decode() if isinstance(said, bytes) else said, "drains worker w1", "processed")
        same(node.does(200, "GET", "/jobs/stats")["processed"], 1, "it finished what it had")
        holds("mode" not in workers(node, "jobs").get("w1", {}), "it left")


@case
def the_live_screen_follows_the_orders_of_an_operator(sluice):
    made(sluice, "jobs")
    with Node(sluice) as node:
        join(node, "jobs", "w1", capacity=7, labels="kind=gpu")
        url = "http://" + node.address
        terminal = Terminal(sluice, "--store", url, "workers", "jobs", "--watch", "--interval", "100ms", columns=140)
        terminal.wait_for_screen("w1", "7", "kind=gpu")
        for order, state in (("pause", "paused"), ("resume", "registered"), ("drain", "draining"), ("evict", "evicted")):
            more = ["--yes"] if order == "evict" else []
            sluice.ok("--store", url, "worker", order, "jobs", "w1", *more)
            terminal.wait_for_screen("w1", state)
        terminal.type("q")
        same(terminal.end(), (0, True), "status and terminal")


@case
def the_owner_grants_tickets_in_turn_where_the_queue_says_so(sluice):
    made(sluice, "jobs", "dispatch=tickets")
    with Node(sluice) as node:
        names = [f"w{i}" for i in range(4)]
        for name in names:
            join(node, "jobs", name, capacity=2)
        node.does(200, "POST", "/jobs/messages", {"messages": [{"body": str(i)} for i in range(8)]})
        open_of = lambda: [workers(node, "jobs")[name]["open"] for name in names]
        until(lambda: open_of() == [2, 2, 2, 2], "each has two, whatever its name")
        got = node.does(200, "POST", "/jobs/receive", {"worker": "w3", "max": 5})["messages"]
        holds(len(got) >= 2 and all(message.get("order", 0) > 0 for message in got[:2]), "its tickets come first")


@case
def a_receive_that_waits_is_served_before_tickets(sluice):
    made(sluice, "jobs", "dispatch=tickets")
    with Node(sluice) as node:
        join(node, "jobs", "idle", capacity=5)
        receive = Receive(node, "jobs", "waits")
        receive.thread.start()
        until(lambda: workers(node, "jobs").get("waits", {"waiting": 0})["waiting"] == 1, "it waits")
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        receive.thread.join(20)
        contains(receive.answer.decode(), '"order"' if False else '"body":"x"')
        same(workers(node, "jobs")["idle"]["open"], 0)


@case
def peek_and_show_name_the_labels_that_a_message_requires(sluice):
    made(sluice, "jobs")
    sluice.ok("send", "jobs", "x", "--requires", "kind=gpu,host=a")
    sluice.ok("send", "jobs", "y")
    with Node(sluice) as node:
        for at in ((), ("--store", "http://" + node.address)):
            rows = sluice.ok(*at, "peek", "jobs", "--json").lines()
            same([row.get("requires") for row in rows], ["host=a,kind=gpu", None])
            contains(sluice.ok(*at, "show", "jobs", rows[0]["id"]).out, "requires", "host=a,kind=gpu")
            same(sluice.ok(*at, "show", "jobs", rows[0]["id"], "--json").lines()[0]["requires"], "host=a,kind=gpu")
        shown = node.does(200, "GET", "/jobs/messages/" + rows[0]["id"])
        same(shown["requires"], "host=a,kind=gpu")
        join(node, "jobs", "w1", labels="host=a,kind=gpu")
        message = node.does(200, "POST", "/jobs/receive", {"worker": "w1"})["messages"][0]
        holds("requires" not in message, "the worker has the labels")
        node.does(200, "POST", "/jobs/ack", {"token": message["token"]})
        for at in ((), ("--store", "http://" + node.address)):
            holds("requires" not in sluice.ok(*at, "show", "jobs", rows[0]["id"]).out, "it is finished")


@case
def labels_and_settings_that_are_none_are_refused_with_a_sentence(sluice):
    made(sluice, "jobs")
    sluice.refused(2, "queue", "set", "jobs", "dispatch=maybe", says=["maybe", "auto, tickets, affinity"])
    sluice.refused(2, "send", "jobs", "x", "--requires", "Kind=gpu", says=["Kind=gpu", "a-z"])
    sluice.refused(2, "work", "jobs", "--capacity", "0", "--", "true", says=["capacity", "1"])
    sluice.refused(2, "work", "jobs", "--capacity", "10001", "--", "true", says=["capacity", "10000"])
    sluice.refused(2, "work", "jobs", "--ttl", "1s", "--", "true", says=["ttl", "5s"])
    sluice.refused(2, "work", "jobs", "--labels", "gpu", "--", "true", says=["gpu", "key=value"])


main()
