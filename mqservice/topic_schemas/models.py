"""Rows of schemas, one of a topic at most."""

from __future__ import annotations

import hashlib

from django.db import models

from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.definitions import Decoded, parsed
from mqservice.topic_schemas.limits import LINE_BYTES_MAX, NAME_CHARS_MAX
from mqservice.topic_schemas.values import json_line
from mqservice.topics.models import Topic


class TopicSchema(models.Model):
    """``definition``: JSON of Avro, base64 of a descriptor set of Protobuf; checked before it is
    kept. ``message``: what bodies are; empty of Avro. ``revision`` becomes the ETag. Deleting the
    topic deletes it.
    """

    topic = models.OneToOneField(
        Topic, on_delete=models.CASCADE, related_name="schema", primary_key=True
    )
    kind = models.CharField(
        max_length=16, choices=[(each.value, each.value) for each in SchemaKind]
    )
    message = models.CharField(max_length=NAME_CHARS_MAX, blank=True, default="")
    definition = models.TextField()
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.kind} of {self.topic_id}"

    @property
    def sha256(self) -> str:
        """Of the definition, by which audit entries tell definitions apart."""
        return hashlib.sha256(self.definition.encode()).hexdigest()

    def decode(self, body: bytes) -> Decoded:
        """A body of the topic. Some milliseconds at most, after the first."""
        return parsed(SchemaKind(self.kind), self.definition, self.message).decode(body)

    def line_of(self, body: bytes) -> str | None:
        """A body of the topic as JSON in one line; None where it is larger than is decoded for one
        line, or the schema does not match.
        """
        if len(body) > LINE_BYTES_MAX:
            return None
        decoded = self.decode(body)
        return None if decoded.fault else json_line(decoded.value)
