"""Under which names a requested model may answer; whoever answers under another one is a stranger.

Providers answer with dated or routed names, so the name that was asked for is not the only right one. What
experiment.yaml says holds; else the first answer's name is learnt, shown, and frozen in the resolved YAML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from elometer.core.atomic import replace_file
from elometer.core.clock import timestamp
from elometer.core.errors import SpecError
from elometer.runs import events as ev
from elometer.runs.folder import ExperimentFolder
from elometer.runs.spec import Experiment, load_experiment, resolved_yaml

STRANGER_FLAG = "stranger"


class ServedNames:
    """The names known for each requested model, and the strangers that wait for a word of the user.

    The requested name itself is never a stranger: a server that says nothing is booked under it.
    `unsaved` tells that a name was learnt or accepted that `freeze` has not written yet.
    """

    def __init__(
        self,
        experiment: Experiment,
        frozen: Mapping[str, tuple[str, ...]],
        seen: Mapping[str, Counter[str]],
    ) -> None:
        self._allowed = experiment.gateway.boundary.allowed_models
        self._given = set(experiment.gateway.served_as)
        self._names: dict[str, tuple[str, ...]] = dict(experiment.gateway.served_as)
        for model, names in frozen.items():
            self._names.setdefault(model, names)
        # A start that died before its first word was frozen left it in the ledger.
        for model, counts in seen.items():
            self._names.setdefault(model, (counts.most_common(1)[0][0],))
        self._waiting: dict[tuple[str, str], None] = {}
        self.unsaved = False

    def known(self) -> Iterator[ev.Served]:
        """What is known when a start begins."""
        for model, names in self._names.items():
            how = "given" if model in self._given else "frozen"
            yield ev.Served(at=timestamp(), model_requested=model, names=names, how=how)  # type: ignore[arg-type]

    def look(self, requested: str, served: str) -> ev.Served | None:
        """Learn the name of a model's first answer; None where a name is known already."""
        if requested in self._names or (self._allowed and requested not in self._allowed):
            return None
        self._names[requested] = (served,)
        self.unsaved = True
        return ev.Served(at=timestamp(), model_requested=requested, names=(served,), how="learnt")

    def stranger(self, requested: str, served: str) -> bool:
        """True where the pair is foreign; it then waits for `accept`."""
        outside = bool(self._allowed) and requested not in self._allowed
        if not outside and (served == requested or served in self._names.get(requested, ())):
            return False
        self._waiting[requested, served] = None
        return True

    def accept(self) -> list[ev.Served]:
        """Take all waiting strangers for right from now on."""
        changed = []
        for requested, served in self._waiting:
            self._names[requested] = (*self._names.get(requested, ()), served)
            changed.append(requested)
        self._waiting.clear()
        self.unsaved = self.unsaved or bool(changed)
        return [
            ev.Served(at=timestamp(), model_requested=model, names=self._names[model], how="accepted")
            for model in dict.fromkeys(changed)
        ]

    def freeze(self, folder: ExperimentFolder) -> None:
        """Write learnt and accepted names into experiment.resolved.yaml; nothing else of it changes."""
        self.unsaved = False
        resolved = load_experiment(folder.resolved)
        gateway = replace(resolved.gateway, served_as=dict(self._names))
        replace_file(folder.resolved, resolved_yaml(replace(resolved, gateway=gateway)).encode())


def frozen_names(folder: ExperimentFolder) -> dict[str, tuple[str, ...]]:
    """The names that earlier starts froze; none where the file is not there or does not read."""
    try:
        return load_experiment(folder.resolved).gateway.served_as
    except (SpecError, OSError):
        return {}


def accepted_names(experiment: Experiment, folder: ExperimentFolder) -> set[str]:
    """All names under which models of the experiment may answer, by its file or by the user's word."""
    known = {**frozen_names(folder), **experiment.gateway.served_as}
    return {name for names in known.values() for name in names}
