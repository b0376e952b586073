"""The sample application does what it says, again and again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.clients.python.conftest import Target

EXAMPLE = Path(__file__).parents[3] / "clients" / "examples" / "orders.py"


def run_shop(cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: text for name, text in os.environ.items() if not name.startswith("MQ_")}
    return subprocess.run(
        [sys.executable, EXAMPLE, "--orders", "10"],
        cwd=cwd, env=known | environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_every_order_comes_to_its_end(service: Target, tmp_path: Path) -> None:
    for run in range(2):
        done = run_shop(tmp_path, MQ_BASE_URL=service.base_url, MQ_API_KEY=service.api_key)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert "9 of 10 orders: paid, with a receipt" in lines
        assert "1 of 10 orders: declined" in lines
        assert f"  order {8 * (run + 1)}: the bank is busy, attempt 2" in lines
        assert sum("receipt sent" in line for line in lines) == 9
        assert f"  order-{10 * run + 7}: card expired" in lines


def test_without_a_service_it_says_what_to_do(tmp_path: Path) -> None:
    done = run_shop(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("There is no var/quickstart.json here: start the service with")
