"""What only the real service has, and ``FakeService`` refuses or leaves out."""

from __future__ import annotations

import pytest
from mqservice_client import Client, Sql, Unauthenticated

from tests.clients.python.conftest import Connect, Place
from tests.clients.python.test_receiving import take

pytestmark = pytest.mark.acceptance


def test_an_unknown_key_is_unauthenticated(connect: Connect, place: Place) -> None:
    with pytest.raises(Unauthenticated) as raised:
        connect(api_key="mqk_wrong").send(place.topic, "x")

    assert raised.value.stored is False
    assert raised.value.what_to_do


@pytest.mark.parametrize("transport", ["websocket", "rest"])
def test_a_filter_in_sql_lets_through_what_it_is_true_for(
    mq: Client, connect: Connect, place: Place, transport: str
) -> None:
    for tag, amount in (("a", "1"), ("b", "10"), ("c", "100")):
        mq.send(place.topic, tag, tag=tag, properties={"amount": amount})

    with connect(transport=transport).subscribe(*place, filter=Sql("amount > 5")) as subscription:
        assert [message.tag for message in take(subscription, 2)] == ["b", "c"]
