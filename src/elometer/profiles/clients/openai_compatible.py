"""OpenAI clients of any make: three environment variables and no file of their own.

An empty OPENAI_BASE_URL is not the same as none (openai-python then has no base at all): unset, never blank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from elometer.profiles.clients.launch import Launch
from elometer.profiles.model import Profile

TOOL = "openai-compatible"
URL = "OPENAI_BASE_URL"
KEY = "OPENAI_API_KEY"
MODEL = "OPENAI_MODEL"


def variables(profile: Profile, key: str) -> dict[str, str]:
    """Key, versioned base URL and model."""
    env = {**profile.env, KEY: key, URL: profile.effective_url}
    return {**env, MODEL: profile.model} if profile.model else env


def launch(
    profile: Profile, key: str, base: Mapping[str, str], private: Path, command: Sequence[str]
) -> Launch:
    """How to start a command under a profile and apart from everything else."""
    return Launch(tuple(command), {**base, **variables(profile, key)}, None, False)
