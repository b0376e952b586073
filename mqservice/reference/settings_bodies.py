"""Schemas of bodies and fields that the control plane reads by hand, for better errors.

Their fields are held against the readers by a test, which asks the readers what they know.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from typing import Final

from mqservice.accounts import limits as account_limits
from mqservice.accounts.models import Role
from mqservice.accounts.scopes import SCOPES_MAX
from mqservice.alerts import limits as alert_limits
from mqservice.alerts.models import AlertKind
from mqservice.definitions.limits import DEFINITION_COUNT_MAX, VERSION
from mqservice.groups.assignment import WithinRoom
from mqservice.groups.retry import FACTOR_MAX
from mqservice.groups.settings import SETTINGS as GROUP_SETTINGS
from mqservice.groups.settings import Policy
from mqservice.lib.settings_table import body_properties
from mqservice.protocol.choices import Durability
from mqservice.reference.parts import (
    DURATION_PATTERN,
    NAME_PATTERN,
    TIME_PATTERN,
    JsonObject,
    json_content,
    ref,
)
from mqservice.schedules import limits as schedule_limits
from mqservice.schedules.models import CatchUp
from mqservice.store import DELAY_MS_MAX, RETRY_DELAY_COUNT_MAX
from mqservice.topics import models as topics
from mqservice.topics.models import QUEUE_COUNT_MAX

_NULL: Final = {"type": "null"}


def _duration(description: str) -> JsonObject:
    return {"type": ["string", "null"], "pattern": DURATION_PATTERN, "description": description}


def _integer(low: int, high: int, description: str = "") -> JsonObject:
    return _text_of({"type": ["integer", "null"], "minimum": low, "maximum": high}, description)


def _choice(kinds: Iterable[StrEnum], description: str) -> JsonObject:
    values: list[str | None] = [str(kind) for kind in kinds]
    return {"enum": [*values, None], "description": description}


def _text_of(schema: JsonObject, description: str) -> JsonObject:
    return {**schema, "description": description} if description else schema


def _object(properties: JsonObject, description: str) -> JsonObject:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "additionalProperties": False,
    }


_QUEUES_BY_NAME: Final = {
    "type": ["object", "null"],
    "additionalProperties": {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": QUEUE_COUNT_MAX - 1},
    },
    "propertyNames": {"pattern": NAME_PATTERN},
}
_DELAY: Final = {"type": "string", "pattern": DURATION_PATTERN}
_DELAY_MS: Final = {"type": "integer", "minimum": 1, "maximum": DELAY_MS_MAX}
_RETRY_FORMS: Final = [
    {
        **_object({"policy": {"const": Policy.LEVELS.value}}, "RocketMQ's delay levels."),
        "required": ["policy"],
    },
    {
        **_object(
            {
                "policy": {"const": Policy.LIST.value},
                "delays": {
                    "type": ["array", "null"],
                    "items": _DELAY,
                    "minItems": 1,
                    "maxItems": RETRY_DELAY_COUNT_MAX,
                },
                "delays_ms": {
                    "type": ["array", "null"],
                    "items": _DELAY_MS,
                    "minItems": 1,
                    "maxItems": RETRY_DELAY_COUNT_MAX,
                },
            },
            "These delays, one after the other; the last one for all that follow.",
        ),
        "required": ["policy"],
    },
    {
        **_object(
            {
                "policy": {"const": Policy.EXPONENTIAL.value},
                "start": _duration("The first delay."),
                "start_ms": _integer(1, DELAY_MS_MAX),
                "factor": {"type": ["number", "null"], "minimum": 1, "maximum": FACTOR_MAX},
                "cap": _duration("The longest delay."),
                "cap_ms": _integer(1, DELAY_MS_MAX),
            },
            "Each delay is the one before times `factor`, up to `cap`.",
        ),
        "required": ["policy"],
    },
]

SCHEMAS: Final[dict[str, JsonObject]] = {
    "TicketIn": {
        "type": "object",
        "additionalProperties": False,
        "description": "Rights of the ticket; each field is optional.",
        "properties": {
            "namespace": {
                "type": "string",
                "pattern": NAME_PATTERN,
                "description": "Its namespace. By default that of the key; required for a user's "
                "session.",
            },
            "scopes": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": 32,
                "description": "Like those of a key, and at most your own: all by default.",
            },
        },
    },
    "RetryPolicy": {
        "description": "When a failed message is redelivered.",
        "oneOf": _RETRY_FORMS,
    },
    "Assignment": _object(
        {
            "consumers": {
                **_QUEUES_BY_NAME,
                "description": "For strategy `CONFIG`: the queues of each consumer.",
            },
            "rooms": {
                **_QUEUES_BY_NAME,
                "description": "For the machine-room strategies: the queues of each room.",
            },
            "read": {
                "type": ["array", "null"],
                "items": {"type": "string"},
                "description": "For strategy `MACHINE_ROOM`: rooms whose queues are read.",
            },
            "within_room": _choice(WithinRoom, "How queues are assigned within a room."),
        },
        "Additional settings of some strategies.",
    ),
    "GroupIn": _object(
        body_properties(GROUP_SETTINGS),
        "Settings of a consumer group. Omitted fields are left unchanged; in a new group they get "
        "their defaults. Some settings require a certain `dispatch`.",
    ),
    "AlertIn": _object(
        {
            "kind": _choice(AlertKind, "What the rule watches."),
            "group": {"type": ["string", "null"], "pattern": NAME_PATTERN},
            "topic": {
                "type": ["string", "null"],
                "pattern": NAME_PATTERN,
                "description": "Only this topic; null for all.",
            },
            "threshold": _integer(1, alert_limits.THRESHOLD_MAX, "It fires at this value."),
            "for": _duration("How long the value must last."),
            "for_ms": _integer(0, alert_limits.FOR_MS_MAX),
            "window": _duration("The time over which rates are measured."),
            "window_ms": _integer(alert_limits.WINDOW_MS_MIN, alert_limits.WINDOW_MS_MAX),
            "enabled": {"type": ["boolean", "null"], "description": "False turns it off."},
            "emails": {
                "type": ["array", "null"],
                "items": {"type": "string", "format": "email"},
                "maxItems": alert_limits.EMAILS_MAX,
                "description": "Recipients.",
            },
            "webhook": {
                "type": ["string", "null"],
                "maxLength": alert_limits.URL_CHARS_MAX,
                "description": "The HTTPS URL that gets a POST; null removes it.",
            },
            "new_secret": {
                "type": ["boolean", "null"],
                "description": "Create another secret for the webhook's signatures.",
            },
        },
        "Settings of an alert. Omitted fields are left unchanged; a new one gets the defaults.",
    ),
    "ScheduleIn": _object(
        {
            "topic": {"type": ["string", "null"], "pattern": NAME_PATTERN},
            "cron": {
                "type": ["string", "null"],
                "maxLength": schedule_limits.CRON_CHARS_MAX,
                "description": "Minute, hour, day, month and weekday, or @daily and the like.",
            },
            "time_zone": {
                "type": ["string", "null"],
                "description": "An IANA name, such as Europe/Berlin; UTC by default.",
            },
            "catch_up": _choice(CatchUp, "Which missed runs are sent late."),
            "enabled": {"type": ["boolean", "null"], "description": "False pauses it."},
            "description": {
                "type": ["string", "null"],
                "maxLength": schedule_limits.DESCRIPTION_CHARS_MAX,
            },
            "message": {
                "type": ["object", "null"],
                "description": "As for a produce, without delay_level, delay, delay_ms, deliver_at "
                f"and dedup_id; its body has {schedule_limits.BODY_BYTES_MAX:,} bytes at most.",
            },
        },
        "Settings of a schedule. A new one needs `topic`, `cron` and `message`; omitted fields are "
        "left unchanged.",
    ),
    "PreviewIn": {
        **_object(
            {
                "cron": {"type": "string", "maxLength": schedule_limits.CRON_CHARS_MAX},
                "time_zone": {"type": ["string", "null"], "description": "UTC by default."},
            },
            "An expression to preview.",
        ),
        "required": ["cron"],
    },
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
                    "queue": {"type": "integer", "minimum": 0, "maximum": QUEUE_COUNT_MAX - 1},
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

SCHEMAS["TopicDefinitionIn"] = {
    **_object(
        {
            "name": {"type": "string", "pattern": NAME_PATTERN},
            "type": _choice(topics.NEW_TYPES, "The type of its messages."),
            "queues": _integer(1, QUEUE_COUNT_MAX, "Can be increased, not decreased."),
            "durability": _choice(Durability, "When a produce is confirmed."),
            "retention": _duration("How long messages are retained."),
            "retention_ms": _integer(topics.RETENTION_AGE_MS_MIN, topics.RETENTION_AGE_MS_MAX),
            "body_bytes_max": _integer(topics.BODY_BYTES_MAX_MIN, topics.BODY_BYTES_MAX_MAX),
        },
        "A topic. Omitted fields are left unchanged; a new topic gets the defaults.",
    ),
    "required": ["name"],
}
SCHEMAS["GroupDefinitionIn"] = {
    **_object(
        {
            "name": {"type": "string", "pattern": NAME_PATTERN},
            **SCHEMAS["GroupIn"]["properties"],
        },
        "A group. Omitted fields are left unchanged; a new group gets the defaults.",
    ),
    "required": ["name"],
}
SCHEMAS["DefinitionsIn"] = {
    **_object(
        {
            "version": {"const": VERSION, "description": "The version of the format."},
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
        f"Topics and groups, {DEFINITION_COUNT_MAX:,} in all; names are unique in each list.",
    ),
    "required": ["version"],
}

_SCOPES: Final[JsonObject] = {
    "type": "array",
    "items": {"type": "string"},
    "maxItems": SCOPES_MAX,
    "description": "What it may do: `produce`, `consume:group/billing`, `manage:orders*`.",
}
_MS: Final = timedelta(milliseconds=1)
_END: Final[JsonObject] = {
    "expires_at": {
        "type": ["string", "null"], "pattern": TIME_PATTERN, "description": "When it expires.",
    },
    "expires_in": _duration("The same, from now on; give only one of the two."),
    "expires_in_ms": _integer(1_000, account_limits.KEY_LIFE_MAX // _MS),
}  # fmt: skip
_KEY_NAME: Final[JsonObject] = {
    "type": "string",
    "minLength": 1,
    "maxLength": account_limits.KEY_NAME_CHARS_MAX,
    "description": "For people.",
}
SCHEMAS["KeyIn"] = {
    **_object(
        {
            "name": _KEY_NAME,
            "scopes": _SCOPES,
            "role": _choice(Role, "What it may do in the control plane; `developer` by default."),
            "namespace": {
                "type": ["string", "null"],
                "pattern": NAME_PATTERN,
                "description": "The only namespace that it can use. By default all.",
            },
            **_END,
        },
        "A key to be created.",
    ),
    "required": ["name", "scopes"],
}
SCHEMAS["KeyChangeIn"] = _object(
    {
        "name": _KEY_NAME,
        "scopes": _SCOPES,
        "role": _choice(Role, "What it may do in the control plane."),
        **_END,
    },
    "What to change; `expires_at` null means never.",
)
SCHEMAS["RotationIn"] = _object(
    {
        "overlap": _duration("How long the present secret is still valid; a day by default."),
        "overlap_ms": _integer(0, account_limits.OVERLAP_MAX // _MS),
    },
    "How to rotate a key.",
)
SCHEMAS["InvitationIn"] = {
    **_object(
        {
            "email": {"type": "string", "format": "email", "description": "Who is invited."},
            "role": {"enum": list(Role), "description": "The role of the new member."},
            "expires_in": _duration("How long it can be accepted."),
            "expires_in_ms": _integer(60_000, account_limits.INVITATION_LIFE_MAX // _MS),
        },
        "An invitation to the tenant.",
    ),
    "required": ["email", "role"],
}
SCHEMAS["JoinIn"] = {
    **_object(
        {
            "token": {"type": "string", "description": "Of the invitation."},
            "username": {"type": "string", "description": "New, or of an account that exists."},
            "password": {"type": "string", "description": "Of that account."},
        },
        "Who accepts an invitation.",
    ),
    "required": ["token", "username", "password"],
}
SCHEMAS["MemberIn"] = {
    **_object(
        {"role": {"enum": list(Role), "description": "The new role."}}, "A member's new role."
    ),
    "required": ["role"],
}
SCHEMAS["MuteIn"] = _object(
    {
        "for": _duration("How long."),
        "for_ms": _integer(alert_limits.MUTE_MS_MIN, alert_limits.MUTE_MS_MAX),
        "until": {
            "type": ["string", "null"], "pattern": TIME_PATTERN, "description": "Until when.",
        },
        "reason": {
            "type": ["string", "null"],
            "maxLength": alert_limits.MUTE_REASON_CHARS_MAX,
            "description": "Shown to others.",
        },
    },
    "How long an alert is muted: `for` a duration or `until` a time.",
)  # fmt: skip

# operationId -> request body
BODIES: Final[dict[str, JsonObject]] = {
    "createKey": {
        "required": True,
        "content": json_content(
            ref("KeyIn"), {"name": "orders", "scopes": ["produce:orders*"], "expires_in": "90d"}
        ),
    },
    "updateKey": {
        "required": True,
        "content": json_content(ref("KeyChangeIn"), {"scopes": ["produce", "consume"]}),
    },
    "rotate": {
        "required": False,
        "content": json_content(ref("RotationIn"), {"overlap": "1h"}),
    },
    "createInvitation": {
        "required": True,
        "content": json_content(
            ref("InvitationIn"), {"email": "ada@example.com", "role": "developer"}
        ),
    },
    "accept": {
        "required": True,
        "content": json_content(
            ref("JoinIn"),
            {"token": "mqi_...", "username": "ada", "password": "correct horse battery"},
        ),
    },
    "updateMember": {
        "required": True,
        "content": json_content(ref("MemberIn"), {"role": "viewer"}),
    },
    "muteAlert": {
        "required": True,
        "content": json_content(ref("MuteIn"), {"for": "2h", "reason": "maintenance"}),
    },
    "issueTicket": {
        "required": False,
        "content": json_content(ref("TicketIn"), {"namespace": "acme", "scopes": ["consume"]}),
    },
    "writeGroup": {
        "required": False,
        "content": json_content(ref("GroupIn"), {"dispatch": "shared", "lease": "60s"}),
    },
    "writeAlert": {
        "required": False,
        "content": json_content(
            ref("AlertIn"), {"kind": "lag", "group": "billing", "threshold": 1000, "for": "5m"}
        ),
    },
    "writeSchedule": {
        "required": False,
        "content": json_content(
            ref("ScheduleIn"),
            {
                "topic": "orders",
                "cron": "0 9 * * mon-fri",
                "time_zone": "Europe/Berlin",
                "message": {"body_json": {"report": "daily"}, "tag": "report"},
            },
        ),
    },
    "previewSchedule": {
        "required": True,
        "content": json_content(
            ref("PreviewIn"), {"cron": "*/15 8-18 * * *", "time_zone": "Europe/Berlin"}
        ),
    },
    "importDefinitions": {
        "required": True,
        "content": {
            **json_content(
                ref("DefinitionsIn"),
                {
                    "version": VERSION,
                    "topics": [{"name": "orders", "queues": 8, "retention": "3d"}],
                    "groups": [{"name": "billing", "lease": "60s", "max_attempts": 17}],
                },
            ),
            "application/yaml": {"schema": ref("DefinitionsIn")},
        },
    },
}
# Fields that the framework knows only as anything: (schema, field) -> what they are.
FIELDS: Final[dict[tuple[str, str], JsonObject]] = {
    ("SeekIn", "to"): ref("SeekTo"),
    ("GroupOut", "retry"): ref("RetryPolicy"),
    ("GroupOut", "assignment"): ref("Assignment"),
    ("GroupDefinition", "retry"): ref("RetryPolicy"),
    ("GroupDefinition", "assignment"): ref("Assignment"),
}
