"""Which names tenants may choose, and the name that the engine uses for the same thing.

    tenant sees: orders        engine sees: acme%orders

``%`` cannot be part of a tenant's name, so engine names of two namespaces never meet, and the
engine's own ``%RETRY%`` and ``%DLQ%`` names cannot be asked for from outside.
"""

from __future__ import annotations

import re
from typing import Final

NAME_CHARS_MAX: Final = 64
ENGINE_SEPARATOR: Final = "%"
OWN_NAMESPACE: Final = "-"
MAIN_SHARD: Final = "main"  # of namespaces that nobody placed elsewhere
NAME_PATTERN: Final = rf"^[a-zA-Z0-9_-]{{1,{NAME_CHARS_MAX}}}$"  # in JSON Schema
CONSUMER_PREFIX: Final = "consumer-"  # of the engine's name of a member that has a consumer_id

# RocketMQ keeps these for itself; client libraries treat them in special ways.
RESERVED_PREFIXES: Final = (
    "rmq_sys_", "RMQ_SYS_", "TBW", "SCHEDULE_TOPIC_", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    "CID_RMQ_SYS_", "CID_ONSAPI_", "DefaultCluster", "BenchmarkTest", "TRANS_CHECK_MAX_TIME_TOPIC",
)  # fmt: skip
_RESERVED_FOLDED: Final = tuple(prefix.lower() for prefix in RESERVED_PREFIXES)
_FORM: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{NAME_CHARS_MAX}}}", re.ASCII)


def name_fault(name: str) -> str | None:
    """Why ``name`` is refused for a namespace, topic or group; None when it is fine."""
    if not name:
        return "a name must not be empty"
    if len(name) > NAME_CHARS_MAX:
        return f"a name must have at most {NAME_CHARS_MAX} characters, found {len(name)}"
    if _FORM.fullmatch(name) is None:
        return "a name may contain only the characters a-z A-Z 0-9 _ -"
    if name == OWN_NAMESPACE:
        return f"{OWN_NAMESPACE!r} stands for the namespace of the API key"
    if name.lower().startswith(_RESERVED_FOLDED):
        return "names with this prefix are reserved"
    return None


def engine_name(*, namespace: str, name: str) -> str:
    """The name under which the engine keeps a topic or group."""
    return f"{namespace}{ENGINE_SEPARATOR}{name}"
