# SPDX-License-Identifier: Apache-2.0
"""serve: a node as a process: what it says, how it stops, what it refuses."""
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading

from harness import DENIED, INVALID, PATIENCE, PROGRAM, UNAVAILABLE, case, contains, holds, main, same, until
from node import Node


@case
def a_node_serves_the_store_and_stops_when_asked(sluice):
    sluice.create("tasks")
    with Node(sluice, "--node", "n1") as node:
        same((node.hello["node"], node.hello["store"]), ("n1", sluice.store))
        same(node.ask("POST", "/v1/queues/tasks/messages", {"body": "hello"})[0], 201)
        status, me = node.ask("GET", "/v1/node")
        same((status, me["node"], me["queues"]), (200, "n1", 1))
        same(node.stop()[0], 0)
    same(sluice.one("tasks")["body"], "hello")


@case
def both_signals_end_it_and_one_that_waits_is_answered(sluice):
    sluice.create("tasks")
    for number in (signal.SIGTERM, signal.SIGINT):
        with Node(sluice) as node:
            answers = []
            waiter = threading.Thread(target=lambda: answers.append(
                node.ask("POST", "/v1/queues/tasks/receive", {"wait": "20s"})))
            waiter.start()
            until(lambda: node.ask("GET", "/v1/node")[1]["waiting"] == 1, "a receive that waits")
            same(node.stop(number)[0], 0)
            waiter.join(PATIENCE)
            same(answers, [(200, {"messages": []})])


@case
def a_person_is_told_where_it_listens(sluice):
    process = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=sluice.folder, env=sluice.on_store)
    line = process.stdout.readline().decode()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    contains(line, "http://127.0.0.1:", sluice.store)
    holds(":0 " not in line, f"a port was chosen: {line}")


@case
def nodes_may_share_a_store_but_not_an_address(sluice):
    sluice.create("tasks")
    with Node(sluice) as one, Node(sluice) as two:
        same(one.ask("POST", "/v1/queues/tasks/messages", {"body": "x"})[0], 201)
        same(len(two.ask("POST", "/v1/queues/tasks/receive", {"wait": "20s"})[1]["messages"]), 1)
        sluice.refused(UNAVAILABLE, "serve", "--listen", one.address, says=one.address.split(":")[1], field="listen")


@case
def it_refuses_what_would_be_unwise_or_impossible(sluice):
    sluice.refused(DENIED, "serve", "--listen", "0.0.0.0:0", says="127.0.0.1", field="listen")
    sluice.refused(INVALID, "serve", "--listen", "somewhere", says='"somewhere"', field="listen")


@case
def it_warns_of_a_store_that_others_can_read(sluice):
    sluice.create("tasks")
    folder = sluice.store
    with Node(sluice) as node:
        same("store-warning" in node.stop()[1], False)
    for where, _, _ in os.walk(folder):
        os.chmod(where, 0o755)
    os.chmod(os.path.join(folder, "format"), 0o644)
    with Node(sluice) as node:
        contains(node.stop()[1], "store-warning", "about=access", "chmod -R o-rwx")


@case
def its_memory_is_in_no_core_file_and_open_to_no_other_program(sluice):
    """It has tokens and passwords. /proc/PID of a process that is not dumpable belongs to root, so the node needs another
    user for that half."""
    another = 65534 if os.getuid() == 0 else None
    store = tempfile.mkdtemp(prefix="sluice-core-")
    os.chmod(store, 0o777)
    node = subprocess.Popen([PROGRAM, "serve", "--store", store + "/s", "--listen", "127.0.0.1:0", "--json"], user=another,
                            stdout=subprocess.PIPE, cwd="/", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (4096, 4096)))
    try:
        holds(node.stdout.readline(), "the node serves")
        with open(f"/proc/{node.pid}/limits") as limits:
            rows = [line.split() for line in limits if line.startswith("Max core file size")]
        same([row[4:6] for row in rows], [["0", "0"]])
        with open(f"/proc/{node.pid}/status") as status:
            uid = [int(line.split()[1]) for line in status if line.startswith("Uid:")]
        same(uid, [another or os.getuid()])
        same(os.stat(f"/proc/{node.pid}/mem").st_uid, 0, "the user that may read the memory of the node")
    finally:
        node.kill()
        node.communicate()
        shutil.rmtree(store)


@case
def killed_it_loses_nothing_that_was_answered(sluice):
    sluice.create("tasks")
    with Node(sluice) as node:
        sent = [node.ask("POST", "/v1/queues/tasks/messages", {"body": str(i)})[1]["id"] for i in range(20)]
        os.kill(node.process.pid, signal.SIGKILL)
        node.process.wait()
    same([message["id"] for message in sluice.receive("tasks", "--max", "100")], sent)


main()
