# SPDX-License-Identifier: Apache-2.0
"""peek, show, stats, events, audit, doctor: looking, without touching."""
import json
import os
import signal
import struct
import termios
import time

import objects
from between import Between, between
from harness import (CLOCK_MS, CONFLICT, CORRUPT, ON_S3, EVENT_KEYS, INVALID, MESSAGE_KEYS, NOT_FOUND, PATIENCE,
                     STATS_KEYS, case, contains, holds, keys_of, main, on_a_store, same, until)
from terminal import Terminal, on_terminal


@case
def peek_shows_messages_by_state_and_locks_none(sluice):
    sluice.create("tasks")
    ids = [sluice.send("tasks", body) for body in ("a", "b", "c")]
    later = sluice.send("tasks", "d", "--delay", "1h")
    held = sluice.one("tasks")
    for state, expected in [("ready", ids[1:]), ("locked", [held["id"]]), ("delayed", [later]), ("dead", [])]:
        found = sluice.ok("peek", "tasks", "--state", state, "--json").lines()
        same([message["id"] for message in found], expected, state)
        same([message["state"] for message in found], [state] * len(expected))
    same(sluice.stats("tasks")["ready"], 2)
    contains(sluice.ok("peek", "tasks").out, "ID", "BODY", ids[1])
    contains(sluice.ok("peek", "tasks", "--state", "dead").err, "queue tasks has no dead messages")
    sluice.refused(INVALID, "peek", "tasks", "--state", "happy", says=["happy", "ready"], field="state")


@case
def peek_goes_on_after_a_message(sluice):
    sluice.create("tasks")
    ids = [sluice.send("tasks", str(number)) for number in range(5)]
    first = sluice.ok("peek", "tasks", "--max", "2", "--json").lines()
    same([message["id"] for message in first], ids[:2])
    rest = sluice.ok("peek", "tasks", "--after", ids[1], "--json").lines()
    same([message["id"] for message in rest], ids[2:])


