"""Changes schemas of topics; the only writer of their rows. One transaction each, and audited.

A schema is checked before it is kept, so that decoding finds no fault in it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import difference, entry_of, record, record_all, settings_of
from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import Namespace
from mqservice.lib.etags import require_revision
from mqservice.lib.rows import insert_all, update_all
from mqservice.lib.wire import refused
from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.definitions import parse
from mqservice.topic_schemas.faults import MessageFault, SchemaFault
from mqservice.topic_schemas.limits import DEFINITION_BYTES_MAX
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topic_schemas.queries import StoredSchema, get_schema, stored_schemas
from mqservice.topics.models import Topic
from mqservice.topics.queries import get_topic

_SETTINGS: Final = ("kind", "message", "sha256")  # of the definition, which is too long for audits
_WRITTEN: Final = ("kind", "message", "definition", "revision", "updated_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """All of a schema; ``message`` may be empty where the definition has only one."""

    kind: SchemaKind
    definition: str
    message: str = ""

    def checked(self) -> SchemaChange:
        """With the message that bodies are. Raises Problem ILLEGAL_SETTING."""
        return SchemaChange(
            kind=self.kind, definition=self.definition, message=_checked_message(self)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSchema:
    """A row as a change makes it, not yet written. ``before``: what the audit says of it as it is;
    None of a new one.
    """

    topic: Topic
    row: TopicSchema
    before: dict[str, object] | None

    @property
    def after(self) -> dict[str, object]:
        return settings_of(self.row, _SETTINGS)

    @property
    def is_new(self) -> bool:
        return self.before is None

    @property
    def is_different(self) -> bool:
        return self.before != self.after


def plan_schema(topic: Topic, stored: StoredSchema | None, change: SchemaChange) -> PlannedSchema:
    """What a change that was checked makes of the schema of a topic, or of none."""
    row = TopicSchema()
    before: dict[str, object] | None = None
    if stored is not None:
        row = stored.row
        before = {"kind": row.kind, "message": row.message, "sha256": stored.sha256}
    row.kind, row.message, row.definition = change.kind.value, change.message, change.definition
    return PlannedSchema(topic=topic, row=row, before=before)


def write_schemas(
    principal: Principal, namespace: Namespace, planned: Sequence[PlannedSchema]
) -> None:
    """Rows and audit entries of what is different, of topics that have rows. In a transaction, the
    namespace is locked; a query for some hundreds.
    """
    different = [each for each in planned if each.is_different]
    for each in different:
        each.row.topic = each.topic
        each.row.revision = 1 if each.is_new else each.row.revision + 1
    insert_all([each.row for each in different if each.is_new])
    changed = [each.row for each in different if not each.is_new]
    if len(changed) == 1:
        changed[0].save(update_fields=_WRITTEN)
    else:
        update_all(changed, _WRITTEN)
    entries = []
    for each in different:
        old, new = difference(each.before, each.after)
        target = f"schemas/{each.topic.name}"
        entries.append(entry_of(principal, namespace, "schema.put", target, before=old, after=new))
    record_all(entries)


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
    change = order.checked()
    lock_namespace(namespace)  # nobody deletes the topic meanwhile; two changes: in turn
    found = get_topic(namespace, topic)
    stored = stored_schemas(namespace, [topic]).get(topic)
    require_revision(stored.row if stored else None, revision, "schema")
    planned = plan_schema(found, stored, change)
    write_schemas(principal, namespace, [planned])
    return planned.row, planned.is_new


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
