# SPDX-License-Identifier: Apache-2.0
"""sluice work: programs that succeed, fail, hang, ignore signals or lose their lock, and workers that die."""
import json
import os
import shutil
import signal
import subprocess
import time

from harness import CLOCK_MS, INVALID, NOT_FOUND, PATIENCE, PROGRAM, case, contains, holds, main, on_a_store, same, until

QUICK = ("failureStrategy.backoff.initial=20ms", "failureStrategy.backoff.max=20ms")
LOCK_MS = 4_000  # a busy machine delays no process for so long


def jobs(output):
    """The JSON lines of the jobs, without the summary."""
    lines = [json.loads(line) for line in output.splitlines()]
    return [line for line in lines if line["type"] == "job"]


def once(sluice, script, *options, status=0):
    result = sluice.run("work", "tasks", "--once", "--json", *options, "--", "sh", "-c", script)
    same(result.status, status, str(result))
    return jobs(result.out)[0]


def start(sluice, script, *options):
    return sluice.start("work", "tasks", "--json", *options, "--", "sh", "-c", script)


def ended(worker):
    out, _ = worker.communicate(timeout=PATIENCE)
    return worker.returncode, jobs(out.decode())


def until_written(sluice, name):
    path = sluice.path(name)
    until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, f"{name} is written")
    with open(path, encoding="utf-8") as file:
        return file.read().split()


