"""Which ``traceparent`` and ``tracestate`` count, and which messages get them."""

from __future__ import annotations

import pytest

from mqservice.lib.trace_context import (
    TRACESTATE_CHARS_MAX,
    carry,
    context_of,
    known_parent,
)

IDS = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
PARENT = f"00-{IDS}-01"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (PARENT, PARENT),
        (f"00-{IDS}-00", f"00-{IDS}-00"),
        (f"00-{IDS}-03", f"00-{IDS}-03"),
        # Of a later version as much as version 00 has.
        (f"cc-{IDS}-01", PARENT),
        (f"cc-{IDS}-09-what-the-future-says", PARENT),
        (f"cc-{IDS}-08", f"00-{IDS}-00"),
        (f"ff-{IDS}-01", None),
        (f"00-{IDS}-01-more", None),
        (f"00-{IDS}-01 ", None),
        (f"00-{IDS}-1", None),
        (f"00-{IDS}", None),
        (PARENT.upper(), None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01", None),
        (f"cc-{IDS}-01-{'x' * 2_000}", None),
        (f"{PARENT}\n", None),
        ("", None),
    ],
)
def test_a_parent_is_known_by_the_form_that_w3c_gives_it(text: str, known: str | None) -> None:
    assert known_parent(text) == known


@pytest.mark.parametrize(
    ("states", "kept"),
    [
        (["a=1"], "a=1"),
        (["a=1", "b@c=2"], "a=1,b@c=2"),
        (["a=1 , , b=2"], "a=1,b=2"),
        (["a=" + "x" * 256], "a=" + "x" * 256),
        (["a=" + "x" * 257], None),
        (["a=1,a=2"], None),
        (["A=1"], None),
        (["a=\x07"], None),
        (["a=é"], None),
        (["no equals sign"], None),
        ([",".join(f"k{index}=v" for index in range(32))], True),
        ([",".join(f"k{index}=v" for index in range(33))], None),
        ([",".join(f"k{index}={'v' * 100}" for index in range(6))], None),
        ([""], None),
        ([], None),
    ],
)
def test_a_state_that_is_none_is_left_out_and_the_parent_stays(
    states: list[str], kept: str | bool | None
) -> None:
    headers = [(b"tracestate", state.encode("latin-1")) for state in states]
    context = context_of([(b"host", b"x"), *headers, (b"traceparent", PARENT.encode())])

    wanted = states[0] if kept is True else kept
    assert context == ({"traceparent": PARENT} | ({} if wanted is None else {"tracestate": wanted}))
    assert len(context.get("tracestate", "")) <= TRACESTATE_CHARS_MAX


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"tracestate", b"a=1")],
        [(b"traceparent", b"nonsense"), (b"tracestate", b"a=1")],
        [(b"traceparent", b"\xff\xfe")],
        [(b"traceparent", PARENT.encode()), (b"traceparent", PARENT.encode())],
    ],
)
def test_without_one_good_parent_there_is_no_context(headers: list[tuple[bytes, bytes]]) -> None:
    assert context_of(headers) == {}


@pytest.mark.parametrize(
    ("own", "then"),
    [
        ({}, {"traceparent": PARENT, "tracestate": "a=1"}),
        ({"x": "y"}, {"x": "y", "traceparent": PARENT, "tracestate": "a=1"}),
        ({"traceparent": "its own"}, {"traceparent": "its own"}),
        ({"tracestate": "its own"}, {"tracestate": "its own"}),
    ],
)
def test_what_a_message_has_of_its_own_is_not_mixed_with_that_of_its_request(
    own: dict[str, str], then: dict[str, str]
) -> None:
    carry(own, {"traceparent": PARENT, "tracestate": "a=1"})

    assert own == then
