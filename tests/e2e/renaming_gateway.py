"""The demo gateway under other names: what a provider that routes or replaces models looks like."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.e2e.workspace import Workspace

KEY = "sk-unit-0123456789abcdef"
MODEL = "m"


class Renaming:
    """An ASGI application that says the name `name_of(n)` in its n-th answer, or fails where `fails(n)`."""

    def __init__(self, app: Any, name_of: Callable[[int], str], fails: Callable[[int], bool]) -> None:
        self.app = app
        self.name_of = name_of
        self.fails = fails
        self.state = app.state
        self.calls = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        self.calls += 1
        if self.fails(self.calls):
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b'{"error": {"message": "upstream broke"}}'})
            return
        said = f'"model":"{self.name_of(self.calls)}"'.encode()

        async def renamed(message: Any) -> None:
            if message["type"] == "http.response.body":
                body = message.get("body", b"").replace(f'"model":"{MODEL}"'.encode(), said)
                message = {**message, "body": body}
            await send(message)

        await self.app(scope, receive, renamed)


@contextlib.contextmanager
def gateway(
    name_of: Callable[[int], str] = lambda _n: MODEL,
    fails: Callable[[int], bool] = lambda _n: False,
    **options: Any,
) -> Iterator[str]:
    """Such a gateway on loopback; yields its root."""
    from elometer.core.limits import Boundary
    from elometer.gateway.demo.server import create_app, serve_in_thread

    options = {"latency": (0.005, 0.02), "rate_429": 0.0, **options}
    app = create_app(seed=7, keys={KEY: Boundary(allowed_models=(MODEL,), max_concurrency=8)}, **options)
    with serve_in_thread(Renaming(app, name_of, fails)) as url:  # type: ignore[arg-type]
        yield url


SPEC = """\
experiment_id: {name}
taotoken:
  base_url: {url}
  key_label: bt-eval
  key_boundary: {{allowed_models: [m], max_concurrency: 2}}
agent:
  framework: f
  system: "Think briefly, then end with a line: ANSWER: <value>"
  params: {{temperature: 0.8, max_tokens: 256}}
  {strategies}
sampling: {{runs: {runs}}}
eval: {{tasks: ["demo-*"]}}
{more}
"""


def write_experiment(
    place: Workspace,
    name: str,
    url: str,
    *,
    strategies: str = "k_values: [1, 2]",
    tasks: int = 4,
    runs: int = 1,
    more: str = "",
) -> Path:
    """An experiment outside the workspace that asks such a gateway; returns its file."""
    from elometer.gateway.demo.experiment import demo_experiment

    folder = place.home / f"source-{name}"
    folder.mkdir(exist_ok=True)
    spec = folder / "experiment.yaml"
    spec.write_text(SPEC.format(name=name, url=url, strategies=strategies, runs=runs, more=more))
    (folder / "tasks.jsonl").write_text(demo_experiment(7, experiment_id=name, tasks=tasks)[1])
    return spec


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file; none where it is not there."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
