"""Carrying out a plan: journal, file, journal, in an order that a kill at any point leaves whole."""

from __future__ import annotations

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.profiles import journal, live_file
from elometer.profiles.journal import Entry, Journal, Pending
from elometer.profiles.store import Store
from elometer.profiles.switch import Plan


def apply(plan: Plan) -> None:
    """Carry out a plan. Raises UsageError where the file changed since the plan was made."""
    assert plan.entry is not None
    with journal.opened() as state:
        entry = plan.entry
        if plan.action == "switch":
            if entry.seq != state.next_seq:
                raise _outdated(plan)
            _apply_switch(plan, entry, state)
        else:
            if not state.entries or state.entries[-1].seq != entry.seq:
                raise _outdated(plan)
            _apply_undo(plan, entry, state)


def _outdated(plan: Plan) -> UsageError:
    return UsageError(
        _("Another switch happened in between."),
        evidence=str(plan.path or _("the store's default")),
        fix=_("Look at the difference again, then repeat."),
    )


def _apply_switch(plan: Plan, entry: Entry, state: Journal) -> None:
    if plan.live is not None:
        journal.keep_pristine(state, plan.live, entry.at)
        journal.keep_body(entry.seq, plan.live.data or b"")
    state.pending = Pending("switch", entry)
    journal.save(state)
    if plan.live is None:
        _set_default(plan.profile)
    elif plan.after == plan.live.data:
        if plan.mode_after is not None and plan.mode_after != plan.live.mode:
            plan.live.target.chmod(plan.mode_after)
    else:
        live_file.replace(plan.live, plan.after, plan.mode_after)
    journal.commit(state, entry)
    journal.save(state)


def _set_default(name: str | None) -> None:
    with Store.editing() as store:
        store.default = name


def _apply_undo(plan: Plan, entry: Entry, state: Journal) -> None:
    state.pending = Pending("undo", entry)
    journal.save(state)
    if plan.live is None:
        _set_default(entry.previous)
    elif plan.after != plan.live.data:
        live_file.replace(plan.live, plan.after, plan.mode_after)
    elif plan.mode_after is not None and plan.mode_after != plan.live.mode:
        plan.live.target.chmod(plan.mode_after)
    journal.take_back(state, entry)
    journal.save(state)
    journal.forget_body(entry.seq)
