#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Real nodes that publish to a real bus, under tests/servers/with-nats. After each case the stream, behind a consumer,
equals the journal event by event.

    publish.py PATTERN...            the cases whose names contain one of these; none: all
    publish.py --faults PATTERN...   the cases that stop the servers of the bus
    publish.py --long ROUNDS         kills and outages at random points

SLUICE names the program, BUS_DUMP the program that prints a stream (dump.c), BUS_SETTINGS what the URL of the bus ends
with, as in streams=shard.
"""
import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback

for folder in ("member", "cli", "server"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
from serving import Stream  # noqa: E402
import wire  # noqa: E402
from nodes import PATIENCE, PROGRAM, Cluster, Load, Wrong, control, holds, until  # noqa: E402

BUS = os.environ["SLUICE_TEST_NATS"]
SERVERS = BUS.count(",") + 1
DUMP = os.environ["BUS_DUMP"]
AT_ONCE = 3  # they mostly wait
MINUTE = float(os.environ.get("CUT_SECONDS", "60"))


def nats(words):
    answer = control(words, "SLUICE_TEST_NATS_SOCKET")
    holds(answer == "ok" or answer.lstrip("-").isdigit(), f"with-nats {words}: {answer}")
    return answer


def bus_url():
    settings = [os.environ.get("BUS_SETTINGS"), "replicas=3" if SERVERS == 3 else None]
    return BUS + "?" * any(settings) + "&".join(filter(None, settings))


def journal(cluster, queue):
    """The projection: the ids of each shard's events, in order."""
    out = subprocess.run([PROGRAM, "events", queue, "--json", "--store", cluster.store_url], stdout=subprocess.PIPE, check=True,
                         timeout=PATIENCE).stdout
    shards = {}
    for line in out.splitlines():
        event = json.loads(line)
        shards.setdefault(event["shard"], []).append((event["sequence"], event["id"]))
    return shards


def stream(queue, bus):
    """Asks again while the servers elect the stream's leader: bus-dump then ends with status 1."""
    end = time.monotonic() + PATIENCE
    while True:
        done = subprocess.run([DUMP, bus, queue], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=3 * PATIENCE, check=False)
        if done.returncode != 1 or time.monotonic() > end:
            break
        time.sleep(0.2)
    holds(done.returncode == 0, f"bus-dump {queue}: status {done.returncode} {done.stderr.decode()}")
    out = done.stdout.decode()
    shards, others, messages, duplicates, numbers = {}, [], 0, 0, []
    for line in out.splitlines():
        word, *rest = line.split(" ")
        if word == "event":
            shards.setdefault(int(rest[0]), []).append((int(rest[1]), rest[2]))
        elif word == "messages":
            messages, duplicates = messages + int(rest[0]), duplicates + int(rest[2])
            numbers.append(rest[4])
        else:
            others.append(line)
    if others:
        print(f"# {queue}: the stream has {messages} messages, {numbers}, and {others[:3]}", flush=True)
    return shards, others, messages, duplicates


def lag(cluster):
    return sum(node.metric("sluice_bus_lag_events") for node in cluster.live())


def equals(cluster, queue, bus=BUS):
    """Waits until all is published, and compares. Returns the number of events."""
    want = journal(cluster, queue)

    def published():
        got, others, _, _ = stream(queue, bus)
        refused = [line for line in others if not line.startswith("gap ")]
        holds(not refused, f"a refusal: {refused[:3]}")
        # A bus that lost messages has a gap until the publisher has repeated them.
        return not others and all(got.get(shard, [])[-1:] == rows[-1:] for shard, rows in want.items())
    until(published, f"every event of {queue} is on the bus", 2 * PATIENCE)
    want = journal(cluster, queue)  # an entry of the cursor or of time has no events, but a late ack may
    got, others, messages, duplicates = stream(queue, bus)
    holds(not others, f"a gap or a refusal: {others[:3]}")
    for shard, rows in want.items():
        mine = got.get(shard, [])
        holds(mine[:len(rows)] == rows, f"shard {shard}: the journal has {len(rows)} events, the stream {len(mine)}; the "
              f"first that differ: {next(((a, b) for a, b in zip(rows, mine) if a != b), None)}")
        holds([s for s, _ in mine] == list(range(1, len(mine) + 1)), f"shard {shard}: sequences are not 1, 2, 3 ...")
    total = sum(len(rows) for rows in want.values())
    print(f"# {queue}: {total} events in {len(want)} shards equal; {messages} messages, {duplicates} of them duplicates",
          flush=True)
    return total


