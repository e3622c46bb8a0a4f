# SPDX-License-Identifier: Apache-2.0
"""sluice work with signals: programs that listen, and programs that do not."""
import json
import os
import signal

from harness import INVALID, PATIENCE, case, contains, holds, main, same, until
from terminal import Terminal
from working import ENDLESS, Worker, told

GRACE = ("--grace", "20s")  # longer than any case waits for it


def started(sluice, script, *options, settings=()):
    """A worker that runs the script on a message; with the message's id."""
    sluice.create("tasks", *settings)
    id = sluice.send("tasks", "x")
    return Worker(sluice, script, *options).runs(), id


def state_of(sluice, id):
    return sluice.json("show", "tasks", id)["state"]


@case
def a_program_is_steered_and_asked(sluice):
    worker, id = started(sluice, """
        READY
        rate=1
        while read -r -u $SLUICE_SIGNALS_FD line; do
            case $line in
            *'"kind":"steer"'*) rate=${line##*rate\\":}; rate=${rate%%\\}*}
                echo '{"number":1}' >&$SLUICE_REPLY_FD ;;
            *'"payload":"end"'*) echo '{"number":3,"decline":"I do"}' >&$SLUICE_REPLY_FD
                echo '{"result":"first"}{' >&$SLUICE_REPLY_FD
                echo '{"result":{"rate":'$rate'}}' >&$SLUICE_REPLY_FD; exit 0 ;;
            *) echo '{"number":2,"answer":"rate '$rate'"}' >&$SLUICE_REPLY_FD ;;
            esac
        done""")
    same(told(sluice, id, "steer", "rate=7"), ("acked", ""))
    same(told(sluice, id, "ask", "how fast?"), ("acked", "rate 7"))
    same(told(sluice, id, "ask", "end"), ("declined", "I do"))
    same(worker.ends()["status"], "processed")
    shown = sluice.json("show", "tasks", id)
    same([shown["state"], shown["result"], shown["resultType"]], ["processed", {"rate": 7}, "application/json"])
    rows = sluice.ok("signals", "tasks", id, "--json").lines()
    same(sorted((row["number"], row["state"]) for row in rows), [(1, "acked"), (2, "acked"), (3, "declined")])


@case
def a_signal_that_was_sent_before_comes_with_the_message(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "x")
    sluice.ok("signal", "tasks", id, "steer", "rate=7")
    out = sluice.path("line")
    worker = Worker(sluice, f"read -r -u 3 line; echo \"$line\" >{out}; echo '{{\"number\":1}}' >&4")
    same(worker.ends()["status"], "processed")
    with open(out, encoding="utf-8") as file:
        line = json.load(file)
    same([line["number"], line["kind"], line["payload"]], [1, "steer", {"rate": 7}])
    same([row["state"] for row in sluice.ok("signals", "tasks", id, "--json").lines()], ["acked"])


@case
def a_steer_is_a_unix_signal_too(sluice):
    worker, id = started(sluice, """
        trap 'read -r -u 3 line; echo "{\\"number\\":1,\\"answer\\":\\"by USR1\\"}" >&4; exit 0' USR1
        READY
        """ + ENDLESS, "--steer-signal", "USR1")
    same(told(sluice, id, "ask"), ("acked", "by USR1"))
    same(worker.ends()["status"], "processed")
    sluice.refused(INVALID, "work", "tasks", "--steer-signal", "KILL", "--", "true", says=["KILL", "USR1"],
                   field="--steer-signal")


@case
def an_interrupt_is_term_and_the_message_is_cancelled(sluice):
    worker, id = started(sluice, f"trap 'echo stopping >&2; exit 3' TERM; READY; {ENDLESS}")
    same(told(sluice, id, "interrupt", "--reason", "wrong input", *GRACE), ("acked", ""))
    job = worker.ends()
    same([job["status"], job["exit"], job["reason"]], ["cancelled", 3, "interrupted: wrong input"])
    shown = sluice.json("show", "tasks", id)
    same([shown["state"], shown["reason"]], ["cancelled", "wrong input"])
    same(sluice.stats("tasks")["cancelled"], 1)


@case
def a_program_may_finish_in_the_grace(sluice):
    worker, id = started(sluice, f"trap 'exit 0' TERM; READY; {ENDLESS}")
    sluice.ok("signal", "tasks", id, "interrupt", *GRACE)
    same(worker.ends()["status"], "processed")
    same(state_of(sluice, id), "processed")


