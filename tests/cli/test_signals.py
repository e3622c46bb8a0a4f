# SPDX-License-Identifier: Apache-2.0
"""signal and signals, results and progress, collect: the commands, with the test as the worker."""
import json
import threading

from harness import CONFLICT, FENCED, INVALID, NOT_FOUND, case, contains, holds, main, same, until

NONE = 11  # of collect: no message was processed


def locked(sluice, *settings):
    """A message that the test holds."""
    sluice.create("tasks", *settings)
    sluice.send("tasks", "x")
    return sluice.one("tasks", "--worker", "w1")


def signals(sluice, id=None):
    return sluice.ok("signals", "tasks", *([id] if id else []), "--json").lines()


@case
def a_signal_is_sent_and_listed(sluice):
    message = locked(sluice)
    sent = sluice.json("signal", "tasks", message["id"], "steer", "rate=5", "name=Ann Smith", "on=true", "list=[1,2]",
                       'text="7"')
    same([sent["message"], sent["kind"], sent["number"], sent["state"]], [message["id"], "steer", 1, "pending"])
    line = sluice.ok("signal", "tasks", message["id"], "ask", "how far?").out
    contains(line, message["id"], "pending", "ask", "number 2")
    rows = signals(sluice, message["id"])
    same([row["payload"] for row in rows],
         [{"rate": 5, "name": "Ann Smith", "on": True, "list": [1, 2], "text": "7"}, "how far?"])
    same([row["id"] for row in signals(sluice)], [row["id"] for row in rows])
    table = sluice.ok("signals", "tasks", message["id"]).out
    contains(table, "NUMBER", "KIND", "steer", "how far?", rows[0]["id"])
    contains(sluice.ok("signals", "tasks").out, "MESSAGE", message["id"])
    contains(sluice.ok("show", "tasks", message["id"]).out, "signals", "1 steer pending until ",
             "2 ask pending until ", "delivered 1 time: how far?")
    shown = sluice.json("show", "tasks", message["id"])["signals"]
    same([{"queue": "tasks", **row} for row in shown], rows)
    same(sluice.stats("tasks")["signals"], 2)
    told = [event for event in sluice.events("tasks") if event["type"].startswith("signal-")]
    same([(e["type"], e["signal"], e["signalKind"], e["count"], e["status"]) for e in told],
         [(kind, row["id"], row["kind"], row["number"], "pending") for row in rows
          for kind in ("signal-sent", "signal-delivered")])
    contains(sluice.ok("events", "tasks").out, f"signal-sent            {message['id']}  pending",
             "by w1  until", f"steer 1  signal {rows[0]['id']}")
    holds("Ann Smith" not in sluice.ok("events", "tasks", "--json").out, "a payload is no part of an event")
    renewed = sluice.json("renew", "tasks", message["token"])
    same(renewed["signals"], 2)
    contains(sluice.ok("renew", "tasks", message["token"]).out, "2 signals wait")


@case
def parameters_come_from_standard_input(sluice):
    message = locked(sluice)
    sluice.ok("signal", "tasks", message["id"], "steer", "-", input='{"a": {"b": 1}}')
    same(signals(sluice, message["id"])[0]["payload"], {"a": {"b": 1}})
    sluice.refused(INVALID, "signal", "tasks", message["id"], "steer", "-", says="object", input="[1]")
    sluice.refused(INVALID, "signal", "tasks", message["id"], "ask", "-", says="65536", input="x" * 65_537)


@case
def a_worker_receives_and_answers_its_signals(sluice):
    message = locked(sluice)
    of_lock = ["signals", "tasks", "--token", message["token"]]
    same(sluice.ok(*of_lock, "--wait", "1ms").out, "")
    sluice.ok("signal", "tasks", message["id"], "steer", "rate=5")
    sluice.ok("signal", "tasks", message["id"], "ask", "how far?")
    rows = sluice.ok(*of_lock, "--json").lines()
    same([(row["number"], row["kind"], row["token"], row["payload"]) for row in rows],
         [(1, "steer", message["token"], {"rate": 5}), (2, "ask", message["token"], "how far?")])
    contains(sluice.ok(*of_lock).out, "NUMBER", "how far?")
    sluice.refused(CONFLICT, *of_lock, "--ack", "2", says=f"signal 2 of token {message['token']}: an earlier signal")
    sluice.refused(NOT_FOUND, *of_lock, "--ack", "9", says="signal 9 was never delivered")
    same(sluice.json(*of_lock, "--decline", "1", "--reason", "too late"),
         {"token": message["token"], "queue": "tasks", "number": 1, "status": "declined"})
    same([row["number"] for row in sluice.ok(*of_lock, "--json").lines()], [2])
    answer = sluice.path("answer.txt", "half way")
    contains(sluice.ok(*of_lock, "--ack", "2", "--answer", f"@{answer}").out, "signal 2 acked")
    sluice.refused(CONFLICT, *of_lock, "--ack", "2", says="the signal has ended already")
    same([(row["number"], row["state"], row["answer"]) for row in signals(sluice, message["id"])],
         [(2, "acked", "half way"), (1, "declined", "too late")])


