"""From what came over the wire to the attempt that the ledger writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from elometer.core.attempt import Attempt, Call, Status, labels, text_sha
from elometer.core.clock import timestamp
from elometer.core.text import gettext as _
from elometer.core.usage import NO_USAGE, Usage, normalise
from elometer.wire.classes import Billed
from elometer.wire.exchange import Outcome
from elometer.wire.failures import Failure
from elometer.wire.protocols.reply import Parsed

GatewayCache = Literal["none", "hit", "suspected"]

REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-oneapi-request-id", "x-litellm-call-id", "cf-ray")
CACHE_HEADERS = (
    "cf-aig-cache-status",
    "x-portkey-cache-status",
    "helicone-cache",
    "x-cache",
    "x-cache-status",
)
_HIT = re.compile(r"(?<![a-z])hit(?![a-z])", re.IGNORECASE)

# Failures after which the model may have worked: the prompt is estimated.
MAY_HAVE_RUN = frozenset(
    ("timeout_upstream", "net_timeout_read", "net_reset", "stream_truncated", "stream_error")
)

STATUS_OF_FINISH: dict[str, Status] = {
    "stop": "ok",
    "tool": "ok",
    "unknown": "ok",
    "length": "incomplete",
    "paused": "incomplete",
    "filter": "filtered",
    "refusal": "refused",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """What of an attempt was known before the reply."""

    number: int
    started: datetime
    queue_s: float
    prompt_bytes: int
    prompt_sha: str
    seed_sent: bool


class TokenRatio:
    """Estimates of one model's tokens, from the ratios that the server's own counts showed.

    Prompts by bytes (their template's overhead makes them a class of their own), answers by chunks where
    streams were seen (a chunk is a token on most servers), else by bytes; a quarter token a byte until a
    count was seen. The ledger marks every number that rests on this.
    """

    __slots__ = ("_answer_bytes", "_answer_chunks", "_prompt_bytes")

    def __init__(self) -> None:
        self._prompt_bytes = _Ratio()
        self._answer_bytes = _Ratio()
        self._answer_chunks = _Ratio()

    def learn(self, prompt_bytes: int, parsed: Parsed, usage: Usage) -> None:
        """Take the server's counts of one whole reply."""
        self._prompt_bytes.learn(prompt_bytes, usage.prompt_tokens)
        visible = (usage.completion_tokens or 0) - (usage.reasoning_tokens or 0)
        self._answer_bytes.learn(len(parsed.text.encode()), visible)
        self._answer_chunks.learn(parsed.chunks, visible)

    def prompt(self, size: int) -> int:
        """Tokens of a prompt of `size` bytes."""
        return self._prompt_bytes.estimate(size) or _plain_estimate(size)

    def answer(self, size: int, chunks: int) -> int:
        """Tokens of an answer of `size` bytes that came in `chunks` pieces (0 where it came whole)."""
        return (
            self._answer_chunks.estimate(chunks)
            or self._answer_bytes.estimate(size)
            or max(chunks, _plain_estimate(size))
        )


class _Ratio:
    """Tokens per unit, as the ratio of sums."""

    __slots__ = ("tokens", "units")

    def __init__(self) -> None:
        self.units = self.tokens = 0

    def learn(self, units: int, tokens: int | None) -> None:
        if units > 0 and tokens is not None and tokens > 0:
            self.units += units
            self.tokens += tokens

    def estimate(self, units: int) -> int:
        """Rounded up; 0 where nothing was learnt."""
        return -(-units * self.tokens // self.units) if self.units else 0


def _plain_estimate(size: int) -> int:
    return -(-size // 4)


class ReplyMemory:
    """Recognises a reply that another call already had: the mark of a gateway's cache without headers.

    Same id, creation time and text; gateways with constant ids exist, so the id alone says nothing. Holds
    hashes of the last replies only, some 100 bytes each.
    """

    SIZE = 20_000

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def repeated(self, call_id: str, parsed: Parsed, answer_sha: str) -> bool:
        """True where a different call had the same reply; remembers this one."""
        if not parsed.response_id:
            return False
        caller = hash(call_id)
        first = self._seen.setdefault(hash((parsed.response_id, parsed.created, answer_sha)), caller)
        if len(self._seen) > self.SIZE:
            del self._seen[next(iter(self._seen))]
        return first != caller


def status_of(parsed: Parsed) -> Status:
    """The status of a reply that came whole."""
    status = STATUS_OF_FINISH.get(parsed.finish_class, "ok")
    return "empty" if status == "ok" and not parsed.text and not parsed.has_tool_call else status


def usage_of(call: Call, sent: Sent, outcome: Outcome, ratio: TokenRatio) -> Usage:
    """Server counts where there are any, else estimates where the model (may have) worked, else nothing."""
    parsed = outcome.parsed
    whole = outcome.whole
    if parsed is not None and parsed.usage is not None:
        usage = normalise(parsed.usage, call.protocol, final=whole, has_content=parsed.has_content)
        if usage.source == "server":
            return usage
    else:
        usage = NO_USAGE
    failed = outcome.failure.error_class if outcome.failure else None
    if not (
        whole or outcome.cancelled or failed in MAY_HAVE_RUN or (parsed is not None and parsed.has_content)
    ):
        return usage
    if failed == "net_reset" and outcome.http_status is None:
        return usage  # cut before any reply: nothing is known
    answered = parsed is not None and (whole or parsed.has_content)
    size = len(parsed.text.encode()) if parsed is not None else 0
    return Usage(
        prompt_tokens=ratio.prompt(sent.prompt_bytes),
        completion_tokens=ratio.answer(size, parsed.chunks) if answered and parsed is not None else None,
        source="estimated",
        final=False,
        flags=usage.flags,
        raw=usage.raw,
    )


def cache_of(headers: Mapping[str, str], *, repeated: bool) -> GatewayCache:
    """`hit` where a header says so, `suspected` where another call had the same reply."""
    for name in CACHE_HEADERS:
        if name in headers and _HIT.search(headers[name]):
            return "hit"
    age = headers.get("age", "")
    if age.isdigit() and int(age) > 0:
        return "hit"
    return "suspected" if repeated else "none"


def billed_of(outcome: Outcome, status: Status, cache: GatewayCache) -> Billed:
    """Whether the attempt is billed, as far as one can know."""
    if cache == "hit":
        return "no"
    if cache == "suspected" or status == "cancelled":
        return "unknown"
    if outcome.failure is not None:
        parsed = outcome.parsed
        return "unknown" if parsed is not None and parsed.has_content else outcome.failure.billed
    if status == "refused" and outcome.parsed is not None and not outcome.parsed.text:
        return "unknown"
    return "yes"


def flags_of(call: Call, parsed: Parsed | None, usage: Usage, outcome: Outcome) -> list[str]:
    """What is odd about the counts or the stream, as short names."""
    flags = [*usage.flags, *(parsed.usage_flags if parsed else ()), *outcome.flags]
    asked = call.params.get("max_tokens") or call.params.get("max_completion_tokens")
    if (
        parsed is not None
        and isinstance(asked, int)
        and usage.source == "server"
        and (usage.completion_tokens or 0) >= asked
        and parsed.finish_class == "stop"
    ):
        # Relays report a clean end after a cut (LiteLLM 1.108.5 on messages).
        flags.append("suspected_truncation")
    return flags


def reset_words(failure: Failure, started: datetime) -> str:
    """The failure's message with the moment at which the server said that it will answer again."""
    if failure.retry_after_s is None:
        return failure.message
    until = timestamp(started + timedelta(seconds=failure.retry_after_s))
    return _("{message} (asked to wait {seconds:.0f} s, until {until})").format(
        message=failure.message or failure.error_class, seconds=failure.retry_after_s, until=until
    )


def build_attempt(
    call: Call, sent: Sent, outcome: Outcome, ratio: TokenRatio, memory: ReplyMemory
) -> tuple[Attempt, str]:
    """The ledger line of one attempt and its (possibly partial) text."""
    parsed, failure = outcome.parsed, outcome.failure
    text = parsed.text if parsed is not None else ""
    usage = usage_of(call, sent, outcome, ratio)
    if outcome.cancelled and not outcome.whole:
        status: Status = "cancelled"
    elif failure is not None or parsed is None:
        status = "error"
    else:
        status = status_of(parsed)
    answered = status not in ("error", "cancelled")
    answer_sha = text_sha(text) if text else None
    repeated = answered and parsed is not None and memory.repeated(call.call_id, parsed, answer_sha or "")
    cache = cache_of(outcome.headers, repeated=repeated)
    if parsed is not None and usage.source == "server" and usage.final:
        ratio.learn(sent.prompt_bytes, parsed, usage)
    attempt = Attempt(
        **labels(call),
        model=(parsed.model if parsed is not None else None) or call.model,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total,
        timestamp=timestamp(sent.started),
        attempt=sent.number,
        final=answered,
        status=status,
        http_status=outcome.http_status,
        finish_reason=parsed.finish_reason if parsed is not None else None,
        finish_class=parsed.finish_class if parsed is not None and answered else None,
        error_class=failure.error_class if failure is not None else None,
        error_code=failure.code if failure is not None else None,
        error_message=reset_words(failure, sent.started) if failure is not None else None,
        retry_after_s=failure.retry_after_s if failure is not None else None,
        cached_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        unattributed_tokens=usage.unattributed_tokens,
        usage_source=usage.source,
        usage_final=usage.final,
        usage_flags=flags_of(call, parsed, usage, outcome),
        raw_usage=usage.raw,
        gateway_cache=cache,
        billed=billed_of(outcome, status, cache),
        request_id=next(
            (outcome.headers[name] for name in REQUEST_ID_HEADERS if name in outcome.headers), None
        ),
        response_id=parsed.response_id if parsed is not None else None,
        queue_ms=milliseconds(sent.queue_s),
        ttft_ms=milliseconds(outcome.ttft_s),
        latency_ms=milliseconds(outcome.latency_s),
        seed=call.seed if sent.seed_sent else None,
        temperature=_number(call.params.get("temperature")),
        prompt_sha=sent.prompt_sha,
        answer_sha=answer_sha,
    )
    return attempt, text


def milliseconds(seconds: float | None) -> float | None:
    """Seconds as milliseconds with three decimals."""
    return None if seconds is None else round(seconds * 1000.0, 3)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
