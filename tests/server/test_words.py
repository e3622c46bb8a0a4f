# SPDX-License-Identifier: Apache-2.0
"""What a node answers to a wrong request: the field, the value, and what would be right."""
import time

from harness import case, contains, main, same
from serving import Node, guarded


def refused(node, method, path, body, field, *says):
    problem = node.does(400, method, path, body)
    same(problem.get("field"), field, f"field of {problem}")
    contains(problem["detail"], *says)
    return problem


@case
def a_duration_as_a_string_has_a_unit(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/q", {})
        refused(node, "POST", "/q/messages", {"body": "x", "delay": "5"}, "delay",
                '"5" has no unit: write 5s, 5ms, or in JSON the number 5 for milliseconds')
        refused(node, "POST", "/q/messages", {"messages": [{"body": "x"}, {"body": "x", "delay": "7"}]},
                "messages[1].delay", '"7" has no unit')
        refused(node, "POST", "/q/receive", {"wait": "5"}, "wait", '"5" has no unit')
        problem = node.raw("POST", "/v1/queues/q/messages?delay=5", b"x", kind="text/plain").json
        same([problem["status"], problem["field"]], [400, "delay"])
        contains(problem["detail"], '"5" has no unit')
        refused(node, "POST", "/q/messages", {"body": "x", "delay": "soon"}, "delay", '"soon" is not a duration', '"30s"')
        for delay in (0, 5000, "0", "5s", "1.5s"):
            node.does(201, "POST", "/q/messages", {"body": "x", "delay": delay})


@case
def a_moment_is_a_number_or_a_time_with_its_zone(sluice):
    day = int(time.time()) // 86400 + 2
    due = day * 86_400_000
    date, before = (time.strftime("%Y-%m-%d", time.gmtime(d * 86400)) for d in (day, day - 1))
    with Node(sluice) as node:
        node.does(201, "PUT", "/q", {})
        for given in (due, f"{date}T00:00:00Z", f"{date}T02:00:00.000+02:00", f"{before} 23:30-00:30"):
            sent = node.does(201, "POST", "/q/messages", {"body": "x", "due": given})["id"]
            same(node.does(200, "GET", f"/q/messages/{sent}")["deadline"], due, str(given))
        for given in (str(due), f"{date}T00:00:00Z"):
            sent = node.raw("POST", f"/v1/queues/q/messages?due={given}", b"x", kind="text/plain").json["id"]
            same(node.does(200, "GET", f"/q/messages/{sent}")["deadline"], due, given)
        for given in ("tomorrow", date, f"{date}T00:00:00", "2030-02-30T00:00:00Z"):
            refused(node, "POST", "/q/messages", {"body": "x", "due": given}, "due", f'"{given}" is not milliseconds since 1970, or')
        refused(node, "POST", "/q/messages", {"body": "x", "due": True}, "due", "2027-01-31T12:00:00Z")


@case
def a_setting_as_a_string_has_a_unit(sluice):
    """A lock of 30 ms instead of 30 s runs every job many times."""
    with Node(sluice) as node:
        refused(node, "PUT", "/q", {"visibilityTimeout": "30"}, "visibilityTimeout",
                '"30" has no unit: write 30s, 30ms, or in JSON the number 30 for milliseconds')
        same(node.does(201, "PUT", "/q", {"visibilityTimeout": 30})["settings"]["visibilityTimeout"], "30ms")
        for value in ("45", "1.5"):
            refused(node, "PATCH", "/q", {"visibilityTimeout": value}, "visibilityTimeout", f'"{value}" has no unit')
        for key, value in (("initial", "5"), ("max", "60")):
            refused(node, "PATCH", "/q", {"failureStrategy": {"backoff": {key: value}}}, f"failureStrategy.backoff.{key}",
                    f'"{value}" has no unit')
        settings = node.does(200, "PATCH", "/q", {"visibilityTimeout": 300000, "dedupWindow": "0", "retention": "90s"})["settings"]
        same([settings[key] for key in ("visibilityTimeout", "dedupWindow", "retention")], ["5m", "0ms", "90s"])


@case
def a_title_is_the_code_in_words(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/mail", {})
        same(node.does(400, "POST", "/mail/receive", {"max": "many"})["title"], "invalid request")
        same(node.does(409, "PUT", "/mail", {"shards": 4})["title"], "conflict")
        same(node.does(404, "GET", "/orders")["title"], "not found")
        problem = node.raw("GET", "/v1/nothing").json
        same(problem["title"], "no such path")
        contains(problem["detail"], "/v1/nothing", "GET /openapi.json lists the paths")


@case
def a_mistyped_queue_is_told_the_right_one_if_the_token_may_read_it(sluice):
    node, keys = guarded(sluice, boss="scope=admin,read,work queue=*", other="scope=read queue=orders,maill")
    with node:
        node.does(201, "PUT", "/mail", {}, headers=keys["boss"])
        same(node.does(404, "GET", "/maill", headers=keys["boss"])["detail"], 'queue "maill" does not exist; did you mean mail?')
        contains(node.does(404, "POST", "/mial/receive", {}, headers=keys["boss"])["detail"], "did you mean mail?")
        same(node.does(404, "GET", "/maill", headers=keys["other"])["detail"], 'queue "maill" does not exist')


@case
def limits_are_told_in_units(sluice):
    with Node(sluice) as node:
        refused(node, "PUT", "/q", {"visibilityTimeout": "48h"}, "visibilityTimeout", "must be between 1ms and 24h")
        refused(node, "PUT", "/q", {"maxMessageBytes": "100MB"}, "maxMessageBytes", "must be between 1B and 64MiB")
        node.does(201, "PUT", "/q", {"maxMessageBytes": "64KiB"})
        refused(node, "POST", "/q/receive", {"visibility": "48h"}, "visibility", "must be between", "24h")
        problem = node.does(409, "PUT", "/q", {"maxMessageBytes": "64KiB", "visibilityTimeout": "99s"})
        contains(problem["detail"], "visibilityTimeout 30s instead of 99s")


@case
def a_body_that_is_too_large_is_told_the_limit(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/q", {"maxMessageBytes": "512KiB"})
        refused(node, "POST", "/q/messages", {"body": "x" * 600_000}, "body", "600000 bytes", "512KiB (maxMessageBytes)")
        node.does(201, "PUT", "/small", {"maxMessageBytes": "10B"})
        node.does(201, "POST", "/small/messages", {"body": "x"})
        refused(node, "POST", "/small/messages", {"body": "x" * 600}, "body", "600 bytes", "10B (maxMessageBytes)")


@case
def a_value_of_the_wrong_kind_is_named_with_its_place(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/q", {})
        refused(node, "POST", "/q/messages", {"body": "x", "headers": {"n": 7}}, "headers.n", "headers.n must be a string")
        refused(node, "POST", "/q/messages", {"body": "x", "priority": "high"}, "priority",
                "priority must be a whole number, not a string")
        refused(node, "POST", "/q/messages", {"body": "x", "priority": 70}, "priority", "between 0 and 9")


@case
def a_parameter_that_is_not_known_is_told_the_known_ones(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/q", {})
        refused(node, "GET", "/q/messages?limit=5", None, "limit", '"limit" is not a parameter', "state, after, max")
        refused(node, "GET", "/q/stats?limit=5", None, "limit", "it takes none")
        refused(node, "GET", "/q/events?limit=5", None, "limit", "from, type, message")


@case
def a_missing_queue_is_one_sentence_everywhere(sluice):
    with Node(sluice) as node:
        for method, path, body in (("GET", "/nope", None), ("GET", "/nope/stats", None), ("POST", "/nope/redrive", {}),
                                   ("POST", "/nope/messages", {"body": "x"}), ("POST", "/nope/receive", {})):
            problem = node.does(404, method, path, body)
            same((problem["field"], problem["detail"]), ("queue", 'queue "nope" does not exist'), path)
        node.does(201, "PUT", "/q", {})
        problem = node.does(404, "POST", "/q/redrive", {"to": "nope"})
        same((problem["field"], problem["detail"]), ("to", 'queue "nope" does not exist'))


@case
def creating_a_queue_twice_is_201_then_200(sluice):
    with Node(sluice) as node:
        node.does(201, "PUT", "/q", {"failureStrategy": {"mode": "hybrid", "deadLetterQueue": "d"}})
        node.does(200, "PUT", "/q", {"failureStrategy": {"mode": "hybrid", "deadLetterQueue": "d"}})
        node.does(200, "PUT", "/d", {})


main()
