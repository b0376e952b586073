"""Celery as it is, on ``sqs://``: retries, countdowns, and a worker that is killed half way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.mqservice.sqs.conftest import Desk
from tests.services import wait_until
from tests.sizes import in_torture, sized

SHOP = "tests.mqservice.sqs.celery_shop"
ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 240


class Shop:
    """The application against a running server."""

    def __init__(self, desk: Desk, directory: Path, *, is_predefined: bool) -> None:
        key_id, secret = desk.key()
        self.log = directory / "done"
        self.log.touch()
        self._output = directory / "output"
        address = desk.server.url.removeprefix("http://")
        self._environment = {
            **os.environ,
            "SHOP_BROKER": f"sqs://{key_id}:{quote(secret, safe='')}@{address}",
            "SHOP_LOG": str(self.log),
        }
        if is_predefined:
            url = desk.client().create_queue(QueueName="shop")["QueueUrl"]
            queue = {"url": url, "access_key_id": key_id, "secret_access_key": secret}
            self._environment["SHOP_QUEUES"] = json.dumps({"shop": queue})

    def send(self, count: int) -> None:
        command = [sys.executable, "-m", SHOP, str(count)]
        subprocess.run(command, env=self._environment, cwd=ROOT, check=True, timeout=WAIT_S)

    def start_worker(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "celery", "-A", SHOP, "worker", "-c", "2", "-l", "INFO"]
        with self._output.open("ab") as output:
            return subprocess.Popen(
                command,
                env=self._environment,
                cwd=ROOT,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def done(self) -> dict[int, int]:
        """Retries of each order that is done."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return {int(number): int(retries) for number, retries in lines}

    def wait_for(self, count: int, worker: subprocess.Popen[bytes]) -> None:
        def is_over() -> bool:
            return len(self.done()) >= count or worker.poll() is not None

        wait_until(is_over, WAIT_S, f"{count} orders are done")
        assert len(self.done()) >= count, self._output.read_text()[-5_000:]


def end(worker: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """The worker with its children, or in order by itself."""
    if how is signal.SIGKILL:
        os.killpg(worker.pid, how)
    else:
        worker.send_signal(how)
    worker.wait(60)


@pytest.mark.torture
@pytest.mark.parametrize("is_predefined", [False, *in_torture(True)])
def test_no_task_is_lost_when_a_worker_is_killed(
    desk: Desk, tmp_path: Path, is_predefined: bool
) -> None:
    count = sized(60, torture=5_000)
    shop = Shop(desk, tmp_path, is_predefined=is_predefined)
    shop.send(count)
    worker = shop.start_worker()
    try:
        shop.wait_for(count // 3, worker)
    finally:
        end(worker, signal.SIGKILL)
    assert len(shop.done()) < count
    worker = shop.start_worker()
    try:
        shop.wait_for(count, worker)
    finally:
        end(worker, signal.SIGTERM)
    done = shop.done()
    assert set(done) == set(range(count))
    assert {number for number, retries in done.items() if retries} == set(range(0, count, 7))
