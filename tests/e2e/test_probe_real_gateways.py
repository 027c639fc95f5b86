"""`elometer probe` against servers that nobody here wrote: LiteLLM and llama.cpp.

ELOMETER_LITELLM names a `litellm` program (1.82.6 and 1.108.5 were used), ELOMETER_REAL_MODEL_PYTHON the
interpreter of tests/e2e/real_model/install.sh. Run with `pytest -m real_gateways`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real_gateways

LITELLM = os.environ.get("ELOMETER_LITELLM", "")
PYTHON = os.environ.get("ELOMETER_REAL_MODEL_PYTHON", "")
KEY = "sk-planted-gateway-0123456789"
SERVE = Path(__file__).parent / "real_model" / "serve.py"
CONFIGURATION = """
model_list:
  - model_name: mock-a
    litellm_params: {model: openai/mock-a, api_key: none, mock_response: "ok"}
general_settings: {master_key: os.environ/PLANTED_KEY}
litellm_settings: {num_retries: 0, telemetry: false}
"""


def probe(tmp_path: Path, *arguments: str, key: str = KEY) -> tuple[int, dict[str, dict[str, Any]]]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", "K": key}
    command = [sys.executable, "-m", "elometer", "probe", "--json", "--key-env", "K", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert key not in done.stdout + done.stderr
    return done.returncode, {row["id"]: row for row in json.loads(done.stdout)}


def free_port() -> int:
    with socket.socket() as probe_socket:
        probe_socket.bind(("127.0.0.1", 0))
        return int(probe_socket.getsockname()[1])


@pytest.fixture(scope="module")
def litellm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not Path(LITELLM).is_file():
        pytest.skip("ELOMETER_LITELLM names no program")
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "config.yaml").write_text(CONFIGURATION)
    port = free_port()
    environment = os.environ | {
        "PLANTED_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "DISABLE_ADMIN_UI": "True", "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    arguments = [LITELLM, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(
        arguments, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield wait_for(f"http://127.0.0.1:{port}", "/health/liveliness", process)
        finally:
            process.terminate()


def wait_for(root: str, path: str, process: subprocess.Popen[bytes]) -> str:
    """The root, once the server answers; its start was seen to take 4 to 96 seconds."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(root + path, timeout=2):
                return root
        except OSError:
            time.sleep(0.2)
    pytest.fail("the server did not start")


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    if not Path(PYTHON).is_file():
        pytest.skip("ELOMETER_REAL_MODEL_PYTHON names no interpreter")
    arguments = [PYTHON, SERVE, "--port", "0", "--key-env", "PLANTED_KEY", "--seconds", "300"]
    with subprocess.Popen(
        arguments, env=os.environ | {"PLANTED_KEY": KEY}, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["base_url"]
        finally:
            process.kill()


def assert_all_protocols(rows: dict[str, dict[str, Any]]) -> None:
    # LiteLLM's mock answers messages with a constant id, which is rightly told.
    others = {row["status"] for name, row in rows.items() if name != "live.cache"}
    assert others == {"pass"}
    assert "POST /v1/chat/completions (Authorization: Bearer) → 200" in rows["probe.chat"]["evidence"][0]
    assert "POST /v1/messages (x-api-key) → 200" in rows["probe.messages"]["evidence"][0]
    assert "POST /v1/responses (Authorization: Bearer) → 200" in rows["probe.responses"]["evidence"][0]


def test_litellm(tmp_path: Path, litellm: str) -> None:
    code, rows = probe(tmp_path, "--base-url", litellm)
    assert code == 0
    assert_all_protocols(rows)


def test_litellm_with_a_doubled_version(tmp_path: Path, litellm: str) -> None:
    code, rows = probe(tmp_path, "--base-url", f"{litellm}/v1/v1")
    assert code == 3
    assert rows["live.path"]["fix"] == f"Set base_url to {litellm}"


def test_litellm_unknown_model(tmp_path: Path, litellm: str) -> None:
    code, rows = probe(tmp_path, "--base-url", litellm, "--model", "mock-b")
    assert code == 3
    assert rows["live.models"]["status"] == "fail"
    assert "mock-a" in rows["live.models"]["fix"]


def test_llama_cpp(tmp_path: Path, llama: str) -> None:
    code, rows = probe(tmp_path, "--base-url", llama)
    assert code == 0
    assert_all_protocols(rows)


def test_llama_cpp_wrong_key(tmp_path: Path, llama: str) -> None:
    code, rows = probe(
        tmp_path, "--base-url", llama, "--model", "smollm2-135m", key="sk-another-0123456789ab"
    )
    assert code == 3
    assert rows["live.key"]["status"] == "fail"
    assert "bad_key" in rows["live.key"]["evidence"][0]
