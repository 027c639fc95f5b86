"""Real starts as processes of their own, in a workspace that a test throws away."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Workspace:
    """A home, a workspace and the environment that points a process at both."""

    home: Path

    @property
    def experiments(self) -> Path:
        return self.home / "bt-eval"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {
            name: os.environ[name] for name in ("PATH", "LANG", "OPENBLAS_CORETYPE") if name in os.environ
        }
        return {
            **kept,
            "HOME": str(self.home),
            "ELOMETER_HOME": str(self.experiments),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
            **more,
        }

    def start(self, *arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
        """A command under way."""
        return subprocess.Popen(
            [sys.executable, "-m", "elometer", *map(str, arguments)],
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
        )

    def run(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command and what it came to."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def small_demo(self, name: str, *, seed: int = 7, tasks: int = 4, runs: int = 1) -> Path:
        """A demo experiment that a start brings to its end in a few seconds."""
        from elometer.gateway.demo.experiment import demo_experiment

        folder = self.experiments / name
        folder.mkdir(parents=True, mode=0o700)
        spec, lines = demo_experiment(seed, experiment_id=name, tasks=tasks, runs=runs)
        (folder / "experiment.yaml").write_text(spec)
        (folder / "tasks.jsonl").write_text(lines)
        return folder
