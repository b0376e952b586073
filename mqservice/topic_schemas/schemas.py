"""Schemas of topics on the wire of the control plane."""

from __future__ import annotations

from ninja import Schema
from pydantic import ConfigDict

from mqservice.lib.wire import moment
from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topic_schemas.services import SchemaChange


class TopicSchemaIn(Schema):
    """`definition`: for Avro the schema as JSON, in a string; for Protobuf the base64 of what
    `protoc --include_imports --descriptor_set_out` writes. `message`: for Protobuf the full name
    of the message that bodies are; may be left out when the definition has only one."""

    model_config = ConfigDict(extra="forbid")

    kind: SchemaKind
    definition: str
    message: str | None = None

    def order(self) -> SchemaChange:
        return SchemaChange(kind=self.kind, definition=self.definition, message=self.message or "")


class TopicSchemaOut(Schema):
    """How bodies of a topic are encoded. `message` is null for Avro."""

    topic: str
    namespace: str
    kind: SchemaKind
    message: str | None
    definition: str
    created_at: str
    updated_at: str

    @classmethod
    def of(cls, row: TopicSchema, topic: str, namespace: str) -> TopicSchemaOut:
        return cls(
            topic=topic,
            namespace=namespace,
            kind=SchemaKind(row.kind),
            message=row.message or None,
            definition=row.definition,
            created_at=moment(row.created_at),
            updated_at=moment(row.updated_at),
        )
