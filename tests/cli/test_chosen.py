# SPDX-License-Identifier: Apache-2.0
"""Chosen messages: found by what they contain, redriven by id or by filter, sent again."""
from harness import CONFLICT, INVALID, NOT_FOUND, case, contains, holds, main, same, until
from terminal import Terminal


def found(sluice, *options):
    """The ids that peek finds, and how far it read."""
    lines = sluice.ok("peek", "tasks", "--json", *options).lines()
    return [line["id"] for line in lines[:-1]], lines[-1]


def killed(sluice, count, *settings):
    """A queue with so many dead messages; returns their ids."""
    sluice.create("tasks", "failureStrategy.maxRetries=0", *settings)
    for number in range(count):
        sluice.send("tasks", f"job {number}", "--header", f"n={number % 2}")
    failed = 0
    while failed < count:  # a receive looks at one shard
        tokens = [message["token"] for message in sluice.receive("tasks", "--max", str(count))]
        sluice.ok("fail", "tasks", *tokens, "--reason", "broken")
        failed += len(tokens)


def letters(sluice, count):
    """Dead letters of tasks in the queue dead; returns their ids."""
    killed(sluice, count, "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=dead")
    until(lambda: sluice.stats("dead")["ready"] == count, "the letters arrive")
    return {message["body"]: message["id"] for message in sluice.ok("peek", "dead", "--max", "100", "--json").lines()}


@case
def messages_are_found_by_header_text_and_time(sluice):
    sluice.create("tasks")
    ids = [sluice.send("tasks", f"order {number} of Ann", "--header", f"site={number % 2}") for number in range(4)]
    large = sluice.ok("send", "tasks", "-", input=b"x" * 300_000 + b"needle").out.strip()
    same(found(sluice, "--header", "site=1")[0], [ids[1], ids[3]])
    same(found(sluice, "--contains", "order 2")[0], [ids[2]])
    same(found(sluice, "--contains", "needle")[0], [large])
    same(found(sluice, "--contains", "of Ann", "--header", "site=0")[0], [ids[0], ids[2]])
    same(found(sluice, "--contains", "of Bob"),
         ([], {"queue": "tasks", "messagesRead": 5, "bytesRead": found(sluice, "--contains", "x")[1]["bytesRead"]}))
    first = sluice.json("show", "tasks", ids[0])["sentAt"]
    same(found(sluice, "--before", str(first))[0], [])
    same(found(sluice, "--before", "2100-01-01T00:00:00Z")[0], ids + [large])
    same([message["id"] for message in sluice.ok("peek", "tasks", "--id", ids[2], "--json").lines()], [ids[2]])
    contains(sluice.ok("peek", "tasks", "--contains", "order 2").err, "read 5 messages", "1 matches", "all were read")


@case
def a_search_continues_where_it_stopped(sluice):
    sluice.create("tasks", "shards=3")
    for number in range(12):
        sluice.ok("send", "tasks", "-", "--header", f"n={number % 3}", input=f"{number} " + "x" * 200_000)
    seen, after, parts = [], (), 0
    while True:
        some, end = found(sluice, "--header", "n=1", "--read", "1", "--max", "3", *after)
        seen += some
        parts += 1
        holds(end["bytesRead"] <= (1 << 20) + 300_000, end)
        if "next" not in end:
            break
        after = ("--after", end["next"])
    bodies = [sluice.json("show", "tasks", one)["body"].split()[0] for one in seen]
    same(sorted(bodies, key=int), ["1", "4", "7", "10"])
    holds(parts >= 3, f"{parts} parts")


@case
def bad_filters_have_their_sentence(sluice):
    sluice.create("tasks")
    sluice.refused(INVALID, "peek", "tasks", "--header", "site", says="NAME=VALUE", field="--header")
    sluice.refused(INVALID, "peek", "tasks", "--contains", "", says="every body contains it", field="--contains")
    sluice.refused(INVALID, "peek", "tasks", "--contains", "x" * 1025, says="at most 1024", field="contains")
    sluice.refused(INVALID, "peek", "tasks", *["--header", "a=b"] * 17, says="at most 16", field="header")
    sluice.refused(INVALID, "peek", "tasks", "--before", "soon", says="soon", field="--before")
    sluice.refused(INVALID, "peek", "tasks", "--id", "0-0-1", "--contains", "x", says="exclude each other")
    sluice.refused(INVALID, "redrive", "tasks", "0-0-1", "--contains", "x", says="exclude each other")
    sluice.refused(INVALID, "redrive", "tasks", "0-0-1", "--max", "1", says="without IDs and filters")


