"""Bodies and fields that the control plane reads by tables of settings, for better errors."""

from __future__ import annotations

from typing import Final

from mqservice.accounts.settings import (
    INVITATION,
    JOIN,
    KEY_CHANGE,
    MEMBER,
    NEW_KEY,
    ROTATION,
    TICKET,
)
from mqservice.alerts.settings import BODY as ALERT
from mqservice.alerts.settings import MUTE
from mqservice.definitions.documents import NAME, SCHEMA
from mqservice.definitions.limits import DEFINITION_COUNT_MAX, VERSION, VERSION_MIN
from mqservice.groups.settings import ASSIGNMENT, RETRY
from mqservice.groups.settings import SETTINGS as GROUP
from mqservice.lib.settings_table import body_object
from mqservice.reference.parts import TIME_PATTERN, JsonObject, json_content, ref
from mqservice.schedules.settings import BODY as SCHEDULE
from mqservice.schedules.settings import PREVIEW
from mqservice.topics.queue_options import SQS
from mqservice.topics.settings import QUEUES
from mqservice.topics.settings import SETTINGS as TOPIC

_UNCHANGED: Final = "Omitted fields are left unchanged; a new one gets the defaults."

SCHEMAS: Final[dict[str, JsonObject]] = {
    "RetryPolicy": RETRY.definition(),
    "Assignment": ASSIGNMENT.definition(),
    "TopicIn": body_object(TOPIC, f"Settings of a topic. {_UNCHANGED}"),
    "GroupIn": body_object(
        GROUP,
        f"Settings of a consumer group. {_UNCHANGED} Some settings require a certain `dispatch`.",
    ),
    "TopicDefinitionIn": body_object((NAME, *TOPIC, SQS, SCHEMA), f"A topic. {_UNCHANGED}"),
    "GroupDefinitionIn": body_object((NAME, *GROUP), f"A group. {_UNCHANGED}"),
    "DefinitionsIn": {
        "type": "object",
        "description": f"Topics and groups, {DEFINITION_COUNT_MAX:,} in all; names are unique in "
        "each list.",
        "properties": {
            "version": {
                "enum": [*range(VERSION_MIN, VERSION + 1)],
                "description": f"The version of the format; only {VERSION} has schemas of topics.",
            },
            "topics": {
                "type": ["array", "null"],
                "items": ref("TopicDefinitionIn"),
                "maxItems": DEFINITION_COUNT_MAX,
            },
            "groups": {
                "type": ["array", "null"],
                "items": ref("GroupDefinitionIn"),
                "maxItems": DEFINITION_COUNT_MAX,
            },
        },
        "required": ["version"],
        "additionalProperties": False,
    },
    "AlertIn": body_object(ALERT, f"Settings of an alert. {_UNCHANGED}"),
    "MuteIn": body_object(MUTE, "How long to mute an alert: `for` a time, or `until` one."),
    "ScheduleIn": body_object(
        SCHEDULE,
        "Settings of a schedule. A new one needs `topic`, `cron` and `message`; omitted fields are "
        "left unchanged.",
    ),
    "PreviewIn": body_object(PREVIEW, "An expression to preview."),
    "NewKeyIn": body_object(NEW_KEY, "A key: never one that could do more than yours."),
    "KeyIn": body_object(KEY_CHANGE, "What to change of a key; omitted fields are left unchanged."),
    "RotationIn": body_object(ROTATION, "When the present secret ends."),
    "TicketIn": body_object(TICKET, "Rights of the ticket; each field is optional."),
    "MemberIn": body_object(MEMBER, "What a member may do."),
    "InvitationIn": body_object(INVITATION, "Who is to become a member."),
    "JoinIn": body_object(JOIN, "Who accepts an invitation."),
    "SeekTo": {
        "description": "Where the group continues.",
        "oneOf": [
            {"enum": ["earliest", "latest"]},
            {
                "type": "object",
                "properties": {"time": {"type": "string", "pattern": TIME_PATTERN}},
                "required": ["time"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {
                    "offset": {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1},
                    "queue": {"type": "integer", "minimum": 0, "maximum": QUEUES.high - 1},
                },
                "required": ["offset", "queue"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {
                    "shift": {
                        "type": "integer",
                        "minimum": -(1 << 63) + 1,
                        "maximum": (1 << 63) - 1,
                        "description": "This many messages forward on each queue, or back if "
                        "negative, as far as there are messages.",
                    }
                },
                "required": ["shift"],
                "additionalProperties": False,
            },
        ],
    },
}


def _body(schema: str, example: object, *, is_required: bool = False) -> JsonObject:
    return {"required": is_required, "content": json_content(ref(schema), example)}


_IMPORT: Final = _body(
    "DefinitionsIn",
    {
        "version": VERSION,
        "topics": [{"name": "orders", "queues": 8, "retention": "3d"}],
        "groups": [{"name": "billing", "lease": "60s", "max_attempts": 17}],
    },
    is_required=True,
)
_IMPORT["content"]["application/yaml"] = {"schema": ref("DefinitionsIn")}
# operationId -> request body
BODIES: Final[dict[str, JsonObject]] = {
    "writeTopic": _body("TopicIn", {"queues": 8, "type": "mixed", "retention": "3d"}),
    "writeGroup": _body("GroupIn", {"dispatch": "shared", "lease": "60s"}),
    "importDefinitions": _IMPORT,
    "writeAlert": _body(
        "AlertIn", {"kind": "lag", "group": "billing", "threshold": 1000, "for": "5m"}
    ),
    "muteAlert": _body("MuteIn", {"for": "1h", "reason": "maintenance"}),
    "writeSchedule": _body(
        "ScheduleIn",
        {
            "topic": "orders",
            "cron": "0 9 * * mon-fri",
            "time_zone": "Europe/Berlin",
            "message": {"body_json": {"report": "daily"}, "tag": "report"},
        },
    ),
    "previewSchedule": _body(
        "PreviewIn", {"cron": "*/15 8-18 * * *", "time_zone": "Europe/Berlin"}, is_required=True
    ),
    "createKey": _body(
        "NewKeyIn", {"name": "billing", "scopes": ["consume:group/billing"]}, is_required=True
    ),
    "updateKey": _body("KeyIn", {"scopes": ["produce", "consume"], "expires_in": "90d"}),
    "rotate": _body("RotationIn", {"overlap": "1h"}),
    "issueTicket": _body("TicketIn", {"namespace": "acme", "scopes": ["consume"]}),
    "updateMember": _body("MemberIn", {"role": "developer"}, is_required=True),
    "createInvitation": _body(
        "InvitationIn", {"email": "ada@example.org", "role": "developer"}, is_required=True
    ),
    "accept": _body(
        "JoinIn", {"token": "inv_…", "username": "ada", "password": "…"}, is_required=True
    ),
}
# Fields that the framework knows only as anything: (schema, field) -> what they are.
FIELDS: Final[dict[tuple[str, str], JsonObject]] = {
    ("SeekIn", "to"): ref("SeekTo"),
    ("GroupOut", "retry"): ref("RetryPolicy"),
    ("GroupOut", "assignment"): ref("Assignment"),
    ("GroupDefinition", "retry"): ref("RetryPolicy"),
    ("GroupDefinition", "assignment"): ref("Assignment"),
}
