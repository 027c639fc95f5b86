"""What is printed on the normal screen when the app is left: the table, and where the files are."""

from __future__ import annotations

from elometer.core.text import gettext as _
from elometer.tui.figures import count, decimal, share, signed
from elometer.tui.session import Session

ARTEFACTS = ("token_ledger.jsonl", "pairwise_records.jsonl", "elo_result.csv")


def farewell(session: Session) -> str:
    """Table and files of the open start; empty where none is open."""
    folder, state = session.folder, session.state
    if folder is None or state.opened is None:
        return ""
    lines = []
    if session.simulated:
        lines.append(_("SIMULATION: the embedded gateway answered, not a model."))
    lines += _table(session)
    lines.append(_("files: {folder}").format(folder=folder))
    lines += [f"  {name}" for name in ARTEFACTS if (folder / name).exists()]
    if session.running:
        lines.append(
            _("{run} is still running: {share} of its blocks are done.").format(
                run=state.opened.run_id,
                share=share(state.blocks_done / state.blocks if state.blocks else None),
            )
        )
        lines.append(
            _("  elometer watch {id}    elometer control {id} stop").format(id=state.opened.experiment_id)
        )
    return "\n".join(lines)


def _table(session: Session) -> list[str]:
    fit = session.fit
    if fit is None:
        return []
    head = f"{_('strategy'):<14}{_('tokens'):>14}{_('Elo'):>9}{_('ΔElo'):>9}{_('marginal/1k'):>13}  {_('resolved?')}"
    lines = [head]
    for position, row in enumerate(fit.strategies):
        word = "" if not position else _("yes") if row.resolved else _("no")
        delta = signed(row.delta_elo) if position else ""
        marginal = decimal(row.marginal_elo_per_1k) if position else ""
        lines.append(
            f"{row.strategy:<14}{count(row.total_tokens):>14}{decimal(row.elo, 1):>9}{delta:>9}{marginal:>13}  {word}"
        )
    return lines
