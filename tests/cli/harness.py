# SPDX-License-Identifier: Apache-2.0
"""Black box tests of the command line: each case has a store of its own and runs the built program.

    @case
    def a_sentence_that_is_true(sluice):
        sluice.ok("queue", "create", "tasks")

main() runs the cases of a file and speaks TAP. SLUICE names the program. With SLUICE_TEST_OVER=http
every command asks a node that serves the store, and the same must come of it; with s3, under
tests/servers/with-radosgw, the store is a prefix of the bucket there. What only a directory can show
is marked @on_a_store.
"""
import concurrent.futures
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

PROGRAM = os.environ["SLUICE"]
OVER_HTTP = os.environ.get("SLUICE_TEST_OVER") == "http"
ON_S3 = os.environ.get("SLUICE_TEST_OVER") == "s3"
PATIENCE = 60  # seconds for one command
CASES = []

MESSAGE_KEYS = ["id", "queue", "state", "body", "attempt", "token", "fence", "leaseMs", "deadline",
                "group", "priority", "headers", "sentAt"]
STATS_KEYS = ["queue", "ready", "locked", "delayed", "processed", "dead", "oldestAgeMs",
              "workers", "waiting", "cancelled", "signals", "results", "resultBytes", "bodies", "paused",
              "takesDeadLetters"]
CLOCK_MS = 1_100 * ON_S3  # a bucket tells its time in whole seconds: a lock may last so much longer than asked
EVENT_KEYS = ["id", "type", "queue", "message", "attempt", "time"]
ERROR_KEYS = ["error", "message", "field"]

WAITS = "sluice: no answer from "  # how a command says that it waits

INVALID, NOT_FOUND, CONFLICT, FENCED, LIMIT, UNAVAILABLE, CORRUPT, DENIED = 2, 3, 4, 5, 6, 7, 9, 10


class Wrong(Exception):
    pass


def measures_memory():
    """Whether resident memory tells what the program holds: a sanitizer keeps what was freed, and shadows of it."""
    with open(PROGRAM, "rb") as program:
        text = program.read()
    return b"__asan_init" not in text and b"__tsan_init" not in text


def same(got, expected, what=""):
    if got != expected:
        raise Wrong(f"{what}: expected {expected!r}, got {got!r}")


def holds(condition, what):
    if not condition:
        raise Wrong(what)


def contains(text, *parts):
    for part in parts:
        if part not in text:
            raise Wrong(f"{part!r} is not in {text!r}")


def keys_of(stats):
    """Its keys, but for what a bucket charges, which is there as soon as it is known."""
    return [key for key in stats if not (ON_S3 and key == "cost")]