@case
def a_program_that_ignores_term_is_killed_at_the_end_of_the_grace(sluice):
    worker, id = started(sluice, f"trap '' TERM; READY; {ENDLESS}")
    sluice.ok("signal", "tasks", id, "interrupt", "--grace", "1s")
    job = worker.ends()
    same([job["status"], job["signal"]], ["cancelled", signal.SIGKILL])
    holds(job["tookMs"] >= 500, f"the grace: {job}")
    same(state_of(sluice, id), "cancelled")


@case
def now_is_kill_at_once(sluice):
    worker, id = started(sluice, f"trap '' TERM; READY; {ENDLESS}", "--kill-after", "1h")
    same(told(sluice, id, "interrupt", "--now", "--reason", "stop")[0], "applied")
    job = worker.ends()
    same([job["status"], job["signal"]], ["cancelled", signal.SIGKILL])


@case
def then_says_what_becomes_of_the_message(sluice):
    for what, status, state in (("retry", "retrying", "ready"), ("dead-letter", "dead-lettered", "dead")):
        sluice.create(what)
        id = sluice.send(what, "x")
        worker = Worker(sluice, f"READY-{what}; {ENDLESS}".replace("READY", "touch " + sluice.path("ready")), name=what)
        worker.ready = sluice.path(f"ready-{what}")
        worker.runs()
        sluice.ok("signal", what, id, "interrupt", "--then", what, *GRACE)
        same(worker.ends()["status"], status)
        same(sluice.json("show", what, id)["state"], state)


@case
def the_whole_group_is_stopped(sluice):
    child = sluice.path("child")
    worker, id = started(sluice, f"bash -c 'trap \"\" TERM; echo $$ >{child}.new; mv {child}.new {child}; {ENDLESS}' & "
                         f"until [ -e {child} ]; do sleep 0.01; done; READY; wait")
    with open(child, encoding="utf-8") as file:
        pid = int(file.read())
    sluice.ok("signal", "tasks", id, "interrupt", *GRACE)
    same(worker.ends()["status"], "cancelled")
    until(lambda: not os.path.exists(f"/proc/{pid}") or "\nState:\tZ" in open(f"/proc/{pid}/status").read(),
          "the child of the program ends")


@case
def a_program_that_never_reads_declines(sluice):
    worker, id = started(sluice, f"READY; {ENDLESS}", "--unread-after", "200ms")
    same(told(sluice, id, "steer", "rate=7"), ("declined", "not-listening"))
    line = worker.next(type="signal", state="declined")
    same([line["id"], line["kind"], line["reason"]], [id, "steer", "not-listening"])
    sluice.ok("signal", "tasks", id, "interrupt", *GRACE)
    worker.ends()


@case
def a_program_that_closes_its_descriptors_declines(sluice):
    worker, id = started(sluice, f"exec 3<&- 4>&-; READY; {ENDLESS}")
    same(told(sluice, id, "steer", "rate=7"), ("declined", "not-listening"))
    same(told(sluice, id, "ask"), ("declined", "not-listening"))
    sluice.ok("signal", "tasks", id, "interrupt", *GRACE)
    same(worker.ends()["status"], "cancelled")


@case
def a_program_that_ends_without_reading_declines(sluice):
    gate = sluice.path("gate")
    worker, id = started(sluice, f"READY; until [ -e {gate} ]; do sleep 0.02; done")
    sluice.ok("signal", "tasks", id, "steer", "rate=7")
    worker.next(type="signal", state="received")
    sluice.path("gate", "")
    same(worker.ends()["status"], "processed")
    row = sluice.ok("signals", "tasks", id, "--json").lines()[0]
    same([row["state"], row["answer"]], ["declined", "not-listening"])


@case
def a_signal_that_is_read_and_not_answered_is_not_acked(sluice):
    worker, id = started(sluice, "READY; read -r -u 3 line; exit 0")
    sluice.ok("signal", "tasks", id, "steer", "rate=7")
    same(worker.ends()["status"], "processed")
    same([row["state"] for row in sluice.ok("signals", "tasks", id, "--json").lines()], ["missed"])


@case
def more_signals_than_the_pipe_holds_arrive_in_order(sluice):
    worker, id = started(sluice, """
        READY
        until [ -e go ]; do sleep 0.02; done
        for i in 1 2 3 4; do read -r -u 3 line; echo '{"number":'$i',"answer":'${#line}'}' >&4; done""")
    large = "x" * 60_000
    for _ in range(4):
        sluice.ok("signal", "tasks", id, "ask", "-", input=large)
    sluice.path("go", "")
    same(worker.ends()["status"], "processed")
    rows = sluice.ok("signals", "tasks", id, "--json").lines()
    same(sorted((row["number"], row["state"]) for row in rows), [(number, "acked") for number in range(1, 5)])
    holds(all(int(row["answer"]) > 60_000 for row in rows), rows)


