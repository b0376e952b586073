"""``mqservice import-store`` and ``export-store``: what they show, and what they refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from mqservice.transfers.errors import TransferRejected
from mqservice.transfers.exporting import export_store
from storage_engine.tools.transfer.report import ExportReport, ImportReport
from tests.mqservice.backups.making import scratch_database
from tests.mqservice.cli.commands import Ended, mqservice
from tests.storage_engine.doubles import OpenStore, message
from tests.storage_engine.rocketmq_store import RocketmqStore
from tests.storage_engine.tools.test_store_import import hashes


@pytest.fixture
def source(tmp_path: Path) -> Path:
    theirs = RocketmqStore(segment_bytes=1 << 16)
    for number in range(5):
        theirs.add(b"%d" % number, topic="orders")
    theirs.add(b"lost", topic="INST%orders")
    theirs.offsets = {"orders@billing": {0: 2}}
    return theirs.write(tmp_path / "source")


async def test_it_shows_what_would_come_and_makes_nothing(source: Path, tmp_path: Path) -> None:
    before = hashes(tmp_path)
    for more in ((), ("--dry-run",), ("--dry-run", "--yes")):
        ended = await mqservice(
            "import-store", str(source), "--namespace=acme", f"--data-dir={tmp_path / 'd'}", *more
        )
        assert ended.code == 0, ended.err
        out = ended.out.decode()
        assert "5 messages" in out
        assert "billing" in out
        assert "left behind: messages of INST%orders, 1: the topic is not imported" in out
        assert ("nothing was imported" in ended.err) is (not more)
    assert hashes(tmp_path) == before


async def test_the_report_is_there_for_programs_too(source: Path) -> None:
    ended = await mqservice(
        "import-store",
        str(source),
        "--namespace=acme",
        "--dry-run",
        "-o",
        "json",
        "--retention=12h",
    )
    report = msgspec.json.decode(ended.out, type=ImportReport)
    assert [(topic.name, topic.messages) for topic in report.topics] == [("orders", 5)]
    assert report.topics[0].retention_ms == 12 * 3_600_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--namespace=a%b"], "namespace 'a%b': a name may contain only the characters"),
        (["--namespace=-"], "namespace '-'"),
        (["--namespace=acme", "--retention=31d"], "must be 1m to 30d"),
        (["--namespace=acme", "--retention=long"], "is not a duration"),
    ],
)
async def test_a_wrong_option_is_refused_in_its_own_words(
    source: Path, arguments: list[str], said: str
) -> None:
    ended = await mqservice("import-store", str(source), *arguments, "--yes")
    assert ended.code == 2
    assert said in " ".join(ended.err.replace("│", " ").split())


async def test_a_data_directory_that_is_in_use_is_left_as_it_is(
    source: Path, tmp_path: Path
) -> None:
    place = tmp_path / "data"
    place.mkdir()
    (place / "mine").write_text("kept")
    before = hashes(place)
    ended = await mqservice(
        "import-store", str(source), "--namespace=acme", "--yes", f"--data-dir={place}"
    )
    assert (ended.code, "is not empty" in ended.line) == (2, True)
    assert hashes(place) == before


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A data directory whose service has stopped."""
    place = tmp_path / "ours"
    asyncio.run(_fill(place / "store", "acme"))
    return place


async def _fill(path: Path, namespace: str) -> None:
    async with OpenStore(path) as store:
        store.topic(f"{namespace}%orders")
        store.group(f"{namespace}%billing")
        for number in range(5):
            await store.put(message(b"%d" % number, topic=f"{namespace}%orders"))


async def export(target: Path, *arguments: str, database: str = "") -> Ended:
    return await mqservice("export-store", str(target), *arguments, DATABASE_URL=database)


