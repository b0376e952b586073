"""One message whose delivery failed, between its lease and the place it is moved to."""

from __future__ import annotations

from typing import NamedTuple

from storage_engine.delivery.subscription import ProcessQueue


class Failure(NamedTuple):
    """See the module's docstring.

    ``delay_ms``: until it is delivered again; None: by the group's policy. ``is_dead``: never.
    ``delivered_ms``, ``failed_ms``: when the delivery began and ended, wall clock. ``generation``:
    of the lease it had. ``member_id``: who had it. ``has_vanished``: the member is gone without a
    word; a message that has not failed before is then delivered again at once.
    """

    process_queue: ProcessQueue
    queue_offset: int
    generation: int
    delay_ms: int | None
    reason: str
    delivered_ms: int
    failed_ms: int
    is_dead: bool = False
    member_id: str = ""
    has_vanished: bool = False
