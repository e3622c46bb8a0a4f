# SPDX-License-Identifier: Apache-2.0
"""Bodies that are JSON values: handed back as they were sent, on every surface that speaks JSON."""
import base64
import json
import os

from harness import case, contains, main, same
from schema import Schema
from serving import JSON, Node

with open(os.environ["OPENAPI"], "rb") as source:
    SCHEMA = Schema(json.load(source))

# As a client writes them, and as they come back: number by number, key by key.
VALUES = [
    ('{"b": 1.10, "a" : [1, {"x": [ ]}],\n "c":null}', '{"b":1.10,"a":[1,{"x":[]}],"c":null}'),
    ("[]", "[]"), ("{}", "{}"), ("true", "true"), ("false", "false"), ("null", "null"), ("0", "0"), ("-0.0", "-0.0"),
    ("9223372036854775807", "9223372036854775807"), ("-9223372036854775808", "-9223372036854775808"),
    ("0.30000000000000004", "0.30000000000000004"), ("1.10", "1.10"), ("2.0E+5", "2.0E+5"),
    ('["a b", "\\u0041\\n\\"", "\\ud83d\\ude00", "é"]', '["a b","\\u0041\\n\\"","\\ud83d\\ude00","é"]'),
]


def put(node, *settings):
    node.does(201, "PUT", "/tasks", *settings)


def send(node, text):
    return node.raw("POST", "/v1/queues/tasks/messages", text.encode(), JSON)


def raw_bodies(text):
    """What stands after each "body": of an answer, as text."""
    found, at = [], 0
    while (at := text.find('"body":', at)) >= 0:
        at += len('"body":')
        _, end = json.JSONDecoder().raw_decode(text[at:])
        found.append(text[at:at + end])
    return found


@case
def a_value_comes_back_as_it_was_written(sluice):
    with Node(sluice) as node:
        put(node)
        for written, _ in VALUES:
            same(send(node, '{"body": %s}' % written).status, 201, written)
        expected = [stored for _, stored in VALUES]
        peeked = node.raw("GET", "/v1/queues/tasks/messages?max=100")
        same(raw_bodies(peeked.body.decode()), expected)
        for message, (written, stored) in zip(json.loads(peeked.body)["messages"], VALUES):
            same(SCHEMA.check(message, {"$ref": "#/components/schemas/Message"}), [])
            same((message["contentType"], message["headers"]), (JSON, {}))
            shown = node.raw("GET", "/v1/queues/tasks/messages/" + message["id"])
            same(raw_bodies(shown.body.decode()), [stored])
        # The command line on the store and by way of the node.
        for store in (sluice.store, f"http://{node.address}"):
            lines = sluice.ok("peek", "tasks", "--json", "--max", "100", "--store", store).out.splitlines()
            same([raw_bodies(line)[0] for line in lines], expected)
        received = node.raw("POST", "/v1/queues/tasks/receive", {"max": 100})
        same(raw_bodies(received.body.decode()), expected)


@case
def values_of_a_batch_are_told_apart(sluice):
    with Node(sluice) as node:
        put(node)
        batch = ('{"messages": [{"group": "g", "body": "text"}, {"body": {"n" : 1}, "headers": {"mine": "1"}}, '
                 '{"bodyBase64": "/w==", "body": null}, {"b\\u006fdy": [1, 2]}, {"body": 7, "contentType": "text/x"}]}')
        same(send(node, batch).status, 200)
        got = node.does(200, "GET", "/tasks/messages")["messages"]
        same([m.get("body") for m in got], ["text", {"n": 1}, None, [1, 2], 7])
        same([m.get("bodyBase64") for m in got], [None, None, "/w==", None, None])
        same([m.get("contentType") for m in got], [None, JSON, None, JSON, "text/x"])
        same([m["headers"] for m in got], [{}, {"mine": "1"}, {}, {}, {}])


