# SPDX-License-Identifier: Apache-2.0
"""What a request does to queues other than its own, and what a token for its own is good for then.

    redrive with `to`                   sends there                               send there
    redrive without                     sends to where each letter died           send there; other letters stay
    PUT, PATCH with a deadLetterQueue   makes it, and dead letters are sent there admin there
    DELETE of a dead-letter queue       is refused while another uses it          named to a token that may read all
    lists                               tell of every queue                       read: the others are left out
    /metrics                            tells of every queue                      read of all
"""
import threading

from harness import case, contains, holds, main, same, until
from serving import Node, guarded


def letter(node, boss, queue, letters):
    """A message that died in the queue and arrived among its letters."""
    strategy = {"mode": "hybrid", "maxRetries": 0, "deadLetterQueue": letters}
    node.raw("PUT", f"/v1/queues/{queue}", {"failureStrategy": strategy}, headers=boss)
    before = node.does(200, "GET", f"/{queue}/stats", headers=boss)["moved"]
    node.does(201, "POST", f"/{queue}/messages", {"body": queue}, boss)
    token = node.does(200, "POST", f"/{queue}/receive", {}, boss)["messages"][0]["token"]
    node.does(200, "POST", f"/{queue}/fail", {"token": token}, boss)
    until(lambda: node.does(200, "GET", f"/{queue}/stats", headers=boss)["moved"] > before, "the letter arrives")


@case
def a_redrive_goes_only_where_the_token_may_send(sluice):
    node, keys = guarded(sluice, boss="scope=admin queue=*", one="scope=admin queue=jobs-dlq",
                         both="scope=admin queue=jobs-dlq scope=send queue=jobs")
    with node:
        boss = keys["boss"]
        for queue in ("jobs", "secret"):
            letter(node, boss, queue, "jobs-dlq")
        sent = lambda queue: node.does(200, "GET", f"/{queue}/stats", headers=boss)["sent"]
        problem = node.does(403, "POST", "/jobs-dlq/redrive", {}, keys["one"])
        contains(problem["detail"], "token one", "scope send", "queue jobs")
        same(problem["reason"], "forbidden")
        same((sent("jobs"), sent("secret")), (1, 1), "nothing was sent")
        # One of the two may go; the other stays for a token that may.
        problem = node.does(403, "POST", "/jobs-dlq/redrive", {}, keys["both"])
        contains(problem["detail"], "queue secret", "redriven: 1")
        same((sent("jobs"), sent("secret")), (2, 1))
        same(node.does(403, "POST", "/jobs-dlq/redrive", {"to": "secret"}, keys["both"])["reason"], "forbidden")
        left = node.does(200, "GET", "/jobs-dlq/messages", headers=boss)["messages"][0]["id"]
        rows = node.does(200, "POST", "/jobs-dlq/redrive", {"ids": [left]}, keys["both"])
        same((rows["redriven"], rows["outcomes"][0]["code"], rows["error"]["reason"]), (0, "DENIED", "forbidden"))
        same(node.does(200, "GET", "/jobs-dlq/stats", headers=boss)["ready"], 1)
        same(node.does(200, "POST", "/jobs-dlq/redrive", {"to": "jobs"}, keys["both"])["redriven"], 1)
        holds("sluice_http_forbidden_total 3" in node.raw("GET", "/metrics", headers=boss).body.decode(), "counted")


@case
def a_dead_letter_queue_is_named_by_a_token_that_may_create_it(sluice):
    node, keys = guarded(sluice, boss="scope=admin queue=*", some="scope=admin queue=mail-*",
                         sender="scope=admin queue=mail-* scope=send queue=other")
    with node:
        node.does(201, "PUT", "/mail-out", headers=keys["some"])
        for settings in ({"failureStrategy": {"mode": "hybrid", "deadLetterQueue": "other"}},
                         {"failureStrategy.mode": "hybrid", "failureStrategy.deadLetterQueue": "other"},
                         {"failureStrategy": {"mode": "hybrid"}, "failureStrategy.deadLetterQueue": "other"}):
            for key in ("some", "sender"):
                contains(node.does(403, "PATCH", "/mail-out", settings, keys[key])["detail"], "admin", "other")
                contains(node.does(403, "PUT", "/mail-new", settings, keys[key])["detail"], "admin", "other")
        names = [q["name"] for q in node.does(200, "GET", "", headers=keys["boss"])["queues"]]
        same(names, ["mail-out"], "nothing was made on the way")
        node.does(201, "PUT", "/mail-new", {"failureStrategy": {"mode": "hybrid", "deadLetterQueue": "mail-dead"}},
                  keys["some"])


