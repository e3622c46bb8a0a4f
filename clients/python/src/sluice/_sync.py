# SPDX-License-Identifier: Apache-2.0
"""The blocking shell: sockets that stay open between calls, for any number of threads."""
from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from typing import Any, Dict, Iterator, List, TypeVar

from ._core import CONNECT, PROBE_TARGET, Attempt, Call, Core, Exchange, Node, now
from ._http import Broken, Response, request_bytes
from .errors import Unavailable

T = TypeVar("T")
READ_SIZE = 65536
IDLE_MAX = 64  # connections per node that wait for the next call
STREAM_SILENCE = 60.0  # a stream has a comment every few seconds


class Transport:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.lock = threading.Lock()
        self.idle: Dict[int, List[socket.socket]] = {}
        self.active: Dict[socket.socket, int] = {}
        self.closed = False
        self.process = os.getpid()
        self.tls = ssl.create_default_context() if any(n.tls for n in core.nodes) else None

    def call(self, call: Call[T], timeout: float | None = None) -> T:
        x = Exchange(self.core, call, timeout)
        while True:
            pause = self._attempt(x)
            if pause is None:
                return x.answer
            if pause:
                time.sleep(pause)

    def abort(self) -> None:
        """Ends all calls that wait for an answer, from another thread. Further calls are refused."""
        with self.lock:
            self.closed = True
            sockets = list(self.active)
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side closed it first

    def close(self) -> None:
        self.abort()
        with self.lock:
            sockets = [s for rows in self.idle.values() for s in rows]
            self.idle.clear()
        for s in sockets:
            s.close()

    def _attempt(self, x: Exchange[Any]) -> float | None:
        attempt = x.begin()
        try:
            s = self._open(attempt)
        except OSError as e:
            if self.closed:
                return x.aborted(str(e), sent=False)
            return x.not_sent(f"cannot connect to {attempt.node.url}: {e}")
        response = Response()
        until = now() + attempt.timeout
        try:
            s.settimeout(max(0.001, attempt.timeout))
            s.sendall(attempt.data)
            while not response.done:
                s.settimeout(max(0.001, min(until - now(), attempt.silence)))
                try:
                    response.feed(s.recv(READ_SIZE))
                except socket.timeout:
                    if now() >= until or not self._is_alive(attempt.node):
                        raise
        except (OSError, Broken) as e:
            self._drop(s)
            if self.closed:
                return x.aborted("the client was closed during the call", sent=True)
            return x.lost(f"no answer from {attempt.node.url}: {e}")
        except BaseException:
            self._drop(s)
            raise
        self._keep(attempt.number, s, response.reusable)
        return x.answered(response.status, response.headers, response.take())

    def _is_alive(self, node: Node) -> bool:
        try:
            with self._connect(node, CONNECT) as s:
                s.sendall(request_bytes("GET", node.prefix + PROBE_TARGET, node.authority, {}, b""))
                return s.recv(READ_SIZE).startswith(b"HTTP/")
        except OSError:
            return False

    def stream(self, call: Call[Any], timeout: float | None = None) -> Iterator[bytes]:
        """Yields the parts of an answer that has no end. It returns when the connection ends."""
        x = Exchange(self.core, call, timeout)
        attempt = x.begin()
        try:
            s = self._open(attempt)
        except OSError as e:
            raise Unavailable(f"cannot connect to {attempt.node.url}: {e}") from None
        response = Response()
        try:
            s.settimeout(max(STREAM_SILENCE, attempt.timeout))
            s.sendall(attempt.data)
            while not response.done:
                try:
                    response.feed(s.recv(READ_SIZE))
                except (OSError, Broken) as e:
                    if not response.has_head:
                        raise Unavailable(f"no answer from {attempt.node.url}: {e}") from None
                    return
                if response.status == 200:
                    yield response.take()
        finally:
            self._drop(s)
        if response.status != 200:
            x.answered(response.status, response.headers, response.take())

    def _open(self, attempt: Attempt) -> socket.socket:
        with self.lock:
            if self.closed:
                raise OSError("the client is closed")
            if self.process != os.getpid():  # after a fork the connections belong to the parent
                self.process = os.getpid()
                self.idle.clear()
                self.active.clear()
            rows = self.idle.get(attempt.number, [])
            while rows:
                s = rows.pop()
                if not readable(s):
                    self.active[s] = attempt.number
                    return s
                s.close()  # the node closed it
        s = self._connect(attempt.node, attempt.connect)
        with self.lock:
            if not self.closed:
                self.active[s] = attempt.number
                return s
        s.close()
        raise OSError("the client is closed")

    def _connect(self, node: Node, timeout: float) -> socket.socket:
        s = socket.create_connection((node.host, node.port), max(0.001, timeout))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.tls.wrap_socket(s, server_hostname=node.host) if node.tls and self.tls else s

    def _keep(self, number: int, s: socket.socket, reusable: bool) -> None:
        with self.lock:
            self.active.pop(s, None)
            rows = self.idle.setdefault(number, [])
            if reusable and not self.closed and len(rows) < IDLE_MAX:
                rows.append(s)
                return
        s.close()

    def _drop(self, s: socket.socket) -> None:
        with self.lock:
            self.active.pop(s, None)
        s.close()


def readable(s: socket.socket) -> bool:
    """An idle connection with something to read has ended, or is out of step."""
    if not hasattr(select, "poll"):  # Windows, where select has no limit of its own
        return bool(select.select([s], [], [], 0)[0])
    poll = select.poll()
    poll.register(s, select.POLLIN)
    return bool(poll.poll(0))
