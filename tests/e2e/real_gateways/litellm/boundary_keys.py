"""Keys with boundaries for a LiteLLM proxy that has no database (its `custom_auth` hook).

The proxy imports this file from the folder of its configuration. What a key may do is said in LiteLLM's own
key object and checked by LiteLLM's own functions, so that every refusal is in its own words. Only the refusal
of an unknown key is made here, since that needs the database: its type, parameter and status are LiteLLM's.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import Request
from litellm.proxy import proxy_server
from litellm.proxy._types import LitellmUserRoles, ProxyErrorTypes, ProxyException, UserAPIKeyAuth
from litellm.proxy.auth import auth_checks

PREFIX = "sk-bounded-"
BOUNDARIES: dict[str, dict[str, Any]] = {
    "open": {},
    "only-a": {"models": ["mock-a"]},
    "spent": {"max_budget": 0.01, "spend": 0.02},
    "expired": {"expires": (datetime.now(UTC) - timedelta(days=1)).isoformat()},
    "blocked": {"blocked": True},
    "two-a-minute": {"rpm_limit": 2},
    "thirty-tokens": {"tpm_limit": 30},
    "one-at-once": {"max_parallel_requests": 1},
}


async def check(request: Request, api_key: str) -> UserAPIKeyAuth:
    """What the key may do; raises what LiteLLM raises where it may not."""
    if api_key == os.environ["LITELLM_MASTER_KEY"]:
        return UserAPIKeyAuth(api_key=api_key, user_role=LitellmUserRoles.PROXY_ADMIN)
    boundary = BOUNDARIES.get(api_key.removeprefix(PREFIX))
    if boundary is None:
        raise ProxyException(
            message="Authentication Error, Invalid proxy server token passed.",
            type=ProxyErrorTypes.token_not_found_in_db,
            param="key",
            code=401,
        )
    key = UserAPIKeyAuth(api_key=api_key, key_alias=api_key, **{"models": [], **boundary})
    if key.blocked:
        raise ValueError("Key is blocked. Update via `/key/unblock` if you're an admin.")
    body = await request.json() if request.method == "POST" else {}
    if model := body.get("model"):
        await auth_checks.can_key_call_model(
            model=model,
            llm_model_list=proxy_server.llm_model_list,
            valid_token=key,
            llm_router=proxy_server.llm_router,
        )
    await auth_checks._virtual_key_max_budget_check(
        valid_token=key, proxy_logging_obj=proxy_server.proxy_logging_obj
    )
    return key
