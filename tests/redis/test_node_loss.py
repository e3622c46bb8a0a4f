# SPDX-License-Identifier: Apache-2.0
"""A node whose Redis server was replaced by one that lacks acknowledged messages: its answers, its metrics and doctor name
the queue, the shard and the slots. Runs under with-redis --sentinel."""
import http.client
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE = 60


def control(word):
    subprocess.run(f"{os.environ['SLUICE_TEST_REDIS_CONTROL']} {shlex.quote(word)}", shell=True, check=True)


class Node:
    def __init__(self, command, store, log=os.devnull):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        with open(log, "ab") as told:
            self.process = subprocess.Popen([command, "serve", "--store", store, "--listen", self.address],
                                            stdout=subprocess.DEVNULL, stderr=told)
        self.until("the node serves", lambda: self.ask("GET", "/healthz")[0] == 200)

    def ask(self, method, path, body=None):
        line = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        line.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        reply = line.getresponse()
        return reply.status, reply.read().decode()

    def send(self):
        return self.ask("POST", "/v1/queues/mail/messages", {"body": "x"})

    @staticmethod
    def until(what, condition):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except OSError:
                pass
            time.sleep(0.05)
        sys.exit(f"Bail out! {what}: not after {PATIENCE} s")

    def end(self):
        self.process.terminate()
        self.process.wait()


def check(number, name, good, shown):
    print(f"{'ok' if good else 'not ok'} {number} - {name}")
    if not good:
        print("# " + str(shown).replace("\n", "\n# "))
    return good


def main():
    command = sys.argv[1]
    folder = tempfile.TemporaryDirectory()
    log = os.path.join(folder.name, "log")
    node = Node(command, os.environ["SLUICE_TEST_REDIS"] + f"&prefix=loss{os.getpid()}", log)
    print("1..6", flush=True)
    try:
        node.ask("PUT", "/v1/queues/mail", {})
        node.ask("PUT", "/v1/queues/other", {})
        results = [node.send()[0] for _ in range(3)]
        control("hold")  # the replica has these, whatever it lacks later
        results += [node.send()[0] for _ in range(3)]
        control("kill")
        control("release")
        control("start")
        good = check(1, "the messages were acknowledged", set(results) == {201}, results)
        node.until("the loss is noticed", lambda: node.send()[0] == 500)
        status, text = node.send()
        good &= check(2, "an answer names the slots", "/log\\\", slots " in text and "are gone" in text, (status, text))
        node.until("the metrics are fresh", lambda: 'sluice_queue_damaged{queue="mail"} 1' in node.ask("GET", "/metrics")[1])
        metrics = node.ask("GET", "/metrics")[1]
        good &= check(3, "a metric names the queue", 'sluice_queue_damaged{queue="other"} 0' in metrics, metrics)
        doctor = subprocess.run([command, "doctor", "--store", f"http://{node.address}"], capture_output=True, text=True,
                                check=False)
        line = next((line for line in doctor.stdout.splitlines() if "queue mail" in line), "")
        good &= check(4, "doctor names queue and slots", line.startswith("failed") and "are gone" in line, doctor.stdout)
        def logged():
            with open(log, encoding="utf-8") as lines:
                return [line for line in lines if "event=store-warning" in line and "about=loss" in line]
        node.until("the log has the loss", logged)
        good &= check(5, "the log names the slots", "are gone" in logged()[0], logged())
        status, text = node.ask("GET", "/readyz")
        good &= check(6, "readyz warns", status == 200 and "are gone" in text, (status, text))
        return 0 if good else 1
    finally:
        node.end()
        folder.cleanup()


if __name__ == "__main__":
    sys.exit(main())
