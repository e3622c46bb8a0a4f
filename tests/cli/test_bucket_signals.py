# SPDX-License-Identifier: Apache-2.0
"""sluice work on a bucket: a look costs a request there, so the renewals tell of signals."""
from harness import case, main, same
from working import ENDLESS, Worker, told


@case
def renewals_tell_a_worker_of_its_signals(sluice):
    sluice.create_new("tasks", "visibilityTimeout=6s")
    id = sluice.send("tasks", "x")
    worker = Worker(sluice, f"READY; read -r -u 3 line; echo '{{\"number\":1,\"answer\":\"here\"}}' >&4; {ENDLESS}").runs()
    same(told(sluice, id, "ask"), ("acked", "here"))
    same(told(sluice, id, "interrupt", "--grace", "20s"), ("acked", ""))
    same(worker.ends()["status"], "cancelled")


if __name__ == "__main__":
    main()
