"""Token counts normalised from any provider's shape, and the running usage of a stream.

`prompt_tokens` holds ALL input (cache reads and writes included) and `completion_tokens` ALL output
(reasoning included). None means unknown, never 0. Two families of reports exist: *inclusive* ones (OpenAI and
most others), whose input count already holds the cached part, and *additive* ones (Anthropic), whose input,
cache read and cache creation are disjoint. Which one a report is, is told by its fields, not by the host.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

UsageSource = Literal["server", "local-tokenizer", "estimated", "none"]
CacheSemantics = Literal["auto", "additive", "inclusive"]
Raw = dict[str, Any]

ADDITIVE_FIELDS = ("cache_read_input_tokens", "cache_creation_input_tokens")

# Where each part may stand, in order of preference: a path of keys into the raw object.
CACHED_PATHS: tuple[tuple[str, ...], ...] = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("cache_read_input_tokens",),
    ("prompt_cache_hit_tokens",),
    ("cached_tokens",),
)
CACHE_WRITE_PATHS: tuple[tuple[str, ...], ...] = (
    ("cache_creation_input_tokens",),
    ("prompt_tokens_details", "cache_write_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    ("prompt_tokens_details", "cached_creation_tokens"),
    ("cache_write_tokens",),
)
# A split by lifetime: its sum counts where it is larger than the undivided field.
CACHE_WRITE_SPLITS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("cache_creation", "ephemeral_5m_input_tokens"), ("cache_creation", "ephemeral_1h_input_tokens")),
    (("claude_cache_creation_5_m_tokens",), ("claude_cache_creation_1_h_tokens",)),
)
REASONING_PATHS: tuple[tuple[str, ...], ...] = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "thinking_tokens"),
    ("reasoning_tokens",),
)
# The name native to each protocol first: it wins unless it is 0 or missing.
PROMPT_NAMES = {
    "chat": ("prompt_tokens", "input_tokens"),
    "responses": ("input_tokens", "prompt_tokens"),
    "messages": ("input_tokens", "prompt_tokens"),
}
COMPLETION_NAMES = {
    "chat": ("completion_tokens", "output_tokens"),
    "responses": ("output_tokens", "completion_tokens"),
    "messages": ("output_tokens", "completion_tokens"),
}


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Normalised counts in tokens; None where a count is not known.

    `unattributed_tokens`: what the server's own total, or work outside the answer (compaction), holds beyond
    prompt and completion. `final` is true where the count covers the whole answer. `raw` is the report as it
    came.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    unattributed_tokens: int | None = None
    source: UsageSource = "none"
    final: bool = False
    flags: tuple[str, ...] = ()
    raw: Any = None

    @property
    def total(self) -> int | None:
        """Prompt + completion, computed; None where either is unknown."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.prompt_tokens + self.completion_tokens

    @property
    def uncached_prompt_tokens(self) -> int | None:
        """Prompt without cache reads and writes; None where the prompt is unknown."""
        if self.prompt_tokens is None:
            return None
        return max(0, self.prompt_tokens - (self.cached_tokens or 0) - (self.cache_write_tokens or 0))


NO_USAGE = Usage()


class _Reader:
    """Reads counts out of a raw report and remembers what was wrong with them."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.flags: list[str] = []

    def flag(self, name: str) -> None:
        if name not in self.flags:
            self.flags.append(name)

    def at(self, path: tuple[str, ...]) -> int | None:
        value: Any = self.raw
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        if value is None:
            return None
        count = token_count(value)
        if count is None:
            self.flag("usage_malformed")
        return count

    def first(self, paths: tuple[tuple[str, ...], ...]) -> int | None:
        """The first positive count; else 0 where any path says 0; else None."""
        zero = None
        for path in paths:
            if path[0] not in self.raw:
                continue
            count = self.at(path)
            if count:
                return count
            if count == 0:
                zero = 0
        return zero

    def named(self, names: tuple[str, str]) -> int | None:
        """Both names may be present: the native one wins unless it is 0 or missing and the other is not."""
        native, other = self.at((names[0],)), self.at((names[1],))
        if native and other and native != other:
            self.flag("usage_conflict")
        return native or other if native or other else (native if native is not None else other)


def token_count(value: Any) -> int | None:
    """A count from an int, an integral float or a digit string; None for NaN, negatives, booleans."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value >= 0 and value.is_integer() else None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return None


def normalise(
    raw: Raw | None,
    protocol: str,
    *,
    semantics: CacheSemantics = "auto",
    final: bool = True,
    has_content: bool = False,
) -> Usage:
    """The counts of one raw usage report.

    `has_content` says that the answer holds text or a tool call: a report of zeros beside it is not a count
    (flag `zero_usage_with_content`, source `none`), so that the caller can count or estimate instead.
    """
    if not isinstance(raw, dict) or not raw:
        return Usage(raw=raw)
    if "timings" in raw and len(raw) == 1:
        return _from_timings(raw, final)
    read = _Reader(raw)
    prompt = read.named(PROMPT_NAMES[protocol])
    completion = read.named(COMPLETION_NAMES[protocol])
    cached = read.first(CACHED_PATHS)
    cache_write = _cache_write(read)
    if is_additive(raw, semantics) and prompt is not None:
        prompt += (cached or 0) + (cache_write or 0)
        if semantics == "auto" and cached:
            read.flag("cache_semantics_unverified")
    if prompt is None and completion is None:
        return Usage(flags=tuple(read.flags), raw=raw)
    if has_content and not prompt and not completion:
        read.flag("zero_usage_with_content")
        return Usage(flags=tuple(read.flags), raw=raw)
    reasoning = read.first(REASONING_PATHS)
    completion, unattributed = _reconcile(read, prompt, completion, reasoning)
    if cached is not None and prompt is not None and cached > prompt:
        read.flag("cache_gt_prompt")
    outside = _outside_tokens(raw)
    if outside:
        read.flag("compaction_outside_counts")
        unattributed = (unattributed or 0) + outside
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        cache_write_tokens=cache_write,
        reasoning_tokens=reasoning,
        unattributed_tokens=unattributed,
        source="server",
        final=final,
        flags=tuple(read.flags),
        raw=raw,
    )


