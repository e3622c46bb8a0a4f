# SPDX-License-Identifier: Apache-2.0
"""sluice work against a node whose answers get lost; what its jobs are told, and what a hostile sender or worker can do."""
import http.client
import http.server
import json
import signal
import subprocess
import sys
import threading

from harness import INVALID, NOT_FOUND, PATIENCE, PROGRAM, case, contains, holds, main, same, until
from terminal import Terminal, on_terminal

HANDLE_TIMEOUT = 30  # seconds after which a call of the command line gives up


class Proxy:
    """Passes requests on to a node. lose(path, body) tells of each whether its answer is lost."""

    def __init__(self, url, lose):
        host, port = url.removeprefix("http://").split(":")

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                node = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                node.request(self.command, self.path, body, headers)
                answer = node.getresponse()
                content = answer.read()
                node.close()
                if lose(self.path, body):
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "date", "connection", "server"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = pass_on

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def node_of(sluice):
    """The URL of a node on the case's store; it ends with the case."""
    node = sluice.start("serve", "--listen", "127.0.0.1:0", "--json")
    return "http://" + json.loads(node.stdout.readline())["address"]


def job_with_lost_answers(sluice, verb, script, *settings):
    """One job whose outcome is applied while every answer to it is lost until the first call gives up."""
    sluice.create("tasks", *settings)
    sluice.send("tasks", "x")
    lost = set()

    def lose(path, body):
        token = body if path.endswith("/" + verb) else b""
        if token and len(lost) == 0:
            timer = threading.Timer(HANDLE_TIMEOUT + 2, lost.add, ["over"])
            timer.daemon = True
            timer.start()
            lost.add("begun")
        return bool(token) and "over" not in lost

    with Proxy(node_of(sluice), lose) as url:
        worker = sluice.run("work", "tasks", "--once", "--json", "--", "sh", "-c", script, env={"SLUICE_STORE": url})
    rows = [json.loads(line) for line in worker.out.splitlines()]
    return worker.status, [row["status"] for row in rows if row["type"] == "job"]


@case
def a_finished_job_whose_answer_was_lost_is_processed(sluice):
    same(job_with_lost_answers(sluice, "ack", "exit 0"), (0, ["processed"]))


@case
def a_failed_job_whose_answer_was_lost_is_retried(sluice):
    same(job_with_lost_answers(sluice, "fail", "exit 3", "failureStrategy.backoff.initial=1h",
                               "failureStrategy.backoff.max=1h"), (1, ["retrying"]))


def environment_of(sluice, queue, *options, **env):
    """What the job of the next message is told."""
    path = sluice.path("environment")
    sluice.ok("work", queue, "--once", *options, "--", "sh", "-c", f"env -0 >{path}", env=env)
    with open(path, encoding="utf-8") as file:
        return dict(row.split("=", 1) for row in file.read().split("\0") if row)


SECRETS = {"SLUICE_TOKEN": "s1", "AWS_ACCESS_KEY_ID": "s2", "AWS_SECRET_ACCESS_KEY": "s3", "AWS_SESSION_TOKEN": "s4"}


@case
def a_job_gets_no_secret_that_is_not_named(sluice):
    sluice.create("tasks")
    for _ in range(2):
        sluice.send("tasks", "x")
    told = environment_of(sluice, "tasks", OTHER="o", **SECRETS)
    same([name for name in SECRETS if name in told], [], "secrets of a job")
    same(told["OTHER"], "o")
    told = environment_of(sluice, "tasks", "--keep-env", "SLUICE_TOKEN", "--keep-env", "AWS_SESSION_TOKEN", **SECRETS)
    same([name for name in SECRETS if name in told], ["SLUICE_TOKEN", "AWS_SESSION_TOKEN"])


# Runs its arguments without the rights of root to look into any process (CAP_SYS_PTRACE, _SYS_ADMIN, _PERFMON).
WITHOUT_RIGHTS = """
import ctypes, os, sys
for right in (19, 21, 38):
    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP; refused if there are no such rights
os.execvp(sys.argv[1], sys.argv[1:])
"""


