# SPDX-License-Identifier: Apache-2.0
"""api/openapi.json and the node say the same: every route, every example, every answer.

Each answer that any case gets is held against the file. SLUICE is the program, CALLS prints the
table of calls, OPENAPI and HTTP_DOC name the files.
"""
import json
import os
import re
import resource
import signal
import subprocess

import serving
from harness import PATIENCE, case, holds, main, same, until
from schema import Schema
from serving import JSON

with open(os.environ["OPENAPI"], "rb") as source:
    TEXT = source.read()
DOCUMENT = json.loads(TEXT)
SCHEMA = Schema(DOCUMENT)
WIRE = "application/x-sluice"
ID = DOCUMENT["components"]["schemas"]["MessageId"]["examples"][0]
TOKEN = DOCUMENT["components"]["schemas"]["LockToken"]["examples"][0]
SEEN = set()  # (operation id, status)
HEADERS = set()  # (operation id, header)
OF_HTTP = {"Date", "Connection", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding",
           "X-Content-Type-Options"}  # the last is on every answer
# What the file promises of every operation and a few show: the store's own trouble, always the same problem.
TROUBLE = {"500", "503", "504"}
UNASKED = {("upgradeQueue", "409"),  # a program of the release before: tests/cli/test_upgrade.py
           ("sendMessages", "409"),  # a body whose upload took more than an hour
           ("leaveCluster", "204")}  # the node ends: tests/cli/test_cluster.py


class Operation:
    def __init__(self, path, method, item):
        self.path, self.method, self.item = path, method.upper(), item[method]
        self.name = self.item["operationId"]
        self.parameters = [SCHEMA.resolve(p) for p in item.get("parameters", []) + self.item.get("parameters", [])]
        self.media = self.item.get("requestBody", {}).get("content", {})
        self.scope = self.item.get("x-sluice-scope")

    def example_path(self, **names):
        path = self.path
        for p in self.parameters:
            if p["in"] == "path":
                path = path.replace("{" + p["name"] + "}", names.get(p["name"], p["example"]))
        return path

    def bodies(self):
        """The objects that the request may be, as schemas."""
        schema = SCHEMA.resolve(self.media.get(JSON, {}).get("schema", {}))
        return [SCHEMA.resolve(one) for one in schema.get("oneOf", [schema])] if schema else []

    def first_example(self):
        return next(iter(self.examples()), None)

    def examples(self):
        return [one["value"] for one in self.media.get(JSON, {}).get("examples", {}).values()]


OPERATIONS = {}
for where, things in DOCUMENT["paths"].items():
    for verb in things:
        if verb != "parameters":
            one = Operation(where, verb, things)
            OPERATIONS[one.name] = one


def fits(operation, answer):
    """Holds an answer against what the file says of it."""
    responses = operation.item["responses"]
    holds(str(answer.status) in responses, f"{operation.name}: the file does not know {answer}")
    response = SCHEMA.resolve(responses[str(answer.status)])
    SEEN.add((operation.name, str(answer.status)))
    known = {name: SCHEMA.resolve(header) for name, header in response.get("headers", {}).items()}
    same(sorted(set(answer.headers) - set(known) - OF_HTTP), [], f"headers of {operation.name} {answer.status}")
    for name, header in known.items():
        holds(not header.get("required") or name in answer.headers, f"{operation.name}: no {name} in {answer}")
        if name in answer.headers:
            HEADERS.add((operation.name, name))
            same(SCHEMA.check(answer.headers[name], header["schema"]), [], f"{name} of {operation.name}")
    content = response.get("content", {})
    if not content:
        return same(answer.body, b"", f"{operation.name}: a body")
    media = content.get(answer.type) or content.get("*/*")
    holds(media is not None, f"{operation.name}: the file does not know {answer.type} of {answer}")
    if answer.json is not None:
        same(SCHEMA.check(answer.json, media["schema"]), [], f"{operation.name} {answer}")
    if answer.status >= 400:
        same(answer.json["status"], answer.status, f"{operation.name}: the problem's own status")


class Node(serving.Node):
    """What it answers is held against the file."""

    def ask(self, what, status, body=None, query="", kind=None, headers=None, **names):
        """One exchange; the answer has this status and is what the file says."""
        operation = OPERATIONS[what]
        answer = self.raw(operation.method, operation.example_path(**names) + query, body, kind, headers)
        fits(operation, answer)
        same(answer.status, status, f"{what} {body!r} {query}: {answer}")
        return answer.json

    def lock(self, queue="tasks"):
        """A fresh message, and the token of its lock."""
        self.ask("sendMessages", 201, {"body": "hello"}, queue=queue)
        message = self.ask("receiveMessages", 200, {"wait": "5s"}, queue=queue)["messages"][0]
        return message["id"], message["token"]


def refused(node, name, field, *arguments, **more):
    problem = node.ask(name, 400, *arguments, **more)
    same((problem["code"], problem.get("field")), ("INVALID", field), f"{name} {arguments} {more}: {problem}")


# ---- the file itself

@case
def every_route_is_in_the_file_and_every_operation_is_routed(_):
    table = json.loads(subprocess.run([os.environ["CALLS"]], stdout=subprocess.PIPE, check=True).stdout)["calls"]
    same(sorted(f"{o.method} {o.path} {o.scope or 'none'}" for o in OPERATIONS.values()),
         sorted(f"{c['method']} {c['path']} {c['scope']}" for c in table), "routes")


def walk(node, at=()):
    yield node, at
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from walk(child, (*at, key))


@case
def the_file_is_whole(_):
    same(DOCUMENT["openapi"], "3.1.0")
    names = [item["operationId"] for path in DOCUMENT["paths"].values()
             for verb, item in path.items() if verb != "parameters"]
    same(len(names), len(set(names)), "operation ids")
    for node, at in walk(DOCUMENT):
        if isinstance(node, dict) and "$ref" in node:
            SCHEMA.resolve(node)
        if isinstance(node, dict) and at and at[-1] in ("schema", "x-sluice-data"):
            SCHEMA.check(None, node)  # every keyword is one that is checked
    used = {node["$ref"] for node, _ in walk(DOCUMENT) if isinstance(node, dict) and "$ref" in node}
    for kind in ("schemas", "parameters", "responses", "headers"):
        for name in DOCUMENT["components"][kind]:
            holds(f"#/components/{kind}/{name}" in used, f"nothing needs {kind}/{name}")
    for operation in OPERATIONS.values():
        named = [p["name"] for p in operation.parameters if p["in"] == "path"]
        same(sorted(named), sorted(re.findall(r"\{(\w+)\}", operation.path)), f"names in the path of {operation.name}")
        same(operation.item["security"], [{"bearer": []}] if operation.scope else [], f"security of {operation.name}")


