"""AWS's SDKs and command line, installed for the tests, and programs of them against the service.

    javascript/package-lock.json ── npm ci ────┐
    java/pom.xml                 ── mvn ───────┼─ once ─▶ .cache/sqs
    go/go.mod                    ── go build ──┘
    AWS_CLI                      ── uv ────────── once ─▶ .cache/pythons

``why_no_program`` says in a line what a machine lacks; its tests are skipped there.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.clients.typescript.package import run, why_no_modules
from tests.pythons import installed_pythons, python_with
from tests.rocketmq.broker_program import ROOT, why_not_fetched

HERE: Final = Path(__file__).resolve().parent
CACHE: Final = ROOT / ".cache" / "sqs"
AWS_CLI: Final = "awscli==1.46.2"
# Enough for programs that end within seconds.
JAVA: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_GO_S_MAX: Final = 300


@functools.cache
def why_no_program(kind: str) -> str:
    """Why no program of this kind can run here; empty when it can. The first call installs it."""
    return _INSTALLERS[kind]()


def run_round(kind: str, folder: Path, environ: Mapping[str, str]) -> list[str]:
    """What the program says that does everything once: a line for each thing that it has done."""
    match kind:
        case "aws-cli":
            command = [str(_aws_python()), str(HERE / "aws_round.py")]
        case "javascript":
            command = [
                "node",
                str(node_program(folder, (HERE / "javascript/round.mjs").read_text())),
            ]
        case "java":
            command = ["java", *JAVA, "-cp", java_path(), str(HERE / "java" / "Round.java")]
        case _:
            command = [str(CACHE / "go" / "round")]
    return run(command, cwd=folder, env=environ).splitlines()


def node_program(folder: Path, text: str) -> Path:
    """A module with the packages beside it."""
    (folder / "node_modules").symlink_to(CACHE / "javascript" / "node_modules")
    program = folder / "program.mjs"
    program.write_text(text)
    return program


def java_path() -> str:
    return str(CACHE / "java" / "lib" / "*")


def _aws_python() -> Path:
    return python_with(installed_pythons()[0], AWS_CLI)


def _why_no_aws() -> str:
    _aws_python()
    return ""


def _why_no_go() -> str:
    """Builds the program anew each time, which Go does from its cache."""
    if shutil.which("go") is None:
        return "AWS's SDK for Go is not run: there is no Go"
    target = CACHE / "go" / "round"
    build = ["go", "build", "-o", f"{target}.{os.getpid()}", "."]
    built = subprocess.run(
        build, cwd=HERE / "go", capture_output=True, text=True, timeout=_GO_S_MAX, check=False
    )
    if built.returncode:
        return (
            f"AWS's SDK for Go is not run: Go cannot build with it: {built.stderr.strip()[-300:]}"
        )
    Path(f"{target}.{os.getpid()}").replace(target)
    return ""


_INSTALLERS: Final[dict[str, Callable[[], str]]] = {
    "aws-cli": _why_no_aws,
    "javascript": lambda: why_no_modules(
        "AWS's SDK for JavaScript", HERE / "javascript", CACHE / "javascript"
    ),
    "java": lambda: why_not_fetched("AWS's SDK for Java", HERE / "java", CACHE / "java"),
    "go": _why_no_go,
}
KINDS: Final = tuple(_INSTALLERS)