@case
def peek_tells_what_a_dead_letter_died_for(sluice):
    sluice.create("tasks", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=tasks_dead")
    sluice.send("tasks", "x")
    sluice.ok("fail", "tasks", sluice.one("tasks")["token"], "--reason", "no such file")
    until(lambda: sluice.stats("tasks_dead")["ready"] == 1, "the letter arrives")
    contains(sluice.ok("peek", "tasks_dead").out, "REASON", "no such file")
    holds("REASON" not in sluice.ok("peek", "tasks").out, "a reason where there is none")


def dies(sluice, queue, worker, reason):
    token = sluice.json("receive", queue, "--worker", worker, "--wait", "20s")["token"]
    sluice.ok("fail", queue, token, "--reason", reason)


@case
def show_lists_every_failure_of_a_dead_message(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=2", "failureStrategy.backoff.initial=0")
    id = sluice.send("tasks", "x")
    dies(sluice, "tasks", "one", "no disk")
    sluice.ok("receive", "tasks", "--worker", "two", "--visibility", "50ms", "--wait", "20s")
    dies(sluice, "tasks", "three", "still no disk")
    contains(sluice.ok("show", "tasks", id).out, "attempt 1 at ", " by one: no disk", "attempt 2 at ",
             " by two: lock expired", "attempt 3 at ", " by three: still no disk")
    failures = sluice.json("show", "tasks", id)["failures"]
    same([list(failure) for failure in failures], [["attempt", "at", "worker", "reason", "kind"]] * 3)
    same([(failure["attempt"], failure["worker"], failure["reason"], failure["kind"]) for failure in failures],
         [(1, "one", "no disk", "failed"), (2, "two", "lock-expired", "lock-expired"),
          (3, "three", "still no disk", "failed")])
    contains(sluice.ok("peek", "tasks", "--state", "dead").out, "REASON", "still no disk")
    same(sluice.json("peek", "tasks", "--state", "dead")["failures"], failures[2:])


@case
def a_reason_cannot_play_with_the_terminal(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    id = sluice.send("tasks", "x")
    dies(sluice, "tasks", "one", "a\x1b[31mred\nline two")
    for words in (("show", "tasks", id), ("peek", "tasks", "--state", "dead")):
        contains(sluice.ok(*words).out, "a\\x1b[31mred\\nline two")
        holds("\x1b" not in sluice.ok(*words).out, "an escape came through")


@case
def a_dead_letter_shows_its_attempts_and_its_worker(sluice):
    sluice.create("tasks", "failureStrategy.mode=hybrid", "failureStrategy.maxRetries=1",
                  "failureStrategy.backoff.initial=0", "failureStrategy.deadLetterQueue=tasks_dead")
    sluice.send("tasks", "x")
    dies(sluice, "tasks", "one", "no disk")
    dies(sluice, "tasks", "two", "still no disk")
    until(lambda: sluice.stats("tasks_dead")["ready"] == 1, "the letter arrives")
    letter = sluice.json("peek", "tasks_dead")
    same((letter["attempt"], letter["from"]["attempts"], letter["from"]["worker"]), (0, 2, "two"))
    row = sluice.ok("peek", "tasks_dead").out.splitlines()[1]
    same(row.split()[:2], [letter["id"], "2"])
    shown = sluice.ok("show", "tasks_dead", letter["id"]).out
    contains(shown, "diedBy        two", "diedAfter     2 attempts")


@case
def what_is_looked_at_fits_the_terminal(sluice):
    sluice.create("tasks", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=tasks_dead")
    sluice.send("tasks", "first " + "y" * 200)
    sluice.ok("fail", "tasks", sluice.one("tasks")["token"], "--reason", "r" * 100)
    until(lambda: sluice.stats("tasks_dead")["ready"] == 1, "the letter arrives")
    sluice.send("tasks", "x" * 200)
    for queue in ("tasks", "tasks_dead"):
        for line in on_terminal(sluice, "peek", queue).splitlines():
            plain = line.replace("\x1b[1m", "").replace("\x1b[0m", "")
            holds(len(plain) <= 80, f"{len(plain)} columns: {plain}")


@case
def a_body_cannot_play_with_the_terminal(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "a\x1b[31mred\nline two")
    contains(sluice.ok("peek", "tasks").out, "a\\x1b[31mred\\nline two")
    holds("\x1b" not in sluice.ok("peek", "tasks").out, "an escape came through")
    contains(on_terminal(sluice, "show", "tasks", id), "a\\x1b[31mred\\nline two")


@case
def show_tells_what_became_of_a_message(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "x", "--dedup", "k", "--header", "a=b")
    contains(sluice.ok("show", "tasks", id).out, id, "ready", "a: b", "body")
    sluice.ok("ack", "tasks", sluice.one("tasks")["token"])
    done = sluice.json("show", "tasks", id)
    same(list(done), MESSAGE_KEYS + ["worker", "finishedAt", "attempts"])
    same((done["id"], done["state"], done["body"], done["attempt"]), (id, "processed", None, None))
    sluice.refused(INVALID, "show", "tasks", "nonsense", says="nonsense", field="id")
    sluice.refused(NOT_FOUND, "show", "tasks", id.rsplit("-", 1)[0] + "-99", says="-99", field="id")


@case
def status_of_a_finished_message(sluice):
    sluice.create("dead")
    sluice.create("tasks", "retention=1d", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=dead")
    kept = ["worker", "finishedAt", "attempts"]
    ids = [sluice.send("tasks", word) for word in ("done", "bad", "gone")]
    for worker, command in (("one", "ack"), ("two", "fail")):
        token = sluice.ok("--json", "receive", "tasks", "--worker", worker).lines()[0]["token"]
        sluice.ok(command, "tasks", token)
    until(lambda: sluice.json("show", "tasks", ids[1])["state"] != "outbound", "the dead letter arrives")
    done, bad = (sluice.json("show", "tasks", id) for id in ids[:2])
    same([done[key] for key in ("id", "state", "worker", "attempts", "attempt", "body")],
         [ids[0], "processed", "one", 1, None, None])
    same([key for key in done if key not in MESSAGE_KEYS], kept)
    holds(abs(done["finishedAt"] / 1000 - time.time()) < 3600, done)
    same([bad[key] for key in ("state", "worker", "attempts")], ["dead-lettered", "two", 1])
    sluice.ok("queue", "purge", "tasks", "--yes")
    gone = sluice.json("show", "tasks", ids[2])
    same([gone["state"], gone["attempts"], "worker" in gone], ["purged", 0, False])
    contains(sluice.ok("show", "tasks", ids[0]).out, "processed", "finished", "worker", "one", "attempts")
    sluice.ok("queue", "set", "tasks", "retention=0")
    same(sluice.json("show", "tasks", ids[0])["state"], "finished")
    sluice.refused(INVALID, "queue", "set", "tasks", "retention=31d", says="and 30d", field="retention")


@case
def prices_are_checked_before_anything_is_opened(sluice):
    sluice.refused(INVALID, "stats", "--price", "put=0.004,gett=1", says='"gett=1"', field="--price")
    sluice.refused(INVALID, "stats", "--price", "put=", says="put", field="--price")
    sluice.refused(INVALID, "stats", says='"storage=lots"', field="SLUICE_PRICES", env={"SLUICE_PRICES": "storage=lots"})
    holds(sluice.untouched(), "a store was made")
    sluice.create("tasks")
    stats = sluice.json("stats", "tasks", "--price", "put=0.004,get=0.0003,storage=0.02")
    same(keys_of(stats), STATS_KEYS)  # a directory charges nothing


@case
def stats_count_by_state(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    for body in ("a", "b", "c", "d"):
        sluice.send("tasks", body)
    sluice.send("tasks", "e", "--delay", "1h")
    messages = sluice.receive("tasks", "--max", "3")
    sluice.ok("ack", "tasks", messages[0]["token"])
    sluice.ok("fail", "tasks", messages[1]["token"])
    stats = sluice.stats("tasks")
    same(keys_of(stats), STATS_KEYS)
    same([stats[key] for key in STATS_KEYS[:6]], ["tasks", 1, 1, 1, 1, 1])
    holds(stats["oldestAgeMs"] > 0 or ON_S3, "the oldest has no age")  # a bucket's clock has whole seconds
    contains(sluice.ok("stats", "tasks").out, "processed", "sent", "oldest")
    sluice.create("more")
    same([line["queue"] for line in sluice.ok("stats", "--json").lines()], ["more", "tasks"])
    contains(sluice.ok("stats").out, "QUEUE", "more", "tasks")


@case
def the_oldest_is_counted_from_the_time_it_was_due(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "later", "--delay", "1h")
    same(sluice.stats("tasks")["oldestAgeMs"], 0, "a message that is not due")
    began = time.monotonic()
    sluice.send("tasks", "soon", "--delay", "1s")
    until(lambda: sluice.stats("tasks")["ready"] == 1, "the message is due")
    age = sluice.stats("tasks")["oldestAgeMs"]
    passed = (time.monotonic() - began) * 1000 - 1000
    holds(age <= passed + CLOCK_MS, f"due for {passed:.0f} ms, and {age} ms old")


@case
def watching_without_a_terminal_prints_lines(sluice):
    sluice.create("tasks")
    watch = sluice.start("stats", "tasks", "--watch", "--interval", "100ms", "--json")
    lines = [json.loads(watch.stdout.readline()) for _ in range(3)]
    same([keys_of(line) for line in lines], [STATS_KEYS] * 3)
    watch.send_signal(signal.SIGTERM)
    watch.communicate(timeout=PATIENCE)
    same(watch.returncode, 0)
    sluice.refused(INVALID, "stats", "--watch", "--interval", "1ms", says="1ms", field="--interval")


@case
def the_live_screen_shows_the_deepest_first_and_pages(sluice):
    for number in range(14):
        sluice.create(f"q{number:02}")
    for number in (9, 9, 9, 4):
        sluice.send(f"q{number:02}", "x")
    sluice.ok("queue", "pause", "q04")
    contains(sluice.ok("stats", "q04").out, "paused")
    contains(sluice.ok("stats").out, "paused")
    terminal = Terminal(sluice, "stats", "--watch", "--interval", "200ms", rows=9, columns=110, NO_COLOR="1")
    lines = terminal.wait_for_screen("1-5 of 14 queues, PgUp/PgDn")
    same([line.split()[0] for line in lines[3:8]], ["q09", "q04", "q00", "q01", "q02"])
    contains(lines[2], "STATE", "WORKERS")
    contains(lines[4], "paused")
    terminal.type("\x1b[6~")
    same([line.split()[0] for line in terminal.wait_for_screen("6-10 of 14 queues")[3:5]], ["q03", "q05"])
    terminal.type("\x1b[B")
    terminal.wait_for_screen("7-11 of 14 queues")
    terminal.type("\x1b[F")
    terminal.wait_for_screen("10-14 of 14 queues")
    terminal.type("\x1b[H\x1b[A")
    terminal.wait_for_screen("1-5 of 14 queues")
    terminal.resize(9, 50)
    lines = terminal.wait_for_screen("columns hidden")
    contains(lines[2], "QUEUE", "READY", "DEAD")
    holds("WORKERS" not in lines[2], lines[2])
    terminal.type("q")
    same(terminal.end(), (0, True))


@case
def the_live_screen_shows_queues_and_puts_the_terminal_back(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    sluice.one("tasks", "--worker", "alpha")
    for stop in (lambda t: t.type("q"), lambda t: t.program.send_signal(signal.SIGINT),
                 lambda t: t.program.send_signal(signal.SIGTERM)):
        terminal = Terminal(sluice, "stats", "tasks", "--watch", "--interval", "100ms")
        terminal.wait_for("alpha")
        contains(terminal.seen, "\x1b[?1049h", "READY", "LOCKED", "SENT/S", "OLDEST", "WORKERS")
        holds(termios.tcgetattr(terminal.slave) != terminal.before, "the terminal was not taken")
        stop(terminal)
        same(terminal.end(), (0, True), "status and terminal")
        contains(terminal.seen, "\x1b[?1049l")


@case
def colour_is_for_terminals_that_want_it(sluice):
    sluice.create("tasks")
    contains(on_terminal(sluice, "queue", "list"), "\x1b[1m")
    holds("\x1b" not in on_terminal(sluice, "queue", "list", NO_COLOR="1"), "colour in spite of NO_COLOR")
    holds("\x1b" not in sluice.ok("queue", "list").out, "colour without a terminal")


@case
def a_person_is_asked_before_something_is_lost(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    for answer, status, ready in [("n\n", 1, 1), ("\n", 1, 1), ("y\n", 0, 0)]:
        terminal = Terminal(sluice, "queue", "purge", "tasks")
        terminal.wait_for("[y/N]")
        terminal.type(answer)
        same(terminal.end()[0], status, terminal.seen)
        same(sluice.stats("tasks")["ready"], ready)


@case
def a_progress_bar_is_shown_on_a_terminal(sluice):
    sluice.create("tasks")
    lines = sluice.path("lines", b"".join(b"line %d\n" % number for number in range(20_000)))
    pipe = sluice.path("pipe")
    os.mkfifo(pipe)
    terminal = Terminal(sluice, "send", "tasks", "--lines", pipe)
    with open(pipe, "wb") as feed, open(lines, "rb") as source:
        content = source.read()
        for _ in range(12):  # more than one piece, over more than a tenth of a second
            feed.write(content)
            feed.flush()
            time.sleep(0.02)
    same(terminal.end()[0], 0, terminal.seen)
    contains(terminal.seen, "sent 240,000 messages to tasks", "\r\x1b[K")


@case
def events_tell_a_messages_life(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "x")
    message = sluice.one("tasks", "--worker", "alpha")
    sluice.ok("renew", "tasks", message["token"])
    sluice.ok("ack", "tasks", message["token"])
    events = sluice.events("tasks")
    same([event["type"] for event in events],
         ["message-enqueued", "message-claimed", "lock-renewed", "message-outcome"])
    for event in events:
        same(list(event)[:6], EVENT_KEYS)
        same((event["queue"], event["message"]), ("tasks", id))
    same((events[1]["worker"], events[1]["attempt"], events[3]["status"]), ("alpha", 1, "processed"))
    same(len({event["id"] for event in events}), 4)
    same(sluice.events("tasks"), events)
    contains(sluice.ok("events", "tasks").out, "message-claimed", "by alpha", "processed")


@case
def events_begin_at_a_position(sluice):
    sluice.create("tasks")
    for number in range(4):
        sluice.send("tasks", str(number))
    events = sluice.events("tasks")
    rest = sluice.ok("events", "tasks", "--json", "--from", str(events[1]["position"] + 1)).lines()
    same(rest, events[2:])
    sluice.refused(INVALID, "events", "tasks", "--from", "yesterday", says=["yesterday", "now"], field="--from")


@case
def events_follow_what_other_processes_do(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "old")
    all_of_them = sluice.start("events", "tasks", "--follow", "--json")
    same(json.loads(all_of_them.stdout.readline())["type"], "message-enqueued")
    message = sluice.one("tasks")
    same(json.loads(all_of_them.stdout.readline())["type"], "message-claimed")
    sluice.ok("ack", "tasks", message["token"])
    same(json.loads(all_of_them.stdout.readline())["status"], "processed")
    all_of_them.send_signal(signal.SIGINT)
    all_of_them.communicate(timeout=PATIENCE)
    same(all_of_them.returncode, 0)


@case
def a_reader_that_has_seen_enough_is_no_fault(sluice):
    sluice.create("tasks")
    sluice.ok("send", "tasks", "--lines", "-", input="x\n" * 20_000)
    events = sluice.start("events", "tasks", "--json")
    events.stdout.readline()
    events.stdout.close()
    same(events.stderr.read(), b"", "standard error")
    same(events.wait(timeout=PATIENCE), 141)
    following = sluice.start("events", "tasks", "--follow")
    following.stdout.readline()
    following.stdout.close()
    sluice.send("tasks", "y")
    same((following.wait(timeout=PATIENCE), following.stderr.read()), (141, b""))


@case
def an_audit_of_honest_work_finds_nothing(sluice):
    sluice.create("tasks", "failureStrategy.backoff.initial=1ms")
    for number in range(20):
        sluice.send("tasks", str(number))
    done = 0
    while done < 20:
        for number, message in enumerate(sluice.receive("tasks", "--max", "7", "--wait", "1s")):
            verb = "ack" if number % 3 or message["attempt"] > 1 else "fail"
            sluice.ok(verb, "tasks", message["token"])
            done += verb == "ack"
    result = sluice.json("audit", "tasks")
    same((result["queue"], result["messages"], result["processed"]), ("tasks", 20, 20))
    same((result["heldByTwo"], result["ackedTwice"], result["refusedLate"]), (0, 0, 0))
    contains(sluice.ok("audit", "tasks").out, "held by two at once", "acked twice", "refused late")


@case
def an_audit_counts_outcomes_that_came_too_late(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    first = sluice.one("tasks", "--visibility", "50ms", "--worker", "slow")
    second = sluice.one("tasks", "--wait", "20s", "--worker", "fast")
    sluice.run("renew", "tasks", first["token"])
    sluice.ok("ack", "tasks", second["token"])
    result = sluice.json("audit", "tasks")
    same((result["heldByTwo"], result["ackedTwice"], result["refusedLate"]), (0, 0, 1))
    same((result["expired"], result["claims"]), (1, 2))


@case
@on_a_store
def doctor_warns_of_a_store_that_others_can_read(sluice):
    def access():
        return [line for line in sluice.ok("doctor", "--json").lines() if line["check"] == "access"][0]
    sluice.create("tasks")
    same(access()["result"], "passed")
    for where, _, names in os.walk(sluice.store):
        os.chmod(where, 0o755)
        for name in names:
            os.chmod(os.path.join(where, name), 0o644)
    same(access()["result"], "warning")
    contains(access()["detail"], "every user of this machine can read", "chmod -R o-rwx")


@case
@on_a_store
def doctor_names_a_clock_that_is_off_and_the_remedy(sluice):
    def clock():
        return [line for line in sluice.ok("doctor", "--json").lines() if line["check"] == "clock"][0]
    sluice.create("tasks")
    same(clock()["result"], "passed")
    page = os.path.join(sluice.store, "@clock")
    with open(page, "r+b") as file:  # as if the first process of this boot had believed in yesterday
        head = file.read(32)
        offset, last = struct.unpack("<qq", head[16:])
        file.seek(16)
        file.write(struct.pack("<qq", offset - 86400000, last - 86400000))
    same(clock()["result"], "warning")
    contains(clock()["detail"], "s behind this machine's", 'remove the file "@clock"')
    os.remove(page)
    same(clock()["result"], "passed")


@case
def doctor_examines_the_store(sluice):
    sluice.create("tasks")
    contains(sluice.ok("doctor").out, "RESULT", "passed", "tasks")
    lines = sluice.ok("doctor", "--json").lines()
    holds(len(lines) > 2, "few checks")
    for line in lines:
        same(list(line), ["check", "result", "detail"])
        holds(line["result"] in ("passed", "warning"), str(line))


def examined(sluice, check, status=0):
    """What the doctor of the store, not of a node, says of a check; None: nothing."""
    result = sluice.run("doctor", "--json", env={"SLUICE_STORE": sluice.store})
    same(result.status, status, str(result))
    lines = [line for line in result.lines() if line["check"] == check]
    return lines[0] if lines else None


def send_large(sluice, count):
    sluice.create("tasks", "maxMessageBytes=1MiB")
    for _ in range(count):
        sluice.ok("send", "tasks", "-", input=b"x" * 300_000)
    sluice.send("tasks", "small")


@case
def peek_shows_a_message_without_its_lost_body_and_says_so(sluice):
    send_large(sluice, 2)
    objects.remove(sluice, "q/", "/data/")
    messages = sluice.ok("peek", "tasks", "--json").lines()
    same([len(m["body"]) for m in messages], [0, 0, 5])
    same(["sluice-body-lost" in m["headers"] for m in messages], [True, True, False])
    contains(sluice.ok("peek", "tasks").out, "(missing or damaged)", "small")
    contains(sluice.ok("show", "tasks", messages[0]["id"]).out, "sluice-body-lost")


@case
def doctor_finds_missing_large_bodies(sluice):
    send_large(sluice, 2)
    same(examined(sluice, "bodies tasks")["detail"], "2 large bodies exist; 2 were read and are intact")
    objects.remove(sluice, "q/", "/data/")
    line = examined(sluice, "bodies tasks", CORRUPT)
    same(line["result"], "failed")
    contains(line["detail"], "its large body is missing")


@case
@on_a_store
def doctor_finds_damaged_large_bodies(sluice):
    send_large(sluice, 1)
    for folder, _, files in os.walk(os.path.join(sluice.store, "q")):
        for name in files:
            if folder.endswith("/data"):
                with open(os.path.join(folder, name), "r+b") as file:
                    file.write(b"damaged")
    line = examined(sluice, "bodies tasks", CORRUPT)
    contains(line["detail"], "its large body is damaged", "/data/")


@case
def doctor_tells_of_a_queue_without_a_journal(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    same(examined(sluice, "queue tasks")["result"], "passed")
    sluice.reopen()
    objects.remove(sluice, "q")
    contains(examined(sluice, "queue tasks")["detail"], "its journal is empty")


class Garbling(Between):
    """Its answer about versions cannot be read."""
    def before(self):
        return (200, [], b"<html>another server's page</html>") if "versioning" in self.path else None


if ON_S3:
    @case
    def doctor_goes_on_when_the_versioning_answer_cannot_be_read(sluice):
        sluice.create("tasks")
        with between(Garbling) as env:
            lines = {line["check"]: line for line in sluice.ok("doctor", "--json", env=env).lines()}
        same(lines["versioning"]["result"], "warning")
        contains(lines["versioning"]["detail"], "does not say whether it keeps versions")
        same((lines["probe"]["result"], "queue tasks" in lines), ("passed", True))


main(at_once=3)
