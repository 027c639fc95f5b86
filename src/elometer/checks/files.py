"""Checks of an experiment's files: whole lines, one experiment, one key, all fields, time order."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.checks.ledgers import Scan, examples, scans
from elometer.core.text import gettext as _
from elometer.runs.folder import ExperimentFolder


def lines_are_whole(context: Context) -> Result:
    """No torn, glued or damaged line."""
    found = scans(context)
    if not found:
        return unknown(_("there is no ledger yet"))
    lines = []
    for scan in found:
        lines.append(
            _("{name}: {n} lines, {bad} damaged").format(
                name=scan.path.parent.name, n=scan.lines, bad=len(scan.bad)
            )
        )
        if scan.bad or scan.torn_tail:
            lines += [
                _("line {n} (byte {at}): {reason}").format(n=bad.number, at=bad.offset, reason=bad.reason)
                for bad in scan.bad[:3]
            ]
            if scan.torn_tail:
                lines.append(_("the last line has no end yet: a start is writing, or was killed"))
            if scan.bad:
                return Result(
                    "warn",
                    tuple(lines),
                    _("The ledger holds damaged lines; they are not in any sum."),
                    f"elometer ledger verify {scan.path.parent.name}",
                )
    return passed(*lines)


def one_experiment(context: Context) -> Result:
    """One ledger holds one experiment."""

    def judge(scan: Scan) -> Result | None:
        if len(scan.experiments) > 1:
            return Result(
                "warn",
                tuple(examples(scan.experiments)),
                _("Lines of several experiments stand in one ledger."),
                _("Export each one alone: elometer ledger export {name}").format(name=scan.path.parent.name),
            )
        wanted = context.experiment.experiment_id if context.experiment is not None else None
        if wanted is not None and scan.experiments and wanted not in scan.experiments:
            return Result(
                "warn",
                tuple(examples(scan.experiments)),
                _("The ledger belongs to another experiment."),
                _("Give this experiment a folder of its own."),
            )
        return None

    return _first(context, judge, _("one experiment in each ledger"))


def one_key(context: Context) -> Result:
    """Every line was paid with one key."""

    def judge(scan: Scan) -> Result | None:
        # The demo's gateway makes a key for every start.
        if len(scan.keys) > 1 and not (context.experiment is not None and context.experiment.kind == "demo"):
            return Result(
                "warn",
                tuple(examples(scan.keys)),
                _("The ledger's lines were paid with several keys: a bill of one key will not match it."),
                f"elometer ledger totals {scan.path.parent.name} --by key_fp",
            )
        return None

    return _first(context, judge, _("one key in each ledger"), skip_demo=True)


def all_fields(context: Context) -> Result:
    """The nine founding fields are in every line."""

    def judge(scan: Scan) -> Result | None:
        if scan.lacking:
            line = _("{name}: {n} of {lines} lines").format(
                name=scan.path.parent.name, n=scan.lacking, lines=scan.lines
            )
            return Result(
                "warn",
                (line,),
                _("Lines lack fields that every total needs."),
                f"elometer ledger verify {scan.path.parent.name}",
            )
        return None

    return _first(context, judge, _("all lines have the nine fields"))


def time_order(context: Context) -> Result:
    """Lines stand in the order of time, but for calls that overlap."""

    def judge(scan: Scan) -> Result | None:
        if scan.disorder or scan.undated:
            line = _(
                "{name}: {n} lines more than an hour older than one before them, {u} without a time"
            ).format(name=scan.path.parent.name, n=scan.disorder, u=scan.undated)
            return Result(
                "warn",
                (line,),
                _("The ledger's lines are not in order of time: it was merged, or a clock jumped."),
                f"elometer ledger verify {scan.path.parent.name}",
            )
        return None

    return _first(context, judge, _("all lines in order of time"))


def _first(context: Context, judge: object, good: str, *, skip_demo: bool = False) -> Result:
    found = scans(context)
    if not found:
        return unknown(_("there is no ledger yet"))
    assert callable(judge)
    for scan in found:
        if skip_demo and context.experiment is None and scan.path.parent.name.startswith("demo-"):
            continue
        result = judge(scan)
        if isinstance(result, Result):
            return result
    return passed(good, *(scan.path.parent.name for scan in found[:5]))


def tails_are_whole(context: Context) -> Result:
    """The other append-only files end in a whole line."""
    folder = context.experiment.folder if context.experiment is not None else None
    if folder is None or not folder.is_dir():
        return unknown(_("the experiment has no folder yet"))
    files = ExperimentFolder(folder)
    lines, torn = [], []
    for path in (files.samples, files.outcomes, files.events, files.records):
        if path.is_file() and path.stat().st_size:
            ended = _ends_in_newline(path)
            lines.append(f"{path.name}: {path.stat().st_size:,} bytes")
            if not ended:
                torn.append(path.name)
    if torn:
        return Result(
            "warn",
            tuple(lines),
            _("{names}: the last line has no end.").format(names=", ".join(torn)),
            _("Start the experiment again; the torn line is fenced off and its call made again."),
        )
    return passed(*lines)


def _ends_in_newline(path: Path) -> bool:
    with path.open("rb", buffering=0) as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def files_are_private(context: Context) -> Result:
    """Samples and ledgers are readable by their owner only."""
    folder = context.experiment.folder if context.experiment is not None else None
    if folder is None or not folder.is_dir():
        return unknown(_("the experiment has no folder yet"))
    open_files = [
        path.name
        for path in sorted(folder.iterdir())
        if path.name.endswith((".jsonl", ".yaml")) and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if open_files:
        return Result(
            "warn",
            tuple(open_files),
            _("Other users of this machine can read these files."),
            f"chmod -R go= {context.shown(folder)}",
        )
    return passed(context.shown(folder))


CHECKS = (
    Check("files.lines", "files", "Is every ledger line whole?", 0, lines_are_whole),
    Check("files.one-experiment", "files", "Does each ledger hold one experiment?", 0, one_experiment),
    Check("files.one-key", "files", "Was each ledger paid with one key?", 0, one_key),
    Check("files.fields", "files", "Has every line its nine fields?", 0, all_fields),
    Check("files.order", "files", "Do the lines stand in order of time?", 0, time_order),
    Check("files.tails", "files", "Do the other files end in whole lines?", 0, tails_are_whole),
    Check("files.private", "files", "Can only you read the experiment's files?", 0, files_are_private),
)
