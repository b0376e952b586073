"""What an operation of the data plane is: one row for its routing, its query and its documentation.

    Operation ──▶ plane            path and method to handler
              ──▶ reading.query    the parameters of a request
              ──▶ reference        path, parameters, bodies and errors of the OpenAPI document

A row stands with the handler it names; ``delivery.operations`` lists them all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import Request
from mqservice.delivery.path_routes import group_route, topic_route
from mqservice.delivery.reading.query import Parameter, Query
from mqservice.groups.routes import GroupRoute
from mqservice.topics.routes import TopicRoute

FoundT = TypeVar("FoundT")

NAMESPACE: Final = "/v1/ns/{ns}"
TOPIC: Final = NAMESPACE + "/topics/{topic}"
GROUP: Final = NAMESPACE + "/groups/{group}"

# Values of the examples.
MESSAGE_ID: Final = "01679C42FC1C5916ED0B1323B800019A0A"
STORED_AT: Final = "2026-11-21T12:08:24.757Z"

# Ends what a request has begun, when its task is cancelled.
Cancel = Callable[[], None]


class BodyHandler(NamedTuple, Generic[FoundT]):
    """A request that is served at once when its body is whole.

    ``begin`` gives the most bytes that the body may have, and what it has found out: topic, group.
    ``serve``, given that and the body, sees to it that the request is answered, now or later. Both
    may raise Problem, Fault or StoreError, ``begin`` also NotLoaded.
    """

    begin: Callable[[DeliveryContext, Request], tuple[int, FoundT]]
    serve: Callable[[DeliveryContext, Request, FoundT, bytes], Cancel | None]


ReadHandler = Callable[[DeliveryContext, Request], Awaitable[None]]


class Body(NamedTuple):
    """What a request has to contain.

    ``items_max``: it is a list of so many ``struct``s at most. ``other_types``: what else it may
    be, as in OpenAPI.
    """

    struct: type[msgspec.Struct]
    example: object
    is_required: bool = True
    items_max: int | None = None
    other_types: Mapping[str, Mapping[str, object]] = {}


class Reply(NamedTuple):
    """One response that is no error."""

    text: str
    struct: type[msgspec.Struct]
    example: Mapping[str, object]
    status: int = 200


_NAMESPACE_CODES: Final = ("NOT_FOUND", "NAMESPACE_NOT_FOUND", "BAD_REQUEST")
# Errors that a part of the path can cause. NOT_FOUND: of a path that, with a colon in a name, is
# none.
_CODES_OF_PATH: Final = {
    "ns": _NAMESPACE_CODES,
    "topic": ("TOPIC_NOT_FOUND", "ILLEGAL_TOPIC"),
    "group": ("GROUP_NOT_FOUND", "ILLEGAL_GROUP"),
    "queue": ("QUEUE_NOT_FOUND",),
    "message_id": ("MESSAGE_NOT_FOUND",),
    "recall_handle": (
        "TOPIC_NOT_FOUND", "MESSAGE_NOT_FOUND", "ALREADY_DELIVERED", "STORAGE_FULL",
    ),
}  # fmt: skip
_CODES_OF_BODY: Final = ("BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "REQUEST_TIMEOUT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    Args:
        scope: what the key needs for the topic or group of the path.
        headers: what it reads of them, with their meaning.
        codes: errors beyond those that path, parameters and body can cause.
    """

    method: str
    path: str
    operation_id: str
    tag: str
    summary: str
    description: str
    scope: Scope
    handler: BodyHandler[Any] | ReadHandler  # Any: what ``begin`` finds is for ``serve`` alone
    parameters: tuple[Parameter[object], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    takes_idempotency_key: bool = False
    body: Body | None = None
    replies: tuple[Reply, ...]
    codes: tuple[str, ...] = ()

    @property
    def path_names(self) -> list[str]:
        """Names of the parts of the path that differ."""
        return [part.partition("}")[0] for part in self.path.split("{")[1:]]

    @property
    def all_codes(self) -> list[str]:
        """Every error code, except those that any request may meet."""
        codes = [code for name in self.path_names for code in _CODES_OF_PATH[name]]
        codes += [parameter.code for parameter in self.parameters]
        return [*codes, *(_CODES_OF_BODY if self.body else ()), *self.codes]

    async def read_topic(
        self, context: DeliveryContext, request: Request
    ) -> tuple[TopicRoute, Query]:
        """The topic of the path and the query, of one who may read it. Raises Problem, Fault."""
        request.principal.require(self.scope, Kind.TOPIC, request.match.topic)
        topic = await topic_route(context, request)
        return topic, self.query(request)

    async def read_group(
        self, context: DeliveryContext, request: Request
    ) -> tuple[GroupRoute, Query]:
        """The group of the path; otherwise like ``read_topic``."""
        request.principal.require(self.scope, Kind.GROUP, request.match.group)
        group = await group_route(context, request)
        return group, self.query(request)

    def query(self, request: Request) -> Query:
        """The query of ``request``. Raises Fault."""
        return Query(request.scope["query_string"], self.parameters)


def page_reply(
    struct: type[msgspec.Struct], message: Mapping[str, object], *, has_completeness: bool = True
) -> tuple[Reply]:
    """The reply of a list of messages."""
    example: dict[str, Any] = {"messages": [message], "next_cursor": None}  # Any: JSON
    if has_completeness:
        example["is_complete"] = True
    return (Reply("A page; may be empty.", struct, example),)
