"""`elometer gateway`: the loopback servers."""

from __future__ import annotations

import click

from elometer.core.text import gettext as _


@click.group(epilog="Example: elometer gateway demo --port 8484")
def gateway() -> None:
    """Serve the demo gateway on this machine."""


@gateway.command(epilog="Example: ELOMETER_DEMO_KEY=… elometer gateway demo --port 8484 --prefix /api")
@click.option("--host", default="127.0.0.1", show_default=True, help=_("Address to listen on."))
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default=True, help=_("Port; 0 takes a free one.")
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help=_("Decides tasks, answers and latencies.")
)
@click.option(
    "--latency-ms",
    type=click.FloatRange(0, 600_000),
    nargs=2,
    default=(40.0, 160.0),
    show_default=True,
    help=_("Shortest and longest time of a call."),
)
@click.option(
    "--rate-429",
    type=click.FloatRange(0, 1),
    default=0.01,
    show_default=True,
    help=_("Share of attempts that are refused for load."),
)
@click.option("--prefix", default="", help=_("A path before all others, such as /api."))
@click.option(
    "--model",
    "models",
    multiple=True,
    help=_("A model that the key may use (repeatable); default demo-agent."),
)
@click.option(
    "--daily-budget-tokens",
    type=click.IntRange(1),
    default=None,
    help=_("Tokens a day that the key may spend."),
)
@click.option(
    "--max-concurrency",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help=_("Calls that the key may have in flight."),
)
@click.option("--break", "faults", multiple=True, metavar="FAULT", help=_("Plant a fault (repeatable)."))
@click.option(
    "--with-parent",
    type=click.IntRange(1),
    default=None,
    metavar="PID",
    help=_("End when this process is gone."),
)
def demo(
    host: str,
    port: int,
    seed: int,
    latency_ms: tuple[float, float],
    rate_429: float,
    prefix: str,
    models: tuple[str, ...],
    daily_budget_tokens: int | None,
    max_concurrency: int,
    faults: tuple[str, ...],
    with_parent: int | None,
) -> None:
    """Serve a make-believe provider with a known truth until it is stopped.

    It prints one JSON line when it is ready. The key is read from ELOMETER_DEMO_KEY; without it a new one is
    written to a private file that the line names.
    """
    from elometer.core.limits import Boundary
    from elometer.gateway.demo.process import GatewayOptions, serve_until_stopped

    shortest, longest = sorted(latency_ms)
    serve_until_stopped(
        GatewayOptions(
            host=host,
            port=port,
            seed=seed,
            latency=(shortest / 1000, longest / 1000),
            rate_429=rate_429,
            prefix=prefix,
            boundary=Boundary(
                allowed_models=models or ("demo-agent",),
                daily_budget_tokens=daily_budget_tokens,
                max_concurrency=max_concurrency,
            ),
            faults=faults,
            parent=with_parent,
        )
    )


@gateway.command(epilog="Example: elometer gateway relay --help")
def relay() -> None:
    """Meter the real traffic of command-line agents (a later version)."""
    from elometer.core.errors import NotSupportedYet

    raise NotSupportedYet(
        _("The relay is not built yet."),
        evidence=_("This version meters only the calls that it makes itself."),
        fix=_("Import the agents' own logs: elometer ledger import claude-code."),
    )
