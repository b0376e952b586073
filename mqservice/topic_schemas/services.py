"""Changes schemas of topics; the only writer of their rows. One transaction each, and audited.

A schema is checked before it is kept, so that decoding finds no fault in it later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import difference, record, settings_of
from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import Namespace
from mqservice.lib.etags import require_revision
from mqservice.lib.wire import refused
from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.definitions import parse
from mqservice.topic_schemas.faults import MessageFault, SchemaFault
from mqservice.topic_schemas.limits import DEFINITION_BYTES_MAX
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topic_schemas.queries import find_schema, get_schema
from mqservice.topics.queries import get_topic

_SETTINGS: Final = ("kind", "message", "sha256")  # of the definition, which is too long for audits


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """All of a schema; ``message`` may be empty where the definition has only one."""

    kind: SchemaKind
    definition: str
    message: str = ""


@transaction.atomic
def put_schema(
    principal: Principal,
    namespace: Namespace,
    topic: str,
    order: SchemaChange,
    *,
    revision: int | None = None,
) -> tuple[TopicSchema, bool]:
    """Give a topic a schema or replace the one it has; the row, and whether it is new.

    Args:
        revision: refuse with PRECONDITION_FAILED unless the schema exists in this revision.

    Raises Problem: ILLEGAL_SETTING, TOPIC_NOT_FOUND or PRECONDITION_FAILED.
    """
    message = _checked_message(order)
    lock_namespace(namespace)  # nobody deletes the topic meanwhile; two changes: in turn
    found = get_topic(namespace, topic)
    row = find_schema(namespace, topic)
    require_revision(row, revision, "schema")
    is_new = row is None
    if row is None:
        row = TopicSchema(topic=found)
    before = None if is_new else settings_of(row, _SETTINGS)
    row.kind, row.message, row.definition = order.kind.value, message, order.definition
    after = settings_of(row, _SETTINGS)
    if before != after:
        row.revision = 1 if is_new else row.revision + 1
        row.save()
        old, new = difference(before, after)
        record(principal, namespace, "schema.put", f"schemas/{topic}", before=old, after=new)
    return row, is_new


@transaction.atomic
def delete_schema(
    principal: Principal, namespace: Namespace, topic: str, *, revision: int | None = None
) -> None:
    """Raises Problem: TOPIC_NOT_FOUND, SCHEMA_NOT_FOUND or PRECONDITION_FAILED."""
    lock_namespace(namespace)
    get_topic(namespace, topic)
    row = get_schema(namespace, topic)
    require_revision(row, revision, "schema")
    before = settings_of(row, _SETTINGS)
    row.delete()
    record(principal, namespace, "schema.delete", f"schemas/{topic}", before=before)


def _checked_message(order: SchemaChange) -> str:
    """What bodies are. Raises Problem ILLEGAL_SETTING."""
    size_bytes = len(order.definition.encode(errors="surrogatepass"))
    if size_bytes > DEFINITION_BYTES_MAX:
        detail = f"must have at most {DEFINITION_BYTES_MAX} bytes, found {size_bytes}"
        raise refused("/definition", detail, "ILLEGAL_SETTING")
    if order.message and order.kind is SchemaKind.AVRO:
        detail = "must be left out: the schema of Avro says what bodies are"
        raise refused("/message", detail, "ILLEGAL_SETTING")
    try:
        return parse(order.kind, order.definition, order.message).message
    except MessageFault as fault:
        raise refused("/message", str(fault), "ILLEGAL_SETTING") from None
    except SchemaFault as fault:
        raise refused("/definition", str(fault), "ILLEGAL_SETTING") from None
