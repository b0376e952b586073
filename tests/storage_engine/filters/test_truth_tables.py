"""AND, OR and NOT over TRUE, FALSE and unknown, as SQL92 has them."""

from __future__ import annotations

import itertools

import pytest

from tests.storage_engine.filters.encoded import sql, truth

T, F, U = True, False, None
# As conditions on a property, where U is a missing one; and as literals.
WRITTEN = {T: "a = 5", F: "a = 6", U: "absent = 5"}
LITERALS = {T: "TRUE", F: "FALSE", U: "NULL"}
MESSAGE = {"a": "5"}


@pytest.mark.parametrize("words", [WRITTEN, LITERALS])
@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (T, T, T, T), (T, F, F, T), (T, U, U, T),
        (F, T, F, T), (F, F, F, F), (F, U, F, U),
        (U, T, U, T), (U, F, F, U), (U, U, U, U),
    ],
)  # fmt: skip
def test_and_or(
    words: dict[bool | None, str],
    left: bool | None,
    right: bool | None,
    both: bool | None,
    either: bool | None,
) -> None:
    assert truth(f"{words[left]} AND {words[right]}", MESSAGE) is both
    assert truth(f"{words[left]} OR {words[right]}", MESSAGE) is either


@pytest.mark.parametrize("words", [WRITTEN, LITERALS])
@pytest.mark.parametrize(("part", "opposite"), [(T, F), (F, T), (U, U)])
def test_not(words: dict[bool | None, str], part: bool | None, opposite: bool | None) -> None:
    assert truth(f"NOT {words[part]}", MESSAGE) is opposite


@pytest.mark.parametrize("values", list(itertools.product([T, F, U], repeat=3)))
def test_chains_of_three(values: tuple[bool | None, ...]) -> None:
    words = [WRITTEN[value] for value in values]
    every = F if F in values else U if U in values else T
    some = T if T in values else U if U in values else F

    assert truth(" AND ".join(words), MESSAGE) is every
    assert truth(" OR ".join(words), MESSAGE) is some


@pytest.mark.parametrize("condition", ["absent = 5", "NOT absent = 5", "NULL", "NOT NULL"])
def test_unknown_does_not_match(condition: str) -> None:
    assert sql(condition).matches(b"a\x015\x02") is False
