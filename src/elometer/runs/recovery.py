"""What a start that died left unbooked: answers it had paid for, and attempts that were on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from statistics import fmean

from elometer.core.attempt import Attempt, Call, labels
from elometer.runs import events as ev
from elometer.runs.books import Books
from elometer.runs.calls import output_limit, worst_case
from elometer.runs.journal import Sample
from elometer.runs.resume import Past


class CallTokens:
    """What answered calls of this experiment have cost: prompts by (task, round), answers over all."""

    def __init__(self, answered: Iterable[Sample]) -> None:
        prompts: dict[tuple[str, int | None], list[int]] = {}
        completions: list[int] = []
        for sample in answered:
            line = sample.attempt
            if line.prompt_tokens is not None:
                prompts.setdefault((line.task, line.round), []).append(line.prompt_tokens)
            if line.completion_tokens is not None:
                completions.append(line.completion_tokens)
        self._prompts = {place: round(fmean(values)) for place, values in prompts.items()}
        self._completion = round(fmean(completions)) if completions else None

    def of(self, call: Call) -> tuple[int, int]:
        """Prompt and completion tokens to expect of a call; its worst case where nothing is known yet."""
        prompt = self._prompts.get((call.task, call.round))
        if prompt is not None and self._completion is not None:
            return prompt, self._completion
        limit = output_limit(call)
        return worst_case(call) - limit, limit


async def book_the_dead(
    past: Past, calls: Iterator[Call], books: Books, settle: Callable[[Call, Attempt], Awaitable[None]]
) -> bool:
    """Book what earlier starts could not; True where there was something.

    An attempt that was on the wire is booked with an estimate: the server may have billed it, and nobody
    heard how much, unless the server still tells `settle`.
    """
    for sample in past.unbooked:
        await books.book(sample.attempt, None)
    known = {call.call_id: call for call in calls} if past.in_flight else {}
    lost = lost_attempts(past, known)
    # What a later round asked is not known any more, so nor is what its prompt had of what was used.
    plain = [attempt for attempt in lost if (attempt.round or 1) == 1]
    await asyncio.gather(*(settle(known[attempt.call_id or ""], attempt) for attempt in plain))
    for attempt in lost:
        await books.book(attempt, None)
    return bool(past.unbooked or lost)


def lost_attempts(past: Past, calls: Mapping[str, Call]) -> list[Attempt]:
    """The ledger lines of attempts that were sent and never came back."""
    tokens = CallTokens(past.answers.values())
    return [
        _lost(calls[event.call_id], event, *tokens.of(calls[event.call_id]))
        for event in past.in_flight
        if event.call_id in calls
    ]


def _lost(call: Call, event: ev.CallSent, prompt: int, completion: int) -> Attempt:
    return Attempt(
        **labels(call),
        model=call.model,
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        timestamp=event.at,
        attempt=event.attempt,
        status="cancelled",
        error_class="process_died",
        error_message="the start ended while this attempt was on the wire",
        usage_source="estimated",
        billed="unknown",
        seed=call.seed if call.protocol == "chat" else None,
    )
