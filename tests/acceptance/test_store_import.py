"""A store of RocketMQ becomes a namespace of a new installation, which is then started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from mqservice.supervisor.data_dir import DataDir
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from tests.services import (
    PROGRAM,
    client_of,
    consume,
    run_mqservice,
    run_up,
    running_service,
    service_environment,
    wait_until,
)
from tests.storage_engine.rocketmq_store import RocketmqStore
from tests.storage_engine.tools.test_store_import import add_timer, hashes, properties

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
NAMESPACE = "demo"  # that of the key which the first start makes
WAIT_S = 120
MINUTE_MS = 60_000


def source_of(path: Path) -> Path:
    """Two topics, a group half way, a retry, a dead letter, a delayed message and a timer."""
    theirs = RocketmqStore(segment_bytes=1 << 20, stored_ms=time.time_ns() // 10**6 - MINUTE_MS)
    for number in range(40):
        theirs.add(b"order %d" % number, topic="imported", queue_id=number % 2)
    retried = properties(RETRY_TOPIC="imported", ORIGIN_MESSAGE_ID="X", UNIQ_KEY="R")
    theirs.add(b"again", topic="%RETRY%readers", properties=retried)
    theirs.add(b"dead", topic="%DLQ%readers", properties=retried)
    asked = properties(REAL_TOPIC="imported", DELAY="1", REAL_QID="0", UNIQ_KEY="D")
    theirs.add(b"delayed", topic=SCHEDULE_TOPIC, queue_id=0, properties=asked)
    add_timer(theirs, b"timer", theirs.stored_ms, REAL_TOPIC="imported")
    theirs.offsets = {"imported@readers": {0: 15, 1: 20}}
    return theirs.write(path)


def import_store(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_mqservice(data_dir, "import-store", *arguments)


def kill_while_it_imports(data_dir: Path, *arguments: str) -> None:
    importing = subprocess.Popen(
        [*PROGRAM, "import-store", *arguments], env=service_environment(data_dir)
    )
    try:
        wait_until((data_dir / "store.restoring").is_dir, WAIT_S, "it imports")
    finally:
        importing.send_signal(signal.SIGKILL)
        importing.wait(10)


@pytest.mark.torture
def test_an_imported_namespace_continues_where_the_broker_stopped(tmp_path: Path) -> None:
    source, data_dir = source_of(tmp_path / "source"), tmp_path / "data"
    before = hashes(source)
    arguments = (str(source), f"--namespace={NAMESPACE}")
    shown = import_store(data_dir, *arguments)
    assert (shown.returncode, data_dir.exists()) == (0, False), shown.stderr
    assert "nothing was imported: add --yes to import it" in shown.stderr
    kill_while_it_imports(data_dir, *arguments, "--yes")
    refused = run_up(data_dir)
    assert (refused.returncode, "run it again" in refused.stderr) == (2, True), refused.stderr
    done = import_store(data_dir, *arguments, "--yes")
    assert done.returncode == 0, done.stderr
    assert "imported and compared: 44 messages" in done.stderr
    assert hashes(source) == before
    again = import_store(data_dir, *arguments, "--yes")
    assert (again.returncode, "is not empty" in again.stderr) == (2, True), again.stderr
    assert DataDir(data_dir).store.stat().st_mode & 0o077 == 0
    with running_service(data_dir) as service:
        found = consume(service.facts, "imported", "readers", count=8, wait=f"{WAIT_S}s")
        bodies = [message.text for message in found]
        assert sorted(bodies) == sorted(
            [*(f"order {number}" for number in range(30, 40, 2)), "again", "delayed", "timer"]
        )
        with client_of(service.facts) as mq:
            assert "imported" in {topic.name for topic in mq.topics.iterate()}
            assert [letter.content for letter in mq.dead_letters.iterate("readers")] == [b"dead"]


def test_the_environment_is_left_as_it_was_where_nothing_is_imported(tmp_path: Path) -> None:
    missing = import_store(tmp_path / "data", str(tmp_path / "none"), "--namespace=x", "--yes")
    assert missing.returncode == 2
    assert "is not a directory" in missing.stderr
    assert os.listdir(tmp_path) == []
