# Made from aio/control_plane.py by `python -m clients.generate`; change that instead.
"""What a client has besides messages: topics, groups, dead letters, and the rest that is managed.

The classes behind it are loaded when they are first used: a consumer never needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime import Runtime
from ..sides import SyncSide
from .api import Api

if TYPE_CHECKING:
    from .resources import (
        DeadLetters,
        Groups,
        Issues,
        Keys,
        Messages,
        Scheduled,
        Schedules,
        Tasks,
        Tickets,
        Topics,
    )


class ControlPlane:
    """The resources of a client."""

    _side: SyncSide

    def _open(self) -> Runtime:
        raise NotImplementedError

    def _api(self) -> Api:
        return Api(self._side, self._open)

    @property
    def topics(self) -> Topics:
        """Topics and their settings."""
        from .resources import Topics

        return Topics(self._api())

    @property
    def groups(self) -> Groups:
        """Consumer groups: settings, progress and members."""
        from .resources import Groups

        return Groups(self._api())

    @property
    def dead_letters(self) -> DeadLetters:
        """Messages that groups could not process."""
        from .resources import DeadLetters

        return DeadLetters(self._api())

    @property
    def tasks(self) -> Tasks:
        """Long operations, such as a redrive, and their progress."""
        from .resources import Tasks

        return Tasks(self._api())

    @property
    def messages(self) -> Messages:
        """Stored messages, read without affecting their delivery."""
        from .resources import Messages

        return Messages(self._api())

    @property
    def scheduled(self) -> Scheduled:
        """Messages that wait for their time."""
        from .resources import Scheduled

        return Scheduled(self._api())

    @property
    def schedules(self) -> Schedules:
        """Messages that are sent at the times of a cron expression."""
        from .resources import Schedules

        return Schedules(self._api())

    @property
    def issues(self) -> Issues:
        """Dead letters by their cause."""
        from .resources import Issues

        return Issues(self._api())

    @property
    def keys(self) -> Keys:
        """API keys."""
        from .resources import Keys

        return Keys(self._api())

    @property
    def tickets(self) -> Tickets:
        """Tickets that open WebSockets from web pages."""
        from .resources import Tickets

        return Tickets(self._api())
