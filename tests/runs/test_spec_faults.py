"""experiment.yaml: every fault is three short lines with file, line, key, value and the nearest known name."""

from __future__ import annotations

from pathlib import Path

import pytest

from elometer.core.errors import ElometerError, NotSupportedYet, SpecError
from elometer.runs.spec import load_experiment

HEAD = "experiment_id: e\ngateway:\n  base_url: https://g.example\n"
AGENT = "agent:\n  model: m\n"


def fault(folder: Path, text: str | bytes, kind: type[ElometerError] = SpecError) -> ElometerError:
    file = folder / "experiment.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ElometerError) as caught:
        load_experiment(file)
    assert type(caught.value) is kind
    lines = caught.value.lines()
    assert len(lines) == 3
    assert all(line and "\n" not in line for line in lines)
    assert str(file) in caught.value.evidence
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        # unknown keys, with the nearest known one
        (HEAD + AGENT + "  temprature: 1\n", 6, ["agent.temprature", "Known here"]),
        (HEAD + AGENT + "sampling:\n  run: 3\n", 7, ["sampling.run", "Did you mean runs?"]),
        ("experiment_name: e\n", 1, ["experiment_name", "Did you mean experiment_id?"]),
        (HEAD + AGENT + "evals: {}\n", 6, ["evals", "Did you mean eval?"]),
        # duplicates
        (HEAD + AGENT + "  model: n\n", 6, ["agent.model", "twice", "lines 5 and 6"]),
        ("experiment_id: a\nexperiment_id: b\n", 2, ["twice", "lines 1 and 2"]),
        (HEAD + "taotoken: {}\n" + AGENT, 4, ["taotoken and gateway", "line 2"]),
        # wrong types
        (HEAD + AGENT + "sampling:\n  runs: three\n", 7, ["sampling.runs", "three", "whole number"]),
        (HEAD + AGENT + "sampling:\n  runs: true\n", 7, ["whole number"]),
        (HEAD + AGENT + "sampling:\n  runs: 2.5\n", 7, ["whole number", "2.5"]),
        (HEAD + AGENT + "sampling: 3\n", 6, ["sampling", "keys and values"]),
        (HEAD + AGENT + "  k_values: 4\n", 6, ["agent.k_values", "must be a list"]),
        (HEAD + AGENT + "  k_values: [1, two]\n", 6, ["agent.k_values[1]", "two"]),
        (HEAD + AGENT + "  system: [a]\n", 6, ["agent.system", "must be text"]),
        (HEAD + AGENT + "eval: {bradley_terry: 1}\n", 6, ["true or false"]),
        (HEAD + AGENT + "eval: {elo_scale: high}\n", 6, ["must be a number", "high"]),
        (HEAD + AGENT + "eval: {elo_scale: '400'}\n", 6, ["must be a number"]),
        ("experiment_id: [e]\n", 1, ["experiment_id", "text"]),
        # out of range
        (HEAD + AGENT + "sampling: {runs: 0}\n", 6, ["out of range", "from 1"]),
        (HEAD + AGENT + "  k_values: [1, 0]\n", 6, ["agent.k_values[1]", "out of range"]),
        (HEAD + AGENT + "  k_values: [2, 2]\n", 6, ["agent.k_values[1]", "twice"]),
        (HEAD + AGENT + "  k_values: []\n", 6, ["needs 1 or more"]),
        (HEAD + AGENT + "  params: {temperature: 3}\n", 6, ["temperature", "out of range"]),
        (HEAD + AGENT + "eval: {elo_scale: 0}\n", 6, ["out of range", "above 0"]),
        (HEAD + AGENT + "eval: {elo_scale: .inf}\n", 6, ["out of range"]),
        (HEAD + AGENT + "eval: {elo_scale: .nan}\n", 6, ["out of range"]),
        (HEAD + AGENT + "seed: -1\n", 6, ["seed", "out of range"]),
        ("experiment_id: Exp 1\n", 1, ["experiment_id", "Exp 1", "letters, digits"]),
        # closed sets
        (HEAD + AGENT + "  protocol: chats\n", 6, ["agent.protocol", "chats", "Did you mean chat?"]),
        (HEAD + AGENT + "eval: {ties: halves}\n", 6, ["eval.ties", "Did you mean half?"]),
        (HEAD + AGENT + "eval: {ties: no}\n", 6, ["eval.ties", "Known here: half, drop, davidson"]),
        # values that make no sense together
        (HEAD + AGENT + "  params: {temperature: 0}\n", 6, ["temperature 0", "sample_2"]),
        (HEAD + AGENT + "  params: {n: 4}\n", 6, ["agent.params.n", "separate requests"]),
        (HEAD + AGENT + "  params: {seed: 4}\n", 6, ["agent.params.seed", "derived"]),
        (HEAD + AGENT + "eval: {elo_anchor: sample_3}\n", 6, ["elo_anchor", "Did you mean"]),
        (HEAD + AGENT + "  strategies: [sample_1, sample_1]\n", 6, ["sample_1", "twice"]),
        (HEAD + AGENT + "  strategies: [best_of_4]\n", 6, ["best_of_4", "sample_K"]),
        (HEAD, 1, ["agent.model", "missing"]),
        (HEAD + "  key_boundary: {allowed_models: [a, b]}\n", 1, ["several models", "a, b"]),
        (HEAD + "  key_boundary: {allowed_models: []}\n", 4, ["allowed_models", "1 or more"]),
        (HEAD + "  key_boundary: {allowed_models: [mm]}\n" + AGENT, 6, ["outside", ": m", "mm?"]),
        (AGENT + "experiment_id: e\n", 1, ["taotoken.base_url", "missing"]),
        ("gateway:\n  base_url: https://g.example\n", 1, ["experiment_id", "missing"]),
        # URLs, times, zones
        ("experiment_id: e\ngateway:\n  base_url: g.example\n", 3, ["no http(s) URL", "g.example"]),
        ("experiment_id: e\ngateway:\n  base_url: ftp://g.example\n", 3, ["no http(s) URL"]),
        ("experiment_id: e\ngateway:\n  base_url: 'http://[::1'\n", 3, ["no URL"]),
        (HEAD + "  timezone: Europe/Berlim\n" + AGENT, 4, ["time zone", "Did you mean Europe/Berlin?"]),
        (HEAD + "  key_boundary: {expires_at: soon}\n", 4, ["neither a date", "soon"]),
        (HEAD + "  key_boundary: {expires_at: 2026-02-30}\n", 4, ["expires_at", "2026-02-30"]),
        (HEAD + "  key_boundary: {expires_at: 9999-12-31}\n" + AGENT, 4, ["expires_at"]),
        # YAML itself
        ("experiment_id: e\nagent:\n\tmodel: m\n", 3, ["not YAML", "tabs"]),
        ("experiment_id: 'e\n", 2, ["not YAML"]),
        ("- experiment_id: e\n", 1, ["a list"]),
        ("just words\n", 1, ["a single value"]),
        ("experiment_id: e\n---\nexperiment_id: f\n", 2, ["not YAML"]),
        ("experiment_id: e\n? [a]\n: b\n", 2, ["must be a word"]),
        ("experiment_id: e\nx-a: &a [*a]\n", 2, ["contains itself"]),
        ("experiment_id: *unknown\n", 1, ["not YAML"]),
    ],
)
def test_faults_name_line_key_and_value(tmp_path: Path, text: str, line: int, words: list[str]) -> None:
    error = fault(tmp_path, text)
    assert f"experiment.yaml:{line}" in error.evidence
    said = " | ".join(error.lines())
    for word in words:
        assert word in said
    assert error.exit_code == 2