@case
def examples_fit_their_schemas(_):
    count = 0
    for node, at in walk(DOCUMENT["paths"]):
        if not isinstance(node, dict) or "schema" not in node:
            continue
        values = [node["example"]] if "example" in node else []
        values += [one["value"] for one in node.get("examples", {}).values()]
        for value in values:
            same(SCHEMA.check(value, node["schema"]), [], f"the example of {at}")
            count += 1
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for value in schema.get("examples", []):
            same(SCHEMA.check(value, schema), [], f"the example of {name}")
    holds(count > 30, f"{count} examples")


@case
def the_node_hands_the_file_out_as_it_is(sluice):
    with Node(sluice) as node:
        answer = node.raw("GET", "/openapi.json")
        same((answer.status, answer.type, answer.body), (200, JSON, TEXT))
        fits(OPERATIONS["openapi"], answer)


# ---- what works

ENDS = ("leaveCluster",)  # the node ends: tests/cli/test_cluster.py
# A worker must be registered first, in a queue of version 4: workers_are_what_the_file_says
WORKERS = ("joinWorker", "leaveWorker", "pauseWorker", "resumeWorker", "drainWorker", "evictWorker")
# A queue of version 6, and messages in a certain state: acting_on_messages_is_what_the_file_says
ACTING = ("receiveSignals", "waitForSignal", "collectMessages", "cancelMessages", "cancelMessage", "sendSignal", "signalMessage", "signalWorkflow", "signalWorker",
          "listSignals", "listMessageSignals", "listWorkflowSignals", "listWorkerSignals", "withdrawSignal",
          "withdrawMessageSignal", "ackSignals")
WORKFLOWS = ("showWorkflow",)  # it must exist first: tests/cli/test_workflow.py
ORDERS = ("drainNode", "undrainNode", "leaveCluster", "hintUsed")  # of operators and of other nodes


def with_real_names(value, message, token):
    return json.loads(json.dumps(value).replace(TOKEN, token).replace(ID, message))


@case
def each_example_request_works(sluice):
    with Node(sluice) as node:
        for operation in OPERATIONS.values():
            if operation.name in ENDS + WORKERS + WORKFLOWS + ACTING:
                continue
            for number, example in enumerate(operation.examples() or [None]):
                queue = f"{operation.name}-{number}"
                names = {"queue": queue} if "{queue}" in operation.path else {}
                if names and operation.name != "createQueue":
                    node.ask("createQueue", 201, {}, queue=queue)
                    node.raw("PUT", "/v1/queues/mail", {})
                    message, token = node.lock(queue)
                    names["id"] = message
                    example = with_real_names(example, message, token)
                answer = node.raw(operation.method, operation.example_path(**names), example)
                holds(answer.status < 300, f"example {number} of {operation.name}: {answer}")
                fits(operation, answer)


@case
def answers_about_messages_are_what_the_file_says(sluice):
    with Node(sluice) as node:
        node.ask("createQueue", 201, {"failureStrategy": {"mode": "retry", "maxRetries": 0}})
        node.ask("createQueue", 200, {"failureStrategy.maxRetries": 0})
        text = {"body": "text", "dedup": "a", "workflow": "w"}
        for body in (text, {"bodyBase64": "/wA="}, {"body": "", "delay": "1h"}):
            node.ask("sendMessages", 201, body)
        same(node.ask("sendMessages", 201, {"body": "again", "dedup": "a"})["duplicate"], True)
        node.ask("sendMessages", 201, b"\xff\x00bytes", kind="image/png", headers={"Sluice-Header-Trace": "7"},
                 query="?group=g&priority=3&delay=0&due=0&dedup=k&workflow=w")
        for state in ("ready", "delayed", "locked", "dead", "outbound"):
            node.ask("peekMessages", 200, query=f"?state={state}&max=100")
        locked = node.ask("receiveMessages", 200, {"max": 10, "worker": "pod"})["messages"]
        same([m.get("bodyBase64") for m in locked], ["/wBieXRlcw==", None, "/wA="])
        same((locked[0]["contentType"], locked[0]["group"], locked[0]["priority"]), ("image/png", "g", 3))
        tokens = [m["token"] for m in locked]
        node.ask("renewLocks", 200, {"tokens": tokens, "visibility": "1m"})
        node.ask("failMessages", 200, {"token": tokens[0], "reason": "no"})
        node.ask("ackMessages", 200, {"tokens": tokens})
        for message in locked:
            node.ask("showMessage", 200, id=message["id"])
        dead = node.ask("peekMessages", 200, query="?state=dead")["messages"]
        found = node.ask("peekMessages", 200, query="?state=dead&header=Trace=7&contains=bytes&before=9999999999999&bytes=9")
        same([m["id"] for m in found["messages"]], [m["id"] for m in dead])
        same([found["messagesRead"], "next" in found], [1, True])
        same(node.ask("peekMessages", 200, query="?state=dead&header=Trace=8")["messages"], [])
        same(node.ask("peekMessages", 200, query=f"?id={dead[0]['id']}")["messages"][0]["state"], "dead")
        node.ask("peekMessages", 200, query="?state=dead&max=1", headers={"Accept": WIRE})
        node.ask("peekMessages", 400, query="?header=Trace")
        node.ask("peekMessages", 400, query="?" + "header=a=b&" * 17 + "max=1")
        node.ask("redrive", 400, {"ids": []})
        node.ask("redrive", 400, {"ids": [dead[0]["id"]], "max": 1})
        rows = node.ask("redrive", 200, {"ids": [dead[0]["id"], locked[1]["id"]]})
        same([(row["code"], row.get("status")) for row in rows["outcomes"]], [("OK", "redriven"), ("CONFLICT", None)])
        same((rows["redriven"], rows["error"]["reason"]), (1, "not-dead"))
        again = node.ask("receiveMessages", 200, {})["messages"][0]["token"]
        node.ask("failMessages", 200, {"token": again})
        node.ask("queueStats", 200)
        node.ask("listWorkers", 200)
        node.ask("listQueues", 200, query="?stats=1")
        node.ask("listQueues", 200, query="?names=true&stats=0")
        same(node.ask("redrive", 200, {"max": 1, "to": None})["redriven"], 1)
        same(node.ask("purgeQueue", 200, {"dead": True})["purged"], 0)
        sent = node.ask("sendMessages", 200, {"messages": [{"body": "a"}, {"body": "x" * (1 << 20 | 1)}]})["sent"]
        same([one["code"] for one in sent], ["OK", "INVALID"])


