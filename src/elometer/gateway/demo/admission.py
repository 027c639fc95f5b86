"""What a make-believe key may do, enforced as a real gateway would: who, what, how much, how many at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from elometer.core.clock import timestamp
from elometer.core.limits import Boundary
from elometer.gateway.demo.counters import Counters
from elometer.gateway.demo.draws import uniforms
from elometer.gateway.demo.faults import MODELS, Behaviour
from elometer.gateway.demo.protocols.conversation import Refusal

RETRY_AFTER_MS = 200
REMEMBERED_REFUSALS = 10_000
Clock = Callable[[], datetime]


@dataclass(slots=True)
class Account:
    """The use of one key: calls in flight, and tokens spent on the day of the boundary's time zone."""

    name: str
    boundary: Boundary
    in_flight: int = 0
    day: date | None = None
    spent: int = 0

    def spent_on(self, day: date) -> int:
        """Tokens spent on a day; a new day begins at 0."""
        if day != self.day:
            self.day, self.spent = day, 0
        return self.spent


class Flight:
    """A call that holds one of its key's places until it lands; landing twice is landing once."""

    __slots__ = ("_account", "_counters", "_up")

    def __init__(self, account: Account, counters: Counters) -> None:
        self._account, self._counters, self._up = account, counters, True
        account.in_flight += 1
        counters.take_off()

    def land(self) -> None:
        """Free the place. Done before the last byte goes out, so that the next call never finds it taken."""
        if self._up:
            self._up = False
            self._account.in_flight -= 1
            self._counters.land()


