"""The settings of a consumer group: the one table that everything about them is made of.

A new setting is a row here, its column in ``models``, and a field of the engine's ``GroupConfig``,
which has the column's name. Rows stand in the order in which bodies are read and answers written.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from mqservice.lib.durations import HOUR_MS, SECOND_MS
from mqservice.lib.settings_table import (
    Boolean,
    Choice,
    Document,
    Duration,
    Durations,
    Integer,
    Json,
    Moment,
    Names,
    Number,
    Part,
    QueuesByName,
    Setting,
    Settings,
    Text,
    gettext_noop,
)
from mqservice.protocol.choices import AssignmentStrategy, Dispatch, StartFrom

if TYPE_CHECKING:
    from mqservice.lib.json_fields import Fields

RECONSUME_FOR_EVER: Final = -1
RECONSUME_TIMES_MAX: Final = 1_000  # of rows from before there were 1,000 attempts at most


class Policy(enum.StrEnum):
    """How the delay of a retry is found."""

    LEVELS = "levels"
    LIST = "list"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True)
class Attempts(Integer):
    """Deliveries, the first one too: one more than RocketMQ's reconsume times, which the row has.
    Null: as often as it takes.
    """

    has_null: ClassVar[bool] = True

    def read(self, fields: Fields, name: str) -> int | None:
        if not fields.has(name):
            return None
        if fields.find(name) is None:
            return RECONSUME_FOR_EVER
        attempts = fields.integer(name, self.low, self.high)
        return None if attempts is None else attempts - 1

    def shown(self, name: str, value: int) -> Json:
        return {name: value + 1 or None}

    def types(self, name: str) -> dict[str, Any]:
        return {name: int | None}


def stored_levels() -> dict[str, object]:
    """The policy of a new group, as its row holds it."""
    return {"kind": Policy.LEVELS.value}


START_FROM: Final = Setting(
    name="start_from",
    kind=Choice(
        StartFrom,
        {
            StartFrom.EARLIEST: gettext_noop("earliest message"),
            StartFrom.LATEST: gettext_noop("end of the topic: new messages only"),
            StartFrom.TIMESTAMP: gettext_noop("a point in time"),
        },
    ),
    column="start_from",
    default=StartFrom.EARLIEST.value,
    about="Where it starts on a topic that it has never read; `earliest` by default.",
    label=gettext_noop("Start position on a new topic"),
    option_help="Where to start on a topic that the group has never read; earliest for a new "
    "group.",
)
START_TIME: Final = Setting(
    name="start_time",
    kind=Moment(),
    column="start_ms",
    default=0,
    about="Where it starts with `start_from: timestamp`.",
    label=gettext_noop("Start time"),
    help=gettext_noop("Only for “a point in time”."),
    option_help="With timestamp: start with messages stored at or after this time, in RFC 3339.",
    only_with=("start_from", StartFrom.TIMESTAMP.value),
)
LEASE: Final = Setting(
    name="lease",
    kind=Duration(1 * SECOND_MS, 12 * HOUR_MS),
    column="lease_ms",
    default=60 * SECOND_MS,
    about="How long a delivery is leased.",
    label=gettext_noop("Lease"),
    help=gettext_noop(
        "A message that is not settled within this time is redelivered, such as 30s or 5m."
    ),
    option_help="How long a message is leased: 30s, 5m.",
)
CONSUME_TIMEOUT: Final = Setting(
    name="consume_timeout",
    kind=Duration(10 * SECOND_MS, 12 * HOUR_MS),
    column="consume_timeout_ms",
    default=3 * HOUR_MS,
    about="The maximum duration of one delivery.",
    label=gettext_noop("Consume timeout"),
    help=gettext_noop("The longest that a delivery can last, including lease extensions."),
    option_help="How long a consumer can extend its lease: 10s to 12h.",
)
MAX_ATTEMPTS: Final = Setting(
    name="max_attempts",
    kind=Attempts(1, 1_000),
    column="max_reconsume_times",
    default=16,
    about="Deliveries before a message becomes a dead letter; null for no limit.",
    label=gettext_noop("Maximum attempts"),
    help=gettext_noop("Deliveries before a message is dead-lettered. Empty: unlimited."),
    option_help="Maximum deliveries, 1 to 1000, or unlimited.",
    not_in_broadcast="failed messages are dropped, not redelivered",
)
RETRY: Final = Setting(
    name="retry",
    kind=Document(
        "RetryPolicy",
        tag="policy",
        plain={"policy": Policy.LEVELS.value},
        parts=(
            Part(
                name="policy",
                kind=Choice(
                    Policy,
                    {
                        Policy.LEVELS: gettext_noop("RocketMQ levels: 10s, 30s, 1m … 2h"),
                        Policy.LIST: gettext_noop("list of delays"),
                        Policy.EXPONENTIAL: gettext_noop("exponential"),
                    },
                ),
                option="--retry",
                option_help="How long a failed message waits; the default is levels.",
                field="retry",
                label=gettext_noop("Retry delay"),
            ),
            Part(
                name="delays",
                kind=Durations(),
                option="--delay",
                option_help="For list: one delay after the other, such as 10s; repeatable.",
                form=Policy.LIST,
                field="delays",
                label=gettext_noop("List of delays"),
                help=gettext_noop("Separated by commas: 10s, 1m, 10m. The last one repeats."),
            ),
            Part(
                name="start",
                kind=Text(),
                option="--retry-start",
                option_help="For exponential: the first delay.",
                form=Policy.EXPONENTIAL,
                field="retry_start",
                label=gettext_noop("Initial delay"),
                default="5s",
            ),
            Part(
                name="factor",
                kind=Number(),
                option="--retry-factor",
                option_help="For exponential: factor from one delay to the next.",
                form=Policy.EXPONENTIAL,
                field="factor",
                label=gettext_noop("Multiplier"),
                default=2.0,
            ),
            Part(
                name="cap",
                kind=Text(),
                option="--retry-cap",
                option_help="For exponential: the longest delay.",
                form=Policy.EXPONENTIAL,
                field="cap",
                label=gettext_noop("Maximum delay"),
                default="2h",
            ),
        ),
    ),
    column="retry",
    default=stored_levels,
    not_in_broadcast="failed messages are dropped, not redelivered",
)
PAUSED: Final = Setting(
    name="paused", kind=Boolean(), column="is_paused", default=False, is_state=True
)
DISPATCH: Final = Setting(
    name="dispatch",
    kind=Choice(
        Dispatch,
        {
            Dispatch.SHARED: gettext_noop("shared: any consumer reads any queue"),
            Dispatch.EXCLUSIVE: gettext_noop("exclusive: each queue is assigned to one consumer"),
            Dispatch.BROADCAST: gettext_noop("broadcast: each client gets every message"),
        },
    ),
    column="dispatch",
    default=Dispatch.SHARED.value,
    about="Who reads a queue: any consumer, the assigned one, or every client.",
    label=gettext_noop("Dispatch"),
    option_help="shared: any consumer reads any queue; exclusive: each reads its own; "
    "broadcast: every client reads all.",
)
STRATEGY: Final = Setting(
    name="strategy",
    kind=Choice(AssignmentStrategy),
    column="strategy",
    default=AssignmentStrategy.AVG.value,
    about="How queues are assigned.",
    label=gettext_noop("Assignment strategy"),
    help=gettext_noop("How queues are assigned to consumers with exclusive dispatch."),
    option_help="For exclusive dispatch: how queues are assigned.",
    not_in_broadcast="no queues are assigned",
)
ASSIGNMENT: Final = Setting(
    name="assignment",
    kind=Document(
        "Assignment",
        parts=(
            Part(
                name="consumers",
                kind=QueuesByName(),
                option="--consumer",
                metavar="ID=QUEUES",
                option_help="For CONFIG: w1=0,1; once per consumer.",
            ),
            Part(
                name="rooms",
                kind=QueuesByName(),
                option="--room",
                metavar="NAME=QUEUES",
                option_help="For machine rooms: east=0,1; repeatable.",
            ),
            Part(
                name="read",
                kind=Names(),
                option="--read-room",
                option_help="For MACHINE_ROOM: a room whose queues are read; repeatable.",
            ),
            Part(
                name="within_room",
                kind=Choice(AssignmentStrategy),
                option="--within-room",
                option_help="For MACHINE_ROOM_NEARBY: strategy within a room.",
            ),
        ),
    ),
    column="assignment",  # the engine's form, see ``assignment.py``
    default=dict,
    label=gettext_noop("Strategy settings, JSON"),
    help=gettext_noop(
        'CONFIG: {"consumers": {"a": [0, 1]}}. Machine rooms: {"rooms": {"east": [0]}}.'
    ),
    not_in_broadcast="no queues are assigned",
)
ORDERED: Final = Setting(
    name="ordered",
    kind=Boolean(),
    column="is_ordered",
    default=False,
    about="Whether order is preserved.",
    label=gettext_noop("Ordered"),
    help=gettext_noop("A failed message blocks the messages behind it until it is settled."),
    option="--ordered/--unordered",
    option_help="Retry a failed message before the messages after it.",
    not_in_broadcast="messages do not wait for one another",
)
BATCH_PER_GROUP: Final = Setting(
    name="batch_per_group",
    kind=Integer(1, 32),
    column="batch_per_group",  # counts with shared dispatch
    default=1,
    about="Maximum messages of a message group per receive.",
    label=gettext_noop("In flight per message group"),
    help=gettext_noop("For ordered groups with shared dispatch."),
    option_help="For ordered groups: messages of a message group at the same time, 1 to 32.",
    not_in_broadcast="messages are not ordered by message group",
)

SETTINGS: Final[Settings] = (
    START_FROM, START_TIME, LEASE, CONSUME_TIMEOUT, MAX_ATTEMPTS, RETRY, PAUSED, DISPATCH, STRATEGY,
    ASSIGNMENT, ORDERED, BATCH_PER_GROUP,
)  # fmt: skip