@case
def chosen_dead_messages_are_redriven(sluice):
    killed(sluice, 6, "shards=2")
    dead = [message["id"] for message in sluice.ok("peek", "tasks", "--state", "dead", "--json").lines()]
    same(len(dead), 6)
    done = sluice.ok("redrive", "tasks", dead[1], dead[4], "--json").lines()
    same(done, [{"id": one, "queue": "tasks", "status": "redriven"} for one in (dead[1], dead[4])])
    stats = sluice.stats("tasks")
    same([stats["dead"], stats["ready"]], [4, 2])
    sluice.refused(CONFLICT, "redrive", "tasks", dead[1], says=[dead[1], "only a dead message"], field="id")
    never = dead[0].rsplit("-", 1)[0] + "-999"
    sluice.refused(NOT_FOUND, "redrive", "tasks", never, says=f"no message {never}")
    sluice.refused(NOT_FOUND, "redrive", "tasks", "00000000-0-1", says="another queue")
    sluice.refused(INVALID, "redrive", "tasks", dead[0], "nonsense", says='"nonsense" is not a message id', field="id")
    sluice.refused(INVALID, "redrive", "tasks", dead[0], dead[2], dead[0], says=f"message {dead[0]} is given twice")
    same(sluice.stats("tasks")["dead"], 4)
    mixed = sluice.run("redrive", "tasks", dead[0], dead[1], dead[2])
    same([mixed.status, mixed.out.splitlines()], [CONFLICT, [f"{dead[0]}  redriven", f"{dead[2]}  redriven"]])
    contains(mixed.err, f"message {dead[1]}")
    same(sluice.stats("tasks")["dead"], 2)
    rest = sluice.ok("redrive", "tasks", "-", "--json", input="\n".join([dead[3], dead[5]])).lines()
    same([row["id"] for row in rest], [dead[3], dead[5]])


@case
def a_redrive_by_filter_counts_first(sluice):
    killed(sluice, 6)
    sluice.refused(INVALID, "redrive", "tasks", "--header", "n=1", says=["3 of tasks", "--yes"], field="--yes")
    same(sluice.json("redrive", "tasks", "--header", "n=1", "--yes"), {"queue": "tasks", "found": 3, "redriven": 3})
    contains(sluice.ok("redrive", "tasks", "--contains", "job", "--yes").err, "redriven 3 of 3 messages of tasks")
    same(sluice.json("redrive", "tasks", "--contains", "job", "--yes"), {"queue": "tasks", "found": 0, "redriven": 0})
    same(sluice.stats("tasks")["ready"], 6)


@case
def a_terminal_is_asked(sluice):
    killed(sluice, 2)
    for answer, expected in (("n\n", 2), ("y\n", 1)):
        terminal = Terminal(sluice, "redrive", "tasks", "--header", "n=1")
        terminal.wait_for("1 message of tasks match")
        terminal.wait_for("Redrive? [y/N]")
        terminal.type(answer)
        terminal.end()
        same(sluice.stats("tasks")["dead"], expected, terminal.seen)


@case
def chosen_letters_go_back(sluice):
    ids = letters(sluice, 4)
    sluice.ok("redrive", "dead", ids["job 2"])
    same([message["body"] for message in sluice.ok("peek", "tasks", "--json").lines()], ["job 2"])
    same(sluice.json("redrive", "dead", "--contains", "job 0", "--yes")["redriven"], 1)
    left = sluice.ok("peek", "dead", "--json").lines()
    same([(message["body"], message["attempt"]) for message in left], [("job 1", 0), ("job 3", 0)])
    plain = sluice.send("dead", "no letter")
    sluice.refused(CONFLICT, "redrive", "dead", plain, says="only a dead message")
    sluice.refused(NOT_FOUND, "redrive", "dead", ids["job 1"], "--to", "nowhere", says="nowhere")
    sluice.refused(INVALID, "redrive", "dead", ids["job 1"], "--to", "dead", says="into itself")


def claimed(sluice, queue):
    """The messages that were ever handed out."""
    return [event["message"] for event in sluice.events(queue) if event["type"] == "message-claimed"]


@case
def letters_that_are_not_chosen_are_not_touched(sluice):
    ids = letters(sluice, 20)
    sluice.ok("redrive", "dead", ids["job 13"])
    same(claimed(sluice, "dead"), [ids["job 13"]])
    same(sluice.json("redrive", "dead", "--contains", "job 7", "--yes"), {"queue": "dead", "found": 1, "redriven": 1})
    same(claimed(sluice, "dead"), [ids["job 13"], ids["job 7"]])
    same(sluice.json("redrive", "dead", "--max", "1")["redriven"], 1)
    same(claimed(sluice, "dead"), [ids["job 13"], ids["job 7"], ids["job 0"]])
    sluice.send("dead", "no letter")
    same(sluice.json("redrive", "dead")["redriven"], 17)
    same(len(claimed(sluice, "dead")), 20)
    same(sluice.stats("tasks")["ready"], 20)