def is_gone(pid):
    """Ended; a zombie that is not reaped in this container counts as ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@case
def the_body_is_on_standard_input_and_the_rest_in_the_environment(sluice):
    sluice.create("tasks")
    body = "line\n" + "x" * 200_000
    id = sluice.ok("send", "tasks", "-", "--header", "Trace-Id=abc", "--header", "PATH=evil", "--group", "g",
                   input=body).out.strip()
    once(sluice, f"cat >{sluice.path('body')}; env >{sluice.path('env')}", "--worker", "w1")
    with open(sluice.path("body"), encoding="utf-8") as file:
        same(file.read(), body)
    with open(sluice.path("env"), encoding="utf-8") as file:
        env = dict(line.split("=", 1) for line in file.read().splitlines())
    for name, value in {"SLUICE_ID": id, "SLUICE_ATTEMPT": "1", "SLUICE_FENCE": "1", "SLUICE_QUEUE": "tasks",
                        "SLUICE_WORKER": "w1", "SLUICE_GROUP": "g", "SLUICE_HEADER_TRACE_ID": "abc",
                        "SLUICE_HEADER_PATH": "evil", "PATH": os.environ["PATH"]}.items():
        same(env[name], value, name)


@case
def its_lines_begin_on_their_own_where_programs_write_too(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    sluice.send("tasks", "hello")
    sluice.send("tasks", "well")
    both = sluice.path("both")
    with open(both, "wb") as out:
        subprocess.run([PROGRAM, "work", "tasks", "--drain", "--", "cat"], stdout=out, stderr=out, env=sluice.env,
                       timeout=PATIENCE, check=True)
    with open(both, encoding="utf-8") as file:
        lines = file.read().splitlines()
    same((lines[0], lines[2]), ("hello", "well"), str(lines))
    holds(lines[1].startswith("processed") and lines[3].startswith("processed"), str(lines))
    sluice.send("tasks", "dies")
    apart = sluice.run("work", "tasks", "--once", "--", "sh", "-c", "cat; exit 1")
    same(apart.out, "dies")
    holds(apart.err.startswith("dead ") and " 1 dead" in apart.err, apart.err)  # no queue has letters of it


@case
def exit_0_acks_75_gives_back_and_anything_else_fails_with_the_last_line(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    sluice.send("tasks", "x")
    job = once(sluice, "exit 75", status=1)
    same((job["status"], job["exit"], job["attempt"]), ("released", 75, 1))
    same(sluice.stats("tasks")["ready"], 1)
    job = once(sluice, "exit 0")
    same((job["status"], job["attempt"]), ("processed", 1))
    id = sluice.send("tasks", "y")
    job = once(sluice, "echo first >&2; printf 'the disk\\tis full\\n\\n' >&2; exit 3", status=1)
    same((job["status"], job["reason"]), ("dead-lettered", "the disk is full"))
    same((sluice.stats("tasks")["processed"], sluice.stats("tasks")["dead"]), (1, 1))
    same(sluice.ok("peek", "tasks", "--state", "dead", "--json").lines()[0]["id"], id)


@case
def a_program_that_dies_of_a_signal_fails_and_says_which(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    job = once(sluice, "kill -SEGV $$", status=1)
    same((job["status"], job["signal"], job["reason"]), ("retrying", 11, "killed by signal 11 (SIGSEGV)"))


@case
def much_output_neither_blocks_nor_grows(sluice):
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    sluice.send("tasks", "x")
    job = once(sluice, "head -c 3000000 /dev/zero | tr '\\0' 'e' >&2; echo >&2; echo end >&2; exit 1", status=1)
    same(job["reason"], "end")


@case
def a_job_may_last_longer_than_its_lock(sluice):
    sluice.create("tasks", f"visibilityTimeout={LOCK_MS}ms")
    sluice.send("tasks", "x")
    worker = start(sluice, f"while [ ! -e {sluice.path('go')} ]; do sleep 0.05; done", "--once")

    def times(kind):
        return [event["time"] for event in sluice.events("tasks") if event["type"] == kind]
    [claimed] = until(lambda: times("message-claimed"), "the job begins")
    until(lambda: max(times("lock-renewed"), default=0) > claimed + LOCK_MS + CLOCK_MS, "the first lock is over")
    sluice.path("go", "")
    status, done = ended(worker)
    same((status, done[0]["status"], done[0]["attempt"]), (0, "processed", 1))
    same(times("lock-expired"), [])


@case
def a_lock_may_be_shorter_than_the_question(sluice):
    """Whenever the message comes, its lock is good. That a busy machine does the job in time is another matter."""
    lock_ms = 300
    sluice.create("tasks", f"visibilityTimeout={lock_ms}ms")
    for number in range(4):
        worker = start(sluice, "exit 0", "--once")
        time.sleep(0.35 + 0.05 * number)  # it waits for a message
        sluice.send("tasks", "x")
        _, done = ended(worker)
        over = time.time() * 1000
        claimed = [event["time"] for event in sluice.events("tasks") if event["type"] == "message-claimed"][-1]
        had_ms = over - claimed + CLOCK_MS
        holds(done[0]["status"] == "processed" or done[0]["status"] == "lost" and had_ms > lock_ms * 7 / 8,
              f"{done[0]['status']} when it had the lock for at most {had_ms:.0f} ms")


@case
def a_lock_that_is_lost_stops_the_program(sluice):
    sluice.create("tasks", f"visibilityTimeout={LOCK_MS}ms")
    sluice.send("tasks", "x")
    worker = start(sluice, f"trap '' TERM; echo $$ >{sluice.path('pid')}; while :; do sleep 0.1; done", "--once",
                   "--kill-after", "200ms")
    [pid] = until_written(sluice, "pid")
    os.kill(worker.pid, signal.SIGSTOP)
    until(lambda: sluice.stats("tasks")["ready"] == 1, "the lock runs out")
    holds(not is_gone(pid), "the program runs while its worker sleeps")
    os.kill(worker.pid, signal.SIGCONT)
    status, done = ended(worker)
    same((status, done[0]["status"], done[0]["signal"]), (1, "lost", 9))
    until(lambda: is_gone(pid), "the program is gone")
    until(lambda: sluice.stats("tasks")["ready"] == 1, "the message is back")  # as every clock has it


@case
def sigterm_finishes_what_runs_and_takes_no_more(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "a")
    sluice.send("tasks", "b")
    go = sluice.path("go")
    worker = sluice.start("work", "tasks", "--", "sh", "-c",
                          f"echo $$ >{sluice.path('pid')}; while [ ! -e {go} ]; do sleep 0.02; done")
    until_written(sluice, "pid")
    worker.send_signal(signal.SIGTERM)
    contains(worker.stderr.readline().decode(), "receiving no more; 1 to finish")
    sluice.path("go", "")
    worker.communicate(timeout=PATIENCE)
    same(worker.returncode, 0)
    stats = sluice.stats("tasks")
    same((stats["processed"], stats["ready"], stats["locked"]), (1, 1, 0))


@case
def what_cannot_be_finished_in_time_is_given_back(sluice):
    sluice.create("tasks")
    for body in ("a", "b", "c"):
        sluice.send("tasks", body)
    worker = start(sluice, f"echo $$ >>{sluice.path('pids')}; exec sleep 60", "-c", "3", "--grace", "100ms")
    until(lambda: sluice.stats("tasks")["locked"] == 3 and len(until_written(sluice, "pids")) == 3, "three run")
    worker.send_signal(signal.SIGINT)
    status, done = ended(worker)
    same((status, [job["status"] for job in done]), (0, ["released"] * 3))
    stats = sluice.stats("tasks")
    same((stats["ready"], stats["locked"]), (3, 0))
    same([message["attempt"] for message in sluice.receive("tasks", "--max", "3")], [1, 1, 1])


@case
def a_second_signal_stops_at_once(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    worker = start(sluice, f"trap '' TERM INT; echo $$ >{sluice.path('pid')}; while :; do sleep 0.1; done",
                   "--grace", "1h", "--kill-after", "1h")
    [pid] = until_written(sluice, "pid")
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGINT)
    status, done = ended(worker)
    holds(status in (128 + signal.SIGTERM, 128 + signal.SIGINT), f"status {status}")
    same(done[0]["status"], "released")
    holds(is_gone(pid), "the program is gone")
    same(sluice.stats("tasks")["ready"], 1)


@case
@on_a_store
def a_store_that_is_gone_is_not_told_for_ever(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    worker = start(sluice, f"echo $$ >{sluice.path('pid')}; exec sleep 60", "--grace", "1ms", "--kill-after", "1ms")
    [pid] = until_written(sluice, "pid")
    shutil.rmtree(sluice.store)
    worker.send_signal(signal.SIGTERM)
    status, done = ended(worker)
    same((status, [job["status"] for job in done]), (0, ["lost"]))
    holds(is_gone(pid), "the program is gone")


@case
def a_killed_worker_takes_its_program_with_it_and_loses_nothing(sluice):
    sluice.create("tasks", f"visibilityTimeout={LOCK_MS}ms")
    sluice.send("tasks", "x")
    worker = start(sluice, f"echo $$ >{sluice.path('pid')}; exec sleep 60")
    [pid] = until_written(sluice, "pid")
    worker.kill()
    worker.communicate()
    until(lambda: is_gone(pid), "the program is gone")
    job = once(sluice, "exit 0")
    same((job["status"], job["attempt"]), ("processed", 2))


@case
def drain_ends_when_nothing_is_ready(sluice):
    sluice.create("tasks")
    sluice.ok("send", "tasks", "--lines", "-", input="".join(f"{n}\n" for n in range(200)))
    result = sluice.ok("work", "tasks", "--drain", "-c", "8", "--json", "--", "true")
    same(len(jobs(result.out)), 200)
    same(sluice.stats("tasks")["processed"], 200)


@case
def drain_of_a_strict_queue_does_not_end_at_the_first_turn(sluice):
    sluice.create("tasks", "orderingGuarantee=true")
    sluice.ok("send", "tasks", "--lines", "-", input="".join(f"{n}\n" for n in range(60)))
    result = sluice.ok("work", "tasks", "--drain", "-c", "4", "--json", "--", "true")
    same(len(jobs(result.out)), 60)


@case
def an_ack_and_the_next_claim_are_one_commit(sluice):
    sluice.create("tasks")
    sluice.ok("send", "tasks", "--lines", "-", input="x\n" * 20)
    same(len(jobs(sluice.ok("work", "tasks", "--drain", "--json", "--", "true").out)), 20)
    events = [json.loads(line) for line in sluice.ok("events", "tasks", "--json").out.splitlines()]
    claims = [event["position"] for event in events if event["type"] == "message-claimed"]
    acks = [event["position"] for event in events if event["type"] == "message-outcome"]
    same((len(claims), len(acks)), (20, 20))
    same(claims[1:], acks[:-1])


@case
def a_worker_that_fails_jobs_in_between_loses_none(sluice):
    sluice.create("tasks", *QUICK)
    sluice.ok("send", "tasks", "--lines", "-", input="".join(f"{n}\n" for n in range(60)))
    script = 'n=$(cat); [ $((n % 3)) -ne 0 ] || [ "$SLUICE_ATTEMPT" -gt 1 ] || exit 1'
    worker = start(sluice, script, "-c", "3")
    until(lambda: sluice.stats("tasks")["processed"] == 60, "all are processed")
    worker.send_signal(signal.SIGTERM)
    status, done = ended(worker)
    same((status, len(done), len([job for job in done if job["status"] == "processed"])), (0, 80, 60))


@case
def retries_go_on_until_the_dead_letter_queue(sluice):
    sluice.create("tasks", "failureStrategy.mode=hybrid", "failureStrategy.maxRetries=2",
                  "failureStrategy.deadLetterQueue=dead", *QUICK)
    sluice.send("tasks", "x")
    worker = start(sluice, "echo no >&2; exit 1")
    until(lambda: sluice.stats("dead")["ready"] == 1, "the dead letter arrives")
    worker.send_signal(signal.SIGTERM)
    status, done = ended(worker)
    same((status, [job["status"] for job in done]), (0, ["retrying", "retrying", "dead-lettered"]))
    headers = sluice.one("dead")["headers"]
    same((headers["sluice-dead-reason"], headers["sluice-dead-retries"]), ("no", "2"))


@case
def a_paused_queue_gives_nothing_until_it_goes_on(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    sluice.ok("queue", "pause", "tasks")
    same(jobs(sluice.ok("work", "tasks", "--drain", "--json", "--", "true").out), [])
    worker = start(sluice, "exit 0", "--once")
    sluice.ok("queue", "resume", "tasks")
    status, done = ended(worker)
    same((status, done[0]["status"]), (0, "processed"))


@case
def many_jobs_leave_no_descriptors_children_or_memory_behind(sluice):
    sluice.create("tasks")
    sluice.ok("send", "tasks", "--lines", "-", input="x\n" * 600)
    worker = sluice.start("work", "tasks", "--quiet", "-c", "4", "--", "true")
    until(lambda: sluice.stats("tasks")["processed"] == 600, "all are processed")
    with open(f"/proc/{worker.pid}/status", encoding="utf-8") as file:
        resident = [int(line.split()[1]) for line in file if line.startswith("VmHWM")][0]
    open_files = len(os.listdir(f"/proc/{worker.pid}/fd"))
    children = [child for task in os.listdir(f"/proc/{worker.pid}/task")
                for child in open(f"/proc/{worker.pid}/task/{task}/children", encoding="utf-8").read().split()]
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE)
    same((worker.returncode, children), (0, []))
    holds(open_files < 50, f"{open_files} files are open")
    holds("SAN_OPTIONS" in "".join(os.environ) or resident < 64 << 10, f"{resident} KiB resident")


@case
def what_cannot_run_is_said_before_anything_is_taken(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    sluice.refused(INVALID, "work", "tasks", "--", "no-such-program", says="no-such-program", field="PROGRAM")
    sluice.refused(INVALID, "work", "tasks", "--", sluice.path("plain", "text"), says="plain", field="PROGRAM")
    sluice.refused(NOT_FOUND, "work", "nowhere", "--", "true", says="nowhere")
    sluice.refused(INVALID, "work", "tasks", "--once", "--drain", "--", "true", says="--drain")
    sluice.refused(INVALID, "work", "tasks", "-c", "0", "--", "true", says="-c")
    same((sluice.stats("tasks")["ready"], len(sluice.events("tasks"))), (1, 1))


@case
def a_program_that_breaks_on_the_way_costs_no_message(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    broken = sluice.path("broken", "#!/no/such/interpreter\n")
    os.chmod(broken, 0o755)
    result = sluice.run("work", "tasks", "--", broken)
    same(result.status, INVALID, str(result))
    contains(result.err, "broken")
    stats = sluice.stats("tasks")
    same((stats["ready"], stats["locked"]), (1, 0))
    same(sluice.one("tasks")["attempt"], 1)


@case
def without_a_terminal_each_job_is_a_line_and_the_programs_output_is_its_own(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "hello")
    result = sluice.ok("work", "tasks", "--once", "--", "cat")
    same(result.out, "hello")
    contains(result.err, "processed", "attempt 1")
    sluice.send("tasks", "hello")
    same(sluice.ok("work", "tasks", "--once", "--quiet", "--", "cat").err, "")


main(at_once=4)
