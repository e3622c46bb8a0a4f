# SPDX-License-Identifier: Apache-2.0
"""receive, ack, fail, release, renew: each in a process of its own, joined by tokens alone."""
import json
import signal

from harness import (CLOCK_MS, CONFLICT, FENCED, INVALID, MESSAGE_KEYS, NOT_FOUND, UNAVAILABLE, case, contains, holds,
                     main, same, until)

OUTCOME_KEYS = ["token", "queue", "status", "until"]


@case
def an_empty_receive_prints_nothing_and_is_no_error(sluice):
    sluice.create("tasks")
    result = sluice.ok("receive", "tasks")
    same((result.out, result.err), ("", ""))
    same(sluice.ok("receive", "tasks", "--json").out, "")


@case
def a_person_sees_id_token_attempt_and_body(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "hello")
    lines = dict(line.split(None, 1) for line in sluice.ok("receive", "tasks").out.splitlines())
    same((lines["id"], lines["attempt"], lines["body"]), (id, "1", "hello"))
    sluice.ok("ack", "tasks", lines["token"])


@case
def receive_takes_as_many_as_asked(sluice):
    sluice.create("tasks")
    for number in range(5):
        sluice.send("tasks", str(number))
    same([message["body"] for message in sluice.receive("tasks")], ["0"])
    same([message["body"] for message in sluice.receive("tasks", "--max", "3")], ["1", "2", "3"])
    same([message["body"] for message in sluice.receive("tasks", "--max=99")], ["4"])


