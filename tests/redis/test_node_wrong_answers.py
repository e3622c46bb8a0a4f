# SPDX-License-Identifier: Apache-2.0
"""A node behind a network that changes answers of a real Redis server. A wrong answer or two change nothing. If they last, the
queue halts with a sentence that names the slot, and goes on without a restart when the answers are right. Runs under
with-redis."""
import os
import socket
import sys
import threading

from test_node_loss import Node, check

MARK = b"mark-of-the-message"


class Proxy:
    """Passes bytes on. `lose`: the next command with the mark is passed on, and its answer is not. `wrong`: so many answers with
    the mark have a wrong byte."""

    def __init__(self, path):
        self.path, self.lose, self.wrong, self.told = path, False, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.path)
            cut = threading.Event()
            for source, target, change in ((client, server, self.command), (server, client, self.answer)):
                threading.Thread(target=self.copy, args=(source, target, change, cut), daemon=True).start()

    @staticmethod
    def copy(source, target, change, cut):
        try:
            while data := source.recv(1 << 16):
                data = change(data, cut)
                if cut.is_set():
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def command(self, data, cut):
        if self.lose and MARK in data:
            self.lose = False
            cut.lost = True
        return data

    def answer(self, data, cut):
        if getattr(cut, "lost", False):
            cut.set()
        elif self.wrong and MARK in data:
            self.wrong -= 1
            self.told += 1
            return data.replace(MARK, MARK.upper(), 1)
        return data


def main():
    proxy = Proxy(os.environ["SLUICE_TEST_REDIS_SOCKET"])
    node = Node(sys.argv[1], f"redis://127.0.0.1:{proxy.port}/0?prefix=wrong{os.getpid()}")
    good = True
    print("1..6", flush=True)
    try:
        node.ask("PUT", "/v1/queues/mail", {})
        node.send()

        def send(wrong):
            proxy.lose, proxy.wrong, proxy.told = True, wrong, 0
            return node.ask("POST", "/v1/queues/mail/messages", {"body": MARK.decode()})

        status, text = send(2)
        good &= check(1, "two wrong answers", proxy.told == 2, proxy.told)
        good &= check(2, "change nothing", status == 201, (status, text))
        status, text = send(1000)
        good &= check(3, "wrong answers that last make the outcome unknown", status == 504, (status, text))
        status, text = node.send()
        named = "slot 4 of q/" in text and "checksum" in text
        good &= check(4, "the queue halts, and the answer names the slot", status == 500 and named, (status, text))
        told = proxy.told
        node.until("it looks again", lambda: proxy.told > told + 1)
        status, text = node.send()
        good &= check(5, "it stays halted while the answers are wrong", status == 500, (status, text))
        proxy.wrong = 0
        node.until("the queue goes on", lambda: node.send()[0] == 201)
        status, text = node.ask("GET", "/v1/queues/mail/stats")
        good &= check(6, "it goes on without a restart", status == 200, (status, text))
        return 0 if good else 1
    finally:
        node.end()


if __name__ == "__main__":
    sys.exit(main())
