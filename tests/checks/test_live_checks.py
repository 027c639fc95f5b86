"""Live checks against the nine planted faults of the demo gateway and against bodies that real servers sent.

The bodies are those of LiteLLM 1.82.6 and 1.108.5, llama.cpp's server, one-api and new-api, as captured or
documented in November 2026; a small server answers with them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from tests.checks.conftest import KEY, MODEL, World

from elometer.checks.context import ExperimentFacts
from elometer.checks.engine import ask_all
from elometer.checks.live import COST_TOKENS, REPORT
from elometer.checks.live_answers import RAMP_CHECK
from elometer.checks.probing import bases
from elometer.core.limits import Boundary
from elometer.gateway.demo.faults import FAULTS, planted
from elometer.gateway.demo.faults import MODEL as DEMO_MODEL
from elometer.gateway.demo.server import create_app, serve_in_thread

Experiment = Callable[..., ExperimentFacts]


def complaints(world: World) -> dict[str, str]:
    """Rows that warn or fail, static and live."""
    rows = world.ask(live=True)
    return {name: row.status for name, row in rows.items() if row.status in ("warn", "fail")}


@contextmanager
def demo(*faults: str, prefix: str = "/api", rate_429: float = 0.0) -> Iterator[str]:
    bound = Boundary(allowed_models=(DEMO_MODEL,), max_concurrency=4)
    app = create_app(0, keys={KEY: bound}, latency=(0, 0), rate_429=rate_429, prefix=prefix, faults=faults)
    with serve_in_thread(app) as url:
        yield url


def test_a_clean_gateway_has_no_complaint_and_keeps_to_the_stated_cost(
    world: World, experiment: Experiment
) -> None:
    with demo() as url:
        experiment(base_url=url, models=(DEMO_MODEL,), boundary={"allowed_models": (DEMO_MODEL,)})
        rows = world.ask(live=True)
        assert {row.status for name, row in rows.items() if name.startswith("live.")} == {"pass"}
        assert complaints(world) == {}
        assert 0 < rows["live.reach"].result.tokens <= COST_TOKENS


# What each planted fault is called, and what else follows from it: a key that is refused leaves no answer.
NINE: dict[str, dict[str, str]] = {
    "two-auth-variables": {"key.one-variable": "warn"},
    "doubled-v1": {"url.version": "warn"},
    "missing-v1": {"url.live": "warn"},
    "model-out-of-scope": {"models.allowed": "fail", "live.models": "fail"},
    "429-storm": {"live.limits": "warn"},
    "small-fast-leak": {"models.leak": "warn"},
    "cached-replies": {"live.cache": "warn"},
    "stale-shell-variable": {"key.one-value": "warn", "live.key": "fail"},
    "quota-as-401": {"live.key": "fail"},
}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_planted_fault_is_named(world: World, experiment: Experiment, name: str) -> None:
    from elometer.profiles.model import Key

    variable = "ELOMETER_DEMO_KEY"
    with demo(name, rate_429=0.0) as root:
        plant = planted(FAULTS[name], root)
        world.environ[variable] = world.environ["RIGHT"] = KEY
        world.keys = (Key("demo", "env:RIGHT"),)
        for changed, value in dict(plant["environment"]).items():  # type: ignore[call-overload]
            world.environ[changed] = value.replace("{key}", KEY)
        experiment(
            base_url=plant["base_url"], models=(plant["model"],), boundary={"allowed_models": (DEMO_MODEL,)},
            key_source=f"env:{variable}", key_label="demo",
        )  # fmt: skip
        found = complaints(world)
    if name == "429-storm":
        # Six of ten are refused, whichever they are: a protocol that was refused for load may well be spoken.
        assert found == {"live.limits": "warn"}
    else:
        assert found == NINE[name]


def test_a_missing_prefix_is_found_by_trying_paths(world: World, experiment: Experiment) -> None:
    with demo(prefix="/api") as url:
        experiment(
            base_url=url.removesuffix("/api"),
            models=(DEMO_MODEL,),
            boundary={"allowed_models": (DEMO_MODEL,)},
        )
        row = world.ask(live=True)["live.path"]
    assert row.status == "fail"
    assert row.result.fix == f"Set base_url to {url}"
    assert any("404" in line or "/v1/models" in line for line in row.result.evidence)


def test_nobody_at_home(world: World, experiment: Experiment) -> None:
    experiment(base_url="http://127.0.0.1:9")
    rows = world.ask(live=True)
    assert rows["live.reach"].status == "fail"
    assert "net_refused" in rows["live.reach"].result.evidence[1]
    assert rows["live.key"].result.evidence == ("not asked: live.reach failed",)


def test_bases_begin_with_what_was_written() -> None:
    assert bases("https://g.example/api")[:2] == ["https://g.example/api/v1", "https://g.example/api"]
    assert bases("https://g.example/v1/v1")[:2] == ["https://g.example/v1/v1", "https://g.example/v1"]
    assert bases("g.example/api")[0] == "https://g.example/api/v1"
    assert len(bases("https://g.example/api")) <= 6


# A server that refuses every request with one reply.


class _Refusing(BaseHTTPRequestHandler):
    reply: ClassVar[tuple[int, str, dict[str, str]]] = (401, "", {})
    seen: ClassVar[list[str]] = []

    def _answer(self) -> None:
        status, body, headers = self.reply
        self.seen.append(self.path)
        self.rfile.read(int(self.headers.get("content-length") or 0))
        data = body.encode()
        self.send_response(status)
        kind = "text/html" if body.startswith("<") else "application/json"
        for name, value in {"content-type": kind, "content-length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: Any) -> None:
        return


@contextmanager
def refusing(
    status: int, body: object, headers: dict[str, str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    handler = type("Handler", (_Refusing,), {"reply": (status, text, headers or {}), "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler.seen  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


def error(
    message: str, kind: str | None = None, code: object = None, param: str | None = None
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


# status, body, headers → the check that must name it, and a word of its cause
BODIES: list[tuple[str, int, object, dict[str, str], str, str]] = [
    ("llama.cpp wrong key", 401, error("Invalid API Key", "authentication_error", 401), {}, "live.key", "does not accept"),
    ("LiteLLM wrong key", 401, error("Authentication Error, Invalid proxy server token passed.", "token_not_found_in_db", "401", "key"), {}, "live.key", "does not accept"),
    ("LiteLLM expired, 1.82", 400, error("Authentication Error - Expired Key. Key Expiry time x", "expired_key", "400"), {}, "live.key", "expired"),
    ("LiteLLM blocked", 401, error("Authentication Error, Key is blocked. Update via `/key/unblock` if you're an admin.", "auth_error", "401"), {}, "live.key", "disabled or blocked"),
    ("LiteLLM budget, 1.82", 400, error("Budget has been exceeded! Current cost: 0.02, Max budget: 0.01", "budget_exceeded", "400"), {}, "live.key", "used up"),
    ("LiteLLM budget, 1.108", 422, error("Budget has been exceeded! Key=k Current cost: 0.02", "budget_exceeded", "422"), {}, "live.key", "used up"),
    ("LiteLLM model, 1.82", 401, error("key not allowed to access model. This key can only access models=['a']", "key_model_access_denied", "401", "model"), {}, "live.models", "may not use"),
    ("LiteLLM model, 1.108", 403, error("The requested model 'm' is not available for this API key", "key_model_access_denied", "403", "model"), {}, "live.models", "may not use"),
    ("one-api bad key", 401, error("无效的令牌", "one_api_error"), {}, "live.key", "does not accept"),
    ("one-api expired", 401, error("该令牌已过期", "one_api_error"), {}, "live.key", "expired"),
    ("one-api quota as 401", 401, error("该令牌额度已用尽", "one_api_error"), {}, "live.key", "used up"),
    ("one-api disabled", 401, error("该令牌状态不可用", "one_api_error"), {}, "live.key", "disabled"),
    ("one-api model", 403, error("该令牌无权使用模型: m", "one_api_error"), {}, "live.models", "may not use"),
    ("one-api address", 403, error("只能在指定网段使用", "one_api_error"), {}, "live.key", "address"),
    ("new-api model unknown", 503, error("No available channel for model m under group g (distributor)", "new_api_error", "model_not_found"), {}, "live.models", "does not know"),
    ("OpenAI scope", 401, error("You have insufficient permissions. Missing scopes: model.request", "invalid_request_error"), {}, "live.key", "permission"),
    ("OpenAI quota", 429, error("You exceeded your current quota", "insufficient_quota", "credit_balance_exhausted"), {}, "live.key", "used up"),
    ("OpenAI rate", 429, error("Rate limit reached for requests", "requests", "rate_limit_exceeded"), {"retry-after": "1"}, "live.limits", "requests per minute"),
    ("LiteLLM parallel", 429, error("Rate limit exceeded. Limit type: max_parallel_requests. Current limit: 1", "None", "429"), {"retry-after": "60", "rate_limit_type": "max_parallel_requests"}, "live.limits", "too many calls at once"),
    ("LiteLLM tokens", 429, error("Rate limit exceeded. Limit type: tokens. Current limit: 30", "None", "429"), {"rate_limit_type": "tokens"}, "live.limits", "tokens per minute"),
    ("overloaded", 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, {}, "live.limits", "overloaded"),
    ("wrong path", 404, {"detail": "Not Found"}, {}, "live.path", "None of the usual paths"),
    ("HTML page", 404, "<html><title>404 Not Found</title></html>", {}, "live.path", "None of the usual paths"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "headers", "check", "words"),
    [row[1:] for row in BODIES],
    ids=[row[0] for row in BODIES],
)
def test_a_real_refusal_is_named_and_nothing_else(
    world: World,
    experiment: Experiment,
    status: int,
    body: object,
    headers: dict[str, str],
    check: str,
    words: str,
) -> None:
    with refusing(status, body, headers) as (url, seen):
        experiment(base_url=url)
        rows = world.ask(live=True)
    named = {name for name, row in rows.items() if row.status in ("warn", "fail")}
    assert named == {check}
    assert words in rows[check].result.cause
    assert rows[check].result.fix
    assert len(seen) <= 26


def test_the_report_is_made_once(world: World, experiment: Experiment) -> None:
    with refusing(401, error("Invalid API Key", "authentication_error", 401)) as (url, seen):
        experiment(base_url=url)
        world.ask(live=True)
        first = len(seen)
        world.ask(live=True)
    # List and first protocol, each with both headers; then the key is known to be what is refused.
    assert first == 4
    assert len(seen) == 2 * first


def test_a_dated_name_is_offered_for_served_as(world: World, experiment: Experiment) -> None:
    whole = {
        "id": "x", "object": "chat.completion", "created": 1, "model": "agent-model-2026-11-01",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8},
    }  # fmt: skip
    with refusing(200, whole) as (url, _seen):
        facts = experiment(base_url=url)
        row = world.ask(live=True)["live.served"]
        assert row.status == "warn"
        assert "served_as: {agent-model: [agent-model-2026-11-01]}" in row.result.fix
        world.experiment = replace(facts, served_as={MODEL: ("agent-model-2026-11-01",)})
        assert world.ask(live=True)["live.served"].status == "pass"


def test_nothing_is_asked_without_a_target(world: World) -> None:
    rows = world.ask(live=True)
    assert {row.status for name, row in rows.items() if name.startswith("live.")} == {"unknown"}
    assert world.context().recall(REPORT) is None


@pytest.mark.parametrize(
    ("places", "cap", "fix"), [(3, 8, "Set max_concurrency to 2"), (8, 8, ""), (3, 3, "")]
)
def test_the_ramp_finds_how_many_calls_at_once_the_key_may_make(
    world: World, experiment: Experiment, places: int, cap: int, fix: str
) -> None:
    bound = Boundary(allowed_models=(DEMO_MODEL,), max_concurrency=places)
    app = create_app(0, keys={KEY: bound}, latency=(0.05, 0.05), rate_429=0)
    with serve_in_thread(app) as url:
        experiment(
            base_url=url,
            models=(DEMO_MODEL,),
            boundary={"allowed_models": (DEMO_MODEL,), "max_concurrency": cap},
        )
        (row,) = ask_all((RAMP_CHECK,), world.context())
    assert row.result.fix.startswith(fix)
    assert row.status == ("warn" if fix else "pass")
    assert row.result.evidence[0] == "1 at once: answered"
    assert 0 < row.result.tokens <= RAMP_CHECK.cost_tokens