@case
def a_worker_waits_for_its_signals(sluice):
    message = locked(sluice)
    waits = sluice.start("signals", "tasks", "--token", message["token"], "--wait", "60s", "--json")
    asked = sluice.start("signal", "tasks", message["id"], "ask", "how far?", "--wait", "60s")
    same(json.loads(waits.stdout.readline())["payload"], "how far?")
    same(waits.wait(), 0)
    sluice.ok("signals", "tasks", "--token", message["token"], "--ack", "1", "--answer", "half way", "--quiet")
    same([asked.stdout.read(), asked.wait()], [b"half way\n", 0])
    waits = sluice.start("signals", "tasks", "--token", message["token"], "--wait", "60s")
    sluice.ok("signal", "tasks", message["id"], "interrupt", "--now")
    same(waits.wait(), CONFLICT)


@case
def mistakes_of_a_worker_have_their_sentence(sluice):
    token = locked(sluice)["token"]
    for words, says in [(["--ack", "1"], "--ack needs --token"), (["--wait", "1s"], "--wait needs --token"),
                        (["--token", token, "--answer", "x"], "--answer needs --ack"),
                        (["--token", token, "--reason", "x"], "--reason needs --decline"),
                        (["--token", token, "--ack", "1", "--decline", "1"], "--ack and --decline exclude each other"),
                        (["--token", token, "--ack", "0"], "from 1 to"), (["id", "--token", token], "ID and --token"),
                        (["--token", token, "--token", token, "--ack", "1"], "--ack is for one --token, not for 2"),
                        (["--token", token, "--ack", "1", "--answer", "@/none"], "/none cannot be read"),
                        (["--token", token, "--ack", "1", "--answer", "@-"], "262144"),
                        (["--token", "nonsense"], '"nonsense" is not a lock token')]:
        sluice.refused(INVALID, "signals", "tasks", *words, says=says, input="x" * 262_145)
    sluice.refused(NOT_FOUND, "signals", "task", "--token", token, says="tasks")
    sluice.create("other")
    sluice.refused(NOT_FOUND, "signals", "other", "--token", token, says="belongs to another queue or shard")
    sluice.refused(NOT_FOUND, "signals", "other", "--token", token, "--ack", "1", says="belongs to another queue")
    sluice.ok("ack", "tasks", token)
    sluice.refused(CONFLICT, "signals", "tasks", "--token", token, says="the message is finished")
    sluice.refused(CONFLICT, "signals", "tasks", "--token", token, "--ack", "1", says="the message is finished")


@case
def a_signal_is_withdrawn(sluice):
    message = locked(sluice)
    sent = sluice.json("signal", "tasks", message["id"], "ask")
    gone = sluice.json("signal", "tasks", message["id"], "--withdraw", sent["id"])
    same([gone["id"], gone["state"]], [sent["id"], "withdrawn"])
    same(signals(sluice), [])
    sluice.refused(CONFLICT, "signal", "tasks", message["id"], "--withdraw", sent["id"], says="ended")
    sluice.refused(NOT_FOUND, "signal", "tasks", message["id"], "--withdraw", "0f" * 16, says="0f" * 16)
    sluice.refused(INVALID, "signal", "tasks", message["id"], "--withdraw", "00" * 16, says="not all of them 0")
    sluice.refused(INVALID, "signal", "tasks", message["id"], "--withdraw", "zz", says="zz")


