"""AWS's SDKs and command line as they are: each does everything once, and says what it has done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.sqs.programs import KINDS, run_round
from tests.sizes import in_torture
from tests.storage_engine.faults.machine import need_sqs_program

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
STEPS = [
    "created", "attributes", "batch", "long poll", "visibility", "redrive", "fifo", "refused",
    "deleted",
]  # fmt: skip


# boto3 does all of this in tests/mqservice/sqs; another language once more shows what it does not.
@pytest.mark.parametrize(
    "kind", ["javascript", *in_torture(*(kind for kind in KINDS if kind != "javascript"))]
)
def test_an_sdk_does_everything(kind: str, aws_environ: dict[str, str], tmp_path: Path) -> None:
    need_sqs_program(kind)
    assert run_round(kind, tmp_path, aws_environ | {"PREFIX": f"sdk-{kind}"}) == STEPS
