"""Definitions on the wire: the contents of an export, and the result of an import.

A definition has every setting that ``PUT`` of the topic or group takes, in the same words, so that
it can be sent back as it is; of a topic that has a schema also what ``PUT`` of that takes. Not in
it: messages, offsets, filters, which consumers bring, and whether a group is paused.
"""

from __future__ import annotations

import enum
import operator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from mqservice.definitions.limits import VERSION
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.schemas import shown_settings as shown_group
from mqservice.groups.settings import SETTINGS as GROUP_SETTINGS
from mqservice.lib.settings_table import definition_fields
from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topic_schemas.schemas import TopicSchemaIn
from mqservice.topics.models import Topic
from mqservice.topics.schemas import shown_settings as shown_topic
from mqservice.topics.settings import SETTINGS as TOPIC_SETTINGS

Settings = dict[str, Any]  # Any: JSON, as the API writes settings


_TopicSettings = create_model(
    "_TopicSettings", name=(str, ...), **definition_fields(TOPIC_SETTINGS)
)
_GroupSettings = create_model(
    "_GroupSettings", name=(str, ...), **definition_fields(GROUP_SETTINGS)
)


class TopicDefinition(_TopicSettings):  # type: ignore[valid-type, misc]  # reason: of the table
    """All settings of a topic. ``sqs``: what Amazon SQS knows of the queue, if that is anything.
    ``schema``: of its bodies, if it has one.
    """

    # ``schema`` is a method of pydantic's.
    model_config = ConfigDict(serialize_by_alias=True)

    sqs: Settings = Field(default={}, exclude_if=operator.not_)
    body_schema: TopicSchemaIn | None = Field(
        default=None, alias="schema", exclude_if=operator.not_
    )

    @classmethod
    def of(cls, topic: Topic, schema: TopicSchema | None = None) -> TopicDefinition:
        shown = None
        if schema is not None:
            shown = TopicSchemaIn(
                kind=SchemaKind(schema.kind),
                definition=schema.definition,
                message=schema.message or None,
            )
        return cls(name=topic.name, **shown_topic(topic), sqs=topic.sqs, schema=shown)


class GroupDefinition(_GroupSettings):  # type: ignore[valid-type, misc]  # reason: of the table
    """All settings of a consumer group. ``start_time`` is of ``start_from: timestamp`` only."""

    @classmethod
    def of(cls, group: ConsumerGroup) -> GroupDefinition:
        return cls(name=group.name, **shown_group(group, all_of_assignment=True))


class DefinitionsOut(BaseModel):
    """By name; equal settings give equal documents, wherever they come from."""

    version: int = VERSION
    topics: list[TopicDefinition]
    groups: list[GroupDefinition]


class Action(enum.StrEnum):
    """What an import does, or would do, to a topic or group."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class ImportedOut(BaseModel):
    """`before` and `after`: the settings that change; for something new `before` is null and
    `after` has all of its settings. Of a `schema` they have the `sha256`, not the definition."""

    name: str
    action: Action
    before: Settings | None
    after: Settings


class ImportOut(BaseModel):
    """In the order of the document."""

    dry_run: bool
    created: int
    changed: int
    unchanged: int
    topics: list[ImportedOut]
    groups: list[ImportedOut]
