"""A model call and its attempts: what wire is asked for, what it returns, what the ledger writes.

`Attempt` is a ledger line: its fields stand in the order in which the file holds them, the nine founding
fields first. Unknown numbers are None (`null`), never 0.
"""

from __future__ import annotations

import hashlib
from operator import attrgetter
from typing import Any, Literal

import msgspec

Protocol = Literal["chat", "responses", "messages"]
Phase = Literal["sample", "revise", "select", "compare", "grade", "probe", "canary"]
Status = Literal["ok", "incomplete", "refused", "filtered", "empty", "error", "cancelled"]

LEDGER_SCHEMA = 1
CHARGED_PHASES = ("sample", "revise", "select")


def text_sha(text: str | bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a text, as `prompt_sha` and `answer_sha` have it."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:16]


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: str
    content: str


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One logical model request, with the labels that its ledger lines carry.

    `max_tokens`, `temperature` and the like are in `params` under their Chat Completions names; each protocol
    renames or leaves out what it does not take. `seed` is what the experiment derived; the protocol decides
    whether it is sent.
    """

    call_id: str
    experiment_id: str
    run_id: str
    strategy: str | None
    task: str
    run: int
    phase: Phase
    model: str
    messages: tuple[Message, ...]
    protocol: Protocol = "chat"
    system: str | None = None
    params: dict[str, Any] = {}
    seed: int | None = None
    stream: bool = True
    sample: int | None = None
    round: int | None = None
    block: int | None = None
    position: int | None = None
    profile: str | None = None
    tool: str | None = None
    key_fp: str | None = None
    origin: str = "live"
    used_by: tuple[str, ...] | None = None
    use_share: tuple[float, ...] | None = None


class Attempt(msgspec.Struct, kw_only=True):
    """One HTTP try of a call, as one line of token_ledger.jsonl.

    `strategy` owns the call. Where several strategies rest on it, `used_by` names them all and `use_share`
    says what part of its tokens each is charged (null: the whole); both are null where only the owner does.
    """

    experiment_id: str
    strategy: str | None
    task: str
    run: int
    model: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    timestamp: str
    schema: int = LEDGER_SCHEMA
    run_id: str | None = None
    call_id: str | None = None
    attempt: int = 1
    final: bool = False
    phase: Phase = "sample"
    sample: int | None = None
    round: int | None = None
    block: int | None = None
    position: int | None = None
    profile: str | None = None
    tool: str | None = None
    key_fp: str | None = None
    origin: str = "live"
    import_key: str | None = None
    session_id: str | None = None
    model_requested: str | None = None
    status: Status = "ok"
    http_status: int | None = None
    finish_reason: str | None = None
    finish_class: str | None = None
    error_class: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    retry_after_s: float | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    unattributed_tokens: int | None = None
    usage_source: Literal["server", "local-tokenizer", "estimated", "none"] = "none"
    usage_final: bool = False
    usage_flags: list[str] = []
    raw_usage: Any = None
    gateway_cache: Literal["none", "hit", "suspected"] = "none"
    billed: Literal["yes", "no", "unknown"] = "unknown"
    request_id: str | None = None
    response_id: str | None = None
    stream: bool = False
    queue_ms: float | None = None
    ttft_ms: float | None = None
    latency_ms: float | None = None
    seed: int | None = None
    temperature: float | None = None
    prompt_sha: str | None = None
    answer_sha: str | None = None
    tokenizer: str | None = None  # who counted, where the reply itself brought no usage
    used_by: tuple[str, ...] | None = None
    use_share: tuple[float, ...] | None = None
    reserved_tokens: int | None = None  # what the key's account keeps, where no count tells what was used

    @property
    def spent_tokens(self) -> int:
        """What the attempt weighs in the key's account: its count, else what is kept for it."""
        return self.reserved_tokens or 0 if self.total_tokens is None else self.total_tokens


# What a call's ledger lines take over from it as it stands.
_LABELS = (
    *("experiment_id", "strategy", "task", "run", "run_id", "call_id", "phase", "sample", "round", "block"),
    *("position", "profile", "tool", "key_fp", "origin", "stream", "used_by", "use_share"),
)
_labels_of = attrgetter(*_LABELS)


def labels(call: Call) -> dict[str, Any]:
    """The fields of a call's ledger lines that name it and its place; `model_requested` is among them."""
    return {"model_requested": call.model, **dict(zip(_LABELS, _labels_of(call), strict=True))}


class Answer(msgspec.Struct, frozen=True):
    """What a call came to: the text of its last attempt and that attempt.

    `attempt.status` says whether the text may be used: `ok` and `incomplete` (cut by the token limit) are
    answers, `refused`, `filtered` and `empty` are answers of the model too; `error` and `cancelled` are not.
    """

    text: str
    attempt: Attempt

    @property
    def answered(self) -> bool:
        """True where the model answered, for better or worse."""
        return self.attempt.status not in ("error", "cancelled")
