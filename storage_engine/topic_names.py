"""What the engine accepts as the name of a topic or group: RocketMQ's rule, and safe as a
directory.
"""

from __future__ import annotations

import re
from typing import Final

from storage_engine.errors import BadRequest

TOPIC_NAME_MAX: Final = 255  # with namespace and retry or DLQ prefix
GROUP_NAME_MAX: Final = 255
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)


def check_topic_name(topic: str) -> None:
    """Raises ``BadRequest`` when the name is not one."""
    _check("topic", topic, TOPIC_NAME_MAX)


def check_group_name(group: str) -> None:
    """Raises ``BadRequest`` when the name is not one."""
    _check("group", group, GROUP_NAME_MAX)


def _check(kind: str, name: str, length_max: int) -> None:
    if len(name) > length_max:
        raise BadRequest(
            f"{kind} name is {len(name)} characters long, at most {length_max} are allowed"
        )
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"{kind} name {name!r} may only contain letters, digits and the signs %|_-"
        )
