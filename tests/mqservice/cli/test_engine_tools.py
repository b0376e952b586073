"""``mqservice engine``: the engine's tools as users run them, on real store files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.storage_engine.doubles import tiny_config
from tests.storage_engine.recovering import filled
from tests.storage_engine.tools.damages import exchange_unit


class FoundDamage(msgspec.Struct):
    kind: str


class Reported(msgspec.Struct):
    findings: list[FoundDamage]


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    async def fill() -> None:
        await (await filled(tmp_path / "store")).close()

    asyncio.run(fill())
    return tmp_path / "store"


async def verify(store_dir: Path, *options: str) -> tuple[int, bytes]:
    slots = f"--index-slots={tiny_config(store_dir).index_slots}"
    ended = await mqservice("engine", "verify", str(store_dir), slots, *options)
    assert ended.err == ""
    return ended.code, ended.out


async def test_verify_of_a_clean_store(store_dir: Path) -> None:
    code, out = await verify(store_dir)
    assert code == 0
    assert b"commit log" in out
    assert out.strip().endswith(b"clean")


async def test_verify_says_what_is_damaged_for_people_and_machines(store_dir: Path) -> None:
    exchange_unit(store_dir)
    code, out = await verify(store_dir)
    assert code == 1
    assert b"unit_wrong: consumequeue/t/1 at 5: size is" in out
    assert b"delete consumequeue/" in out
    code, out = await verify(store_dir, "-o", "ndjson")
    assert code == 1
    (finding,) = msgspec.json.decode(out, type=Reported).findings
    assert finding.kind == "unit_wrong"


async def test_verify_of_an_absent_store_fails_in_the_tools_own_words() -> None:
    ended = await mqservice("engine", "verify")
    assert ended.code == 2
    assert "/nonexistent/store is not a store" in ended.line


async def test_dump_of_a_store(store_dir: Path) -> None:
    ended = await mqservice("engine", "dump", str(store_dir / "checkpoint"))
    assert (ended.code, ended.err) == (0, "")
    assert b"flushed_offset" in ended.out