@case
def garbage_in_the_reply_is_ignored(sluice):
    worker, id = started(sluice, """
        READY
        read -r -u 3 line
        echo 'hello' >&4
        echo '{"number":99,"answer":"never sent"}' >&4
        head -c 100M /dev/zero >&4
        echo >&4
        echo '{"number":1,"answer":"here"}' >&4
        echo '{"result":"fine"}' >&4""")
    same(told(sluice, id, "ask"), ("acked", "here"))
    contains(worker.next(type="trouble")["message"], id, "not a JSON object: hello")
    same(worker.ends()["status"], "processed")
    same(sluice.json("show", "tasks", id)["result"], "fine")


@case
def a_program_that_forks_and_exits_is_not_awaited(sluice):
    pid = sluice.path("pid")
    worker, id = started(sluice, f"(echo $BASHPID >{pid}; exec sleep 600 >/dev/null 2>&1) & "
                         f"until [ -s {pid} ]; do sleep 0.01; done; echo '{{\"result\":\"left\"}}' >&4; READY")
    try:
        same(worker.ends()["status"], "processed")
        same(sluice.json("show", "tasks", id)["result"], "left")
    finally:
        with open(pid, encoding="utf-8") as file:
            os.kill(int(file.read()), signal.SIGKILL)


@case
def one_worker_listens_for_all_its_jobs(sluice):
    sluice.create("tasks")
    ids = [sluice.send("tasks", str(number)) for number in range(4)]
    worker = Worker(sluice, "read -r -u 3 line; body=$(cat); "
                    "echo '{\"number\":1,\"answer\":\"job '$body'\"}' >&4", "-c", "4", once=False)
    for number, id in enumerate(ids):
        same(told(sluice, id, "ask", "--when-idle", "wait"), ("acked", f"job {number}"))
    worker.process.send_signal(signal.SIGTERM)
    same(worker.process.wait(timeout=PATIENCE), 0)


@case
def a_worker_that_is_stopped_leaves_a_steer_to_the_next(sluice):
    worker, id = started(sluice, f"READY; {ENDLESS}", "--grace", "0")
    sluice.ok("signal", "tasks", id, "steer", "rate=7")
    worker.next(type="signal", state="received")
    worker.process.send_signal(signal.SIGTERM)
    same(worker.next(type="job")["status"], "released")
    worker = Worker(sluice, "read -r -u 3 line; echo '{\"number\":1}' >&4")
    same(worker.ends()["status"], "processed")
    row = sluice.ok("signals", "tasks", id, "--json").lines()[0]
    same([row["state"], row["deliveries"]], ["acked", 2])


@case
def progress_is_shown(sluice):
    worker, id = started(sluice, f"echo '{{\"progress\":42,\"text\":\"half way\"}}' >&4; READY; {ENDLESS}",
                         settings=("visibilityTimeout=1s",))
    until(lambda: sluice.json("show", "tasks", id).get("progress") == 42, "the progress is stored")
    contains(sluice.ok("show", "tasks", id).out, "progress", "42% half way")
    contains(sluice.ok("peek", "tasks", "--state", "locked").out, "PROGRESS", "42%")
    sluice.ok("signal", "tasks", id, "interrupt", *GRACE)
    worker.ends()


@case
def the_table_shows_signals_and_progress(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "picture")
    terminal = Terminal(sluice, "work", "tasks", "--", "bash", "-c",
                        f"echo '{{\"progress\":42,\"text\":\"half way\"}}' >&4; read -r -u 3 line; {ENDLESS}", columns=120)
    terminal.wait_for("42%")
    contains(terminal.seen, "PROGRESS", "half way")
    sluice.ok("signal", "tasks", id, "ask")
    terminal.wait_for("SIGNALS")
    terminal.wait_for("1/1")
    sluice.ok("signal", "tasks", id, "interrupt", "--reason", "enough", *GRACE)
    terminal.wait_for("interrupted: enough")
    terminal.wait_for("1 cancelled")
    terminal.program.send_signal(signal.SIGTERM)
    same(terminal.end(), (0, True))


if __name__ == "__main__":
    main(at_once=4)
