# SPDX-License-Identifier: Apache-2.0
"""A node whose store's URL accepts that a crash loses messages says so: in its log, its metrics and doctor. Runs under
with-redis."""
import os
import subprocess
import sys
import tempfile

from test_node_loss import Node, check


def operator(*words):
    subprocess.run(["redis-cli", "-s", os.environ["SLUICE_TEST_REDIS_SOCKET"], *words], check=True,
                   stdout=subprocess.DEVNULL)


def metric(node):
    return next(line for line in node.ask("GET", "/metrics")[1].splitlines() if line.startswith("sluice_store_durable "))


def warned(log):
    with open(log, encoding="utf-8") as text:
        return [line for line in text if "event=store-warning" in line and "about=durability" in line]


def main():
    command = sys.argv[1]
    url = os.environ["SLUICE_TEST_REDIS"] + f"&prefix=durable{os.getpid()}"
    good = True
    print("1..5", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        node = Node(command, url, log)
        try:
            good &= check(1, "a durable store is shown as one", metric(node) == "sluice_store_durable 1", metric(node))
        finally:
            node.end()
        good &= check(2, "its log has no warning", not warned(log), warned(log))
        operator("CONFIG", "SET", "appendfsync", "everysec")
        node = Node(command, url + "&durability=everysec", log)
        try:
            good &= check(3, "the operator's choice is a metric", metric(node) == "sluice_store_durable 0", metric(node))
            node.until("the log has the warning", lambda: warned(log))
            good &= check(4, "it is in the log", len(warned(log)) == 1 and "durability=everysec" in warned(log)[0], warned(log))
            doctor = subprocess.run([command, "doctor", "--store", url + "&durability=everysec"], capture_output=True,
                                    text=True, check=False)
            line = next((line for line in doctor.stdout.splitlines() if "durability" in line), "")
            good &= check(5, "doctor warns", line.startswith("warning") and "everysec" in line, doctor.stdout)
        finally:
            node.end()
            operator("CONFIG", "SET", "appendfsync", "always")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
