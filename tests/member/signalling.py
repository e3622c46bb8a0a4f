# SPDX-License-Identifier: Apache-2.0
"""Nodes with queues for signals, and the calls of senders and workers, over HTTP.

The store is a directory, under with-radosgw a bucket. With SLUICE_TEST_TLS the nodes and their clients use TLS.
"""
import http.client
import json
import os
import secrets
import ssl
import subprocess

from nodes import PATIENCE, Cluster, holds, until
from remote import Remote, send

TLS = "SLUICE_TEST_TLS" in os.environ
NODES = 5  # two are killed and not started again: to see a node as a member takes a lease


class Line:
    """One connection to a node, on which a poll waits. A test can end it at any moment."""

    def __init__(self, cluster, node):
        self.http = Remote(node.address, cluster.trust).connect(30)
        self.http.connect()

    def poll(self, token, wait="20s"):
        send(self.http, "POST", f"/v1/queues/{Nodes.queue}/signals/receive", {"tokens": [token], "wait": wait})

    def answer(self):
        answer = self.http.getresponse()
        return answer.status, json.loads(answer.read().decode())

    def close(self):
        self.http.close()


class Nodes(Cluster):
    """Nodes, and a queue of one shard for each case."""

    queue = "jobs"  # that of the case

    def __init__(self):
        options = ()
        if TLS:
            self.certify()
            options = ("--tls-certificate", self.cert, "--tls-key", self.key)
        super().__init__(*options, coord="store:", nodes=NODES)
        try:
            until(self.settled, "the cluster has a leader")
        except BaseException:
            self.__exit__()
            raise

    def certify(self):
        folder = os.environ["SLUICE_TEST_TLS"]
        self.cert, self.key = (os.path.join(folder, secrets.token_hex(4) + end) for end in (".crt", ".key"))
        done = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                               "-keyout", self.key, "-out", self.cert, "-days", "2", "-subj", "/CN=node", "-addext",
                               "subjectAltName=IP:127.0.0.1"], capture_output=True)
        holds(done.returncode == 0, done.stderr.decode())
        os.environ["SLUICE_CA"] = self.cert  # the nodes trust each other
        self.trust = ssl.create_default_context(cafile=self.cert)

    def begin(self, queue):
        """A new queue, with an owner. The nodes of former cases that were killed have no claim on it."""
        Nodes.queue = queue
        status, answer = again(lambda: self.any().ask("PUT", f"/v1/queues/{queue}", {
            "shards": 1, "retainBody": True, "failureStrategy.maxRetries": 1000, "failureStrategy.backoff.initial": "20ms",
            "visibilityTimeout": "60s"}), "a queue is created")
        holds(status in (200, 201), answer)
        until(self.used_owner, "the queue has an owner", 3 * self.lease + 30)

    def used_owner(self):
        """The owner. Nodes own only what is used."""
        post(self.any, "/receive", {"wait": "0s"})
        return self.owner(Nodes.queue, 0)

    def owned_by_another(self, former):
        return any((Nodes.queue, 0) in n.owned() for n in self.live() if n is not former)

    def roles(self):
        """The owner, and two other nodes."""
        owner = until(self.used_owner, "the queue has an owner", 3 * self.lease + 30)
        others = [n for n in self.live() if n is not owner]
        return owner, others[0], others[1]


def pick(node):
    """A node, or how to choose one for each attempt."""
    return node() if callable(node) else node


def post(node, path, body, request=None):
    return pick(node).ask("POST", f"/v1/queues/{Nodes.queue}{path}", body, request or secrets.token_hex(16))


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
    return answer["id"]


def claim(node, lock="60s", wait="5s", most=1):
    request = secrets.token_hex(16)  # of each attempt: the jobs of an answer that was lost come again
    status, answer = again(lambda: post(node, "/receive", {"wait": wait, "visibility": lock, "max": most}, request),
                           "a job is claimed")
    holds(status == 200, answer)
    return answer["messages"]


def claim_one(node, lock="60s"):
    return until(lambda: claim(node, lock), "a job is claimed")[0]


def signal_to(node, job, kind, payload, **more):
    request = secrets.token_hex(16)
    status, answer = again(lambda: post(node, f"/messages/{job}/signals", {"kind": kind, "payload": payload, **more}, request),
                           "a signal is sent")
    holds(status in (200, 201), answer)
    return answer["signals"][0]


def steer(node, job, payload):
    return signal_to(node, job, "steer", payload)


def poll(node, tokens, wait="5s"):
    status, answer = again(lambda: post(node, "/signals/receive", {"tokens": tokens, "wait": wait}), "a poll is answered")
    holds(status == 200, answer)
    return answer["signals"]


def receive(node, token):
    """The signals that wait for the holder, at least one."""
    return until(lambda: [row for row in poll(node, [token]) if row["code"] == "OK"], "a signal comes", 2 * PATIENCE)


def acknowledge(node, token, number, answer="done"):
    return again(lambda r=secrets.token_hex(16): post(
        node, "/signals/ack", {"token": token, "number": number, "answer": answer}, r), "a signal is acknowledged")


def history(node, job):
    status, answer = again(lambda: pick(node).ask("GET", f"/v1/queues/{Nodes.queue}/messages/{job}/signals"),
                           "the signals are listed")
    holds(status == 200, answer)
    return sorted(answer["signals"], key=lambda row: row.get("number", 0))


def all_acked(node, job):
    until(lambda: all(row["state"] == "acked" for row in history(node, job)), "every signal is acked")
