#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Signals through real nodes: one owns the queue, a worker asks the second, a sender the third.

    signals.py [--long JOBS | PART OF A NAME]

SLUICE names the program. signalling.py says which store the nodes use. --long kills nodes and workers under so many jobs,
10 signals each, and cuts connections after every byte.
"""
import http.client
import os
import signal
import subprocess
import sys
import traceback

from crowd import SIGNALS, Crowd
from nodes import BUCKET, PATIENCE, PROGRAM, die_with_parent, holds, until
from proxy import Cutter
from signalling import (TLS, Line, Nodes, acknowledge, all_acked, claim, claim_one, history, poll, receive, send_job, signal_to,
                        steer)

SHORT_JOBS = 12
CUT_EVERY = 40 if BUCKET or TLS else 10  # bytes
LOCK = 5.0  # seconds, of a job whose worker is killed


# ---- cases: each has a queue of its own

def a_signal_sent_at_one_node_reaches_a_worker_of_another(cluster):
    owner, worker, sender = cluster.roles()
    job, payload = send_job(sender), {"speed": 2}
    held = claim_one(worker)
    line = Line(cluster, worker)
    line.poll(held["token"])
    steer(sender, job, payload)
    status, answer = line.answer()
    holds(status == 200 and answer["signals"][0]["payload"] == payload, answer)
    holds(acknowledge(worker, held["token"], answer["signals"][0]["number"])[0] == 200, "the ack is refused")
    holds(history(sender, job)[0]["state"] == "acked", history(sender, job))
    line.close()


def the_owner_is_killed_between_commit_and_delivery(cluster):
    owner, worker, sender = cluster.roles()
    job = send_job(sender)
    held = claim_one(worker, "300s")
    line = Line(cluster, worker)
    line.poll(held["token"])
    owner.signal(signal.SIGSTOP)  # it commits nothing and hands out nothing more
    owner.signal(signal.SIGKILL)
    owner.process.wait()
    steer(sender, job, {"n": 1})  # by the next owner, or directly
    line.answer()  # the poll came back, with the signal or empty
    line.close()
    got = receive(worker, held["token"])
    holds([row["number"] for row in got] == [1], got)
    acknowledge(worker, held["token"], 1)
    all_acked(sender, job)


def the_owner_is_killed_after_the_answer(cluster):
    owner, worker, sender = cluster.roles()
    job = send_job(sender)
    held = claim_one(worker, "300s")
    steer(sender, job, {"n": 1})
    owner.signal(signal.SIGKILL)
    owner.process.wait()
    got = receive(worker, held["token"])
    holds(got[0]["payload"] == {"n": 1}, got)
    acknowledge(worker, held["token"], 1)
    all_acked(sender, job)


def the_owner_is_stopped_past_its_lease_and_resumed(cluster):
    owner, worker, sender = cluster.roles()
    job = send_job(sender)
    held = claim_one(worker, "300s")
    owner.signal(signal.SIGSTOP)
    try:
        steer(sender, job, {"n": 1})
        holds(receive(worker, held["token"])[0]["number"] == 1, "another signal")
        acknowledge(worker, held["token"], 1)
        until(lambda: (poll(worker, [held["token"]], "1s"), cluster.owned_by_another(owner))[1], "the lease ends",
              3 * cluster.lease + 30)
    finally:
        owner.signal(signal.SIGCONT)
    status, outcome = acknowledge(owner, held["token"], 1)  # by a former owner that does not know yet
    holds(status == 409 and outcome["reason"] == "signal-settled", (status, outcome))
    listed = history(owner, job)
    holds(len(listed) == 1 and listed[0]["state"] == "acked", listed)


def the_worker_is_killed_after_delivery(cluster):
    owner, worker, sender = cluster.roles()
    job = send_job(sender)
    held = claim_one(worker, f"{LOCK}s")
    steer(sender, job, {"n": 1})
    signal_to(sender, job, "ask", "how far?")
    holds(receive(worker, held["token"])[0]["number"] == 1, "another signal")
    [successor] = until(lambda: claim(worker), "the lock ends")  # the worker never acknowledges
    holds(successor["id"] == job, successor)
    with_it = successor.get("signals") or receive(worker, successor["token"])
    holds([(row["number"], row["deliveries"]) for row in with_it] == [(1, 2)], with_it)
    status, outcome = acknowledge(worker, held["token"], 1)
    holds(status in (409, 410), (status, outcome))  # the old token has no effect
    acknowledge(worker, successor["token"], 1)
    states = [row["state"] for row in history(sender, job)]
    holds(states == ["acked", "missed"], states)


def cuts_of(lengths, every):
    """Every so many bytes of a request and of its answer, and its last bytes."""
    return [(way, at) for way, length in lengths.items() for at in sorted({*range(0, length, every), length - 1, length})]


def poll_through(cutter, cluster, worker, sender, job, token):
    """A poll, and a signal while it waits. The connection may end at any moment."""
    line = None
    try:
        line = Line(cluster, cutter)
        line.poll(token)
    except OSError:
        pass
    number = steer(sender, job, {"n": 1})["number"]
    try:
        if line:
            line.answer()
    except (OSError, ValueError, http.client.HTTPException):
        pass
    got = receive(worker, token)
    holds([row["number"] for row in got] == [number], (number, got))
    holds(acknowledge(worker, token, number)[0] == 200, "the ack is refused")


def cut_polls(cutter, cuts, cluster, worker, sender):
    """Of one job: a list of its signals has at most 100."""
    job = send_job(sender)
    token = claim_one(worker, "600s")["token"]
    for cut in cuts:
        cutter.cuts = [cut]
        poll_through(cutter, cluster, worker, sender, job, token)
    listed = history(sender, job)
    holds([(row["number"], row["state"], row["deliveries"]) for row in listed] ==
          [(n, "acked", 1) for n in range(1, len(cuts) + 1)], listed)


def the_connection_of_a_poll_is_cut_after_any_byte(cluster, every=CUT_EVERY):
    owner, worker, sender = cluster.roles()
    cutter = Cutter(worker.address)
    cut_polls(cutter, [None], cluster, worker, sender)
    cuts = cuts_of(cutter.lengths, every)
    for first in range(0, len(cuts), 100):
        cut_polls(cutter, cuts[first:first + 100], cluster, worker, sender)
    cutter.close()
    holds(cutter.done > len(cuts) - 4, f"{cutter.done} of {len(cuts)} connections were cut")  # the lengths vary a little
    print(f"# {cutter.done} cuts of {cutter.lengths}", flush=True)


# A program that notes each signal, and ends after the last one.
NOTES = """
import json, os, sys
with open(sys.argv[1], "w") as out, os.fdopen(int(os.environ["SLUICE_SIGNALS_FD"])) as signals:
    for line in signals:
        row = json.loads(line)
        print(row["number"], file=out, flush=True)
        os.write(int(os.environ["SLUICE_REPLY_FD"]), json.dumps({"number": row["number"]}).encode() + b"\\n")
        if row["payload"].get("last"):
            break
