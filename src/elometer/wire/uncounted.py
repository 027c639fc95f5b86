"""Counting attempts that came without usage: by a tokenizer of the user's own, else by the server's."""

from __future__ import annotations

import asyncio

from elometer.core.attempt import Attempt, Call
from elometer.wire.exchange import Outcome
from elometer.wire.protocols.reply import Parsed
from elometer.wire.server_tokens import LLAMA_CPP, ServerTokens
from elometer.wire.tokenizer_file import TokenizerFile


class Counting:
    """Replaces the estimates of an attempt by counts, as far as somebody can count.

    Such counts are never final: the answer's is of its text as it was seen, tokenised once more. The flags
    say what is not in them.
    """

    def __init__(self, server: ServerTokens, tokenizer: TokenizerFile | None) -> None:
        self._server = server
        self._tokenizer = tokenizer

    async def recount(self, call: Call, outcome: Outcome, attempt: Attempt) -> None:
        """Count the prompt, and the answer where there is one, of an attempt whose numbers are estimates."""
        if await self._by_slot(call, outcome, attempt):
            return
        if self._tokenizer is None or not await asyncio.to_thread(
            _by_file, self._tokenizer, call, outcome.parsed, attempt
        ):
            await self._by_server(call, outcome, attempt)

    async def settle(self, call: Call, attempt: Attempt) -> None:
        """What a server that was left without a word, by a process that died, says that the call has used."""
        await self._by_slot(call, Outcome(), attempt)

    async def _by_slot(self, call: Call, outcome: Outcome, attempt: Attempt) -> bool:
        """What llama.cpp itself says that a call it was hung up on has used."""
        if outcome.whole or attempt.seed is None:
            return False
        if outcome.headers and "llama.cpp" not in outcome.headers.get("server", "").lower():
            return False
        seen = outcome.parsed.chunks if outcome.parsed is not None else 0
        if not seen and attempt.attempt > 1:
            return False  # it may never have had a slot, and the one with its seed be that of the try before
        prompt = await self._server.prompt(call, attempt.prompt_sha or call.call_id)
        if prompt is None or prompt[1] != LLAMA_CPP:
            return False
        used = await self._server.used_by_slot(call)
        if used is None:
            return False
        answer, limit = used - prompt[0], call.params.get("max_tokens")
        # Fewer than were seen, none at all (the prompt is not done), or more than were allowed: then the slot
        # tells of something else.
        if answer < max(seen, 1) or (isinstance(limit, int) and answer > limit):
            return False
        _enter(attempt, prompt[0], answer, "server:/slots")
        attempt.usage_source = "server"
        attempt.usage_flags = [*attempt.usage_flags, "usage_from_slots"]
        return True

    async def _by_server(self, call: Call, outcome: Outcome, attempt: Attempt) -> None:
        prompt = await self._server.prompt(call, attempt.prompt_sha or call.call_id)
        if prompt is None:
            return
        flags, answer = [*attempt.usage_flags], attempt.completion_tokens
        names, counted = [prompt[1]], True
        if answer is not None and outcome.parsed is not None:
            text = await self._server.text(call, _visible(outcome.parsed))
            if text is None:
                counted = False
                flags.append("only_prompt_counted")
            else:
                answer = text[0] + _ended_by_token(call, outcome)
                names += [text[1]] if text[1] not in names else []
                flags += _not_counted(outcome.parsed)
        _enter(attempt, prompt[0], answer, " + ".join(names))
        attempt.usage_source = "local-tokenizer" if counted else "estimated"
        attempt.usage_flags = flags


def _by_file(tokenizer: TokenizerFile, call: Call, parsed: Parsed | None, attempt: Attempt) -> bool:
    """False where the tokenizer has no count for one of the texts."""
    texts = [message.content for message in call.messages]
    answer, flags = attempt.completion_tokens, ["template_not_counted"]
    try:
        prompt = sum(tokenizer.count(text) for text in (*texts, call.system or ""))
        if answer is not None and parsed is not None:
            answer = tokenizer.count(_visible(parsed))
            flags += _not_counted(parsed)
    except Exception:  # of a word that the vocabulary lacks, say; the library raises bare Exceptions
        return False
    _enter(attempt, prompt, answer, tokenizer.name)
    attempt.usage_source = "local-tokenizer"
    attempt.usage_flags = [*attempt.usage_flags, *flags]
    return True


def _enter(attempt: Attempt, prompt: int, answer: int | None, name: str) -> None:
    attempt.prompt_tokens, attempt.completion_tokens = prompt, answer
    attempt.total_tokens = None if answer is None else prompt + answer
    attempt.tokenizer = name


def _visible(parsed: Parsed) -> str:
    return parsed.text + (parsed.refusal or "")


def _ended_by_token(call: Call, outcome: Outcome) -> int:
    """The token by which a model ends its turn: servers with a tokenize endpoint count it as output."""
    parsed = outcome.parsed
    ended = outcome.whole and parsed is not None and parsed.finish_class == "stop"
    return int(ended and not call.params.get("stop"))


def _not_counted(parsed: Parsed) -> list[str]:
    """What costs output tokens and is not in the text."""
    parts = (("reasoning_not_counted", parsed.has_reasoning), ("tool_call_not_counted", parsed.has_tool_call))
    return [name for name, there in parts if there]
