"""A gateway that reports no usage: a start counts with the profile's tokenizer, and says so everywhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from tests.e2e.workspace import Workspace

KEY = "sk-planted-missing-usage-01"


class Silent(BaseHTTPRequestHandler):
    """Answers every chat with three words and never with usage."""

    protocol_version = "HTTP/1.1"
    paths: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        type(self).paths.append(self.path)
        chat = self.path.endswith("/chat/completions")
        chunks: list[object] = [
            *({"index": 0, "delta": {"content": word}} for word in ("it ", "is ", "42")),
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        ]
        events = [{"id": f"c{len(self.paths)}", "model": "m", "choices": [chunk]} for chunk in chunks]
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        data = body.encode() if chat else b'{"error": {"message": "Not Found"}}'
        self.send_response(200 if chat else 404)
        self.send_header("content-type", "text/event-stream" if chat else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing on the test's screen."""


@pytest.fixture
def silent() -> Iterator[tuple[str, list[str]]]:
    paths: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("One", (Silent,), {"paths": paths}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()


def experiment(place: Workspace, root: str, tokenizer: str | None) -> Path:
    folder = place.experiments / "silent"
    folder.mkdir(parents=True)
    spec = {
        "experiment_id": "silent",
        "seed": 3,
        "gateway": {
            "base_url": root,
            "key_env": "SILENT_KEY",
            "key_boundary": {
                "allowed_models": ["m"],
                "max_concurrency": 2,
                "daily_budget_tokens": 100_000,
            },
        },
        "agent": {
            "model": "m",
            "profile": "p",
            "params": {"max_tokens": 50},
            "strategies": ["sample_1", "sample_2"],
        },
        "eval": {"tasks_file": "tasks.jsonl"},
        "sampling": {"runs": 1},
    }
    (folder / "experiment.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    tasks = [
        {"id": f"t{n}", "prompt": "six times seven", "answer": "42", "grader": "numeric"} for n in (1, 2)
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    store = place.home / "config" / "elometer"
    store.mkdir(parents=True, mode=0o700)
    line = f"tokenizer = {json.dumps(tokenizer)}\n" if tokenizer else ""
    (store / "profiles.toml").write_text(
        f'[[profiles]]\nname = "p"\ntool = "openai-compatible"\nbase_url = "{root}"\n{line}'
    )
    return folder


def test_the_profiles_tokenizer_counts_and_the_result_says_so(
    place: Workspace, silent: tuple[str, list[str]]
) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the extra 'tokenizers' is not installed")
    root, paths = silent
    folder = experiment(place, root, "words.json")
    words = {word: number for number, word in enumerate(("six", "times", "seven", "it", "is", "42", "?"))}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.save(str(place.home / "config" / "elometer" / "words.json"))
    done = place.run("run", folder, "--plain", SILENT_KEY=KEY)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (folder / "token_ledger.jsonl").read_text().splitlines()]
    # Three words in, three words out; 2 tasks x (1 + 2) calls.
    assert [(line["prompt_tokens"], line["completion_tokens"]) for line in lines] == [(3, 3)] * 6
    assert {line["usage_source"] for line in lines} == {"local-tokenizer"}
    assert {line["tokenizer"].partition("@")[0] for line in lines} == {"words.json"}
    assert {(line["usage_final"], *line["usage_flags"]) for line in lines} == {
        (False, "template_not_counted")
    }
    assert set(paths) == {"/v1/chat/completions"}
    totals = json.loads(place.run("ledger", "totals", folder, "--json").stdout)
    assert [(row["total_tokens"], row["estimated_tokens"]) for row in totals] == [(12, 12), (24, 24)]


def test_a_tokenizer_that_is_not_there_stops_the_start_before_a_call(
    place: Workspace, silent: tuple[str, list[str]]
) -> None:
    root, paths = silent
    folder = experiment(place, root, "none.json")
    done = place.run("run", folder, "--plain", SILENT_KEY=KEY)
    assert done.returncode == 2
    assert "none.json" in done.stderr and "Traceback" not in done.stderr
    assert paths == []


def test_without_anybody_who_counts_it_is_an_estimate(
    place: Workspace, silent: tuple[str, list[str]]
) -> None:
    root, paths = silent
    folder = experiment(place, root, None)
    done = place.run("run", folder, "--plain", SILENT_KEY=KEY)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (folder / "token_ledger.jsonl").read_text().splitlines()]
    assert {(line["usage_source"], line["tokenizer"]) for line in lines} == {("estimated", None)}
    assert paths.count("/v1/chat/completions") == 6
    assert paths.count("/apply-template") == 1 and "/tokenize" not in paths and "/slots" not in paths
