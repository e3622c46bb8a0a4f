# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 without I/O: the bytes of a request, and a reader of an answer. Both shells, blocking and asyncio, use them."""
from __future__ import annotations

from typing import Dict

HEAD_MAX = 65536
ANSWER_MAX = 1 << 30


class Broken(Exception):
    """The bytes are not an HTTP answer, or it ended early."""


def request_bytes(method: str, target: str, host: str, headers: Dict[str, str], body: bytes) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method not in ("GET", "DELETE"):
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8") + body


class Response:
    """Give it what came with feed(), and b"" at the end of the connection, until `done`. take() returns the body so far."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Dict[str, str] = {}
        self.done = False
        self.reusable = True  # the connection can have another request
        self._buffer = bytearray()
        self._body = bytearray()
        self._left: int | None = None  # bytes of the body, or of the chunk; None: up to the end
        self._chunked = False

    @property
    def has_head(self) -> bool:
        return self.status != 0

    def feed(self, data: bytes) -> None:
        if not data:
            self._end()
            return
        self._buffer += data
        if not self.has_head and not self._read_head():
            return
        if self._chunked:
            self._read_chunks()
        else:
            self._read_plain()
        if len(self._body) > ANSWER_MAX:
            raise Broken("the answer is too large")

    def take(self) -> bytes:
        body, self._body = bytes(self._body), bytearray()
        return body

    def _end(self) -> None:
        self.reusable = False
        if not self.has_head or self._left is not None or self._chunked:
            raise Broken("the connection was closed before the end of the answer")
        self.done = True

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_MAX:
                raise Broken("the head of the answer is too large")
            return False
        lines = self._buffer[:end].decode("iso-8859-1").split("\r\n")
        del self._buffer[:end + 4]
        parts = lines[0].split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
            raise Broken(f"the answer begins with {lines[0][:40]!r}, not with HTTP")
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.status = int(parts[1])
        self._frame(parts[0])
        return True

    def _frame(self, version: str) -> None:
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        self.reusable = version != "HTTP/1.0" and self.headers.get("connection", "").lower() != "close"
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            self._left = 0
        elif not self._chunked and length is not None:
            if not length.isdigit():
                raise Broken(f"Content-Length is {length[:20]!r}")
            self._left = int(length)

    def _read_plain(self) -> None:
        take = len(self._buffer) if self._left is None else min(self._left, len(self._buffer))
        self._body += self._buffer[:take]
        del self._buffer[:take]
        if self._left is None:
            return
        self._left -= take
        self.done = self._left == 0
        if self.done:
            self._left = None

    def _read_chunks(self) -> None:
        while not self.done:
            if self._left is None:
                end = self._buffer.find(b"\r\n")
                if end < 0:
                    return
                self._left = self._chunk_size(bytes(self._buffer[:end]))
                del self._buffer[:end + 2]
            need = self._left + 2  # the data of a chunk ends with a line end, and so does the last, empty one
            if len(self._buffer) < need:
                return
            self._body += self._buffer[:self._left]
            del self._buffer[:need]
            self.done = self._left == 0
            self._left = None
        self._chunked = False

    @staticmethod
    def _chunk_size(line: bytes) -> int:
        try:
            return int(line.split(b";")[0], 16)
        except ValueError:
            raise Broken("the answer has a malformed chunk") from None
