"""Which names tenants may give."""

from __future__ import annotations

import pytest

from mqservice.lib.names import NAME_CHARS_MAX, engine_name, name_fault


@pytest.mark.parametrize("name", ["a", "orders", "Order_events-2", "0", "_", "--", "x" * 64])
def test_good_names_have_no_fault(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "empty"),
        ("x" * (NAME_CHARS_MAX + 1), "at most 64"),
        ("a b", "characters"),
        ("a%b", "characters"),
        ("%RETRY%billing", "characters"),
        ("ordérs", "characters"),
        ("orders\n", "characters"),
        ("a/b", "characters"),
        ("-", "stands for"),
        ("rmq_sys_TRACE", "reserved"),
        ("RMQ_sys_x", "reserved"),
        ("TBW102", "reserved"),
        ("SCHEDULE_TOPIC_XXXX", "reserved"),
        ("CID_RMQ_SYS_x", "reserved"),
    ],
)
def test_bad_names_are_refused_with_the_reason(name: str, word: str) -> None:
    fault = name_fault(name)
    assert fault is not None
    assert word in fault


def test_engine_names_of_two_namespaces_never_meet() -> None:
    assert engine_name(namespace="acme", name="orders") == "acme%orders"
    assert engine_name(namespace="a", name="b-c") != engine_name(namespace="a-b", name="c")
