# SPDX-License-Identifier: Apache-2.0
"""import: from a real beanstalkd, in every state of a job, killed and continued; from a file of JSON lines."""
import collections
import json
import os
import random
import socket
import threading
import time

from beanstalkd import Beanstalkd
from harness import (CONFLICT, CORRUPT, INVALID, LIMIT, NOT_FOUND, ON_S3, OVER_HTTP, UNAVAILABLE, case, contains,
                     holds, main, same)

KEYS = ["queue", "source", "imported", "sent", "alreadyThere", "runs", "copiedNow", "deletedNow", "takenByOthers",
        "queueGrewBy", "left", "elapsedMs"]
NOTHING = {"ready": 0, "delayed": 0, "buried": 0, "reserved": 0}


def messages(sluice, queue):
    """All that wait in a queue, by state."""
    found = {}
    for state in ("ready", "delayed"):
        found[state] = sluice.ok("peek", queue, "--state", state, "--max", "10000", "--json").lines()
    return found


def bodies(found):
    return collections.Counter(one["body"] for some in found.values() for one in some)


def record_of(sluice):
    folder = os.path.join(sluice.folder, ".local/state/sluice")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    same(len(names), 1, "records")
    return os.path.join(folder, names[0])


def record_size(sluice):
    folder = os.path.join(sluice.folder, ".local/state/sluice")
    return sum(os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder)) if os.path.isdir(folder) else 0


def reopen_last_batch(path):
    """As if the last run had been killed after its last batch was sent."""
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    last = max(at for at, line in enumerate(lines) if line.startswith(b"done "))
    with open(path, "wb") as file:
        file.write(b"".join(lines[:last]))


@case
def jobs_of_every_state_arrive_once(sluice):
    sluice.create("mail")
    with Beanstalkd() as server:
        server.put("mail", [b"buried %d" % i for i in range(20)])
        server.bury("mail", 20)
        server.put("mail", [b"held"], priority=0)
        held = server.reserve("mail")
        server.put("mail", [b"ready %d" % i for i in range(300)])
        server.put("mail", [b"urgent"], priority=0)
        server.put("mail", [b"delayed %d" % i for i in range(100)], delay=3600, priority=100)
        server.put("other", [b"another tube"])
        result = sluice.json("import", "mail", server.url("mail"))
        same(list(result), KEYS)
        same([result[key] for key in KEYS[2:10]], [401, 401, 0, 1, 401, 401, 0, 401])
        same(result["left"], {"ready": 0, "delayed": 0, "buried": 20, "reserved": 1})
        found = messages(sluice, "mail")
        same(len(found["ready"]), 301)
        same(len(found["delayed"]), 100)
        by_body = {one["body"]: one for some in found.values() for one in some}
        same(by_body["urgent"]["priority"], 9)
        same(by_body["ready 0"].get("priority", 0), 0)
        same(by_body["delayed 0"]["priority"], 3)
        due = by_body["delayed 0"]["deadline"] - time.time() * 1000
        holds(3_400_000 < due < 3_660_000, f"delayed by {due}")
        said = sluice.ok("import", "mail", server.url("mail"), "--state", "buried")
        contains(said.err, "imported 20 jobs to mail", "1 that workers hold")
        same(server.ask(f"delete {held}"), "DELETED")
        same(sum(bodies(messages(sluice, "mail")).values()), 421)
        same(server.counts("other")["ready"], 1)


