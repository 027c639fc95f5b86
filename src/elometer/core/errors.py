"""The one tree of errors that a user can cause.

::

    ElometerError
      UsageError          2    a command, a file or a name that does not fit
        SpecError         2    experiment.yaml or tasks.jsonl, with line and key
        NotSupportedYet   2    valid by the design, not built yet
      AccessError         3    key, authentication, boundary
      BudgetStop          4    stopped, and the budget was the only reason
      PartialRun          5    stopped for another reason
      VerificationError   6    an archive or a ledger does not hold what it says
      Interrupted       130    ctrl+c

Each carries what is wrong, the evidence, and what to do: three short lines.
"""

from __future__ import annotations


class ElometerError(Exception):
    """What is wrong (`message`), how we know (`evidence`), what to do (`fix`)."""

    exit_code = 1

    def __init__(self, message: str, *, evidence: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.evidence = evidence
        self.fix = fix

    def lines(self) -> list[str]:
        """The three lines a user sees; empty ones are left out."""
        return [line for line in (self.message, self.evidence, self.fix) if line]


class UsageError(ElometerError):
    """A command, file, input or name that does not fit."""

    exit_code = 2


class SpecError(UsageError):
    """A fault in experiment.yaml or tasks.jsonl; `evidence` names file, line and key."""


class NotSupportedYet(UsageError):
    """A key or value that the format allows and that this version does not act on."""


class AccessError(ElometerError):
    """A key, an authentication or a boundary stands in the way."""

    exit_code = 3


class BudgetStop(ElometerError):
    """The start ended because the token budget was used up, and for no other reason."""

    exit_code = 4


class PartialRun(ElometerError):
    """The start ended before all blocks were done."""

    exit_code = 5


class VerificationError(ElometerError):
    """Files do not hold what their manifest or their own sums say."""

    exit_code = 6


class Interrupted(ElometerError):
    """The user interrupted."""

    exit_code = 130