@case
def a_job_cannot_read_the_environment_of_its_worker(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    env = sluice.env | {"OTHER": "o"} | SECRETS
    run = subprocess.run([sys.executable, "-c", WITHOUT_RIGHTS, PROGRAM, "work", "tasks", "--once", "--", "sh", "-c",
                          "test -d /proc/$PPID && ! cat /proc/$PPID/environ && cat /proc/$$/environ"],
                         cwd=sluice.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                         check=False)
    same(run.returncode, 0, run.stderr)
    contains(run.stdout, b"OTHER=o")
    same(b"SLUICE_TOKEN" in run.stdout, False, "the worker's secret")


@case
def a_sender_cannot_forge_where_a_dead_letter_comes_from(sluice):
    forged = [word for name in ("queue", "id", "reason", "at", "retries")
              for word in ("--header", f"sluice-dead-{name}=forged", "--header", f"Sluice_Dead_{name}=forged")]
    sluice.create("tasks", "failureStrategy.mode=hybrid", "failureStrategy.maxRetries=0",
                  "failureStrategy.deadLetterQueue=dead")
    id = sluice.send("tasks", "x", *forged)
    sluice.ok("fail", "tasks", sluice.one("tasks")["token"], "--reason", "disk full")
    until(lambda: sluice.stats("dead")["ready"] == 1, "the letter arrives")
    told = environment_of(sluice, "dead")
    same((told["SLUICE_DEAD_QUEUE"], told["SLUICE_DEAD_ID"], told["SLUICE_DEAD_REASON"]), ("tasks", id, "disk full"))
    same((told["SLUICE_HEADER_SLUICE_DEAD_QUEUE"], told["SLUICE_HEADER_SLUICE_DEAD_ID"]), ("tasks", id))
    holds("forged" not in told.values(), f"forged: {told}")
    sluice.send("tasks", "alive", *forged)
    told = environment_of(sluice, "tasks")
    same([name for name in told if "DEAD" in name], [], "of a message that never died")


@case
def the_name_of_a_worker_has_no_control_characters(sluice):
    sluice.create("tasks")
    sluice.send("tasks", "x")
    for name in ("a\x1b[31m", "a\nb", "a\x7f", "a\u009b31m", "\t"):
        sluice.refused(INVALID, "receive", "tasks", "--worker", name, says="control characters", field="worker")
        sluice.refused(INVALID, "work", "tasks", "--worker", name, "--", "true", says="control characters",
                       field="--worker")
        url = node_of(sluice)
        sluice.refused(INVALID, "receive", "tasks", "--worker", name, says="control characters", field="worker",
                       env={"SLUICE_STORE": url})
        line = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
        line.request("POST", "/v1/queues/tasks/receive", json.dumps({"worker": name}),
                     {"Content-Type": "application/json"})
        answer = line.getresponse()
        problem = json.loads(answer.read())
        line.close()
        same((answer.status, problem["field"]), (400, "worker"), f"{problem}")
    same(sluice.one("tasks", "--worker", "Jörg 2")["body"], "x")


@case
def nothing_that_others_said_moves_the_terminal(sluice):
    evil, bell = "a\x1b]0;owned\x07\x1b[2J", "\u009b31m"
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    id = sluice.send("tasks", evil + bell, "--header", f"k={evil}", "--group", evil)
    sluice.ok("fail", "tasks", sluice.one("tasks")["token"], "--reason", evil)
    for words in (["events", "tasks"], ["show", "tasks", id], ["peek", "tasks", "--state", "dead"],
                  ["show", "tasks", evil], ["stats", evil], ["receive", "tasks", f"--{evil}"], [evil],
                  ["show", "tasks", id, "--json"], ["queue", "create", "q", f"capacity={evil}"]):
        seen = on_terminal(sluice, *words, NO_COLOR="1")
        holds(seen and "\x1b" not in seen and "\x07" not in seen and "\u009b" not in seen, f"{words}: {seen!r}")
    sluice.send("tasks", "x")
    seen = on_terminal(sluice, "work", "tasks", "--once", "--", "sh", "-c", "printf 'a\\302\\23331m' >&2; exit 1")
    contains(seen, "\\xc2\\x9b31m")


@case
def the_time_that_is_left_is_that_of_the_whole_queue(sluice):
    """This process ends no message, and another one does."""
    sluice.create("tasks")
    for number in range(12):
        sluice.send("tasks", str(number))
    terminal = Terminal(sluice, "work", "tasks", "--", "sleep", "1000", columns=120)
    terminal.wait_for("11 ready")
    for message in sluice.receive("tasks", "--max", "5"):
        sluice.ok("ack", "tasks", message["token"])
    terminal.wait_for("6 ready (about ")
    contains(terminal.seen, "0 processed")
    terminal.program.kill()
    terminal.end()


@case
def the_table_shows_what_is_left_and_what_runs(sluice):
    sluice.create("tasks")
    for number in range(5):
        sluice.send("tasks", f"picture-{number}\x1b[31m")
    gate = sluice.path("gate")
    terminal = Terminal(sluice, "work", "tasks", "--", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done",
                        columns=120)
    terminal.wait_for("4 ready")
    contains(terminal.seen, "BODY", "picture-0\\x1b[31m")
    sluice.path("gate", "open")
    terminal.wait_for("5 processed")
    terminal.program.send_signal(signal.SIGTERM)
    same(terminal.end(), (0, True))


main(at_once=4)
