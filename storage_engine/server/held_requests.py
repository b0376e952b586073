"""Which requests concern a namespace that goes to another shard: those that name a topic or group
of it. Puts are not among them: the put path looks at each record.
"""

from __future__ import annotations

from typing import Final

from storage_engine.catalog.namespace_holds import NamespaceHolds
from storage_engine.records.topic_names import NAMESPACE_END
from storage_engine.wire.scheduled import ScheduledListRequest

_ONE: Final = ("group", "topic")
_MANY: Final = ("groups", "topics")


def check_not_held(holds: NamespaceHolds, request: object) -> None:
    """Raises ``NamespaceMoved``."""
    names = [getattr(request, field, "") for field in _ONE]
    if isinstance(request, ScheduledListRequest) and request.is_namespace:
        names.append(request.topic + NAMESPACE_END)
    for field in _MANY:
        names += getattr(request, field, ())
    for name in names:
        refusal = holds.refusal_of(name)
        if refusal is not None:
            raise refusal
