"""What a live tail tells of messages that masking hides from its reader."""

from __future__ import annotations

import pytest

from mqservice.accounts.models import AuditEntry, Member, Role
from mqservice.console.tail import consumer
from mqservice.masking.models import MaskRule
from tests.mqservice.console.tail_sockets import CountedStore, Sockets, signed_in
from tests.people import People


async def test_what_is_hidden_from_the_reader_is_not_reported_from_soon_after_the_rule(
    cast_of_tail: People, tailed: CountedStore, sockets: Sockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MASK_MS", 0)
    members = Member.objects.filter(user=cast_of_tail.alice)
    socket = sockets.new(await signed_in(cast_of_tail.alice))
    await socket.open()
    await socket.say()
    await tailed.add('{"card": "4111"}')
    row = (await socket.told("rows"))["rows"][0]
    assert (row["text"], row["masked"]) == ('{"card": "4111"}', "")
    await members.aupdate(role=Role.DEVELOPER.value)
    await MaskRule.objects.acreate(
        namespace=cast_of_tail.acme, name="cards", topics="ord*", part="field", path="/card"
    )
    await tailed.add('{"card": "4111"}', "4111")
    rows = (await socket.told("rows"))["rows"]
    assert [(row["text"], row["masked"]) for row in rows] == [
        ('{"card": "•••••"}', "fields"), (None, "body"),
    ]  # fmt: skip
    await socket.leave()


async def test_following_what_others_do_not_see_is_audited(
    cast_of_tail: People, tailed: CountedStore, sockets: Sockets
) -> None:
    await tailed.add("before")
    await MaskRule.objects.acreate(
        namespace=cast_of_tail.acme, name="cards", topics="orders", part="body"
    )
    socket = sockets.new(await signed_in(cast_of_tail.alice))
    await socket.open()
    await socket.say()
    await socket.told("rows")
    entry = await AuditEntry.objects.aget(action="messages.unmasked")
    assert entry.target == "topics/orders"
    await socket.leave()
