# SPDX-License-Identifier: Apache-2.0
"""Tests of the worker against a node that each test scripts: what it answers, and when, and which requests it gets."""
from __future__ import annotations

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Tuple

import sluice
from helpers import Running, Tests, raises, run_all, until

Answer = Tuple[int, Any]
LOSE: Answer = (0, None)  # the connection is closed without an answer
LEASE = 600


def problem(status: int, code: str, **more: Any) -> Answer:
    return status, {"code": code, "detail": "the script says so", **more}


def outcomes(body: Dict[str, Any], status: str = "processed") -> Answer:
    tokens = body.get("tokens") or [row["token"] for row in body.get("acks") or body.get("renewals") or []]
    return 200, {"outcomes": [{"code": "OK", "status": status, "until": 0} for _ in tokens]}


class Script:
    """A node in this process. `on["renew"] = f` answers these requests with f(body) instead of the usual answer."""

    def __init__(self, lease: int = LEASE) -> None:
        self.lease = lease
        self.requests: List[Tuple[str, Dict[str, Any], float]] = []
        self.ids: List[Tuple[str, str | None]] = []
        self.changed = threading.Condition()
        self.ready: List[Any] = []  # bodies that no receive has taken
        self.count = 0
        self.on: Dict[str, Callable[[Dict[str, Any]], Answer | None]] = {}
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def any_method(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, body = script.answer(self.path.split("?")[0], json.loads(raw) if raw else {},
                                             self.headers.get("Sluice-Request"))
                if status == 0:
                    self.close_connection = True
                    return
                data = json.dumps(body).encode()
                self.send_response_only(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = any_method

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client may close a connection at any time

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, path: str, body: Dict[str, Any], request_id: str | None) -> Answer:
        what = path.partition("/queues/")[2].partition("/")[2] or "queue"
        with self.changed:
            self.requests.append((what, body, time.monotonic()))
            self.ids.append((what, request_id))
        found = self.on[what](body) if what in self.on else None
        return found or self.usual(what, body)

    def usual(self, what: str, body: Dict[str, Any]) -> Answer:
        if what == "queue":
            return 200, {"name": "mail", "settings": {"visibilityTimeout": f"{self.lease}ms"}}
        if what == "receive":
            acked = outcomes({"tokens": body.get("ack", [])})[1]["outcomes"]
            return 200, {"messages": self.take(body["max"], body.get("wait", 0) / 1000), "acked": acked}
        if what == "workers":
            return 200, {"worker": "w", "instance": "0" * 16, "ttlMs": 60000}
        if what == "signals/receive":
            time.sleep(body["wait"] / 1000)
            return 200, {"signals": []}
        return outcomes(body) if "token" not in body else (200, {"code": "OK", "status": "processed"})

    def take(self, most: int, wait: float) -> List[Dict[str, Any]]:
        until_time = time.monotonic() + wait
        with self.changed:
            while not self.ready and time.monotonic() < until_time:
                self.changed.wait(until_time - time.monotonic())
            bodies, self.ready = self.ready[:most], self.ready[most:]
            return [self.message(body) for body in bodies]

    def message(self, body: Any, **more: Any) -> Dict[str, Any]:
        self.count += 1
        return {"id": f"3f9a01cc-0-{self.count}", "token": f"3f9a01cc-0-{self.count}-aa", "attempt": 1, "retries": 0,
                "body": body, "leaseMs": self.lease, "deadline": 1_000_000, "fence": self.count, **more}

    def send(self, *bodies: Any) -> None:
        with self.changed:
            self.ready += bodies
            self.changed.notify_all()

    def of(self, what: str) -> List[Dict[str, Any]]:
        with self.changed:
            return [body for name, body, _ in self.requests if name == what]

    def acks(self) -> int:
        """How many acks came, alone or with receives."""
        return sum(len(body.get("ack") or []) for body in self.of("receive")) + sum(
            len(body.get("tokens") or body.get("acks") or []) for body in self.of("ack"))


class ScriptedTests(Tests):
    HELPERS = ("fresh", "works")

    def __init__(self) -> None:
        self.fresh()

    def fresh(self, timeout: float = 5, lease: int = LEASE, **options: Any) -> sluice.Queue:
        """A node of its own for a test: the requests of the one before may still wait at theirs."""
        self.script = Script(lease)
        self.client = sluice.Client(self.script.url, token="", timeout=timeout, **options)
        return self.client.queue("mail")

    def works(self, function: Callable[[sluice.WorkerJob], Any], concurrency: int = 1, **options: Any) -> Running:
        """A worker of the queue mail. It is not registered, so that no beat of it comes between other requests."""
        self.fresh(**{name: options.pop(name) for name in ("codec", "timeout", "lease") if name in options})
        app = sluice.App(self.client, **{"register": False, **options})
        app.job("mail", concurrency=concurrency)(function)
        return Running(app, self.client)

    # Receives and acks.

    def a_receive_asks_for_the_free_places(self) -> None:
        go = threading.Event()
        with self.works(lambda job: go.wait(10) and None, concurrency=3):
            self.script.send(1, 2)
            until(lambda: [body["max"] for body in self.script.of("receive")][-1:] == [1], "one place is free")
            self.script.send(3)
            time.sleep(0.2)  # longer than the wait of a receive
            count = len(self.script.of("receive"))
            time.sleep(0.1)
            assert len(self.script.of("receive")) == count, "a worker without a free place receives"
            go.set()
            until(lambda: self.script.acks() == 3, "the acks")
        assert max(body["max"] for body in self.script.of("receive")) == 3

    def an_ack_goes_alone_while_a_receive_waits(self) -> None:
        ended: List[float] = []

        def job_main(job: sluice.WorkerJob) -> None:
            until(lambda: len(self.script.of("receive")) > 1, "the next receive")
            ended.append(time.monotonic())

        with self.works(job_main, concurrency=2):
            self.script.send(1)
            until(lambda: self.script.acks() == 1, "the ack")
            at = next(at for what, body, at in self.script.requests if what == "ack" or body.get("ack"))
            assert at - ended[0] < 0.15, "the ack waited for the receive"

    def a_receive_of_several_messages_acks_them_together(self) -> None:
        with self.works(lambda job: None, concurrency=50):
            self.script.send(*range(50))
            until(lambda: self.script.acks() == 50, "the acks")
            assert sum(1 for body in self.script.of("receive") if body.get("ack")) + len(self.script.of("ack")) < 40

    def a_body_that_the_codec_cannot_read_fails_its_message(self) -> None:
        class Codec(sluice.JsonCodec):
            def decode(self, body: Any, content_type: str) -> Any:
                if body == "bad":
                    raise ValueError("it is wrong")
                return body

        done: List[Any] = []
        with self.works(lambda job: done.append(job.body), codec=Codec()):
            self.script.send("bad", "good")
            until(lambda: done == ["good"], "the next message")
            until(lambda: bool(self.script.of("fail")), "the fail")
        assert self.script.of("fail")[0]["reason"] == "ValueError: it is wrong"

    def a_reason_has_any_text(self) -> None:
        class Bad(Exception):
            def __str__(self) -> str:
                raise KeyError("x")

        def job_main(job: sluice.WorkerJob) -> None:
            raise Bad if job.body == 1 else ValueError("half \ud800 of a pair" + "\u20ac" * 2000)

        with self.works(job_main):
            self.script.send(1, 2)
            until(lambda: len(self.script.of("fail")) == 2, "the fails")
        reasons = [body["reason"] for body in self.script.of("fail")]
        assert reasons[0] == "Bad: (its text raises KeyError)", reasons
        assert reasons[1].startswith("ValueError: half ? of") and len(reasons[1].encode()) <= 1000

    # Locks.

    def a_late_answer_starts_no_job(self) -> None:
        """The answer stalls for longer than the lease. The message may be at another worker."""
        began: List[Any] = []

        def late(body: Dict[str, Any]) -> Answer:
            found = self.script.take(body["max"], body["wait"] / 1000)
            time.sleep(LEASE / 1000 if [row["body"] for row in found] == ["stale"] else 0)
            return 200, {"messages": found, "acked": []}

        with self.works(lambda job: began.append(job.body)):
            self.script.on["receive"] = late
            self.script.send("stale")
            until(lambda: bool(self.script.of("release")), "the message goes back")
            assert not began
            self.script.send("fresh")
            until(lambda: began == ["fresh"], "the next one")

    def a_waiting_receive_waits_for_a_third_of_the_lease(self) -> None:
        with self.works(lambda job: None):
            until(lambda: len(self.script.of("receive")) > 1, "a second receive")
        assert {body["wait"] for body in self.script.of("receive")} - {0} == {LEASE // 3}

    def renewals_have_the_whole_lease(self) -> None:
        """A repeated receive is answered with what is left of the lock. The next ones get the whole time again."""
        def first(body: Dict[str, Any]) -> Answer | None:
            count = len(self.script.of("receive"))
            if count == 2:
                return 200, {"messages": [self.script.message("x", leaseMs=900)], "acked": []}
            return LOSE if count == 1 else None

        for known in (True, False):
            running = self.works(lambda job: time.sleep(0.8), lease=3000)
            self.script.on["receive"] = first
            if not known:  # its token cannot read the settings
                self.script.on["queue"] = lambda body: problem(403, "DENIED")
                self.script.on["renew"] = lambda body: (200, {"outcomes": [
                    {"code": "OK", "status": "renewed", "until": 1_000_000 + 2100}]})
            with running:
                until(lambda: self.script.acks() == 1, "the ack")
            asked = [body.get("visibility") for body in self.script.of("renew")]
            assert asked and asked[0] == (3000 if known else None), asked
            assert len(asked) == 1 or (not known and all(2000 < v < 3000 for v in asked[1:])), asked

    def a_lock_is_renewed_without_an_end(self) -> None:
        """After 1,000 leases a renewed lock lasts as long as after the first."""
        app = sluice.App(self.client)
        app.job("mail")(lambda job: None)
        worker = sluice.queue_worker.QueueWorker(app, self.client, "mail")
        worker.locks.lease = LEASE / 1000
        job = sluice.WorkerJob(worker, self.script.message("x"), sluice.now())
        for i in range(1, 3001):
            asked = job.began + i * LEASE / 3000
            job.renewed(asked, worker.locks.length(job, asked, {"until": 1_000_000 + i * LEASE // 3}), None)
            assert job.deadline - asked > 0.9 * LEASE / 1000 and job.deadline - asked < LEASE / 1000

    def a_job_is_told_before_its_lock_ends(self) -> None:
        told: List[float] = []

        def job_main(job: sluice.WorkerJob) -> None:
            try:
                while True:
                    time.sleep(0.005)
            except sluice.Cancelled:
                told.append(job.deadline - sluice.now())
                raise

        with self.works(job_main, lease=1500):
            self.script.on["renew"] = lambda body: problem(503, "UNAVAILABLE")
            self.script.send(1)
            until(lambda: bool(told), "the job is cancelled")
            time.sleep(0.05)
        assert 0 < told[0] < 0.75, told
        assert not self.script.acks() and not self.script.of("release"), "the outcome of a lost lock is sent"

    def renewals_go_on_after_errors(self) -> None:
        answers = [problem(503, "UNAVAILABLE"), LOSE, (200, {"outcomes": [{}]}), (500, "no node"), (200, [])]

        def renew(body: Dict[str, Any]) -> Answer | None:
            return answers.pop(0) if answers else None

        with self.works(lambda job: until(lambda: not answers, "the last error"), lease=3000):
            self.script.on["renew"] = renew
            self.script.send(1)
            until(lambda: self.script.acks() == 1, "the ack")

    # Progress.

    def a_refused_progress_costs_no_lock(self) -> None:
        def renew(body: Dict[str, Any]) -> Answer | None:
            return problem(400, "INVALID", field="progress") if "renewals" in body else None

        def job_main(job: sluice.WorkerJob) -> None:
            if job.body == 1:
                job.progress(50)
            time.sleep(0.8)

        with self.works(job_main, concurrency=2):
            self.script.on["renew"] = renew
            self.script.send(1, 2)
            until(lambda: self.script.acks() == 2, "both acks")
        assert sum("renewals" in body for body in self.script.of("renew")) == 1, "a refused progress is sent again"

    def a_progress_is_one_that_the_node_takes(self) -> None:
        seen: List[Any] = []

        def job_main(job: sluice.WorkerJob) -> None:
            error = raises(sluice.Invalid, lambda: job.progress("half"))  # type: ignore[arg-type]
            seen.append(error.field)
            job.progress(140.7, "\u20ac" * 100)
            until(lambda: bool(self.script.of("renew")), "the renewal")

        with self.works(job_main):
            self.script.send(1)
            until(lambda: self.script.acks() == 1, "the ack")
        (row,) = self.script.of("renew")[0]["renewals"]
        assert row["progress"] == 100 and row["progressText"] == "\u20ac" * 85 and seen == ["progress"]

    def the_latest_progress_is_sent_until_it_is_answered(self) -> None:
        refusals = [problem(503, "UNAVAILABLE")]

        def job_main(job: sluice.WorkerJob) -> None:
            for i in range(30):
                job.progress(i)
            until(lambda: len(self.script.of("renew")) >= 2, "it is sent again")
            job.progress(99)
            until(lambda: self.script.of("renew")[-1].get("renewals", [{}])[0].get("progress") == 99, "the last one")

        with self.works(job_main):
            self.script.on["renew"] = lambda body: refusals.pop() if refusals else None
            self.script.send(1)
            until(lambda: self.script.acks() == 1, "the ack")
        sent = [body["renewals"][0]["progress"] for body in self.script.of("renew") if "renewals" in body]
        assert sent[-1] == 99 and 29 in sent[:-1] and len(sent) <= 4, sent

    # Start and stop.

    def a_stop_gives_back_what_a_receive_locked(self) -> None:
        """The answer of the receive comes after the stop. The app ends when the messages are released."""
        asked = threading.Event()

        def receive(body: Dict[str, Any]) -> Answer | None:
            if not asked.is_set():
                asked.set()
                time.sleep(0.2)
            elif not self.script.of("release"):
                time.sleep(0.1)
                return 200, {"messages": [self.script.message("x")], "acked": []}
            return 200, {"messages": [], "acked": []}

        with self.works(lambda job: None, grace=5) as running:
            self.script.on["receive"] = receive
            asked.wait(5)
            running.app.stop()
            running.thread.join(10)
            assert not running.thread.is_alive()
            assert len(self.script.of("release")) == 1 and not self.script.acks()

    def a_receive_is_repeated_until_it_is_answered(self) -> None:
        """Its first answer is lost, and then the node is not available for longer than the timeout of a call."""
        until_time = time.monotonic() + 1
        refused: List[Answer] = []

        def receive(body: Dict[str, Any]) -> Answer | None:
            if time.monotonic() > until_time:
                return None
            refused.append(problem(503, "UNAVAILABLE") if refused else LOSE)
            return refused[-1]

        running = self.works(lambda job: None, timeout=0.1)
        self.script.on["receive"] = receive
        self.script.send(1)
        before, sluice.queue_worker.RETRY_PAUSE = sluice.queue_worker.RETRY_PAUSE, 0.1
        try:
            with running:
                until(lambda: self.script.acks() == 1, "the ack")
        finally:
            sluice.queue_worker.RETRY_PAUSE = before
        ids = [id for what, id in self.script.ids if what == "receive"]
        assert len(set(ids[:len(refused) + 1])) == 1 and len(set(ids)) > 1, ids

    def a_stop_at_a_silent_node_ends(self) -> None:
        over = threading.Event()

        def silent(body: Dict[str, Any]) -> Answer:
            over.wait(30)
            return LOSE

        with self.works(lambda job: None, grace=0.3) as running:
            self.script.on["receive"] = silent
            until(lambda: bool(self.script.of("receive")), "the receive")
            began = time.monotonic()
            running.app.stop()
            running.thread.join(10)
            over.set()
            assert not running.thread.is_alive() and time.monotonic() - began < 8
        assert all(node.away_until == 0 for node in self.client.core.nodes), "a stop says nothing about the node"

    def a_name_that_is_taken_ends_no_worker(self) -> None:
        with self.works(lambda job: None, register=True, name="pod-1") as running:
            self.script.on["workers"] = lambda body: problem(409, "CONFLICT", reason="worker-name-taken")
            self.script.send(1)
            until(lambda: self.script.acks() == 1, "the ack")
            assert not running.error

    def a_worker_starts_before_its_node(self) -> None:
        running = self.works(lambda job: None, register=True, timeout=0.05)
        for what in ("workers", "queue", "receive"):
            self.script.on[what] = lambda body: problem(503, "UNAVAILABLE")
        with running:
            until(lambda: len(self.script.of("receive")) > 2, "it asks again")
            self.script.on.clear()
            self.script.send(1)
            until(lambda: self.script.acks() == 1, "the ack")
        assert not running.error

    # Sends.

    def a_refused_message_is_named(self) -> None:
        self.fresh()
        self.script.on["messages"] = lambda body: (200, {"sent": [
            {"code": "OK", "id": f"a-0-{i}"} if row["body"] != "full" else {"code": "LIMIT", "reason": "queue-full"}
            for i, row in enumerate(body["messages"])]})
        q = self.client.queue("mail")
        error = raises(sluice.Limit, lambda: q.send_many(["x", "full", "y"]))
        assert [row.id for row in error.sent] == ["a-0-0", "", "a-0-2"] and error.sent[1].error.reason == "queue-full"
        buffer = q.buffer()
        sent = [buffer.send(body) for body in ("x", "full", "y")]
        raises(sluice.Limit, buffer.flush)
        assert [s.id for s in sent] == ["a-0-0", "", "a-0-2"]
        assert [row["body"] for row in buffer.rows] == ["full"], "a message that was sent stays in the buffer"
        self.script.on["messages"] = lambda body: (200, {"sent": [{"code": "OK", "id": "b"} for _ in body["messages"]]})
        buffer.flush()
        assert sent[1].id == "b" and sent[1].error is None and [len(b["messages"]) for b in self.script.of("messages")][-1] == 1

    def a_failed_request_leaves_the_messages_of_the_first(self) -> None:
        self.fresh()

        def answer(body: Dict[str, Any]) -> Answer:
            if len(self.script.of("messages")) == 1:
                return 200, {"sent": [{"code": "OK", "id": "a"} for _ in body["messages"]]}
            return problem(503, "UNAVAILABLE", reason="no-owner")

        self.script.on["messages"] = answer
        buffer = self.client.queue("mail").buffer(size=100000)
        sent = [buffer.send(i) for i in range(25)]
        limits, name = sluice.calls.LIMITS, "sendMessages.messages"
        before, limits[name] = limits[name], 10
        try:
            raises(sluice.Unavailable, buffer.flush)
        finally:
            limits[name] = before
        assert [row["body"] for row in buffer.rows] == list(range(10, 25)), "those of the second request stay"
        assert [s.id for s in sent] == ["a"] * 10 + [""] * 15

    def a_refusal_of_a_repeat_is_unknown(self) -> None:
        self.fresh()

        def answer(body: Dict[str, Any]) -> Answer:
            return LOSE if len(self.script.of("messages")) == 1 else (200, {"sent": [{"code": "UNAVAILABLE"}]})

        self.script.on["messages"] = answer
        buffer = self.client.queue("mail").buffer()
        sent = buffer.send("x")
        raises(sluice.OutcomeUnknown, buffer.flush)
        assert not buffer.rows and isinstance(sent.error, sluice.OutcomeUnknown), "it could be sent twice"

    def a_send_of_many_bytes_is_several_requests(self) -> None:
        self.fresh()
        self.script.on["messages"] = lambda body: (200, {"sent": [{"code": "OK", "id": "a"} for _ in body["messages"]]})
        self.client.queue("mail").send_many(["x" * 1_000_000] * 10)
        assert [len(body["messages"]) for body in self.script.of("messages")] == [8, 2]

    # Errors and options.

    def an_error_has_the_request_id(self) -> None:
        self.fresh()
        self.script.on["messages"] = lambda body: problem(400, "INVALID", field="priority")
        error = raises(sluice.Invalid, lambda: self.client.queue("mail").send("x"))
        assert len(error.request_id) == 32

    def the_token_and_the_url_come_from_the_environment(self) -> None:
        names = ("SLUICE_STORE", "SLUICE_TOKEN")
        before = {name: os.environ.pop(name, None) for name in names}
        try:
            error = raises(sluice.Invalid, sluice.Client)
            assert error.field == "url" and "SLUICE_STORE" in str(error) and "URL" in str(error)
            os.environ.update(SLUICE_STORE="http://a:7333,b:7333", SLUICE_TOKEN="secret")
            core = sluice.Client().core
            assert [node.port for node in core.nodes] == [7333, 7333]
            assert core.headers(sluice.calls.show_node())["Authorization"] == "Bearer secret"
            assert "Authorization" not in sluice.Client(token="").core.headers(sluice.calls.show_node())
            assert raises(sluice.Invalid, lambda: sluice.Client("http://a", token="x y")).field == "token"
            ports = [sluice.Client(url).core.nodes[0].port for url in ("http://a", "https://a", "http://[::1]:99")]
            assert ports == [80, 443, 99]
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

    def a_snooze_is_at_most_a_day(self) -> None:
        for wrong in (-1, 86401, "30s", float("nan"), True):
            assert raises(sluice.Invalid, lambda: sluice.Snooze(wrong)).field == "delay"  # type: ignore[arg-type]
        assert sluice.Snooze(86400).after == 86400


def run(tap: Any, folder: str) -> None:
    run_all(tap, ScriptedTests(), folder)
