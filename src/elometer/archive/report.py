"""report.md: what a reader a week later wants to know first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from elometer.archive.manifest import Manifest
from elometer.core.text import gettext as _

FOUNDING_QUERY = (
    "jq -s 'group_by(.strategy) | map({strategy: .[0].strategy, runs: length, "
    "total_tokens: (map(.total_tokens) | add), "
    "avg_tokens: ((map(.total_tokens) | add) / length)})' token_ledger.jsonl"
)


def report_text(manifest: Manifest, table: str) -> str:
    """The report of a start; `table` is the fit as text, or the reason why there is none."""
    return "\n".join(
        [
            *_head(manifest),
            *_section(_("Result"), ["```", table.rstrip(), "```"]),
            *_section(_("Outcomes"), _outcomes(manifest)),
            *_section(_("Tokens by phase"), _phases(manifest)),
            *_section(_("Models"), _models(manifest)),
            *_section(_("Circumstances"), _circumstances(manifest)),
            *_section(_("Check it"), _check(manifest)),
            "",
        ]
    )


def _head(manifest: Manifest) -> list[str]:
    status = manifest.status + (f" ({manifest.reason})" if manifest.reason else "")
    lines = [
        f"# {manifest.run_id}",
        "",
        _("Experiment {name}, {status}, {done} of {planned} blocks; {begin} to {end}.").format(
            name=manifest.experiment_id,
            status=status,
            done=manifest.blocks.get("done"),
            planned=manifest.blocks.get("planned"),
            begin=manifest.opened_at,
            end=manifest.ended_at or "?",
        ),
    ]
    if manifest.origin == "demo":
        lines += ["", _("**A simulation: a make-believe gateway answered, no model was called.**")]
    return lines


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return ["", f"## {title}", "", *lines]


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    def line(cells: Iterable[object]) -> str:
        return (
            "| " + " | ".join("–" if cell is None else str(cell).replace("|", "\\|") for cell in cells) + " |"
        )

    return [line(headers), "|" + "---|" * len(headers), *(line(row) for row in rows)]


def _outcomes(manifest: Manifest) -> list[str]:
    kinds = sorted({kind for counts in manifest.outcomes.values() for kind in counts})
    rows = [(name, *(counts.get(kind, 0) for kind in kinds)) for name, counts in manifest.outcomes.items()]
    return _table([_("strategy"), *kinds], rows) if rows else [_("No block was finished.")]


def _phases(manifest: Manifest) -> list[str]:
    names = ("calls", "lines", "prompt_tokens", "completion_tokens", "total_tokens", "estimated_tokens")
    rows = [(phase, *(sums.get(name) for name in names)) for phase, sums in manifest.totals.items()]
    return _table([_("phase"), *names], rows)


def _models(manifest: Manifest) -> list[str]:
    rows = [(one["requested"], one["served"], one["answers"]) for one in manifest.models]
    lines = _table([_("requested"), _("served"), _("answers")], rows)
    if manifest.strangers:
        text = _("{n} answers came from a model outside the boundary or under an unknown name.")
        lines += ["", text.format(n=len(manifest.strangers))]
    return lines


def _circumstances(manifest: Manifest) -> list[str]:
    key, peak = manifest.key, manifest.peak_concurrency
    facts = [
        (_("gateway"), f"{manifest.gateway.get('base_url')} ({manifest.gateway.get('protocol')})"),
        (_("key"), f"{key.get('label')}, {', '.join(key.get('fingerprints', []))}"),
        (_("boundary"), _boundary(key.get("boundary", {}))),
        (_("seed"), manifest.seeds.get("experiment")),
        (_("sampling plan"), _plan(manifest)),
        (_("most calls at once"), f"{peak.get('of_this_start')} / {peak.get('limit')}"),
        (_("elometer"), manifest.versions.get("elometer")),
        (_("git commit"), _git(manifest)),
        (_("damaged ledger lines"), manifest.damaged_lines.get("token_ledger.jsonl")),
    ]
    if manifest.warned:
        facts.append((_("checks that warned"), ", ".join(manifest.warned)))
    if manifest.forced is not None:
        facts.append((_("started with --force past"), ", ".join(manifest.forced) or _("no failed check")))
    return [f"- {name}: {value}" for name, value in facts]


def _plan(manifest: Manifest) -> str:
    plan = manifest.sampling.get("plan", "independent")
    if plan == "nested":
        return _("nested: smaller strategies are the first part of larger ones; a call is paid once")
    if plan == "pool":
        text = _("pool of {n} draws per task-run; strategies meet on disjoint random subsets")
        return text.format(n=manifest.sampling.get("pool_size"))
    return _("independent: each strategy makes its own calls")


def _boundary(boundary: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in boundary.items() if value not in (None, [], ()))


def _git(manifest: Manifest) -> str:
    if manifest.git is None:
        return _("not in a repository")
    return str(manifest.git.get("commit")) + (_(", with changes") if manifest.git.get("dirty") else "")


def _check(manifest: Manifest) -> list[str]:
    lines = ["```", "elometer archive audit .", "elometer ledger totals --founding .", FOUNDING_QUERY, "```"]
    if manifest.sampling.get("plan", "independent") == "independent":
        return lines
    said = _("Calls are shared here: the ledger's own sums are what was spent, a call at its largest user.")
    more = _("What each strategy is charged, as the table has it, is the same sum over one line per use:")
    return [*lines, "", said + " " + more, "", "```", "elometer ledger export . --expand", "```"]