@case
def a_text_stays_a_text(sluice):
    with Node(sluice) as node:
        put(node)
        for type in ({}, {"contentType": JSON}):
            node.does(201, "POST", "/tasks/messages", {"body": '{"a": 1}'} | type)
        sluice.ok("send", "tasks", '{"a": 1}')
        same([m["body"] for m in node.does(200, "GET", "/tasks/messages")["messages"]], ['{"a": 1}'] * 3)


@case
def workers_of_every_kind_get_the_compact_text(sluice):
    with Node(sluice) as node:
        put(node)
        same(send(node, '{"body": {"a" : [1, 2]}}').status, 201)
        contains(sluice.ok("peek", "tasks").out, '{"a":[1,2]}')
        same(sluice.ok("work", "tasks", "--once", "--", "cat").out.strip(), '{"a":[1,2]}')


@case
def a_mark_without_a_value_is_not_believed(sluice):
    with Node(sluice) as node:
        put(node)
        for text in ("{broken", "", "1 2", "[1,]", "01", '"open', "[" * 200 + "]" * 200, "nul", '{"a"}', "\x01"):
            node.does(201, "POST", "/tasks/messages", {"body": text, "headers": {"sluice-body": "json"}})
            message = node.does(200, "POST", "/tasks/receive", {})["messages"][0]
            same(message["body"], text)


def forged(text):
    """A message whose sender made the mark of a JSON value itself."""
    return {"bodyBase64": base64.b64encode(text).decode(), "headers": {"sluice-body": "json"}}


# Bytes that are not JSON, or that a parser may refuse.
NOT_VALUES = [b'"\\\0"', b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\u0041"', b"1e999999", b"-1e400", b"9" * 400,
              b"9223372036854775808", b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'{"\\u0000":1}']


@case
def a_mark_on_bytes_that_a_parser_refuses_is_not_believed(sluice):
    with Node(sluice) as node:
        put(node)
        forged_messages = [forged(text) for text in NOT_VALUES]
        node.does(200, "POST", "/tasks/messages", {"messages": [{"body": "innocent"}] + forged_messages})
        got = node.does(200, "POST", "/tasks/receive", {"max": 100})["messages"]
        same([m["body"] for m in got], ["innocent"] + [text.decode() for text in NOT_VALUES])


@case
def a_value_with_a_forged_mark_stays_on_its_line(sluice):
    with Node(sluice) as node:
        put(node)
        text = b'[1,\n{"id":"forged"}\n,\r\t 2 ]\r\n'
        node.does(201, "POST", "/tasks/messages", forged(text))
        for store in (sluice.store, f"http://{node.address}"):
            out = sluice.ok("peek", "tasks", "--json", "--store", store).out
            same((out.count("\n"), out.count("\r"), raw_bodies(out)), (1, 0, ['[1,{"id":"forged"},2]']))
        received = node.raw("POST", "/v1/queues/tasks/receive", {})
        same(raw_bodies(received.body.decode()), ['[1,{"id":"forged"},2]'])


@case
def the_limit_counts_what_is_stored(sluice):
    with Node(sluice) as node:
        put(node, {"maxMessageBytes": 9})
        same(send(node, '{"body": [1,  2,\n\t 3, 4 ]}').status, 201)
        refused = send(node, '{"body": [1,2,3,4,5]}')
        same(refused.status, 400)
        contains(refused.body.decode(), "maxMessageBytes")


@case
def what_cannot_be_kept_exactly_is_refused(sluice):
    with Node(sluice) as node:
        put(node)
        for value, says in [("1e400", "overflow"), ("18446744073709551616", "integer"), ("NaN", "NaN"),
                            ('{"a": 1, "a": 2}', "duplicate")]:
            answer = send(node, '{"body": %s}' % value)
            same(answer.status, 400, value)
            contains(answer.body.decode(), says)
        same(node.does(200, "GET", "/tasks/stats")["sent"], 0)


if __name__ == "__main__":
    main()
