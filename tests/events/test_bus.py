# SPDX-License-Identifier: Apache-2.0
"""`sluice events --bus` on a real NATS server: order, duplicates, gaps, resume, filters, mistakes. Runs under with-nats."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from bus import BUS, Follower, control, put, queue_name  # noqa: E402
from harness import CASES, INVALID, NOT_FOUND, UNAVAILABLE, case, contains, main, same  # noqa: E402

def events(sluice, *words):
    return sluice.ok("events", "--bus", BUS, "--json", *words).lines()


def sequences(lines, shard=0):
    return [line["sequence"] for line in lines if "sequence" in line and line["shard"] == shard]


@case
def events_come_in_order_with_the_fields_of_the_envelope(sluice):
    queue = queue_name("mail")
    put(queue, 0, 1, 50)
    put(queue, 1, 1, 20)
    lines = events(sluice, queue)
    same((sequences(lines), sequences(lines, 1)), (list(range(1, 51)), list(range(1, 21))))
    same(list(lines[0]), ["event_id", "event_type", "schema_version", "timestamp", "node_id", "queue", "shard", "task_id",
                          "workflow_id", "ordering_key", "sequence", "attempt", "payload"])
    contains(sluice.ok("events", "--bus", BUS, queue).out, f"{queue} 0.1 ", "message-outcome", "processed", "by host/1")


@case
def the_server_drops_a_message_id_and_the_consumer_what_the_server_lets_through(sluice):
    queue = queue_name()
    put(queue, 0, 1, 30)
    put(queue, 0, 10, 30)             # the same message ids: the stream drops them
    put(queue, 0, 5, 40, ".again")    # other message ids, as after the duplicate window
    put(queue, 0, 1, 45, ".once-more")
    same(sequences(events(sluice, queue)), list(range(1, 46)))


@case
def events_that_come_late_are_put_in_order(sluice):
    queue = queue_name()
    for first, last in [(1, 5), (11, 20), (6, 10), (21, 22)]:
        put(queue, 0, first, last)
    same(sequences(events(sluice, queue)), list(range(1, 23)))


@case
def a_gap_is_reported_with_its_range(sluice):
    queue = queue_name()
    put(queue, 0, 1, 3)
    put(queue, 0, 4, 6, "gap")  # the publisher says so
    put(queue, 0, 7, 8)
    put(queue, 0, 11, 12)       # and here it does not
    plain = sluice.start("events", "--bus", BUS, queue)  # both wait for the events that are missing
    lines = events(sluice, queue)
    same(sequences(lines), [1, 2, 3, 7, 8, 11, 12])
    gaps = [line["gap"] for line in lines if "gap" in line]
    same([(gap["queue"], gap["shard"], gap["first"], gap["last"]) for gap in gaps], [(queue, 0, 4, 6), (queue, 0, 9, 10)])
    contains(gaps[0]["reason"], "skipped")
    contains(gaps[1]["reason"], "in time")
    contains(plain.communicate(timeout=60)[0].decode(), "gap: events 4 to 6 are missing", "gap: events 9 to 10 are missing")


@case
def a_position_continues_without_loss_or_repetition(sluice):
    queues, file = [queue_name(), queue_name()], sluice.path("position")
    put(queues[0], 0, 1, 10)
    put(queues[1], 0, 1, 3)
    first = events(sluice, *queues, "--position", file)
    same(len(first), 13)
    same(events(sluice, *queues, "--position", file), [])
    put(queues[0], 0, 5, 15, ".again")
    put(queues[1], 0, 4, 4)
    more = events(sluice, *queues, "--position", file)
    same(sorted((line["queue"], line["sequence"]) for line in more),
         sorted([(queues[0], n) for n in range(11, 16)] + [(queues[1], 4)]))


@case
def a_server_that_is_killed_and_comes_back_loses_no_event_for_a_follower(sluice):
    queue, file = queue_name(), sluice.path("position")
    put(queue, 0, 1, 20)
    follower = subprocess.Popen([os.environ["SLUICE"], "events", "--bus", BUS, "--json", "--follow", "--position", file,
                                 queue], stdout=subprocess.PIPE, text=True)
    try:
        got = [json.loads(follower.stdout.readline())["sequence"] for _ in range(20)]
        control("restart", "0")
        put(queue, 0, 15, 40, ".again")
        got += [json.loads(follower.stdout.readline())["sequence"] for _ in range(20)]
    finally:
        follower.terminate()
        follower.wait(60)
    same(got, list(range(1, 41)))
    same(follower.returncode, 0)
    put(queue, 0, 41, 41)
    same(sequences(events(sluice, queue, "--position", file)), [41])


@case
def a_stream_that_lost_its_newest_messages_is_read_on(sluice):
    queue = queue_name()
    put(queue, 0, 1, 10)
    control("save", "0")
    put(queue, 0, 11, 20)
    with Follower(sluice, queue) as follower:
        same(follower.read(20), list(range(1, 21)))
        control("lose", "0")
        put(queue, 0, 11, 25)  # as a publisher that compares the stream with the journal
        same(follower.read(5), list(range(21, 26)))


@case
def a_stream_that_was_created_again_is_read_from_its_beginning(sluice):
    queue = queue_name()
    control("save", "0")
    put(queue, 0, 1, 10)
    with Follower(sluice, queue) as follower:
        same(follower.read(10), list(range(1, 11)))
        control("lose", "0")
        put(queue, 0, 1, 14)
        same(follower.read(4), list(range(11, 15)))


@case
def a_follower_that_is_killed_misses_nothing(sluice):
    queue, got, newest = queue_name(), [], 0
    for round_number in range(6):
        put(queue, 0, max(1, newest - 3), newest + 20, f".{round_number}")
        newest += 20
        with Follower(sluice, queue) as follower:
            while not got or got[-1] < newest - 7 * (round_number % 2):
                got += follower.read(1)
            got += follower.kill()
    same(sorted(set(got)), list(range(1, got[-1] + 1)))
    runs = [number for number, (before, after) in enumerate(zip(got, got[1:])) if after != before + 1]
    same(len(runs) <= 5, True)  # it goes back only where it was killed


@case
def filters_choose_by_type_workflow_and_message(sluice):
    queue = queue_name()
    put(queue, 0, 1, 12)
    put(queue, 0, 1, 12, ".again")
    lines = events(sluice, queue, "--type", "message-enqueued")
    same((sequences(lines), {line["event_type"] for line in lines}), ([3, 6, 9, 12], {"message-enqueued"}))
    same(sequences(events(sluice, queue, "--workflow", "w 1")), list(range(1, 13)))
    same(events(sluice, queue, "--workflow", "w"), [])
    same(sequences(events(sluice, queue, "--task", "00112233-0-2")), [2, 7, 12])


@case
def from_now_skips_what_is_there(sluice):
    queue = queue_name()
    put(queue, 0, 1, 5)
    same(events(sluice, queue, "--from", "now"), [])


@case
def a_hostile_name_reads_only_its_own_stream(sluice):
    base = queue_name()
    put(base, 0, 1, 2)
    put(f"{base}.x", 0, 1, 3)
    same((len(events(sluice, base)), len(events(sluice, f"{base}.x"))), (2, 3))


@case
def an_envelope_of_another_major_is_refused_with_a_reason_and_the_others_are_read(sluice):
    queue = queue_name()
    put(queue, 0, 1, 2)
    put(queue, 0, 3, 3, "major")
    put(queue, 0, 3, 4)
    lines = events(sluice, queue)
    same(sequences(lines), [1, 2, 3, 4])
    refused = [line["refused"] for line in lines if "refused" in line]
    same(len(refused), 1)
    contains(str(refused[0]), "schema_version", "2", "1")


@case
def mistakes_are_named(sluice):
    queue, bad = queue_name(), sluice.path("bad")
    put(queue, 0, 1, 1)
    with open(bad, "w", encoding="utf-8") as file:
        file.write("sluice-bus 1\nstream x")
    for status, words, says in [
            (INVALID, ["--bus", "kafka://h", queue], ["kafka"]),
            (INVALID, ["--bus", BUS, "a b"], ['"a b" is not the name of a queue']),
            (INVALID, ["--bus", BUS, queue, "--position", bad], ["position", "cut off or damaged"]),
            (INVALID, ["--bus", BUS, queue, "--from", "17"], ["--from", "now"]),
            (INVALID, ["--bus", BUS, queue, "--type", "a b"], ['"a b" is not a type of event']),
            (INVALID, ["--bus", BUS, queue, "--task", "no id"], ['"no id"']),
            (INVALID, ["--bus", BUS, "*"], ['"*" is not the name of a queue']),
            (INVALID, ["--bus", BUS, "a.>"], ['"a.>" is not the name of a queue']),
            (INVALID, [queue, "--type", "gap"], ["--type", "--bus"]),
            (INVALID, [queue, "another"], ["another", "--bus"]),
            (NOT_FOUND, ["--bus", BUS, "nothing.here"], ["SLUICE_nothing=2Ehere", "no node has published"])]:
        sluice.refused(status, "events", *words, says=says)


@case
def a_bus_that_does_not_answer_is_named(sluice):
    done = sluice.run("events", "--bus", "nats://127.0.0.1:1", "tasks")
    same((done.status, done.out), (UNAVAILABLE, ""))
    contains(done.err, "sluice: ", "bus")


main(at_once=4, last=[one for one in CASES if "control" in one.__code__.co_names])  # the server is shared
