"""The search language: what each token asks for, and what is said of one that is wrong."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.delivery.decoding import Fault
from mqservice.delivery.reading.body_fields import FieldCondition, matches_fields
from mqservice.delivery.reading.message_query import (
    MessageQuery,
    parse_query,
    replaced,
    tokens_of,
    written,
)

ID = "01679C42FC1C5916ED0B1323B800019A0A"


def test_each_token_is_a_parameter_of_a_browse() -> None:
    query = parse_query(
        "topic:orders key:order-42 tag:paid||late from:2026-12-01 to:2026-12-01T08:30 "
        'queue:3 body:"a \\"502\\""'
    )

    assert query == MessageQuery(
        topic="orders",
        values={
            "key": "order-42",
            "tag": "paid||late",
            "from": "2026-12-01T00:00:00Z",
            "to": "2026-12-01T08:30:00Z",
            "queue": "3",
            "contains": 'a "502"',
        },
    )


def test_comparisons_are_of_properties_or_of_fields_of_the_body() -> None:
    query = parse_query(
        "topic:t amount > 100 region='eu' name=\"O'Hara\" vip != true body.order.total>=5.5 "
        'body.paid = true body.state = "1"'
    )

    assert query.values["sql"] == (
        "amount > 100 AND region = 'eu' AND name = 'O''Hara' AND vip <> true"
    )
    assert query.fields == [
        FieldCondition(["order", "total"], ">=", 5.5),
        FieldCondition(["paid"], "=", True),
        FieldCondition(["state"], "=", "1"),
    ]


def test_numbers_keep_their_value() -> None:
    query = parse_query(
        "big = 1e20 half < .5 body.id = 9007199254740993 body.big > 99999999999999999999 "
        "body.small > -1.5e3"
    )

    assert query.values["sql"] == "big = 1e20 AND half < .5"
    assert [field.value for field in query.fields] == [9007199254740993, 1e20, -1500.0]
    assert matches_fields(b'{"id": 9007199254740993}', query.fields[:1])
    assert not matches_fields(b'{"id": 9007199254740992}', query.fields[:1])


def test_a_day_alone_is_meant_from_its_beginning_and_to_its_end() -> None:
    assert parse_query("from:2026-12-01 to:2026-12-01").values == {
        "from": "2026-12-01T00:00:00Z",
        "to": "2026-12-01T23:59:59.999Z",
    }


def test_a_time_may_have_a_zone_and_no_seconds() -> None:
    assert parse_query("from:2026-12-01T08:00+02:00").values["from"] == "2026-12-01T08:00:00+02:00"


def test_all_time_is_no_longer_than_a_cursor_can_be_bound_to() -> None:
    assert parse_query("last:999999999999999d").last_ms == (1 << 63) - 1


@pytest.mark.parametrize("looked_for", ['body:" "', "body.a = 1"])
def test_white_space_is_looked_for_in_bodies_as_well(looked_for: str) -> None:
    assert parse_query(looked_for).body_text


def test_sql_stands_beside_comparisons() -> None:
    assert parse_query('sql:"a > 5 OR b IS NULL" c < 1').values == {
        "sql": "(a > 5 OR b IS NULL) AND c < 1"
    }


def test_a_word_alone_is_a_key_or_an_id() -> None:
    assert parse_query("topic:t order-42").values == {"key": "order-42"}
    assert parse_query(f"topic:t {ID}").ids == [ID]


def test_ids_stand_in_one_token_each_once() -> None:
    assert parse_query("topic:t id:a,b,a").ids == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tga:paid", "at character 1: tga: is not a token; did you mean tag:paid?"),
        ("topic:t order:42", "write key:order:42 for a key"),
        ("topic:t key:", "at character 13: key: lacks its value; write key:order-42"),
        ('body:""', 'body:"" is empty'),
        ('topic:t body:"two', "a quote is not closed"),
        ('topic:t "two words"', 'to search bodies write body:"two words"'),
        ('body:"a"b', "a quote is not closed"),
        ("amount >", "amount> lacks its value; write amount > 100"),
        ("größe > 5", "'größe' cannot be a property"),
        ("body.a:5", "write body.a = 5"),
        ("body..a > 5", "an empty part"),
        ("tag:a tag:b", "several tags are one token: tag:a||b"),
        ("key:a key:b", "key: is given twice"),
        ("last:1w", "last: takes a time such as 30s, 15m, 12h or 7d, found '1w'"),
        ("last:1h from:2026-12-01", "last:, or from: and to:"),
        ("from:yesterday", "a time is written 2026-12-01"),
        ("id:a tag:b", "leave tag out"),
        ("id:a x > 1", "id: selects messages by itself"),
        ("id:,", "1 to 256 ids"),
        ("topic:a group:b", "not both"),
        ("> 5", "starts no token"),
        ("a == 5", "at character 4: a == is no comparison; write one of = != < <= > >="),
        ("a => 5", "a => is no comparison"),
        ("body.a =! 5", "body.a =! is no comparison"),
        ("a > 5 or b < 3", 'all tokens must hold; write sql:"a > 5 OR b < 3", or key:or'),
        ("a.b > 5", "'a.b' cannot be a property"),
        (" ".join(["a=1"] * 65), "more than 64 tokens"),
    ],
)
def test_a_wrong_token_says_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_query(text)

    assert caught.value.code == "BAD_REQUEST"
    assert says in caught.value.detail


@pytest.mark.parametrize("condition", ["1 = 1) OR (2 = 2", "a > 5 -- why", "a >"])
def test_a_condition_in_sql_ends_in_its_token(condition: str) -> None:
    try:
        found = parse_query(f'sql:"{condition}" b > 6').values["sql"]
    except Fault as fault:
        assert fault.code == "ILLEGAL_FILTER"  # noqa: PT017  # the one or the other
    else:
        assert found == "(a > 5) AND b > 6"


@given(value=st.text(min_size=1, max_size=40))
def test_what_is_written_is_read_again(value: str) -> None:
    [token] = tokens_of(written("body", value))

    assert (token.name, token.value) == ("body", value)


@given(text=st.text(alphabet='abc:"\\ =<>.!\n', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(Fault):  # and nothing else
        assert isinstance(parse_query(text), MessageQuery)


def test_tokens_are_replaced_by_name() -> None:
    assert (
        replaced("topic:t last:1h  tag:a", ("last", "from", "to"), "from:x", "to:y")
        == "topic:t tag:a from:x to:y"
    )
    assert replaced("tga:x last:1h", ("last",), "last:5m") == "tga:x last:1h last:5m"
    assert replaced("last > 4 to = 5 last:1h", ("last", "from", "to")) == "last > 4 to = 5"


@pytest.mark.parametrize(
    ("condition", "is_match"),
    [
        (FieldCondition(["order", "total"], ">", 100.0), True),
        (FieldCondition(["order", "total"], "<=", 100.0), False),
        (FieldCondition(["order", "lines", "1", "sku"], "=", "b"), True),
        (FieldCondition(["order", "lines", "2", "sku"], "=", "b"), False),
        (FieldCondition(["order", "lines", "x"], "=", "b"), False),
        (FieldCondition(["order", "total"], "=", "101"), False),
        (FieldCondition(["paid"], "=", True), True),
        (FieldCondition(["paid"], "=", 1.0), False),
        (FieldCondition(["missing"], "<>", "a"), False),
    ],
)
def test_a_field_of_the_body_compares_with_its_own_kind(
    condition: FieldCondition, is_match: bool
) -> None:
    body = b'{"order": {"total": 101, "lines": [{"sku": "a"}, {"sku": "b"}]}, "paid": true}'

    assert matches_fields(body, [condition]) is is_match


@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b"[" * 100_000])
def test_a_body_that_is_no_json_has_no_fields(body: bytes) -> None:
    assert not matches_fields(body, [FieldCondition(["a"], "=", "b")])
