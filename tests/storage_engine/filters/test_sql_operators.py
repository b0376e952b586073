"""Every operator of SQL92 filters on values of every type, with all three answers."""

from __future__ import annotations

import pytest

from storage_engine.filters.message_filter import FilterKind, compile_filter
from storage_engine.records.record import (
    CRC_PROPERTY_BYTES,
    StoreMessage,
    encode_record,
    parse_head,
)
from tests.storage_engine.filters.encoded import encoded, sql, truth

MESSAGE = {
    "five": "5", "half": "5.5", "minus": "-5", "plus": "+5", "exponent": "5e3", "zeros": "0005",
    "huge": "1e999", "big": "9007199254740993", "eu": "eu", "Eu": "Eu", "empty": "", "yes": "TRUE",
    "no": "false", "quote": "it's", "accent": "é", "spaced": " 5", "$_1": "x",
}  # fmt: skip
UNKNOWN = None


def answers(table: str) -> list[tuple[str, bool | None]]:
    """Lines of ``answer: condition``."""
    known = {"true": True, "false": False, "unknown": UNKNOWN}
    lines = [line.strip() for line in table.strip().splitlines()]
    return [
        (condition.strip(), known[answer])
        for answer, _, condition in (line.partition(":") for line in lines)
    ]


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: five = 5
        true: 5 = five
        true: five = 5.0
        true: zeros = 5
        true: plus = 5
        true: minus = -5
        true: exponent = 5000
        false: five = 6
        true: five <> 6
        false: five <> 5
        unknown: eu = 5
        unknown: eu <> 5
        unknown: empty = 0
        unknown: spaced = 5
        unknown: huge = 5
        unknown: absent = 5
        unknown: absent <> 5
        true: big = 9007199254740993
        false: big = 9007199254740992
        false: big = 9007199254740992.0
        true: 5 = 5.0
        false: 5 = 6
        unknown: 'x' = 5
    """),
)
def test_equality_with_a_number(condition: str, expected: bool | None) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: eu = 'eu'
        true: 'eu' = eu
        false: Eu = 'eu'
        false: eu = 'e'
        false: eu = 'eur'
        true: eu <> 'us'
        false: eu <> 'eu'
        true: empty = ''
        false: empty <> ''
        true: quote = 'it''s'
        true: accent = 'é'
        true: five = '5'
        false: five = '5.0'
        unknown: absent = 'eu'
        unknown: absent <> 'eu'
        true: 'a' = 'a'
    """),
)
def test_equality_with_a_text(condition: str, expected: bool | None) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: yes = TRUE
        false: yes = false
        true: no = FALSE
        false: no <> False
        unknown: eu = TRUE
        unknown: eu = FALSE
        unknown: five <> TRUE
        unknown: absent = FALSE
        true: TRUE = TRUE
        true: TRUE <> FALSE
        true: yes
        false: no
        unknown: eu
        unknown: empty
        unknown: absent
        true: TRUE
        false: FALSE
        unknown: NULL
        true: (five > 4) = TRUE
        true: (five > 4) = (half > 4)
        true: (five > 5) <> yes
        unknown: (eu > 5) = FALSE
        unknown: (five > 4) = eu
    """),
)
def test_truths(condition: str, expected: bool | None) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: five > 4
        false: five > 5
        true: five >= 5
        false: five >= 5.1
        true: five < 6
        false: five < 5
        true: five <= 5
        false: five <= 4
        true: 4 < five
        true: 6 > five
        false: 5 < five
        false: 5 > five
        true: 5 <= five
        true: 5 >= five
        false: 6 <= five
        true: half > 5
        true: half < 6
        true: minus < -4.5
        true: exponent >= 5e3
        true: big > 9007199254740992
        true: half > five
        false: half <= five
        true: 1 < 2
        unknown: eu > 5
        unknown: eu < 5
        unknown: huge > 5
        unknown: five > eu
        unknown: absent > 5
        unknown: five < absent
    """),
)
def test_order(condition: str, expected: bool | None) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: five = five
        false: five = zeros
        true: five <> half
        true: -five = minus
        true: - (-five) = five
        true: +plus = five
        true: -five < 0
        false: five = -5
        true: -minus = 5
        true: -5 = minus
        unknown: -eu = 5
        unknown: -absent = 5
        unknown: five = absent
    """),
)
def test_two_properties_and_signs(condition: str, expected: bool | None) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: absent IS NULL
        false: absent IS NOT NULL
        false: five IS NULL
        true: five IS NOT NULL
        false: empty IS NULL
        true: empty IS NOT NULL
        true: -eu IS NULL
        true: (eu > 5) IS NULL
        true: (five > 5) IS NOT NULL
        true: NULL IS NULL
        false: 5 IS NULL
        false: 'x' IS NULL
        false: TRUE IS NULL
        true: NOT five IS NULL
        false: fiv IS NOT NULL
        false: ve IS NOT NULL
    """),
)
def test_null(condition: str, expected: bool | None) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: five BETWEEN 5 AND 6
        true: five BETWEEN 4 AND 5
        true: five BETWEEN 5 AND 5
        false: five BETWEEN 6 AND 7
        false: five BETWEEN 3 AND 4
        true: half BETWEEN 5 AND 6
        true: five NOT BETWEEN 6 AND 7
        false: five NOT BETWEEN 5 AND 7
        true: five BETWEEN minus AND half
        true: 5 BETWEEN minus AND 6
        true: -five BETWEEN -6 AND -4
        false: five BETWEEN half AND minus
        unknown: eu BETWEEN 5 AND 6
        unknown: eu NOT BETWEEN 5 AND 6
        unknown: absent BETWEEN 5 AND 6
        unknown: absent NOT BETWEEN 5 AND 6
        unknown: five BETWEEN absent AND 6
        false: five BETWEEN absent AND 4
        true: five NOT BETWEEN absent AND 4
        true: five BETWEEN 4 AND 6 AND half BETWEEN 5 AND 6
    """),
)
def test_between(condition: str, expected: bool | None) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: eu IN ('us', 'eu')
        true: eu IN ('eu')
        false: eu IN ('us', 'ap')
        true: eu NOT IN ('us', 'ap')
        false: eu NOT IN ('us', 'eu')
        false: five IN ('5.0', '6')
        true: five IN (5.0, 6)
        true: minus IN (5, -5)
        false: five IN (6, 7)
        true: five NOT IN (6, 7)
        true: five IN ('eu', 5)
        true: eu IN ('eu', 5)
        unknown: eu IN ('us', 5)
        unknown: eu NOT IN ('us', 5)
        false: five IN ('us', 6)
        unknown: absent IN ('eu')
        unknown: absent NOT IN ('eu')
        unknown: absent NOT IN (5)
    """),
)
def test_in(condition: str, expected: bool | None) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: quote CONTAINS 't''s'
        true: quote CONTAINS 'it''s'
        false: quote CONTAINS 'T'
        false: quote CONTAINS 'it''s '
        true: quote STARTSWITH 'it'
        false: quote STARTSWITH 't'
        true: quote ENDSWITH '''s'
        false: quote ENDSWITH 'it'
        false: quote NOT CONTAINS 't'
        true: quote NOT CONTAINS 'x'
        true: quote NOT STARTSWITH 's'
        false: quote NOT ENDSWITH 's'
        true: accent CONTAINS 'é'
        false: accent CONTAINS 'ã'
        false: empty CONTAINS 'x'
        true: empty NOT CONTAINS 'x'
        true: five CONTAINS '5'
        false: quote CONTAINS ''
        false: quote STARTSWITH ''
        false: quote ENDSWITH ''
        false: quote NOT CONTAINS ''
        false: quote NOT STARTSWITH ''
        false: quote NOT ENDSWITH ''
        false: empty CONTAINS ''
        false: absent CONTAINS ''
        false: absent NOT CONTAINS ''
        true: NOT (quote CONTAINS '')
        true: 'axb' CONTAINS 'x'
        true: 'axb' STARTSWITH 'ax'
        true: 'axb' ENDSWITH 'xb'
        false: 'axb' CONTAINS 'u'
        false: 'axb' NOT CONTAINS 'x'
        true: 'axb' NOT STARTSWITH 'u'
        false: 'axb' CONTAINS ''
        false: 'axb' NOT ENDSWITH ''
        true: ' ' CONTAINS ' '
        unknown: absent CONTAINS 'x'
        unknown: absent NOT CONTAINS 'x'
        unknown: absent STARTSWITH 'x'
        unknown: absent NOT STARTSWITH 'x'
        unknown: absent ENDSWITH 'x'
        unknown: absent NOT ENDSWITH 'x'
    """),
)
def test_search(condition: str, expected: bool | None) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    answers("""
        true: FALSE AND FALSE OR TRUE
        true: TRUE OR FALSE AND FALSE
        false: (TRUE OR FALSE) AND FALSE
        true: NOT FALSE AND TRUE
        true: NOT (FALSE AND TRUE)
        false: NOT TRUE OR FALSE
        true: NOT five = 6
        true: NOT NOT five = 5
        false: NOT five IN (5)
        true: NOT five BETWEEN 6 AND 7 AND half > 5
    """),
)
def test_not_binds_weaker_than_comparisons_and_stronger_than_and_stronger_than_or(
    condition: str, expected: bool | None
) -> None:
    assert truth(condition, MESSAGE) is expected


@pytest.mark.parametrize(
    "condition",
    [
        "five=5", "five\t=\r\n5\f", "five = 5 -- five", "-- five\nfive = 5", "five /* = 6 */ = 5",
        "/***/ five = 5 /* a * / ** */", "five = 5L", "five = 5l", "five = 5.", "five = 50e-1",
        "five = .5E+1", "((five)) = (((5)))", "NOT(five<>5)AND(TRUE)", "eu='eu'AND five=5",
        "five bETWEEN 5 aND 5", "five In(5)", "eu ContainS 'e'", "absent iS nUlL", "$_1 = 'x'",
        "five = + + 5", "five = - -5", "quote='it''s'", "eu <> '--' AND eu <> '/*'",
    ],
)  # fmt: skip
def test_spellings(condition: str) -> None:
    assert truth(condition, MESSAGE) is True


def test_names_of_properties_keep_their_case_and_are_whole() -> None:
    properties = encoded({"xa": "1", "ax": "2", "A": "3", "b": "a\u00031"})

    assert not sql("a IS NOT NULL").matches(properties)
    assert sql("A = 3").matches(properties)


def test_last_of_a_name_counts_as_in_javas_map() -> None:
    properties = b"a\x011\x02b\x01x\x02a\x012\x02"

    for condition in ("a = 2", "a = '2'", "a IN ('2')", "a CONTAINS '2'", "-a = -2"):
        assert sql(condition).matches(properties), condition


def test_number_of_a_property_has_400_characters_at_most() -> None:
    assert truth("a > 5", {"a": "9" * 400}) is True
    assert truth("a < 5", {"a": "0." + "1" * 398}) is True
    assert truth("a > 5", {"a": "9" * 401}) is UNKNOWN
    assert truth("a < 5", {"a": "0." + "1" * 399}) is UNKNOWN


@pytest.mark.parametrize("properties", [b"", b"\x02", b"a", b"a\x01", b"a\x015", b"a\x015\x02"])
def test_list_may_be_empty_or_cut_off(properties: bytes) -> None:
    assert sql("a = 5").matches(properties) is (b"5" in properties)
    assert sql("a IS NULL").matches(properties) is (b"\x01" not in properties)


def test_system_properties_of_a_real_record_are_visible_and_its_fields_are_not() -> None:
    record = encode_record(
        StoreMessage(
            topic="t",
            queue_id=0,
            body=b"",
            message_id="01ABC",
            born_timestamp_ms=7,
            born_host=("127.0.0.1", 1),
            tag="paid",
            keys=["o-1", "c-2"],
            message_group="g",
            properties={"region": "eu"},
        )
    )
    properties = record[parse_head(record).properties_at :]
    assert len(properties) > CRC_PROPERTY_BYTES

    for condition in (
        "TAGS = 'paid'", "KEYS = 'o-1 c-2'", "KEYS CONTAINS 'c-2'", "UNIQ_KEY = '01ABC'",
        "__SHARDINGKEY = 'g'", "region = 'eu'", "topic IS NULL", "born_timestamp_ms IS NULL",
    ):  # fmt: skip
        assert compile_filter(condition, FilterKind.SQL92).matches(properties), condition


def test_sql_filter_says_maybe_to_every_unit() -> None:
    assert sql("TAGS = 'a'").matches_unit(0)
    assert sql("FALSE").matches_unit(97)
    assert not sql("TRUE").is_all
