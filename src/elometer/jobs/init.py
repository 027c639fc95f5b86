"""A first experiment: a commented experiment.yaml and three tasks, ready to be edited."""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from elometer.core import paths
from elometer.core.atomic import PRIVATE_FILE, make_private_folder, write_all
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

EXPERIMENT_FILE = "experiment.yaml"
TASKS_FILE = "tasks.jsonl"

_EXPERIMENT = """\
# One experiment: which strategies, on which tasks, with which key. Check it with: elometer plan {file}
experiment_id: {experiment_id}

taotoken:                         # the gateway; the block may also be called `gateway`
  base_url: {base_url}   # its root: no trailing slash, no /v1, no query
  key_label: {key_label:<21}# a name for the key, never the key itself
  key_env: {key_env:<23}# the variable that holds the key
  key_boundary:                   # what the provider allows this key, held to here as well
    allowed_models:
      - {model:<26}# only what this experiment needs
    daily_budget_tokens: {daily_budget_tokens:<9}# spent tokens a day, planned with 20 % headroom
    max_concurrency: {max_concurrency:<13}# calls in flight at once: 4 or 8, not 32
    # expires_at: 2027-01-31      # the end of that day
  timezone: UTC                   # in which the day of the budget begins

agent:
  framework: your-agent-framework # free text, for the report
  protocol: chat                  # chat, responses or messages
  system: "Think briefly, then end with a line: ANSWER: <value>"
  params: {{temperature: 0.8, max_tokens: 1024}}
  strategy: sample_k              # k separate answers to each task, one of them kept
  k_values: [1, 2, 4, 8, 16]
  select: auto                    # a majority vote on the extracted answers

sampling:
  plan: independent               # 31 calls a task-run; nested takes 16 and pool 24 (docs/experiment.md)
  runs: 3                         # independent repetitions; more tasks beat more runs

eval:
  tasks:                          # ids in tasks.jsonl; globs such as task-* are fine
    - task-a
    - task-b
    - task-c
  bradley_terry: true
  elo_scale: 400
  elo_base: 1000
  elo_anchor: sample_1            # the strategy that stands at elo_base
"""

_TASKS = r"""{"id":"task-a","prompt":"A tram leaves every 12 minutes, the first at 06:10. How many leave before 08:00?","answer":"10","grader":{"type":"numeric","tolerance":0},"extract":"ANSWER:\\s*(.+)","tags":["arithmetic"]}
{"id":"task-b","prompt":"Which planet has the shortest day? A) Mars B) Jupiter C) Venus D) Neptune","answer":"B","grader":"choice","extract":"ANSWER:\\s*(.+)","tags":["facts"]}
{"id":"task-c","prompt":"Give the last Friday of February 2028 as an ISO date.","answer":"2028-02-25","grader":{"type":"exact","strip":true},"extract":"ANSWER:\\s*(.+)","tags":["dates"]}
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Answers:
    """What a first experiment names; the defaults are placeholders and the founding values."""

    base_url: str = "https://taotoken.net/api"
    model: str = "your-agent-model"
    key_env: str = "TAOTOKEN_API_KEY"
    key_label: str = "bt-eval-sample-k"
    daily_budget_tokens: int = 200_000
    max_concurrency: int = 4

    def as_yaml(self) -> dict[str, object]:
        """The values as YAML holds them: quoted where a bare word would read as something else."""
        return {
            name: json.dumps(value) if isinstance(value, str) and not _is_plain(value) else value
            for name, value in asdict(self).items()
        }


def _is_plain(text: str) -> bool:
    reserved = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    return re.fullmatch(r"[A-Za-z][\w./:-]*\w", text) is not None and text.lower() not in reserved


def init(folder: Path | None = None, answers: Answers | None = None) -> list[Path]:
    """Write experiment.yaml and tasks.jsonl into a folder (default: a new one in the workspace).

    The folder is 0700 where it is new, the files are 0600. Nothing is ever overwritten: raises UsageError
    where one of the files exists, or where the folder cannot be written.
    """
    target = folder or _new_folder()
    files = {
        target / EXPERIMENT_FILE: _EXPERIMENT.format(
            experiment_id=_id_of(target), file=target / EXPERIMENT_FILE, **(answers or Answers()).as_yaml()
        ),
        target / TASKS_FILE: _TASKS,
    }
    for path in files:
        if path.exists() or path.is_symlink():
            raise _exists(path)
    written: list[Path] = []
    try:
        make_private_folder(target)
        for path, text in files.items():
            _create(path, text)
            written.append(path)
    except OSError as error:
        # Half an experiment would stand in the way of the next try.
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        raise UsageError(
            _("The experiment cannot be written here."),
            evidence=f"{error.filename or target}: {error.strerror}",
            fix=_("Name a folder that you may write to: elometer init DIR"),
        ) from error
    return written


def _exists(path: Path) -> UsageError:
    return UsageError(
        _("The file exists already, and init never overwrites."),
        evidence=str(path),
        fix=_("Name another folder: elometer init DIR"),
    )


def _create(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError as error:
        raise _exists(path) from error
    try:
        write_all(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _new_folder() -> Path:
    home = paths.workspace()
    number = 1
    while (home / f"bt-eval-{number:03d}").exists():
        number += 1
    return home / f"bt-eval-{number:03d}"


def _id_of(folder: Path) -> str:
    """An experiment_id from a folder's name: what it cannot hold becomes a hyphen."""
    name = re.sub(r"[^a-z0-9_.-]+", "-", folder.resolve().name.lower()).strip("-.")[:100]
    return name or "bt-eval-001"
