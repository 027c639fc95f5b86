"""Start-up files: real assignments only. Expected values follow from POSIX and bash rules, read by hand."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.checks.rcfiles import Assignment, assignments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("export A=1", [("A", "1")]),
        ("  export A='x y'  # note", [("A", "x y")]),
        ('A="x"', [("A", "x")]),
        ("export A=1 B=2", [("A", "1"), ("B", "2")]),
        ("export A=1; export C=3", [("A", "1"), ("C", "3")]),
        ("[ -f x ] && export A=1", [("A", "1")]),
        ("if true; then export A=1; fi", [("A", "1")]),
        ("declare -x A=1", [("A", "1")]),
        ("export A=$HOME/x", [("A", None)]),
        ("export A='$HOME'", [("A", "$HOME")]),
        ('export A="$(pass show k)"', [("A", None)]),
        ("# export A=1", []),
        ("echo A=1", []),
        ('echo "export A=1"', []),
        ("A=1 command", []),
        ("if [ A=1 ]; then", []),
        ("alias a='A=1'", []),
        ("cat <<EOF\nexport A=1\nEOF\nexport B=2", [("B", "2")]),
        ("export A=\\\n1", [("A", "1")]),
        ("export A", []),
    ],
)
def test_assignments_of_a_line(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert [(item.name, item.value) for item in assignments(text)] == expected


def test_unset_and_line_numbers() -> None:
    assert list(assignments("\nunset A B\nexport C=1\n")) == [
        Assignment("A", None, 2, unset=True),
        Assignment("B", None, 2, unset=True),
        Assignment("C", "1", 3),
    ]


def test_fish() -> None:
    found = list(assignments("set -gx A one\nset -l x 1\n# set -gx B 2", fish=True))
    assert [(item.name, item.value) for item in found] == [("A", "one"), ("x", "1")]


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    list(assignments(text))
    list(assignments(text, fish=True))


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20))
def test_a_quoted_value_reads_as_the_shell_reads_it(value: str) -> None:
    quoted = "'" + value.replace("'", "'\"'\"'") + "'"
    (found,) = assignments(f"export PLANTED={quoted}")
    assert found.value == value


def test_values_agree_with_a_real_shell() -> None:
    text = "export A=plain\nexport B='two words'\nexport C=\"dq\"\nexport D=a\\ b\nexport E=x#y\nexport F=1;export G=2\n"
    script = text + 'printf "%s\\n" "$A" "$B" "$C" "$D" "$E" "$F" "$G"'
    shown = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [item.value for item in assignments(text)] == shown
