"""The settings of a topic: the one table that everything about them is made of.

A new setting is a row here and its column in ``models``; what the engine must know of it is in
``services.config_of``. Rows stand in the order in which bodies are read and answers written.
"""

from __future__ import annotations

import enum
from typing import Final

from mqservice.lib.durations import DAY_MS, MINUTE_MS
from mqservice.lib.settings_table import Choice, Duration, Integer, Settings, gettext_noop
from mqservice.protocol.choices import Durability

_MIB: Final = 1024 * 1024


class MessageType(enum.StrEnum):
    """Which kind of message a topic takes; MIXED takes all.

    TRANSACTION cannot be chosen while there are no transactions. Topics that have it from before
    keep it, and take plain messages.
    """

    MIXED = "mixed"
    NORMAL = "normal"
    FIFO = "fifo"
    DELAY = "delay"
    TRANSACTION = "transaction"


def default_durability() -> str:
    """Of a new topic: that which survives the loss of a machine, where that is possible."""
    from django.conf import settings  # which a command need not load

    return (Durability.REPLICATED if settings.MQ_REPLICATED_LOG else Durability.SYNC).value


TYPE: Final = Choice(
    name="type",
    column="message_type",
    values=MessageType,
    texts={
        MessageType.MIXED: gettext_noop("Any type"),
        MessageType.NORMAL: gettext_noop("Normal messages only"),
        MessageType.FIFO: gettext_noop("Ordered by message group"),
        MessageType.DELAY: gettext_noop("Delayed messages"),
    },
    offered=tuple(kind for kind in MessageType if kind is not MessageType.TRANSACTION),
    default=MessageType.MIXED.value,
    about="The type of its messages.",
    label=gettext_noop("Messages"),
)
QUEUES: Final = Integer(
    name="queues",
    column="queue_count",
    low=1,
    high=256,
    default=4,
    about="Can be increased, not decreased.",
    label=gettext_noop("Queues"),
    help=gettext_noop(
        "More queues let more consumers share the work. The number can be increased later, "
        "but not decreased."
    ),
    option_help="Number of queues; it can be increased, not decreased.",
)
DURABILITY: Final = Choice(
    name="durability",
    values=Durability,
    texts={
        Durability.SYNC: gettext_noop("sync: confirmed once on disk"),
        Durability.ASYNC: gettext_noop("async: confirmed immediately, on disk within 200 ms"),
        Durability.REPLICATED: gettext_noop(
            "replicated: confirmed once in the replicated log, safe if this machine is lost"
        ),
    },
    default=default_durability,
    about=(
        "When a produce is confirmed: on disk (`sync`), before (`async`), or in the replicated log "
        "(`replicated`, the default of new topics where there is such a log)."
    ),
    label=gettext_noop("Durability"),
)
RETENTION: Final = Duration(
    name="retention",
    column="retention_age_ms",
    low=1 * MINUTE_MS,
    high=30 * DAY_MS,
    default=3 * DAY_MS,
    about="How long messages are retained, such as `3d`.",
    label=gettext_noop("Retention"),
    help=gettext_noop("How long messages are retained, such as 30m, 12h or 7d."),
)
BODY_BYTES_MAX: Final = Integer(
    name="body_bytes_max",
    low=1024,
    high=4 * _MIB,
    default=4 * _MIB,
    about="The largest body that the topic accepts.",
    label=gettext_noop("Maximum body size, bytes"),
)

SETTINGS: Final[Settings] = (TYPE, QUEUES, DURABILITY, RETENTION, BODY_BYTES_MAX)