@case
def workflows_are_what_the_file_says(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        node.ask("sendMessages", 201, {"body": "x", "workflow": "order-7"})
        same([row["id"] for row in node.ask("listWorkflows", 200)["workflows"]], ["order-7"])
        same(node.ask("showWorkflow", 200, workflow="order-7")["open"], 1)


@case
def workers_are_what_the_file_says(sluice):
    with Node(sluice) as node:
        node.ask("createQueue", 201, {"dispatch": "tickets"})
        me = {"worker": "pod-1", "capacity": 4, "labels": "kind=gpu,host=a7", "ttl": "60s"}
        joined = node.ask("joinWorker", 200, me)
        mine = {"worker": "pod-1", "instance": joined["instance"]}
        node.ask("joinWorker", 200, me | mine)
        node.ask("joinWorker", 200, mine | {"beat": True})
        node.ask("joinWorker", 404, mine | {"worker": "pod-2", "beat": True})
        same(node.ask("joinWorker", 409, me)["reason"], "worker-name-taken")
        for field, value in (("capacity", 0), ("capacity", 10001), ("ttl", "1s"), ("ttl", "25h"), ("labels", "A=b"),
                             ("labels", "a"), ("worker", ""), ("worker", "x" * 129), ("instance", "xyz")):
            refused(node, "joinWorker", field, me | {field: value})
        row = node.ask("listWorkers", 200)["workers"][0]
        same((row["capacity"], row["labels"], row["mode"]), (4, "host=a7,kind=gpu", "running"))
        for order, mode in (("pauseWorker", "paused"), ("resumeWorker", "running"), ("drainWorker", "draining")):
            node.ask(order, 204, {"worker": "pod-1"})
            same(node.ask("listWorkers", 200)["workers"][0]["mode"], mode)
        node.ask("evictWorker", 204, {"worker": "pod-1"})
        same(node.ask("joinWorker", 410, me | mine)["reason"], "worker-evicted")
        other = node.ask("joinWorker", 200, me | {"worker": "pod-3"})
        node.ask("leaveWorker", 204, query=f"?worker=pod-3&instance={other['instance']}")
        node.ask("leaveWorker", 204, query=f"?worker=pod-3&instance={other['instance']}")
        refused(node, "leaveWorker", "instance", query="?worker=pod-3")
        for name in WORKERS[2:]:
            same(node.ask(name, 404, {"worker": "unknown"})["reason"], "unknown-worker")
            refused(node, name, "worker", {})
            node.ask(name, 404, {"worker": "pod-1"}, queue="nowhere")
        node.ask("joinWorker", 404, me, queue="nowhere")
        node.ask("leaveWorker", 404, query="?worker=a&instance=7a83757786631f37", queue="nowhere")
        refused(node, "sendMessages", "requires", {"body": "x", "requires": "no label"})


@case
def acting_on_messages_is_what_the_file_says(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        one = node.ask("sendMessages", 201, {"body": "a"})["id"]
        same(node.ask("cancelMessage", 200, id=one, query="?reason=late")["status"], "cancelled")
        same(node.ask("cancelMessage", 409, id=one)["reason"], "terminal")
        held, _ = node.lock()
        two = node.ask("sendMessages", 201, {"body": "b"})["id"]
        again = {"Sluice-Request": "00112233445566778899aabbccddeeff"}
        for _ in range(2):  # with the same request id it is done once
            rows = node.ask("cancelMessages", 200, {"ids": [two, held], "reason": "late"}, headers=again)
            same([(row["code"], row.get("status")) for row in rows["outcomes"]],
                 [("OK", "cancelled"), ("CONFLICT", None)])
            same((rows["cancelled"], rows["error"]["reason"]), (1, "locked"))
        holds(f"sluice signal tasks {held} interrupt" in rows["error"]["detail"], rows)
        refused(node, "cancelMessages", "ids", {"ids": []})
        refused(node, "cancelMessages", "reason", {"ids": [two], "reason": "x" * 4097})
        same(node.ask("queueStats", 200)["cancelled"], 2)


@case
def signals_are_what_the_file_says(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        stop = {"kind": "interrupt"}
        node.ask("sendMessages", 201, {"body": "a", "workflow": "order-7"})
        held = node.ask("receiveMessages", 200, {"worker": "pod-1"})["messages"][0]
        one, token = held["id"], held["token"]
        sent = node.ask("signalMessage", 200, {"kind": "steer", "payload": {"speed": 1.10, "a": [1]}}, id=one)
        same((sent["signals"][0]["number"], sent["signals"][0]["state"]), (1, "pending"))
        row = node.ask("listMessageSignals", 200, id=one)["signals"][0]
        same((row["id"], row["payload"], row["deliveries"]), (sent["id"], {"speed": 1.1, "a": [1]}, 1))
        asked = node.ask("signalWorker", 200, {"kind": "ask", "payload": "how far?"}, name="pod-1")
        same([s["number"] for s in asked["signals"]], [2])
        same([s.get("payload") for s in node.ask("listSignals", 200)["signals"]], [{"speed": 1.1, "a": [1]}, "how far?"])
        same(len(node.ask("listWorkerSignals", 200, name="pod-1", query="?max=1")["signals"]), 1)
        came = node.ask("receiveSignals", 200, {"tokens": [token], "after": [1], "wait": "10s"})["signals"]
        same([(s["number"], s["payload"], s["token"]) for s in came], [(2, "how far?", token)])
        waits = node.ask("waitForSignal", 200, query=f"?signal={sent['id']}&message={one}&wait=10ms")["signals"]
        same([s["state"] for s in waits], ["pending"])
        refused(node, "receiveSignals", "tokens", {"tokens": []})
        refused(node, "receiveSignals", "after", {"tokens": [token], "after": [1, 2]})
        refused(node, "waitForSignal", "signal", query="?signal=nonsense")
        node.ask("waitForSignal", 404, query="?signal=" + 32 * "7")
        ended = node.ask("collectMessages", 200, {"ids": [one, "deadbeef-0-1"], "wait": "10s"})
        same((ended["missing"], [m["state"] for m in ended["messages"]]), (1, ["unknown"]))
        refused(node, "collectMessages", "ids", {"ids": []})
        refused(node, "collectMessages", "ids", {"ids": [one, one]})
        node.ask("collectMessages", 404, {"ids": [one]}, queue="none")
        same(len(node.ask("listWorkflowSignals", 200, workflow="order-7")["signals"]), 2)
        node.ask("listMessageSignals", 200, id=one, headers={"Accept": WIRE})
        node.ask("ackSignals", 404, {"token": token, "number": 7})
        node.ask("ackSignals", 409, {"token": token, "number": 2})
        same(node.ask("ackSignals", 200, {"token": token, "number": 1, "answer": {"ok": True}})["status"], "acked")
        rows = node.ask("ackSignals", 200, {"signals": [{"token": token, "number": 1}, {
            "token": token, "number": 2, "decline": True, "answer": "not-listening"}]})
        same([o.get("status") for o in rows["outcomes"]], [None, "declined"])
        same(rows["error"]["reason"], "signal-settled")
        same([(s["state"], s["answer"]) for s in node.ask("listMessageSignals", 200, id=one)["signals"]],
             [("declined", "not-listening"), ("acked", {"ok": True})])
        ask = node.ask("sendSignal", 200, {"ids": [one], "kind": "ask", "payloadBase64": "/w=="})["id"]
        same(node.ask("listSignals", 200)["signals"][0]["payloadBase64"], "/w==")
        same(node.ask("withdrawMessageSignal", 200, id=one, signal=ask)["signals"][0]["state"], "withdrawn")
        node.ask("withdrawMessageSignal", 409, id=one, signal=ask)
        again = {"Sluice-Request": "00112233445566778899aabbccddee00"}
        for _ in range(2):
            rows = node.ask("sendSignal", 200, {"ids": [one, one[:8] + "-0-99"], "kind": "ask"}, headers=again)
            same([s.get("reason") for s in rows["signals"]], [None, "unknown-message"])
            same((rows["id"], rows["error"]["reason"]), (again["Sluice-Request"], "unknown-message"))
        same(len(node.ask("withdrawSignal", 200, query=f"?signal={rows['id']}")["signals"]), 1)
        for field, body in (("kind", {"kind": "stop"}), ("payload", {"kind": "steer", "payload": "no object"}),
                            ("payload", {"kind": "ask", "payload": "a", "payloadBase64": "/w=="}),
                            ("ttl", {"kind": "ask", "ttl": 0}), ("ttl", {"kind": "ask", "ttl": "8d"}),
                            ("grace", stop | {"grace": "25h"}), ("now", stop | {"now": True, "grace": "1s"}),
                            ("kind", {})):
            refused(node, "signalMessage", field, body, id=one)
        refused(node, "sendSignal", "target", stop)
        refused(node, "sendSignal", "target", stop | {"worker": "a", "workflow": "b"})
        refused(node, "ackSignals", "number", {"token": token})
        refused(node, "ackSignals", "signals", {"token": token, "signals": []})
        refused(node, "withdrawMessageSignal", "signal", id=one, signal="xyz")
        node.ask("withdrawSignal", 404, query=f"?signal={ask}", queue="none")
        same(node.ask("signalWorker", 404, stop, name="pod-9")["reason"], "unknown-worker")
        same(node.ask("signalWorkflow", 404, stop, workflow="none")["reason"], "unknown-workflow")
        done = node.ask("signalWorkflow", 200, stop | {"grace": 0, "reason": "late"}, workflow="order-7")
        same(done["signals"][0]["state"], "applied")
        node.ask("ackSignals", 409, {"token": token, "number": 1})
        same(node.ask("signalMessage", 409, stop, id=one)["reason"], "terminal")
        node.ask("sendMessages", 201, {"body": "b"})
        last = node.ask("receiveMessages", 200, {})["messages"][0]
        node.ask("releaseMessages", 200, {"token": last["token"]})
        node.ask("ackSignals", 410, {"token": last["token"], "number": 1})


@case
def results_and_progress_are_what_the_file_says(sluice):
    with Node(sluice) as node:
        node.ask("createQueue", 201, {"retainBody": True})
        node.ask("createQueue", 201, {"retention": 0}, queue="brief")
        one, token = node.lock()
        refused(node, "renewLocks", "progress", {"tokens": [token], "progress": 5})
        refused(node, "renewLocks", "progress", {"token": token, "progress": 101})
        refused(node, "renewLocks", "progressText", {"token": token, "progressText": "x"})
        node.ask("renewLocks", 200, {"token": token, "progress": 0, "progressText": "page 0"})
        shown = node.ask("showMessage", 200, id=one)
        same((shown["progress"], shown["progressText"]), (0, "page 0"))
        refused(node, "ackMessages", "result", {"tokens": [token], "result": 1})
        refused(node, "ackMessages", "result", {"token": token, "result": 1, "resultBase64": "/w=="})
        refused(node, "ackMessages", "resultType", {"token": token, "resultType": "text/plain"})
        refused(node, "ackMessages", "result", {"token": token, "result": "x" * (256 << 10 | 1)})
        node.ask("ackMessages", 200, {"token": token, "result": {"sum": 1.10}, "resultType": "application/json"})
        shown = node.ask("showMessage", 200, id=one)
        same((shown["state"], shown["result"], shown["resultType"], shown["body"]),
             ("processed", {"sum": 1.1}, "application/json", "hello"))
        two, token = node.lock()
        node.ask("ackMessages", 200, {"token": token, "resultBase64": "/w=="})
        rows = node.ask("peekMessages", 200, query="?state=processed&max=1")
        same(([m["id"] for m in rows["messages"]], rows["messages"][0]["resultBase64"]), ([two], "/w=="))
        rows = node.ask("peekMessages", 200, query=f"?state=finished&after={rows['next']}")
        same([m["id"] for m in rows["messages"]], [one])
        same(len(node.ask("peekMessages", 200, query="?state=finished&contains=hello")["messages"]), 2)
        node.ask("peekMessages", 200, query="?state=cancelled", headers={"Accept": WIRE})
        refused(node, "peekMessages", "state", query="?state=gone")
        stats = node.ask("queueStats", 200)
        same((stats["results"], stats["bodies"]), (2, 2))
        _, token = node.lock("brief")
        done = node.ask("ackMessages", 200, {"token": token, "result": "x"}, queue="brief")
        same((done["status"], done["reason"]), ("processed", "result-not-kept"))


@case
def several_locks_carry_their_own_results_and_progress(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        (one, first), (two, second), (three, third) = (node.lock() for _ in range(3))
        rows = [{"token": first, "progress": 10, "progressText": "begun"}, {"token": second, "progress": 0}, {"token": third}]
        done = node.ask("renewLocks", 200, {"renewals": rows, "visibility": "1h"})
        same([o["status"] for o in done["outcomes"]], 3 * ["renewed"])
        shown = [node.ask("showMessage", 200, id=id) for id in (one, two, three)]
        same([(m.get("progress"), m.get("progressText")) for m in shown], [(10, "begun"), (0, None), (None, None)])
        token = node.lock()[1]
        wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
        rows = [{"token": first, "result": {"sum": 1}, "resultType": "application/json"},
                {"token": second, "resultBase64": "/w=="}, {"token": third}, {"token": wrong, "result": 1}]
        done = node.ask("ackMessages", 200, {"acks": rows})
        same([o["code"] for o in done["outcomes"]], ["OK", "OK", "OK", "FENCED"])
        shown = [node.ask("showMessage", 200, id=id) for id in (one, two, three)]
        same([(m.get("result"), m.get("resultBase64")) for m in shown], [({"sum": 1}, None), (None, "/w=="), (None, None)])
        refused(node, "ackMessages", "token", {"acks": [{"token": token}], "token": token})
        refused(node, "ackMessages", "token", {"acks": [{"result": 1}]})
        refused(node, "ackMessages", "acks", {"acks": [token]})
        refused(node, "ackMessages", "result", {"acks": [{"token": token}], "result": 1})
        refused(node, "renewLocks", "renewals[0].progress", {"renewals": [{"token": token, "progress": 101}]})
        refused(node, "renewLocks", "progress", {"renewals": [{"token": token}], "progress": 1})


def counted(node, name):
    return int(re.search(rf"^{name} (\d+)", node.raw("GET", "/metrics").body.decode(), re.M)[1])


@case
def a_poll_whose_client_is_gone_ends(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        message, token = node.lock()
        for path, body in (("signals/receive", {"tokens": [token], "wait": "20s"}),
                           ("collect", {"ids": [message], "wait": "20s"})):
            waits, gone = counted(node, "sluice_waits_total"), counted(node, "sluice_waits_hung_up_total")
            connection = node.connect()
            connection.request("POST", f"/v1/queues/tasks/{path}", json.dumps(body), {"Content-Type": JSON})
            until(lambda n=waits: counted(node, "sluice_waits_total") > n, f"{path} waits")
            connection.close()
            until(lambda n=gone: counted(node, "sluice_waits_hung_up_total") > n, f"{path} has ended")


@case
def a_collect_can_be_a_stream(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        ids = [node.ask("sendMessages", 201, {"body": str(i)})["id"] for i in range(3)]
        connection = node.connect()
        body = json.dumps({"ids": [*ids, "deadbeef-0-1"]})
        connection.request("POST", "/v1/queues/tasks/collect", body,
                           {"Content-Type": "application/json", "Accept": "text/event-stream"})
        answer = connection.getresponse()
        same((answer.status, answer.getheader("Content-Type")), (200, "text/event-stream"))
        for message in node.ask("receiveMessages", 200, {"max": 3})["messages"]:
            node.ask("ackMessages", 200, {"token": message["token"]})
        text = answer.read().decode()  # it ends by itself
        rows = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        same(sorted(r["state"] for r in rows[:-1]), ["processed", "processed", "processed", "unknown"])
        same((rows[-1], re.findall("event: (.*)", text)[-1]), ({"missing": 0}, "end"))
        connection.close()
        connection = node.connect()
        connection.request("POST", "/v1/queues/none/collect", body,
                           {"Content-Type": "application/json", "Accept": "text/event-stream"})
        same(connection.getresponse().status, 404)
        connection.close()


@case
def a_workflow_is_collected_with_what_ended_before(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        for i in range(3):
            node.ask("sendMessages", 201, {"body": str(i), "workflow": "order-7"})
        held = node.ask("receiveMessages", 200, {"max": 3})["messages"]
        node.ask("ackMessages", 200, {"token": held[0]["token"]})
        first = node.ask("collectMessages", 200, {"workflow": "order-7"})
        same([m["id"] for m in first["messages"]], [held[0]["id"]])
        same((first["missing"], sorted(first["left"])), (2, sorted(m["id"] for m in held[1:])))
        for message in held[1:]:
            node.ask("ackMessages", 200, {"token": message["token"]})
        rest = node.ask("collectMessages", 200, {"ids": first["left"], "all": True, "wait": "10s"})
        same((rest["missing"], sorted(m["id"] for m in rest["messages"]), "left" in rest),
             (0, sorted(first["left"]), False))
        connection = node.connect()
        connection.request("POST", "/v1/queues/tasks/collect", json.dumps({"workflow": "order-7"}),
                           {"Content-Type": JSON, "Accept": "text/event-stream"})
        same(re.findall("event: (.*)", connection.getresponse().read().decode()), 3 * ["outcome"] + ["end"])
        connection.close()
        node.ask("collectMessages", 404, {"workflow": "order-8"})
        refused(node, "collectMessages", "workflow", {"workflow": ""})
        refused(node, "collectMessages", "workflow", {"workflow": "order-7", "ids": first["left"]})


@case
def a_collect_asks_running_messages(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        (one, token), (two, other) = node.lock(), node.lock()
        body = {"ids": [one, two]}
        first = node.ask("collectMessages", 200, body | {"running": True, "ask": "how far?"})
        same((first["missing"], sorted(first["asked"]), len(first["signals"])), (2, sorted([one, two]), 1))
        came = node.ask("receiveSignals", 200, {"tokens": [token]})["signals"]
        same([(s["kind"], s["payload"], s["id"]) for s in came], [("ask", "how far?", first["signals"][0])])
        node.ask("ackSignals", 200, {"token": token, "number": 1, "answer": {"step": 3}})
        goes_on = {"signals": first["signals"], "asked": first["asked"], "wait": "10s"}
        second = node.ask("collectMessages", 200, body | goes_on)
        same([(a["message"], a["state"], a["answer"]) for a in second["answers"]], [(one, "acked", {"step": 3})])
        same((second["asked"], second["signals"], second["messages"]), ([two], first["signals"], []))
        node.ask("ackMessages", 200, {"token": other})
        last = node.ask("collectMessages", 200, body | goes_on | {"asked": [two]})
        same([(a["message"], a["state"]) for a in last["answers"]], [(two, "missed")])
        same(([m["id"] for m in last["messages"]], "asked" in last, "signals" in last), ([two], False, False))
        lost = node.ask("collectMessages", 200, body | goes_on | {"signals": [32 * "7"], "asked": [one]})
        same([(a["message"], a["code"], a["reason"]) for a in lost["answers"]], [(one, "NOT_FOUND", "unknown-signal")])
        refused(node, "collectMessages", "asked", body | {"asked": [one]})
        refused(node, "collectMessages", "asked", body | {"signals": first["signals"]})
        refused(node, "collectMessages", "signals", body | {"signals": ["x"], "asked": [one]})
        refused(node, "collectMessages", "running", body | {"running": True} | goes_on)
        refused(node, "collectMessages", "ask", body | {"ask": "how far?"})
        connection = node.connect()
        connection.request("POST", "/v1/queues/tasks/collect", json.dumps({"ids": [one], "running": True}),
                           {"Content-Type": JSON, "Accept": "text/event-stream"})
        answer = connection.getresponse()
        node.ask("receiveSignals", 200, {"tokens": [token], "after": [1], "wait": "10s"})
        node.ask("ackSignals", 200, {"token": token, "number": 2, "answer": "soon"})
        while not (line := answer.readline().decode()).startswith("event:"):
            pass
        same((line, json.loads(answer.readline().decode()[6:])["answer"]), ("event: answer\n", "soon"))
        node.ask("ackMessages", 200, {"token": token})
        same(re.findall("event: (.*)", answer.read().decode()), ["outcome", "end"])
        connection.close()


def threads(node):
    return len(os.listdir(f"/proc/{node.process.pid}/task"))


@case
def streams_of_collects_wait_without_a_thread(sluice):
    sluice.ok("queue", "create", "tasks")
    with Node(sluice) as node:
        message, token = node.lock()
        before, streams = threads(node), []
        for _ in range(40):
            connection = node.connect()
            connection.request("POST", "/v1/queues/tasks/collect", json.dumps({"ids": [message]}),
                               {"Content-Type": JSON, "Accept": "text/event-stream"})
            streams.append((connection, connection.getresponse()))
        until(lambda: threads(node) < before + 20, "the streams have no threads")
        node.ask("ackMessages", 200, {"token": token})
        for connection, answer in streams:
            same(re.findall("event: (.*)", answer.read().decode()), ["outcome", "end"])
            connection.close()


@case
def null_is_a_field_that_was_not_given(sluice):
    with Node(sluice) as node:
        node.ask("createQueue", 201)
        for operation in OPERATIONS.values():
            for schema in operation.bodies() if operation.name not in ("createQueue", "changeQueue", *ENDS, *WORKERS, *ACTING) else ():
                body = {name: None for name in schema["properties"] if name not in schema.get("required", [])}
                if operation.name == "sendMessages":
                    body = {"messages": []} if "messages" in schema["properties"] else body | {"body": "x"}
                elif "required" in schema:
                    body[schema["required"][0]] = node.lock()[1] if schema["required"] == ["token"] else []
                answer = node.raw(operation.method, operation.example_path(), body)
                fits(operation, answer)
                holds(answer.status < 300, f"{operation.name} {body}: {answer}")


@case
def events_are_what_the_file_says(sluice):
    operation = OPERATIONS["watchEvents"]
    data = operation.item["responses"]["200"]["content"]["text/event-stream"]["x-sluice-data"]
    with Node(sluice) as node:
        node.ask("createQueue", 201, {"failureStrategy.maxRetries": 0})
        message, token = node.lock()
        node.ask("renewLocks", 200, {"token": token})
        node.ask("failMessages", 200, {"token": token, "reason": "no"})
        node.ask("renewLocks", 409, {"token": token})
        node.ask("pauseQueue", 204)
        answer = node.raw("GET", operation.example_path())
        fits(operation, answer)
        stream = node.stream("/tasks/events")
        events = stream.until("queue-paused")
        for name, value, _ in events:
            same(SCHEMA.check(value, data), [], name)
            same(value["type"], name)
        types = [name for name, _, _ in events]
        same(types, ["message-enqueued", "message-claimed", "lock-renewed", "message-outcome", "lock-renewal-rejected",
                     "queue-paused"])
        node.ask("deleteQueue", 204)
        words = operation.item["responses"]["200"]["content"]["text/event-stream"]["x-sluice-words"]
        _, value, place = stream.until("end")[-1]
        same(SCHEMA.check(value, words), [], "end")
        node.ask("createQueue", 201)
        _, value, _ = node.stream("/tasks/events", {"Last-Event-ID": place}).next()
        same(SCHEMA.check(value, words), [], "gap")
        refused(node, "watchEvents", "type", query="?type=nonsense")
        refused(node, "watchEvents", "from", query="?from=yesterday")


@case
def the_compact_encoding_is_answered_where_the_file_says_so(sluice):
    with Node(sluice) as node:
        node.ask("createQueue", 201)
        for operation in OPERATIONS.values():
            response = operation.item["responses"].get("200", {})
            if WIRE not in response.get("content", {}) or operation.name in ACTING:
                continue
            message, token = node.lock()
            example = with_real_names(operation.examples()[-1] if operation.examples() else None, message, token)
            answer = node.raw(operation.method, operation.example_path(id=message), example, headers={"Accept": WIRE})
            same((answer.status, answer.type), (200, WIRE), operation.name)
            holds(answer.body, f"{operation.name}: bytes")
            fits(operation, answer)
            gone = node.raw(operation.method, operation.example_path(id=message, queue="none"), example,
                            headers={"Accept": WIRE})
            same((gone.status, gone.type), (404, WIRE), operation.name)


@case
def head_is_answered_as_get_is_without_a_body(sluice):
    with Node(sluice) as node:
        node.ask("createQueue", 201)
        message, _ = node.lock()
        for operation in OPERATIONS.values():
            if operation.method == "GET" and operation.name not in WORKFLOWS + ACTING:
                answer = node.raw("HEAD", operation.example_path(id=message))
                same((answer.status, answer.body), (200, b""), operation.name)
                content = operation.item["responses"]["200"]["content"]
                holds(answer.type in content or "*/*" in content, f"{operation.name}: {answer}")


@case
def what_has_not_changed_is_not_sent_again(sluice):
    with Node(sluice) as node:
        for name in ("openapi", "dashboard", "asset"):
            operation = OPERATIONS[name]
            tag = node.raw("GET", operation.example_path()).headers["ETag"]
            node.ask(name, 304, headers={"If-None-Match": tag})


# ---- what is refused

@case
def names_and_parameters_that_are_not_known_are_refused(sluice):
    with Node(sluice) as node:
        node.ask("createQueue", 201)
        for operation in OPERATIONS.values():
            if operation.scope:
                refused(node, operation.name, "nonsense", operation.first_example(), query="?nonsense=1")
            if "{queue}" in operation.path:
                refused(node, operation.name, "queue", queue="no%20name")
            if "{id}" in operation.path:
                refused(node, operation.name, "id", id="nonsense")
            fits(operation, answer := node.raw(operation.method, operation.example_path() + "?%zz"))
            same((answer.status, answer.json["reason"]), (400, "malformed"), operation.name)
            if any(p["name"] == "Sluice-Request" for p in operation.parameters):
                refused(node, operation.name, "Sluice-Request", {}, headers={"Sluice-Request": "7"})


@case
def fields_that_are_not_known_are_refused(sluice):
    with Node(sluice) as node:
        node.ask("createQueue", 201)
        for operation in OPERATIONS.values():
            if operation.method == "GET":
                continue
            for example in operation.examples() or [{}]:
                refused(node, operation.name, "nonsense", example | {"nonsense": 1})
            problem = node.ask(operation.name, 400, b"{", kind=JSON)
            same((problem["reason"], problem["field"]), ("malformed", "body"), operation.name)
            problem = node.ask(operation.name, 400, [])
            same(problem["reason"], "malformed", operation.name)
        many = {"messages": [{"body": "a"}, {"body": "b", "nonsense": 1}]}
        refused(node, "sendMessages", "messages[1].nonsense", many)


def of_another_kind(schema):
    """Some value that the schema does not take."""
    for value in ("no such thing", 7, {"a": 1}):
        if SCHEMA.check(value, schema):
            return value
    raise AssertionError(schema)


def limits(schema):
    """Numbers just outside."""
    schema = SCHEMA.resolve(schema)
    kinds = schema.get("type", [])
    if "integer" not in kinds:
        return []
    return [schema[key] + step for key, step in (("minimum", -1), ("maximum", 1)) if key in schema]


@case
def values_of_another_kind_or_out_of_range_are_refused(sluice):
    count = 0
    with Node(sluice) as node:
        node.ask("createQueue", 201)
        for operation in OPERATIONS.values():
            for schema in operation.bodies():
                base = {k: v for k, v in operation.examples()[0].items() if k in schema["properties"]}
                for name, rule in schema["properties"].items():
                    nested = SCHEMA.resolve(rule).get("properties", {}) if name == "failureStrategy" else {}
                    anything = set(rule) == {"description"}
                    tries = [of_another_kind(rule)] if not nested and not anything else []
                    for value in tries + limits(rule):
                        body = {k: v for k, v in base.items() if k != name} | {name: value}
                        holds(SCHEMA.check(body, schema), f"{operation.name} {body} fits the schema")
                        problem = node.ask(operation.name, 400, body)
                        holds(problem["field"].split("[")[0] in (name, "messages"),
                              f"{operation.name} {body}: {problem}")
                        count += 1
                    for inner, inner_rule in nested.items():
                        if "properties" not in inner_rule:
                            problem = node.ask(operation.name, 400, {name: {inner: of_another_kind(inner_rule)}})
                            same(problem["field"], f"{name}.{inner}", operation.name)
                            count += 1
    holds(count > 60, f"{count} values")


@case
def a_queue_or_message_that_is_not_there_is_not_found(sluice):
    with Node(sluice) as node:
        for operation in OPERATIONS.values():
            if operation.name in ("leaveWorker", "withdrawSignal"):
                continue  # its query: workers_are_what_the_file_says, signals_are_what_the_file_says
            if "{queue}" in operation.path and "404" in operation.item["responses"]:
                problem = node.ask(operation.name, 404, operation.first_example())
                same((problem["code"], problem["reason"], problem["field"]), ("NOT_FOUND", "unknown-queue", "queue"),
                     operation.name)
        node.ask("createQueue", 201)
        node.ask("showMessage", 404)
        node.ask("asset", 404, file="nothing.css")
        same(node.raw("GET", "/v2").json["reason"], "unknown-path")


@case
def another_method_is_told_which_there_are(sluice):
    methods = {}
    for operation in OPERATIONS.values():
        methods.setdefault(operation.path, set()).add(operation.method)
    with Node(sluice) as node:
        for path, known in methods.items():
            answer = node.raw("OPTIONS", path.replace("{queue}", "tasks").replace("{id}", ID).replace("{file}", "x")
                              .replace("{workflow}", "w").replace("{name}", "w").replace("{signal}", "s"))
            same(answer.status, 405, path)
            same(set(answer.headers["Allow"].split(", ")) - {"HEAD"}, known, path)
            same(SCHEMA.check(answer.json, DOCUMENT["components"]["schemas"]["Problem"]), [], path)


@case
def conflicts_and_lost_locks_are_told_apart(sluice):
    with Node(sluice) as node:
        node.ask("createQueue", 201, {"failureStrategy": {"mode": "dead-letter", "deadLetterQueue": "letters"}})
        node.ask("createQueue", 409, {})
        node.ask("changeQueue", 409, {"shards": 2})
        node.ask("deleteQueue", 409, queue="letters")
        for name in ("ackMessages", "failMessages", "releaseMessages", "renewLocks"):
            _, token = node.lock()
            node.ask("ackMessages", 200, {"token": token})
            same(node.ask(name, 409, {"token": token})["reason"], "terminal")
            _, token = node.lock()
            node.ask("releaseMessages", 200, {"token": token})
            same(node.ask(name, 410, {"token": token})["reason"], "lock-released")
            same(node.ask(name, 200, {"tokens": [token]})["outcomes"][0]["code"], "FENCED")
            node.ask("purgeQueue", 200)


@case
def a_node_of_no_cluster_says_so(sluice):
    with Node(sluice, "--coord", "none") as node:
        for name in ("showCluster", "showPlan", "watchCluster", "drainNode", "undrainNode", "leaveCluster"):
            same(node.ask(name, 409, {} if name in ORDERS else None)["reason"], "no-cluster")


@case
def a_page_of_another_site_may_do_nothing(sluice):
    with Node(sluice) as node:
        for operation in OPERATIONS.values():
            node.ask(operation.name, 403, headers={"Origin": "https://other.example"})


@case
def a_node_with_tokens_wants_them_where_the_file_says_so(sluice):
    made = sluice.json("token", "new", "--scope", "read,send,work,admin", "--queue", "other", "--name", "outsider")
    mine = {"Authorization": "Bearer " + made["token"]}
    with Node(sluice, "--tokens", sluice.path("tokens", made["line"] + "\n")) as node:
        for operation in OPERATIONS.values():
            if operation.scope is None:
                holds(node.raw(operation.method, operation.example_path()).status in (200, 204), operation.name)
                continue
            same(node.ask(operation.name, 401)["reason"], "unauthenticated")
            node.ask(operation.name, 401, headers={"Authorization": "Bearer nonsense"})
            if "{queue}" in operation.path:
                same(node.ask(operation.name, 403, headers=mine)["reason"], "forbidden")
        node.ask("createQueue", 201, queue="other", headers=mine)
        node.ask("redrive", 403, {"to": "tasks"}, queue="other", headers=mine)


@case
def the_scope_signal_acts_on_messages_and_nothing_else(sluice):
    lines, tokens = [], {}
    for name in ("signal", "work", "read", "admin"):
        made = sluice.json("token", "new", "--scope", name, "--queue", "*", "--name", name)
        lines.append(made["line"])
        tokens[name] = {"Authorization": "Bearer " + made["token"]}
    sluice.ok("queue", "create", "tasks")
    for body in ("a", "b"):
        sluice.ok("send", "tasks", body)
    with Node(sluice, "--tokens", sluice.path("tokens", "\n".join(lines) + "\n")) as node:
        held = node.ask("receiveMessages", 200, {"max": 1}, headers=tokens["work"])["messages"][0]
        ask = {"kind": "ask", "payload": "how far?"}
        for name in ("work", "read"):
            problem = node.ask("signalMessage", 403, ask, id=held["id"], headers=tokens[name])
            holds("scope signal" in problem["detail"], problem)
            node.ask("cancelMessage", 403, id=held["id"], headers=tokens[name])
        problem = node.ask("collectMessages", 403, {"ids": [held["id"]], "running": True}, headers=tokens["read"])
        holds("scope signal" in problem["detail"], problem)
        node.ask("collectMessages", 200, {"ids": [held["id"]]}, headers=tokens["read"])
        node.ask("signalMessage", 200, ask, id=held["id"], headers=tokens["signal"])
        node.ask("ackSignals", 403, {"token": held["token"], "number": 1}, headers=tokens["signal"])
        node.ask("listSignals", 403, headers=tokens["signal"])
        node.ask("sendMessages", 403, {"body": "x"}, headers=tokens["signal"])
        node.ask("purgeQueue", 403, {}, headers=tokens["signal"])
        same(len(node.ask("listSignals", 200, headers=tokens["read"])["signals"]), 1)
        node.ask("ackSignals", 200, {"token": held["token"], "number": 1}, headers=tokens["work"])
        rest = node.ask("peekMessages", 200, headers=tokens["read"])["messages"][0]["id"]
        node.ask("cancelMessage", 200, id=rest, headers=tokens["admin"])


@case
def too_much_is_refused(sluice):
    with Node(sluice, "--set", "limits.body=1024") as node:
        for operation in OPERATIONS.values():
            if "413" in operation.item["responses"]:
                node.ask(operation.name, 413, b" " * 2000)
    with Node(sluice, "--set", "limits.requestsPerSecond=1") as node:
        for operation in OPERATIONS.values():
            if operation.scope:
                until(lambda: node.raw(operation.method, operation.example_path()).status == 429,
                      f"{operation.name} is too much")
                answer = node.raw(operation.method, operation.example_path())
                fits(operation, answer)
    with Node(sluice) as node:
        node.ask("createQueue", 201, {"capacity": 1}, queue="small")
        node.ask("sendMessages", 201, {"body": "a"}, queue="small")
        same(node.ask("sendMessages", 429, {"body": "b"}, queue="small")["reason"], "queue-full")


@case
def a_node_that_stops_is_not_ready(sluice):
    with Node(sluice, "--set", "shutdown.drain=20s") as node:
        node.ask("healthz", 200, query="?nonce=" + 16 * "0f")
        node.ask("readyz", 200)
        node.process.send_signal(signal.SIGTERM)
        until(lambda: node.raw("GET", "/readyz").status == 503, "the node says that it stops")
        same(node.ask("readyz", 503)["reason"], "stopping")


@case
def a_store_that_fails_is_no_refusal(sluice):
    with Node(sluice, restore_signals=False) as node:  # SIGXFSZ stays ignored: writing fails, and does not kill
        node.ask("createQueue", 201)
        node.lock()  # the journal's file is there, and grows
        node.ask("sendMessages", 200, {"messages": [{"body": "x" * 8192}, {"body": "y"}]})
        # The journal's page can be written, and its segment cannot: neither the record nor zeros in its place.
        resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        same(node.ask("sendMessages", 504, {"messages": [{"body": "x"}, {"body": "y"}]})["code"], "UNKNOWN")
        resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        detail = node.ask("readyz", 503)["detail"]
        holds("File too large" in detail, f"it says what to look at: {detail}")


# ---- the page for people

@case
def the_quick_start_works_as_it_is_printed(sluice):
    with open(os.environ["HTTP_DOC"], encoding="utf-8") as file:
        page = file.read()
    part = page[page.index("## Quick start"):]
    part = part[:part.index("\n## ", 4)]
    script = "\n".join(re.findall(r"```sh\n(.*?)```", part, re.S))
    with Node(sluice) as node:
        for _ in range(2):  # and again: a person pastes an example twice
            run = subprocess.run(["sh", "-eux", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 timeout=PATIENCE, cwd=sluice.folder, check=False,
                                 env=sluice.on_store | {"NODE": f"http://{node.address}"})
            same(run.returncode, 0, run.stdout.decode(errors="replace")[-3000:])
        for operation in (o for o in OPERATIONS.values() if o.name not in ORDERS + WORKFLOWS):
            row = f'sluice_http_requests_total{{method="{operation.method}",route="{operation.path}",status="2'
            # What was answered is counted a moment later.
            until(lambda row=row: row in node.raw("GET", "/metrics").body.decode(),
                  f"the quick start has {operation.method} {operation.path}")


# ---- the end: what the cases above have seen

@case
def every_answer_of_the_file_was_given(_):
    promised = {(o.name, status) for o in OPERATIONS.values() for status in o.item["responses"]} - {
        (name, status) for name in OPERATIONS for status in TROUBLE}
    same(sorted(promised - SEEN - UNASKED), [], "answers that no request got")
    headers = {(o.name, name) for o in OPERATIONS.values() for response in o.item["responses"].values()
               for name in SCHEMA.resolve(response).get("headers", {})}
    headers -= {("hintUsed", "Retry-After")}  # the node has no thread for it: only other nodes send it
    same(sorted(headers - HEADERS), [], "headers that no request got")


main(at_once=3, last=every_answer_of_the_file_was_given)
