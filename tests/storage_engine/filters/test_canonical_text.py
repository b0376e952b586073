"""One text for all spellings of a filter, so that two subscriptions can be compared."""

from __future__ import annotations

import pytest

from tests.storage_engine.filters.encoded import sql


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" a>5 and Region='eu' ", "a > 5 AND Region = 'eu'"),
        ("a = 5 -- why\n or /* not */ b", "a = 5 OR b"),
        ("((a)) = ((5))", "a = 5"),
        ("(a = 5)", "a = 5"),
        ("a or (b or c)", "a OR b OR c"),
        ("(a and b) and c", "a AND b AND c"),
        ("(a and b) or c", "a AND b OR c"),
        ("a and (b or c)", "a AND (b OR c)"),
        ("not(a=5)", "NOT a = 5"),
        ("not(a or b)", "NOT (a OR b)"),
        ("not not a", "NOT NOT a"),
        ("not(a and b) and c", "NOT (a AND b) AND c"),
        ("(a = 5) = true", "(a = 5) = TRUE"),
        ("(a) is null", "a IS NULL"),
        ("(a or b)is not null", "(a OR b) IS NOT NULL"),
        ("a not in('x',5,-5.0)", "a NOT IN ('x', 5, -5)"),
        ("a not between 1 and+2", "a NOT BETWEEN 1 AND 2"),
        ("a startswith 'it''s'", "a STARTSWITH 'it''s'"),
        ("a not endswith 'x'", "a NOT ENDSWITH 'x'"),
        ("null", "NULL"),
        ("-a = - -b", "-a = +b"),
        ("+a = -(-5)", "+a = 5"),
        ("a = 5.0", "a = 5"),
        ("a = 5L", "a = 5"),
        ("a = 50e-1", "a = 5"),
        ("a = -0.0", "a = 0"),
        ("a = .50", "a = 0.5"),
        ("a = 1E300", "a = 1e+300"),
        ("a = 1e18", "a = 1000000000000000000"),
        ("a = -9223372036854775808", "a = -9223372036854775808"),
        ("a = -9223372036854775808.0", "a = -9.223372036854776e+18"),
        ("a = - (-9223372036854775808.0)", "a = 9.223372036854776e+18"),
        ("a = 9223372036854775808.0", "a = 9.223372036854776e+18"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    found = sql(text)

    assert str(found) == found.text == canonical
    assert sql(canonical) == found
    assert str(sql(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("a = 5", "A = 5"),
        ("a = 'x'", "a = 'X'"),
        ("a = 5", "a = '5'"),
        ("a = 'a b'", "a = 'a  b'"),
        ("a = b", "+a = b"),
        ("a AND b OR c", "a AND (b OR c)"),
        ("NOT (a AND b)", "NOT a AND b"),
    ],
)
def test_filters_that_mean_different_things_differ(text: str, other: str) -> None:
    assert sql(text) != sql(other)