@case
def a_paused_queue_of_letters_is_redriven(sluice):
    ids = letters(sluice, 3)
    sluice.ok("queue", "pause", "dead")
    sluice.ok("redrive", "dead", ids["job 2"])
    same(sluice.json("redrive", "dead", "--max", "1")["redriven"], 1)
    same(sluice.json("redrive", "dead")["redriven"], 1)
    same([sluice.stats("dead")["ready"], sluice.stats("tasks")["ready"]], [0, 3])


@case
def two_operators_redrive_at_the_same_time(sluice):
    ids = letters(sluice, 40)
    halves = [[ids[f"job {number}"] for number in range(half, 40, 2)] for half in (0, 1)]
    running = [sluice.start("redrive", "dead", *half) for half in halves]
    for one in running:
        out, err = one.communicate()
        same(one.returncode, 0, f"{out} {err}")
    same(sorted(claimed(sluice, "dead")), sorted(ids.values()))
    same(sluice.stats("tasks")["ready"], 40)


@case
def a_letter_that_a_worker_has_is_refused(sluice):
    ids = letters(sluice, 2)
    sluice.receive("dead", "--max", "1", "--worker", "w")
    held = next(m["id"] for m in sluice.ok("peek", "dead", "--state", "locked", "--json").lines())
    sluice.refused(CONFLICT, "redrive", "dead", held, says=[held, "is locked"], field="id")
    other = next(one for one in ids.values() if one != held)
    sluice.ok("redrive", "dead", other)


@case
def letters_of_a_strict_queue_go_in_the_order_of_their_group(sluice):
    sluice.create("dead", "orderingGuarantee=true")
    sluice.create("tasks", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=dead")
    for number in range(20):
        sluice.send("tasks", f"job {number}", "--group", "g")
    for message in sluice.receive("tasks", "--max", "20"):
        sluice.ok("fail", "tasks", message["token"])
    until(lambda: sluice.stats("dead")["ready"] == 20, "the letters arrive")
    rows = sluice.ok("peek", "dead", "--max", "20", "--json").lines()
    sluice.refused(CONFLICT, "redrive", "dead", rows[2]["id"], says="another message of its group", field="id")
    same(claimed(sluice, "dead"), [])
    sluice.ok("redrive", "dead", rows[1]["id"], rows[0]["id"])
    same(sluice.json("redrive", "dead")["redriven"], 18)
    same([m["body"] for m in sluice.ok("peek", "tasks", "--max", "20", "--json").lines()], [row["body"] for row in rows])


@case
def a_message_is_sent_again_with_changes(sluice):
    sluice.create("tasks")
    first = sluice.send("tasks", "hello", "--header", "a=1", "--header", "b=2", "--group", "g", "--priority", "3",
                        "--dedup", "once", "--workflow", "w")
    again = sluice.json("send", "tasks", "--from", first)
    same(again["duplicate"], False)
    seen = sluice.json("show", "tasks", again["id"])
    same([seen["body"], seen["group"], seen["priority"]], ["hello", "g", 3])
    same(seen["headers"], {"a": "1", "b": "2", "sluice-sent-again": first})
    other = sluice.json("send", "tasks", "bye", "--from", again["id"], "--header", "b=9", "--priority", "0", "--group", "h")
    seen = sluice.json("show", "tasks", other["id"])
    same([seen["body"], seen["group"], seen["priority"]], ["bye", "h", 0])
    same(seen["headers"], {"a": "1", "b": "9", "sluice-sent-again": again["id"]})
    sluice.refused(INVALID, "send", "tasks", "--from", first, "--lines", "x", says="exclude each other")
    sluice.refused(INVALID, "send", "tasks", "--from", "zzz", says="not a message id")
    sluice.refused(NOT_FOUND, "send", "tasks", "--from", "nope/" + first, says="nope")


@case
def a_dead_letter_is_corrected_and_sent_to_its_queue(sluice):
    one = letters(sluice, 1)["job 0"]
    sluice.ok("send", "tasks", "--from", f"dead/{one}", "job 0, corrected")
    sent = sluice.one("tasks")
    same([sent["body"], sent["headers"]], ["job 0, corrected", {"n": "0", "sluice-sent-again": one}])
    sluice.ok("ack", "tasks", sent["token"])
    sluice.refused(CONFLICT, "send", "tasks", "--from", sent["id"], says="its content is not kept", field="--from")


if __name__ == "__main__":
    main(at_once=3)
