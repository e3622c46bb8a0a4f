# SPDX-License-Identifier: Apache-2.0
"""Tests of the worker against a real node."""
from __future__ import annotations

import asyncio
import contextlib
import io
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
from helpers import Running, Tests, raises, run_all, until
from sluice import testing


class WorkerTests(Tests):
    HELPERS = ("app", "program")

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

    def an_interrupt_that_a_job_swallows_counts(self) -> None:
        q = self.queue()
        began = threading.Event()

        def swallow(job: sluice.WorkerJob) -> str:
            began.set()
            try:
                while True:
                    time.sleep(0.01)
            except sluice.Cancelled:
                return "done"

        sent = q.send("x")
        with Running(self.app(q, swallow), self.client):
            assert began.wait(10)
            q.signal(sent.id, "interrupt", reason="wrong input")
            until(lambda: q.message(sent.id)["state"] == "cancelled", "the message is cancelled")

    def an_asyncio_job_waits_for_signals(self) -> None:
        q = self.queue()
        answers: List[Any] = []

        async def job_main(job: sluice.WorkerJob) -> str:
            assert await job.signals.next(0.01) is None
            answers.append("waits")
            found = await job.signals.next()
            answers.append(found and found.payload)
            return "done"

        first, second = q.send("x"), q.send("y")
        with Running(self.app(q, job_main, concurrency=2), self.client):
            until(lambda: answers == ["waits"] * 2, "both jobs wait in one event loop")
            q.signal(second.id, "steer", {"speed": 2})
            assert second.result(10) == "done"
            q.signal(first.id, "steer", {"speed": 3})
            assert first.result(10) == "done"
        assert answers[2:] == [{"speed": 2}, {"speed": 3}]

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

    def an_evicted_worker_ends(self) -> None:
        q = self.queue()
        seen: List[str] = []

        def wait(job: sluice.WorkerJob) -> None:
            try:
                while True:
                    time.sleep(0.01)
            except sluice.Cancelled:
                seen.append("cancelled")
                raise

        sent = q.send("x")
        running = Running(self.app(q, wait, name="pod-2"), self.client)
        with running:
            until(lambda: q.message(sent.id)["state"] == "locked", "the job runs")
            self.client.call(sluice.calls.evict_worker(q.name, worker="pod-2"))
            running.thread.join(15)
            assert not running.thread.is_alive()
        assert isinstance(running.error, sluice.Fenced) and seen == ["cancelled"], (running.error, seen)
        assert q.message(sent.id)["state"] == "ready"

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


def a_hung_node(folder: str) -> None:
    """A worker of two nodes goes on when the node hangs at which its receive waits."""
    store = os.path.join(folder, "hung")
    started = [testing.start(store, "--node", name) for name in "ab"]
    clients = [sluice.Client(url) for _, url in started]
    try:
        with sluice.Client(f"{started[0][1]},{started[1][1][7:]}") as client:
            client.create("mail")
            done: List[Any] = []
            app = sluice.App(client)
            app.job("mail")(lambda job: done.append(job.body))
            with Running(app, client):
                until(lambda: any(c.node()["waiting"] for c in clients), "the receive waits")
                hung = 0 if clients[0].node()["waiting"] else 1
                started[hung][0].send_signal(signal.SIGSTOP)
                try:
                    clients[1 - hung].queue("mail").send("x")
                    until(lambda: done == ["x"], "the worker goes on", 15)
                finally:
                    started[hung][0].send_signal(signal.SIGCONT)
    finally:
        for c in clients:
            c.close()
        for process, _ in started:
            process.kill()
            process.wait()


def two_nodes(folder: str) -> None:
    """A client of two nodes goes on when one of them is killed, and a worker too."""
    store = os.path.join(folder, "store")
    (first, a), (second, b) = testing.start(store, "--node", "a"), testing.start(store, "--node", "b")
    try:
        with sluice.Client(f"{a},{b[7:]}") as client:
            # The dead node may have passed a claim on to the other one, which commits it after the repeat of the receive
            # has looked for it (docs/queues.md, "Request ids"). These messages come when their locks end.
            q = client.create("mail", {"shards": 4, "visibilityTimeout": "5s"})
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
        run_all(tap, WorkerTests(client), folder)
    tap.run("a client of two nodes goes on with one", lambda: two_nodes(folder))
    tap.run("a worker of two nodes goes on when one hangs", lambda: a_hung_node(folder))
