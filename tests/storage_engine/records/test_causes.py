"""Causes: what differs from message to message is left out, and a cause is its own cause."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.records.causes import CAUSE_CHARS_MAX, cause_of

# Pieces that meet in reasons, and those at which rules could trip over each other.
PIECES = st.sampled_from(
    [
        "timeout", "order", " ", " ", ":", "'", '"', "`", "“", "”", "<", ">", "<n>", "<id>",
        "<text>",
        "4711", "30.5", "-", "+7", "0x1F", "deadbeef", "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "2026-01-02T03:04:05Z", "03:04:05", "10.0.0.1", ":", "::", "fe80", "a@b.example", "@", ".",
        "status", "HTTP", "503", "_", "é", "订单", "\n", "\t", "\0", ",", "x" * 60, "9" * 70,
    ]
)  # fmt: skip
REASONS = st.one_of(st.text(max_size=400), st.lists(PIECES, max_size=60).map("".join))


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("", ""),
        ("  \n\t ", ""),
        ("lease ended", "lease ended"),
        ("Order 4711 of 'Ann' timed out after 30.5 s", "Order <n> of <text> timed out after <n> s"),
        ('no user "a b" in tenant 7', "no user <text> in tenant <n>"),
        ("can't reach it", "can't reach it"),
        ("id 3f2504e0-4f89-11d3-9a0c-0305e82c3301 gone", "id <id> gone"),
        ("at 0xDEADBEEF of deadbeef01", "at <id> of <id>"),
        ("AC1400010000000000001F2B00000003 lost", "<id> lost"),
        ("due 2026-01-02T03:04:05.123+01:00", "due <time>"),
        ("due 2026-01-02, at 03:04:05", "due <time>, at <time>"),
        ("connect to 10.0.0.1:5432 refused", "connect to <ip> refused"),
        ("connect to fe80::1 refused", "connect to <ip> refused"),
        ("mail to ann@x.example bounced", "mail to <email> bounced"),
        ("missing [1, 2, 3]", "missing [<n>]"),
        ("HTTP 503 of shop, status code 404", "HTTP 503 of shop, status code 404"),
        ("HTTP 5031, error 503", "HTTP <n>, error <n>"),
        ("订单123失败 “张三”", "订单<n>失败 <text>"),
        ("line one\nline two", "line one line two"),
        ("AbstractV2Handler failed", "AbstractV<n>Handler failed"),
        ("std::vector", "std::vector"),
    ],
)
def test_what_differs_from_message_to_message_is_a_sign(reason: str, cause: str) -> None:
    assert cause_of(reason) == cause


@given(REASONS)
def test_a_cause_is_its_own_cause(reason: str) -> None:
    assert cause_of(cause_of(reason)) == cause_of(reason)


@given(REASONS)
def test_a_cause_is_short_on_one_line_and_fit_to_be_stored(reason: str) -> None:
    cause = cause_of(reason)
    assert len(cause) <= CAUSE_CHARS_MAX
    assert cause == cause.strip()
    assert all(char.isprintable() for char in cause)


@given(
    st.integers(0, 10**30), st.floats(0, 10**6, allow_nan=False), st.uuids(),
    st.integers(0, 4_000_000_000),
    st.text(st.characters(exclude_characters="'"), max_size=30),
)  # fmt: skip
def test_like_failures_of_other_messages_have_one_cause(
    number: int, seconds: float, uuid: object, at_s: int, text: str
) -> None:
    when = datetime.fromtimestamp(at_s, UTC).isoformat(" ")
    reason = f"order {number} ({uuid}) of '{text}' at {when}: no answer in {seconds:.3f}s"
    assert cause_of(reason) == "order <n> (<id>) of <text> at <time>: no answer in <n>s"
