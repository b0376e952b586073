"""Topics over REST: ``/v1/ns/{ns}/topics``, ``…/topics/{topic}`` and ``…/topics/{topic}:purge``."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpResponse
from ninja import Router, Status
from pydantic import Field

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Kind, Scope
from mqservice.lib.etags import etag, revision_of
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.store import blocking_client
from mqservice.topics.purging import preview_purge, purge_topic
from mqservice.topics.queries import TOPICS_PAGE_MAX, get_topic, queue_stats, topics_of
from mqservice.topics.schemas import PurgeOut, TopicListOut, TopicOut, TopicPurgeIn, read_change
from mqservice.topics.services import delete_topic, put_topic

router = Router(tags=["topics"])


@router.get("/ns/{ns}/topics", response=TopicListOut)
def list_topics(
    request: AuthedRequest,
    ns: str,
    after: str = "",
    contains: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = "",
    limit: Annotated[int, Field(ge=1, le=TOPICS_PAGE_MAX)] = TOPICS_PAGE_MAX,
) -> TopicListOut:
    """List topics, by name; with ``contains`` those whose name contains it, in any case. Two
    queries."""
    namespace = get_namespace(request.auth, ns)
    topics = topics_of(namespace, after=after, contains=contains, limit=limit)
    return TopicListOut(
        topics=[TopicOut.of(topic) for topic in topics],
        next=topics[-1].name if len(topics) == limit else None,
    )


@router.post(
    "/ns/{ns}/topics/{topic}:purge", response=PurgeOut, operation_id="purgeTopic"
)  # fits `{topic}` as well
def purge(
    request: AuthedRequest, ns: str, topic: str, order: TopicPurgeIn | None = None
) -> PurgeOut:
    """Purge a topic: delete all its messages, or only count them.

    The topic, its groups, their dead letters and messages scheduled for later remain.

    Three queries and an audit entry, one call to the engine.
    """
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.TOPIC, topic)
    row = get_topic(namespace, topic)
    is_dry_run = order is not None and order.dry_run
    reply = preview_purge(row) if is_dry_run else purge_topic(request.auth, row)
    return PurgeOut.of(row, reply, is_dry_run=is_dry_run)


@router.get("/ns/{ns}/topics/{topic}", response=TopicOut)
def read_topic(request: AuthedRequest, response: HttpResponse, ns: str, topic: str) -> TopicOut:
    """Read one topic with the offsets of its queues. Two queries, one call to the engine."""
    row = get_topic(get_namespace(request.auth, ns), topic)
    with blocking_client(row.namespace.shard) as client:
        offsets = queue_stats(client, row)
    response["ETag"] = etag(row.revision)
    return TopicOut.of(row, offsets)


@router.put("/ns/{ns}/topics/{topic}", response={200: TopicOut, 201: TopicOut})
def write_topic(
    request: AuthedRequest, response: HttpResponse, ns: str, topic: str
) -> Status[TopicOut]:
    """Create or change a topic: 201 when it is new. ``If-Match`` guards against a lost update."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.TOPIC, topic)
    change = read_change(request.body)
    revision = revision_of(request.headers.get("If-Match"))
    row, is_new = put_topic(namespace, topic, change, revision=revision, by=request.auth)
    response["ETag"] = etag(row.revision)
    return Status(201 if is_new else 200, TopicOut.of(row))


@router.delete("/ns/{ns}/topics/{topic}", response={204: None})
def remove_topic(request: AuthedRequest, ns: str, topic: str) -> Status[None]:
    """Delete a topic with its messages; dead letters remain with the groups."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.TOPIC, topic)
    revision = revision_of(request.headers.get("If-Match"))
    delete_topic(namespace, topic, revision=revision, by=request.auth)
    return Status(204, None)
