# SPDX-License-Identifier: Apache-2.0
"""queue create, list, show, set, pause, resume, purge, delete."""
import json

from harness import CONFLICT, INVALID, NOT_FOUND, case, contains, holds, main, same

TOKEN = "3f9a01cc-0-17-" + "0" * 32  # of no queue


@case
def a_queue_is_created_listed_and_shown(sluice):
    contains(sluice.ok("queue", "create", "tasks", "orderingMode=lifo", "visibilityTimeout=45s").err, "tasks")
    contains(sluice.ok("queue", "list").out, "QUEUE", "tasks", "lifo", "45s")
    same(sluice.ok("queue", "list", "--quiet").out, "tasks\n")
    contains(sluice.ok("queue", "show", "tasks").out, "orderingMode", "lifo", "visibilityTimeout")
    shown = sluice.json("queue", "show", "tasks")
    same(list(shown), ["queue", "id", "paused", "settings"])
    same((shown["queue"], shown["paused"], shown["settings"]["orderingMode"]), ("tasks", False, "lifo"))
    same(sluice.json("queue", "list"), shown)


@case
def no_queues_is_no_error(sluice):
    same(sluice.ok("queue", "list", "--json").out, "")
    contains(sluice.ok("queue", "list").err, "no queues yet")


@case
def created_as_json_says_so(sluice):
    same(sluice.json("queue", "create", "tasks"), {"queue": "tasks", "created": True})


@case
def creating_it_again_with_the_same_settings_is_fine(sluice):
    sluice.create("tasks", "shards=2")
    sluice.create("tasks", "shards=2")
    sluice.refused(CONFLICT, "queue", "create", "tasks", "shards=3", says="tasks")


@case
def the_dead_letter_queue_is_created_too(sluice):
    sluice.create("tasks", "failureStrategy.mode=hybrid", "failureStrategy.maxRetries=3",
                  "failureStrategy.deadLetterQueue=tasks_dlq")
    same(sluice.ok("queue", "list", "-q").out, "tasks\ntasks_dlq\n")
    failure = sluice.json("queue", "show", "tasks")["settings"]["failureStrategy"]
    same((failure["mode"], failure["maxRetries"], failure["deadLetterQueue"]), ("hybrid", 3, "tasks_dlq"))


@case
def a_wrong_setting_is_named_and_nothing_is_created(sluice):
    wrong = [("orderingMode=random", ["random", "fifo, lifo"], "orderingMode"),
             ("colour=red", ["colour"], "colour"),
             ("visibilityTimeout=soon", ["visibilityTimeout", "soon"], "visibilityTimeout"),
             ("failureStrategy.maxRetries=-1", ["maxRetries", "-1"], "failureStrategy.maxRetries"),
             ("capacity=1e9", ["capacity", "1e9"], "capacity")]
    for setting, says, field in wrong:
        sluice.refused(INVALID, "queue", "create", "tasks", setting, says=says, field=field)
    sluice.refused(INVALID, "queue", "create", "tasks", "orderingMode", says=["orderingMode", "visibilityTimeout=30s"])
    sluice.refused(INVALID, "queue", "create", "a b", says="a b", field="queue")
    same(sluice.ok("queue", "list", "-q").out, "")


@case
def a_bare_number_is_no_duration_in_words(sluice):
    for key in ("visibilityTimeout", "dedupWindow", "failureStrategy.backoff.initial", "failureStrategy.backoff.max"):
        sluice.refused(INVALID, "queue", "create", "tasks", f"{key}=5", field=key,
                       says=f'{key} "5" has no unit: write 5s, 5ms')
    sluice.ok("queue", "create", "tasks", "dedupWindow=0", "failureStrategy.backoff.initial=0")


@case
def a_text_of_a_file_has_a_unit_and_a_number_is_milliseconds(sluice):
    for wrong in ('{"visibilityTimeout": "30"}', '{"settings": {"visibilityTimeout": "30"}}'):
        sluice.refused(INVALID, "queue", "create", "tasks", "--config", "-", input=wrong, field="visibilityTimeout",
                       says='"30" has no unit: write 30s, 30ms, or in JSON the number 30 for milliseconds')
    sluice.refused(INVALID, "queue", "create", "tasks", "--config", "-", field="failureStrategy.backoff.initial",
                   input='{"failureStrategy": {"backoff": {"initial": "5"}}}', says='"5" has no unit')
    for name, right in (("flat", '{"visibilityTimeout": 1500}'), ("below", '{"settings": {"visibilityTimeout": 1500}}')):
        sluice.ok("queue", "create", name, "--config", "-", input=right)
        contains(sluice.ok("queue", "show", name).out, "1500ms")


@case
def a_wrong_name_of_a_setting_is_told_the_right_one(sluice):
    for typed, meant in [("failureStrategy.maxretries", "failureStrategy.maxRetries"), ("orderingmode", "orderingMode"),
                         ("maxRetries", "failureStrategy.maxRetries"), ("visibilityTimout", "visibilityTimeout"),
                         ("backoff.max", "failureStrategy.backoff.max")]:
        sluice.refused(INVALID, "queue", "create", "tasks", f"{typed}=3", field=typed,
                       says=[f'"{typed}"', f"did you mean {meant}?"])
    sluice.refused(INVALID, "queue", "create", "tasks", "failureStrategy.colour=3", says="backoff.jitter")


