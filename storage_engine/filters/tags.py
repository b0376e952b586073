"""The language of tag filters: ``*`` for all messages, or tags separated by ``||``.

    "paid || created||paid" ──▶ [parse_tags] ──▶ ["created", "paid"]

RocketMQ skips empty parts and takes an empty text for ``*``; here both are refused, since a tag got
lost on the way there.
"""

from __future__ import annotations

from typing import Final

from storage_engine.filters.limits import NODES_MAX, refusal, shown

ALL: Final = "*"
_SEPARATOR: Final = "||"
_WHITE: Final = " \t\n\r\f"


def parse_tags(text: str) -> list[str]:
    """The tags of a filter, ascending and each once; ``[ALL]`` for the filter of all messages.

    Raises:
        FilterInvalid: a tag is empty or holds a single ``|``, there are too many, or ``*`` does not
        stand alone.
    """
    tags = set()
    at = 0
    parts = text.split(_SEPARATOR)
    for count, part in enumerate(parts, 1):
        tag = part.strip(_WHITE)
        if not tag:
            raise refusal("an empty tag", at, "write * for all messages, or tags such as a || b")
        tag_at = at + part.index(tag)
        if "|" in tag:
            raise refusal("a single |", tag_at + tag.index("|"), "separate tags with ||")
        if tag == ALL and len(parts) > 1:
            raise refusal("*", tag_at, "* stands for all messages and must stand alone")
        if count > NODES_MAX:
            raise refusal(f"tag {shown(tag)}", tag_at, f"at most {NODES_MAX} tags are allowed")
        tags.add(tag)
        at += len(part) + len(_SEPARATOR)
    return sorted(tags)
