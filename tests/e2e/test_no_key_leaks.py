"""A planted key value is in no file, no output, no argument list, no event."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.e2e.test_bad_input import PLAIN, write
from tests.e2e.workspace import Workspace

from elometer.core.limits import Boundary
from elometer.gateway.demo.server import create_app, serve_in_thread

KEY = "sk-planted-8c1f0a7d55e94b3c"


def files_with(value: bytes, *roots: Path) -> list[Path]:
    found = []
    for root in roots:
        found += [path for path in root.rglob("*") if path.is_file() and value in path.read_bytes()]
    return found


def test_a_real_start_never_writes_the_key(place: Workspace) -> None:
    boundary = Boundary(allowed_models=("m",), max_concurrency=4)
    with serve_in_thread(create_app(seed=1, keys={KEY: boundary}, latency=(0.01, 0.02))) as url:
        spec = write(place.home / "x", PLAIN.format(url=url))
        process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        argv = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert KEY not in out + err
    assert KEY.encode() not in argv
    assert files_with(KEY.encode(), place.home) == []


def test_an_error_body_that_echoes_the_key_is_masked(place: Workspace) -> None:
    async def refuse(_request: Request) -> JSONResponse:
        error = {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}
        return JSONResponse({"error": error}, status_code=401, headers={"x-request-id": KEY})

    app = Starlette(routes=[Route("/{path:path}", refuse, methods=["GET", "POST"])])
    app.state.prefix = ""
    with serve_in_thread(app) as url:
        done = place.run(
            "run", write(place.home / "x", PLAIN.format(url=url)), "--plain", TAOTOKEN_API_KEY=KEY
        )
    assert done.returncode == 3, done.stderr
    assert KEY not in done.stdout + done.stderr
    assert files_with(KEY.encode(), place.home) == []
