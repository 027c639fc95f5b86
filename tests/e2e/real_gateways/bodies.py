"""Replies as a server sent them, for the fixtures of tests/wire/test_real_bodies.py."""

from __future__ import annotations

import http.client
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
# What a classification may look at; the rest names machines and moments.
KEPT = (
    "content-type",
    "rate_limit_type",
    "reset_at",
    "llm_provider-retry-after",
    "x-should-retry",
)
KEPT_STARTS = ("retry-after", "x-ratelimit-", "anthropic-ratelimit-")
FOLDER_VARIABLE = "ELOMETER_RECORD_BODIES"


@dataclass(frozen=True)
class Reply:
    """Status, telling headers in lower case, and the body as text."""

    status: int
    headers: dict[str, str]
    body: str


def ask_plainly(root: str, protocol: str, key: str | None, body: dict[str, Any] | bytes) -> Reply:
    """One request by the standard library alone: what we record must not have passed our own client."""
    parts = urlsplit(root)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    headers = {"content-type": "application/json"}
    if key is not None and protocol == "messages":
        headers["x-api-key"] = key
    elif key is not None:
        headers["authorization"] = f"Bearer {key}"
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request("POST", PATHS.get(protocol, protocol), data, headers)
        reply = connection.getresponse()
        found = {name.lower(): value for name, value in reply.getheaders()}
        kept = {name: value for name, value in found.items() if name in KEPT or name.startswith(KEPT_STARTS)}
        return Reply(reply.status, kept, reply.read().decode("utf-8", "replace"))
    finally:
        connection.close()


def record(server: str, name: str, error_class: str, retry: str, reply: Reply) -> None:
    """Write the reply beside its right class, where the variable asks for it."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    file = Path(folder) / server / "index.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    row = {"name": name, "class": error_class, "retry": retry, **asdict(reply)}
    rows = [*(old for old in rows if old["name"] != name), row]
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
