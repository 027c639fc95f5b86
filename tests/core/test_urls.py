from __future__ import annotations

import pytest

from elometer.core.urls import effective_url, endpoint, url_fault


@pytest.mark.parametrize(
    ("root", "address"),
    [
        ("https://g.example", "https://g.example/v1/chat/completions"),
        ("https://g.example/", "https://g.example/v1/chat/completions"),
        ("https://g.example/api", "https://g.example/api/v1/chat/completions"),
        # Row 14 of cases/accounting.md: a base that ends in /v1 is not given a second one.
        ("https://g.example/v1", "https://g.example/v1/chat/completions"),
        ("https://g.example/v1/", "https://g.example/v1/chat/completions"),
        ("https://g.example/api/paas/v4", "https://g.example/api/paas/v4/chat/completions"),
        ("https://g.example/v1beta", "https://g.example/v1beta/chat/completions"),
        ("https://v1.example", "https://v1.example/v1/chat/completions"),
        ("https://g.example/dev1", "https://g.example/dev1/v1/chat/completions"),
    ],
)
def test_endpoint(root: str, address: str) -> None:
    assert endpoint(root, "chat/completions") == address
    assert endpoint(root, "/chat/completions") == address


@pytest.mark.parametrize(
    ("root", "tool", "base"),
    [
        ("https://g.example/api/", "claude-code", "https://g.example/api"),
        ("https://g.example/api", "codex", "https://g.example/api/v1"),
        ("https://g.example/api/v1", "openai-compatible", "https://g.example/api/v1"),
        ("https://g.example/api/paas/v4/", "openai-compatible", "https://g.example/api/paas/v4"),
    ],
)
def test_effective_url(root: str, tool: str, base: str) -> None:
    assert effective_url(root, tool) == base


@pytest.mark.parametrize(
    ("root", "reason", "proposal"),
    [
        ("", "empty", ""),
        ("g.example", "no_scheme", "https://g.example"),
        ("127.0.0.1:8080", "no_scheme", "http://127.0.0.1:8080"),
        ("https://g.example /v1", "space", "https://g.example/v1"),
        ("'https://g.example'", "quotes", "https://g.example"),
        ("https://g.example//api", "double_slash", "https://g.example/api"),
        ("https://g.example/v1/v1", "double_version", "https://g.example/v1"),
        ("https://g.example/v1/chat/completions", "operation", "https://g.example/v1"),
        ("https://g.example/v1/messages/", "operation", "https://g.example/v1"),
        ("https://g.example/?key=1", "query", "https://g.example"),
        ("https:///v1", "no_host", "https:///v1"),
        ("https://user:pass-word@g.example/api", "credentials", "https://g.example/api"),
    ],
)
def test_url_fault(root: str, reason: str, proposal: str) -> None:
    fault = url_fault(root)
    assert fault is not None
    assert (fault.reason, fault.proposal) == (reason, proposal)


@pytest.mark.parametrize(
    "root", ["https://g.example", "http://127.0.0.1:4100/v1", "https://g.example/api/paas/v4"]
)
def test_good_roots_have_no_fault(root: str) -> None:
    assert url_fault(root) is None
