"""The settings of a consumer group: the one table that everything about them is made of.

A new setting is a row here, its column in ``models``, and a field of the engine's ``GroupConfig``,
which has the column's name. Rows stand in the order in which bodies are read and answers written.
"""

from __future__ import annotations

import enum
from typing import Final

from mqservice.lib.durations import DAY_MS, HOUR_MS, SECOND_MS
from mqservice.lib.json_fields import Fields
from mqservice.lib.settings_table import (
    Boolean,
    ByName,
    Choice,
    Document,
    Duration,
    Durations,
    Integer,
    Json,
    List,
    Moment,
    Number,
    Setting,
    Settings,
    Text,
    gettext_noop,
)
from mqservice.protocol.choices import AssignmentStrategy, Dispatch, StartFrom
from mqservice.topics.settings import QUEUES

RECONSUME_FOR_EVER: Final = -1
RECONSUME_TIMES_MAX: Final = 1_000  # of rows from before there were 1,000 attempts at most
# As the engine has them, which a command need not load.
DELAY_MS_MAX: Final = 365 * DAY_MS
RETRY_DELAYS_MAX: Final = 1_000
ASSIGNMENT_NAMES_MAX: Final = 1_024


class Policy(enum.StrEnum):
    """How the delay of a retry is found."""

    LEVELS = "levels"
    LIST = "list"
    EXPONENTIAL = "exponential"


class WithinRoom(enum.StrEnum):
    """Strategies that leave no queue of a room to nobody."""

    AVG = "AVG"
    AVG_BY_CIRCLE = "AVG_BY_CIRCLE"
    CONSISTENT_HASH = "CONSISTENT_HASH"


class Attempts(Integer, frozen=True, kw_only=True):
    """Deliveries, the first one too: one more than RocketMQ's reconsume times, which the row has.
    Null: as often as it takes.
    """

    def parse(self, given: object, fields: Fields, place: str) -> int:
        return Integer.parse(self, given, fields, place) - 1

    def shown(self, value: int) -> Json:
        return {self.name: value + 1 or None}


def stored_levels() -> dict[str, object]:
    """The policy of a new group, as its row holds it."""
    return {"kind": Policy.LEVELS.value}


def _queues(name: str, about: str, option: str, metavar: str, option_help: str) -> Setting:
    """The queues of each of some names."""
    queue = Integer(low=0, high=QUEUES.high - 1)
    return ByName(
        name=name,
        item=List(item=queue, count_max=QUEUES.high),
        count_max=ASSIGNMENT_NAMES_MAX,
        about=about,
        option=option,
        metavar=metavar,
        option_help=option_help,
    )