@case
def mistakes_have_their_sentence(sluice):
    message = locked(sluice)
    id = message["id"]
    for words, says in [(["steer"], "KEY=VALUE"), (["steer", "a"], '"a" is not of the form KEY=VALUE'),
                        (["steer", "a=1", "a=2"], 'the key "a" is given twice'), (["stear", "a=1"], "steer, ask, interrupt"),
                        ([], "the kind of the signal is missing"), (["ask", "a", "b"], "quote the text"),
                        (["interrupt", "now"], "takes options only"),
                        (["interrupt", "--now", "--grace", "5s"], "--now and --grace exclude each other"),
                        (["ask", "--grace", "5s"], "--grace is for interrupt"), (["interrupt", "--ttl", "5s"], "--ttl is for steer"),
                        (["ask", "--ttl", "0"], "between 1ms and 7d"), (["ask", "--ttl", "8d"], "between 1ms and 7d"),
                        (["interrupt", "--grace", "25h"], "24h"), (["interrupt", "--then", "stop"], "cancel, retry, dead-letter"),
                        (["ask", "--when-idle", "no"], "wait, refuse"), (["ask", "--on-lock-end", "no"], "sticky, once"),
                        (["ask", "--worker", "w1"], "one target"), (["steer", "a=" + "x" * 65_600], "65")]:
        sluice.refused(INVALID, "signal", "tasks", id, *words, says=says)
    sluice.refused(INVALID, "signal", "tasks", "ask", says="ID is missing")
    sluice.refused(INVALID, "signal", "tasks", "ask", "--worker", "a", "--workflow", "b", says="exclude each other")
    sluice.refused(NOT_FOUND, "signal", "tasks", "ask", "--worker", "w9", says="w9")
    sluice.refused(NOT_FOUND, "signal", "tasks", "ask", "--workflow", "none", says="none")
    sluice.refused(NOT_FOUND, "signal", "tasks", id.rsplit("-", 1)[0] + "-999", "ask", says="999")
    sluice.refused(NOT_FOUND, "signal", "task", id, "ask", says="tasks")
    sluice.ok("ack", "tasks", message["token"])
    sluice.refused(CONFLICT, "signal", "tasks", id, "ask", says=id)
    same(signals(sluice), [])
    sluice.ok("queue", "delete", "tasks", "--yes")
    sluice.create("tasks")
    sluice.refused(NOT_FOUND, "signal", "tasks", id, "ask", says="or to a former one of that name")


@case
def an_idle_message_waits_or_refuses(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "x")
    sluice.refused(CONFLICT, "signal", "tasks", id, "ask", "--when-idle", "refuse", says=id)
    same(sluice.json("signal", "tasks", id, "ask")["state"], "pending")
    sluice.refused(CONFLICT, "signal", "tasks", id, "interrupt", "--then", "retry", says=id)
    same(sluice.json("signal", "tasks", id, "interrupt", "--reason", "wrong")["state"], "applied")
    shown = sluice.json("show", "tasks", id)
    same([shown["state"], shown["reason"]], ["cancelled", "wrong"])


@case
def an_interrupt_ends_the_token(sluice):
    message = locked(sluice)
    sluice.ok("signal", "tasks", message["id"], "interrupt", "--now")
    ended = sluice.run("ack", "tasks", message["token"])
    holds(ended.status in (CONFLICT, FENCED), str(ended))
    same(sluice.json("show", "tasks", message["id"])["state"], "cancelled")


@case
def all_messages_of_a_worker_or_a_workflow_get_a_signal(sluice):
    sluice.create("tasks", "shards=2")
    for number in range(3):
        sluice.send("tasks", str(number), "--workflow", "w")
    held = []
    until(lambda: held.extend(sluice.receive("tasks", "--max", "2", "--worker", "w1")) or len(held) >= 2, "two are held")
    rows = sluice.ok("signal", "tasks", "ask", "--worker", "w1", "--json").lines()
    same(sorted(row["message"] for row in rows), sorted(message["id"] for message in held))
    same(len({row["id"] for row in rows}), 1)
    rows = sluice.ok("signal", "tasks", "steer", "a=1", "--workflow", "w", "--json").lines()
    same(len(rows), 3)
    gone = sluice.ok("signal", "tasks", "--withdraw", rows[0]["id"], "--json").lines()
    same([row["state"] for row in gone], ["withdrawn"] * 3)


@case
def a_wait_ends_with_the_signal(sluice):
    message = locked(sluice)
    early = sluice.run("signal", "tasks", message["id"], "ask", "--wait", "1ms")
    same([early.status, early.out], [1, ""])
    contains(early.err, "still pending")
    waiter = sluice.start("signal", "tasks", message["id"], "ask", "--wait", "60s")
    until(lambda: len(signals(sluice)) == 2, "the question arrives")
    sluice.ok("ack", "tasks", message["token"])  # the job ends without an answer
    same(waiter.wait(), 1)
    contains(waiter.stderr.read().decode(), "missed")
    sluice.refused(CONFLICT, "signal", "tasks", message["id"], "ask", "--wait", "1ms", says=message["id"])


