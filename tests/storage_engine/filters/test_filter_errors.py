"""What no SQL92 filter is: each refusal says what, at which character, and what would be right."""

from __future__ import annotations

import pytest

from storage_engine.errors import ERRORS_BY_CODE, FilterInvalid, error_from_code
from tests.storage_engine.filters.encoded import sql

OPERAND = "expected a property, a number, a string, TRUE, FALSE, NULL or \\("
LONG = "an integer has at most 64 bits"
ORDER = "compare numbers, or properties that hold a number"
CONDITION = "a condition is needed, such as a = 5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"the end at character 1: {OPERAND}"),
        (" -- a\n", f"the end at character 7: {OPERAND}"),
        ("a =", f"the end at character 4: {OPERAND}"),
        ("a = ) ", rf"'\)' at character 5: {OPERAND}"),
        ("a AND", f"the end at character 6: {OPERAND}"),
        ("AND a", f"'AND' at character 1: {OPERAND}"),
        ("a = 5 5", "'5' at character 7: expected AND, OR or the end"),
        ("a b", "'b' at character 3: expected AND, OR or the end"),
        ("(a = 5", r"the end at character 7: expected \)"),
        ("a = 5)", r"'\)' at character 6: expected AND, OR or the end"),
        ("()", rf"'\)' at character 2: {OPERAND}"),
        ("a = 1 = 2", "'=' at character 7: put a comparison"),
        ("a IS NULL IS NULL", "'IS' at character 11: put a comparison"),
        ("a = NOT b", "'NOT' at character 5"),
        ("a == 5", "'=' at character 4: .*; write a single ="),
        ("a != 5", "'!' at character 3: write <> for unequal"),
        ("a && b", "'&' at character 3: write AND"),
        ("a || b", r"'\|' at character 3: write OR"),
        ("a LIKE 'x%'", "'LIKE' at character 3: write CONTAINS, STARTSWITH or ENDSWITH"),
        ("a + 1 > 5", r"'\+' at character 3: expected AND, OR or the end; there is no arithmetic"),
        ("a * 2 > 5", r"'\*' at character 3: there is no arithmetic"),
        ("user-id = 5", "'-' at character 5: .* names have only letters"),
        ("a.b = 5", "'.' at character 2: only names"),
        ("é = 5", "'é' at character 1: only names"),
        ("a = 'é😀' AND ü", "'ü' at character 14"),
        ('"a" = 5', "'\"' at character 1: put strings in single quotes"),
        ("`a` = 5", "'`' at character 1: write names of properties without quotes"),
        ("a = 'x", '"\'" at character 5: the string that starts here has no closing quote'),
        ("a = 'it's'", "'s' at character 9"),
        ("a = '''", '"\'" at character 5: the string that starts here'),
        ("a /* x", "'/' at character 3: a comment that starts"),
        ("a /*/ = 5", "'/' at character 3: a comment that starts"),
        ("a IS 5", "'5' at character 6: expected NULL"),
        ("a IS NOT TRUE", "'TRUE' at character 10: expected NULL"),
        ("a NOT = 5", "'=' at character 7: expected BETWEEN, IN, CONTAINS"),
        ("a NOT NULL", "'NULL' at character 7: expected BETWEEN, IN, CONTAINS"),
        ("a BETWEEN 5", "the end at character 12: expected AND"),
        ("a BETWEEN 5 OR 6", "'OR' at character 13: expected AND"),
        ("a IN", r"the end at character 5: expected \("),
        ("a IN ()", r"'\)' at character 7: expected a string or a number"),
        ("a IN (5,)", r"'\)' at character 9: expected a string or a number"),
        ("a IN (5 6)", r"'6' at character 9: expected \)"),
        ("a IN (b)", "'b' at character 7: expected a string or a number"),
        ("a IN (NULL)", "'NULL' at character 7: expected a string or a number"),
        ("a IN (-'5')", "\"'5'\" at character 8: expected a number"),
        ("a IN ((5))", r"'\(' at character 7: expected a string or a number"),
        ("a CONTAINS b", "'b' at character 12: expected a string"),
        ("a CONTAINS 5", "'5' at character 12: expected a string"),
        ("a <' x'", "\"' x'\" at character 4"),
    ],
)
def test_texts_that_are_no_condition(text: str, message: str) -> None:
    with pytest.raises(FilterInvalid, match=message):
        sql(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", f"'5' at character 1: {CONDITION}"),
        ("'TRUE'", f"\"'TRUE'\" at character 1: {CONDITION}"),
        ("a AND 5", f"'5' at character 7: {CONDITION}"),
        ("'x' OR a", f"\"'x'\" at character 1: {CONDITION}"),
        ("a OR b AND -c", f"'-' at character 12: {CONDITION}"),
        ("NOT 5", f"'5' at character 5: {CONDITION}"),
        ("(5) AND a", rf"'\(' at character 1: {CONDITION}"),
        ("a = NULL", "NULL at character 5: nothing is equal to NULL; write IS NULL"),
        ("NULL <> a", "NULL at character 1: nothing is equal to NULL"),
        ("a = (NULL)", "NULL at character 5: nothing is equal to NULL"),
        ("5 = TRUE", "'TRUE' at character 5: a number is neither TRUE nor FALSE"),
        ("FALSE <> 5", "'5' at character 10: a number is neither"),
        ("-a = TRUE", "'TRUE' at character 6: a number is neither"),
        ("5 = (a = 5)", r"'\(' at character 5: a number is neither"),
        ("a > 'x'", f"\"'x'\" at character 5: .*{ORDER}"),
        ("'x' < a", f"\"'x'\" at character 1: .*{ORDER}"),
        ("a >= TRUE", f"'TRUE' at character 6: .*{ORDER}"),
        ("a <= NULL", f"'NULL' at character 6: .*{ORDER}"),
        ("(a = 5) > 3", rf"'\(' at character 1: .*{ORDER}"),
        ("a BETWEEN 'a' AND 'b'", f"\"'a'\" at character 11: .*{ORDER}"),
        ("a BETWEEN 1 AND NULL", f"'NULL' at character 17: .*{ORDER}"),
        ("TRUE BETWEEN 1 AND 2", f"'TRUE' at character 1: .*{ORDER}"),
        ("a BETWEEN 5 AND 3", "5 as the lower bound of BETWEEN at character 11: .*, 3"),
        ("a NOT BETWEEN 1 AND -1.5", "1 as the lower bound of BETWEEN at character 15: .*, -1.5"),
        ("5 IN (5)", "'5' at character 1: IN must follow the name of a property"),
        ("-a IN (5)", "'-' at character 1: IN must follow"),
        ("5 CONTAINS 'a'", "'5' at character 1: CONTAINS must follow"),
        ("(a = 5) ENDSWITH 'a'", r"'\(' at character 1: ENDSWITH must follow"),
        ("-'5' = a", "'-' at character 1: only a number or a property can have a sign"),
        ("a = -TRUE", "'-' at character 5: only a number"),
        ("a = - (b = 5)", "'-' at character 5: only a number"),
    ],
)
def test_types_that_never_agree(text: str, message: str) -> None:
    with pytest.raises(FilterInvalid, match=message):
        sql(text)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("007", "'007' at character 5: an integer must not start with 0"),
        ("00", "'00' at character 5: an integer must not start with 0"),
        ("5abc", "'5abc' at character 5: write a number as"),
        ("5e", "'5e' at character 5: write a number as"),
        ("5e+", "'5e' at character 5: write a number as"),
        ("5.5.5", "'5.5.5' at character 5: write a number as"),
        ("5.5L", "'5.5L' at character 5: write a number as"),
        ("0x1F", "'0x1F' at character 5: write a number as"),
        ("1_000", "'1_000' at character 5: write a number as"),
        (".", "'.' at character 5: only names"),
        ("٣", "'٣' at character 5: only names"),
        ("9223372036854775808", "at character 5: an integer is at most 9223372036854775807"),
        ("9223372036854775809", f"at character 5: {LONG}"),
        ("-9223372036854775809", f"at character 6: {LONG}"),
        ("- (9223372036854775808)", "at character 8: an integer is at most"),
        ("- -9223372036854775808", "at character 8: an integer is at most"),
        ("9" * 4_000, f"'99999999999999999999…' at character 5: {LONG}"),
        ("1e400", "'1e400' at character 5: a number must be less than 1.8e308"),
        ("-1e400", "'1e400' at character 6: a number must be less than 1.8e308"),
        ("1e" + "9" * 4_000, "at character 5: a number must be less than 1.8e308"),
        ("9" * 4_000 + ".", "at character 5: a number must be less than 1.8e308"),
        ("1e-400", "at character 5: a number other than 0 must be more than 4.9e-324"),
    ],
)
def test_numbers_that_are_none(number: str, message: str) -> None:
    with pytest.raises(FilterInvalid, match=message):
        sql(f"a = {number}")


