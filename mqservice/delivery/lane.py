"""Shared by the fast handlers: they respond without a task, unless the client reads slowly.

    web_transport ── a request that is whole ──▶ [take] ──▶ store ── told ──▶ answered at once
                      False: the data plane does it

A lane does what ``DataPlane`` and the handler do, by the same parts and in the same order, for a
request about which this process knows all that it needs. All other requests are left to them, and
so is telling why one is refused. Nothing in a lane waits, so nothing there needs a task, a
coroutine for each layer, or a turn of the event loop between them: that was a third of what a
message cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import Request
from mqservice.delivery.plane import DataPlane
from mqservice.usage.counts import usage_counts


class Lane:
    """See the module's docstring. One of each kind per process."""

    def __init__(self, context: DeliveryContext, plane: DataPlane) -> None:
        self._context = context
        self._plane = plane
        self._answers: set[asyncio.Task[None]] = set()  # the loop holds tasks only weakly

    def refuse(self, request: Request, exc: Exception) -> None:
        """Tell the client why there is no answer, or that nothing is known."""
        usage_counts.called(request.principal.tenant_id)
        self._start(self._plane.refuse(request, exc))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:  # Any: what nobody sends or gets
        task = asyncio.get_running_loop().create_task(work)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
