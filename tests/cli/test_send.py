# SPDX-License-Identifier: Apache-2.0
"""send: bodies of every kind, attributes, files of lines."""
import base64
import os
import subprocess
import time

from harness import CLOCK_MS, INVALID, LIMIT, MESSAGE_KEYS, NOT_FOUND, PATIENCE, case, contains, holds, main, same, until


@case
def a_message_travels_with_every_key_documented(sluice):
    sluice.ok("queue", "create", "tasks")
    before = int(time.time() * 1000)
    sent = sluice.json("send", "tasks", "hello", "--group", "g", "--priority", "3", "--header", "a=b",
                       "--header", "c=d=e")
    same(list(sent), ["id", "queue", "duplicate"])
    message = sluice.one("tasks")
    same(list(message), MESSAGE_KEYS)
    same([message[key] for key in ("id", "queue", "state", "body", "attempt", "group", "priority")],
         [sent["id"], "tasks", "locked", "hello", 1, "g", 3])
    same(message["headers"], {"a": "b", "c": "d=e"})
    holds(message["token"] and message["fence"] >= 1, "token and fence are missing")
    holds(0 < message["leaseMs"] <= 30_000 + CLOCK_MS, f"leaseMs is {message['leaseMs']}")
    holds(abs(message["sentAt"] - before) < 60_000, f"sentAt is {message['sentAt']}")
    holds(message["deadline"] - message["sentAt"] >= 30_000 - CLOCK_MS, "the lock is shorter than 30 s")


@case
def a_plain_send_prints_the_id_and_quiet_nothing(sluice):
    sluice.create("tasks")
    id = sluice.ok("send", "tasks", "one").out.strip()
    same(sluice.json("show", "tasks", id)["body"], "one")
    same(sluice.ok("send", "tasks", "two", "--quiet").out, "")


@case
def a_missing_queue_shows_the_command_that_creates_it(sluice):
    sluice.refused(NOT_FOUND, "send", "tasks", "hello", says="sluice queue create tasks", field="queue")
    result = sluice.run("send", "tasks", "hello", "--store", sluice.store)
    contains(result.err, f"sluice queue create tasks --store {sluice.store}")
    lines = sluice.path("lines", "a\nb\n")
    sluice.refused(NOT_FOUND, "send", "tasks", "--lines", lines, says="sluice queue create tasks", field="queue")
    same(sluice.ok("queue", "list", "-q").out, "")


@case
def create_makes_the_missing_queue(sluice):
    sluice.ok("send", "tasks", "hello", "--create")
    sluice.ok("send", "tasks", "again", "--create")
    same(sluice.stats("tasks")["ready"], 2)
    sluice.refused(INVALID, "send", "a b", "hello", "--create", says="a b")


@case
def any_bytes_travel_unharmed(sluice):
    sluice.create("tasks")
    every = bytes(range(256)) * 3
    for body, key in [(b"", "body"), (b"a\0b\0", "body"), ("grüße ✓ \U0001f600\n".encode(), "body"),
                      (b"\xff\xfe", "bodyBase64"), (every, "bodyBase64"), (b"\xed\xa0\x80", "bodyBase64")]:
        sluice.ok("send", "tasks", "-", input=body)
        message = sluice.one("tasks")
        same(list(message), [key if name == "body" else name for name in MESSAGE_KEYS])
        same(message["body"].encode() if key == "body" else base64.b64decode(message[key]), body)
        sluice.ok("ack", "tasks", message["token"])
        sluice.ok("send", "tasks", "-", input=body)
        raw = sluice.ok("receive", "tasks").bytes
        holds(raw.endswith(b"body     " + body + b"\n"), f"{raw!r} does not end with {body!r}")


@case
def a_body_may_begin_with_a_dash_after_two(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "--json")
    same(sluice.one("tasks")["body"], "--json")
    sluice.refused(INVALID, "send", "tasks", "-5", says=["-5", "after --"])


@case
def a_body_over_the_limit_is_refused(sluice):
    sluice.create("tasks", "maxMessageBytes=1000")
    sluice.ok("send", "tasks", "-", input=b"x" * 1000)
    sluice.refused(INVALID, "send", "tasks", "-", input=b"x" * 1001, says=["1001", "1000", "maxMessageBytes"],
                   field="body")
    sluice.refused(INVALID, "send", "tasks", "-", input=b"x" * (70 << 20), says="BODY")
    same(sluice.stats("tasks")["ready"], 1)


@case
def a_full_queue_is_a_limit(sluice):
    sluice.create("tasks", "capacity=1")
    sluice.send("tasks", "one")
    sluice.refused(LIMIT, "send", "tasks", "two", says="tasks")


@case
def higher_priority_comes_first(sluice):
    sluice.create("tasks")
    for priority in ("0", "9", "5"):
        sluice.send("tasks", f"p{priority}", "--priority", priority)
    same([message["body"] for message in sluice.receive("tasks", "--max", "3")], ["p9", "p5", "p0"])