@case
def the_worker_and_the_visibility_are_kept(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    message = sluice.one("tasks", "--worker", "alpha", "--visibility", "2h")
    sure = 7_200_000 * 127 // 128 - 10  # the store's clock may run faster than the worker's, and be ahead
    holds(sure - 10_000 < message["leaseMs"] <= sure + CLOCK_MS, f"leaseMs is {message['leaseMs']}")
    claimed = [event for event in sluice.events("tasks") if event["type"] == "message-claimed"]
    same(claimed[0]["worker"], "alpha")
    contains(sluice.ok("show", "tasks", message["id"]).out, "alpha")


@case
def an_ack_from_another_process_finishes_the_message(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    token = sluice.one("tasks")["token"]
    done = sluice.json("ack", "tasks", token)
    same(list(done), OUTCOME_KEYS)
    same((done["token"], done["queue"], done["status"]), (token, "tasks", "processed"))
    same(sluice.stats("tasks")["processed"], 1)
    sluice.refused(CONFLICT, "ack", "tasks", token, says=token, field="token")


@case
def many_tokens_are_answered_each_for_itself(sluice):
    sluice.create("tasks")
    for body in ("a", "b", "c"):
        sluice.send("tasks", body)
    tokens = [message["token"] for message in sluice.receive("tasks", "--max", "3")]
    sluice.ok("ack", "tasks", tokens[1])
    result = sluice.run("ack", "tasks", *tokens, "--json")
    same(result.status, CONFLICT)
    same([line["token"] for line in result.lines()], [tokens[0], tokens[2]])
    contains(json.loads(result.err)["message"], tokens[1])
    same(sluice.stats("tasks")["processed"], 3)


@case
def tokens_come_from_standard_input_too(sluice):
    sluice.create("tasks")
    for body in ("a", "b"):
        sluice.send("tasks", body)
    tokens = [message["token"] for message in sluice.receive("tasks", "--max", "2")]
    same(len(sluice.ok("ack", "tasks", "-", "--json", input="\n".join(tokens) + "\n").lines()), 2)


@case
def a_failed_message_is_retried_and_then_dead(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=1", "failureStrategy.backoff.initial=1ms")
    id = sluice.send("tasks", "x")
    same(sluice.json("fail", "tasks", sluice.one("tasks")["token"], "--reason", "no luck")["status"], "retrying")
    message = sluice.one("tasks", "--wait", "20s")
    same(message["attempt"], 2)
    same(sluice.json("fail", "tasks", message["token"])["status"], "dead-lettered")
    same(sluice.stats("tasks")["dead"], 1)
    same([message["id"] for message in sluice.ok("peek", "tasks", "--state", "dead", "--json").lines()], [id])
    outcomes = [event["status"] for event in sluice.events("tasks") if event["type"] == "message-outcome"]
    same(outcomes, ["retrying", "dead-lettered"])


@case
def a_dead_letter_carries_where_it_came_from(sluice):
    sluice.create("tasks", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=dead")
    id = sluice.send("tasks", "x", "--header", "mine=yes")
    same(sluice.json("fail", "tasks", sluice.one("tasks")["token"], "--reason", "no luck")["status"],
         "dead-lettered")
    letter = sluice.one("dead", "--wait", "20s")
    headers = letter["headers"]
    same(sorted(headers), ["mine", "sluice-dead-at", "sluice-dead-attempts", "sluice-dead-id", "sluice-dead-queue",
                           "sluice-dead-reason", "sluice-dead-retries", "sluice-dead-worker"])
    same((headers["sluice-dead-reason"], headers["sluice-dead-queue"], headers["sluice-dead-id"]),
         ("no luck", "tasks", id))
    same(letter["body"], "x")


@case
def redrive_sends_dead_letters_back(sluice):
    sluice.create("tasks", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=dead")
    for body in ("a", "b", "c"):
        sluice.send("tasks", body)
    for message in sluice.receive("tasks", "--max", "3"):
        sluice.ok("fail", "tasks", message["token"])
    until(lambda: sluice.stats("dead")["ready"] == 3, "the letters arrive")
    same(sluice.json("redrive", "dead", "--max", "1"), {"queue": "dead", "redriven": 1})
    same(sluice.one("tasks")["body"], "a")
    sluice.create("other")
    same(sluice.json("redrive", "dead", "--to", "other")["redriven"], 2)
    same(sluice.stats("other")["ready"], 2)
    same(sluice.json("redrive", "dead")["redriven"], 0)
    sluice.refused(NOT_FOUND, "redrive", "dead", "--to", "nope", says="nope")
    sluice.refused(INVALID, "redrive", "dead", "--max", "0", says='"0"', field="--max")


@case
def redrive_works_in_place(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    sluice.send("tasks", "x")
    sluice.ok("fail", "tasks", sluice.one("tasks")["token"])
    contains(sluice.ok("redrive", "tasks").err, "redriven 1 message of tasks")
    same(sluice.one("tasks")["body"], "x")


@case
def a_released_message_is_ready_again_without_a_retry(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    sluice.send("tasks", "x")
    token = sluice.one("tasks")["token"]
    same(sluice.json("release", "tasks", token)["status"], "released")
    sluice.refused(FENCED, "ack", "tasks", token, says=token)
    message = sluice.one("tasks")
    done = sluice.json("release", "tasks", message["token"], "--delay", "1h")
    holds(done["until"] > message["sentAt"] + 3_000_000, f"until is {done['until']}")
    same(sluice.stats("tasks")["delayed"], 1)


@case
def a_renewed_lock_lasts_longer(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    message = sluice.one("tasks", "--visibility", "5m")
    done = sluice.json("renew", "tasks", message["token"], "--visibility", "1h")
    same(done["status"], "renewed")
    holds(done["until"] > message["deadline"] + 3_000_000, f"until is {done['until']}")
    same(sluice.json("show", "tasks", message["id"])["deadline"], done["until"])
    sluice.ok("ack", "tasks", message["token"])
    sluice.refused(CONFLICT, "renew", "tasks", message["token"], says=message["token"])


@case
def the_message_of_a_killed_receiver_comes_back(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    receiver = sluice.start("receive", "tasks", "--visibility", "300ms", "--json", "--max", "1")
    first = json.loads(receiver.stdout.readline())
    receiver.send_signal(signal.SIGKILL)
    receiver.communicate()
    again = sluice.one("tasks", "--wait", "20s")
    same((again["id"], again["attempt"]), (first["id"], 2))
    holds(again["fence"] > first["fence"], "the fence did not rise")
    sluice.refused(FENCED, "ack", "tasks", first["token"], says=first["token"])
    sluice.refused(FENCED, "renew", "tasks", first["token"], says=first["token"])
    same(sluice.json("ack", "tasks", again["token"])["status"], "processed")


@case
def a_receiver_killed_while_it_waits_holds_nothing(sluice):
    sluice.create("tasks")
    waiting = sluice.start("receive", "tasks", "--wait", "60s")
    waiting.send_signal(signal.SIGKILL)
    waiting.communicate()
    sluice.send("tasks", "x")
    same(sluice.one("tasks", "--wait", "20s")["body"], "x")


@case
def tokens_that_are_not_right_are_told_apart(sluice):
    sluice.create("tasks")
    sluice.create("other")
    sluice.send("tasks", "x")
    token = sluice.one("tasks")["token"]
    forged = token[:-4] + ("0000" if token[-4:] != "0000" else "1111")
    for command in ("ack", "fail", "release", "renew"):
        sluice.refused(INVALID, command, "tasks", "nonsense", says=["nonsense", "token"], field="token")
        sluice.refused(FENCED, command, "tasks", forged, says=forged, field="token")
        sluice.refused(NOT_FOUND, command, "other", token, says=[token, "other"], field="token")
        sluice.refused(INVALID, command, "tasks", says="TOKEN is missing", field="TOKEN")
    same(sluice.json("ack", "tasks", token)["status"], "processed")


@case
def a_token_that_is_not_right_holds_up_no_other(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    token = sluice.one("tasks")["token"]
    result = sluice.run("ack", "tasks", "nonsense", token)
    same(result.status, INVALID)
    contains(result.err, "nonsense")
    stats = sluice.stats("tasks")
    same(stats["locked"] + stats["processed"], 1)


@case
def bad_numbers_are_refused(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    for options, says in [(["--max", "0"], '"0"'), (["--max", "ten"], '"ten"'), (["--max", "-1"], '"-1"'),
                          (["--wait", "5"], '"5"'), (["--wait", "soon"], '"soon"'), (["--visibility", "0"], '"0"'),
                          (["--visibility", "2d"], "2d")]:
        sluice.refused(INVALID, "receive", "tasks", *options, says=says, field=options[0])
    same(sluice.stats("tasks")["ready"], 1)


@case
def messages_that_could_not_be_printed_go_back(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    with open("/dev/full", "wb") as full:
        lost = sluice.run("receive", "tasks", stdout=full)
    same(lost.status, UNAVAILABLE)
    contains(lost.err, "standard output cannot be written")
    same(sluice.stats("tasks")["ready"], 1)


@case
def json_keys_stay_the_same_on_every_way_to_see_a_message(sluice):
    sluice.create("tasks")
    id = sluice.send("tasks", "x")
    same(list(sluice.json("peek", "tasks")), MESSAGE_KEYS)
    same(list(sluice.json("show", "tasks", id)), MESSAGE_KEYS)
    same(list(sluice.one("tasks")), MESSAGE_KEYS)


main()
