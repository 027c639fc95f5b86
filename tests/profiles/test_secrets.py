"""Keys: where they come from, what is wrong with them, and that they never show."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.core.errors import AccessError, UsageError, VerificationError
from elometer.core.redact import Secret, redact
from elometer.jobs import profiles as job
from elometer.profiles import seal as sealing
from elometer.profiles import secrets
from elometer.profiles.model import Key
from elometer.profiles.store import Store

REAL = "sk-real-0123456789abcdef"


@pytest.mark.parametrize(
    "value",
    [
        *(
            "YOUR_API_KEY",
            "your-api-key",
            "<your key>",
            "${API_KEY}",
            "sk-xxxx",
            "xxxxxxxx",
            "sk-...",
            "changeme",
        ),
        *(
            "YOUR_TAOTOKEN_API_KEY",
            "your_key_here",
            "sk-your-key",
            "PROXY_MANAGED",
            "api_key_here",
            "'YOUR_API_KEY'",
        ),
    ],
)
def test_placeholders_are_known(value: str) -> None:
    assert secrets.is_placeholder(value)
    assert any(p.severity == "fail" for p in secrets.key_problems(value))


@pytest.mark.parametrize(
    "value", [REAL, "tt-8f3kd93kf93kfk3", "0123456789abcdef0123456789abcdef", "key-of-mine-1234"]
)
def test_keys_are_not_taken_for_placeholders(value: str) -> None:
    assert secrets.key_problems(value) == []


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (REAL + "\n", "newline"),
        (REAL + "\r", "newline"),
        (" " + REAL, "whitespace"),
        ("sk-a b-0123456789", "whitespace"),
        (REAL + "\t", "whitespace"),
        (f'"{REAL}"', "quotes"),
        (f"“{REAL}”", "quotes"),
        (REAL + "\x00", "control"),
        (REAL + "\x7f", "control"),
        (f"Bearer {REAL}", "bearer"),
        (f"bearer {REAL}", "bearer"),
        (REAL + "é", "non-ascii"),
        (REAL + "\u200b", "non-ascii"),
        ("sk-A", "short"),
        ("", "empty"),
        ("  ", "empty"),
    ],
)
def test_what_is_wrong_with_a_key_is_named_without_showing_it(value: str, code: str) -> None:
    problems = secrets.key_problems(value)
    assert code in [problem.code for problem in problems]
    assert not any(REAL in problem.message + problem.fix for problem in problems)


def test_sources_give_the_value(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", REAL)
    file = home / "key.txt"
    file.write_bytes(b"\xef\xbb\xbf" + REAL.encode() + b"\r\n")
    ring = ModuleType("keyring")
    ring.get_password = lambda service, user: REAL if (service, user) == ("s", "u/x") else None  # type: ignore[attr-defined]
    ring.errors = ModuleType("errors")  # type: ignore[attr-defined]
    ring.errors.KeyringError = OSError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    words = json.dumps([sys.executable, "-c", f"print('{REAL}')"])
    for source in (
        "env:MY_KEY",
        "file:~/key.txt",
        f"cmd:{words}",
        f"cmd:{sys.executable} -c 'print(\"{REAL}\")'",
        "keyring:s/u/x",
        secrets.store_secret("lab", REAL),
    ):
        assert secrets.resolve(source).reveal() == REAL
    assert stat.S_IMODE((home / ".config/elometer/secrets.toml").stat().st_mode) == 0o600


def test_a_command_is_no_shell(home: Path) -> None:
    assert secrets.resolve("cmd:echo $HOME;id").reveal() == "$HOME;id"


@pytest.mark.parametrize(
    "source",
    [
        *("env:NOT_SET", "file:/nowhere/key", "cmd:false", "cmd:no-such-program-here", "store:none"),
        *("cmd:true", "file:/"),
    ],
)
def test_a_source_without_a_key_is_an_access_error(home: Path, source: str) -> None:
    with pytest.raises(AccessError) as caught:
        secrets.resolve(source)
    assert caught.value.exit_code == 3 and len(caught.value.lines()) == 3


@pytest.mark.parametrize(
    "source", ["", "sk-pasted-here-0123", "env:", "env:A B", "keyring:x", "vault:x", "cmd:'"]
)
def test_what_is_no_source_is_refused_without_repeating_it(source: str) -> None:
    with pytest.raises(UsageError) as caught:
        secrets.resolve(source)
    assert "sk-pasted" not in "".join(caught.value.lines())


def test_the_keyring_extra_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(UsageError) as caught:
        secrets.resolve("keyring:s/u")
    assert "elometer[keyring]" in caught.value.fix


def test_fingerprints_are_of_this_installation_alone(home: Path) -> None:
    one = secrets.fingerprint(REAL)
    assert len(one) == 8 and one == secrets.fingerprint(Secret(REAL + "\n"))
    assert one != secrets.fingerprint(REAL + "x")
    path = home / ".config/elometer/install.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    assert secrets.fingerprint(REAL) != one


def test_threads_agree_on_one_install_secret(home: Path) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(secrets.install_secret())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 8
    assert [p.name for p in (home / ".config/elometer").iterdir()] == ["install.secret"]


def test_the_same_key_under_two_labels_is_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONE", REAL)
    monkeypatch.setenv("TWO", REAL)
    monkeypatch.setenv("PLACE", "YOUR_API_KEY")
    for label, variable in (("a", "ONE"), ("b", "TWO"), ("p", "PLACE"), ("q", "PLACE")):
        job.add_key(label, source=f"env:{variable}")
    assert job.same_key_labels(list(job.key_states(Store.load()).values())) == [("a", "b")]


def test_the_key_is_looked_up_in_the_founding_order(home: Path) -> None:
    store = Store(home / "p.toml")
    store.set_key(Key("lab", "env:LAB_KEY"))
    everywhere = {"EXP_KEY": REAL + "1", "LAB_KEY": REAL + "2", "TAOTOKEN_API_KEY": REAL + "3"}
    for gone, (value, source) in (
        ((), (REAL + "1", "env:EXP_KEY")),
        (("EXP_KEY",), (REAL + "2", "env:LAB_KEY")),
    ):
        environ = {k: v for k, v in everywhere.items() if k not in gone}
        secret, told = secrets.lookup_key("EXP_KEY", "lab", environ, store)
        assert (secret.reveal(), told) == (value, source)
    secret, told = secrets.lookup_key(None, "unknown", everywhere, store)
    assert (secret.reveal(), told) == (REAL + "3", "env:TAOTOKEN_API_KEY")
    with pytest.raises(AccessError) as caught:
        secrets.lookup_key("EXP_KEY", "unknown", {}, store)
    assert len(caught.value.lines()) == 3 and caught.value.exit_code == 3
    with pytest.raises(AccessError, match="placeholder"):
        secrets.lookup_key("EXP_KEY", None, {"EXP_KEY": "YOUR_API_KEY"}, store)


def test_a_value_never_enters_by_argument(home: Path) -> None:
    job.add_key("a", value=REAL)
    assert REAL not in (home / ".config/elometer/profiles.toml").read_text()
    assert redact(f"x {REAL} y") == "x [redacted] y"
    with pytest.raises(UsageError, match="placeholder"):
        job.set_key_source("a", value="YOUR_API_KEY")
    job.remove_key("a")
    assert REAL not in (home / ".config/elometer/secrets.toml").read_text()


@settings(max_examples=60)
@given(data=st.binary(max_size=200), at=st.integers(0, 10**6))
def test_sealed_copies_open_again_and_only_whole(
    data: bytes, at: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.getbasetemp() / "seal")
    try:
        sealed = sealing.seal(data)
        assert sealing.unseal(sealed) == data
        assert sealing.seal(data) != sealed
        broken = bytearray(sealed)
        broken[at % len(broken)] ^= 1
        with pytest.raises(VerificationError):
            sealing.unseal(bytes(broken))
    finally:
        del os.environ["XDG_CONFIG_HOME"]


def test_what_the_secret_store_holds_besides_stays_and_leftovers_go(home: Path) -> None:
    secrets.store_secret("a", REAL)
    path = secrets.secret_store_path()
    path.write_text(path.read_text() + "\n[later]\nx = 1\n")
    left = path.with_name(".secrets.toml.0123456789ab.tmp")
    left.write_text(REAL)
    secrets.store_secret("b", REAL + "2")
    assert "[later]" in path.read_text() and not left.exists()
