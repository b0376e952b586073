"""What the SQS face keeps of a queue beyond the settings of its topic and its group."""

from __future__ import annotations

from typing import Final

import msgspec


class QueueOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The column ``sqs`` of a topic. ``attributes``: what AWS knows and nothing here acts on, as it
    was given. ``dead_letter_queue``: the topic that its RedrivePolicy names. ``sources``: groups
    whose dead letters are received from this queue, since their policies name it.
    """

    delay_s: int = 0
    wait_s: int = 0
    is_never_hidden: bool = False  # VisibilityTimeout is 0, which no lease is
    is_dedup_by_content: bool = False
    is_dedup_by_group: bool = False
    dead_letter_queue: str = ""
    sources: list[str] = []
    attributes: dict[str, str] = {}
    tags: dict[str, str] = {}


NO_OPTIONS: Final = QueueOptions()
_decode: Final = msgspec.json.Decoder(QueueOptions).decode


def queue_options_of(column: str) -> QueueOptions:
    """What the column holds."""
    return NO_OPTIONS if column == "{}" else _decode(column)