@pytest.mark.parametrize("content", [b"", b"   \n\n", b"# nothing but words\n", b"\xef\xbb\xbf"])
def test_an_empty_file_says_how_to_begin(tmp_path: Path, content: bytes) -> None:
    error = fault(tmp_path, content)
    assert error.message == "The file is empty."
    assert "elometer init" in error.fix


def test_binary_and_foreign_encodings(tmp_path: Path) -> None:
    assert "UTF-8" in fault(tmp_path, b"experiment_id: \xff\xfe\n").message
    assert "not YAML" in fault(tmp_path, b"experiment_id: \x00\n").message
    assert "too large" in fault(tmp_path, b"#" * 2_000_000).message


def test_aliases_cannot_fill_the_memory(tmp_path: Path) -> None:
    text = 'x-0: &a0 ["lol", "lol"]\n'
    text += "".join(f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    assert "too large" in fault(tmp_path, text).message


def test_deep_nesting_is_no_crash(tmp_path: Path) -> None:
    fault(tmp_path, "x-a: " + "[" * 5000)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as missing:
        load_experiment(tmp_path / "absent.yaml")
    assert len(missing.value.lines()) == 3
    with pytest.raises(SpecError) as folder:
        load_experiment(tmp_path)
    assert "folder" in folder.value.message


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (AGENT + "  kind: command\n", "agent.kind"),
        (AGENT + "  kind: replay\n", "agent.kind"),
        (AGENT + "  select: judge\n", "agent.select"),
        (AGENT + "  strategies: [{name: j, samples: 2, select: judge}]\n", "agent.strategies[0]"),
        (AGENT + "  command: [claude, -p]\n", "agent.command"),
        (AGENT + "  limits: {tokens: 100}\n", "agent.limits.tokens"),
        (AGENT + "eval: {compare: judge}\n", "eval.compare"),
        (AGENT + "eval: {token_basis: output}\n", "eval.token_basis"),
        (AGENT + "eval: {bradley_terry: false}\n", "eval.bradley_terry"),
        (AGENT + "profiles: [{name: a, tool: codex}]\n", "profiles"),
        (AGENT + "archive: {redact: [emails]}\n", "archive.redact"),
    ],
)
def test_valid_keys_that_are_not_built_say_so(tmp_path: Path, text: str, key: str) -> None:
    error = fault(tmp_path, HEAD + text, NotSupportedYet)
    assert "not supported yet" in error.message
    assert key in error.evidence
    assert error.evidence.split(":")[1].isdigit()


