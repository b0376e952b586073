"""Live tail: what a look reads, who may follow, how it ends."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.models import Member, Role
from mqservice.console.live import page_socket
from mqservice.console.tail import consumer, reading
from mqservice.console.tail.reading import SHOWN_PER_S_MAX, NewMessages, Tail, fair_shares
from mqservice.console.tail.rows import TEXT_CHARS, TailFilter, text_of
from mqservice.topics.models import Topic
from tests.mqservice.console.tail_sockets import ORDERS, CountedStore, Sockets, signed_in
from tests.people import People

ALL = TailFilter()


def bodies(look: NewMessages) -> list[str]:
    return [record.body.decode() for record in look.records]


# What a look reads ------------------------------------------------------------------------------


async def test_tail_begins_with_the_last_few_and_continues_with_what_comes(
    tailed: CountedStore,
) -> None:
    await tailed.add(*(f"old {index}" for index in range(40)))
    tail = Tail(tailed, ORDERS)
    assert bodies(await tail.read_new(ALL, 0)) == [f"old {index}" for index in range(30, 40)]
    assert bodies(await tail.read_new(ALL, 500)) == []
    await tailed.add("one", queue_id=1)
    await tailed.add("two")
    await tailed.add("three", queue_id=1)
    look = await tail.read_new(ALL, 1_000)
    assert (bodies(look), look.one_of) == (["one", "two", "three"], 1.0)
    assert look.per_s == 3.0
    assert tailed.progress == {}  # no group, no offset, no lease


async def test_look_at_a_busy_topic_shows_the_newest_and_says_of_how_many(
    tailed: CountedStore,
) -> None:
    await tailed.add("before")
    tail = Tail(tailed, ORDERS)
    await tail.read_new(ALL, 0)
    for second in range(1, 4):
        for queue_id in range(4):
            messages = (f"{second} {queue_id} {index}" for index in range(250))
            await tailed.add(*messages, queue_id=queue_id)
        look = await tail.read_new(ALL, second * 1_000)
        assert len(look.records) == SHOWN_PER_S_MAX
        assert {body.split()[0] for body in bodies(look)} == {str(second)}
    assert look.per_s == 1_000
    assert look.one_of == pytest.approx(5)
    assert sum(pull.messages_max for pull in tailed.pulls[-4:]) == SHOWN_PER_S_MAX


async def test_filter_looks_at_more_and_shows_what_fits(tailed: CountedStore) -> None:
    tail = Tail(tailed, ORDERS)
    await tail.read_new(ALL, 0)
    for index in range(400):
        await tailed.add(str(index), tag="Paid" if index % 4 else "refunded", keys=f"order-{index}")
    look = await tail.read_new(TailFilter(tag="REFUND"), 1_000)
    assert bodies(look) == [str(index) for index in range(144, 400, 4)]  # of the newest 256
    assert look.one_of == pytest.approx(400 / 256)
    await tailed.add("a", keys="x order-7-x")
    await tailed.add("b", keys="x")
    assert bodies(await tail.read_new(TailFilter(key="ORDER-7"), 2_000)) == ["a"]


async def test_what_one_look_costs_has_an_end(
    tailed: CountedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BYTES_MAX", 10_000)
    for queue_id in range(100):
        await tailed.add("x" * 4_000, queue_id=queue_id)
    tail = Tail(tailed, ORDERS)
    await tail.read_new(ALL, 0)
    assert len(tailed.pulls) == 3  # the third is over the bytes
    tailed.pulls.clear()
    monkeypatch.setattr(reading, "BYTES_MAX", 10_000_000)
    for queue_id in range(100):
        await tailed.add("x", queue_id=queue_id)
    await tail.read_new(ALL, 1_000)
    assert len(tailed.pulls) == reading.QUEUES_MAX
    first = {pull.queue_id for pull in tailed.pulls}
    for queue_id in range(100):
        await tailed.add("y", queue_id=queue_id)
    await tail.read_new(ALL, 2_000)
    assert {pull.queue_id for pull in tailed.pulls} != first  # queues take turns


async def test_end_that_went_back_is_followed_from_where_it_is(tailed: CountedStore) -> None:
    await tailed.add("a", "b", "c")
    tail = Tail(tailed, ORDERS)
    await tail.read_new(ALL, 0)
    del tailed.queues[ORDERS, 0][1:]  # a power cut took what no disk had
    assert bodies(await tail.read_new(ALL, 1_000)) == []
    await tailed.add("d")
    assert bodies(await tail.read_new(ALL, 2_000)) == ["d"]


@pytest.mark.parametrize(
    ("counts", "total", "shares"),
    [([1, 1], 9, [1, 1]), ([100, 2, 100], 10, [4, 2, 4]), ([5], 3, [3]), ([9, 9], 3, [1, 2])],
)
def test_small_queues_are_shown_whole_and_large_ones_in_equal_parts(
    counts: list[int], total: int, shares: list[int]
) -> None:
    assert fair_shares(counts, total) == shares


def test_beginning_of_a_body_is_cut_between_characters() -> None:
    assert text_of("消".encode() * 5_000) == "消" * TEXT_CHARS
    assert text_of(b"\xff\xfe\x00") is None
    assert text_of(b"a\n\tb") == "a b"
    assert text_of("消".encode()[:2]) is None  # nothing was cut: it is no text
    assert text_of(b"") == ""


# The socket -------------------------------------------------------------------------------------


async def test_page_is_told_of_messages_pauses_and_survives_the_engine(
    cast_of_tail: People, tailed: CountedStore, sockets: Sockets
) -> None:
    await tailed.add("before")
    socket = sockets.new(await signed_in(cast_of_tail.alice))
    assert (await socket.open())["type"] == "websocket.accept"
    await socket.say()
    assert [row["text"] for row in (await socket.told("rows"))["rows"]] == ["before"]
    await tailed.add("<script>", tag="t", keys="a b c d e")
    row = (await socket.told("rows"))["rows"][0]
    assert (row["text"], row["tag"], row["keys"], row["more_keys"]) == (
        "<script>", "t", ["a", "b", "c"], 2,
    )  # fmt: skip

    tailed.is_connected = False
    assert await socket.told("engine") == {"engine": "away"}
    tailed.is_connected = True
    assert await socket.told("engine") == {"engine": "back"}
    await tailed.add("after")
    assert (await socket.told("rows"))["rows"][0]["text"] == "after"

    await socket.say(paused=True)
    while not await socket.receive_nothing(0.1):
        await socket.receive_output(60)
    await tailed.add("meanwhile")
    assert await socket.receive_nothing(0.1)
    await socket.say(tag="", key="")
    assert (await socket.told("rows"))["rows"][0]["text"] == "meanwhile"
    await socket.leave()


async def test_only_who_may_consume_follows_and_only_own_topics(
    cast_of_tail: People, sockets: Sockets
) -> None:
    alice, bob = await signed_in(cast_of_tail.alice), await signed_in(cast_of_tail.bob)
    charlie = await signed_in(cast_of_tail.charlie)
    for cookie, query, code in (
        (b"", "ns=acme&topic=orders", 4401),
        (bob, "ns=acme&topic=orders", 4404),  # a viewer
        (charlie, "ns=acme&topic=orders", 4404),
        (alice, "ns=rival&topic=theirs", 4404),
        (alice, "ns=acme&topic=theirs", 4404),
        (alice, "ns=acme", 4404),
    ):
        socket = sockets.new(cookie, query)
        await socket.open()
        assert await socket.closed() == code


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("loss", ["session", "role"])
async def test_tail_ends_with_what_let_it_in(
    cast_of_tail: People,
    sockets: Sockets,
    monkeypatch: pytest.MonkeyPatch,
    loss: str,
    paused: bool,
) -> None:
    monkeypatch.setattr(page_socket, "CHECK_MS", 0)
    monkeypatch.setattr(consumer, "REST_MS", 10)
    cookie = await signed_in(cast_of_tail.alice)
    socket = sockets.new(cookie)
    await socket.open()
    await socket.say(paused=paused)
    if loss == "session":
        await sync_to_async(SessionStore(cookie.decode().partition("=")[2]).delete)()
    else:
        member = Member.objects.filter(user=cast_of_tail.alice)
        await member.aupdate(role=Role.VIEWER.value)
    assert await socket.closed() == (4401 if loss == "session" else 4404)


async def test_tail_ends_with_its_topic_and_at_a_frame_that_is_none(
    cast_of_tail: People, tailed: CountedStore, sockets: Sockets
) -> None:
    cookie = await signed_in(cast_of_tail.alice)
    for order in ({"tag": 1}, {"other": ""}, {"key": "k" * 1_000}):
        socket = sockets.new(cookie)
        await socket.open()
        await socket.say(**order)
        assert await socket.closed() == 4400
    socket = sockets.new(cookie)
    await socket.open()
    tailed.is_gone = True
    await socket.say()
    assert await socket.closed() == 4404


async def test_only_so_many_follow_one_namespace_at_a_time(
    cast_of_tail: People, sockets: Sockets, settings: Settings
) -> None:
    settings.MQ_TAIL_WATCHERS_MAX = 2
    cookie = await signed_in(cast_of_tail.alice)
    open_ones = [sockets.new(cookie) for _ in range(2)]
    for each in open_ones:
        await each.open()
        await each.say()
        await each.told("one_of")
    refused = sockets.new(cookie)
    await refused.open()
    assert await refused.closed() == 4429
    other = sockets.new(await signed_in(cast_of_tail.charlie), "ns=rival&topic=theirs")
    await other.open()
    await other.say()
    await other.told("one_of")  # another namespace has a number of its own
    await open_ones[0].leave()
    late = sockets.new(cookie)
    await late.open()
    await late.say()
    await late.told("one_of")
    await asyncio.gather(late.leave(), other.leave(), open_ones[1].leave())


# The page ---------------------------------------------------------------------------------------


def test_page_is_for_who_may_read_messages(people: People, client: Client) -> None:
    Topic.objects.create(namespace=people.acme, name="orders")
    paths = ("/console/acme/tail", "/console/acme/tail?topic=orders")
    for user, status in ((people.alice, 200), (people.bob, 403), (people.charlie, 404)):
        client.force_login(user)
        assert {client.get(path).status_code for path in paths} == {status}
    client.force_login(people.alice)
    assert client.get("/console/acme/tail?topic=none").status_code == 404
    text = client.get("/console/acme/topics/orders").content.decode()
    assert 'href="/console/acme/tail?topic=orders"' in text
    assert '<option value="orders">' in client.get("/console/acme/tail").content.decode()
