"""The tokenizer that an experiment's profile names."""

from __future__ import annotations

from pathlib import Path

import pytest

from elometer.core.errors import UsageError
from elometer.jobs.tokenizer import profile_tokenizer
from elometer.profiles.model import Profile
from elometer.profiles.store import Store, store_path
from elometer.runs.spec import Agent, Experiment, Gateway


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def experiment(profile: str | None) -> Experiment:
    return Experiment("e", Gateway(), agent=Agent(profile=profile), seed=1)


def keep(tokenizer: str | None) -> None:
    store = Store.load()
    store.add(Profile(name="p", tool="openai-compatible", base_url="https://g", tokenizer=tokenizer))
    store.save()


def test_no_profile_or_none_in_it_is_no_tokenizer() -> None:
    keep(None)
    assert profile_tokenizer(experiment(None)) is None
    assert profile_tokenizer(experiment("p")) is None
    assert profile_tokenizer(experiment("unknown")) is None


def test_a_relative_path_starts_at_the_store() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the extra 'tokenizers' is not installed")
    keep("words.json")
    model = tokenizers.models.WordLevel({"6": 0, "?": 1}, unk_token="?")
    tokenizers.Tokenizer(model).save(str(store_path().parent / "words.json"))
    found = profile_tokenizer(experiment("p"))
    assert found is not None and found.name.startswith("words.json@")


@pytest.mark.parametrize("path", ["~/none.json", "~no-such-user/none.json"])
def test_a_file_that_is_not_there_is_said_before_anything_is_sent(path: str) -> None:
    keep(path)
    with pytest.raises(UsageError) as found:
        profile_tokenizer(experiment("p"))
    assert "none.json" in found.value.evidence and "profile edit" in found.value.fix