def test_unbuilt_keys_at_their_defaults_are_fine(tmp_path: Path) -> None:
    text = (
        HEAD
        + AGENT
        + "  command: null\n  limits: {tokens: null}\nprofiles: []\nschedule: {canary_every: null}\n"
        + "sampling: {plan: independent, pool_size: null}\neval: {compare: score, token_basis: total}\n"
        + "stop: {spend_tokens: null, looks: [0.25, 0.5, 0.75, 1.0], on_stranger: pause}\n"
    )
    file = tmp_path / "experiment.yaml"
    file.write_text(text)
    load_experiment(file)


PLANTED = "sk-live-4f9A8b7C6d5E4f3A2b1C0d"


@pytest.mark.parametrize(
    "text",
    [
        f"experiment_id: e\ngateway:\n  base_url: https://g.example\n  key_label: {PLANTED}\n",
        f"experiment_id: e\ngateway:\n  base_url: https://g.example\n  key_env: {PLANTED}\n",
        f"experiment_id: e\ngateway:\n  base_url: https://g.example\n  api_key: {PLANTED}\n",
        f"experiment_id: e\ngateway:\n  base_url: https://user:{PLANTED}@g.example\n",
        f"experiment_id: e\ngateway:\n  base_url: {PLANTED}\n",
        f"experiment_id: {PLANTED}\n",
        f"experiment_id: e\ngateway: {PLANTED}\n",
        f"experiment_id: e\ngateway: [{PLANTED}\n",
        f"{PLANTED}: 1\n",
    ],
)
def test_a_pasted_key_is_never_repeated(tmp_path: Path, text: str) -> None:
    error = fault(tmp_path, text)
    assert PLANTED not in " ".join(error.lines())
