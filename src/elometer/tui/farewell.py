"""What is printed on the normal screen when the app is left: the table, and where the files are."""

from __future__ import annotations

import shutil

from elometer.core.text import gettext as _
from elometer.tui.figures import share
from elometer.tui.session import Session

WIDEST = 100
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
        name = state.opened.experiment_id
        lines += [f"  elometer watch {name}", f"  elometer control {name} stop"]
    return "\n".join(lines)


def _table(session: Session) -> list[str]:
    if session.fit is None:
        return []
    from elometer.rating.report import text_table

    return text_table(session.fit, width=min(WIDEST, shutil.get_terminal_size().columns)).splitlines()