@pytest.mark.parametrize("number", ["0e-400", "0.0", "9223372036854775807", "-9223372036854775808",
    "1e308", "4.9e-324", "1e20", "9223372036854775808.0", "007.5", "00e1"])  # fmt: skip
def test_numbers_at_the_limits(number: str) -> None:
    assert sql(f"a = {number}").matches(f"a\x01{number}\x02".encode())


@pytest.mark.parametrize("name", ["NaN", "Infinity", "now", "nulls", "_", "$", "E5"])
def test_words_that_mean_nothing_special_are_properties(name: str) -> None:
    assert sql(f"{name} = 5").matches(f"{name}\x015\x02".encode())


@pytest.mark.parametrize(
    ("character", "code"),
    [("\x00", "0000"), ("\x01", "0001"), ("\x02", "0002"), ("\x7f", "007F"), ("\udfff", "DFFF")],
)
def test_unusable_characters_are_refused_in_texts_too(character: str, code: str) -> None:
    with pytest.raises(FilterInvalid, match=rf"U\+{code} at character 6: a filter has no control"):
        sql(f"a = '{character}'")


def test_text_of_4_kib_is_allowed_and_a_byte_more_is_not() -> None:
    room = 4_096 - len("a = ''")

    assert sql(f"a = '{'x' * room}'").matches(b"a\x01" + b"x" * room + b"\x02")
    with pytest.raises(FilterInvalid, match="4097 characters, at most 4096 bytes"):
        sql(f"a = '{'x' * (room + 1)}'")
    with pytest.raises(FilterInvalid, match="4097 bytes in UTF-8, at most 4096"):
        sql(f"a = '{'x' * (room - 1)}é'")