@case
def an_import_that_is_killed_again_and_again_loses_and_repeats_nothing(sluice):
    sluice.create("mail", "dedupWindow=1h")
    chance = random.Random(5)
    with Beanstalkd() as server:
        expected = collections.Counter()
        for name, delay in (("buried", 0), ("ready", 0), ("delayed", 3600)):
            part = [f"{name} {i} {'x' * chance.randrange(8000)}".encode() for i in range(1500)]
            for at in range(0, 1500, 100):
                server.put("mail", part[at:at + 100], priority=chance.choice([0, 100, 1024, 5000]), delay=delay)
            if name == "buried":
                server.bury("mail", 1500)
            expected.update(body.decode() for body in part)
        kills = 0
        command = ("import", "mail", server.url("mail"), "--state", "all", "--json")
        while kills < 40:
            run, before = sluice.start(*command), record_size(sluice)
            while run.poll() is None and record_size(sluice) <= before + 60:  # the line of the run, and no batch
                time.sleep(0.0005)
            time.sleep(chance.choice([0, 0.001, 0.003, 0.01, 0.03]))
            if run.poll() is not None:
                break
            run.kill()
            run.wait()
            kills += 1
        result = sluice.json(*command)
        same(result["imported"], 4500, str(result))
        same(result["queueGrewBy"], 4500, str(result))
        holds(kills >= 3, f"only {kills} kills: {result}")
        same(result["left"], NOTHING)
        same(server.counts("mail"), NOTHING)
        same(bodies(messages(sluice, "mail")) - expected, collections.Counter())
        same(expected - bodies(messages(sluice, "mail")), collections.Counter())
        same(len(messages(sluice, "mail")["delayed"]), 1500)


@case
def keep_deletes_nothing_and_a_repeat_copies_only_what_is_new(sluice):
    sluice.create("mail", "dedupWindow=1s")
    with Beanstalkd() as server:
        server.put("mail", [b"a", b"b"])
        server.put("mail", [b"c"], delay=100)
        same(sluice.json("import", "mail", server.url("mail"), "--keep")["imported"], 3)
        same(server.counts("mail"), {"ready": 2, "delayed": 1, "buried": 0, "reserved": 0})
        server.put("mail", [b"d"])
        again = sluice.json("import", "mail", server.url("mail"), "--keep")
        same([again["imported"], again["copiedNow"], again["runs"]], [4, 1, 2])
        same(bodies(messages(sluice, "mail")), collections.Counter("abcd"))
        # Without --keep the jobs go, and are not sent again.
        last = sluice.json("import", "mail", server.url("mail"))
        same([last["imported"], last["copiedNow"], last["deletedNow"]], [4, 0, 4])
        same(bodies(messages(sluice, "mail")), collections.Counter("abcd"))


@case
def an_open_batch_is_decided_by_the_dedup_keys(sluice):
    sluice.create("mail", "dedupWindow=1h")
    with Beanstalkd() as server:
        server.put("mail", [b"a", b"b"])
        sluice.ok("import", "mail", server.url("mail"), "--keep")
        reopen_last_batch(record_of(sluice))
        result = sluice.json("import", "mail", server.url("mail"), "--keep")
        same([result["imported"], result["sent"], result["alreadyThere"]], [2, 0, 2])
        same(sluice.stats("mail")["ready"], 2)


@case
def an_open_batch_whose_keys_have_expired_is_looked_up(sluice):
    sluice.create("mail", "dedupWindow=1ms")
    with Beanstalkd() as server:
        server.put("mail", [b"a", b"b", b"c"])
        sluice.ok("import", "mail", server.url("mail"), "--keep")
        reopen_last_batch(record_of(sluice))
        result = sluice.json("import", "mail", server.url("mail"), "--keep")
        same([result["imported"], result["sent"], result["alreadyThere"]], [3, 0, 3])
        same(sluice.stats("mail")["ready"], 3)
        # A message has left the queue: nothing can tell whether it was one of them.
        reopen_last_batch(record_of(sluice))
        sluice.ok("ack", "mail", sluice.one("mail")["token"])
        sluice.refused(CONFLICT, "import", "mail", server.url("mail"), "--keep",
                       says=["may have sent job 1", "--unsure send"], field="--unsure")
        result = sluice.json("import", "mail", server.url("mail"), "--keep", "--unsure", "skip")
        same([result["imported"], result["sent"]], [3, 0])
        same(sluice.stats("mail")["ready"], 2)
        if ON_S3:  # its clock has whole seconds, so the keys last longer than asked
            time.sleep(2.2)
        reopen_last_batch(record_of(sluice))
        result = sluice.json("import", "mail", server.url("mail"), "--keep", "--unsure", "send")
        same(result["sent"], 1)
        same(sluice.stats("mail")["ready"], 3)


