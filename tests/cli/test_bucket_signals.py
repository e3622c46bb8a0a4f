# SPDX-License-Identifier: Apache-2.0
"""sluice work on a bucket: a look costs a request there, so the renewals tell of signals."""
from between import Between, between
from harness import case, holds, main, same, until
from working import ENDLESS, Worker, told

ANSWERING = f"READY; read -r -u 3 line; echo '{{\"number\":1,\"answer\":\"here\"}}' >&4; {ENDLESS}"


@case
def renewals_tell_a_worker_of_its_signals(sluice):
    sluice.create("tasks", "visibilityTimeout=6s")
    id = sluice.send("tasks", "x")
    worker = Worker(sluice, ANSWERING).runs()
    same(told(sluice, id, "ask"), ("acked", "here"))
    same(told(sluice, id, "interrupt", "--grace", "20s"), ("acked", ""))
    same(worker.ends()["status"], "cancelled")


@case
def a_signal_comes_within_a_third_of_the_lock(sluice):
    sluice.create("tasks", "visibilityTimeout=30s")
    id = sluice.send("tasks", "x")
    Worker(sluice, ANSWERING).runs()
    same(told(sluice, id, "ask"), ("acked", "here"))
    [row] = sluice.json("show", "tasks", id)["signals"]
    took = row["endedAt"] - row["sentAt"]
    holds(took <= 15_000, f"{took} ms: a third of 30 s, and 5 s for the requests on a busy machine")


@case
def a_worker_that_holds_a_job_asks_only_to_renew(sluice):
    asked = []

    class Noting(Between):
        def before(self):
            asked.append((self.command, self.path))

    def renewals():
        return [path for command, path in asked if command == "PUT" and "/log/" in path]

    sluice.create("tasks", "visibilityTimeout=12s")
    sluice.send("tasks", "x")
    with between(Noting) as env:
        sluice.on_store = sluice.on_store | env
        worker = Worker(sluice, f"READY; {ENDLESS}").runs()
        began = len(renewals())
        until(lambda: len(renewals()) > began, "the first renewal")
        del asked[:]
        until(lambda: len(renewals()) > 1, "two more")
        holds(not [row for row in asked if row[0] == "HEAD"], f"a poll looks for the next entry: {asked}")
        holds(len(asked) <= 3 * len(renewals()), f"no other requests: {asked}")
        worker.process.kill()


if __name__ == "__main__":
    main()
