"""The model of SQS from before AWS JSON, so that boto3 speaks the query protocol.

.cache/botocore-query ── uv, once ──▶ data/sqs of botocore 1.29 ──▶ a loader of today's botocore
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
CACHE: Final = ROOT / ".cache" / "botocore-query"
VERSION: Final = "1.29.165"


def query_models() -> Path:
    """A folder with AWS's models of that time, of SQS only."""
    models = CACHE / VERSION
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other test processes wait for the one that fetches
        if not models.exists():
            _fetch(models)
    return models


def _fetch(models: Path) -> None:
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    packages = CACHE / "packages"
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
    subprocess.run([*command, f"botocore=={VERSION}"], check=True, timeout=300)
    part = models.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(packages / "botocore" / "data" / "sqs", part / "sqs")
    part.rename(models)
    shutil.rmtree(packages)
