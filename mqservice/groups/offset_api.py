"""Offsets of consumer groups over REST: ``…/groups/{group}:seek``, ``/lag``, ``/offsets``."""

from __future__ import annotations

from typing import Annotated

from ninja import Router
from pydantic import Field

from mqservice.accounts.models import Namespace
from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Kind, Scope
from mqservice.groups.broadcast_clients import (
    CLIENTS_DEFAULT,
    CLIENTS_MAX,
    client_id_of,
    client_page,
)
from mqservice.groups.offset_schemas import (
    CommitIn,
    CommitOut,
    GroupLagOut,
    OffsetsOut,
    SeekIn,
    SeekOut,
)
from mqservice.groups.offsets import commit, preview_seek, progress_of, seek, topic_stats
from mqservice.groups.queries import get_group
from mqservice.lib.clock import SystemClock
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.protocol.choices import Dispatch
from mqservice.store import GroupQueueStats
from mqservice.topics.models import Topic
from mqservice.topics.queries import get_topic

router = Router(tags=["offsets"])


@router.post("/ns/{ns}/groups/{group}:seek", response=SeekOut)
def seek_group(request: AuthedRequest, ns: str, group: str, body: SeekIn) -> SeekOut:
    """Move a group to another position of a topic, or preview that.

    In a broadcast group this moves all clients that have read the topic, or ``client_id``.

    Four queries and an audit entry, one call to the engine.
    """
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.GROUP, group)
    row = get_group(namespace, group)
    topic = _topic_of(namespace, body.topic)
    target = body.target(topic.queue_count, client_id_of(row, body.client_id))
    if body.dry_run:
        return SeekOut.of(row, body, preview_seek(row, topic, target))
    return SeekOut.of(row, body, seek(request.auth, row, topic, target))


@router.post("/ns/{ns}/groups/{group}/offsets:commit", response=CommitOut)
def commit_offset(request: AuthedRequest, ns: str, group: str, body: CommitIn) -> CommitOut:
    """Commit an offset: settle everything of a queue below it, for consumers that pull. Three
    queries, one call."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.CONSUME, Kind.GROUP, group)
    request.auth.require(Scope.CONSUME, Kind.TOPIC, body.topic)
    row = get_group(namespace, group)
    topic = _topic_of(namespace, body.topic)
    body.check(topic.queue_count)
    client_id = client_id_of(row, body.client_id, is_needed=True)
    return CommitOut.of(body, commit(row, topic, body.queue, body.offset, client_id=client_id))


@router.get("/ns/{ns}/groups/{group}/offsets", response=OffsetsOut)
def read_offsets(
    request: AuthedRequest,
    ns: str,
    group: str,
    topic: str | None = None,
    client_id: str | None = None,
) -> OffsetsOut:
    """Read a group's offsets, for one topic or for all it has read. Two queries, one call; for one
    topic a second.

    With ``topic`` the result includes queues that the group has never read, with an offset of null.
    """
    namespace = get_namespace(request.auth, ns)
    row = get_group(namespace, group)
    wanted = None if topic is None else get_topic(namespace, topic)
    stats = progress_of(row, client_id_of(row, client_id))
    unread = None if wanted is None else topic_stats(wanted)
    return OffsetsOut.of(row.name, _rows_of(stats.queues, wanted), unread)


@router.get("/ns/{ns}/groups/{group}/lag", response=GroupLagOut)
def read_lag(
    request: AuthedRequest,
    ns: str,
    group: str,
    topic: str | None = None,
    client_id: str | None = None,
    after: str = "",
    limit: Annotated[int, Field(ge=1, le=CLIENTS_MAX)] = CLIENTS_DEFAULT,
) -> GroupLagOut:
    """Read what the group still has to do: messages not delivered, in flight, or waiting for a
    retry; and the age of the oldest of them. Two queries, one call.

    With dispatch: broadcast also a page of its clients, or only ``client_id``; one call more.
    """
    namespace = get_namespace(request.auth, ns)
    row = get_group(namespace, group)
    wanted = None if topic is None else get_topic(namespace, topic)
    reader = client_id_of(row, client_id)
    stats = progress_of(row, reader)
    names = sorted(each.topic for each in stats.topics)
    if wanted is not None:
        names = [wanted.engine_name]
    shown = GroupLagOut.of(row.name, stats, names, SystemClock().now_ms())
    if row.dispatch == Dispatch.BROADCAST:
        shown.client_id, shown.dropped = client_id, stats.dropped_count
        if client_id is None:
            engine_topic = "" if wanted is None else wanted.engine_name
            shown.clients = client_page(row, engine_topic, after=after, limit=limit)
    return shown


def _rows_of(rows: list[GroupQueueStats], topic: Topic | None) -> list[GroupQueueStats]:
    if topic is None:
        return rows
    return [row for row in rows if topic.engine_name in (row.topic, row.retry_of)]


def _topic_of(namespace: Namespace, name: str) -> Topic:
    """The topic that a body names. Raises Problem TOPIC_NOT_FOUND with its pointer."""
    try:
        return get_topic(namespace, name)
    except Problem as problem:
        problem.errors = [ProblemItem("/topic", problem.code, problem.detail)]
        raise