START_FROM: Final = Choice(
    name="start_from",
    values=StartFrom,
    texts={
        StartFrom.EARLIEST: gettext_noop("earliest message"),
        StartFrom.LATEST: gettext_noop("end of the topic: new messages only"),
        StartFrom.TIMESTAMP: gettext_noop("a point in time"),
    },
    default=StartFrom.EARLIEST.value,
    about="Where it starts on a topic that it has never read; `earliest` by default.",
    label=gettext_noop("Start position on a new topic"),
)
START_TIME: Final = Moment(
    name="start_time",
    column="start_ms",
    default=0,
    about="Where it starts with `start_from: timestamp`.",
    label=gettext_noop("Start time"),
    help=gettext_noop("Only for “a point in time”."),
    option_help="With timestamp: start with messages stored at or after this time, in RFC 3339.",
    only_with=("start_from", StartFrom.TIMESTAMP.value),
)
LEASE: Final = Duration(
    name="lease",
    column="lease_ms",
    low=1 * SECOND_MS,
    high=12 * HOUR_MS,
    default=60 * SECOND_MS,
    about="How long a delivery is leased.",
    label=gettext_noop("Lease"),
    help=gettext_noop(
        "A message that is not settled within this time is redelivered, such as 30s or 5m."
    ),
    option_help="How long a message is leased: 30s, 5m.",
)
CONSUME_TIMEOUT: Final = Duration(
    name="consume_timeout",
    column="consume_timeout_ms",
    low=10 * SECOND_MS,
    high=12 * HOUR_MS,
    default=3 * HOUR_MS,
    about="The maximum duration of one delivery.",
    label=gettext_noop("Consume timeout"),
    help=gettext_noop("The longest that a delivery can last, including lease extensions."),
    option_help="How long a consumer can extend its lease: 10s to 12h.",
)
MAX_ATTEMPTS: Final = Attempts(
    name="max_attempts",
    column="max_reconsume_times",
    low=1,
    high=1_000,
    default=16,
    null=RECONSUME_FOR_EVER,
    about="Deliveries before a message becomes a dead letter; null for no limit.",
    label=gettext_noop("Maximum attempts"),
    help=gettext_noop("Deliveries before a message is dead-lettered. Empty: unlimited."),
    option_help="Maximum deliveries, 1 to 1000, or unlimited.",
    not_in_broadcast="failed messages are dropped, not redelivered",
)
RETRY: Final = Document(
    name="retry",
    ref="RetryPolicy",
    about="When a failed message is redelivered.",
    tag="policy",
    forms={
        Policy.LEVELS: "RocketMQ's delay levels.",
        Policy.LIST: "These delays, one after the other; the last one for all that follow.",
        Policy.EXPONENTIAL: "Each delay is the one before times `factor`, up to `cap`.",
    },
    plain={"policy": Policy.LEVELS.value},
    parts=(
        Choice(
            name="policy",
            values=Policy,
            texts={
                Policy.LEVELS: gettext_noop("RocketMQ levels: 10s, 30s, 1m … 2h"),
                Policy.LIST: gettext_noop("list of delays"),
                Policy.EXPONENTIAL: gettext_noop("exponential"),
            },
            is_required=True,
            option="--retry",
            option_help="How long a failed message waits; the default is levels.",
            field="retry",
            label=gettext_noop("Retry delay"),
        ),
        Durations(
            name="delays",
            item=Duration(low=1, high=DELAY_MS_MAX),
            count_min=1,
            count_max=RETRY_DELAYS_MAX,
            option="--delay",
            option_help="For list: one delay after the other, such as 10s; repeatable.",
            form=Policy.LIST,
            label=gettext_noop("List of delays"),
            help=gettext_noop("Separated by commas: 10s, 1m, 10m. The last one repeats."),
        ),
        Duration(
            name="start",
            low=1,
            high=DELAY_MS_MAX,
            default=5 * SECOND_MS,
            about="The first delay.",
            option="--retry-start",
            option_help="For exponential: the first delay.",
            form=Policy.EXPONENTIAL,
            field="retry_start",
            label=gettext_noop("Initial delay"),
        ),
        Number(
            name="factor",
            low=1,
            high=1_000,
            default=2.0,
            option="--retry-factor",
            option_help="For exponential: factor from one delay to the next.",
            form=Policy.EXPONENTIAL,
            label=gettext_noop("Multiplier"),
        ),
        Duration(
            name="cap",
            low=1,
            high=DELAY_MS_MAX,
            default=2 * HOUR_MS,
            about="The longest delay.",
            option="--retry-cap",
            option_help="For exponential: the longest delay.",
            form=Policy.EXPONENTIAL,
            label=gettext_noop("Maximum delay"),
        ),
    ),
    default=stored_levels,
    not_in_broadcast="failed messages are dropped, not redelivered",
)
PAUSED: Final = Boolean(name="paused", column="is_paused", default=False, is_state=True)
DISPATCH: Final = Choice(
    name="dispatch",
    values=Dispatch,
    texts={
        Dispatch.SHARED: gettext_noop("shared: any consumer reads any queue"),
        Dispatch.EXCLUSIVE: gettext_noop("exclusive: each queue is assigned to one consumer"),
        Dispatch.BROADCAST: gettext_noop("broadcast: each client gets every message"),
    },
    default=Dispatch.SHARED.value,
    about="Who reads a queue: any consumer, the assigned one, or every client.",
    label=gettext_noop("Dispatch"),
)
STRATEGY: Final = Choice(
    name="strategy",
    values=AssignmentStrategy,
    default=AssignmentStrategy.AVG.value,
    about="How queues are assigned.",
    label=gettext_noop("Assignment strategy"),
    help=gettext_noop("How queues are assigned to consumers with exclusive dispatch."),
    option_help="For exclusive dispatch: how queues are assigned.",
    not_in_broadcast="no queues are assigned",
)
ASSIGNMENT: Final = Document(
    name="assignment",  # its column has the engine's form, see ``assignment.py``
    ref="Assignment",
    about="Additional settings of some strategies.",
    parts=(
        _queues(
            "consumers",
            "For strategy `CONFIG`: the queues of each consumer.",
            "--consumer",
            "ID=QUEUES",
            "For CONFIG: w1=0,1; once per consumer.",
        ),
        _queues(
            "rooms",
            "For the machine-room strategies: the queues of each room.",
            "--room",
            "NAME=QUEUES",
            "For machine rooms: east=0,1; repeatable.",
        ),
        List(
            name="read",
            item=Text(),
            count_max=ASSIGNMENT_NAMES_MAX,
            about="For strategy `MACHINE_ROOM`: rooms whose queues are read.",
            option="--read-room",
            option_help="For MACHINE_ROOM: a room whose queues are read; repeatable.",
        ),
        Choice(
            name="within_room",
            values=WithinRoom,
            about="How queues are assigned within a room.",
            option="--within-room",
            option_help="For MACHINE_ROOM_NEARBY: strategy within a room.",
        ),
    ),
    default=dict,
    label=gettext_noop("Strategy settings, JSON"),
    help=gettext_noop(
        'CONFIG: {"consumers": {"a": [0, 1]}}. Machine rooms: {"rooms": {"east": [0]}}.'
    ),
    not_in_broadcast="no queues are assigned",
)
ORDERED: Final = Boolean(
    name="ordered",
    column="is_ordered",
    default=False,
    about="Whether order is preserved.",
    label=gettext_noop("Ordered"),
    help=gettext_noop("A failed message blocks the messages behind it until it is settled."),
    option="--ordered/--unordered",
    option_help="Retry a failed message before the messages after it.",
    not_in_broadcast="messages do not wait for one another",
)
BATCH_PER_GROUP: Final = Integer(
    name="batch_per_group",  # counts with shared dispatch
    low=1,
    high=32,
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