@pytest.mark.torture
async def test_an_export_is_a_store_that_an_import_reads(ours: Path, tmp_path: Path) -> None:
    before = hashes(ours)
    target = tmp_path / "theirs"
    (tmp_path / "theirs.exporting").mkdir()
    (tmp_path / "theirs.exporting" / "EXPORT-IS-NOT-COMPLETE").touch()  # one that was killed
    ended = await export(target, "--namespace=acme", f"--data-dir={ours}")
    assert ended.code == 0, ended.err
    assert hashes(ours) == before
    assert b"groups: billing" in ended.out
    assert "exported and compared: 5 messages in 1 queues" in ended.err
    assert not (tmp_path / "theirs.exporting").exists()
    shown = await mqservice("import-store", str(target), "--namespace=x", "--dry-run")
    assert b"5 messages" in shown.out


async def test_an_export_refuses_what_it_would_spoil(ours: Path, tmp_path: Path) -> None:
    target = tmp_path / "theirs"
    target.mkdir()
    (target / "mine").write_text("kept")
    before = hashes(tmp_path)
    full = await export(target, "--namespace=acme", f"--data-dir={ours}")
    absent = await export(tmp_path / "new", "--namespace=none", f"--data-dir={ours}")
    nowhere = await export(tmp_path / "new", "--all", f"--data-dir={tmp_path / 'none'}")
    unclear = await export(tmp_path / "new", f"--data-dir={ours}")
    assert [ended.code for ended in (full, absent, nowhere, unclear)] == [2, 2, 2, 2]
    assert "is not empty" in full.line
    assert "it has acme" in absent.line
    assert "is not a store of this service" in nowhere.line
    assert "give either --namespace or --all" in unclear.err
    assert hashes(tmp_path) == before


def test_an_export_of_all_names_the_shards_that_it_would_leave_out(
    ours: Path, tmp_path: Path
) -> None:
    (ours / "shards" / "s2" / "store").mkdir(parents=True)
    with pytest.raises(TransferRejected, match="several shards, main, s2, and an export has"):
        export_store({}, ours, tmp_path / "new", "", on_progress=lambda done, total: None)
    assert not (tmp_path / "new").exists()


async def test_of_several_shards_an_export_is_of_the_one_that_is_named(
    ours: Path, tmp_path: Path
) -> None:
    await _fill(ours / "shards" / "s2" / "store", "beta")
    before, new = hashes(tmp_path), tmp_path / "new"
    every = await export(new, "--all", f"--data-dir={ours}")
    elsewhere = await export(new, "--namespace=beta", f"--data-dir={ours}")
    unnamed = await export(new, "--all", "--shard=main,s2", f"--data-dir={ours}")
    absent = await export(new, "--all", "--shard=s3", f"--data-dir={ours}")
    assert [ended.code for ended in (every, elsewhere, unnamed, absent)] == [2, 2, 2, 2]
    assert "several shards, main, s2, and an export has those of one: name it" in every.line
    assert "it has acme. The other shards of this machine are s2: name one" in elsewhere.line
    assert "'main,s2' is not the name of a shard" in unnamed.line
    assert "is not a store of this service" in absent.line
    assert hashes(tmp_path) == before
    found = await export(new, "--all", "--shard=s2", f"--data-dir={ours}", "-o", "json")
    assert found.code == 0, found.err
    assert [topic.name for topic in msgspec.json.decode(found.out, type=ExportReport).topics] == [
        "beta%orders"
    ]


async def test_an_export_of_all_asks_the_database_for_shards_on_other_machines(
    ours: Path, tmp_path: Path, postgres_server: str
) -> None:
    new = tmp_path / "new"
    away = await export(new, "--all", f"--data-dir={ours}", database="postgresql://127.0.0.1:1/x")
    assert (away.code, "add --shard main" in away.err) == (2, True), away.err
    shards = "CREATE TABLE shards_shard (name text); INSERT INTO shards_shard VALUES ('s9');"
    with scratch_database(postgres_server, shards) as url:
        several = await export(new, "--all", f"--data-dir={ours}", database=url)
        chosen = await export(new, "--all", "--shard=main", f"--data-dir={ours}", database=url)
    assert (several.code, "several shards, main, s9" in several.line) == (2, True)
    assert chosen.code == 0, chosen.err