@case
def a_config_file_may_be_nested_or_dotted(sluice):
    nested = {"failureStrategy": {"mode": "retry", "maxRetries": 7, "backoff": {"jitter": 0.5}},
              "orderingGuarantee": True, "visibilityTimeout": "2s"}
    sluice.ok("queue", "create", "one", "--config", sluice.path("one.json", json.dumps(nested)))
    sluice.ok("queue", "create", "two", "--config", "-", input='{"failureStrategy.maxRetries": 9}')
    one, two = (sluice.json("queue", "show", name)["settings"] for name in ("one", "two"))
    same((one["failureStrategy"]["maxRetries"], one["failureStrategy"]["backoff"]["jitter"]), (7, 0.5))
    same((one["orderingGuarantee"], two["failureStrategy"]["maxRetries"]), (True, 9))


@case
def words_win_over_the_config_file(sluice):
    config = sluice.path("c.json", '{"visibilityTimeout": "2s", "shards": 2}')
    sluice.ok("queue", "create", "tasks", "shards=3", "--config", config)
    same(sluice.json("queue", "show", "tasks")["settings"]["shards"], 3)


@case
def settings_that_were_shown_create_the_same_queue(sluice):
    sluice.create("one", "failureStrategy.backoff.multiplier=1.5", "orderingMode=lifo", "dedupWindow=90s")
    settings = sluice.json("queue", "show", "one")["settings"]
    sluice.ok("queue", "create", "two", "--config", "-", input=json.dumps(settings))
    same(sluice.json("queue", "show", "two")["settings"], settings)
    shown = sluice.ok("queue", "show", "one", "--json").out
    sluice.ok("queue", "create", "three", "--config", "-", input=shown)
    same(sluice.json("queue", "show", "three")["settings"], settings)
    sluice.refused(INVALID, "queue", "create", "four", "--config", "-", input='{"queue": "x", "shards": 2}',
                   says="queue")


@case
def bad_json_names_line_and_column(sluice):
    config = sluice.path("bad.json", '{"orderingMode": "fifo",\n "shards": }')
    sluice.refused(INVALID, "queue", "create", "tasks", "--config", config, says=["line 2, column", "bad.json"],
                   field="--config")
    for text, says in [("[1]", "object"), ("", "line"), ('{"shards": [1]}', "shards is a list"),
                       ('{"a": null}', "a is null"), ('{"a": 1, "a": 2}', "line 1")]:
        sluice.refused(INVALID, "queue", "create", "tasks", "--config", "-", input=text, says=says)
    sluice.refused(INVALID, "queue", "create", "tasks", "--config", "missing.json", says="missing.json")
    same(sluice.ok("queue", "list", "-q").out, "")


@case
def a_queue_that_exists_is_not_created_again(sluice):
    same(sluice.json("queue", "create", "tasks", "visibilityTimeout=9s"), {"queue": "tasks", "created": True})
    same(sluice.json("queue", "create", "tasks", "visibilityTimeout=9s"), {"queue": "tasks", "created": False})
    again = sluice.ok("queue", "create", "tasks", "visibilityTimeout=9s")
    contains(again.err, "exists already")
    holds("created" not in again.err, again.err)
    sluice.refused(CONFLICT, "queue", "create", "tasks", "visibilityTimeout=8s", says="visibilityTimeout 9s instead of 8s")
    holds("created" not in sluice.ok("send", "tasks", "x", "--create").err, "send --create of an existing queue")
    contains(sluice.ok("send", "fresh", "x", "--create").err, "created queue fresh")


@case
def limits_of_settings_are_told_in_units(sluice):
    sluice.refused(INVALID, "queue", "create", "q", "visibilityTimeout=48h", says="must be between 1ms and 24h")
    sluice.refused(INVALID, "queue", "create", "q", "maxMessageBytes=100MB", says="must be between 1B and 64MiB")
    sluice.create("small", "maxMessageBytes=1KiB")
    sluice.refused(INVALID, "send", "small", "x" * 2000, says="allows 1KiB (maxMessageBytes)", field="body")


@case
def a_missing_queue_is_told_the_nearest_name(sluice):
    sluice.create("emails")
    for words in (["stats", "email"], ["stats", "email", "--watch"], ["redrive", "email"], ["receive", "email"],
                  ["redrive", "emails", "--to", "email"], ["peek", "email"], ["events", "email"], ["queue", "show", "email"],
                  ["queue", "purge", "email", "--yes"], ["ack", "email", TOKEN], ["work", "email", "--", "true"]):
        error = sluice.refused(NOT_FOUND, *words, says='queue "email" does not exist; did you mean emails?', field="queue")
        holds("create" not in error["message"], f"{words}: {error}")
    for words in (["stats", "zzz"], ["redrive", "zzz"]):
        error = sluice.refused(NOT_FOUND, *words, says='queue "zzz" does not exist; "sluice queue list"', field="queue")
        holds("create" not in error["message"] and "did you" not in error["message"], f"{words}: {error}")
    sluice.refused(NOT_FOUND, "send", "email", "x",
                   says="did you mean emails? Or create it with: sluice queue create email", field="queue")
    sluice.refused(NOT_FOUND, "send", "zzz", "x", says='"zzz" does not exist; create it with: sluice queue create zzz')


