"""Names of topics and groups, and of the topics that belong to a group."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storage_engine.errors import BadRequest
from storage_engine.records.topic_names import (
    check_group_name,
    check_topic_name,
    dlq_topic_of,
    retry_topic_of,
)


def test_topics_of_a_group_bear_their_prefix_before_the_namespace() -> None:
    assert retry_topic_of("acme%billing") == "%RETRY%acme%billing"
    assert dlq_topic_of("acme%billing") == "%DLQ%acme%billing"


def test_every_group_has_room_for_the_names_of_its_topics() -> None:
    group = "g" * 248
    check_group_name(group)
    check_topic_name(retry_topic_of(group))
    check_topic_name(dlq_topic_of(group))
    with pytest.raises(BadRequest, match="249 characters, at most 248"):
        check_group_name(group + "g")


@pytest.mark.parametrize("check", [check_topic_name, check_group_name])
@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "ü", "a\n", "a\x01"])
def test_other_signs_are_refused(check: Callable[[str], None], name: str) -> None:
    with pytest.raises(BadRequest, match="may contain only"):
        check(name)
