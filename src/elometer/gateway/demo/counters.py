"""The gateway's own sums, against which a ledger can be compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class TokenSum:
    """Calls that the model worked on, and what they cost; `cut` ones ended because the client left."""

    calls: int = 0
    cut: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, prompt: int, completion: int, *, cut: bool) -> None:
        self.calls += 1
        self.cut += cut
        self.prompt_tokens += prompt
        self.completion_tokens += completion

    def row(self) -> dict[str, int]:
        return {
            "calls": self.calls,
            "cut": self.cut,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


@dataclass(slots=True)
class Counters:
    """All that happened since the gateway started. Keys appear by their number, never by their value."""

    statuses: Counter[int] = field(default_factory=Counter)
    everything: TokenSum = field(default_factory=TokenSum)
    models: dict[str, TokenSum] = field(default_factory=dict)
    keys: dict[str, TokenSum] = field(default_factory=dict)
    in_flight: int = 0
    peak_in_flight: int = 0

    def take_off(self) -> None:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def land(self) -> None:
        self.in_flight -= 1

    def add(self, key: str, model: str, prompt: int, completion: int, *, cut: bool) -> None:
        """Book what one call cost."""
        sums = (
            self.everything,
            self.models.setdefault(model, TokenSum()),
            self.keys.setdefault(key, TokenSum()),
        )
        for tokens in sums:
            tokens.add(prompt, completion, cut=cut)

    def snapshot(self) -> dict[str, object]:
        """The counters as a JSON object; `requests` counts calls to the three protocols, refused ones too."""
        return {
            "simulation": True,
            "requests": self.statuses.total(),
            "statuses": {str(status): number for status, number in sorted(self.statuses.items())},
            **self.everything.row(),
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "models": {name: tokens.row() for name, tokens in self.models.items()},
            "keys": {name: tokens.row() for name, tokens in self.keys.items()},
        }