def cluster_events(bus):
    """The stream of the cluster: rows of publisher, type, node, status, queue. It has the events of one store."""
    out = subprocess.run([DUMP, bus, "--cluster"], stdout=subprocess.PIPE, check=True, timeout=3 * PATIENCE).stdout.decode()
    lines = [line.split(" ") for line in out.splitlines()]
    holds(not [line for line in lines if line[0] == "refused"], f"an event does not fit its schema: {out[:400]}")
    return [line[1:6] for line in lines if line[0] == "cluster"]


class Watch:
    """A client of /v1/stream. When a stream ends, it goes on where it stopped, at the node that it is told."""

    def __init__(self, cluster, queue, name):
        self.cluster, self.path, self.name = cluster, f"/v1/stream?queue={queue}", name
        self.rows, self.place, self.wrong, self.begun, self.over, self.made = [], None, [], 0, False, None
        threading.Thread(target=self.run, daemon=True).start()
        until(lambda: self.begun, "the stream has begun")

    def run(self):
        while not self.over:
            try:
                self.made = Stream(self.cluster.nodes[self.name].address, self.path,
                                   {"Last-Event-ID": self.place} if self.place else {})
                while found := self.made.next():
                    self.take(*found)
            except Exception:  # the node or the connection ended; harness.Wrong: the node is not ready
                time.sleep(0.05)

    def take(self, kind, value, place):
        self.place = place or self.place
        self.begun += kind is None
        if kind in ("gap", "end"):
            self.wrong.append(value)
        elif kind not in (None, "lagged"):
            self.rows.append((value["shard"], value["sequence"], value["event_id"]))

    def go_to(self, name):
        self.name, begun = name, self.begun
        self.made.close()
        until(lambda: self.begun > begun, f"the stream goes on at {name}")

    def equals(self, want):
        """Each event of the journal came once, in the order of its shard."""
        total = sum(len(rows) for rows in want.values())
        until(lambda: len(self.rows) >= total or self.wrong, f"the stream has {total} events")
        self.over = True
        holds(not self.wrong, f"the stream says {self.wrong[:3]}")
        for shard, rows in want.items():
            mine = [(sequence, name) for at, sequence, name in self.rows if at == shard]
            holds(mine == rows, f"shard {shard}: {len(mine)} events, not {len(rows)}; the first that differ: "
                  f"{next(((a, b) for a, b in zip(rows, mine) if a != b), None)}")


def prepared(queue, shards=1, nodes=1, bus=None, **settings):
    cluster = Cluster("--bus", bus or bus_url(), nodes=nodes)
    try:
        status, answer = cluster.any().ask("PUT", f"/v1/queues/{queue}", {"shards": shards, "orderingGuarantee": True, "publishKeep": "2d", **settings})
        holds(status in (200, 201), answer)
    except BaseException:
        cluster.__exit__()
        raise
    return cluster


def the_stream_equals_the_journal():
    for queue, shards in (("one.shard", 1), ("three-shards", 3)):
        with prepared(queue, shards) as cluster:
            load = Load(cluster, queue, pause=0.0)
            until(lambda load=load: len(load.acked) > 150, "messages go through")
            load.finish()
            holds(equals(cluster, queue) > 400, "events are missing")
            node = cluster.any()
            holds("event=bus-schema" not in node.log(), "an event does not fit its schema")
            until(lambda node=node: lag(cluster) == 0 and node.metric("sluice_bus_degraded") == 0, "there is no lag")
            holds(node.ready()[1]["bus"]["lagEvents"] == 0, "readyz shows no lag")
            holds(node.metric("sluice_bus_dropped_total") == 0, "nothing was dropped")
            holds(node.metric("sluice_bus_schema_total") == 0, "each event fits its schema")