@case
def a_list_names_the_scopes_of_the_token_and_the_dead_letter_queues(sluice):
    node, keys = guarded(sluice, boss="scope=admin queue=*",
                         some="scope=read queue=* scope=send,work queue=jobs")
    with node:
        strategy = {"mode": "hybrid", "deadLetterQueue": "jobs-dead"}
        node.does(201, "PUT", "/jobs", {"failureStrategy": strategy}, keys["boss"])
        told = lambda key: node.does(200, "GET", "", headers=keys[key])
        row = lambda key, name: next(q for q in told(key)["queues"] if q["name"] == name)
        same(row("some", "jobs")["scopes"], ["read", "send", "work"])
        same(row("some", "jobs-dead")["scopes"], ["read"])
        same(told("some")["scopes"], ["read", "send", "work"], "for any queue")
        same(row("boss", "jobs-dead")["scopes"], ["read", "send", "work", "signal", "admin"])
        same(told("boss")["scopes"], ["read", "send", "work", "signal", "admin"])
        same(row("some", "jobs")["deadLetterQueue"], "jobs-dead")
        holds("deadLetterQueue" not in row("some", "jobs-dead"), "a queue without one names none")
    with Node(sluice) as open_node:
        same(open_node.does(200, "GET", "")["scopes"], ["read", "send", "work", "signal", "admin"], "without tokens")


@case
def receives_that_wait_are_listed_by_worker(sluice):
    with Node(sluice) as node:
        for queue in ("jobs", "other"):
            node.does(201, "PUT", f"/{queue}")
        asked = [("jobs", "w1"), ("jobs", "w1"), ("jobs", "w2"), ("other", "w3")]
        threads = [threading.Thread(target=node.does, args=(200, "POST", f"/{queue}/receive"),
                                    kwargs={"body": {"wait": "20s", "worker": worker}}, daemon=True)
                   for queue, worker in asked]
        for thread in threads:
            thread.start()
        waiting = lambda queue: node.does(200, "GET", f"/{queue}/workers")["waiting"]
        both = [{"name": "w1", "receives": 2}, {"name": "w2", "receives": 1}]
        until(lambda: waiting("jobs") == both, "three receives of jobs wait")
        until(lambda: waiting("other") == [{"name": "w3", "receives": 1}], "the other queue has its own")
        node.does(200, "POST", "/jobs/messages", {"messages": [{"body": "x"}] * 3})
        node.does(200, "POST", "/other/messages", {"messages": [{"body": "x"}]})
        for thread in threads:
            thread.join()
        same(waiting("jobs"), [], "after their answers")


@case
def the_longest_name_of_a_worker_is_listed_whole(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/jobs")
        name = "w" * 128
        thread = threading.Thread(target=node.does, args=(200, "POST", "/jobs/receive"),
                                  kwargs={"body": {"wait": "20s", "worker": name}}, daemon=True)
        thread.start()
        waiting = lambda: node.does(200, "GET", "/jobs/workers")["waiting"]
        until(waiting, "the receive waits")
        same(waiting(), [{"name": name, "receives": 1}])
        node.does(201, "POST", "/jobs/messages", {"body": "x"})
        thread.join()


@case
def a_queue_that_may_not_be_read_is_not_named(sluice):
    node, keys = guarded(sluice, boss="scope=admin queue=*", some="scope=admin queue=mail-*")
    with node:
        node.does(201, "PUT", "/secret", {"failureStrategy": {"mode": "hybrid", "deadLetterQueue": "mail-dead"}},
                  keys["boss"])
        problem = node.does(409, "DELETE", "/mail-dead", headers=keys["some"])
        holds("secret" not in problem["detail"], problem["detail"])
        contains(node.does(409, "DELETE", "/mail-dead", headers=keys["boss"])["detail"], "secret")
        same([q["name"] for q in node.does(200, "GET", "", headers=keys["some"])["queues"]], ["mail-dead"])
        same(node.raw("GET", "/metrics", headers=keys["some"]).status, 403)
        same(node.does(404, "GET", "/mail-none", headers=keys["some"])["reason"], "unknown-queue")
        same(node.does(403, "GET", "/secret", headers=keys["some"])["detail"],
             node.does(403, "GET", "/nothing", headers=keys["some"])["detail"].replace("nothing", "secret"))


main()
