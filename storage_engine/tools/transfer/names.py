"""The role of a topic in a RocketMQ store, recognized by its name; pure functions.

orders ▶ a topic         %RETRY%g, %RETRY%g_orders, %RETRY%g+orders ▶ retries of group g
%DLQ%g ▶ dead letters    SCHEDULE_TOPIC_XXXX, rmq_sys_wheel_timer ▶ delayed messages
RMQ_SYS_TRANS_HALF_TOPIC ▶ transactions that are open   rmq_sys_REVIVE_LOG_c ▶ POP's own
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from typing import Final, NamedTuple

from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.records.topic_names import DLQ_PREFIX, RETRY_PREFIX

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
_PERM_INHERIT: Final = 1
# TopicValidator.SYSTEM_TOPIC_SET, and what a broker makes for itself at its start.
_SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "CHECKPOINT_TOPIC",
    }
)  # fmt: skip
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"
# MixAll.PREDEFINE_GROUP_SET
_SYSTEM_GROUPS: Final = frozenset(
    {
        "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    }
)  # fmt: skip
_SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)


class Kind(StrEnum):
    """What the messages of a topic are."""

    TOPIC = "topic"
    RETRY = "retry"
    DEAD_LETTERS = "dead letters"
    SCHEDULE = "schedule"
    TIMER = "timer"
    TRANSACTION = "transaction"
    TRANSACTION_END = "transaction end"
    POP = "pop"
    SYSTEM = "system"


class TopicName(NamedTuple):
    """``group``: whose retries or dead letters they are. ``topic``: of POP's retries, from which
    topic.
    """

    kind: Kind
    group: str = ""
    topic: str = ""


def read_topic_name(
    name: str, *, perm: int, groups: Collection[str], topics: Collection[str]
) -> TopicName:
    """What a topic is; ``groups`` and ``topics`` are those of the store. ``perm``: its permission
    bits, of which one says that a broker made it to pass its settings on.
    """
    if name.startswith(RETRY_PREFIX):
        return _retry(name.removeprefix(RETRY_PREFIX), groups, topics)
    if name.startswith(DLQ_PREFIX):
        return TopicName(Kind.DEAD_LETTERS, group=name.removeprefix(DLQ_PREFIX))
    if name.startswith(REVIVE_PREFIX):
        return TopicName(Kind.POP)
    known = {
        SCHEDULE_TOPIC: Kind.SCHEDULE,
        TIMER_TOPIC: Kind.TIMER,
        HALF_TOPIC: Kind.TRANSACTION,
        OP_TOPIC: Kind.TRANSACTION_END,
    }
    if name in known:
        return TopicName(known[name])
    is_system = (
        name in _SYSTEM_TOPICS
        or name.lower().startswith("rmq_sys_")
        or name.endswith(_REPLY_SUFFIX)
        or bool(perm & _PERM_INHERIT)
    )
    return TopicName(Kind.SYSTEM if is_system else Kind.TOPIC)


def _retry(rest: str, groups: Collection[str], topics: Collection[str]) -> TopicName:
    """A group's retry topic, or that of POP, which adds the topic behind a sign that names have."""
    if rest not in groups:
        for sign in "+_":
            at = rest.find(sign)
            while at > 0:
                if rest[:at] in groups and rest[at + 1 :] in topics:
                    return TopicName(Kind.RETRY, group=rest[:at], topic=rest[at + 1 :])
                at = rest.find(sign, at + 1)
    return TopicName(Kind.RETRY, group=rest)


def is_system_group(group: str) -> bool:
    """Whether RocketMQ made it for itself."""
    return group in _SYSTEM_GROUPS or group.startswith(_SYSTEM_GROUP_PREFIX)


def name_fault(name: str, chars_max: int) -> str:
    """Why the service can have no topic or group of that name; empty when it can."""
    if len(name) > chars_max:
        return f"its name has {len(name)} characters, at most {chars_max} are allowed"
    if _NAME.fullmatch(name) is None:
        return "its name has characters other than a-z A-Z 0-9 _ -"
    return ""


def full_name(namespace: str, name: str) -> str:
    """What the engine calls a topic or group of a namespace."""
    return f"{namespace}%{name}"
