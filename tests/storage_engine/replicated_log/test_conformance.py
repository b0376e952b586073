"""What every adapter keeps, in the words of the port."""

from __future__ import annotations

import asyncio

import pytest

from storage_engine.replicated_log.errors import (
    Closed,
    Fenced,
    Misconfigured,
    Trimmed,
    Unavailable,
)
from storage_engine.replicated_log.port import IN_FLIGHT_MAX, START, Position
from tests.storage_engine.replicated_log.log_kinds import (
    KIND_PARAMETERS,
    KINDS,
    Kind,
    contents_of,
    entries_of,
)


@pytest.fixture(params=KIND_PARAMETERS)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


async def test_entries_are_read_in_the_order_of_their_appends(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        wanted = [b"%d" % number for number in range(3 * IN_FLIGHT_MAX)]
        positions: list[Position] = []
        for at in range(0, len(wanted), IN_FLIGHT_MAX):
            positions += await asyncio.gather(
                *[writer.append(entry) for entry in wanted[at : at + IN_FLIGHT_MAX]]
            )

        found = await entries_of(views.view())

        assert [entry.content for entry in found] == wanted
        assert [entry.position for entry in found] == positions
        assert positions == sorted(positions)


async def test_a_new_log_is_empty_and_its_end_is_where_the_first_entry_goes(kind: Kind) -> None:
    async with kind() as views:
        writer = views.view()

        end = await writer.open(1)

        assert await contents_of(views.view()) == []
        assert await writer.append(b"first") >= end
        assert await contents_of(views.view(), end) == [b"first"]


async def test_an_entry_may_be_empty_or_as_large_as_the_log_takes(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        largest = b"x" * writer.entry_bytes_max

        await asyncio.gather(writer.append(b""), writer.append(largest), writer.append(b""))

        assert await contents_of(views.view()) == [b"", largest, b""]


async def test_reading_goes_on_at_the_end_of_an_entry(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        for entry in (b"a", b"b", b"c"):
            await writer.append(entry)
        reader = views.view()
        found = await entries_of(reader)

        assert await contents_of(reader, found[0].end) == [b"b", b"c"]
        assert await contents_of(reader, found[1].position) == [b"b", b"c"]
        assert await contents_of(reader, found[2].end) == []
        await writer.append(b"d")
        assert await contents_of(reader, found[2].end) == [b"d"]


async def test_the_next_owner_finds_everything_and_continues_behind_it(kind: Kind) -> None:
    async with kind() as views:
        first = await views.opened(1)
        last = await first.append(b"a")
        await first.close()
        second = views.view()

        end = await second.open(2)

        assert end > last
        assert await contents_of(second) == [b"a"]
        assert await second.append(b"b") >= end
        assert await contents_of(views.view()) == [b"a", b"b"]


async def test_epochs_may_be_skipped_and_logs_opened_without_appends(kind: Kind) -> None:
    async with kind() as views:
        for epoch in (1, 2, 7, 8, 1_000):
            await views.opened(epoch)
        writer = await views.opened(2**40)

        await writer.append(b"a")

        assert await contents_of(views.view()) == [b"a"]


async def test_an_older_writer_is_fenced_and_nothing_of_it_is_read(kind: Kind) -> None:
    async with kind() as views:
        old = await views.opened(1)
        await old.append(b"a")
        new = await views.opened(2)

        with pytest.raises(Fenced):
            await old.append(b"lost")

        await new.append(b"b")
        with pytest.raises(Fenced):
            await old.append(b"lost as well")
        assert await contents_of(views.view()) == [b"a", b"b"]


async def test_all_appends_that_wait_are_refused_by_the_fence(kind: Kind) -> None:
    async with kind() as views:
        old = await views.opened(1)
        new = await views.opened(2)

        waiting = [old.append(b"%d" % number) for number in range(IN_FLIGHT_MAX)]
        results = await asyncio.gather(*waiting, return_exceptions=True)

        assert [type(result) for result in results] == [Fenced] * IN_FLIGHT_MAX
        await asyncio.gather(*[new.append(b"new") for _ in range(IN_FLIGHT_MAX)])
        assert await contents_of(views.view()) == [b"new"] * IN_FLIGHT_MAX


@pytest.mark.parametrize("epoch", [1, 2, 3])
async def test_an_epoch_that_is_not_newer_cannot_open(kind: Kind, epoch: int) -> None:
    async with kind() as views:
        owner = await views.opened(3)
        await owner.append(b"a")

        with pytest.raises(Fenced, match=f"{epoch}.*3"):
            await views.view().open(epoch)

        await owner.append(b"b")
        assert await contents_of(views.view()) == [b"a", b"b"]


async def test_opening_again_with_the_same_epoch_changes_nothing(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        position = await writer.append(b"a")

        assert await writer.open(1) > position

        await writer.append(b"b")
        assert await contents_of(views.view()) == [b"a", b"b"]


async def test_who_has_not_opened_the_log_cannot_write(kind: Kind) -> None:
    async with kind() as views:
        await views.opened(1)
        with pytest.raises(Fenced):
            await views.view().append(b"x")
        with pytest.raises(Fenced):
            await views.view().trim(START)


async def test_cancelling_an_append_keeps_its_place(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        waiting = [writer.append(entry) for entry in (b"a", b"b", b"c")]

        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

        assert await contents_of(views.view()) == [b"a", b"b", b"c"]


async def test_more_appends_than_may_wait_are_not_taken(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        waiting = [writer.append(b"taken") for _ in range(IN_FLIGHT_MAX)]

        with pytest.raises(Unavailable):
            writer.append(b"not taken")

        await asyncio.gather(*waiting)
        await writer.append(b"later")
        assert await contents_of(views.view()) == [b"taken"] * IN_FLIGHT_MAX + [b"later"]


async def test_a_closed_log_takes_nothing_and_ends_what_waits(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        waiting = writer.append(b"a")

        await writer.close()

        with pytest.raises(Closed):
            await waiting
        with pytest.raises(Closed):
            writer.append(b"b")
        next_owner = await views.opened(2)
        assert await contents_of(next_owner) in ([], [b"a"])


async def test_trimmed_entries_are_gone_and_the_rest_stays(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        positions = [await writer.append(b"%d" % number) for number in range(40)]

        await writer.trim(positions[25])

        reader = views.view()
        assert await reader.oldest() == positions[25].sequence
        assert await contents_of(reader, positions[25]) == [b"%d" % n for n in range(25, 40)]
        for start in (START, positions[0], positions[24]):
            with pytest.raises(Trimmed):
                await entries_of(reader, start)
        await writer.append(b"more")
        assert (await contents_of(reader, positions[39]))[-1] == b"more"


async def test_a_log_that_is_trimmed_to_its_end_goes_on_there(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        for number in range(20):
            await writer.append(b"%d" % number)
        end = (await entries_of(writer))[-1].end

        await writer.trim(end)

        assert await contents_of(views.view(), end) == []
        successor = views.view()
        assert await successor.open(2) >= end
        await successor.append(b"new")
        assert await contents_of(views.view(), end) == [b"new"]
        with pytest.raises(Fenced):
            await views.view().open(2)


async def test_trimming_less_than_before_changes_nothing(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        positions = [await writer.append(b"%d" % number) for number in range(5)]
        await writer.trim(positions[3])

        await writer.trim(positions[1])

        assert await views.view().oldest() == positions[3].sequence
        assert await contents_of(views.view(), positions[3]) == [b"3", b"4"]


async def test_nothing_is_trimmed_that_is_not_durable(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        position = await writer.append(b"a")

        with pytest.raises(ValueError, match="end"):
            await writer.trim(Position(1, position.sequence + 2))

        assert await contents_of(views.view()) == [b"a"]


async def test_a_fenced_writer_trims_nothing_of_its_successors(kind: Kind) -> None:
    async with kind() as views:
        old = await views.opened(1)
        position = await old.append(b"a")
        new = await views.opened(2)
        last = [await new.append(b"%d" % number) for number in range(20)][-1]
        await new.trim(last)

        with pytest.raises(Fenced):
            await old.append(b"late")
        with pytest.raises(Fenced):
            await old.trim(position)

        assert await views.view().oldest() == last.sequence
        assert await contents_of(views.view(), last) == [b"19"]


async def test_a_reader_that_is_overtaken_by_a_trim_misses_nothing_unawares(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        positions = [await writer.append(b"%d" % number) for number in range(60)]
        reading = aiter(views.view().read(START))
        assert (await anext(reading)).content == b"0"

        await writer.trim(positions[59])

        rest: list[bytes] = []
        try:
            async for entry in reading:
                rest.append(entry.content)
        except Trimmed:
            pass  # of what it had not fetched yet
        else:
            assert len(rest) == 59
        assert rest == [b"%d" % number for number in range(1, 1 + len(rest))]


@pytest.mark.parametrize("name", ["memory", "file", "obstore memory", "s3"])
async def test_a_log_of_another_deployment_is_refused(name: str) -> None:
    async with KINDS[name]() as views:
        writer = await views.opened(1)
        await writer.append(b"ours")
        stranger = views.view("d2")

        with pytest.raises(Misconfigured, match=r"d1.*d2"):
            await stranger.open(2)
        with pytest.raises(Misconfigured, match=r"d1.*d2"):
            await entries_of(stranger)

        await writer.append(b"still ours")
        assert await contents_of(views.view()) == [b"ours", b"still ours"]


@pytest.mark.torture
async def test_deployments_have_topics_of_their_own_in_kafka() -> None:
    async with KINDS["kafka"]() as views:
        writer = await views.opened(1)
        await writer.append(b"ours")
        other = views.view("d2")

        assert await contents_of(other) == []
        await other.open(1)
        await other.append(b"theirs")

        assert await contents_of(views.view()) == [b"ours"]


async def test_readers_see_every_acknowledged_entry_while_it_is_written(kind: Kind) -> None:
    async with kind() as views:
        writer = await views.opened(1)
        reader = views.view()
        end, seen = START, 0
        for number in range(100):
            await writer.append(b"%d" % number)
            if number % 10 == 9:
                async for entry in reader.read(end):
                    assert entry.content == b"%d" % seen
                    seen, end = seen + 1, entry.end
                assert seen == number + 1
