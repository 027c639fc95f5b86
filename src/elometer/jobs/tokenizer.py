"""The tokenizer that an experiment's profile names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elometer.core.paths import expanded
from elometer.profiles.store import Store, store_path
from elometer.runs.spec import Experiment

if TYPE_CHECKING:
    from elometer.wire.tokenizer_file import TokenizerFile


def profile_tokenizer(experiment: Experiment) -> TokenizerFile | None:
    """The tokenizer of `agent.profile`; None where there is no profile or it names none.

    A relative path starts at the store's folder. Raises UsageError where the file, or the extra that reads
    it, is not there: better now than at the first reply without usage.
    """
    name = experiment.agent.profile
    profile = next((one for one in Store.load().profiles if one.name == name), None) if name else None
    if profile is None or not profile.tokenizer:
        return None
    from elometer.wire.tokenizer_file import load_tokenizer

    return load_tokenizer(store_path().parent / expanded(profile.tokenizer))