class Admission:
    """Decides on each call in a fixed order: key, expiry, model, budget, concurrency, load."""

    def __init__(
        self,
        *,
        seed: int,
        keys: Mapping[str, Boundary],
        rate_429: float,
        behaviour: Behaviour,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._seed = seed
        self._accounts = {
            value: Account(f"key-{number}", boundary)
            for number, (value, boundary) in enumerate(keys.items(), start=1)
        }
        self._rate = rate_429 if behaviour.rate_429 is None else behaviour.rate_429
        self._behaviour = behaviour
        self._counters = counters
        self._clock = clock
        self._refused: OrderedDict[int, int] = OrderedDict()
        named = (model for boundary in keys.values() for model in boundary.allowed_models)
        self._catalogue = tuple(dict.fromkeys((*MODELS, *named)))

    def account(self, headers: Mapping[str, str], *, anthropic: bool) -> Account:
        """The account of a request's key; with two keys the one of the protocol's own header decides."""
        scheme, _separator, token = headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        own = headers.get("x-api-key", "").strip()
        value = (own or bearer) if anthropic else (bearer or own)
        if not value:
            raise _no_key()
        account = self._accounts.get(value)
        if account is None:
            raise _wrong_key(anthropic=anthropic)
        if self._behaviour.quota_as_401:
            raise _quota_as_401()
        expires = account.boundary.expires_at
        if expires is not None and self._clock() >= expires:
            raise _expired(expires)
        return account

    def models(self, account: Account) -> tuple[str, ...]:
        """The models that a key may use."""
        return account.boundary.allowed_models or self._catalogue

    def check_model(self, account: Account, model: str) -> None:
        """Refuse a model that the key may not use or that the gateway does not have."""
        allowed = account.boundary.allowed_models
        if allowed and model not in allowed:
            raise _not_allowed(model, allowed)
        if not allowed and model not in self._catalogue:
            raise _no_model(model)

    def take_off(self, account: Account, sample_seed: int) -> Flight:
        """Let a call pass the budget, the concurrency limit and the seeded load, or refuse it."""
        self._check_budget(account)
        limit = account.boundary.max_concurrency
        if limit is not None and account.in_flight >= limit:
            raise _too_many(limit)
        if self._rate and self._refuses(sample_seed):
            raise _busy()
        return Flight(account, self._counters)

    def spend(self, account: Account, model: str, prompt: int, completion: int, *, cut: bool) -> None:
        """Book what a call cost, on the account's day and in the counters."""
        account.spent_on(self._today(account))
        account.spent += prompt + completion
        self._counters.add(account.name, model, prompt, completion, cut=cut)

    def _check_budget(self, account: Account) -> None:
        budget = account.boundary.daily_budget_tokens
        if budget is None:
            return
        today = self._today(account)
        spent = account.spent_on(today)
        if spent >= budget:
            midnight = datetime.combine(today + timedelta(days=1), datetime.min.time(), _zone(account))
            raise _quota(spent, budget, midnight)

    def _today(self, account: Account) -> date:
        return self._clock().astimezone(_zone(account)).date()

    def _refuses(self, sample_seed: int) -> bool:
        """Whether this attempt meets a busy gateway: a function of sample seed and attempt.

        Only refused attempts are counted, and forgotten once one passes, so that a start which is killed and
        taken up again meets the same.
        """
        attempt = self._refused.pop(sample_seed, 0)
        if next(uniforms("busy", self._seed, sample_seed, attempt)) >= self._rate:
            return False
        self._refused[sample_seed] = attempt + 1
        if len(self._refused) > REMEMBERED_REFUSALS:
            self._refused.popitem(last=False)
        return True


def _zone(account: Account) -> ZoneInfo:
    return ZoneInfo(account.boundary.timezone)


def _no_key() -> Refusal:
    message = "No API key was given. Send it as 'Authorization: Bearer KEY' or in the header x-api-key."
    return Refusal(401, message, "invalid_request_error", anthropic_type="authentication_error")


def _wrong_key(*, anthropic: bool) -> Refusal:
    message = "invalid x-api-key" if anthropic else "Incorrect API key provided."
    return Refusal(
        401, message, "invalid_request_error", "invalid_api_key", anthropic_type="authentication_error"
    )


def _expired(expires: datetime) -> Refusal:
    message = f"This API key has expired: it was good until {timestamp(expires)}."
    return Refusal(401, message, "expired_key", "expired_key", anthropic_type="authentication_error")


def _quota_as_401() -> Refusal:
    # The words, type and status with which one-api answers for a key whose quota is used up.
    return Refusal(401, "该令牌额度已用尽", "one_api_error", "", anthropic_type="authentication_error")


def _not_allowed(model: str, allowed: tuple[str, ...]) -> Refusal:
    message = f"This key does not have access to model `{model}`. It may use: {', '.join(allowed)}."
    return Refusal(403, message, "invalid_request_error", "model_not_found", "model", "permission_error")


def _no_model(model: str) -> Refusal:
    message = f"The model `{model}` does not exist."
    return Refusal(404, message, "invalid_request_error", "model_not_found", "model", "not_found_error")


def _quota(spent: int, budget: int, resets: datetime) -> Refusal:
    message = (
        f"You exceeded your current quota: {spent} of {budget} tokens a day are used. "
        f"The budget begins anew at {timestamp(resets)}."
    )
    details = {"error_code": "enforced_spend_limit_reached"}
    return Refusal(
        429, message, "insufficient_quota", "insufficient_quota", None, "rate_limit_error", details
    )


def _too_many(limit: int) -> Refusal:
    message = f"Rate limit reached: this key's limit is {limit} concurrent requests."
    headers = (*_retry_headers(), ("rate_limit_type", "max_parallel_requests"))
    return Refusal(429, message, "requests", "rate_limit_exceeded", None, "rate_limit_error", headers=headers)


def _busy() -> Refusal:
    message = "Rate limit reached for requests per minute. Please try again shortly."
    return Refusal(
        429, message, "requests", "rate_limit_exceeded", None, "rate_limit_error", headers=_retry_headers()
    )


def _retry_headers() -> tuple[tuple[str, str], ...]:
    # Retry-After counts whole seconds (RFC 9110); the finer header is what several vendors send beside it.
    return (("retry-after", "1"), ("retry-after-ms", str(RETRY_AFTER_MS)))
