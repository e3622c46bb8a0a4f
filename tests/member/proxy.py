# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that breaks connections after a number of bytes."""
import socket
import struct
import threading

REQUEST, ANSWER = "request", "answer"


class Cutter:
    """Counts the bytes of each request that begins with `marker` (empty: those of each connection), and of its answer.

    cuts is a list of (REQUEST or ANSWER, bytes), or None. Each such request takes the first one of the list. When so many
    bytes have passed, both connections are reset. lengths has the most bytes of a request and of an answer that passed.
    """

    def __init__(self, address, marker=b"", cuts=()):
        self.to, self.marker, self.cuts = address.rsplit(":", 1), marker, list(cuts)
        self.done, self.lengths = 0, {REQUEST: 0, ANSWER: 0}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((self.to[0], int(self.to[1])))
            except OSError:
                client.close()
                continue
            Passage(self, client, server)

    def close(self):
        self.listener.close()


class Passage:
    """One connection, and its counterpart at the node."""

    def __init__(self, cutter, client, server):
        self.cutter, self.ends, self.lock = cutter, (client, server), threading.Lock()
        self.counting, self.cut, self.counts = False, None, {REQUEST: 0, ANSWER: 0}
        if not cutter.marker:
            self.begin()
        for end in self.ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self.copy, args=(client, server, REQUEST), daemon=True).start()
        threading.Thread(target=self.copy, args=(server, client, ANSWER), daemon=True).start()

    def copy(self, source, target, way):
        try:
            while part := source.recv(65536):
                if way == REQUEST and self.cutter.marker and self.cutter.marker in part:
                    self.begin()
                passed, over = self.allowed(part, way)
                target.sendall(passed)
                if over:
                    self.reset()
                    return
            target.shutdown(socket.SHUT_WR)
        except OSError:
            self.reset()

    def begin(self):
        """A request that counts takes its cut."""
        with self.lock:
            self.counting, self.counts = True, {REQUEST: 0, ANSWER: 0}
            self.cut = self.cutter.cuts.pop(0) if self.cutter.cuts else None

    def allowed(self, part, way):
        """What of these bytes may pass, and whether the connection ends then."""
        with self.lock:
            if not self.counting:
                return part, False
            before = self.counts[way]
            self.counts[way] += len(part)
            if not self.cut:
                self.cutter.lengths[way] = max(self.cutter.lengths[way], self.counts[way])
                return part, False
            if self.cut[0] != way or self.counts[way] < self.cut[1]:
                return part, False
            self.cutter.done += 1
            return part[:self.cut[1] - before], True

    def reset(self):
        for end in self.ends:
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
                end.close()
            except OSError:
                pass
