# SPDX-License-Identifier: Apache-2.0
"""TCP proxies: one that can stop, as in a partition, and one that breaks connections after a number of bytes."""
import socket
import struct
import threading

REQUEST, ANSWER = "request", "answer"


class Proxy:
    """A proxy to one address. A subclass chooses what a connection through it does."""

    def __init__(self, address, passage):
        self.to, self.passage = address.rsplit(":", 1), passage
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.open, args=(client,), daemon=True).start()

    def open(self, client):
        try:
            server = socket.create_connection((self.to[0], int(self.to[1])), timeout=10)
        except OSError:
            client.close()
            return
        self.passage(self, client, server).run()

    def close(self):
        self.listener.close()


class Passage:
    """One connection, and its counterpart at the address."""

    def __init__(self, proxy, client, server):
        self.proxy, self.ends = proxy, (client, server)

    def run(self):
        client, server = self.ends
        for end in self.ends:
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self.copy, args=(server, client, ANSWER), daemon=True).start()
        self.copy(client, server, REQUEST)

    def copy(self, source, target, way):
        try:
            while part := source.recv(65536):
                passed, over = self.allowed(part, way)
                target.sendall(passed)
                if over:
                    self.end()
                    return
            target.shutdown(socket.SHUT_WR)
        except OSError:
            self.end()

    def allowed(self, part, way):
        """What of these bytes may pass, and whether the connection ends then."""
        return part, False

    def end(self):
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Link(Proxy):
    """While it is cut, connections stay open and no byte passes."""

    def __init__(self, address):
        self.passes = threading.Event()
        self.passes.set()
        super().__init__(address, LinkPassage)

    def open(self, client):
        self.passes.wait()
        super().open(client)

    def cut(self):
        self.passes.clear()

    def mend(self):
        self.passes.set()

    def close(self):
        self.mend()
        super().close()


class LinkPassage(Passage):
    def allowed(self, part, way):
        self.proxy.passes.wait()
        return part, False


HEADS = (b"GET ", b"POST ", b"PUT ", b"DELETE ")


class Cutter(Proxy):
    """Counts the bytes of each request that begins with `marker` (empty: those of each connection), and of its answer.

    cuts is a list of (REQUEST or ANSWER, bytes), or None. Each such request takes the first one of the list. When so many
    bytes have passed, both connections are reset. lengths has the most bytes of a request and of an answer that passed.
    """

    def __init__(self, address, marker=b"", cuts=()):
        self.marker, self.cuts = marker, list(cuts)
        self.done, self.lengths = 0, {REQUEST: 0, ANSWER: 0}
        super().__init__(address, CutterPassage)


class CutterPassage(Passage):
    def __init__(self, cutter, client, server):
        super().__init__(cutter, client, server)
        self.lock = threading.Lock()
        self.counting, self.cut, self.counts = False, None, {REQUEST: 0, ANSWER: 0}
        if not cutter.marker:
            self.begin()

    def begin(self):
        """A request that counts takes its cut."""
        with self.lock:
            self.counting, self.counts = True, {REQUEST: 0, ANSWER: 0}
            self.cut = self.proxy.cuts.pop(0) if self.proxy.cuts else None

    def allowed(self, part, way):
        if way == REQUEST and self.proxy.marker and self.proxy.marker in part:
            self.begin()
        elif way == REQUEST and self.proxy.marker and part.startswith(HEADS):
            self.counting = False  # another request on the same connection
        with self.lock:
            if not self.counting:
                return part, False
            before = self.counts[way]
            self.counts[way] += len(part)
            if not self.cut:
                self.proxy.lengths[way] = max(self.proxy.lengths[way], self.counts[way])
                return part, False
            if self.cut[0] != way or self.counts[way] < self.cut[1]:
                return part, False
            self.proxy.done += 1
            return part[:self.cut[1] - before], True

    def end(self):
        for end in self.ends:
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
                end.close()
            except OSError:
                pass
