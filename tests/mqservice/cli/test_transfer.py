"""``mqservice import-store``: what it shows, and what it refuses before anything is made."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mqservice.transfers.reports import ImportReport
from tests.mqservice.cli.commands import mqservice
from tests.storage_engine.rocketmq_store import RocketmqStore
from tests.storage_engine.test_store_import import hashes


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
        assert "stays behind: messages of INST%orders, 1: the topic does not come" in out
        assert ("nothing was imported" in ended.err) is (not more)
    assert hashes(tmp_path) == before


async def test_the_report_is_there_for_programs_too(source: Path) -> None:
    ended = await mqservice(
        "import-store", str(source), "--namespace=acme", "--dry-run", "--json", "--retention=12h"
    )
    report = msgspec.json.decode(ended.out, type=ImportReport)
    assert [(topic.name, topic.messages) for topic in report.topics] == [("orders", 5)]
    assert report.topics[0].retention_ms == 12 * 3_600_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--namespace=a%b"], "namespace 'a%b': a name consists of the characters"),
        (["--namespace=-"], "namespace '-'"),
        (["--namespace=acme", "--retention=31d"], "must be from 1m to 30d"),
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
