"""A gateway that costs little: an asyncio.Protocol that answers every request after a fixed time.

`python mock_gateway.py` prints its port and serves until its standard input closes. The path says what to do:
`/L50/J50/…` waits 50 ms ± 50 %, `/S100/I20/…` streams 100 chunks, one each 20 ms.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys

_PATH = re.compile(rb"/([LJSI])(\d+)")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_REPLY = json.dumps(
    {
        "id": "chatcmpl-ID",
        "object": "chat.completion",
        "created": 1,
        "model": "mock",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "word " * 150}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 120, "completion_tokens": 150, "total_tokens": 270},
    }
).encode()
_USAGE = b'{"prompt_tokens":120,"completion_tokens":100,"total_tokens":220}'


def _chunk(payload: bytes) -> bytes:
    data = b"data: " + payload + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def _delta(text: bytes, finish: bytes = b"null", more: bytes = b"") -> bytes:
    return _chunk(
        b'{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"mock","choices":[{"index":0,'
        b'"delta":{%s},"finish_reason":%s}]%s}' % (b'"content":"%s"' % text if text else b"", finish, more)
    )


_WORD = _delta(b"word ")
_END = (
    _delta(b"", b'"stop"')
    + _chunk(b'{"id":"chatcmpl-1","model":"mock","choices":[],"usage":%s}' % _USAGE)
    + _chunk(b"[DONE]")
    + b"0\r\n\r\n"
)
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Gateway(asyncio.Protocol):
    count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self.buffer, 0, end)
        total = end + 4 + (int(length[1]) if length else 0)
        if len(self.buffer) < total:
            return
        path = self.buffer[: self.buffer.find(b"\r\n")]
        self.buffer = self.buffer[total:]
        plan = {kind: int(value) for kind, value in _PATH.findall(path)}
        latency = plan.get(b"L", 0) / 1000 * (1 + plan.get(b"J", 0) / 100 * random.uniform(-1, 1))
        loop = asyncio.get_running_loop()
        if b"S" in plan:
            loop.call_later(latency, self.stream, plan[b"S"], plan.get(b"I", 0) / 1000)
        elif latency:
            loop.call_later(latency, self.whole)
        else:
            self.whole()

    def whole(self) -> None:
        Gateway.count += 1
        body = _REPLY.replace(b"chatcmpl-ID", b"chatcmpl-%d" % Gateway.count)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.write(head + body)

    def stream(self, chunks: int, interval: float) -> None:
        self.write(_STREAM_HEAD)
        if interval:
            self.paced(chunks, interval, asyncio.get_running_loop().time())
        else:
            self.write(_WORD * chunks + _END)

    def paced(self, left: int, interval: float, due: float) -> None:
        if self.transport.is_closing():
            return
        if not left:
            self.write(_END)
            return
        self.write(_WORD)
        asyncio.get_running_loop().call_at(due + interval, self.paced, left - 1, interval, due + interval)

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)  # type: ignore[attr-defined]


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Gateway, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
