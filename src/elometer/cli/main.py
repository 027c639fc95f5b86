"""The command line's entry: a table of commands, each imported only when it is called.

`elometer --help` imports click and nothing else that is large: every import here costs each invocation.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import click

from elometer import __version__
from elometer.core.text import gettext as _

# name, module, one line for --help (the command's own docstring starts with the same words)
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("demo", "elometer.cli.demo", "Run the whole job on the embedded gateway, no key needed."),
    ("init", "elometer.cli.init", "Write a commented experiment.yaml and a tasks.jsonl."),
    ("plan", "elometer.cli.plan", "Validate an experiment and count what it will cost."),
    ("run", "elometer.cli.run", "Carry an experiment out, or go on where it stopped."),
    ("runs", "elometer.cli.runs", "List the experiments of the workspace and how they stand."),
    ("watch", "elometer.cli.watch", "Open the app on a start, running or finished."),
    ("control", "elometer.cli.control", "Pause, resume or stop a running start, or set its cap."),
    ("fit", "elometer.cli.fit", "Fit Bradley-Terry to pair records and print Elo per token."),
    ("why", "elometer.cli.why", "Explain a strategy's odd number: metadata, ledger, pairs, fit."),
    ("ledger", "elometer.cli.ledger", "Sum, show, verify and export token ledgers."),
    ("archive", "elometer.cli.archive", "Pack and audit what a start left behind."),
    ("profile", "elometer.cli.profile", "List, switch and launch client profiles."),
    ("key", "elometer.cli.key", "Name keys, their sources and their boundaries."),
    ("check", "elometer.cli.check", "Name what stands in the way, with evidence and fix."),
    ("probe", "elometer.cli.probe", "Make one minimal request per protocol and show its usage."),
    ("gateway", "elometer.cli.gateway", "Serve the demo gateway on this machine."),
    ("config", "elometer.cli.config", "Show where elometer keeps things."),
)

OpenApp = Callable[[Path | None], None]


class LazyGroup(click.Group):
    """A group whose commands live in modules that are imported on use."""

    table: ClassVar = {name: (module, summary) for name, module, summary in COMMANDS}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table: the order of a first use."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and take the object that bears its name."""
        if cmd_name not in self.table:
            return None
        module = importlib.import_module(self.table[cmd_name][0])
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where a name is unknown."""
        if args and args[0] not in self.table and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], self.table, n=1)
            hint = _("Did you mean '{name}'?").format(name=near[0]) if near else ""
            ctx.fail(_("No such command '{name}'. {hint}").format(name=args[0], hint=hint).rstrip())
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands from the table alone, so that --help imports none of them."""
        with formatter.section(_("Commands")):
            formatter.write_dl([(name, _(summary)) for name, (_module, summary) in self.table.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: elometer demo --plain",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def elometer(ctx: click.Context) -> None:
    """How much Elo does each further token of test-time compute buy?

    Without a command: the terminal app on the workspace.
    """
    if ctx.invoked_subcommand is None:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise click.UsageError(
                _("The app needs a terminal; 'elometer --help' lists commands that do not.")
            )
        ctx.obj(None)


def run(argv: Sequence[str] | None = None, *, open_app: OpenApp) -> int:
    """Run a command and return its exit code; errors a user can cause are three short lines on stderr."""
    try:
        result: Any = elometer.main(
            args=list(argv) if argv is not None else None,
            prog_name="elometer",
            standalone_mode=False,
            obj=open_app,
        )
        return result if isinstance(result, int) else 0
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader left; without this the interpreter complains once more while it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _report(error)


def _report(error: Exception) -> int:
    """Print what a user can act on; anything else is our fault and shows a redacted traceback."""
    from elometer.core.errors import ElometerError
    from elometer.core.redact import redact

    if isinstance(error, ElometerError):
        from elometer.core.terminal_text import printable

        for line in redact("\n".join(error.lines())).split("\n"):
            click.echo(printable(line), err=True)
        return error.exit_code
    if isinstance(error, OSError) and error.filename:
        click.echo(redact(f"{error.strerror}: {error.filename}"), err=True)
        evidence = _("The system answered {name} (errno {number}).")
        click.echo(evidence.format(name=type(error).__name__, number=error.errno), err=True)
        click.echo(_("Check that the path exists and that you may write there."), err=True)
        return 2
    import traceback

    click.echo(redact("".join(traceback.format_exception(error))), err=True)
    return 1
