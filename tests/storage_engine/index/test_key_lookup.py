"""Looking messages up by key: against a plain model, page by page, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage_engine.errors import BadRequest, CursorInvalid, TopicNotFound
from storage_engine.index import key_topics as key_topics_module
from storage_engine.wire.reads import KeyTopicsRequest
from tests.storage_engine.doubles import OpenStore, fingerprint
from tests.storage_engine.index.keyed import index_files, index_hash, keyed, look_up, pages
from tests.storage_engine.recovering import poke

# "Aa" and "BB" have one hash, and so do "AaAa", "AaBB", "BBAa", "BBBB".
KEYS = ["Aa", "BB", "AaAa", "AaBB", "BBAa", "é", "k"]


class Step(NamedTuple):
    topic: str
    message_id: str
    keys: list[str]
    after_ms: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["t", "u"]),
        st.sampled_from([*KEYS, "1" * 34, "2" * 34]),
        st.lists(st.sampled_from(KEYS), max_size=3),
        st.sampled_from([0, 0, 1, 400, 1_000, 2_500]),
    ),
    max_size=40,
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=STEPS,
    cuts=st.sets(st.integers(0, 40)),
    messages_max=st.integers(1, 5),
    window=st.tuples(st.integers(-1, 12_000), st.integers(-1, 12_000)),
)
def test_look_up_finds_what_a_plain_model_finds(
    steps: list[Step], cuts: set[int], messages_max: int, window: tuple[int, int]
) -> None:
    asyncio.run(_compare(steps, cuts, messages_max, (min(window), max(window))))


async def _compare(
    steps: list[Step], cuts: set[int], messages_max: int, window: tuple[int, int]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with OpenStore(Path(directory)) as store:
            store.topic("t")
            store.topic("u")
            begin_ms = store.clock.now_ms()
            stored: list[tuple[Step, int, bytes]] = []
            for index, step in enumerate(steps):
                store.clock.advance(step.after_ms)
                body = b"%d" % index
                await store.put(keyed(step.message_id, step.keys, topic=step.topic, body=body))
                stored.append((step, store.clock.now_ms(), body))
                if index in cuts:
                    store.store.tick()
            for topic in ("t", "u"):
                for key in [*KEYS, "1" * 34, "absent"]:
                    for low, high in ((0, 1 << 60), window):
                        from_ms, to_ms = begin_ms + low, begin_ms + high
                        expected = [
                            body
                            for step, stamp, body in reversed(stored)
                            if step.topic == topic
                            and key in (step.message_id, *step.keys)
                            and from_ms <= stamp <= to_ms
                        ]
                        found = pages(
                            store, key, topic=topic, messages_max=messages_max,
                            from_ms=from_ms, to_ms=to_ms,
                        )  # fmt: skip
                        assert [record.body for record in found] == expected
            known = {
                index_hash(step.topic, key)
                for step, _stamp, _body in stored
                for key in (step.message_id, *step.keys)
            }
            for key in [*KEYS, "1" * 34, "absent"]:
                asked = KeyTopicsRequest(topics=["u", "absent", "t"], keys=[key])
                reply = store.store.queries.key_topics(asked)
                assert reply.is_complete
                assert reply.indexes == [
                    at for at, topic in enumerate(asked.topics) if index_hash(topic, key) in known
                ]


async def test_topics_of_any_of_several_keys_are_named_and_too_many_are_refused(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        for topic, key in (("t", "a"), ("u", "b"), ("v", "c")):
            store.topic(topic)
            await store.put(keyed("1" * 34, [key], topic=topic))
        key_topics = store.store.queries.key_topics

        asked = KeyTopicsRequest(topics=["t", "u", "v"], keys=["c", "x", "a"])
        assert key_topics(asked).indexes == [0, 2]
        assert key_topics(KeyTopicsRequest(topics=[], keys=["a"])).indexes == []
        with pytest.raises(BadRequest, match="at most 2048 pairs"):
            key_topics(KeyTopicsRequest(topics=["t"] * 1_025, keys=["a", "b"]))
        with pytest.raises(BadRequest, match="the key is empty"):
            key_topics(KeyTopicsRequest(topics=["t"], keys=["a", ""]))


async def test_a_topic_may_have_what_stands_behind_a_long_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_topics_module, "_CHAIN_MAX", 1)
    async with OpenStore(tmp_path) as store:
        store.topic("t")
        await store.put(*(keyed(f"{index:034d}", ["k"]) for index in range(3)))

        reply = store.store.queries.key_topics(KeyTopicsRequest(topics=["t"], keys=["0" * 34]))

        assert reply.indexes == [0]


async def test_newest_message_comes_first(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        for index in range(20):
            await store.put(keyed(f"{index:034d}", ["same"], body=b"%d" % index))

        found = pages(store, "same", messages_max=3)

        assert [int(record.body) for record in found] == list(range(19, -1, -1))
        assert len(index_files(tmp_path)) > 3


async def test_keys_of_one_hash_are_kept_apart(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put(keyed("1" * 34, ["Aa"]), keyed("2" * 34, ["BB"]))

        assert [record.keys for record in pages(store, "Aa")] == [["Aa"]]
        assert [record.keys for record in pages(store, "BB")] == [["BB"]]


async def test_topics_of_one_hash_are_kept_apart(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        for topic in ("Aa", "BB"):
            store.topic(topic)
            await store.put(keyed("1" * 34, ["k"], topic=topic))

        assert [record.topic for record in pages(store, "k", topic="BB")] == ["BB"]


async def test_pages_do_not_move_while_messages_arrive(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        for index in range(10):
            await store.put(keyed(f"{index:034d}", ["k"], body=b"%d" % index))
        head, first = look_up(store, "k", messages_max=4)

        for index in range(10, 30):
            await store.put(keyed(f"{index:034d}", ["k"], body=b"%d" % index))
        rest = pages(store, "k", head.cursor, messages_max=4)

        assert [int(record.body) for record in [*first, *rest]] == list(range(9, -1, -1))


async def test_cursor_survives_an_index_that_was_rebuilt(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        for index in range(10):
            await store.put(keyed(f"{index:034d}", ["k"], body=b"%d" % index))
        head, first = look_up(store, "k", messages_max=4)
    for path in index_files(tmp_path):
        path.unlink()

    # Other files: the same messages stand at other entries.
    async with OpenStore(tmp_path, limits={"index_entries": 6, "index_slots": 3}) as store:
        _, rest = look_up(store, "k", cursor=head.cursor)

    assert [int(record.body) for record in [*first, *rest]] == list(range(9, -1, -1))


async def test_message_with_a_key_twice_is_found_once(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put(keyed("k", ["k", "k"]))

        assert len(pages(store, "k", messages_max=1)) == 1


async def test_page_ends_at_its_bytes_but_never_before_the_first(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        for _ in range(3):
            await store.put(keyed("1" * 34, ["k"], body=bytes(300)))

        head, records = look_up(store, "k", bytes_max=1)
        assert len(records) == 1
        assert head.cursor
        assert len(pages(store, "k", bytes_max=1)) == 3


async def test_call_ends_after_so_many_entries_and_can_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_engine.index.key_lookup._WORK_MAX", 4)
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put(keyed("wanted"))
        for index in range(30):
            await store.put(keyed(f"other-{index}"))

        head, records = look_up(store, "wanted")
        assert (bool(head.cursor), records) == (True, [])
        assert [record.message_id for record in pages(store, "wanted")] == ["wanted"]


async def test_damaged_record_is_not_given_out(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        put = await store.put(
            keyed("1" * 34, ["k"], body=b"first"), keyed("2" * 34, ["k"], body=b"other")
        )
        poke(tmp_path, put.offsets[1][1] + 88, b"OTHER")

        assert [record.body for record in pages(store, "k")] == [b"first"]


@pytest.mark.parametrize("cursor", ["?", "AAAA", "é", "A" * 52, "A" * 1_000])
async def test_garbage_is_no_cursor(tmp_path: Path, cursor: str) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        with pytest.raises(CursorInvalid):
            look_up(store, "k", cursor=cursor)


async def test_cursor_of_another_key_or_changed_is_refused(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put(keyed("1" * 34, ["k"]), keyed("2" * 34, ["k"]))
        cursor = look_up(store, "k", messages_max=1)[0].cursor
        content = bytearray(base64.urlsafe_b64decode(cursor))
        content[8] ^= 1
        changed = base64.urlsafe_b64encode(content).decode()

        with pytest.raises(CursorInvalid, match="another"):
            look_up(store, "other", cursor=cursor)
        with pytest.raises(CursorInvalid, match="not made by this engine"):
            look_up(store, "k", cursor=changed)


@pytest.mark.parametrize(
    "wrong",
    [{"messages_max": 0}, {"messages_max": 10_000}, {"key": ""}, {"from_ms": 2, "to_ms": 1}],
)
async def test_impossible_look_up_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        with pytest.raises(BadRequest):
            look_up(store, **{"key": "k", **wrong})  # type: ignore[arg-type]  # mixed on purpose


async def test_unknown_topic_is_refused(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        with pytest.raises(TopicNotFound):
            look_up(store, "k", topic="none")


async def test_look_up_changes_no_file(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put(keyed("1" * 34, ["k"]))
        store.store.tick()
        before = fingerprint(tmp_path)

        pages(store, "k")

        assert fingerprint(tmp_path) == before