@case
def settings_change_all_or_none(sluice):
    sluice.create("tasks")
    same(sluice.json("queue", "set", "tasks", "visibilityTimeout=2s"), {"queue": "tasks", "changed": True})
    sluice.refused(INVALID, "queue", "set", "tasks", "visibilityTimeout=3s", "orderingMode=random", says="random")
    sluice.refused(CONFLICT, "queue", "set", "tasks", "shards=4", says="fixed")
    sluice.refused(INVALID, "queue", "set", "tasks", says="KEY=VALUE is missing")
    sluice.refused(NOT_FOUND, "queue", "set", "nope", "visibilityTimeout=3s", says='queue "nope" does not exist')
    contains(sluice.ok("queue", "show", "tasks").out, "visibilityTimeout                   2s")


@case
def a_paused_queue_takes_messages_and_gives_none_out(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "one")
    held = sluice.one("tasks")
    same(sluice.json("queue", "pause", "tasks"), {"queue": "tasks", "paused": True})
    holds(sluice.json("queue", "show", "tasks")["paused"], "it is not shown as paused")
    sluice.send("tasks", "two")
    same(sluice.receive("tasks", "--wait", "50ms"), [])
    contains(sluice.ok("receive", "tasks").err, "paused", "sluice queue resume tasks")
    contains(sluice.ok("work", "tasks", "--drain", "--", "true").err, "paused", "sluice queue resume tasks")
    same(sluice.json("ack", "tasks", held["token"])["status"], "processed")
    same(sluice.json("queue", "resume", "tasks"), {"queue": "tasks", "resumed": True})
    same(sluice.one("tasks")["body"], "two")


@case
def purging_and_deleting_insist_on_yes_without_a_terminal(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "one")
    for command in ("purge", "delete"):
        sluice.refused(INVALID, "queue", command, "tasks", says=["deletes messages permanently", "--yes"], field="--yes")
    same(sluice.stats("tasks")["ready"], 1)


@case
def purge_drops_what_waits_and_leaves_what_is_locked(sluice):
    sluice.create("tasks")
    for body in ("one", "two", "three"):
        sluice.send("tasks", body)
    held = sluice.one("tasks")
    same(sluice.json("queue", "purge", "tasks", "--yes"), {"queue": "tasks", "purged": 2})
    sluice.ok("ack", "tasks", held["token"])
    stats = sluice.stats("tasks")
    same((stats["ready"], stats["locked"], stats["processed"]), (0, 0, 1))


@case
def purge_dead_drops_the_dead_only(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    sluice.send("tasks", "one")
    sluice.ok("fail", "tasks", sluice.one("tasks")["token"])
    sluice.send("tasks", "two")
    same(sluice.json("queue", "purge", "tasks", "--dead", "--yes")["purged"], 1)
    stats = sluice.stats("tasks")
    same((stats["ready"], stats["dead"]), (1, 0))


@case
def a_deleted_queue_is_gone_and_its_name_is_free(sluice):
    sluice.create("tasks")
    old = sluice.send("tasks", "one")
    same(sluice.json("queue", "delete", "tasks", "--yes"), {"queue": "tasks", "deleted": True})
    sluice.refused(NOT_FOUND, "receive", "tasks", says="does not exist", field="queue")
    sluice.create("tasks")
    same(sluice.stats("tasks")["ready"], 0)
    sluice.refused(NOT_FOUND, "show", "tasks", old, says=old)


@case
def a_dead_letter_queue_in_use_is_not_deleted(sluice):
    sluice.create("tasks", "failureStrategy.mode=dead-letter", "failureStrategy.deadLetterQueue=dead")
    sluice.refused(CONFLICT, "queue", "delete", "dead", "--yes", says=["dead", "tasks"], field="queue")
    sluice.ok("queue", "delete", "tasks", "--yes")
    sluice.ok("queue", "delete", "dead", "--yes")


@case
def unknown_queues_are_not_found(sluice):
    for words in (["queue", "show"], ["queue", "pause"], ["queue", "resume"], ["queue", "purge", "--yes"],
                  ["queue", "delete", "--yes"], ["receive"], ["peek"], ["stats"], ["events"], ["audit"], ["redrive"]):
        sluice.refused(NOT_FOUND, *words, "nope", says="nope", field="queue")
    sluice.refused(NOT_FOUND, "ack", "nope", TOKEN, says="nope")
    sluice.refused(NOT_FOUND, "show", "nope", "x", says="nope")


main()
