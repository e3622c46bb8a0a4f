#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Many jobs with signals: processes that work are killed with -9, and so are nodes.

    crowd.py QUEUE MOST PLACES LOG

is a worker that holds at most so many jobs. PLACES is a file with the addresses of the nodes, one in each line.

A worker holds several jobs and polls for all of them. Each fact that it learns is one line of its log, written at once, so
a kill loses at most what was not known. Crowd starts workers and senders, and compares the logs with the journal.
"""
import collections
import os
import random
import secrets
import signal
import ssl
import subprocess
import sys
import threading
import time

from nodes import PATIENCE, die_with_parent, holds, until
from remote import Remote
from signalling import Nodes, acknowledge, again, claim, history, poll, post, send_job, signal_to

SIGNALS = 10  # of each job
ASKS = (4, 8)  # these are questions: missed if the lock ends before an answer. The others are steers, and stay.
LOCK = 15.0  # seconds
SENDERS = 4


def now_ms():
    return int(time.time() * 1000)


class Worker:
    def __init__(self, most, places, log):
        self.most, self.places, self.held, self.renewed = int(most), places, {}, time.monotonic()
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.trust = ssl.create_default_context(cafile=os.environ["SLUICE_CA"]) if "SLUICE_CA" in os.environ else None

    def any(self):
        with open(self.places, encoding="ascii") as file:
            return Remote(random.choice(file.read().split()), self.trust)

    def note(self, *words):
        os.write(self.log, (" ".join(map(str, words)) + "\n").encode())

    def run(self):
        while True:
            self.take()
            self.renew()
            if self.held:
                for row in poll(self.any, list(self.held), "1s"):
                    self.serve(row)

    def take(self):
        space = self.most - len(self.held)
        for message in claim(self.any, f"{LOCK}s", "0s" if self.held else "1s", space) if space else []:
            self.held[message["token"]] = message["id"]
            self.note("claimed", message["id"], message["token"], message["attempt"], now_ms())
            if message["attempt"] > 1:  # a worker that was killed may have left nothing but the ack of the job
                listed = history(self.any, message["id"])
                if len(listed) == SIGNALS and all(row["state"] != "pending" for row in listed):
                    self.finish(message["token"])

    def renew(self):
        if not self.held or time.monotonic() < self.renewed + LOCK / 3:
            return
        self.renewed = time.monotonic()
        again(lambda: post(self.any, "/renew", {"tokens": list(self.held), "visibility": f"{LOCK}s"}), "locks are renewed")

    def serve(self, row):
        token, number = row["token"], row.get("number")
        if token not in self.held:
            return
        if row["code"] != "OK":
            self.note("lost", self.held.pop(token), token)
            return
        job = self.held[token]
        self.note("got", job, token, number, row["payload"]["n"] if row["kind"] == "steer" else row["payload"])
        began = now_ms()
        status, outcome = acknowledge(self.any, token, number, token)
        reason = "acked" if status == 200 else outcome.get("reason")
        self.note(reason, job, token, number, began)
        if reason in ("lock-expired", "token-mismatch"):
            del self.held[token]
        elif number == SIGNALS:
            self.finish(token)

    def finish(self, token):
        status, answer = again(lambda r=secrets.token_hex(16): post(self.any, "/ack", {"tokens": [token]}, r),
                               "a job is acknowledged")
        done = status == 200 and answer["outcomes"][0]["code"] == "OK"
        self.note("done" if done else "not-done", self.held.pop(token), token)


class Crowd:
    """Workers, senders, and what they must not do."""

    def __init__(self, cluster, jobs, workers, most):
        self.most, self.cluster, self.wrong, self.sent, self.killed, self.started = most, cluster, [], 0, 0, 0
        self.places, self.lock = os.path.join(cluster.folder, "places"), threading.Lock()
        self.tell_places()
        self.jobs = [send_job(cluster.any) for _ in range(jobs)]
        self.workers = [self.start_worker() for _ in range(workers)]
        self.senders = [threading.Thread(target=self.send, args=(part,), daemon=True) for part in range(SENDERS)]
        for thread in self.senders:
            thread.start()

    def tell_places(self):
        with open(self.places + ".new", "w", encoding="ascii") as file:
            file.write("\n".join(node.address for node in self.cluster.live()))
        os.replace(self.places + ".new", self.places)

    def any(self):
        return until(lambda: self.cluster.live() and self.cluster.any(), "a node lives")

    def send(self, part):
        try:
            for number in range(1, SIGNALS + 1):
                for job in self.jobs[part::SENDERS]:
                    kind, payload = ("ask", number) if number in ASKS else ("steer", {"n": number})
                    row = signal_to(self.any, job, kind, payload)
                    holds(row["number"] == number, f"signal {number} of {job} has the number {row['number']}")
                    with self.lock:
                        self.sent += 1
        except Exception as why:
            self.wrong.append(f"{type(why).__name__}: {why}")

    def log_path(self, number):
        return os.path.join(self.cluster.folder, f"worker-{number}.log")

    def start_worker(self):
        number, self.started = self.started, self.started + 1
        said = open(self.log_path(number) + ".err", "wb")
        command = [sys.executable, "-B", os.path.abspath(__file__), Nodes.queue, str(self.most), self.places,
                   self.log_path(number)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=said, preexec_fn=die_with_parent)
        said.close()
        process.number = number
        return process

    def kill_worker(self):
        slot = random.randrange(len(self.workers))
        victim = self.workers[slot]
        self.ended_alone(victim)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        self.killed += 1
        self.workers[slot] = self.start_worker()

    def ended_alone(self, worker):
        if worker.poll() is not None:
            with open(self.log_path(worker.number) + ".err", encoding="utf-8") as file:
                self.wrong.append(f"worker {worker.number} ended: {file.read()[-400:]}")

    def kill_owner(self):
        victim = self.cluster.owner(Nodes.queue, 0) or self.cluster.any()
        victim.signal(signal.SIGKILL)
        victim.process.wait()
        self.cluster.start(victim.name)
        self.tell_places()

    def facts(self, *kinds):
        """The lines of all logs: lists of words."""
        found = []
        for number in range(self.started):
            if os.path.exists(self.log_path(number)):
                with open(self.log_path(number), encoding="ascii") as file:
                    found += [line.split() for line in file if not kinds or line.split(" ", 1)[0] in kinds]
        return found

    def until_acked(self, count):
        until(lambda: self.wrong or len(self.facts("acked")) >= count or self.finished(), f"{count} signals are acked",
              10 * PATIENCE)

    def finished(self):
        for worker in self.workers:
            self.ended_alone(worker)
        status, stats = again(lambda: self.any().ask("GET", f"/v1/queues/{Nodes.queue}/stats"), "the jobs are counted")
        holds(status == 200, stats)
        return stats["processed"] == len(self.jobs)

    def finish(self):
        until(lambda: self.wrong or self.finished(), "every job ends", 10 * PATIENCE)
        for thread in self.senders:
            thread.join(timeout=PATIENCE)
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.check()

    def check(self):
        holds(not self.wrong, self.wrong[:3])
        holds(self.sent == SIGNALS * len(self.jobs), f"{self.sent} signals were sent")
        facts = collections.defaultdict(list)
        for kind, job, token, *more in self.facts():
            facts[job].append((kind, token, *more))
        missed = sum(self.check_job(job, facts[job]) for job in self.jobs)
        late = sum(row[0] == "signal-settled" for rows in facts.values() for row in rows)
        print(f"# {len(self.jobs)} jobs, {self.sent} signals, {missed} missed; {self.killed} workers were killed; "
              f"{late} acks came after another", flush=True)

    def check_job(self, job, facts):
        """Returns how many of its questions were missed."""
        listed = history(self.any, job)
        holds([row["number"] for row in listed] == list(range(1, SIGNALS + 1)), (job, listed))
        missed = {row["number"]: row["endedAt"] for row in listed if row["state"] == "missed"}
        holds(set(missed) <= set(ASKS), f"{job} missed {missed}")
        self.check_locks(job, facts, missed)
        acked = [row for row in listed if row["number"] not in missed]
        holds(all(row["state"] == "acked" for row in acked), (job, listed))
        times = [row["endedAt"] for row in acked]
        holds(times == sorted(times), f"{job} is out of order: {times}")
        self.check_effects(job, facts, {str(row["number"]): row["answer"] for row in acked})
        return len(missed)

    def check_locks(self, job, facts, missed):
        """A question is missed at the end of a lock only: never between a claim and an ack with its token."""
        claims = [row for row in facts if row[0] == "claimed"]
        holds(not missed or any(int(row[2]) > 1 for row in claims), f"{job} missed {missed} under its first lock: {claims}")
        for _, token, _, claimed in claims:
            last = max([int(row[3]) for row in facts if row[0] == "acked" and row[1] == token], default=0)
            for number, ended in missed.items():
                holds(not int(claimed) < ended < last,
                      f"{job} missed {number} at {ended}, and {token} was valid from {claimed} to {last}")

    def check_effects(self, job, facts, answers):
        """One effect of each signal, by the holder that the journal names, in order; each with its own payload."""
        effects = [(row[2], row[1]) for row in facts if row[0] == "acked"]
        holds(len(effects) == len(dict(effects)), f"a signal of {job} has two effects: {effects}")
        for number, token in effects:
            holds(answers.get(number) == token, f"signal {number} of {job}: {answers.get(number)}, not {token}")
        for token, number in (row[1:3] for row in facts if row[0] == "signal-settled"):  # by an attempt without an answer
            holds(answers.get(number) == token, f"signal {number} of {job} came to {token} after its end")
        for holder in {token for _, token in effects}:
            done = [int(number) for number, token in effects if token == holder]
            holds(done == sorted(done), f"{holder} acked out of order: {done}")
        for token, number, payload in (row[1:] for row in facts if row[0] == "got"):
            holds(number == payload, f"signal {number} of {token} has the payload of {payload}")
        ends = [row for row in facts if row[0] == "done"]
        holds(len(ends) <= 1, f"{job} was acknowledged twice: {ends}")


if __name__ == "__main__":
    Nodes.queue = sys.argv[1]
    Worker(*sys.argv[2:]).run()