@case
def a_cancelled_message_has_left_the_queue(sluice):
    sluice.create("mail", "dedupWindow=1ms")
    with Beanstalkd() as server:
        server.put("mail", [b"a", b"b"])
        sluice.ok("import", "mail", server.url("mail"), "--keep")
        reopen_last_batch(record_of(sluice))
        sluice.ok("cancel", "mail", sluice.json("peek", "mail", "--max", "1")["id"])
        sluice.refused(CONFLICT, "import", "mail", server.url("mail"), "--keep", says="may have sent job 1", field="--unsure")


@case
def a_server_that_is_killed_in_the_middle_goes_on_after_its_restart(sluice):
    sluice.create("mail", "dedupWindow=1h")
    folder = sluice.path("binlog")
    os.mkdir(folder)
    with Beanstalkd(folder) as server:
        expected = [b"%d" % i for i in range(4000)]
        server.put("mail", expected)
        for _ in range(4):
            run, before = sluice.start("import", "mail", server.url("mail"), "--json"), record_size(sluice)
            while run.poll() is None and record_size(sluice) <= before + 60:
                time.sleep(0.001)
            server.stop()
            holds(run.wait(timeout=60) in (0, INVALID, UNAVAILABLE), f"status {run.returncode}")
            server.start()
        result = sluice.json("import", "mail", server.url("mail"))
        same([result["imported"], result["queueGrewBy"]], [4000, 4000])
        same(bodies(messages(sluice, "mail")), collections.Counter(body.decode() for body in expected))


@case
def no_job_goes_to_a_worker_of_the_tube_and_to_the_queue(sluice):
    sluice.create("mail", "dedupWindow=1h")
    with Beanstalkd() as server:
        server.put("mail", [b"%d" % i for i in range(6000)])
        done, ended = [], threading.Event()

        def work():
            with server.connection() as (link, answers):
                link.sendall(b"watch mail\r\nignore default\r\n")
                answers.readline(), answers.readline()
                while not ended.is_set():
                    link.sendall(b"reserve-with-timeout 0\r\n")
                    words = answers.readline().split()
                    if words[0] != b"RESERVED":
                        continue
                    body = answers.read(int(words[2]) + 2)[:-2]
                    link.sendall(b"delete %s\r\n" % words[1])
                    if answers.readline() == b"DELETED\r\n":
                        done.append(body.decode())
        worker = threading.Thread(target=work)
        worker.start()
        try:
            while not done:
                time.sleep(0.001)
            result = sluice.json("import", "mail", server.url("mail"))
        finally:
            ended.set()
            worker.join()
        same(result["takenByOthers"], 0)
        same(collections.Counter(done) + bodies(messages(sluice, "mail")), collections.Counter(str(i) for i in range(6000)))


@case
def a_server_that_is_restarted_with_its_jobs_goes_on(sluice):
    sluice.create("mail")
    folder = sluice.path("binlog")
    os.mkdir(folder)
    with Beanstalkd(folder) as server:
        server.put("mail", [b"a", b"b"])
        sluice.ok("import", "mail", server.url("mail"), "--keep")
        server.stop()
        server.start()
        server.put("mail", [b"c"])
        result = sluice.json("import", "mail", server.url("mail"), "--keep")
        same([result["imported"], result["copiedNow"]], [3, 1])
        same(bodies(messages(sluice, "mail")), collections.Counter("abc"))


@case
def a_server_that_lost_its_jobs_has_other_jobs_under_their_numbers(sluice):
    sluice.create("mail")
    with Beanstalkd() as server:
        server.put("mail", [b"a", b"b"])
        sluice.ok("import", "mail", server.url("mail"), "--keep")
        server.stop()
        server.start()
        server.put("mail", [b"c", b"d"])
        said = sluice.ok("import", "mail", server.url("mail"), "--keep")
        contains(said.err, "this is a new import", "imported 2 jobs")
        same(bodies(messages(sluice, "mail")), collections.Counter("abcd"))


@case
def a_paused_tube_and_jobs_that_are_due_soon_are_copied_too(sluice):
    sluice.create("mail")
    with Beanstalkd() as server:
        server.put("mail", [b"a", b"b"])
        same(server.ask("pause-tube mail 3600"), "PAUSED")
        same(sluice.json("import", "mail", server.url("mail"))["imported"], 2)
        server.put("soon", [b"c"], delay=2)
        same(sluice.json("import", "mail", server.url("soon"))["imported"], 1)
        same(server.counts("soon"), NOTHING)
        same(bodies(messages(sluice, "mail")), collections.Counter("abc"))


