"""What a client has besides messages: topics, groups, dead letters, and the rest that is managed.

The classes behind it are loaded when they are first used: a consumer never needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime import Runtime
from ..sides import AsyncSide
from .api import AsyncApi

if TYPE_CHECKING:
    from .resources import (
        AsyncDeadLetters,
        AsyncGroups,
        AsyncIssues,
        AsyncKeys,
        AsyncMessages,
        AsyncScheduled,
        AsyncSchedules,
        AsyncTasks,
        AsyncTickets,
        AsyncTopics,
    )


class AsyncControlPlane:
    """The resources of a client."""

    _side: AsyncSide

    def _open(self) -> Runtime:
        raise NotImplementedError

    def _api(self) -> AsyncApi:
        return AsyncApi(self._side, self._open)

    @property
    def topics(self) -> AsyncTopics:
        """Topics and their settings."""
        from .resources import AsyncTopics

        return AsyncTopics(self._api())

    @property
    def groups(self) -> AsyncGroups:
        """Consumer groups: settings, progress and members."""
        from .resources import AsyncGroups

        return AsyncGroups(self._api())

    @property
    def dead_letters(self) -> AsyncDeadLetters:
        """Messages that groups could not process."""
        from .resources import AsyncDeadLetters

        return AsyncDeadLetters(self._api())

    @property
    def tasks(self) -> AsyncTasks:
        """Long operations, such as a redrive, and their progress."""
        from .resources import AsyncTasks

        return AsyncTasks(self._api())

    @property
    def messages(self) -> AsyncMessages:
        """Stored messages, read without affecting their delivery."""
        from .resources import AsyncMessages

        return AsyncMessages(self._api())

    @property
    def scheduled(self) -> AsyncScheduled:
        """Messages that wait for their time."""
        from .resources import AsyncScheduled

        return AsyncScheduled(self._api())

    @property
    def schedules(self) -> AsyncSchedules:
        """Messages that are sent at the times of a cron expression."""
        from .resources import AsyncSchedules

        return AsyncSchedules(self._api())

    @property
    def issues(self) -> AsyncIssues:
        """Dead letters by their cause."""
        from .resources import AsyncIssues

        return AsyncIssues(self._api())

    @property
    def keys(self) -> AsyncKeys:
        """API keys."""
        from .resources import AsyncKeys

        return AsyncKeys(self._api())

    @property
    def tickets(self) -> AsyncTickets:
        """Tickets that open WebSockets from web pages."""
        from .resources import AsyncTickets

        return AsyncTickets(self._api())
