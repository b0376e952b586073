"""Shared searches on the wire of the control plane."""

from __future__ import annotations

from ninja import Schema
from pydantic import ConfigDict

from mqservice.lib.wire import moment
from mqservice.searches.models import SharedSearch


class SearchIn(Schema):
    """`q`: tokens, as `GET …/messages` takes them, with `topic:`, `group:`, a key or an ID."""

    model_config = ConfigDict(extra="forbid")

    q: str


class SearchOut(Schema):
    """A search that all who may read messages of the namespace see."""

    name: str
    namespace: str
    q: str
    created_at: str
    updated_at: str

    @classmethod
    def of(cls, row: SharedSearch, namespace: str) -> SearchOut:
        return cls(
            name=row.name,
            namespace=namespace,
            q=row.q,
            created_at=moment(row.created_at),
            updated_at=moment(row.updated_at),
        )


class SearchesOut(Schema):
    """All of a namespace, by name."""

    searches: list[SearchOut]