"""


def a_worker_whose_polls_are_cut_handles_each_signal_once(cluster, every=CUT_EVERY):
    owner, worker, sender = cluster.roles()
    cutter = Cutter(worker.address, marker=f"/{Nodes.queue}/signals/receive".encode())
    job, notes = send_job(sender), os.path.join(cluster.folder, "notes")
    process = subprocess.Popen([PROGRAM, "--store", f"http://{cutter.address}", "work", Nodes.queue, "--once", "--quiet", "--",
                                sys.executable, "-c", NOTES, notes], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               preexec_fn=die_with_parent)
    until(lambda: os.path.exists(notes), "the program runs")
    steer(sender, job, {})
    all_acked(sender, job)
    cuts = cuts_of(cutter.lengths, every)
    cutter.cuts = [one for cut in cuts for one in (cut, None)]  # the next poll passes: a worker waits longer after each failure
    while cutter.cuts:
        steer(sender, job, {})
        all_acked(sender, job)
    steer(sender, job, {"last": True})
    holds(process.wait(timeout=PATIENCE) == 0, "the worker ends with 0")
    cutter.close()
    with open(notes, encoding="ascii") as file:
        noted = [int(line) for line in file]
    holds(noted == list(range(1, history(sender, job)[-1]["number"] + 1)), f"the program noted {noted}")
    holds(cutter.done >= len(cuts), f"{cutter.done} of {len(cuts)} connections were cut")
    print(f"# {cutter.done} cuts, {len(noted)} signals", flush=True)


def jobs_with_signals_while_nodes_and_workers_are_killed(cluster, jobs=SHORT_JOBS, workers=3, most=3, kills=2):
    crowd = Crowd(cluster, jobs, workers, most)
    for kill in range(1, kills + 1):
        crowd.until_acked(kill * jobs * SIGNALS // (kills + 1))
        crowd.kill_owner()
        crowd.kill_worker()
    crowd.finish()


CASES = [
    a_signal_sent_at_one_node_reaches_a_worker_of_another,
    the_worker_is_killed_after_delivery,
    the_connection_of_a_poll_is_cut_after_any_byte,
    a_worker_whose_polls_are_cut_handles_each_signal_once,
    the_owner_is_stopped_past_its_lease_and_resumed,
    the_owner_is_killed_after_the_answer,
    the_owner_is_killed_between_commit_and_delivery,
    jobs_with_signals_while_nodes_and_workers_are_killed,
]


def chosen_cases():
    cases = [(case.__name__.replace("_", " "), case) for case in CASES]
    if len(sys.argv) == 3 and sys.argv[1] == "--long":
        jobs = int(sys.argv[2])
        return [(f"{jobs} jobs with signals while nodes and workers are killed",
                 lambda c: jobs_with_signals_while_nodes_and_workers_are_killed(c, jobs, 10, 25, 20)),
                ("the connection of a poll is cut after every byte",
                 lambda c: the_connection_of_a_poll_is_cut_after_any_byte(c, 1)),
                ("a worker whose polls are cut after every byte handles each signal once",
                 lambda c: a_worker_whose_polls_are_cut_handles_each_signal_once(c, 1))]
    if TLS:  # the proxy cannot see which request is a poll
        cases = [one for one in cases if one[1] is not a_worker_whose_polls_are_cut_handles_each_signal_once]
    return [one for one in cases if len(sys.argv) == 1 or sys.argv[1] in one[0]]


def main():
    cases = chosen_cases()
    print(f"1..{len(cases)}")
    failed = 0
    with Nodes() as cluster:
        for number, (name, case) in enumerate(cases, 1):
            try:
                cluster.begin(f"jobs-{number}")
                case(cluster)
                print(f"ok {number} - {name}", flush=True)
            except Exception:
                failed += 1
                print(f"not ok {number} - {name}")
                print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
                cluster.show_logs()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