@case
def a_strict_queue_gets_the_jobs_in_the_order_of_the_workers(sluice):
    sluice.create("mail", "orderingGuarantee=true")
    with Beanstalkd() as server:
        server.put("mail", [b"late %d" % i for i in range(50)], priority=2000)
        server.put("mail", [b"early %d" % i for i in range(50)], priority=10)
        sluice.ok("import", "mail", server.url("mail"))
        got = []
        for _ in range(100):
            message = sluice.one("mail") if not got else message
            got.append(message["body"])
            if len(got) == 6:  # each message needs a command
                break
            sluice.ok("ack", "mail", message["token"])
            message = sluice.one("mail")
        same(got, [f"early {i}" for i in range(6)])
        server.put("mail", [b"later"], delay=100)
        refused = sluice.run("import", "mail", server.url("mail"))
        same(refused.status, INVALID, str(refused))


@case
def bad_words_are_refused(sluice):
    sluice.create("mail")
    url = "beanstalkd://127.0.0.1:1/mail"
    sluice.refused(INVALID, "import", "mail", url, "--state", "new", says="ready, delayed, buried, all", field="--state")
    sluice.refused(INVALID, "import", "mail", url, "--unsure", "ask", says="send, skip", field="--unsure")
    sluice.refused(INVALID, "import", "mail", "beanstalkd://127.0.0.1:1", says="names no tube", field="SOURCE")
    sluice.refused(INVALID, "import", "mail", "amqp://127.0.0.1/mail", says="beanstalkd://HOST:PORT/TUBE", field="SOURCE")
    sluice.refused(INVALID, "import", "mail", says="SOURCE")
    sluice.refused(NOT_FOUND, "import", "mails", url, says="did you mean mail", field="queue")
    sluice.refused(UNAVAILABLE, "import", "mail", url, says="no beanstalkd answers at 127.0.0.1:1", field="SOURCE")
    sluice.refused(INVALID, "import", "mail", sluice.path("none.jsonl"), says="cannot be read", field="SOURCE")
    sluice.create("plain", "dedupWindow=0")
    sluice.refused(INVALID, "import", "plain", url, says="dedupWindow=1h", field="dedupWindow")


@case
def a_missing_tube_is_told_with_those_that_exist(sluice):
    sluice.create("mail")
    with Beanstalkd() as server:
        server.put("letters", [b"a"])
        sluice.refused(NOT_FOUND, "import", "mail", server.url("mail"), says=['no tube "mail"', "default, letters"],
                       field="SOURCE")


@case
def a_server_of_another_kind_is_refused(sluice):
    sluice.create("mail")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def answer():
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                with link:
                    link.recv(1000)
                    link.sendall(b"HTTP/1.1 400 Bad \x1b[31mRequest\r\n\r\n")
        threading.Thread(target=answer, daemon=True).start()
        url = f"beanstalkd://127.0.0.1:{listener.getsockname()[1]}/mail"
        sluice.refused(INVALID, "import", "mail", url, says=["does not answer as a beanstalkd", "HTTP/1.1 400 Bad ?[31m"],
                       field="SOURCE")
        listener.shutdown(socket.SHUT_RDWR)


@case
def a_job_over_the_limit_stops_the_import_until_the_limit_is_raised(sluice):
    sluice.create("mail", "maxMessageBytes=1000")
    with Beanstalkd() as server:
        server.put("mail", [b"a", b"b" * 1001, b"c"])
        # A slow import prints its progress, too. --quiet leaves the error.
        error = sluice.refused(LIMIT, "import", "mail", server.url("mail"), "--quiet",
                               says=["job 2 has 1001 bytes", "sluice queue set mail maxMessageBytes=1001"])
        same(error["field"], "maxMessageBytes")
        same(sluice.stats("mail")["ready"], 1)
        sluice.ok("queue", "set", "mail", "maxMessageBytes=1001")
        same(sluice.json("import", "mail", server.url("mail"))["imported"], 3)
        same(sum(bodies(messages(sluice, "mail")).values()), 3)