def keys_of(cluster, queue):
    """For each surface, the ordering key of each event, by its id."""
    node = cluster.any()

    def printed(*where):
        out = subprocess.run([PROGRAM, "events", queue, "--json", *where], stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
        return {event["id"]: event["orderingKey"] for event in map(json.loads, out.splitlines())}

    def streamed(path, count, name, key):
        made, found = Stream(node.address, path, {}), {}
        while len(found) < count:
            event = made.next()[1]
            found.update({event[name]: event[key]} if event and name in event else {})
        made.close()
        return found
    library = printed("--store", cluster.store_url)
    return {"library": library, "node": printed("--store", "http://" + node.address),
            "http": streamed(f"/v1/queues/{queue}/events?from=0", len(library), "id", "orderingKey"),
            "stream": streamed(f"/v1/stream?queue={queue}&from=0", len(library), "event_id", "ordering_key"),
            "bus": {event["event_id"]: event["ordering_key"] for event in of_the_bus(queue)}}


def every_surface_prints_one_ordering_key():
    """With a group and without one, in a strict queue and in a best-effort queue."""
    for queue, strict in (("keys.strict", True), ("keys.loose", False)):
        with prepared(queue, orderingGuarantee=strict) as cluster:
            node = cluster.any()
            grouped, plain = (node.ask("POST", f"/v1/queues/{queue}/messages", {"body": "x", **more})[1]["id"]
                              for more in ({"group": "g: 1"}, {}))
            status, batch = node.ask("POST", f"/v1/queues/{queue}/receive", {"max": 2})
            holds(status == 200 and len(batch["messages"]) == 2, batch)
            holds(node.ask("POST", f"/v1/queues/{queue}/pause", {})[0] in (200, 204), "a pause")
            equals(cluster, queue)
            keys = keys_of(cluster, queue)
            for surface, found in keys.items():
                holds(found == keys["library"], f"{surface}: {found}, not {keys['library']}")
            token = queue.replace(".", "=2E")
            seen = set(keys["library"].values())
            if strict:
                hashes = {key for key in seen if key.startswith(f"group:{token}:")}
                holds(len(hashes) == 2 and f"group:{token}:{0:016x}" in hashes, f"two groups: {seen}")
                holds(seen == hashes | {f"queue:{token}:0"}, f"others: {seen}")
            else:
                holds(seen == {"task:" + grouped, "task:" + plain, f"queue:{token}:0"}, f"others: {seen}")


def events_of_workflows_are_on_the_bus():
    """Their subjects have no shard, and the server restarts in the middle."""
    with prepared("flows", 2, orderingGuarantee=False) as cluster:
        node = cluster.any()
        for number in range(30):
            for step in range(3):
                body = {"body": "x", "workflow": f"run {number}", "workflowLast": step == 2}
                status, answer = node.ask("POST", "/v1/queues/flows/messages", body)
                holds(status == 201, answer)
            if number == 15:
                nats("restart 0")
        done = 0
        while done < 90:
            status, batch = node.ask("POST", "/v1/queues/flows/receive", {"max": 10, "wait": "1s"})
            holds(status == 200 and batch["messages"], f"no message after {done}")
            status, answer = node.ask("POST", "/v1/queues/flows/ack", {"tokens": [m["token"] for m in batch["messages"]]})
            holds(status == 200, answer)
            done += len(batch["messages"])
        equals(cluster, "flows")
        ids = [name for rows in stream("flows", BUS)[0].values() for _, name in rows]
        for kind in ("workflow-submitted", "workflow-completed"):
            holds(sum(f"-{kind}-" in name for name in ids) == 30, f"30 events {kind}")
        holds("event=bus-schema" not in node.log(), "an event does not fit its schema")


def events_of_signals_are_on_the_bus():
    """Each fits its schema, names the signal, and has no payload."""
    with prepared("signals", retainBody=True) as cluster:  # with this setting, the rules have signals
        node = cluster.any()

        def do(path, body, method="POST"):
            status, answer = node.ask(method, "/v1/queues/signals" + path, body)
            holds(status in (200, 201), answer)
            return answer

        ids = [do("/messages", {"body": "x", "group": str(number)})["id"] for number in range(2)]
        held = do("/receive", {"max": 1, "worker": "one"})["messages"][0]
        others = [name for name in ids if name != held["id"]]
        steer = {"kind": "steer", "payload": {"password": "swordfish"}}
        names = [do(f"/messages/{held['id']}/signals", steer)["id"] for _ in range(2)]
        do("/signals/ack", {"token": held["token"], "number": 1, "answer": "swordfish"})
        do("/signals/ack", {"token": held["token"], "number": 2, "decline": True, "answer": "not-listening"})
        do(f"/messages/{others[0]}/signals", {"kind": "interrupt", "reason": "not needed"})
        equals(cluster, "signals")
        events = of_the_bus("signals")
        told = [(e["event_type"], e["payload"]["status"], e["payload"].get("reason"), e["payload"].get("count"))
                for e in events if e["event_type"].startswith("signal-") or e["event_type"] == "message-outcome"]
        holds(told == [("signal-sent", "pending", None, 1), ("signal-delivered", "pending", None, 1),
                       ("signal-sent", "pending", None, 2), ("signal-delivered", "pending", None, 2),
                       ("signal-acked", "acked", None, 1), ("signal-ended", "declined", "not-listening", 2),
                       ("signal-sent", "applied", "not needed", None), ("signal-ended", "applied", None, None),
                       ("message-outcome", "cancelled", "not needed", None)], f"other events: {told}")
        ended = [e["payload"] for e in of_the_bus("signals", "--type", "signal-ended")]
        holds([e["signal_kind"] for e in ended] == ["steer", "interrupt"] and ended[0]["signal"] == names[1], f"others: {ended}")
        holds("swordfish" not in json.dumps(events), "a payload or an answer is on the bus")
        holds("event=bus-schema" not in node.log(), "an event does not fit its schema")


def the_bus_wakes_the_stream_of_another_node():
    with prepared("woken", 2, nodes=2) as cluster:
        watches = [Watch(cluster, "woken", name) for name in "ab"]
        load = Load(cluster, "woken", pause=0.0)
        until(lambda: len(load.acked) > 100, "messages go through")
        until(lambda: all(node.metric("sluice_stream_bus_wakes_total") > 10 for node in cluster.live()),
              "messages of the bus wake the streams")
        load.finish()
        equals(cluster, "woken")
        for watch in watches:
            watch.equals(journal(cluster, "woken"))


def forgeries(queue, queue_id, sequence, slot):
    """Messages that any client of the bus can publish: each names the next event of the shard."""
    true = {"event_type": "message-enqueued", "schema_version": 1, "timestamp": "2030-02-03T12:00:00.123Z", "node_id": "x",
            "queue": queue, "shard": 0, "task_id": f"{queue_id[:8]}-0-999", "ordering_key": "task:x", "sequence": sequence,
            "payload": {}}
    for change in ({}, {"event_type": "message-teleported"}, {"event_type": "queue-deleted"}, {"slot": 1}, {"slot": 1 << 63},
                   {"sequence": 1 << 60}, {"sequence": (1 << 64) - 1}, {"shard": 1 << 31}, {"body": b"{\n\n\n}"}, {"body": b""}):
        event = {**true, **{key: value for key, value in change.items() if key in true}}
        event["event_id"] = f"{queue_id}-{event['shard']}-{change.get('slot', slot)}-0-{event['event_type']}-0"
        yield (f"sluice.v1.task.{queue}.0.{event['event_type']}", {"ce-id": event["event_id"], "ce-sequence": event["sequence"]},
               change.get("body", json.dumps(event).encode()))


def forged_messages_of_the_bus_reach_no_stream():
    """An event of a newer release, a wrong slot, a future sequence: the stream has what the journal has, and nothing else."""
    with prepared("forged") as cluster:
        node = cluster.any()
        watch = Watch(cluster, "forged", "a")

        def send(count):
            for _ in range(count):
                holds(node.ask("POST", "/v1/queues/forged/messages", {"body": "x"})[0] == 201, "a send")
            want = journal(cluster, "forged")[0]
            until(lambda: len(watch.rows) >= len(want), f"the stream has {len(want)} events")
            return want
        want = send(20)
        equals(cluster, "forged")
        for number in range(10):
            sequence, name = want[-1]
            wire.publish(BUS, [list(forgeries("forged", name[:32], sequence + 1, int(name.split("-")[2]) + 1))[number]])
            want = send(3)
            holds(node.process.poll() is None, f"the node ended after forgery {number}: {node.log()[-300:]}")
        watch.equals(journal(cluster, "forged"))


def a_forged_newest_message_does_not_stop_the_publisher():
    """A node that takes a shard believes no sequence that the journal does not have."""
    with prepared("tail") as cluster:
        holds(cluster.any().ask("POST", "/v1/queues/tail/messages", {"body": "x"})[0] == 201, "a send")
        equals(cluster, "tail")
        sequence, name = journal(cluster, "tail")[0][-1]
        rows = list(forgeries("tail", name[:32], sequence + 1, 9))
        wire.publish(BUS, [rows[0], rows[5]])
        node = cluster.start("a")
        for _ in range(3):
            holds(node.ask("POST", "/v1/queues/tail/messages", {"body": "x"})[0] == 201, "a send")
        until(lambda: node.metric("sluice_bus_published_total") >= 3, "the events are published")


def a_stream_that_the_bus_wakes_and_then_does_not():
    """The server restarts and stays away, and the client changes the node: no gap, nothing twice."""
    with prepared("cut-off", 2, nodes=2) as cluster:
        watch = Watch(cluster, "cut-off", "a")
        load = Load(cluster, "cut-off", pause=0.0)
        for number in range(4):
            seen = len(watch.rows)
            nats("restart 0" if number % 2 else "kill 0")
            until(lambda seen=seen: len(watch.rows) > seen + 50, "events come without the bus")
            watch.go_to("ba"[number % 2])
            nats("mend")
            load.progresses()
        load.finish()
        watch.equals(journal(cluster, "cut-off"))
        equals(cluster, "cut-off")


def a_node_killed_at_random_points():
    with prepared("killed", 2, nodes=2) as cluster:
        load = Load(cluster, "killed", pause=0.0)
        for name in "abab":
            time.sleep(random.uniform(0.3, 1.2))
            cluster.start(name)  # ends the old one with -9
        load.progresses()
        load.finish()
        equals(cluster, "killed")


def a_bus_that_is_away_for_some_seconds():
    """Calls go on, the node says degraded, and recovers by itself."""
    with prepared("outage") as cluster:
        node = cluster.any()
        load = Load(cluster, "outage", pause=0.0)
        until(lambda: node.metric("sluice_bus_published_total") > 50, "events are published")
        nats("kill 0")
        until(lambda: node.metric("sluice_bus_degraded") == 1, "the node is degraded")
        load.progresses()
        status, ready = node.ready()
        holds(status == 200 and ready["bus"]["degraded"] and ready["bus"]["reason"], f"readyz: {ready}")
        until(lambda: node.metric("sluice_bus_lag_events") > 20 and node.metric("sluice_bus_lag_seconds") > 0, "there is a lag")
        nats("start 0")
        until(lambda: node.metric("sluice_bus_degraded") == 0, "the node recovers")
        load.finish()
        equals(cluster, "outage")
        until(lambda: lag(cluster) == 0, "there is no lag")
        holds("event=bus-degraded" in node.log() and "event=bus-recovered" in node.log(), "the log tells of it")


def an_outage_that_is_longer_than_publish_keep():
    """The alarm ends when the bus has the events, not when the cursor has moved."""
    with prepared("overdue", publishKeep="3s", publish="skip") as cluster:
        node = cluster.any()
        holds(node.ask("POST", "/v1/queues/overdue/messages", {"body": "x"})[0] == 201, "a send")
        equals(cluster, "overdue")
        nats("kill 0")
        holds(node.ask("POST", "/v1/queues/overdue/messages", {"body": "x"})[0] == 201, "a send")
        until(lambda: node.metric("sluice_bus_overdue") == 1, "the node says that events wait")
        nats("start 0")
        until(lambda: lag(cluster) == 0, "the bus has the events that the journal has")
        until(lambda: node.metric("sluice_bus_overdue") == 0, "no event waits")


def a_bus_that_is_cut_off():
    """The connection stays, and no answer comes."""
    with prepared("cut", 2) as cluster:
        node = cluster.any()
        load = Load(cluster, "cut", pause=0.0)
        until(lambda: node.metric("sluice_bus_published_total") > 50, "events are published")
        nats("stop 0")
        until(lambda: node.metric("sluice_bus_degraded") == 1, "the node is degraded")
        load.progresses()
        holds(node.metric("sluice_bus_lag_events") > 0, "there is a lag")
        nats("cont 0")
        until(lambda: node.metric("sluice_bus_degraded") == 0, "the node recovers")
        load.finish()
        equals(cluster, "cut")


def a_bus_killed_at_random_points():
    with prepared("restarts", 2) as cluster:
        load = Load(cluster, "restarts", pause=0.0)
        for _ in range(4):
            time.sleep(random.uniform(0.2, 1.0))
            nats("restart 0")
        load.finish()
        equals(cluster, "restarts")


def a_bus_that_loses_its_newest_messages():
    """The files go back to an earlier moment, as after a loss of power."""
    for queue, shards in (("power", 1), ("power-3", 3)):
        with prepared(queue, shards) as cluster:
            node = cluster.any()
            load = Load(cluster, queue, pause=0.0)
            until(lambda node=node: node.metric("sluice_bus_published_total") > 60, "events are published")
            nats("save 0")
            before = node.metric("sluice_bus_published_total")
            until(lambda node=node, before=before: node.metric("sluice_bus_published_total") > before + 60, "more are published")
            nats("lose 0")
            until(lambda node=node: node.metric("sluice_bus_healed_total") > 0, "the node notices")
            load.finish()
            equals(cluster, queue)


def an_owner_that_changes_while_it_publishes():
    bus = BUS + "?prefix=moved"
    with prepared("moved", 3, nodes=3, bus=bus) as cluster:
        until(cluster.settled, "the cluster has a leader")
        load = Load(cluster, "moved", pause=0.0)
        load.progresses()
        for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
            owner = until(lambda: cluster.owner("moved", random.randrange(3)), "a shard has an owner")
            owner.signal(how)
            load.avoid = owner.name
            load.progresses(90)
            if how == signal.SIGSTOP:
                owner.signal(signal.SIGCONT)  # it believes that it owns its shards
            else:
                owner.process.wait()
                cluster.start(owner.name)
            load.avoid = None
        load.finish()
        equals(cluster, "moved", bus)
        wanted = {"coordinator-elected", "coordinator-promoted", "member-health", "ownership-acquired"}
        until(lambda: wanted <= {row[1] for row in cluster_events(bus)}, "the events of the cluster are on the bus")
        rows = cluster_events(bus)
        holds({row[0] for row in rows if row[1].startswith("ownership-") and row[4] == "moved"} >= {"a", "b"},
              f"each node tells of its own shards: {rows}")
        holds([row for row in rows if row[1] == "member-health" and row[2] != row[0]], f"a leader tells of others: {rows}")


def a_stream_with_other_limits_is_refused():
    with prepared("limits") as cluster:
        node = cluster.any()
        holds(node.ask("POST", "/v1/queues/limits/messages", {"body": "x"})[0] == 201, "a send")
        equals(cluster, "limits")
        cluster.options = ("--bus", BUS + "?dedupWindow=1m")
        node = cluster.start("a")
        holds(node.ask("POST", "/v1/queues/limits/messages", {"body": "x"})[0] == 201, "a send without the stream")
        until(lambda: "dedupWindow 2m, not 1m" in node.ready()[1]["bus"].get("reason", ""), "readyz names the limit")
        holds("event=bus-refused" in node.log(), "the log names it")


def of_the_bus(*words, bus=BUS):
    out = subprocess.run([PROGRAM, "events", "--bus", bus, "--json", *words], stdout=subprocess.PIPE, check=True,
                         timeout=PATIENCE).stdout
    return [json.loads(line) for line in out.splitlines()]


def a_stream_for_each_shard():
    """streams=shard: each stream has the events of one shard, those of workflows too. A node is killed meanwhile."""
    with prepared("by.shard", 3, nodes=2, bus=BUS + "?streams=shard") as cluster:
        watch = Watch(cluster, "by.shard", "b")
        load = Load(cluster, "by.shard", pause=0.0)
        load.progresses()
        cluster.start("a")  # ends the old one with -9
        load.progresses()
        load.finish()
        for number in range(20):
            status, answer = cluster.nodes["b"].ask("POST", "/v1/queues/by.shard/messages",
                                                    {"body": "x", "workflow": f"run {number}"})
            holds(status == 201, answer)
        total = equals(cluster, "by.shard")
        watch.equals(journal(cluster, "by.shard"))
        lines = of_the_bus("by.shard")
        holds(len({line["event_id"] for line in lines}) == len(lines) >= total, f"{len(lines)} events, not {total}")
        holds({line["shard"] for line in lines} == {0, 1, 2}, "the command reads the streams of all shards")
        flows = of_the_bus("by.shard", "--type", "workflow-submitted")
        holds(len(flows) == 20, f"{len(flows)} workflows, not 20")
        cluster.options = ("--bus", BUS)  # the other form
        cluster.start("a")
        node = cluster.start("b")
        holds(node.ask("POST", "/v1/queues/by.shard/messages", {"body": "x"})[0] == 201, "a send without the stream")
        until(lambda: "streams=shard" in node.ready()[1]["bus"].get("reason", ""), "readyz names the other form")


def two_stores_on_one_bus():
    """A prefix keeps the queues of one name apart."""
    with prepared("shared") as first, prepared("shared", bus=BUS + "?prefix=staging") as second:
        for count, cluster in ((1, first), (2, second)):
            for _ in range(count):
                holds(cluster.any().ask("POST", "/v1/queues/shared/messages", {"body": "x"})[0] == 201, "a send")
        equals(first, "shared")
        of_second = [name for rows in journal(second, "shared").values() for _, name in rows]

        def staged():
            try:
                return [e["event_id"] for e in of_the_bus("shared", bus=BUS + "?prefix=staging")]
            except subprocess.CalledProcessError:
                return None  # there is no stream yet
        until(lambda: staged() == of_second, "the command reads the streams with the prefix")
        holds(not set(of_second) & {e["event_id"] for e in of_the_bus("shared")}, "the streams are two")
        watch = Watch(second, "shared", "a")
        holds(second.any().ask("POST", "/v1/queues/shared/messages", {"body": "x"})[0] == 201, "a send")
        until(lambda: watch.rows, "the stream goes on")
        watch.over = True


def the_stream_of_the_cluster_has_one_store():
    """Both stores have queues of their own and one prefix. The node "b" is a node of the second store only."""
    bus = BUS + "?prefix=one-store"
    with prepared("mine", bus=bus) as first:
        # A node alone has no election. It takes the shard that is used, and publishes that.
        holds(first.any().ask("POST", "/v1/queues/mine/messages", {"body": "x"})[0] == 201, "a send")
        until(lambda: cluster_events(bus), "the events of the first store are on the bus")
        with prepared("other", nodes=2, bus=bus) as second:
            until(second.settled, "the second cluster has a leader")
            for node in second.live():
                until(lambda node=node: "give each store a prefix" in node.ready()[1]["bus"].get("reason", ""),
                      "readyz names the other store")
                holds("SLUICE-CLUSTER of the bus has the events of store" in node.log(), "the log names the stream")
            holds(second.any().ask("POST", "/v1/queues/other/messages", {"body": "x"})[0] == 201, "a send")
            equals(second, "other", bus)
        holds({row[0] for row in cluster_events(bus)} == {"a"}, "no event of the second store is in the stream")
        holds("reason" not in first.any().ready()[1]["bus"], "the first store goes on")


def a_second_store_on_the_prefix_of_another_is_refused():
    """Its calls go on. The stream keeps the events of the first store alone."""
    with prepared("taken") as first, prepared("taken") as second:
        for cluster in (first, second):
            node = cluster.any()
            holds(node.ask("POST", "/v1/queues/taken/messages", {"body": "x"})[0] == 201, "a send")
            equals(first, "taken")
        until(lambda: "give each store a prefix" in node.ready()[1]["bus"].get("reason", ""), "readyz names the other store")
        until(lambda: "stream SLUICE_taken of the bus has the events of store" in node.log(), "the log names the stream")
        equals(first, "taken")


def too_many_shards_for_a_stream_each_are_refused():
    with prepared("wide", 17, bus=BUS + "?streams=shard") as cluster:
        node = cluster.any()
        holds(node.ask("POST", "/v1/queues/wide/messages", {"body": "x"})[0] == 201, "a send without the stream")
        until(lambda: "17 shards" in node.ready()[1]["bus"].get("reason", ""), "readyz names the limit")


def a_hostile_name_has_a_stream_of_its_own():
    """Dots would divide a subject, and wildcards are no names of queues."""
    with prepared("host.x") as cluster:
        node = cluster.any()
        for name in ("%3E", "host.*", "host.%3E", "a%20b"):
            status, answer = node.ask("PUT", f"/v1/queues/{name}", {})
            holds(status == 400 and "name" in answer["detail"], f"{name}: {status} {answer}")
        for name in ("host", "host.x.y"):
            status, answer = node.ask("PUT", f"/v1/queues/{name}", {"publishKeep": "2d"})
            holds(status == 201, answer)
        for count, name in enumerate(("host", "host.x", "host.x.y"), 1):
            for _ in range(count):
                holds(node.ask("POST", f"/v1/queues/{name}/messages", {"body": "x"})[0] == 201, f"a send to {name}")
        for count, name in enumerate(("host", "host.x", "host.x.y"), 1):
            holds(equals(cluster, name) >= count, f"the events of {name}")


def stage_bus():
    """docs/rollout.md: the bus goes off, shadow, on and back. Messages flow all the time."""
    with prepared("stages") as cluster:
        for state in ("off", "shadow", "on", "off"):
            cluster.options = ("--bus", bus_url(), "--set", f"flags.bus={state}")
            node = cluster.start("a")
            before = sum(len(rows) for rows in stream("stages", BUS)[0].values())
            holds(f"bus={state}" in node.ask("GET", "/v1/node")[1]["flags"], f"the node shows bus={state}")
            load = Load(cluster, "stages", pause=0.0)
            until(lambda load=load: len(load.acked) > 20, f"messages go through with bus={state}")
            load.finish()
            published = "sluice_bus_published_total" in node.text("GET", "/metrics")[1]
            holds(published == (state != "off"), f"the metrics of the bus with bus={state}")
            if state != "off":
                equals(cluster, "stages")
            else:
                after = sum(len(rows) for rows in stream("stages", BUS)[0].values())
                holds(after == before, f"nothing is published with bus=off: {before}, then {after}")
        status, answer = node.ask("PATCH", "/v1/queues/stages", {"publish": "off"})
        holds(status == 200, f"the way back: {answer}")


def a_bad_url_is_refused_at_the_start():
    for url, says in (("kafka://h", "only nats:// and tls://"), ("nats://u:secret@h", "credentials must not be in the URL")):
        done = subprocess.run([PROGRAM, "serve", "--bus", url, "--store", "mem:", "--listen", "127.0.0.1:0"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        text = (done.stderr + done.stdout).decode()
        holds(done.returncode == 2 and says in text and "secret" not in text, f"{url}: {done.returncode} {text}")


def the_leader_of_a_stream_is_killed():
    """Three servers and three replicas."""
    with prepared("leader", 2) as cluster:
        load = Load(cluster, "leader", pause=0.01)
        node = cluster.any()
        until(lambda: node.metric("sluice_bus_published_total") > 50, "events are published")
        for _ in range(2):
            leader = nats("leader SLUICE_leader")
            holds(leader != "-1", "the stream has a leader")
            nats(f"kill {leader}")
            load.progresses()
            time.sleep(1)
            nats(f"start {leader}")
        load.finish()
        equals(cluster, "leader")


CASES = [an_owner_that_changes_while_it_publishes, the_stream_equals_the_journal, every_surface_prints_one_ordering_key, events_of_signals_are_on_the_bus,
         a_node_killed_at_random_points, the_bus_wakes_the_stream_of_another_node, forged_messages_of_the_bus_reach_no_stream,
         a_forged_newest_message_does_not_stop_the_publisher, two_stores_on_one_bus,
         a_second_store_on_the_prefix_of_another_is_refused,
         the_stream_of_the_cluster_has_one_store, a_stream_for_each_shard, too_many_shards_for_a_stream_each_are_refused, stage_bus, a_hostile_name_has_a_stream_of_its_own, a_stream_with_other_limits_is_refused,
         a_bad_url_is_refused_at_the_start]
# The cases that stop the server run one after another.
FAULTS = [an_outage_that_is_longer_than_publish_keep, events_of_workflows_are_on_the_bus, a_bus_that_is_away_for_some_seconds, a_bus_that_is_cut_off, a_bus_killed_at_random_points,
          a_bus_that_loses_its_newest_messages, a_stream_that_the_bus_wakes_and_then_does_not]
if SERVERS == 3:
    CASES, FAULTS = [], [the_leader_of_a_stream_is_killed]


def long(rounds):
    """Kills of nodes and servers, outages and changes of owners at random points under load, then the comparison. In the
    middle a server is cut off for a minute. With three servers, every third round kills the stream's leader."""
    with prepared("chaos", 3, nodes=3) as cluster:
        watch = Watch(cluster, "chaos", "a")
        load = Load(cluster, "chaos", pause=0.005)
        for number in range(rounds):
            time.sleep(random.uniform(0.5, 3))
            what = "minute" if number == rounds // 2 else random.choice(["node", "server", "outage", "stop"])
            victim = random.choice(sorted(cluster.nodes))
            server = random.randrange(SERVERS)
            if SERVERS == 3 and number % 3 == 1:
                what, server = "outage", max(0, int(nats("leader SLUICE_chaos")))
            print(f"# round {number}: {what} {server if what in ('server', 'outage', 'minute') else victim}; "
                  f"{len(load.acked)} acknowledged, {len(watch.rows)} streamed", flush=True)
            if what == "node":
                cluster.start(victim)
            elif what == "server":
                nats(f"restart {server}")
            elif what == "minute":
                nats(f"stop {server}")
                time.sleep(MINUTE)
                nats(f"cont {server}")
            elif what == "outage":
                nats(f"kill {server}")
                time.sleep(random.uniform(1, 8))
                nats(f"start {server}")
            else:
                cluster.nodes[victim].signal(signal.SIGSTOP)
                time.sleep(random.uniform(1, 12))
                cluster.nodes[victim].signal(signal.SIGCONT)
        load.finish()
        equals(cluster, "chaos")
        watch.equals(journal(cluster, "chaos"))
        print(f"# {len(watch.rows)} events of /v1/stream equal", flush=True)


def run(case):
    """Its lines of TAP, without the number."""
    try:
        case()
        return f"- {case.__name__}", []
    except (Wrong, OSError, subprocess.SubprocessError, KeyError, TypeError):
        return f"- {case.__name__}", traceback.format_exc().splitlines()


def main():
    words, at_once = sys.argv[1:], AT_ONCE
    cases = CASES
    if words[:1] == ["--faults"]:
        words, cases, at_once = words[1:], FAULTS, 1
    cases = [case for case in cases if not words or any(word in case.__name__ for word in words)]
    if words[:1] == ["--long"]:
        cases = [lambda: long(int(words[1]))]
        cases[0].__name__ = "kills_and_outages_at_random_points"
    print(f"1..{len(cases)}", flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(at_once) as threads:
        for number, (name, trace) in enumerate(threads.map(run, cases), 1):
            failed += bool(trace)
            print("".join(f"# {line}\n" for line in trace) + f"{'not ok' if trace else 'ok'} {number} {name}", flush=True)
            if at_once == 1:
                nats("mend")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
