"""The fit of what is on disk, made again in a thread as blocks finish, and at times what stands beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elometer.tui.app import ElometerApp

# A fit that is drawn is about 3 KB for the terminal: every few seconds is enough to watch whiskers narrow.
FIT_PAUSE_S = 4.0
BESIDE_PAUSE_S = 15.0


@dataclass
class _Pace:
    """What takes long is done rarely: at most a fifth of the time goes into it."""

    pause: float
    after: float = 0.0

    async def run(self, work: Callable[[Path], Any], folder: Path) -> Any:
        """The work in a thread."""
        began = time.monotonic()
        try:
            return await asyncio.to_thread(work, folder)
        finally:
            now = time.monotonic()
            self.after = now + max(self.pause, 4 * (now - began))


class Refit:
    """One computation at a time, into the app's session."""

    def __init__(self, app: ElometerApp) -> None:
        self._app = app
        self._busy = False
        self._fit = _Pace(FIT_PAUSE_S)
        self._beside = _Pace(BESIDE_PAUSE_S)

    def want(self) -> None:
        """Compute again what blocks finished since then have made old."""
        session, now = self._app.session, time.monotonic()
        if self._busy:
            return
        if session.fit_is_due and (now >= self._fit.after or session.state.ended):
            self._busy = True
            self._app.run_worker(self._make_fit(), group="fit")
        elif session.beside_is_due and (now >= self._beside.after or session.state.ended):
            self._busy = True
            self._app.run_worker(self._look_beside(), group="fit")

    async def _make_fit(self) -> None:
        session, folder = self._app.session, self._app.session.folder
        assert folder is not None
        session.fit_blocks = session.state.blocks_done
        fit, error = None, ""
        try:
            fit = await self._fit.run(session.verbs.current_fit, folder)
        except Exception as fault:  # a fit that fails must not end the view of a start that goes on
            error = str(fault) or type(fault).__name__
        finally:
            self._busy = False
        if folder == session.folder:
            session.fit, session.fit_error = fit, error
            self._changed()

    async def _look_beside(self) -> None:
        session, folder = self._app.session, self._app.session.folder
        assert folder is not None
        session.beside_blocks = session.state.blocks_done
        try:
            beside = await self._beside.run(session.verbs.current_result, folder)
        except Exception:  # the fit has said why, if these files are at fault
            return
        finally:
            self._busy = False
        if folder == session.folder:
            session.beside = beside
            self._changed()

    def _changed(self) -> None:
        self._app.session.fit_version += 1
        if pane := self._app.pane:
            pane.look()
