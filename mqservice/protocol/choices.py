"""Values that a client chooses from in the settings of a topic or a group."""

from __future__ import annotations

from .str_enum import StrEnum


class Durability(StrEnum):
    """When a produce is answered: after the disk has the message, at once, or after the replicated
    log has it.
    """

    SYNC = "sync"
    ASYNC = "async"
    REPLICATED = "replicated"


class StartFrom(StrEnum):
    """Where the group begins on a topic it has never read."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"  # the first message stored at ``start_ms`` or later


class SchemaKind(StrEnum):
    """In which encoding bodies of a topic are that has a schema."""

    AVRO = "avro"
    PROTOBUF = "protobuf"


class Dispatch(StrEnum):
    """Who reads a queue: any consumer at any time, the one that it is assigned to, or each client
    for itself.
    """

    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    BROADCAST = "broadcast"


class AssignmentStrategy(StrEnum):
    """How queues are assigned; RocketMQ's names. Some need the row's ``assignment``."""

    AVG = "AVG"
    AVG_BY_CIRCLE = "AVG_BY_CIRCLE"
    CONSISTENT_HASH = "CONSISTENT_HASH"
    CONFIG = "CONFIG"
    MACHINE_ROOM = "MACHINE_ROOM"
    MACHINE_ROOM_NEARBY = "MACHINE_ROOM_NEARBY"
