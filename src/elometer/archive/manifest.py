"""What an archive holds: its files by digest, and the circumstances under which its numbers arose."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from elometer.core.errors import VerificationError
from elometer.core.text import gettext as _

MANIFEST = "manifest.json"
REPORT = "report.md"
MANIFEST_SCHEMA = 1

# The files of an experiment's folder that go into an archive, in the order in which a number is explained:
# metadata, ledger, pairs, fit.
PACKED = (
    "experiment.yaml",
    "experiment.resolved.yaml",
    "tasks.jsonl",
    "token_ledger.jsonl",
    "samples.jsonl",
    "outcomes.jsonl",
    "events.jsonl",
    "pairwise_records.jsonl",
    "elo_result.csv",
    "fit.json",
)
# Without these nothing can be explained; the others may be missing where a start ended early.
NEEDED = ("experiment.yaml", "experiment.resolved.yaml", "token_ledger.jsonl")


class FileEntry(msgspec.Struct, frozen=True):
    """A file as it was packed; `lines` counts newlines."""

    sha256: str
    bytes: int
    lines: int


class Manifest(msgspec.Struct, kw_only=True):
    """manifest.json. Token counts are null where unknown; times are UTC."""

    schema: int = MANIFEST_SCHEMA
    experiment_id: str
    run_id: str
    origin: str
    status: str
    reason: str
    message: str
    opened_at: str | None
    ended_at: str | None
    packed_at: str
    blocks: dict[str, int | None]
    outcomes: dict[str, dict[str, int]]
    totals: dict[str, dict[str, Any]]
    models: list[dict[str, Any]]
    strangers: list[dict[str, str]]
    peak_concurrency: dict[str, int | None]
    gateway: dict[str, Any]
    key: dict[str, Any]
    seeds: dict[str, Any]
    versions: dict[str, Any]
    git: dict[str, Any] | None
    damaged_lines: dict[str, int]
    no_fit_because: str
    # Failed checks that --force overruled; None where the start was not forced.
    forced: tuple[str, ...] | None = None
    # Checks that warned before the start.
    warned: tuple[str, ...] = ()
    # How strategies share calls: plan, runs, pool_size.
    sampling: dict[str, Any] = {}
    files: dict[str, FileEntry] = {}


def entry_of(path: Path) -> FileEntry:
    """Digest, size and number of lines of a file, read in pieces."""
    digest, size, lines = hashlib.sha256(), 0, 0
    with path.open("rb", buffering=0) as file:
        while data := file.read(1 << 20):
            digest.update(data)
            size += len(data)
            lines += data.count(b"\n")
    return FileEntry(digest.hexdigest(), size, lines)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an archive. Raises VerificationError where it is missing or not one."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError as error:
        raise VerificationError(
            _("{folder} is not an archive.").format(folder=folder),
            evidence=_("It has no {name}.").format(name=MANIFEST),
            fix=_("Name a folder archive/<run_id> of an experiment."),
        ) from error
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise VerificationError(
            _("The manifest of this archive cannot be read."),
            evidence=f"{path}: {error}",
            fix=_("Pack the experiment again: elometer archive pack ID."),
        ) from error


def manifest_bytes(manifest: Manifest) -> bytes:
    """The manifest as it stands in the file, indented for readers."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
