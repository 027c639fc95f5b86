"""Counts that a server gives on request: tokenize endpoints, and llama.cpp's view of its slots.

Asked only about attempts without usage. An endpoint that is not there is asked once; none of this is a model
call, and none of it may fail one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import msgspec

from elometer.core.attempt import Call
from elometer.core.urls import endpoint, has_version
from elometer.core.usage import token_count
from elometer.wire.protocols import chat, messages
from elometer.wire.protocols.reply import NOT_JSON
from elometer.wire.transport import Headers, Transport

LLAMA_CPP = "server:/tokenize"
ANSWER_S = 2.0
LARGEST_REPLY = 8 * 1024 * 1024
FAILURES = 3  # of an endpoint, then it is not asked again
AT_ONCE = 4
PROMPTS_KEPT = 4096
# llama.cpp, as met on 2026-11-29, answers for its slots, and notices a hang-up, between two batches: seconds
# where it reads long prompts on a slow processor. A call that has only just been sent may not have its slot
# at the first looks.
SETTLE_S = 10.0
APPEAR_S = 0.3
LOOKS = 4
LOOK_EVERY_S = 0.05


class ServerTokens:
    """The counting endpoints of one gateway."""

    def __init__(self, transport: Transport, root_url: str, headers: Callable[[str], Headers]) -> None:
        self._transport = transport
        self._headers = headers
        root = root_url.rstrip("/")
        base = root.rpartition("/")[0] if has_version(root) else root
        self._urls = {
            "tokenize": base + "/tokenize",
            "template": base + "/apply-template",
            "slots": base + "/slots",
            "count": endpoint(root, "messages/count_tokens"),
        }
        self._failures: Counter[str] = Counter()
        self._there: set[str] = set()
        self._first = {name: asyncio.Lock() for name in self._urls}
        self._prompts: dict[tuple[str, str], tuple[int, str]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._settled: set[Any] = set()  # tasks whose slots were read

    async def prompt(self, call: Call, prompt_sha: str) -> tuple[int, str] | None:
        """Tokens of a call's prompt with everything that the chat template adds, and who counted."""
        place = (call.model, prompt_sha)  # models of one gateway may have tokenizers of their own
        known = self._prompts.get(place)
        if known is None:
            known = await self._count_prompt(call)
            if known is not None and len(self._prompts) < PROMPTS_KEPT:
                self._prompts[place] = known
        return known

    async def _count_prompt(self, call: Call) -> tuple[int, str] | None:
        if call.protocol == "messages":
            wanted = ("model", "system", "messages", "tools", "tool_choice", "thinking")
            body = {name: value for name, value in messages.body(call).items() if name in wanted}
            found = await self._ask("count", "messages", body)
            tokens = token_count(found.get("input_tokens")) if isinstance(found, dict) else None
            if tokens:
                return tokens, "server:/v1/messages/count_tokens"
        body = {name: value for name, value in chat.body(call).items() if not name.startswith("stream")}
        found = await self._ask("template", call.protocol, body)
        prompt = found.get("prompt") if isinstance(found, dict) else None
        if not isinstance(prompt, str):
            return None
        return await self._tokenize(call, prompt, add_special=True, parse_special=True)

    async def text(self, call: Call, text: str) -> tuple[int, str] | None:
        """Tokens of an answer's text."""
        return await self._tokenize(call, text)

    async def _tokenize(self, call: Call, text: str, **options: bool) -> tuple[int, str] | None:
        found = await self._ask("tokenize", call.protocol, {"content": text, **options})
        tokens = found.get("tokens") if isinstance(found, dict) else None
        return (len(tokens), LLAMA_CPP) if isinstance(tokens, list) else None

    async def used_by_slot(self, call: Call) -> int | None:
        """Prompt and answer tokens of the last call with this seed that llama.cpp worked on, once it stopped.

        A slot at rest keeps the seed of its last call and the length of what it has evaluated, which is all
        but the last token. None where no slot holds the seed (any more), or does not come to rest.
        """
        loop = asyncio.get_running_loop()
        begin, looks = loop.time(), 0
        while (left := begin + SETTLE_S - loop.time()) > 0:
            slots = await self._ask("slots", call.protocol, None, within_s=left)
            if not isinstance(slots, list):
                return None
            looks += 1
            slot = self._slot_of(call, slots)
            if slot is not None and not slot.get("is_processing"):
                self._settled.add(slot.get("id_task"))
                held = token_count(slot.get("n_prompt_tokens"))
                return held + 1 if held else None
            if slot is None and looks >= LOOKS and loop.time() > begin + APPEAR_S:
                return None
            await asyncio.sleep(LOOK_EVERY_S)
        return None

    def _slot_of(self, call: Call, slots: list[Any]) -> dict[str, Any] | None:
        """The slot of the latest task with the call's seed: an attempt made again has that of the first."""
        found = [
            slot
            for slot in slots
            if isinstance(slot, dict)
            and isinstance(asked := slot.get("params"), dict)
            and asked.get("seed") == call.seed
            and isinstance(slot.get("id_task"), int)
            and slot["id_task"] not in self._settled
        ]
        return max(found, key=itemgetter("id_task"), default=None)

    async def _ask(
        self, name: str, protocol: str, body: dict[str, Any] | None, within_s: float | None = None
    ) -> Any:
        """The decoded reply of an endpoint; None where there is none or it cannot be used."""
        if name not in self._there:
            # One at a time until it answered: a server without it is not to be asked by all calls at once.
            async with self._first[name]:
                if name not in self._there:
                    return await self._request(name, protocol, body, within_s)
        return await self._request(name, protocol, body, within_s)

    async def _request(
        self, name: str, protocol: str, body: dict[str, Any] | None, within_s: float | None
    ) -> Any:
        async with self._places:
            # Only now: those who waited for their place must not each wait for one who fell silent meanwhile.
            if self._failures[name] >= FAILURES:
                return None
            return await self._exchange(name, protocol, body, within_s)

    async def _exchange(
        self, name: str, protocol: str, body: dict[str, Any] | None, within_s: float | None
    ) -> Any:
        url, headers = self._urls[name], self._headers(protocol)
        method, content = ("GET", b"") if body is None else ("POST", msgspec.json.encode(body))
        status, found = 0, None
        try:
            async with asyncio.timeout(within_s or ANSWER_S):
                response = await self._transport.send(method, url, headers, content)
                try:
                    status = response.status_code
                    with contextlib.suppress(*NOT_JSON):
                        found = msgspec.json.decode(await _limited(response))
                finally:
                    await response.aclose()
        except self._transport.errors:
            found = None
        if status == 200 and found is not None:
            self._failures[name] = 0
            self._there.add(name)
            return found
        # A refusal will be repeated, and who leaves must not wait twice for one who never answered; an
        # overloaded moment may pass.
        silent = status == 0 and name not in self._there
        refused = 200 <= status < 500 and status != 429
        self._failures[name] += FAILURES if silent or refused else 1
        if self._failures[name] >= FAILURES:
            self._there.discard(name)
        return None


async def _limited(response: Any) -> bytes:
    parts, size = [], 0
    async for piece in response.aiter_bytes():
        parts.append(piece)
        size += len(piece)
        if size > LARGEST_REPLY:
            return b""
    return b"".join(parts)
