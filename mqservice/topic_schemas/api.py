"""Schemas of topics over REST: ``/v1/ns/{ns}/topics/{topic}/schema``."""

from __future__ import annotations

from django.http import HttpResponse
from ninja import Router, Status

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Kind, Scope
from mqservice.lib.etags import etag, revision_of
from mqservice.topic_schemas.queries import get_schema
from mqservice.topic_schemas.schemas import TopicSchemaIn, TopicSchemaOut
from mqservice.topic_schemas.services import delete_schema, put_schema
from mqservice.topics.queries import get_topic

router = Router(tags=["topics"])


@router.get("/ns/{ns}/topics/{topic}/schema", response=TopicSchemaOut)
def read_topic_schema(
    request: AuthedRequest, response: HttpResponse, ns: str, topic: str
) -> TopicSchemaOut:
    """Read the schema of a topic. Three queries."""
    namespace = get_namespace(request.auth, ns)
    get_topic(namespace, topic)
    row = get_schema(namespace, topic)
    response["ETag"] = etag(row.revision)
    return TopicSchemaOut.of(row, topic, namespace.name)


@router.put("/ns/{ns}/topics/{topic}/schema", response={200: TopicSchemaOut, 201: TopicSchemaOut})
def write_topic_schema(
    request: AuthedRequest, response: HttpResponse, ns: str, topic: str, wanted: TopicSchemaIn
) -> Status[TopicSchemaOut]:
    """Set the schema by which the console decodes bodies of a topic: 201 when it had none.
    ``If-Match`` guards against a lost update. What programs produce and receive stays as it is."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.TOPIC, topic)
    revision = revision_of(request.headers.get("If-Match"))
    row, is_new = put_schema(request.auth, namespace, topic, wanted.order(), revision=revision)
    response["ETag"] = etag(row.revision)
    return Status(201 if is_new else 200, TopicSchemaOut.of(row, topic, namespace.name))


@router.delete("/ns/{ns}/topics/{topic}/schema", response={204: None})
def remove_topic_schema(request: AuthedRequest, ns: str, topic: str) -> Status[None]:
    """Delete the schema of a topic; the console shows its bodies as bytes again."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.TOPIC, topic)
    revision = revision_of(request.headers.get("If-Match"))
    delete_schema(request.auth, namespace, topic, revision=revision)
    return Status(204, None)
