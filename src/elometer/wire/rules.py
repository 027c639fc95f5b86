"""How a reply's signs name its error class: one table, the first row that matches wins.

Codes beat words, words beat the status. Words are searched in the error's own message only, never in echoed
input, and never digits in free text. The order is that of the table; rows that would catch a neighbour's
words say so in `unless`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from elometer.wire.signs import Signs

RATE_WORDS = re.compile(
    r"per[ -]?min|/min|per[ -]?second|rate.?limit|too many requests|retry (?:after|in)"
    r"|try again in \d|限流|频率",
    re.I,
)
_DAILY_WORDS = re.compile(r"per[ -]?day|daily|/day", re.I)
_EMPTY_MODEL = re.compile(r"对于模型\s*无可用渠道|for model\s+under group", re.I)


@dataclass(frozen=True, slots=True)
class Rule:
    """Matches where the status fits and a code, the words or the test do; with none of those, the status."""

    error_class: str
    codes: frozenset[str] = frozenset()
    code_pattern: re.Pattern[str] | None = None
    words: re.Pattern[str] | None = None
    test: Callable[[Signs], str] | None = None
    statuses: frozenset[int | None] | None = None
    not_statuses: frozenset[int | None] = frozenset()
    unless: re.Pattern[str] | None = None

    def decide(self, signs: Signs) -> str:
        """The evidence by which this row matches, or `""`."""
        if signs.status in self.not_statuses:
            return ""
        if self.statuses is not None and signs.status not in self.statuses:
            return ""
        if self.unless is not None and self.unless.search(signs.message):
            return ""
        for code in signs.codes:
            if code in self.codes or (self.code_pattern is not None and self.code_pattern.search(code)):
                return f"code {code}"
        if self.words is not None and (found := self.words.search(signs.message)):
            return f"words {found[0][:60]!r}"
        if self.test is not None and (evidence := self.test(signs)):
            return evidence
        nothing_asked = (
            not self.codes and self.code_pattern is None and self.words is None and self.test is None
        )
        return f"status {signs.status}" if nothing_asked else ""


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


def _html(*statuses: int, page: str = "") -> Callable[[Signs], str]:
    def test(signs: Signs) -> str:
        if not signs.is_html or (statuses and signs.http_status not in statuses):
            return ""
        if page and not re.search(page, signs.title, re.IGNORECASE):
            return ""
        return f"HTML page {signs.title[:60]!r}" if signs.title else "HTML page"

    return test


def _edge_block(signs: Signs) -> str:
    if signs.headers.get("cf-mitigated") == "challenge":
        return "header cf-mitigated"
    return _html(403)(signs) or _html(page=r"just a moment|attention required|access denied")(signs)


def _html_server_failure(signs: Signs) -> str:
    return _html()(signs) if (signs.http_status or 0) >= 500 else ""


def _in_flight_budget(signs: Signs) -> str:
    """OpenRouter answers 402 with Retry-After where only the sum of running requests exceeds the credit."""
    source = str(signs.metadata.get("limit_source", "")).lower()
    return f"limit_source {source}" if "flight" in source and "retry-after" in signs.headers else ""


def _payment_required(signs: Signs) -> str:
    return "status 402" if signs.status == 402 and not _in_flight_budget(signs) else ""


def _quota_words(signs: Signs) -> str:
    """On 429 the words of a quota also stand in messages about rates; a daily pool is a quota though."""
    found = _QUOTA_WORDS.search(signs.message)
    if not found or any("perminute" in name.lower() for name in signs.quota_ids):
        return ""
    if signs.status == 429 and RATE_WORDS.search(signs.message) and not _DAILY_WORDS.search(signs.message):
        return ""
    return f"words {found[0]!r}"


def _daily_pool(signs: Signs) -> str:
    for name in signs.quota_ids:
        if "perday" in name.lower():
            return f"quotaId {name}"
    source = str(signs.metadata.get("limit_source", "")).lower()
    return f"limit_source {source}" if "daily" in source or "free" in source else ""


def _lost_path(signs: Signs) -> str:
    if signs.http_status not in (404, 405):
        return ""
    if signs.is_empty:
        return f"status {signs.http_status}, empty body"
    found = _PATH_WORDS.search(signs.message)
    return f"words {found[0]!r}" if found else ""


def _redirect(signs: Signs) -> str:
    if signs.http_status is not None and 300 <= signs.http_status < 400:
        return f"status {signs.http_status} to {signs.headers.get('location', '?')[:120]}"
    return ""


def _limit_header(kind: str) -> Callable[[Signs], str]:
    def test(signs: Signs) -> str:
        return f"header rate_limit_type: {kind}" if signs.headers.get("rate_limit_type") == kind else ""

    return test


def _left_header(kind: str, signs: Signs) -> str:
    """The header that says that nothing of a kind is left."""
    names = (
        f"x-ratelimit-remaining-{kind}",
        f"anthropic-ratelimit-{kind}-remaining",
        f"anthropic-ratelimit-input-{kind}-remaining",
        f"anthropic-ratelimit-output-{kind}-remaining",
        f"llm_provider-x-ratelimit-remaining-{kind}",
    )
    return next((name for name in names if signs.headers.get(name) == "0"), "")


def _exhausted(kind: str, other: str) -> Callable[[Signs], str]:
    """Where headers call both kinds used up (aimock does so on every 429), they name neither."""
    by_header = _limit_header(kind)

    def test(signs: Signs) -> str:
        if found := by_header(signs):
            return found
        if kind in signs.codes:
            return f"type {kind}"
        name = _left_header(kind, signs)
        return f"header {name}: 0" if name and not _left_header(other, signs) else ""

    return test


def _any_server_status(signs: Signs) -> str:
    return f"status {signs.status}" if signs.status is not None and 500 <= signs.status <= 599 else ""


_QUOTA_WORDS = _words(
    r"credit balance|exceeded your current quota|budget has been exceeded|usage limit"
    r"|insufficient (?:account )?balance"
    r"|insufficient (?:user )?quota|per-?day|free-models-per-day|enforced spend limit"
    r"|额度已用尽|余额不足|欠费|额度不足"
)
_PATH_WORDS = _words(
    r"invalid url|not found|page not found|method not allowed|cannot (?:get|post)|no route|unknown url"
)

_RATE = frozenset((429, None))
_LOAD = frozenset((402, 403, 429, 500, 502, 503, 529, None))

RULES: tuple[Rule, ...] = (
    Rule("rate_limit", words=_words(r"error code: 1015\b"), statuses=frozenset((429, 403, 503))),
    Rule("html_edge_block", test=_edge_block),
    Rule("html_upstream", test=_html_server_failure),
    Rule("html_wrong_path", test=_html(200, 201, 202, 404, 405)),
    Rule("wrong_path", test=_redirect),
    Rule(
        "request_over_tpm",
        words=_words(r"request too large.{0,200}(?:tokens per min|TPM|limit \d+, requested \d+)"),
    ),
    Rule("request_over_tpm", codes=_codes("tokens"), statuses=frozenset((413,))),
    Rule(
        "quota",
        codes=_codes(
            "insufficient_quota credit_balance_exhausted organization_spend_limit_exceeded"
            " project_spend_limit_exceeded"
            " organization_usage_limit_exceeded billing_error billing_hard_limit_reached"
            " enforced_spend_limit_reached"
            " exceeded_current_quota_error arrearage billing_insufficient_balance insufficient_user_quota"
            " pre_consume_token_quota_failed budget_exceeded entitlement_daily_limit_exceeded"
            " insufficient_balance 1113"
        ),
        test=_payment_required,
    ),
    Rule(
        "model_not_allowed",
        code_pattern=re.compile(r"_model_access_denied$"),
        words=_words(
            r"not have access to (?:the )?model|no access to model|not allowed to access model|无权使用模型"
        ),
        unless=_words(r"does not exist"),
    ),
    Rule(
        "model_unknown",
        codes=_codes("model_not_found deploymentnotfound resource_not_found_error"),
        words=_words(
            r"(?:model|deployment|engine)\b.{0,120}does not exist|no available channel|无可用渠道"
            r"|not found, try pulling|invalid model name|no endpoints found|^model: \S+"
            r"|model .{1,80} not found"
        ),
        unless=_EMPTY_MODEL,
    ),
    Rule("bad_key", codes=_codes("api_key_invalid")),
    Rule("quota", test=_daily_pool),
    Rule("quota", test=_quota_words),
    Rule("wrong_path", codes=_codes("api_not_implemented unknown_url"), words=_EMPTY_MODEL, test=_lost_path),
    Rule(
        "key_expired",
        codes=_codes("expired_key key_expired token_expired"),
        words=_words(r"expired key|(?:key|token)\b.{0,40}\bexpired|已过期"),
        statuses=frozenset((400, 401, 403)),
    ),
    Rule(
        "key_disabled",
        codes=_codes("key_disabled key_blocked"),
        words=_words(
            r"key is (?:blocked|disabled)|(?:key|token) (?:has been|was) (?:disabled|revoked)|令牌状态不可用"
        ),
        statuses=frozenset((400, 401, 403, 500)),
    ),
    Rule(
        "region_blocked",
        codes=_codes("unsupported_country_region_territory"),
        words=_words(r"country, region|not (?:available|supported) in your (?:country|region|location)"),
        statuses=frozenset((400, 401, 403, 451)),
    ),
    Rule(
        "ip_not_allowed",
        codes=_codes("access_denied ip_not_authorized ip_not_allowed"),
        words=_words(r"网段|\bIP\b.{0,60}not (?:allowed|authorized|in)|your ip"),
        statuses=frozenset((401, 403)),
    ),
    Rule(
        "account_blocked",
        codes=_codes("account_deactivated account_blocked user_banned"),
        words=_words(
            r"封禁|account.{0,40}(?:blocked|suspended|deactivated|disabled|banned)|user.{0,20}banned"
        ),
        statuses=frozenset((401, 403)),
    ),
    Rule(
        "key_scope",
        codes=_codes("insufficient_permissions missing_scopes"),
        words=_words(r"missing scopes|insufficient permissions"),
    ),
    Rule("upstream_key", codes=_codes("channel:no_available_key channel:invalid_key")),
    Rule(
        "bad_key",
        codes=_codes(
            "invalid_api_key authentication_error token_not_found_in_db no_db_connection auth_error"
            " unauthenticated"
            " invalid_authentication_error unauthorized"
        ),
        not_statuses=frozenset((429, 403)),
    ),
    Rule("bad_key", statuses=frozenset((401,))),
    Rule(
        "context_too_long",
        codes=_codes(
            "context_length_exceeded exceed_context_size_error tokens_too_long string_above_max_length"
        ),
        words=_words(
            r"maximum context length|prompt is too long|exceeds the available context|range of input length"
            r"|exceeded model token limit|contextwindowexceeded"
            r"|exceeds? the (?:model'?s? )?context (?:window|length)"
        ),
        not_statuses=frozenset((429,)),
    ),
    Rule(
        "content_filtered",
        codes=_codes(
            "content_filter content_policy_violation sensitive_words_detected data_inspection_failed"
            " datainspectionfailed responsibleaipolicyviolation moderation_blocked"
        ),
        words=_words(
            r"content management policy|requires moderation|flagged for|blocked by .{0,20}guardrail"
        ),
        not_statuses=frozenset((429,)),
    ),
    Rule("concurrency_limit", test=_in_flight_budget),
    Rule(
        "concurrency_limit",
        codes=_codes("token_concurrency_limit_reached concurrency_limit_exceeded 1302"),
        words=_words(r"max_parallel|concurren|并发"),
        test=_limit_header("max_parallel_requests"),
        statuses=_LOAD,
    ),
    Rule(
        "overloaded",
        codes=_codes(
            "overloaded_error server_is_overloaded engine_overloaded_error unavailable unavailable_error"
            " 1305 overloaded"
        ),
        words=_words(r"overloaded|high demand|饱和|no deployments available"),
        statuses=_LOAD | {504},
    ),
    Rule("overloaded", statuses=frozenset((503, 529))),
    Rule(
        "tpm_limit",
        words=_words(r"tokens per.?min|\bTPM\b|limit type: tokens"),
        test=_exhausted("tokens", "requests"),
        statuses=_RATE,
    ),
    Rule(
        "rpm_limit",
        codes=_codes("throttling.ratequota limit_requests"),
        words=_words(r"requests? per.?min|\bRPM\b|limit type: requests|requests in \d+ (?:minute|second)"),
        test=_exhausted("requests", "tokens"),
        statuses=_RATE,
    ),
    Rule(
        "rate_limit",
        codes=_codes(
            "rate_limit_exceeded rate_limit_error rate_limit_reached_error throttling_error"
            " resource_exhausted slow_down"
            " too_many_requests throttling throttling.allocationquota"
        ),
        statuses=_RATE,
    ),
    Rule("rate_limit", statuses=frozenset((429,))),
    Rule("timeout_upstream", codes=_codes("timeout_error"), statuses=frozenset((None, 408, 504, 524))),
    Rule("timeout_upstream", statuses=frozenset((408, 504, 524))),
    Rule("request_too_large", codes=_codes("request_too_large")),
    Rule("request_too_large", statuses=frozenset((413,))),
    Rule("server_error", test=_any_server_status),
    Rule("key_scope", codes=_codes("permission_error"), statuses=frozenset((403,))),
    Rule("key_scope", statuses=frozenset((403,))),
    Rule("wrong_path", statuses=frozenset((404, 405))),
    Rule("bad_request", codes=_codes("invalid_request_error invalid_request badrequesterror")),
    Rule("bad_request", statuses=frozenset(range(400, 500))),
)