@case
def an_ack_carries_a_result(sluice):
    message = locked(sluice)
    sluice.refused(INVALID, "ack", "tasks", message["token"], "--result-type", "text/csv", says="--result", field="--result-type")
    sluice.refused(INVALID, "ack", "tasks", message["token"], "--result", "@missing", says="missing", field="--result")
    sluice.refused(INVALID, "ack", "tasks", message["token"], "--result", "@" + sluice.path("large", b"x" * 262_145),
                   says="262144", field="--result")
    sluice.ok("ack", "tasks", message["token"], "--result", "a,b", "--result-type", "text/csv")
    kept = sluice.stats("tasks")
    same([kept["results"], kept["resultBytes"] >= 3, kept["bodies"]], [1, True, 0])
    shown = sluice.json("show", "tasks", message["id"])
    same([shown["state"], shown["result"], shown["resultType"]], ["processed", "a,b", "text/csv"])
    contains(sluice.ok("show", "tasks", message["id"]).out, "result        a,b", "resultType    text/csv")
    finished = sluice.ok("peek", "tasks", "--state", "finished").out
    contains(finished, "STATE", "FINISHED", "RESULT", "processed", "a,b")
    sluice.send("tasks", "y")
    other = sluice.one("tasks")
    sluice.ok("ack", "tasks", other["token"], "--result", "@" + sluice.path("result", "from a file"))
    same(sluice.json("show", "tasks", other["id"])["result"], "from a file")
    contains(sluice.ok("stats", "tasks").out, "results")


@case
def a_result_that_is_not_kept_is_said(sluice):
    message = locked(sluice, "retention=0")
    same(sluice.json("ack", "tasks", message["token"], "--result", "x")["reason"], "result-not-kept")


@case
def a_renewal_carries_progress(sluice):
    message = locked(sluice)
    sluice.refused(INVALID, "renew", "tasks", message["token"], "--text", "x", says="--progress", field="--text")
    sluice.refused(INVALID, "renew", "tasks", message["token"], "--progress", "101", says="from 0 to 100", field="--progress")
    sluice.refused(INVALID, "renew", "tasks", message["token"], "--progress", "1", "--text", "x" * 257, says="256")
    sluice.ok("renew", "tasks", message["token"], "--progress", "0", "--text", "begun")
    contains(sluice.ok("show", "tasks", message["id"]).out, "progress      0% begun")
    sluice.ok("renew", "tasks", message["token"], "--progress", "42")
    contains(sluice.ok("peek", "tasks", "--state", "locked").out, "PROGRESS", "42%")


@case
def a_worker_is_shown_with_the_progress_of_its_jobs(sluice):
    message = locked(sluice)
    sluice.send("tasks", "y")
    other = sluice.one("tasks", "--worker", "w2")
    quiet = sluice.json("workers", "tasks", "w1")
    same([quiet["name"], quiet["open"], [list(job) for job in quiet["jobs"]]], ["w1", 1, [["id", "attempt", "deadline"]]])
    sluice.ok("renew", "tasks", message["token"], "--progress", "42", "--text", "half way")
    [job] = sluice.json("workers", "tasks", "w1")["jobs"]
    same([job["id"], job["attempt"], job["progress"], job["progressText"]], [message["id"], 1, 42, "half way"])
    shown = sluice.ok("workers", "tasks", "w1").out
    contains(shown, "HOLDS", "PROGRESS", message["id"], "42%", "half way")
    holds(other["id"] not in shown and "w2" not in shown, shown)
    sluice.refused(NOT_FOUND, "workers", "tasks", "w9", says="queue tasks has no worker w9", field="NAME")
    sluice.refused(INVALID, "workers", "tasks", "w1", "--watch", says="leave NAME out", field="--watch")


def collected(sluice, *words, **more):
    run = sluice.run("collect", "tasks", *words, "--json", **more)
    lines = run.lines()
    return run.status, lines[:-1], lines[-1]


def finish(sluice, *results):
    """Messages of tasks, one for each: a result, or None for one that fails."""
    ids = []
    for result in results:
        ids.append(sluice.send("tasks", "x"))
        token = sluice.one("tasks")["token"]
        if result is None:
            sluice.ok("fail", "tasks", token, "--reason", "broken")
        else:
            sluice.ok("ack", "tasks", token, "--result", result)
    return ids


