"""Namespaces that go to another shard, on the engine's socket.

Each attempt has a number, higher than any before it. One that was released is over: a hold with
its number that comes later, from a command that was stopped meanwhile, is refused.
"""

from __future__ import annotations

from storage_engine.wire.struct import Wire


class NamespaceHoldRequest(Wire, frozen=True, kw_only=True):
    """Refuse whatever concerns these namespaces, over restarts too, until it is released."""

    namespaces: list[str]
    number: int


class NamespaceReleaseRequest(Wire, frozen=True, kw_only=True):
    """Serve what the holds up to this number refuse, and refuse those holds from now on."""

    number: int


class NamespaceDropRequest(Wire, frozen=True, kw_only=True):
    """Delete the topics and groups of the namespaces that the hold of this number refuses."""

    number: int


class NamespaceDropReply(Wire, frozen=True, kw_only=True):
    topic_count: int
    group_count: int


class NamespaceHoldsReply(Wire, frozen=True, kw_only=True):
    """``held``: the namespaces that are refused, with the number of their hold. ``split_number``:
    of the split that this store came from; 0: it did not.
    """

    held: dict[str, int]
    split_number: int = 0


class StoreAdoptRequest(Wire, frozen=True, kw_only=True):
    """Serve the store that lies ready beside this engine's instead of its own.

    ``number``: that the other store has. Its own is deleted if it came from a split that was given
    up, and moved aside if it has topics otherwise.
    """

    number: int


class StoreDiscardRequest(Wire, frozen=True, kw_only=True):
    """The split of this number was given up, as those before it: adopt no store of theirs any
    more, and delete these namespaces if the store that is served came from it.
    """

    namespaces: list[str]
    number: int
