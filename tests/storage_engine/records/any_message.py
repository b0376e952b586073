"""Messages of every kind that a producer may make, for property tests of records."""

from __future__ import annotations

from collections.abc import Container

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from storage_engine.records.record import StoreMessage

WORD = st.text(
    st.characters(exclude_characters="\x01\x02 ", exclude_categories=["Cs"]), min_size=1, max_size=8
)


def any_message(
    reserved: Container[str], *, id_chars_min: int = 34, values: SearchStrategy[str] = WORD
) -> SearchStrategy[StoreMessage]:
    """``reserved``: names that properties of its own do not bear; ``values`` they have."""
    return st.builds(
        StoreMessage,
        topic=st.text("abc-%|_ü", min_size=1, max_size=127),
        queue_id=st.integers(0, 2**31 - 1),
        body=st.binary(max_size=300),
        message_id=st.text("0123456789ABCDEF", min_size=id_chars_min, max_size=34),
        born_timestamp_ms=st.integers(0, 2**62),
        born_host=st.tuples(
            st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str), st.integers(0, 65_535)
        ),
        tag=st.none() | WORD,
        keys=st.lists(WORD, max_size=4),
        message_group=st.none() | WORD,
        properties=st.dictionaries(
            WORD.filter(lambda name: name not in reserved), values, max_size=4
        ),
        flag=st.integers(-(2**31), 2**31 - 1),
    )