@case
def results_are_collected(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    ids = finish(sluice, "a", "b")
    status, rows, end = collected(sluice, *ids)
    same(status, 0)
    same({row["id"]: row["result"] for row in rows}, dict(zip(ids, "ab")))
    same([end["processed"], end["failed"], end["missing"]], [2, 0, []])
    out = sluice.ok("collect", "tasks", "-", input="\n".join(ids)).out
    same(sorted(out.splitlines()), sorted(f"{id}  processed  {result}" for id, result in zip(ids, "ab")))


@case
def some_and_none_have_a_status_of_their_own(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    ids = finish(sluice, "a", None)
    status, rows, end = collected(sluice, *ids)
    same([status, end["processed"], end["failed"]], [1, 1, 1])
    both = sluice.run("collect", "tasks", *ids)
    contains(both.out, "processed  a", "dead", "broken")
    same(both.err, "1 of 2 processed, 1 failed\n")
    status, rows, end = collected(sluice, ids[1])
    same([status, end["processed"], end["failed"]], [NONE, 0, 1])
    waits = sluice.send("tasks", "y")
    status, rows, end = collected(sluice, waits, ids[0], "--timeout", "0")
    same([status, end["missing"]], [1, [waits]])
    late = sluice.run("collect", "tasks", waits, "--timeout", "1ms")
    same([late.status, late.out], [NONE, ""])
    same(late.err, f"0 of 1 ended in 1ms; still open:\n  {waits}\n")
    unknown = ids[0].rsplit("-", 1)[0] + "-999"
    status, rows, end = collected(sluice, ids[0], unknown)
    same([status, end["unknown"]], [1, 1])
    same({row["id"]: row["state"] for row in rows}, {ids[0]: "processed", unknown: "unknown"})


@case
def a_collect_without_a_terminal_prints_no_progress(sluice):
    sluice.create("tasks")
    waits = sluice.send("tasks", "y")
    same(sluice.run("collect", "tasks", waits, "--timeout", "2500ms").err, f"0 of 1 ended in 2.5s; still open:\n  {waits}\n")


@case
def a_collect_that_began_before_gets_what_comes(sluice):
    sluice.create("tasks")
    ids = [sluice.send("tasks", "x") for _ in range(2)]
    stream = sluice.start("collect", "tasks", *ids, "--stream", "--json")
    one, other = sluice.receive("tasks", "--max", "2")
    sluice.ok("ack", "tasks", other["token"], "--result", "first")
    row = json.loads(stream.stdout.readline())
    same([row["id"], row["result"]], [other["id"], "first"])
    sluice.ok("ack", "tasks", one["token"])
    same(json.loads(stream.stdout.readline())["id"], one["id"])
    same(json.loads(stream.stdout.readline())["missing"], [])
    same(stream.wait(), 0)


@case
def any_ends_with_the_first(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    done = finish(sluice, None, "a")
    waits = sluice.send("tasks", "y")
    status, rows, end = collected(sluice, *done, waits, "--any")
    same([status, end["processed"]], [0, 1])
    holds(waits in end["missing"], end)


@case
def a_workflow_is_collected_and_running_jobs_are_asked(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x", "--workflow", "w")
    message = sluice.one("tasks")
    thread = threading.Thread(target=lambda: until(lambda: signals(sluice), "the question arrives"))
    thread.start()
    run = sluice.run("collect", "tasks", "--workflow", "w", "--running", "--ask", "how far?", "--timeout", "1s", "--json")
    thread.join()
    same(run.status, NONE)
    row = signals(sluice, message["id"])[0]
    same([row["kind"], row["payload"]], ["ask", "how far?"])
    sluice.ok("ack", "tasks", message["token"])
    ended = sluice.ok("collect", "tasks", "--workflow", "w")  # it ended before
    same((ended.out, ended.err), (f"{message['id']}  processed\n", "1 of 1 processed\n"))


@case
def messages_of_a_workflow_that_are_not_kept_are_counted(sluice):
    sluice.ok("queue", "create", "tasks", "retention=0s")
    for _ in range(2):
        sluice.send("tasks", "x", "--workflow", "w")
    sluice.ok("ack", "tasks", sluice.one("tasks")["token"])
    status, rows, end = collected(sluice, "--workflow", "w", "--timeout", "0")
    same((status, rows, end["processed"], len(end["missing"])), (1, [], 1, 1))
    ended = sluice.run("collect", "tasks", "--workflow", "w", "--timeout", "0")
    contains(ended.err, "1 message of workflow w ended before, and how is not kept any more")


@case
def mistakes_of_a_collect_have_their_sentence(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "x")
    sluice.refused(INVALID, "collect", "tasks", says="ID is missing", field="ID")
    sluice.refused(INVALID, "collect", "tasks", id, "--workflow", "w", says="exclude each other")
    sluice.refused(INVALID, "collect", "tasks", id, id, says=id)
    sluice.refused(INVALID, "collect", "tasks", id, "--ask", "x", says="--running", field="--ask")
    same(sluice.run("collect", "tasks", "nonsense").out, "nonsense  unknown  no such message was sent\n")
    sluice.refused(NOT_FOUND, "collect", "task", id, says="tasks")


if __name__ == "__main__":
    main(at_once=3)