class Result:
    def __init__(self, arguments, run):
        self.arguments = arguments
        self.status = run.returncode
        self.bytes = run.stdout or b""
        self.out = self.bytes.decode(errors="replace")
        told = run.stderr.decode(errors="replace").splitlines(keepends=True)
        self.waits = [line for line in told if line.startswith(WAITS)]  # a busy machine is slow, too
        self.err = "".join(line for line in told if not line.startswith(WAITS))

    def __str__(self):
        words = " ".join(str(word)[:80] for word in self.arguments)
        return f"sluice {words}: status {self.status}\n{self.out[:2000]}{self.err[:2000]}"

    def lines(self):
        """The JSON objects of standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


class Sluice:
    """The program on a store of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.store = os.path.join(folder, "store")
        if ON_S3:
            self.store = os.environ["SLUICE_TEST_S3"] + "/cli-" + secrets.token_hex(6)
        keep = {name: os.environ[name] for name in os.environ
                if name.endswith("SAN_OPTIONS") or ON_S3 and name.startswith("AWS_")}
        self.on_store = keep | {"PATH": os.environ["PATH"], "HOME": folder, "SLUICE_STORE": self.store, "TZ": "UTC"}
        self.node = None
        self.url = None
        self.started = []

    @property
    def env(self):
        """What commands run with. Over HTTP the node is started when the first one needs it."""
        if not OVER_HTTP:
            return self.on_store
        if self.node is None:
            self.node = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--json"], cwd=self.folder,
                                         stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=self.on_store)
            self.url = "http://" + json.loads(self.node.stdout.readline())["address"]
        return self.on_store | {"SLUICE_STORE": self.url}

    def reopen(self):
        """Processes that have the store open forget what they know of it."""
        if self.node is None:
            return
        self.node.terminate()
        try:
            self.node.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.node.kill()
            self.node.wait()
        self.node.stdout.close()
        self.node = None

    def untouched(self):
        """No command has made a store. (A node has one of its own, and a bucket is there before.)"""
        return OVER_HTTP or ON_S3 or not os.path.exists(self.store)

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def run(self, *arguments, input=b"", env=None, stdout=subprocess.PIPE):
        run = subprocess.run([PROGRAM, *arguments], input=input if isinstance(input, bytes) else input.encode(),
                             stdout=stdout, stderr=subprocess.PIPE, timeout=PATIENCE, check=False,
                             cwd=self.folder, env=self.env | (env or {}))
        return Result(arguments, run)

    def start(self, *arguments, stdin=subprocess.DEVNULL, **more):
        self.started.append(subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             stdin=stdin, cwd=self.folder, env=self.env, **more))
        return self.started[-1]

    def end(self):
        """Nothing that a case started outlives it, not even when the case fails."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.reopen()

    def ok(self, *arguments, **more):
        result = self.run(*arguments, **more)
        holds(result.status == 0, f"expected status 0: {result}")
        return result

    def json(self, *arguments, **more):
        """The one object that the command prints."""
        lines = self.ok(*arguments, "--json", **more).lines()
        same(len(lines), 1, f"objects of {arguments}")
        return lines[0]

    def refused(self, status, *arguments, says=(), field=None, **more):
        """Refused with this status, in one sentence, in plain words and as JSON; standard output stays clean."""
        plain = self.run(*arguments, **more)
        same(plain.status, status, str(plain))
        same(plain.out, "", f"standard output of {plain}")
        holds(plain.err.startswith("sluice: ") and plain.err.count("\n") == 1, f"not one sentence: {plain}")
        contains(plain.err, *([says] if isinstance(says, str) else says))
        split = list(arguments).index("--") if "--" in arguments else len(arguments)
        told = self.run(*arguments[:split], "--json", *arguments[split:], **more)
        same(told.status, status, str(told))
        same(told.out, "", f"standard output of {told}")
        error = json.loads(told.err)
        same(list(error), ERROR_KEYS, "keys of an error")
        if field is not None:
            same(error["field"], field, f"field of {told}")
        return error

    def create(self, queue, *settings):
        """With locks that outlast the case, whatever else the machine does; unless it says how long."""
        lasting = () if any(word.startswith("visibilityTimeout=") for word in settings) else ("visibilityTimeout=1h",)
        self.ok("queue", "create", queue, *settings, *lasting)

    def send(self, queue, body, *options):
        return self.ok("send", queue, *options, "--", body).out.strip()

    def receive(self, queue, *options):
        return self.ok("receive", queue, "--json", *options).lines()

    def one(self, queue, *options):
        messages = self.receive(queue, *options)
        same(len(messages), 1, "messages received")
        return messages[0]

    def stats(self, queue):
        return self.json("stats", queue)

    def events(self, queue):
        return self.ok("events", queue, "--json").lines()

    def fingerprint(self):
        """Of every file, but for the clock, the pages of journals and the members: each use writes them."""
        found = {}
        for at, _, names in os.walk(self.folder):
            for name in names if "/coord" not in at else ():
                path = os.path.join(at, name)
                if name not in ("@clock", "@lock"):
                    with open(path, "rb") as file:
                        found[path] = hashlib.sha256(file.read()).hexdigest()
        return found


def until(question, what, seconds=PATIENCE):
    """Asks again until the answer is true; a state is waited for, never a time."""
    end = time.monotonic() + seconds
    while True:
        late = time.monotonic() > end  # a process that did not run for so long looks once more
        answer = question()
        if answer:
            return answer
        if late:
            raise Wrong(f"never happened: {what}")
        time.sleep(0.02)


def case(function):
    CASES.append(function)
    return function


class Skipped(Exception):
    """This machine cannot show it; the words say why."""


def on_a_store(function):
    """It looks at the store's files, or has no store at all."""
    def skip(sluice):
        raise Skipped("only on a directory" if ON_S3 else "only on a store")
    skip.__name__ = function.__name__
    return skip if OVER_HTTP or ON_S3 else function


def run_case(function):
    """Returns its lines of TAP, without the number, and whether it failed."""
    name = function.__name__.replace("_", " ")
    folder = tempfile.mkdtemp(prefix="sluice-cli-")
    sluice = Sluice(folder)
    try:
        function(sluice)
        return f"- {name}", [], False
    except Skipped as why:
        return f"- {name} # SKIP {why}", [], False
    except Exception:  # whatever it was, the other cases run
        return f"- {name}", traceback.format_exc().splitlines(), True
    finally:
        sluice.end()
        shutil.rmtree(folder, ignore_errors=True)


def main(at_once=1, last=()):
    """at_once: how many cases run at the same time. More than one saves time if the cases mostly wait.
    last: the case, or the cases, that begin when all others have ended, one after another."""
    last = last if isinstance(last, (list, tuple)) else (last,)
    print(f"1..{len(CASES)}", flush=True)
    results = []
    for some in ([one for one in CASES if one not in last], last):
        with concurrent.futures.ThreadPoolExecutor(at_once if some is not last else 1) as threads:
            for words, trace, failed in threads.map(run_case, some):
                results.append(failed)
                print(f"{'not ok' if failed else 'ok'} {len(results)} {words}", flush=True)
                for line in trace:
                    print(f"# {line}", flush=True)
    sys.exit(1 if any(results) else 0)
