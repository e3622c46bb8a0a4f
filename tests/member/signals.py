#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Signals through three real nodes: one owns the queue, a worker asks the second, a sender the third.

    signals.py [--long JOBS]

SLUICE names the program. The store is a directory, under with-radosgw a bucket. With SLUICE_TEST_TLS the nodes and their
clients use TLS. --long runs the last case with so many jobs, 10 signals each, while nodes and workers are killed.
"""
import http.client
import json
import os
import random
import secrets
import signal
import ssl
import subprocess
import sys
import threading
import time
import traceback

from nodes import BUCKET, PATIENCE, Cluster, Wrong, holds, until

QUEUE = "jobs"
TLS = "SLUICE_TEST_TLS" in os.environ
SIGNALS = 10  # of each job
SHORT_JOBS = 12
WORKERS = 4
LOCK = 5.0  # seconds, of a job whose worker is killed


class Line:
    """One connection to a node. A test can end it at any moment."""

    def __init__(self, cluster, address):
        if cluster.trust:
            self.http = http.client.HTTPSConnection(address, timeout=30, context=cluster.trust)
        else:
            self.http = http.client.HTTPConnection(address, timeout=30)

    def send(self, method, path, body=None, request=None):
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if request:
            headers["Sluice-Request"] = request
        self.http.request(method, f"/v1/queues/{QUEUE}{path}", json.dumps(body) if body is not None else None, headers)

    def answer(self):
        answer = self.http.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text) if text else None

    def close(self):
        self.http.close()


class Nodes(Cluster):
    """Three nodes and a queue of one shard, with version 6 of the rules."""

    def __init__(self):
        self.trust, options = None, ()
        if TLS:
            self.certify()
            options = ("--tls-certificate", self.cert, "--tls-key", self.key)
        super().__init__(*options, coord="store:")
        self.wait_ready()

    def certify(self):
        folder = os.environ["SLUICE_TEST_TLS"]
        self.cert, self.key = (os.path.join(folder, secrets.token_hex(4) + end) for end in (".crt", ".key"))
        done = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                               "-keyout", self.key, "-out", self.cert, "-days", "2", "-subj", "/CN=node", "-addext",
                               "subjectAltName=IP:127.0.0.1"], capture_output=True)
        holds(done.returncode == 0, done.stderr.decode())
        os.environ["SLUICE_CA"] = self.cert  # the nodes trust each other
        self.trust = ssl.create_default_context(cafile=self.cert)

    def start(self, name, program=None):
        node = super().start(name)
        if self.trust:
            node.text = lambda *words, **more: self.text(node, *words, **more)
        return node

    def text(self, node, method, path, body=None, request=None, timeout=25, address=None):
        line = http.client.HTTPSConnection(address or node.address, timeout=timeout, context=self.trust)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if request:
            headers["Sluice-Request"] = request
        try:
            line.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        finally:
            line.close()

    def wait_ready(self):
        until(self.settled, "the cluster has a leader")
        # A queue that keeps bodies begins with version 6.
        status, answer = self.any().ask("PUT", f"/v1/queues/{QUEUE}", {
            "shards": 1, "retainBody": True, "failureStrategy.maxRetries": 1000, "failureStrategy.backoff.initial": "20ms",
            "visibilityTimeout": "60s"})
        holds(status in (200, 201), answer)
        until(self.used_owner, "the queue has an owner", 3 * self.lease + 30)

    def used_owner(self):
        """The owner. Nodes own only what is used."""
        post(self.any, "/receive", {"wait": "0s"})
        return self.owner(QUEUE, 0)

    def roles(self):
        """The owner, and two other nodes."""
        owner = until(self.used_owner, "the queue has an owner", 3 * self.lease + 30)
        others = [n for n in self.live() if n is not owner]
        return owner, others[0], others[1]

    def line(self, node):
        return Line(self, node.address)


def pick(node):
    """A node, or how to choose one for each attempt."""
    return node() if callable(node) else node


def post(node, path, body, request=None):
    return pick(node).ask("POST", f"/v1/queues/{QUEUE}{path}", body, request or secrets.token_hex(16))


def again(question, what):
    """Asks until the answer is one of the call itself: a node that has just lost its owner may need some attempts."""
    def once():
        try:
            status, answer = question()
        except (OSError, http.client.HTTPException):
            return None
        return (status, answer) if status < 500 and status != 429 else None
    return until(once, what, 2 * PATIENCE)


def send_job(node, body="job"):
    status, answer = again(lambda r=secrets.token_hex(16): post(node, "/messages", {"body": body}, r), "a job is sent")
    holds(status == 201, answer)
    return answer["id"] if "id" in answer else answer["messages"][0]["id"]


def claim(node, lock="60s"):
    status, answer = again(lambda: post(node, "/receive", {"wait": "5s", "visibility": lock}), "a job is claimed")
    holds(status == 200, answer)
    return answer["messages"][0] if answer["messages"] else None


def rows(answer):
    return answer if isinstance(answer, list) else answer["signals"]


def steer(node, job, payload, request=None, **more):
    request = request or secrets.token_hex(16)
    status, answer = again(lambda: post(node, f"/messages/{job}/signals", {"kind": "steer", "payload": payload, **more},
                                        request), "a signal is sent")
    holds(status in (200, 201), answer)
    return rows(answer)[0]


def poll(node, token, wait="5s"):
    status, answer = again(lambda: post(node, "/signals/receive", {"tokens": [token], "wait": wait}), "a poll is answered")
    holds(status == 200, answer)
    return rows(answer)


def receive(node, token):
    """The signals that wait for the holder, at least one."""
    return until(lambda: [row for row in poll(node, token) if row["code"] == "OK"], "a signal comes", 2 * PATIENCE)


def acknowledge(node, token, number, answer="done"):
    status, outcome = again(lambda r=secrets.token_hex(16): post(
        node, "/signals/ack", {"token": token, "number": number, "answer": answer}, r), "a signal is acknowledged")
    return status, outcome


def history(node, job):
    status, answer = again(lambda: pick(node).ask("GET", f"/v1/queues/{QUEUE}/messages/{job}/signals"), "the signals are listed")
    holds(status == 200, answer)
    return sorted(rows(answer), key=lambda row: row.get("number", 0))


def ended(node, job, state="acked"):
    until(lambda: all(row["state"] == state for row in history(node, job)), f"the signal is {state}")


# ---- cases: each gets a cluster of its own

def a_signal_sent_at_one_node_reaches_a_worker_of_another(cluster):
    owner, worker, sender = cluster.roles()
    job, payload = send_job(sender), {"speed": 2}
    held = claim(worker)
    line = cluster.line(worker)
    line.send("POST", "/signals/receive", {"tokens": [held["token"]], "wait": "20s"})
    steer(sender, job, payload)
    status, answer = line.answer()
    holds(status == 200 and rows(answer)[0]["payload"] == payload, answer)
    holds(acknowledge(worker, held["token"], rows(answer)[0]["number"])[0] == 200, "the ack is refused")
    holds(history(sender, job)[0]["state"] == "acked", history(sender, job))
    line.close()


def the_owner_is_killed_between_commit_and_delivery(cluster):
    owner, worker, sender = cluster.roles()
    job = send_job(sender)
    held = claim(worker, "300s")
    line = cluster.line(worker)
    line.send("POST", "/signals/receive", {"tokens": [held["token"]], "wait": "20s"})
    owner.signal(signal.SIGSTOP)  # it commits nothing and hands out nothing more
    owner.signal(signal.SIGKILL)
    owner.process.wait()
    steer(sender, job, {"n": 1})  # by the next owner, or directly
    line.answer()  # the poll came back, with the signal or empty
    line.close()
    got = receive(worker, held["token"])
    holds([row["number"] for row in got] == [1], got)
    acknowledge(worker, held["token"], 1)
    ended(sender, job)


def the_owner_is_killed_after_the_answer(cluster):
    owner, worker, sender = cluster.roles()
    job = send_job(sender)
    held = claim(worker, "300s")
    steer(sender, job, {"n": 1})
    owner.signal(signal.SIGKILL)
    owner.process.wait()
    got = receive(worker, held["token"])
    holds(got[0]["payload"] == {"n": 1}, got)
    acknowledge(worker, held["token"], 1)
    ended(sender, job)


def the_owner_is_stopped_past_its_lease_and_resumed(cluster):
    owner, worker, sender = cluster.roles()
    job = send_job(sender)
    held = claim(worker, "300s")
    owner.signal(signal.SIGSTOP)
    try:
        steer(sender, job, {"n": 1})
        holds(receive(worker, held["token"])[0]["number"] == 1, "another signal")
        acknowledge(worker, held["token"], 1)
    finally:
        owner.signal(signal.SIGCONT)
    status, outcome = acknowledge(owner, held["token"], 1)  # by a former owner that does not know yet
    holds(status == 409 or "signal-settled" in json.dumps(outcome), (status, outcome))
    listed = history(owner, job)
    holds(len(listed) == 1 and listed[0]["state"] == "acked", listed)


def the_worker_is_killed_after_delivery(cluster):
    owner, worker, sender = cluster.roles()
    job = send_job(sender)
    held = claim(worker, f"{LOCK}s")
    steer(sender, job, {"n": 1})
    again(lambda: post(sender, f"/messages/{job}/signals", {"kind": "ask", "payload": "how far?"}), "a question is sent")
    holds(receive(worker, held["token"])[0]["number"] == 1, "another signal")
    successor = until(lambda: claim(worker), "the lock ends")  # the worker never acknowledges
    holds(successor["id"] == job, successor)
    with_it = successor.get("signals") or receive(worker, successor["token"])
    holds([(row["number"], row["deliveries"]) for row in with_it] == [(1, 2)], with_it)
    status, outcome = acknowledge(worker, held["token"], 1)
    holds(status in (409, 410), (status, outcome))  # the old token has no effect
    acknowledge(worker, successor["token"], 1)
    states = [row["state"] for row in history(sender, job)]
    holds(states == ["acked", "missed"], states)


def the_connection_of_a_poll_is_cut(cluster):
    owner, worker, sender = cluster.roles()
    job = send_job(sender)
    held = claim(worker, "300s")
    body = {"tokens": [held["token"]], "wait": "20s"}
    for stage in range(3):  # before the request, while it waits, and when its answer is on the way
        line = cluster.line(worker)
        line.http.connect()
        if stage > 0:
            line.send("POST", "/signals/receive", body)
        if stage == 1:
            time.sleep(0.2)
            line.close()
        steer(sender, job, {"n": stage + 1})
        line.close()
        got = receive(worker, held["token"])
        holds(got[0]["number"] == stage + 1 and got[0]["payload"] == {"n": stage + 1}, got)
        holds(acknowledge(worker, held["token"], stage + 1)[0] == 200, "the ack is refused")
    ended(sender, job)


class Crowd:
    """Jobs with signals. A worker that is killed forgets its token; the next holder goes on."""

    def __init__(self, cluster, jobs):
        self.cluster, self.jobs, self.wrong = cluster, {}, []
        self.acked, self.done, self.lock, self.working = {}, set(), threading.Lock(), True
        for _ in range(jobs):
            self.jobs[send_job(self.any)] = 0
        self.threads = [threading.Thread(target=self.guard, args=(self.work,), daemon=True) for _ in range(WORKERS)]
        self.threads += [threading.Thread(target=self.guard, args=(self.send, part), daemon=True) for part in range(2)]
        for thread in self.threads:
            thread.start()

    def guard(self, run, *words):
        try:
            run(*words)
        except Exception as why:
            self.wrong.append(f"{type(why).__name__}: {why}")

    def any(self):
        return until(lambda: self.cluster.live() and self.cluster.any(), "a node lives")

    def send(self, part):
        mine = list(self.jobs)[part::2]
        for number in range(1, SIGNALS + 1):
            for job in mine:
                request = secrets.token_hex(16)
                status, answer = again(lambda: post(self.any, f"/messages/{job}/signals",
                                                    {"kind": "steer", "payload": {"n": number}}, request), "a signal is sent")
                holds(status in (200, 201), answer)

    def work(self):
        while self.working:
            held = claim(self.any, f"{LOCK * 3}s")
            if held:
                self.serve(held)

    def serve(self, held):
        while self.working:
            if random.random() < 0.03:
                return  # killed
            got = poll(self.any, held["token"], "2s")
            for row in got:
                if row["code"] != "OK":
                    return  # the lock is over
                if random.random() < 0.03:
                    return  # killed after delivery
                if not self.effect(held, row):
                    return
                if row["number"] == SIGNALS:
                    status, _ = again(lambda r=secrets.token_hex(16): post(
                        self.any, "/ack", {"tokens": [held["token"]]}, r), "a job is acknowledged")
                    with self.lock:
                        if status == 200:
                            self.done.add(held["id"])
                    return

    def effect(self, held, row):
        status, outcome = acknowledge(self.any, held["token"], row["number"], held["token"])
        if status != 200:
            return "signal-settled" in json.dumps(outcome)  # an attempt without an answer had done it
        with self.lock:
            order = self.acked.setdefault(held["id"], [])
            if row["number"] in order:
                self.wrong.append(f"signal {row['number']} of {held['id']} has two effects")
            if row["payload"] != {"n": row["number"]}:
                self.wrong.append(f"signal {row['number']} of {held['id']} has the payload {row['payload']}")
            order.append(row["number"])
        return True

    def finish(self):
        until(lambda: self.wrong or len(self.done) == len(self.jobs), "every job ends", 10 * PATIENCE)
        self.working = False
        for thread in self.threads:
            thread.join(timeout=PATIENCE)
        holds(not self.wrong, self.wrong[:3])
        for job in self.jobs:
            listed = history(self.any, job)
            states = [(row["number"], row["state"]) for row in listed]
            holds(states == [(n + 1, "acked") for n in range(SIGNALS)], (job, states))
            times = [row["endedAt"] for row in listed]
            holds(times == sorted(times), f"{job} is out of order: {times}")
            order = self.acked.get(job, [])
            holds(order == sorted(order), f"{job} is out of order: {order}")


def jobs_with_signals_while_nodes_are_killed(cluster, jobs=SHORT_JOBS, kills=2):
    crowd = Crowd(cluster, jobs)
    for _ in range(kills):
        before = sum(len(order) for order in crowd.acked.values())
        until(lambda: crowd.wrong or len(crowd.done) == len(crowd.jobs)
              or sum(len(order) for order in crowd.acked.values()) > before + jobs, "signals go through", 5 * PATIENCE)
        victim = cluster.owner(QUEUE, 0) or cluster.any()
        victim.signal(signal.SIGKILL)
        victim.process.wait()
        cluster.start(victim.name)
    crowd.finish()


CASES = [
    a_signal_sent_at_one_node_reaches_a_worker_of_another,
    the_owner_is_killed_after_the_answer,
    the_owner_is_killed_between_commit_and_delivery,
    the_owner_is_stopped_past_its_lease_and_resumed,
    the_worker_is_killed_after_delivery,
    the_connection_of_a_poll_is_cut,
    jobs_with_signals_while_nodes_are_killed,
]


def main():
    cases = [(case.__name__.replace("_", " "), case) for case in CASES]
    if len(sys.argv) == 3 and sys.argv[1] == "--long":
        jobs = int(sys.argv[2])
        cases = [(f"{jobs} jobs with signals while nodes are killed",
                  lambda c: jobs_with_signals_while_nodes_are_killed(c, jobs, 20))]
    elif len(sys.argv) > 1:
        cases = [one for one in cases if sys.argv[1] in one[0]]
    print(f"1..{len(cases)}")
    failed = 0
    for number, (name, case) in enumerate(cases, 1):
        try:
            with Nodes() as cluster:
                case(cluster)
            print(f"ok {number} - {name}", flush=True)
        except Exception as why:
            failed += 1
            print(f"not ok {number} - {name}\n# {type(why).__name__}: {why}", flush=True)
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
