# SPDX-License-Identifier: Apache-2.0
"""The asyncio shell: the same exchange over streams of one event loop."""
from __future__ import annotations

import asyncio
import ssl
from typing import Any, AsyncIterator, Dict, List, Tuple, TypeVar

from ._core import CONNECT, PROBE_TARGET, Attempt, Call, Core, Exchange, Node
from ._http import Broken, Response, request_bytes
from ._sync import IDLE_MAX, READ_SIZE, STREAM_SILENCE
from .errors import Unavailable

T = TypeVar("T")
Connection = Tuple[asyncio.StreamReader, asyncio.StreamWriter]
FAILURES = (OSError, Broken, asyncio.TimeoutError)


class AsyncTransport:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.idle: Dict[int, List[Connection]] = {}
        self.tls = ssl.create_default_context() if any(n.tls for n in core.nodes) else None

    async def call(self, call: Call[T], timeout: float | None = None) -> T:
        x = Exchange(self.core, call, timeout)
        while True:
            pause = await self._attempt(x)
            if pause is None:
                return x.answer
            if pause:
                await asyncio.sleep(pause)

    async def close(self) -> None:
        rows = [c for rows in self.idle.values() for c in rows]
        self.idle.clear()
        for _, writer in rows:
            writer.close()

    async def _attempt(self, x: Exchange[Any]) -> float | None:
        attempt = x.begin()
        try:
            reader, writer = await self._open(attempt)
        except FAILURES as e:
            return x.not_sent(f"cannot connect to {attempt.node.url}: {e}")
        response = Response()
        try:
            await asyncio.wait_for(self._exchange(reader, writer, attempt, response), attempt.timeout)
        except FAILURES as e:
            writer.close()
            return x.lost(f"no answer from {attempt.node.url}: {e or 'timed out'}")
        except BaseException:  # the task is cancelled
            writer.close()
            raise
        self._keep(attempt.number, (reader, writer), response.reusable)
        return x.answered(response.status, response.headers, response.take())

    async def stream(self, call: Call[Any], timeout: float | None = None) -> AsyncIterator[bytes]:
        """Yields the parts of an answer that has no end. It returns when the connection ends."""
        x = Exchange(self.core, call, timeout)
        attempt = x.begin()
        try:
            reader, writer = await self._open(attempt)
        except FAILURES as e:
            raise Unavailable(f"cannot connect to {attempt.node.url}: {e}") from None
        response = Response()
        try:
            writer.write(attempt.data)
            while not response.done:
                try:
                    response.feed(await asyncio.wait_for(reader.read(READ_SIZE), max(STREAM_SILENCE, attempt.timeout)))
                except FAILURES as e:
                    if not response.has_head:
                        raise Unavailable(f"no answer from {attempt.node.url}: {e}") from None
                    return
                if response.status == 200:
                    yield response.take()
        finally:
            writer.close()
        if response.status != 200:
            x.answered(response.status, response.headers, response.take())

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, attempt: Attempt,
                        response: Response) -> None:
        writer.write(attempt.data)
        await writer.drain()
        while not response.done:
            if attempt.silence >= attempt.timeout:
                response.feed(await reader.read(READ_SIZE))
            else:
                response.feed(await self._read_while_alive(reader, attempt))

    async def _read_while_alive(self, reader: asyncio.StreamReader, attempt: Attempt) -> bytes:
        read = asyncio.ensure_future(reader.read(READ_SIZE))
        try:
            while not (await asyncio.wait([read], timeout=attempt.silence))[0]:
                if not await self._is_alive(attempt.node):
                    raise Broken("timed out")
        finally:
            read.cancel()
        return read.result()

    async def _is_alive(self, node: Node) -> bool:
        try:
            reader, writer = await asyncio.wait_for(self._connect(node), CONNECT)
            try:
                writer.write(request_bytes("GET", node.prefix + PROBE_TARGET, node.authority, {}, b""))
                return (await asyncio.wait_for(reader.read(READ_SIZE), CONNECT)).startswith(b"HTTP/")
            finally:
                writer.close()
        except FAILURES:
            return False

    async def _open(self, attempt: Attempt) -> Connection:
        rows = self.idle.get(attempt.number, [])
        while rows:
            reader, writer = rows.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()  # the node closed it
        return await asyncio.wait_for(self._connect(attempt.node), attempt.connect)

    async def _connect(self, node: Node) -> Connection:
        return await asyncio.open_connection(node.host, node.port, ssl=self.tls if node.tls else None)

    def _keep(self, number: int, connection: Connection, reusable: bool) -> None:
        rows = self.idle.setdefault(number, [])
        if reusable and len(rows) < IDLE_MAX:
            rows.append(connection)
        else:
            connection[1].close()
