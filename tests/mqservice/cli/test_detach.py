"""``mqservice shard detach`` as an operator runs it: what it refuses, and what it leaves behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from django.utils import timezone
from psycopg.conninfo import conninfo_to_dict

from mqservice.accounts.models import Namespace
from mqservice.lib.replicated_log import REPLICATED_LOG_VARIABLE
from mqservice.shards.models import Shard
from mqservice.topics.models import Topic
from storage_engine.client import Durability, TopicConfig, encode_record
from tests.mqservice.cli.commands import Ended, run
from tests.people import People
from tests.storage_engine.doubles import fingerprint, message
from tests.storage_engine.replication.takeovers import Shard as Engines
from tests.storage_engine.tools.test_backup import serious_findings

SHARD: Final = "s2"


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """The log of a shard with one replicated topic, whose owner has stopped in order."""
    with Engines(MQ_ENGINE_SHARD=SHARD) as owner:
        with owner.client() as client:
            client.topic_put(
                TopicConfig(topic="acme%orders", queue_count=1, durability=Durability.REPLICATED)
            )
            results = client.put(
                [encode_record(message(b"%d" % number, topic="acme%orders")) for number in range(9)]
            )
        assert [each.error for each in results] == [None] * 9
        assert owner.stop() == 0
        yield owner


class Machine:
    """One with an empty disk, which reaches the database and the log."""

    def __init__(self, path: Path, dsn: str, log: Path) -> None:
        parts = conninfo_to_dict(dsn)
        self.path = path
        self.store = path / "shards" / SHARD / "store"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MQ_")}
        self.environ = clean | {
            "DATABASE_URL": "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(**parts),
            "MQ_SECRET_KEY": "k" * 40,
            "MQ_DATA_DIR": str(path),
            REPLICATED_LOG_VARIABLE: log.as_uri(),
            "MQ_ENGINE_SEGMENT_BYTES": "65536",
        }

    def detach(self, *arguments: str, **variables: str) -> Ended:
        return run(("shard", "detach", *arguments), self.environ | variables)


@pytest.fixture
def machine(engines: Engines, test_dsn: str, people: People, tmp_path: Path) -> Machine:
    """Its log is a copy that the test may end."""
    shutil.copytree(engines.log_dir, tmp_path / "log")
    people.acme.shard = SHARD
    people.acme.save()
    Topic.objects.create(
        namespace=Namespace.objects.get(name="acme"), name="orders", durability="replicated"
    )
    Shard.objects.create(name=SHARD, owner="node-a", epoch=1, address="tcp://a:1")
    return Machine(tmp_path / "data", test_dsn, tmp_path / "log")


def topic() -> Topic:
    return Topic.objects.get(name="orders")


def test_a_detached_shard_is_a_store_of_this_machine(machine: Machine) -> None:
    before = fingerprint(machine.path.parent / "log")
    shown = machine.detach(SHARD, "--dry-run")
    assert (shown.code, "no node has s2" in shown.err) == (0, True), shown.err
    assert f"downloaded into {machine.store}" in shown.err
    assert fingerprint(machine.path.parent / "log") == before
    assert not machine.store.exists()
    assert topic().durability == "replicated"

    done = machine.detach(SHARD)
    assert done.code == 0, done.err
    assert f"{machine.store} has all of s2" in done.line
    assert "`mqservice up` and MQ_SHARDS=main,s2, without MQ_REPLICATED_LOG" in done.line
    assert topic().durability == "sync"
    assert Shard.objects.get(name=SHARD).owner == ""

    assert serious_findings(machine.store) == []

    shutil.rmtree(machine.path)  # the disk is lost
    refused = machine.detach(SHARD)
    assert (refused.code, "left this replicated log" in refused.line) == (1, True), refused.err
    again = machine.detach(SHARD, "--again")
    assert (again.code, f"{machine.store} has all of s2" in again.err) == (0, True), again.err
    assert serious_findings(machine.store) == []


def test_nothing_is_detached_while_a_node_has_the_shard(machine: Machine) -> None:
    before = fingerprint(machine.path.parent / "log")
    Shard.objects.update(heartbeat_at=timezone.now() + timedelta(minutes=1))  # however slow this is
    for options in ((), ("--dry-run",)):
        busy = machine.detach(SHARD, *options)
        assert (busy.code, "mqservice: node-a has s2" in busy.line) == (6, True), busy.err
    assert not machine.store.exists()
    assert fingerprint(machine.path.parent / "log") == before
    assert topic().durability == "replicated"
    Shard.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert (machine.detach(SHARD)).code == 0


@pytest.mark.parametrize("name", ["", "main,s2", "s2=tcp://127.0.0.1:7702", "../s2"])
def test_what_is_not_the_name_of_a_shard_is_refused(machine: Machine, name: str) -> None:
    ended = machine.detach(name)
    assert (ended.code, "is not the name of a shard" in ended.line) == (2, True), ended.err
    assert not machine.path.exists()


def test_what_is_missing_is_named_and_nothing_is_done(machine: Machine) -> None:
    for variables, words in (
        ({REPLICATED_LOG_VARIABLE: ""}, f"{REPLICATED_LOG_VARIABLE} is not set"),
        ({"DATABASE_URL": ""}, "no service was started in"),
    ):
        ended = machine.detach(SHARD, **variables)
        assert (ended.code, words in ended.line) == (2, True), ended.err
        assert not machine.path.exists()
    unknown = machine.detach("s9")
    assert (unknown.code, "mqservice: there is no shard s9" in unknown.line) == (6, True), (
        unknown.err
    )


def test_a_log_that_lacks_the_shard_leaves_all_as_it_was(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = {REPLICATED_LOG_VARIABLE: (tmp_path / "other").as_uri()}
    ended = machine.detach(SHARD, **other)
    assert ended.code == 1
    assert "nothing of this shard is in the replicated log" in ended.line
    assert topic().durability == "replicated"
    assert Shard.objects.get(name=SHARD).owner == "node-a"
    assert (machine.detach(SHARD)).code == 0
