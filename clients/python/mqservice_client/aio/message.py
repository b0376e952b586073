"""Messages as the program gets them."""

from __future__ import annotations

from ..messages import BaseMessage
from ..sides import AsyncSide
from ..values import Duration, optional_s


class AsyncMessage(BaseMessage):
    """A message under a lease, until it is settled.

    ``ack``, ``nack``, ``dead_letter`` and ``extend`` return at once and may be called from any
    thread: results are sent together, again after a reconnect, and confirmed by the service.
    """

    __slots__ = ()

    async def confirmed(self, timeout: Duration | None = None) -> None:
        """Wait until the service has confirmed the result.

        Raises:
            SettleFailed: it had no effect, as the lease had ended.
            OutcomeUnknown: the service has restarted and forgotten the session. If the message
                comes again, the result is given again, and the program does not see it.
            TimeoutError: there is no answer after ``timeout``; the result is still under way.
        """
        side: AsyncSide = self._home.feed.side
        await side.run(self._home.feed.wait_confirmed(self, optional_s(timeout, "timeout")))
