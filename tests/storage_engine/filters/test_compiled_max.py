"""However many groups have a filter, so many of them are compiled and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from storage_engine.errors import FilterInvalid
from storage_engine.filters import message_filter
from storage_engine.filters.message_filter import (
    COMPILED_MAX,
    FilterKind,
    compile_filter,
    set_compiled_max,
)

KEPT: Final = 3


@pytest.fixture
def few_kept() -> Iterator[None]:
    set_compiled_max(KEPT)
    yield
    set_compiled_max(COMPILED_MAX)


def test_filters_that_were_not_asked_for_long_are_compiled_again(few_kept: None) -> None:
    filters = [compile_filter(f"price = {n}", FilterKind.SQL92) for n in range(20)]
    for _ in range(2):
        for number, each in enumerate(filters):
            assert each.matches(b"price\x01%d\x02" % number)
            assert not each.matches(b"price\x01%d\x02" % (number + 1))
            assert message_filter._conditions.of.cache_info().currsize <= KEPT


def test_one_that_is_none_is_refused_at_once(few_kept: None) -> None:
    with pytest.raises(FilterInvalid):
        compile_filter("price = ", FilterKind.SQL92)
    assert message_filter._conditions.of.cache_info().currsize == 0