@case
def a_delayed_message_waits(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "later", "--delay", "1h")
    same(sluice.receive("tasks"), [])
    same(sluice.stats("tasks")["delayed"], 1)
    shown = sluice.json("show", "tasks", id)
    same(shown["state"], "delayed")
    holds(3_590_000 < shown["deadline"] - shown["sentAt"] < 3_610_000, f"due {shown['deadline']}")
    sluice.send("tasks", "soon", "--delay", "50ms")
    same(sluice.one("tasks", "--wait", "20s")["body"], "soon")


@case
def a_message_may_be_due_at_a_moment(sluice):
    sluice.create("tasks")
    for text, ms in [("2099-01-31T12:00:00Z", 4073544000000), ("2099-01-31T12:00:00.250+02:00", 4073536800250),
                     ("2099-01-31 12:00", 4073544000000), ("4073544000000", 4073544000000)]:
        result = sluice.run("send", "tasks", "x", "--at", text, "--json")
        if result.status == 0:
            same(sluice.json("show", "tasks", result.lines()[0]["id"])["deadline"], ms, text)
        else:  # further away than the queue plans
            contains(result.err, "INVALID")
    soon = int(time.time() * 1000) + 100
    sluice.send("tasks", "at", "--at", str(soon))
    same(sluice.one("tasks", "--wait", "20s")["body"], "at")
    sluice.send("tasks", "past", "--at", "2001-01-01T00:00:00Z")
    same(sluice.one("tasks")["body"], "past")


@case
def a_dedup_key_is_sent_once(sluice):
    sluice.create("tasks")
    first = sluice.json("send", "tasks", "one", "--dedup", "order-7")
    second = sluice.json("send", "tasks", "two", "--dedup", "order-7")
    same((first["duplicate"], second["duplicate"], second["id"]), (False, True, first["id"]))
    same(sluice.stats("tasks")["ready"], 1)
    contains(sluice.ok("send", "tasks", "three", "--dedup", "order-7").err, "dedup key")


@case
def groups_of_a_strict_queue_stay_in_order(sluice):
    sluice.create("tasks", "orderingGuarantee=true")
    for body in ("a1", "b1", "a2"):
        sluice.send("tasks", body, "--group", body[0])
    open_now = sluice.receive("tasks", "--max", "10")
    same([message["body"] for message in open_now], ["a1", "b1"])
    sluice.ok("ack", "tasks", open_now[0]["token"])
    same(sluice.one("tasks")["body"], "a2")
    sluice.refused(INVALID, "send", "tasks", "x", "--priority", "3", says="priority")
    sluice.refused(INVALID, "send", "tasks", "x", "--delay", "3s", says="delay")


@case
def bad_options_are_refused_and_nothing_is_sent(sluice):
    sluice.create("tasks")
    for options, says, field in [
            (["--priority", "10"], ['"10"', "0 to 9"], "--priority"),
            (["--priority", "high"], ['"high"', "whole number"], "--priority"),
            (["--delay", "5"], ['"5"', "has no unit", "5s"], "--delay"),
            (["--delay", "-5s"], ['"-5s"'], "--delay"),
            (["--delay", "1 s"], ['"1 s"'], "--delay"),
            (["--delay", "99999999999999999h"], ["--delay"], "--delay"),
            (["--at", "tomorrow"], ['"tomorrow"', "2027-01-31T12:00:00Z"], "--at"),
            (["--at", "2030-02-31T12:00:00Z"], ["2030-02-31"], "--at"),
            (["--at", "2030-01-31T25:00:00Z"], ["25:00"], "--at"),
            (["--delay", "1s", "--at", "2030-01-31T12:00:00Z"], ["exclude each other"], "--at"),
            (["--header", "novalue"], ['"novalue"', "NAME=VALUE"], "--header"),
            (["--header", "=x"], ['"=x"'], "--header"),
            (["--header", b"a=\xff"], ["UTF-8"], "--header"),
            (["--group", b"\xff"], ["UTF-8"], "--group"),
            (["--lines", "f"], ["exclude each other"], "BODY")]:
        sluice.refused(INVALID, "send", "tasks", "x", *options, says=says, field=field)
    sluice.refused(INVALID, "send", "tasks", "--dedup", "k", "--lines", "f", says="exclude", field="--dedup")
    sluice.refused(INVALID, "send", "tasks", says="BODY is missing", field="BODY")
    same(sluice.stats("tasks")["ready"], 0)


@case
def lines_of_a_file_are_messages(sluice):
    sluice.create("tasks")
    lines = sluice.path("lines", b"one\n\ntwo \r\n\xff\nlast")
    told = sluice.json("send", "tasks", "--lines", lines, "--header", "k=v")
    same(list(told), ["queue", "sent", "elapsedMs"])
    same((told["queue"], told["sent"]), ("tasks", 5))
    got = sluice.receive("tasks", "--max", "10")
    same([message.get("body", message.get("bodyBase64")) for message in got], ["one", "", "two \r", "/w==", "last"])
    same([message["headers"] for message in got], [{"k": "v"}] * 5)


