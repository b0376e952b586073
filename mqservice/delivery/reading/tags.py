"""Which tags a read asks for: ``created``, or ``created || paid``, as in RocketMQ's expressions."""

from __future__ import annotations

from typing import Final

from mqservice.delivery.decoding import Fault
from mqservice.delivery.limits import TAG_COUNT_MAX
from mqservice.delivery.messages import tag_fault

SEPARATOR: Final = "||"
ALL: Final = "*"


def tags_of(expression: str | None) -> list[str]:
    """The tags of the parameter ``tag``; none means all messages, also those without a tag.

    Raises Fault: a tag that no message can have, or too many.
    """
    if expression is None or expression == ALL:
        return []
    if SEPARATOR in expression:
        tags = [tag.strip() for tag in expression.split(SEPARATOR)]
    else:
        tags = [expression]  # also one that begins or ends with a blank
    if len(tags) > TAG_COUNT_MAX:
        raise Fault(
            "?tag", "ILLEGAL_FILTER", f"at most {TAG_COUNT_MAX} tags at a time, found {len(tags)}"
        )
    for tag in tags:
        if fault := tag_fault(tag):
            raise Fault("?tag", "ILLEGAL_FILTER", f"a tag {fault}; several are written a || b")
    return tags
