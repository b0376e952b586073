"""Which names of topics and groups the engine accepts: RocketMQ's rule, and safe as a directory;
and the names of the two topics that belong to a group.

    group acme%billing    retry topic %RETRY%acme%billing    dead letters in %DLQ%acme%billing

The prefix stands before the namespace, as in RocketMQ's ``NamespaceUtil``. Namespaces are never
empty and hold no ``%``, so no topic of a tenant begins with one.
"""

from __future__ import annotations

import re
from typing import Final

from storage_engine.errors import BadRequest

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
NAMESPACE_END: Final = "%"
TOPIC_NAME_MAX: Final = 255  # with namespace and retry or DLQ prefix
# A group's retry topic must have a name as well.
GROUP_NAME_MAX: Final = TOPIC_NAME_MAX - len(RETRY_PREFIX)
assert len(DLQ_PREFIX) <= len(RETRY_PREFIX)
LETTERS_GROUP: Final = "CID_RMQ_SYS_REDRIVE"
"""Of the engine itself: what it has settled in a ``%DLQ%`` topic is no dead letter any more."""
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)


def check_topic_name(topic: str) -> None:
    """Raises ``BadRequest`` when the name is not one."""
    _check("topic", topic, TOPIC_NAME_MAX)


def check_group_name(group: str) -> None:
    """Raises ``BadRequest`` when the name is not one."""
    _check("group", group, GROUP_NAME_MAX)


def retry_topic_of(group: str) -> str:
    """Where messages of the group wait to be delivered again; ``group`` is the full name."""
    return RETRY_PREFIX + group


def dlq_topic_of(group: str) -> str:
    """Where messages stand that the group gave up; ``group`` is the full name."""
    return DLQ_PREFIX + group


def namespace_of(name: str) -> str:
    """Of a topic or group, by its full name; empty for the engine's own."""
    owned = name.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
    namespace, separator, _ = owned.partition(NAMESPACE_END)
    return namespace if separator else ""


def is_of_group(topic: str) -> bool:
    """Whether the topic belongs to a group, and comes and goes with it."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _check(kind: str, name: str, length_max: int) -> None:
    if len(name) > length_max:
        raise BadRequest(
            f"{kind} name has {len(name)} characters, at most {length_max} are allowed"
        )
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"{kind} name {name!r} may contain only letters, digits and the characters %|_-"
        )