@case
def lines_come_from_standard_input_too(sluice):
    sluice.create("tasks")
    result = sluice.ok("send", "tasks", "--lines", "-", input="a\nb\n")
    contains(result.err, "sent 2 messages to tasks")
    same(result.out, "")
    result = sluice.ok("send", "tasks", "--lines", "-", "--quiet", input="a\nb\n")
    same((result.out, result.err), ("", ""))
    same(sluice.json("send", "tasks", "--lines", "-")["sent"], 0)
    same(sluice.stats("tasks")["ready"], 4)


@case
def a_line_of_a_slow_pipe_is_sent_before_the_next_one_comes(sluice):
    sluice.create("tasks")
    feed = sluice.start("send", "tasks", "--lines", "-", stdin=subprocess.PIPE)
    for number in range(1, 4):
        feed.stdin.write(b"line %d\nthe beginning of " % number)  # the rest of a line comes later
        feed.stdin.flush()
        until(lambda: sluice.stats("tasks")["ready"] == number, f"line {number} arrives")
    _, err = feed.communicate(timeout=60)
    same(feed.returncode, 0)
    contains(err.decode(), "sent 4 messages to tasks")
    same([message["body"] for message in sluice.receive("tasks", "--max", "10")],
         ["line 1", "the beginning of line 2", "the beginning of line 3", "the beginning of "])


@case
def a_slow_pipe_is_not_taken_for_a_slow_store(sluice):
    sluice.create("tasks")
    feed = sluice.start("send", "tasks", "--lines", "-", stdin=subprocess.PIPE)
    time.sleep(2.5)  # a store that does not answer is named after 2 s
    _, err = feed.communicate(b"x\n", timeout=60)
    holds("no answer" not in err.decode(), err)


@case
def many_lines_go_in_batches_and_long_ones_fit(sluice):
    sluice.create("tasks", "maxMessageBytes=3000000")
    long = b"x" * 2_500_000
    content = b"".join(b"line %d\n" % number for number in range(30_000)) + long + b"\n"
    same(sluice.json("send", "tasks", "--lines", sluice.path("lines", content))["sent"], 30_001)
    same(sluice.stats("tasks")["ready"], 30_001)
    holds(len(sluice.events("tasks")) == 30_001, "an event each")
    holds(sluice.events("tasks")[-1]["position"] < 200, "they did not go in batches")


@case
def a_line_that_is_refused_is_named(sluice):
    sluice.create("tasks", "maxMessageBytes=10")
    sluice_error = sluice.run("send", "tasks", "--lines", sluice.path("lines", "a\n" + "x" * 11 + "\nb\n"))
    same(sluice_error.status, INVALID)
    contains(sluice_error.err, "line 2:")
    sluice.refused(INVALID, "send", "tasks", "--lines", "missing", says="missing", field="--lines")
    sluice.refused(INVALID, "send", "tasks", "--lines", sluice.folder, says="cannot be read", field="--lines")


@case
def plain_counts_are_shown_without_a_terminal(sluice):
    sluice.create("tasks")
    feed = sluice.start("send", "tasks", "--lines", "/dev/zero")  # one endless line: refused, memory stays bounded
    out, err = feed.communicate(timeout=60)
    same((feed.returncode, out), (INVALID, b""))
    contains(err.decode(), "line 1 is over the limit", "0 messages were sent")


@case
def a_waiting_receiver_is_woken_by_a_send(sluice):
    sluice.create("tasks")
    waiting = sluice.start("receive", "tasks", "--wait", "30s", "--json")
    until(lambda: waiting.poll() is None, "it waits")
    sluice.send("tasks", "wake up")
    out, _ = waiting.communicate(timeout=PATIENCE)
    contains(out.decode(), "wake up")



@case
def a_large_body_arrives_as_it_was_sent(sluice):
    sluice.create("tasks", "maxMessageBytes=64MiB")
    body = os.urandom(1 << 20) * 20  # 20 MiB, not UTF-8
    sluice.ok("send", "tasks", "-", input=body)
    seen = sluice.json("peek", "tasks")
    holds(base64.b64decode(seen["bodyBase64"]) == body, "peek shows another body")
    got = sluice.one("tasks")
    holds(base64.b64decode(got["bodyBase64"]) == body, "another body was received")
    sluice.ok("release", "tasks", got["token"])
    sluice.ok("work", "tasks", "--once", "--", "sh", "-c", "cat > " + sluice.path("copy"))
    with open(sluice.path("copy"), "rb") as copy:
        holds(copy.read() == body, "a job was given another body")
    sluice.refused(INVALID, "send", "tasks", "-", input=b"x" * (64 * 1024 * 1024 + 1))


main()
