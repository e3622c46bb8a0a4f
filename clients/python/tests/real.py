# SPDX-License-Identifier: Apache-2.0
"""Tests of the client against a real node."""
from __future__ import annotations

import asyncio
import datetime
import json
import os
import subprocess
from typing import Any

import sluice
from helpers import Tests, raises, run_all, until
from sluice import testing


def page() -> str:
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "..", "..", "docs", "clients.md"), encoding="utf-8") as f:
        return f.read()


class ClientTests(Tests):
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
        assert self.client.collect([s.id for s in sent], timeout=5, queue=q.name) == ended
        assert "queue=" in str(raises(sluice.Invalid, lambda: self.client.collect([sent[0].id])))

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

    def a_stream_goes_on_after_a_queue_is_deleted(self) -> None:
        gone, stays = self.queue(), self.queue()
        gone.send("x")
        stream = self.client.stream([gone.name, stays.name], from_="0", types=["message-enqueued"])
        assert next(stream).data["queue"] == gone.name
        gone.delete(id=gone.show()["id"])
        stays.send("y")
        until(lambda: next(stream).data.get("queue") == stays.name, "the event of the other queue")

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

    def the_page_has_the_texts_of_errors(self) -> None:
        url = self.client.core.nodes[0].url
        if "mail" not in self.client.queues():
            self.client.create("mail")
        q = self.client.queue("mail")
        with sluice.Client("http://127.0.0.1:1", timeout=0.2) as dead, sluice.Client(url) as client:
            for kind, use in ((sluice.NotFound, lambda: client.queue("nosuch").send("x")),
                              (sluice.Invalid, lambda: q.send({1})),
                              (sluice.Invalid, lambda: q.send("x", priority=10)),
                              (sluice.Invalid, lambda: sluice.App(client).job("mail", concurrency=0)),
                              (sluice.Invalid, lambda: client.create("other", {"visibilityTimout": "3s"})),
                              (sluice.Unavailable, lambda: dead.queue("mail").send("x")),
                              (sluice.Invalid, lambda: sluice.Client("localhost:7333")),
                              (sluice.Invalid, lambda: q.send("x" * 2_000_000)),
                              (sluice.Conflict, lambda: client.create("mail", {"visibilityTimeout": "9s"})),
                              (sluice.Invalid, lambda: sluice.Snooze(100_000))):
                assert f" {raises(kind, use)} |" in page(), raises(kind, use)

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


def two_scopes(folder: str) -> None:
    """A node with tokens: a missing token, an unknown one and a missing scope are Denied."""
    made = subprocess.run([testing.program(), "token", "new", "--scope", "read", "--queue", "*", "--name", "web", "--json"], text=True,
                          check=True, stdout=subprocess.PIPE)
    row = json.loads(made.stdout)
    path = os.path.join(folder, "tokens")
    with open(path, "w", encoding="utf-8") as f:
        f.write(row["line"] + "\n")
    with testing.node("mem:", "--tokens", path, token=row["token"]) as client:
        url = client.core.nodes[0].url
        assert client.queues() == []
        assert "admin" in str(raises(sluice.Denied, lambda: client.create("mail")))
        assert f" {raises(sluice.Denied, lambda: client.queue('mail').send('x'))} |" in page()
        raises(sluice.Denied, sluice.Client(url, token="").queues)
        raises(sluice.Denied, sluice.Client(url, token="wrong").queues)
        app = sluice.App(client)
        app.job("mail")(lambda job: None)
        raises(sluice.Denied, app.run)


def run(tap: Any, folder: str) -> None:
    with testing.node() as client:
        run_all(tap, ClientTests(client), folder)
    tap.run("a missing token and a missing scope are Denied", lambda: two_scopes(folder))
