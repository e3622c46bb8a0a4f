# SPDX-License-Identifier: Apache-2.0
"""Tests against a real node."""
from __future__ import annotations

import asyncio
import contextlib
import datetime
import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any, Callable, Dict, List

import sluice
from sluice import testing


def until(done: Callable[[], bool], what: str, timeout: float = 15.0) -> None:
    """Waits for a state that another process or thread brings about."""
    end = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        time.sleep(0.005)


def raises(kind: type, call: Callable[[], Any]) -> Any:
    try:
        call()
    except kind as e:
        return e
    raise AssertionError(f"{kind.__name__} was not raised")


class Running:
    """An app that works in the background."""

    def __init__(self, app: sluice.App, client: sluice.Client) -> None:
        self.app = app
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.main, args=(client,), daemon=True)

    def main(self, client: sluice.Client) -> None:
        try:
            self.app.run(client)
        except BaseException as e:
            self.error = e

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *args: Any) -> None:
        self.app.stop()
        self.thread.join(20)
        assert not self.thread.is_alive(), "the app does not end"


class Tests:
    def __init__(self, client: sluice.Client) -> None:
        self.client = client
        self.count = 0

    def queue(self, **settings: Any) -> sluice.Queue:
        self.count += 1
        return self.client.create(f"q{self.count}", settings)  # type: ignore[arg-type]

    # Client, queue and job.

    def a_message_comes_back_as_it_was_sent(self) -> None:
        q = self.queue()
        bodies = ["text", {"a": [1, 2.5, None]}, b"\xff\x00", b"abc", None, 7, True, [], "\u00e4\u20ac"]
        q.send_many(bodies)
        assert [j.body for j in q.receive(max=20)] == bodies

    def the_options_of_a_send_are_kept(self) -> None:
        q = self.queue()
        q.send("x", group="g", priority=3, headers={"tenant": "7"}, workflow="w", type="welcome")
        (job,) = q.receive()
        assert (job.group, job.priority, job.workflow, job.type) == ("g", 3, "w", "welcome")
        assert job.headers["tenant"] == "7" and job.attempt == 1 and job.fence >= 1 and job.lease > 0

    def a_delay_and_a_time_hold_a_message_back(self) -> None:
        q = self.queue()
        q.send("later", delay=3600)
        q.send("later", at=datetime.datetime.now() + datetime.timedelta(hours=1))
        assert q.receive() == [] and q.stats()["delayed"] == 2

    def a_dedup_key_sends_one_message(self) -> None:
        q = self.queue()
        first, second = q.send("x", dedup="k"), q.send("x", dedup="k")
        assert second.duplicate and second.id == first.id

    def a_buffer_sends_at_its_end(self) -> None:
        q = self.queue()
        with q.buffer(size=10) as buffer:
            sent = [buffer.send(i) for i in range(25)]
            assert q.stats()["ready"] == 20
        assert q.stats()["ready"] == 25 and len({s.id for s in sent}) == 25

    def a_buffer_of_a_failed_block_sends_nothing(self) -> None:
        q = self.queue()

        def block() -> None:
            with q.buffer() as buffer:
                buffer.send(1)
                raise KeyError("program")

        raises(KeyError, block)
        assert q.stats()["ready"] == 0

    def a_job_fails_and_is_released_by_hand(self) -> None:
        q = self.queue()
        q.send("x")
        (job,) = q.receive()
        assert job.release()["status"] == "released"
        (job,) = q.receive()
        assert job.retries == 0 and job.renew(60)["status"] == "renewed"
        job.progress(42, "half way")
        shown = q.message(job.id)
        assert shown["progress"] == 42 and shown["progressText"] == "half way"
        assert job.fail("disk full")["status"] == "retrying" and job.settled
        assert q.message(job.id)["failures"][0]["reason"] == "disk full"
        assert raises(sluice.Fenced, lambda: job.ack()).reason

    def a_result_is_collected(self) -> None:
        q = self.queue()
        sent = q.send_many([1, 2, 3])
        for job in q.receive(max=3):
            job.ack({"twice": 2 * job.body})
        assert sent[1].result(timeout=5) == {"twice": 4}
        ended = self.client.collect(sent, timeout=5)
        assert [ended[s.id]["result"] for s in sent] == [{"twice": 2 * i} for i in (1, 2, 3)]

    def a_result_that_does_not_come_is_a_timeout(self) -> None:
        q = self.queue()
        sent = q.send("x")
        assert sent.id in str(raises(TimeoutError, lambda: sent.result(timeout=0.05)))
        q.cancel([sent.id], reason="not wanted")
        error = raises(sluice.JobFailed, lambda: sent.result(timeout=5))
        assert error.state == "cancelled" and "not wanted" in str(error)

    def a_queue_is_paused_purged_and_deleted(self) -> None:
        q = self.queue()
        q.send_many("abc")
        q.pause()
        assert q.show()["paused"] and q.receive() == []
        q.resume()
        assert q.name in self.client.queues() and len(q.peek(max=2)) == 2
        assert q.purge() == 3 and q.change({"visibilityTimeout": "7s"})["settings"]["visibilityTimeout"] == "7s"
        q.delete(id=q.show()["id"])
        assert raises(sluice.NotFound, q.stats).reason == "unknown-queue"

    def a_dead_message_is_redriven(self) -> None:
        q = self.queue(failureStrategy={"mode": "hybrid", "maxRetries": 0, "deadLetterQueue": "dead"})
        self.client.create("dead")
        q.send("x")
        q.receive()[0].fail("bad")
        until(lambda: self.client.queue("dead").stats()["ready"] == 1, "the dead letter arrives")
        assert self.client.queue("dead").redrive() == 1
        until(lambda: q.stats()["ready"] == 1, "the message is back")

    def events_are_read(self) -> None:
        q = self.queue()
        q.send("x")
        events = q.events()
        assert next(events).type in ("queue-configured", "message-enqueued")
        stream = self.client.stream([q.name], from_="0", types=["message-enqueued"])
        event = next(stream)
        assert event.type == "message-enqueued" and event.data["queue"] == q.name and event.id
        q.receive()[0].ack()
        q.delete(id=q.show()["id"])
        assert [e.type for e in events][-1] == "end"

    def a_codec_turns_bodies(self) -> None:
        class Upper:
            def encode(self, value: Any) -> Any:
                return str(value).upper().encode(), "text/upper"

            def decode(self, body: Any, content_type: str) -> Any:
                return (body if isinstance(body, str) else body.decode()).lower() + ":" + content_type

        q = self.queue()
        own = sluice.Client(self.client.core.nodes[0].url, codec=Upper())
        own.queue(q.name).send("hello")
        (job,) = own.queue(q.name).receive()
        assert job.body == "hello:text/upper"
        own.close()

    def wrong_uses_are_named(self) -> None:
        q = self.queue()
        assert raises(sluice.NotFound, lambda: self.client.queue("nosuch").send("x")).field == "queue"
        assert raises(sluice.Invalid, lambda: q.send({1, 2})).field == "body"
        assert raises(sluice.Invalid, lambda: q.send(float("nan"))).field == "body"
        assert raises(sluice.Invalid, lambda: q.send("x", priority=11)).field == "priority"
        assert "timedelta" in str(raises(sluice.Invalid, lambda: q.send("x", delay="30s")))  # type: ignore[arg-type]
        assert raises(sluice.Invalid, lambda: sluice.Client("redis://a")).field == "url"
        assert "'a:7333' is not" in str(raises(sluice.Invalid, lambda: sluice.Client("a:7333")))
        assert '@app.job("mail")' in str(raises(sluice.Invalid, lambda: sluice.App().job(print)))  # type: ignore[arg-type]
        assert raises(sluice.Invalid, lambda: sluice.Client("http://a:7333,a:7333")).field == "url"
        assert raises(sluice.Invalid, lambda: sluice.App().job("mail", concurrency=0)).field == "concurrency"
        assert raises(sluice.Invalid, lambda: sluice.App().run()).field == "queue"
        dead = sluice.Client("http://127.0.0.1:1", timeout=0.2)
        assert "127.0.0.1:1" in str(raises(sluice.Unavailable, lambda: dead.queue("q").stats()))

    def the_asyncio_client_has_the_same_names(self) -> None:
        def public(kind: type) -> set[str]:
            return {name for name in dir(kind) if not name.startswith("_")}

        assert public(sluice.Client) == public(sluice.AsyncClient)
        assert public(sluice.Queue) == public(sluice.AsyncQueue)
        assert public(sluice.Job) == public(sluice.AsyncJob)

    def the_asyncio_client_sends_and_receives(self) -> None:
        q = self.queue()

        async def main() -> None:
            async with sluice.AsyncClient(self.client.core.nodes[0].url) as client:
                queue = client.queue(q.name)
                sent = await asyncio.gather(*[queue.send(i) for i in range(20)])
                async with queue.buffer() as buffer:
                    await buffer.send(20)
                jobs = await queue.receive(max=30, wait=1)
                assert sorted(job.body for job in jobs) == list(range(21))
                await asyncio.gather(*[job.ack(job.body) for job in jobs])
                assert await sent[3].result(timeout=5) == 3
                events = queue.events()
                assert (await events.__anext__()).id

        asyncio.run(main())

    # Worker.

    def app(self, q: sluice.Queue, function: Callable[[sluice.WorkerJob], Any], concurrency: int = 1,
            **options: Any) -> sluice.App:
        app = sluice.App(self.client, **options)
        app.job(q.name, concurrency=concurrency)(function)
        return app

    def a_worker_returns_results(self) -> None:
        q = self.queue()
        sent = q.send_many(range(300))
        testing.run_until_empty(self.app(q, lambda job: job.body + 1, concurrency=8))
        assert sent[17].result(timeout=5) == 18 and q.stats()["processed"] == 300

    def an_asyncio_function_works(self) -> None:
        q = self.queue()

        async def twice(job: sluice.WorkerJob) -> Any:
            await asyncio.sleep(0.001)
            return 2 * job.body

        sent = q.send_many(range(50))
        testing.run_until_empty(self.app(q, twice, concurrency=16))
        assert sent[21].result(timeout=5) == 42

    def an_exception_fails_with_its_class(self) -> None:
        q = self.queue(failureStrategy={"mode": "retry", "maxRetries": 3, "backoff": {"initial": "1h", "max": "1h"}})

        def bad(job: sluice.WorkerJob) -> None:
            raise ValueError("no such address")

        sent = q.send("x")
        testing.run_until_empty(self.app(q, bad))
        assert q.message(sent.id)["failures"][0]["reason"] == "ValueError: no such address"

    def a_result_that_is_not_json_fails(self) -> None:
        q = self.queue(failureStrategy={"mode": "retry", "maxRetries": 3, "backoff": {"initial": "1h", "max": "1h"}})
        sent, good = q.send("x"), q.send("y")
        testing.run_until_empty(self.app(q, lambda job: {1} if job.body == "x" else "fine"))
        assert "not JSON" in q.message(sent.id)["failures"][0]["reason"] and good.result(timeout=5) == "fine"

    def a_result_that_is_too_large_fails_alone(self) -> None:
        q = self.queue(failureStrategy={"mode": "retry", "maxRetries": 3, "backoff": {"initial": "1h", "max": "1h"}})
        sent = q.send_many(range(4))
        testing.run_until_empty(self.app(q, lambda job: "x" * (300_000 if job.body == 2 else 3), concurrency=4))
        assert q.stats()["processed"] == 3 and sent[3].result(timeout=5) == "xxx"
        assert "result" in q.message(sent[2].id)["failures"][0]["reason"]

    def a_snooze_counts_no_attempt(self) -> None:
        q = self.queue()

        def later(job: sluice.WorkerJob) -> None:
            raise sluice.Snooze(3600)

        sent = q.send("x")
        testing.run_until_empty(self.app(q, later))
        shown = q.message(sent.id)
        assert shown["state"] == "delayed" and shown["retries"] == 0

    def types_share_a_queue(self) -> None:
        q = self.queue()
        app = sluice.App(self.client)
        app.job(q.name, type="a")(lambda job: "A")
        app.job(q.name, type="b")(lambda job: "B")
        a, b, c = q.send(0, type="a"), q.send(0, type="b"), q.send(0, type="c")
        testing.run_until_empty(app)
        assert (a.result(5), b.result(5)) == ("A", "B")
        shown = q.message(c.id)
        assert shown["state"] == "delayed" and shown["retries"] == 0, shown

    def a_trace_goes_on_in_messages_of_a_job(self) -> None:
        q, other = self.queue(), self.queue()
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        q.send("x", headers={"traceparent": trace})
        testing.run_until_empty(self.app(q, lambda job: other.send("y") and None))
        assert other.receive()[0].headers["traceparent"] == trace

    def a_job_that_blocks_keeps_its_lock(self) -> None:
        q = self.queue(visibilityTimeout="900ms")
        runs: List[int] = []

        def block(job: sluice.WorkerJob) -> str:
            runs.append(job.attempt)
            end = time.monotonic() + 1.4
            while time.monotonic() < end:  # the interpreter is never idle
                pass
            time.sleep(1.4)
            return "kept"

        sent = q.send("x")
        testing.run_until_empty(self.app(q, block))
        assert runs == [1] and sent.result(5) == "kept"

    def a_lost_lock_cancels_the_job(self) -> None:
        q = self.queue(visibilityTimeout="900ms")
        began, seen = threading.Event(), []  # type: threading.Event, List[Any]

        def wait(job: sluice.WorkerJob) -> None:
            if seen:
                return
            began.set()
            try:
                while True:
                    time.sleep(0.01)
            except sluice.Cancelled:
                seen.append((job.lost, sluice.now() < job.deadline))
                raise

        sent = q.send("x")
        app = self.app(q, wait, name=f"lost-{self.count}")
        with Running(app, self.client):
            assert began.wait(10)
            q.signal(sent.id, "interrupt", now=True, then="retry")  # the lock ends at once
            until(lambda: bool(seen), "the job is cancelled")
            until(lambda: q.stats()["processed"] == 1, "the message is processed again")
        assert seen[0][0]

    def an_asyncio_job_is_cancelled(self) -> None:
        q = self.queue()
        began, seen = threading.Event(), []  # type: threading.Event, List[str]

        async def wait(job: sluice.WorkerJob) -> None:
            began.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        sent = q.send("x")
        with Running(self.app(q, wait), self.client):
            assert began.wait(10)
            q.signal(sent.id, "interrupt", reason="wrong input")
            until(lambda: q.message(sent.id)["state"] == "cancelled", "the message is cancelled")
        assert seen == ["cancelled"]

    def signals_reach_a_job(self) -> None:
        q = self.queue()
        began, steered = threading.Event(), []  # type: threading.Event, List[Any]

        def job_main(job: sluice.WorkerJob) -> str:
            began.set()
            job.progress(42, "half way")
            while not steered:
                found = job.signals.get(0.05)
                if found and found.kind == "ask":
                    found.ack("step 3")
                elif found and found.kind == "steer":
                    steered.append(found.payload)
                    found.ack()
            return "done"

        sent = q.send("x")
        with Running(self.app(q, job_main), self.client):
            assert began.wait(10)
            ask = q.signal(sent.id, "ask", "how far?")
            assert q.signal_answer(ask["id"])[0]["answer"] == "step 3"
            until(lambda: q.message(sent.id).get("progress") == 42, "the progress is shown")
            steer = q.signal(sent.id, "steer", {"speed": 2})
            assert q.signal_answer(steer["id"])[0]["state"] == "acked"
            assert sent.result(10) == "done"
        assert steered == [{"speed": 2}]

    def a_worker_registers_and_obeys(self) -> None:
        q = self.queue()
        done: List[Any] = []
        app = self.app(q, lambda job: done.append(job.body), concurrency=3, name="pod-1", labels="kind=gpu")
        running = Running(app, self.client)
        with running:
            until(lambda: any(w["name"] == "pod-1" for w in q.workers()), "the worker is listed")
            row = next(w for w in q.workers() if w["name"] == "pod-1")
            assert row["capacity"] == 3 and row["labels"] == "kind=gpu", row
            self.client.call(sluice.calls.pause_worker(q.name, worker="pod-1"))
            q.send(1)
            assert q.receive()[0].ack()["status"] == "processed" and not done  # the worker did not take it
            self.client.call(sluice.calls.resume_worker(q.name, worker="pod-1"))
            q.send(2)
            until(lambda: done == [2], "the worker works again")
            self.client.call(sluice.calls.drain_worker(q.name, worker="pod-1"))
            running.thread.join(15)
            assert not running.thread.is_alive() and running.error is None
        assert not any(w["capacity"] for w in q.workers())

    def a_worker_of_a_missing_queue_ends_with_its_error(self) -> None:
        app = sluice.App(self.client)
        app.job("nosuch")(lambda job: None)
        assert raises(sluice.NotFound, app.run).reason == "unknown-queue"

    def a_worker_whose_queue_is_deleted_ends_with_its_error(self) -> None:
        q = self.queue()
        running = Running(self.app(q, lambda job: None), self.client)
        with running:
            until(lambda: bool(q.workers()), "the worker waits")
            q.delete(id=q.show()["id"])
            running.thread.join(15)
        assert isinstance(running.error, sluice.NotFound), running.error

    def acks_travel_with_receives(self) -> None:
        q = self.queue()
        before = q.stats()["entries"]
        q.send_many(range(200))
        testing.run_until_empty(self.app(q, lambda job: None, concurrency=1))
        # Each cycle is one entry: the ack of a message and the claim of the next one.
        assert q.stats()["processed"] == 200 and q.stats()["entries"] - before < 320

    def threads_end_with_the_worker(self) -> None:
        q = self.queue()
        q.send_many(range(50))
        before = threading.active_count()
        testing.run_until_empty(self.app(q, lambda job: None, concurrency=8))
        until(lambda: threading.active_count() <= before, "the threads have ended")

    # Programs.

    def program(self, folder: str, q: sluice.Queue, body: str, *options: str) -> subprocess.Popen[str]:
        with open(os.path.join(folder, "jobs.py"), "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(f"""\
                import sluice, time
                app = sluice.App()
                @app.job({q.name!r}, concurrency=2)
                def run(job):
                    print("began", job.body, flush=True)
                """) + textwrap.indent(textwrap.dedent(body), "    "))
        env = {**os.environ, "SLUICE_STORE": self.client.core.nodes[0].url, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen([sys.executable, "-B", "-m", "sluice", "work", "jobs:app", *options], cwd=folder, env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def a_program_ends_gracefully(self, folder: str) -> None:
        q = self.queue()
        sent = q.send("slow")
        with self.program(folder, q, "time.sleep(0.7)\nreturn 'done'\n") as process:
            assert process.stdout and process.stdout.readline() == "began slow\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(15) == 0
        assert sent.result(5) == "done" and q.receive() == []
        assert not any(w["capacity"] for w in q.workers())

    def a_program_releases_what_does_not_end(self, folder: str) -> None:
        q = self.queue()
        sent = q.send("slow")
        with self.program(folder, q, "time.sleep(600)\n", "--grace", "0.3") as process:
            assert process.stdout and process.stdout.readline() == "began slow\n"
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0 and time.monotonic() - began < 10
        shown = q.message(sent.id)
        assert shown["state"] == "ready" and shown["retries"] == 0

    def a_second_signal_ends_a_program_at_once(self, folder: str) -> None:
        q = self.queue()
        sent = q.send("slow")
        with self.program(folder, q, "while True: time.sleep(0.01)\n") as process:
            assert process.stdout and process.stdout.readline() == "began slow\n"
            process.send_signal(signal.SIGTERM)
            until(lambda: not any(w.get("waiting") for w in q.workers()), "it receives no more")
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        assert q.message(sent.id)["state"] == "ready"

    def the_examples_of_the_readme_work(self) -> None:
        path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "README.md")
        with open(path, encoding="utf-8") as f:
            blocks = re.findall(r"```python\n(.*?)```", f.read(), re.S)
        producer, worker, test = [block.replace("http://127.0.0.1:7333", self.client.core.nodes[0].url) for block in blocks]
        names: Dict[str, Any] = {"__name__": "jobs"}
        self.client.create("mail")
        exec(worker, names)
        with Running(names["app"], self.client), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(producer, names)
        assert "'to': 'ann@example.com'" in printed.getvalue()
        exec(test, names)
        names["test_mail"]()

    def a_program_names_what_is_missing(self, folder: str) -> None:
        def run(place: str) -> str:
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SLUICE_STORE": "http://127.0.0.1:1"}
            return subprocess.run([sys.executable, "-B", "-m", "sluice", "work", place], cwd=folder, env=env, text=True,
                                  stderr=subprocess.PIPE, timeout=120).stderr

        assert "no module nosuch" in run("nosuch:app") and "has no nosuch" in run("json:nosuch")
        assert "not a sluice.App" in run("json:dumps")


def two_scopes(folder: str) -> None:
    """A node with tokens: a missing token, an unknown one and a missing scope are Denied."""
    made = subprocess.run([testing.program(), "token", "new", "--scope", "read", "--queue", "*", "--json"], text=True,
                          check=True, stdout=subprocess.PIPE)
    row = json.loads(made.stdout)
    path = os.path.join(folder, "tokens")
    with open(path, "w", encoding="utf-8") as f:
        f.write(row["line"] + "\n")
    with testing.node("mem:", "--tokens", path, token=row["token"]) as client:
        url = client.core.nodes[0].url
        assert client.queues() == []
        assert "admin" in str(raises(sluice.Denied, lambda: client.create("mail")))
        raises(sluice.Denied, sluice.Client(url, token="").queues)
        raises(sluice.Denied, sluice.Client(url, token="wrong").queues)
        app = sluice.App(client)
        app.job("mail")(lambda job: None)
        raises(sluice.Denied, app.run)


def two_nodes(folder: str) -> None:
    """A client of two nodes goes on when one of them is killed, and a worker too."""
    store = os.path.join(folder, "store")
    (first, a), (second, b) = testing.start(store, "--node", "a"), testing.start(store, "--node", "b")
    try:
        with sluice.Client(f"{a},{b[7:]}") as client:
            q = client.create("mail", {"shards": 4})
            sent = [q.send(i) for i in range(40)]
            assert client.core.owners, "no answer told the owners of the shards"
            done: List[Any] = []
            app = sluice.App(client)
            app.job("mail", concurrency=4)(lambda job: done.append(job.body))
            with Running(app, client):
                until(lambda: len(done) >= 10, "the worker works")
                first.kill()
                sent += [q.send(i) for i in range(40, 80)]
                ended = client.collect(sent, timeout=30)
            assert {row["state"] for row in ended.values()} == {"processed"} and set(done) == set(range(80))
    finally:
        for process in (first, second):
            process.kill()
            process.wait()


def run(tap: Any, folder: str) -> None:
    with testing.node() as client:
        tests = Tests(client)
        names: Dict[str, Callable[..., Any]] = {name: test for name, test in vars(Tests).items()
                                                if name[0] != "_" and name not in ("queue", "app", "program")}
        wanted = os.environ.get("ONLY", "")
        for name, test in names.items():
            if wanted not in name:
                continue
            arguments = [folder] if "folder" in test.__code__.co_varnames[:test.__code__.co_argcount] else []
            tap.run(name.replace("_", " "), lambda: test(tests, *arguments))
    tap.run("a client of two nodes goes on with one", lambda: two_nodes(folder))
    tap.run("a missing token and a missing scope are Denied", lambda: two_scopes(folder))
