"""The account book of all keys on this machine: one SQLite file, one short transaction per contact.

Every process that spends a key's tokens holds one lease: tokens it may still use, permits it may have in
flight. A lease ends with its process. What a dead process had in flight is booked as spent, since it may
have been billed; `rebuild` sets a day right from ledgers.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elometer.core.atomic import make_private_folder
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

LAYOUT = 3  # counts up where the table of leases changes
LAYOUT_WITHOUT_MOST = 2
SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (
    key_fp TEXT NOT NULL, day TEXT NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (key_fp, day)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key_fp TEXT NOT NULL, day TEXT NOT NULL,
    host TEXT NOT NULL, pid INTEGER NOT NULL, born TEXT NOT NULL, renewed REAL NOT NULL,
    tokens INTEGER NOT NULL DEFAULT 0, reserved INTEGER NOT NULL DEFAULT 0,
    permits INTEGER NOT NULL DEFAULT 0, wanted INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '',
    most INTEGER);
CREATE INDEX IF NOT EXISTS lease_by_key ON lease (key_fp);
"""
BUSY_S = 10.0
# A lease of another host cannot be asked whether its process lives; it is believed for so long.
FOREIGN_LEASE_S = 60.0
# A day's budget is handed out in parts, so that several processes share it and few contacts are needed.
PARTS = 32
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"}
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The boundary's two numbers that are shared between processes; None is no limit."""

    budget: int | None
    permits: int | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a process tells of itself.

    Tokens used since the last contact, tokens reserved for calls that are not settled, tokens it needs beyond
    those, permits in use, permits it could use, and those it holds: until the next contact it may still fill
    them, so nobody else is given them before it has told that it keeps to less.
    """

    used: int = 0
    reserved: int = 0
    needs: int = 0
    in_flight: int = 0
    wants: int = 0
    holds: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """What the book answers.

    Tokens this process may reserve in all, permits it may have in flight, tokens the key has spent today,
    tokens that other processes hold, and how many processes those are.
    """

    tokens: int
    permits: int
    spent: int
    held_elsewhere: int
    others: int


class AccountBook:
    """The file. Methods block for about a millisecond: call them from a thread."""

    def __init__(self, path: Path) -> None:
        make_private_folder(path.parent)
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        self.path = path
        self.on_network = file_system(path) in NETWORK_FILE_SYSTEMS
        self._connection = sqlite3.connect(
            path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        # A write-ahead log needs shared memory, which a network file system does not give.
        self._connection.execute(f"PRAGMA journal_mode={'DELETE' if self.on_network else 'WAL'}")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._bring_up_to_date()

    def _bring_up_to_date(self) -> None:
        """Make the tables.

        Leases of the layout before stay, since a start of that version may run beside this one; those of
        older ones go, as they would with their process. Sums stay. Raises UsageError for a newer layout.
        """
        with self._transaction() as cursor:
            (found,) = cursor.execute("PRAGMA user_version").fetchone()
            if found > LAYOUT:
                raise UsageError(
                    _("The account book was written by a newer elometer."),
                    evidence=_("{path}: layout {found}, known is {layout}").format(
                        path=self.path, found=found, layout=LAYOUT
                    ),
                    fix=_("Update elometer here too."),
                )
            if found == LAYOUT_WITHOUT_MOST:
                cursor.execute("ALTER TABLE lease ADD COLUMN most INTEGER")
            elif found != LAYOUT:
                cursor.execute("DROP TABLE IF EXISTS lease")
            for statement in SCHEMA.split(";"):
                cursor.execute(statement)
            cursor.execute(f"PRAGMA user_version = {LAYOUT}")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
        cursor.execute("COMMIT")

    def open_lease(self, key_fp: str, day: str, now: float, owner: str = "") -> int:
        """A new lease of this process without tokens or permits; returns its id.

        `owner` names the experiment: leases that its dead processes left are dropped without a charge.
        """
        with self._transaction() as cursor:
            if owner:
                self._drop_own_dead(cursor, key_fp, owner, os.uname().nodename)
            return self._insert(cursor, None, key_fp, day, now, owner)

    @staticmethod
    def _insert(
        cursor: sqlite3.Cursor, lease: int | None, key_fp: str, day: str, now: float, owner: str = ""
    ) -> int:
        here, pid = os.uname().nodename, os.getpid()
        cursor.execute(
            "INSERT INTO lease (id, key_fp, day, host, pid, born, renewed, owner) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (lease, key_fp, day, here, pid, birth(pid) or "", now, owner),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def renew(
        self, lease: int, key_fp: str, day: str, limits: Limits, standing: Standing, now: float
    ) -> Grant:
        """Book what was used, and take what is needed and free."""
        with self._transaction() as cursor:
            self._bury_the_dead(cursor, key_fp, lease, now)
            mine = cursor.execute("SELECT day FROM lease WHERE id = ?", (lease,)).fetchone()
            if mine is None:  # another host took this process for dead, after a sleep of this one, say
                self._insert(cursor, lease, key_fp, day, now)
            self._add_spent(cursor, key_fp, mine[0] if mine else day, standing.used)
            spent = self._spent(cursor, key_fp, day)
            others = cursor.execute(
                "SELECT id, tokens, permits, wanted, most FROM lease "
                "WHERE key_fp = ? AND id != ? ORDER BY id",
                (key_fp, lease),
            ).fetchall()
            elsewhere = sum(row[1] for row in others)
            tokens = _token_share(limits.budget, spent, elsewhere, standing, len(others))
            permits = _permit_share(_strictest(limits.permits, others), lease, others, standing)
            kept = max(permits, standing.in_flight, standing.holds)
            cursor.execute(
                "UPDATE lease SET day = ?, renewed = ?, tokens = ?, reserved = ?, permits = ?, wanted = ?, "
                "most = ? WHERE id = ?",
                (day, now, tokens, standing.reserved, kept, standing.wants, limits.permits, lease),
            )
            return Grant(tokens, permits, spent, elsewhere, len(others))

    def close_lease(self, lease: int, key_fp: str, day: str, used: int) -> None:
        """Book the last use and give the rest back."""
        with self._transaction() as cursor:
            self._add_spent(cursor, key_fp, day, used)
            cursor.execute("DELETE FROM lease WHERE id = ?", (lease,))

    def spent(self, key_fp: str, day: str) -> int:
        """Tokens booked to a key on a day (`2026-11-29`, in the boundary's time zone)."""
        with self._transaction() as cursor:
            return self._spent(cursor, key_fp, day)

    def at_least(self, key_fp: str, day: str, tokens: int) -> int:
        """Raise a day's spent tokens to what ledgers show, never lower them; returns the result."""
        with self._transaction() as cursor:
            known = self._spent(cursor, key_fp, day)
            self._add_spent(cursor, key_fp, day, max(0, tokens - known))
            return max(known, tokens)

    def rebuild(self, key_fp: str, day: str, tokens: int) -> int:
        """Set a day's spent tokens to what ledgers show; returns what the book had before."""
        with self._transaction() as cursor:
            known = self._spent(cursor, key_fp, day)
            self._add_spent(cursor, key_fp, day, tokens - known)
            return known

    @staticmethod
    def _spent(cursor: sqlite3.Cursor, key_fp: str, day: str) -> int:
        row = cursor.execute(
            "SELECT tokens FROM spent WHERE key_fp = ? AND day = ?", (key_fp, day)
        ).fetchone()
        return int(row[0]) if row else 0

    @staticmethod
    def _add_spent(cursor: sqlite3.Cursor, key_fp: str, day: str, tokens: int) -> None:
        cursor.execute(
            "INSERT INTO spent VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens",
            (key_fp, day, tokens),
        )

    @staticmethod
    def _drop_own_dead(cursor: sqlite3.Cursor, key_fp: str, owner: str, here: str) -> None:
        rows = cursor.execute(
            "SELECT id, pid, born FROM lease WHERE key_fp = ? AND owner = ? AND host = ?",
            (key_fp, owner, here),
        ).fetchall()
        for lease, pid, born in rows:
            if birth(pid) != born:
                cursor.execute("DELETE FROM lease WHERE id = ?", (lease,))

    def _bury_the_dead(self, cursor: sqlite3.Cursor, key_fp: str, own: int, now: float) -> None:
        rows = cursor.execute(
            "SELECT id, day, host, pid, born, renewed, reserved FROM lease WHERE key_fp = ? AND id != ?",
            (key_fp, own),
        ).fetchall()
        for lease, day, host, pid, born, renewed, reserved in rows:
            here = host == os.uname().nodename
            if (birth(pid) != born) if here else (now - renewed > FOREIGN_LEASE_S):
                self._add_spent(cursor, key_fp, day, reserved)
                cursor.execute("DELETE FROM lease WHERE id = ?", (lease,))


def _token_share(budget: int | None, spent: int, elsewhere: int, standing: Standing, others: int) -> int:
    """Tokens a process may reserve: what it has reserved already, and a part of what is free."""
    wanted = standing.reserved + standing.needs
    if budget is None:
        return wanted
    free = budget - spent - elsewhere
    if not wanted or (standing.needs and free < wanted):
        # Nothing under way, or too little for the next call here: it may be enough elsewhere.
        return standing.reserved
    part = max(standing.needs, min(budget // PARTS, free // (2 * (others + 1))))
    return max(standing.reserved, min(free, standing.reserved + part))


Row = tuple[int, int, int, int, int | None]  # id, tokens, permits, wanted, most


def _strictest(own: int | None, others: list[Row]) -> int | None:
    """The least limit of those who call now: two starts may have been told different ones for a key."""
    told = [own, *(row[4] for row in others if row[2] or row[3])]
    return min((limit for limit in told if limit is not None), default=None)


def _permit_share(limit: int | None, own: int, others: list[Row], standing: Standing) -> int:
    """Permits of a process: what it wants where that is free, an equal share where there is not enough."""
    if limit is None:
        return standing.wants
    free = limit - sum(row[2] for row in others)
    if standing.wants + sum(row[3] for row in others) <= limit:
        return min(standing.wants, max(free, 0))
    wanting = sorted([own, *(row[0] for row in others if row[3] > 0)])
    base, rest = divmod(limit, len(wanting))
    share = base + (wanting.index(own) < rest)
    # Those who want less than their share leave the difference to the others.
    spare = sum(max(0, base - row[3]) for row in others if row[3] > 0)
    allowed = min(standing.wants, share + spare)
    return max(0, min(allowed, free))


def birth(pid: int) -> str | None:
    """When a process began, in clock ticks since boot: with its number an identity that is not reused."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _alive_elsewhere(pid)
    except OSError:
        return _alive_elsewhere(pid)
    return stat.rpartition(")")[2].split()[19]


def _alive_elsewhere(pid: int) -> str | None:
    """Without /proc a process number is all there is to go by."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return "0"
    return "0"


def file_system(path: Path) -> str:
    """The type of the file system that holds a path, as the mount table names it; empty where unknown."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    where = str(path.resolve())
    best = ("", "")
    for _device, point, kind, *_rest in mounts:
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]
