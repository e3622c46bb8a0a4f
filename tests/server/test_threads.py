# SPDX-License-Identifier: Apache-2.0
"""A call that waits for another node holds no thread of this one."""
import itertools
import signal
import threading
import time

from harness import case, holds, main
from serving import Node, make_tokens

CLIENTS = 8  # each may have a quarter of the 16 threads for blocking calls
OF_EACH = 4
TRIES = 5  # on a busy machine the owner's second may be over too soon


class Waiting:
    """A call in a thread of its own."""

    def __init__(self, node, method, path, body, headers):
        self.answer = None
        self.thread = threading.Thread(target=self.call, args=(node, method, path, body, headers), daemon=True)
        self.thread.start()

    def call(self, node, method, path, body, headers):
        self.answer = node.raw(method, "/v1/queues" + path, body, headers=headers)


def changes(queue, ids):
    """Calls that the owner of the queue must do, in turns."""
    for i, kind in zip(ids, itertools.cycle(("signal", "cancel", "cancel one", "pause"))):
        yield {"signal": ("POST", f"/{queue}/messages/{i}/signals", {"kind": "steer", "payload": {"speed": 2}}),
               "cancel": ("POST", f"/{queue}/cancel", {"ids": [i]}),
               "cancel one": ("DELETE", f"/{queue}/messages/{i}", None),
               "pause": ("POST", f"/{queue}/pause", None)}[kind]


def others_are_first(owner, node, queue, clients, last):
    """Whether other calls at the node are answered before all those that wait for the stopped owner."""
    owner.does(201, "PUT", f"/{queue}", headers=last)
    ids = [owner.does(201, "POST", f"/{queue}/messages", {"body": "x"}, headers=last)["id"]
           for _ in range(CLIENTS * OF_EACH)]
    node.does(200, "POST", f"/{queue}/receive", {"max": 1}, headers=last)  # it finds the owner
    owner.process.send_signal(signal.SIGSTOP)
    waiting = [Waiting(node, *change, headers) for change, headers in zip(changes(queue, ids), itertools.cycle(clients))]
    time.sleep(0.2)
    for method, path, status in (("GET", "", 200), ("GET", "/mine/messages", 200), ("POST", "/mine/pause", 204),
                                 ("GET", "/mine/stats", 200), ("GET", f"/{queue}/messages", 200)):
        node.does(status, method, path, headers=last)
    first = all(w.answer is None for w in waiting)
    owner.process.send_signal(signal.SIGCONT)
    for w in waiting:
        w.thread.join(60)
        holds(w.answer is not None and w.answer.status < 500, f"each is answered: {w.answer}")
    return first


@case
def calls_that_wait_for_a_stopped_owner_leave_the_threads_to_others(sluice):
    tokens, keys = make_tokens(sluice, last="scope=admin queue=*",
                               **{f"c{i}": "scope=admin queue=*" for i in range(CLIENTS)})
    last = keys.pop("last")
    for i in range(TRIES):
        options = ["--tokens", tokens, "--coord", "none"]
        with Node(sluice, "--node", f"a{i}", *options) as owner, Node(sluice, "--node", f"b{i}", *options) as node:
            node.raw("PUT", "/v1/queues/mine", headers=last)
            if others_are_first(owner, node, f"jobs{i}", list(keys.values()), last):
                return
    holds(False, "a call that does not need the owner is answered before those that wait for it")


if __name__ == "__main__":
    main()