def test_filter_that_gets_too_long_in_canonical_form_is_refused() -> None:
    text = "a='" + "x" * (4_096 - len("a=''")) + "'"

    with pytest.raises(FilterInvalid, match="4098 bytes with single spaces"):
        sql(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(", ")"),
        ("NOT ", ""),
        ("NOT (", ")"),
        ("(a AND ", ")"),
        ("a=(", ")"),
        ("a OR(b=(", "))"),
    ],
)
def test_depth_of_50_is_allowed_and_one_more_is_not(before: str, after: str) -> None:
    each = before.count("(") + before.count("NOT") - before.count(")")
    levels = 50 // each

    deep = sql(before * levels + "a" + after * levels)

    assert sql(str(deep)) == deep
    assert deep.matches(b"a\x01true\x02b\x01true\x02") in (True, False)
    with pytest.raises(FilterInvalid, match="parentheses and NOTs may be nested at most 50 deep"):
        sql(before * (levels + 1) + "a" + after * (levels + 1))


def test_depth_is_counted_where_things_stand_around_one_another_only() -> None:
    sql(" AND ".join(["(NOT a)"] * 60))


@pytest.mark.parametrize(
    ("text", "node_count"),
    [
        ("a IN (" + ",".join(["1"] * 198) + ")", 200),
        (" OR ".join(["a"] * 100) + " OR NULL", 201),
        ("a OR " + " OR ".join(["b = 5"] * 49) + " OR c = 1", 201),
        ("a = " + "- " * 197 + "5", 200),
        ("a BETWEEN 1 AND 2" + " AND b IS NULL" * 65 + " OR c", 201),
    ],
)
def test_nodes_of_200_are_allowed_and_one_more_is_not(text: str, node_count: int) -> None:
    if node_count == 200:
        sql(text)
    else:
        with pytest.raises(FilterInvalid, match="at most 200 names, literals, operators and signs"):
            sql(text)


def test_node_too_many_is_named_with_its_place() -> None:
    text = "a IN (" + ",".join(["1"] * 198) + ",'too much')"

    with pytest.raises(FilterInvalid, match=r"\"'too much'\" at character 403: at most 200"):
        sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000, "(" * 100_000, "NOT " * 100_000, "-" * 100_000, "'" * 1_000_001,
        "a IN (" + "1," * 100_000 + "1)", "\x00" * 1_000_000, "\ud800" * 1_000_000, "é" * 1_000_000,
        "(" * 4_096, "NOT " * 1_024, "- " * 2_048, "'" * 4_095, "/*" * 2_048, "/*" + "*" * 4_094,
        "a" * 4_096 + "(", "1" * 4_096, "1e" * 2_048, "." * 4_096, "a=" * 2_048, "\n" * 4_096,
        "a IN (" + "1," * 2_000, "''" * 2_047 + "'", "'" + "''" * 2_047, "--" * 2_048,
    ],
)  # fmt: skip
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(FilterInvalid):
        sql(text)


def test_refused_piece_is_shown_short_and_on_one_line() -> None:
    with pytest.raises(FilterInvalid) as caught:
        sql("a = 5" + "x" * 4_000)
    assert len(str(caught.value)) < 200
    with pytest.raises(FilterInvalid, match=r"'\\u2028' at character 1"):
        sql("\u2028")


def test_error_has_its_own_code() -> None:
    assert ERRORS_BY_CODE[21] is FilterInvalid
    assert isinstance(error_from_code(21, "x"), FilterInvalid)
    assert not FilterInvalid.retriable
    assert FilterInvalid.stored is False
