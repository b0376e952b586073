"""What the SQS face keeps of a queue beyond the settings of its topic and its group."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Meta

from mqservice.lib.json_fields import Fields
from mqservice.lib.names import NAME_PATTERN
from mqservice.lib.settings_table import Json, Setting, Wrong

DELAY_SECONDS_MAX: Final = 900
WAIT_SECONDS_MAX: Final = 20
TAGS_MAX: Final = 50
TAG_KEY_CHARS_MAX: Final = 128
TAG_CHARS_MAX: Final = 256
KEPT_CHARS_MAX: Final = 32 * 1024  # of a policy, or another attribute without effect
_KEPT: Final = (
    "Policy|RedriveAllowPolicy|KmsMasterKeyId|KmsDataKeyReusePeriodSeconds|SqsManagedSseEnabled|"
    "FifoThroughputLimit"
)
_TEXT: Final = r"^[^\x00]*$"
_Value = Annotated[str, Meta(pattern=_TEXT, max_length=KEPT_CHARS_MAX)]
_TagKey = Annotated[str, Meta(pattern=_TEXT, min_length=1, max_length=TAG_KEY_CHARS_MAX)]
_Tag = Annotated[str, Meta(pattern=_TEXT, max_length=TAG_CHARS_MAX)]


class QueueOptions(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The column ``sqs`` of a topic. ``attributes``: what AWS knows and nothing here acts on, as it
    was given. ``dead_letter_queue``: the topic that its RedrivePolicy names.
    """

    delay_s: Annotated[int, Meta(ge=0, le=DELAY_SECONDS_MAX)] = 0
    wait_s: Annotated[int, Meta(ge=0, le=WAIT_SECONDS_MAX)] = 0
    is_never_hidden: bool = False  # VisibilityTimeout is 0, which no lease is
    is_dedup_by_content: bool = False
    is_dedup_by_group: bool = False
    dead_letter_queue: Annotated[str, Meta(pattern=f"^$|{NAME_PATTERN}")] = ""
    attributes: dict[Annotated[str, Meta(pattern=f"^({_KEPT})$")], _Value] = {}
    tags: Annotated[dict[_TagKey, _Tag], Meta(max_length=TAGS_MAX)] = {}


NO_OPTIONS: Final = QueueOptions()


def queue_options_of(column: Json) -> QueueOptions:
    """What the column holds."""
    return msgspec.convert(column, QueueOptions) if column else NO_OPTIONS


class QueueOptionsSetting(Setting, frozen=True, kw_only=True):
    """These in a document of definitions, as the column has them."""

    plain_type: ClassVar[Any] = Json

    def parse(self, given: object, fields: Fields, place: str) -> Json:
        try:
            options = msgspec.convert(given, QueueOptions)
            for name in ("Policy", "RedriveAllowPolicy"):
                msgspec.json.decode(options.attributes.get(name, "{}"), type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as exc:
            raise Wrong(f"must be options of a queue of SQS: {exc}") from None
        found: Json = msgspec.to_builtins(options)
        return found

    def content(self) -> Json:
        _, parts = msgspec.json.schema_components([QueueOptions])
        return {name: part for name, part in parts["QueueOptions"].items() if name != "title"}


SQS: Final = QueueOptionsSetting(
    name="sqs", default={}, about="What Amazon SQS knows of the queue; left out of a plain topic."
)
