# SPDX-License-Identifier: Apache-2.0
"""cancel: chosen messages end, by id or by filter."""
from harness import CONFLICT, INVALID, NOT_FOUND, case, contains, main, same
from terminal import Terminal


def waiting(sluice, count):
    """A queue with so many messages, every second one delayed; returns their ids."""
    sluice.create("tasks", "failureStrategy.maxRetries=0")
    return [sluice.send("tasks", f"job {number}", "--header", f"n={number % 2}",
                        *(["--delay", "1h"] if number % 2 else [])) for number in range(count)]


@case
def chosen_messages_are_cancelled(sluice):
    ids = waiting(sluice, 4)
    done = sluice.ok("cancel", "tasks", ids[0], ids[1], "--reason", "not needed", "--json").lines()
    same(done, [{"id": one, "queue": "tasks", "status": "cancelled"} for one in ids[:2]])
    same([sluice.json("show", "tasks", one)["state"] for one in ids[:2]], ["cancelled"] * 2)
    stats = sluice.stats("tasks")
    same([stats["ready"], stats["delayed"], stats["cancelled"]], [1, 1, 2])
    contains(sluice.ok("stats", "tasks").out, "cancelled                  2")
    contains(sluice.ok("stats").out, "CANCELLED")
    same(sluice.ok("cancel", "tasks", "-", input="\n".join(ids[2:])).out.splitlines(),
         [f"{one}  cancelled" for one in ids[2:]])
    same(sluice.receive("tasks"), [])
    same(sluice.stats("tasks")["cancelled"], 4)


@case
def a_dead_message_is_purged(sluice):
    waiting(sluice, 1)
    message = sluice.one("tasks")
    sluice.ok("fail", "tasks", message["token"])
    same(sluice.json("cancel", "tasks", message["id"])["status"], "purged")
    same(sluice.stats("tasks")["dead"], 0)


@case
def nothing_is_done_if_a_word_is_wrong(sluice):
    ids = waiting(sluice, 2)
    sluice.refused(INVALID, "cancel", "tasks", ids[0], "extra", says='"extra" is not a message id', field="id")
    sluice.refused(INVALID, "cancel", "tasks", ids[0], ids[0], says=f"message {ids[0]} is given twice", field="id")
    same(sluice.stats("tasks")["cancelled"], 0)
    token = sluice.one("tasks")["token"]
    for command in ("ack", "fail", "release", "renew"):
        sluice.refused(INVALID, command, "tasks", token, "extra", says='"extra" is not a lock token', field="token")
    same(sluice.stats("tasks")["locked"], 1)


@case
def what_cannot_be_cancelled_has_its_sentence(sluice):
    ids = waiting(sluice, 3)
    message = sluice.one("tasks")
    locked = f"a worker holds message {message['id']}; to end it: sluice signal tasks {message['id']} interrupt"
    sluice.refused(CONFLICT, "cancel", "tasks", message["id"], says=locked, field="id")
    mixed = sluice.run("cancel", "tasks", message["id"], ids[2])
    same([mixed.status, mixed.out], [CONFLICT, f"{ids[2]}  cancelled\n"])
    contains(mixed.err, locked)
    sluice.ok("ack", "tasks", message["token"])
    sluice.refused(CONFLICT, "cancel", "tasks", message["id"], says=message["id"])
    sluice.refused(CONFLICT, "cancel", "tasks", ids[2], says=ids[2])
    never = ids[0].rsplit("-", 1)[0] + "-999"
    sluice.refused(NOT_FOUND, "cancel", "tasks", never, says=never)
    sluice.refused(INVALID, "cancel", "tasks", "nonsense", says='"nonsense" is not a message id')
    contains(sluice.run("cancel", "tasks", "00000000-0-1", never).err, "belongs to another queue", never)
    sluice.refused(INVALID, "cancel", "tasks", says="a filter", field="ID")
    sluice.refused(INVALID, "cancel", "tasks", ids[0], "--contains", "x", says="exclude each other")
    sluice.refused(INVALID, "cancel", "tasks", "--state", "locked", says=["signal tasks ID interrupt"], field="--state")
    sluice.refused(NOT_FOUND, "cancel", "task", ids[0], says="tasks")


@case
def a_cancel_by_filter_counts_first(sluice):
    waiting(sluice, 6)
    sluice.refused(INVALID, "cancel", "tasks", "--header", "n=1", says=["3 of tasks", "--yes"], field="--yes")
    same(sluice.json("cancel", "tasks", "--header", "n=1", "--yes"), {"queue": "tasks", "found": 3, "cancelled": 3})
    contains(sluice.ok("cancel", "tasks", "--contains", "job", "--yes").err, "cancelled 3 of 3 messages of tasks")
    same(sluice.json("cancel", "tasks", "--contains", "job", "--yes"), {"queue": "tasks", "found": 0, "cancelled": 0})
    same(sluice.stats("tasks")["cancelled"], 6)


@case
def a_terminal_is_asked(sluice):
    waiting(sluice, 2)
    for answer, expected in (("n\n", 0), ("y\n", 1)):
        terminal = Terminal(sluice, "cancel", "tasks", "--header", "n=1")
        terminal.wait_for("1 message of tasks match")
        terminal.wait_for("Cancel? [y/N]")
        terminal.type(answer)
        terminal.end()
        same(sluice.stats("tasks")["cancelled"], expected, terminal.seen)


if __name__ == "__main__":
    main(at_once=3)