@case
def a_full_queue_stops_the_import_and_room_lets_it_go_on(sluice):
    sluice.create("mail", "capacity=5")
    with Beanstalkd() as server:
        server.put("mail", [b"%d" % i for i in range(8)])
        result = sluice.run("import", "mail", server.url("mail"))
        same(result.status, LIMIT, str(result))
        contains(result.err, "the same command goes on")
        sluice.ok("queue", "set", "mail", "capacity=100")
        same(sluice.json("import", "mail", server.url("mail"))["imported"], 8)
        same(bodies(messages(sluice, "mail")), collections.Counter(str(i) for i in range(8)))


@case
def a_record_of_another_import_and_a_damaged_one_are_refused(sluice):
    sluice.create("mail")
    record = sluice.path("record")
    with Beanstalkd() as server:
        server.put("mail", [b"a"])
        server.put("more", [b"b"])
        sluice.ok("import", "mail", server.url("mail"), "--keep", "--record", record)
        sluice.refused(CONFLICT, "import", "mail", server.url("more"), "--record", record, says="another import",
                       field="--record")
        with open(record, "r+b") as file:
            file.seek(20)
            file.write(b"#")
        sluice.refused(CORRUPT, "import", "mail", server.url("mail"), "--record", record, says="line 1", field="--record")


@case
def a_file_of_json_lines_travels_with_every_field(sluice):
    sluice.create("mail")
    path = sluice.path("jobs.jsonl", "\n".join([
        json.dumps({"body": "text", "priority": 3, "group": "g", "headers": {"a": "b"}}),
        "",
        '{"body": {"to": "ann", "n": 1.50}, "workflow": "w"}',
        json.dumps({"bodyBase64": "/w==", "contentType": "x/y"}),
        json.dumps({"body": "late", "delay": "1h"}), ""]))
    result = sluice.json("import", "mail", path)
    same(list(result), [key for key in KEYS if key != "left"])
    same([result["imported"], result["queueGrewBy"]], [4, 4])
    found = messages(sluice, "mail")
    same(len(found["delayed"]), 1)
    text, value, raw = found["ready"] if found["ready"][0]["body"] == "text" else (
        sorted(found["ready"], key=lambda one: one["sentAt"]))
    same([text["priority"], text["group"], text["headers"]], [3, "g", {"a": "b"}])
    same(value["body"], {"to": "ann", "n": 1.5})
    same(raw["bodyBase64"], "/w==")
    # The same command again copies nothing.
    same(sluice.json("import", "mail", path)["copiedNow"], 0)
    same(sluice.stats("mail")["ready"], 3)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"body": "more"}\n')
    sluice.refused(CONFLICT, "import", "mail", path, says="has changed since the import began", field="SOURCE")


@case
def a_file_that_is_killed_and_continued_arrives_once(sluice):
    sluice.create("mail", "dedupWindow=1h")
    path = sluice.path("jobs.jsonl", "".join(json.dumps({"body": f"{i}"}) + "\n" for i in range(20_000)))
    chance = random.Random(6)
    for _ in range(20):
        run = sluice.start("import", "mail", path, "--json")
        time.sleep(chance.uniform(0.01, 0.1))
        if run.poll() is not None:
            break
        run.kill()
        run.wait()
    result = sluice.json("import", "mail", path)
    same([result["imported"], result["queueGrewBy"]], [20_000, 20_000])
    same(sluice.stats("mail")["ready"], 20_000)


@case
def a_line_that_is_no_message_is_named(sluice):
    sluice.create("mail")
    for line, says in (("{", "line 2"), ("[]", "not a JSON object"), ('{"id": 1, "body": 2}', "id"),
                       ('{"priority": 1}', "bodyBase64"), ('{"body": 1, "priority": 10}', "priority"),
                       ('{"body": 1, "dedup": "k"}', "leave dedup out")):
        path = sluice.path("bad.jsonl", '{"body": "good"}\n' + line + "\n")
        sluice.refused(INVALID, "import", "mail", path, "--record", sluice.path(f"r{len(line)}"), says=["line 2 of", says],
                       field="SOURCE")
    same(sluice.stats("mail")["ready"], 0)


main(at_once=2 if not OVER_HTTP else 1)