def is_additive(raw: Raw, semantics: CacheSemantics = "auto") -> bool:
    """True where input, cache read and cache creation are disjoint parts of the prompt.

    Told by the fields: `cache_*_input_tokens` at the top without `prompt_tokens` and without `*_details`.
    """
    if semantics != "auto":
        return semantics == "additive"
    if not any(field in raw for field in ADDITIVE_FIELDS):
        return False
    inclusive = ("prompt_tokens", "prompt_tokens_details", "input_tokens_details")
    return not any(raw.get(field) for field in inclusive)


def _cache_write(read: _Reader) -> int | None:
    whole = read.first(CACHE_WRITE_PATHS)
    for split in CACHE_WRITE_SPLITS:
        if split[0][0] not in read.raw and split[1][0] not in read.raw:
            continue
        parts = [part for path in split if (part := read.at(path)) is not None]
        if parts:
            whole = max(whole or 0, sum(parts))
    return whole


def _reconcile(
    read: _Reader, prompt: int | None, completion: int | None, reasoning: int | None
) -> tuple[int | None, int | None]:
    """Completion and unattributed tokens after comparison with the server's own total."""
    stated = read.at(("total_tokens",))
    if stated is None or prompt is None or completion is None:
        return completion, None
    computed = prompt + completion
    if stated == computed:
        return completion, None
    if reasoning and computed + reasoning == stated:
        read.flag("reasoning_outside_completion")
        return completion + reasoning, None
    read.flag("total_mismatch")
    return completion, stated - computed if stated > computed else None


def _outside_tokens(raw: Raw) -> int:
    """Tokens of `iterations` of type compaction: billed, but not in the top-level counts."""
    iterations = raw.get("iterations")
    if not isinstance(iterations, list):
        return 0
    parts = (*ADDITIVE_FIELDS, "input_tokens", "output_tokens")
    return sum(
        token_count(step.get(part)) or 0
        for step in iterations
        if isinstance(step, dict) and step.get("type") == "compaction"
        for part in parts
    )


def _from_timings(raw: Raw, final: bool) -> Usage:
    """llama.cpp without `usage`: `prompt_n` are the newly processed tokens, `cache_n` the reused ones."""
    timings = raw["timings"]
    read = _Reader(timings if isinstance(timings, dict) else {})
    fresh, reused, completion = read.at(("prompt_n",)), read.at(("cache_n",)), read.at(("predicted_n",))
    if fresh is None and completion is None:
        return Usage(flags=tuple(read.flags), raw=raw)
    return Usage(
        prompt_tokens=None if fresh is None else fresh + (reused or 0),
        completion_tokens=completion,
        cached_tokens=reused,
        source="server",
        final=final,
        flags=(*read.flags, "usage_from_timings"),
        raw=raw,
    )


# -- streams -------------------------------------------------------------------------------------------------


class StreamUsage:
    """The usage of one stream, merged from its events; `raw` is None until a report came.

    Reports are running totals: they replace one another and are never summed.
    """

    __slots__ = ("flags", "protocol", "raw")

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.raw: dict[str, Any] | None = None
        self.flags: list[str] = []

    def feed(self, report: Any) -> None:
        """Take one report; null, an empty object and other types change nothing."""
        if not isinstance(report, dict) or not report:
            return
        if self.raw is None:
            self.raw = dict(report)
        elif self.protocol == "messages":
            self.raw = merge_messages(self.raw, report)
        elif _weight(report) < _weight(self.raw):
            if "usage_shrank" not in self.flags:
                self.flags.append("usage_shrank")
        else:
            self.raw = dict(report)


def _weight(report: Raw) -> int:
    names = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
    return sum(token_count(report.get(name)) or 0 for name in names)


def merge_messages(held: Raw, delta: Raw) -> dict[str, Any]:
    """`message_delta.usage` into what `message_start` gave; 0 and null never erase a positive count.

    A positive, different `input_tokens` replaces the input block (itself and the cache fields that come with
    it, zeros included); otherwise only positive cache fields are taken. Output counts are cumulative: the
    larger holds.
    """
    merged = dict(held)
    fresh = token_count(delta.get("input_tokens"))
    new_block = bool(fresh) and fresh != token_count(held.get("input_tokens"))
    for name, value in delta.items():
        count = token_count(value)
        if name == "output_tokens":
            merged[name] = max(count or 0, token_count(held.get(name)) or 0)
        elif name == "input_tokens" or name in ADDITIVE_FIELDS:
            if count or (new_block and count is not None):
                merged[name] = value
        elif value not in (None, 0):
            merged[name] = value
    return merged
