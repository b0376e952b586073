"""The settings of a schedule: the one table that everything about them is made of.

Its message is no row: it is read as a produce is, see ``message.py``, and has columns of its own.
"""

from __future__ import annotations

import enum
from typing import Final

from msgspec.structs import replace

from mqservice.lib.settings_table import (
    Boolean,
    Choice,
    Json,
    Name,
    Setting,
    Settings,
    Text,
    gettext_noop,
)
from mqservice.schedules.limits import (
    BODY_BYTES_MAX,
    CRON_CHARS_MAX,
    DESCRIPTION_CHARS_MAX,
    ZONE_CHARS_MAX,
)


class CatchUp(enum.StrEnum):
    """What becomes of runs whose time was missed: the latest one is sent late, or none."""

    NONE = "none"
    LATEST = "latest"


class Message(Setting, frozen=True, kw_only=True):
    """What is sent. Its reader is that of a produce."""

    def content(self) -> Json:
        return {"type": "object"}


TOPIC: Final = Name(
    name="topic",
    about="The topic to send to.",
    label=gettext_noop("Topic"),
    suggests="topics",
    option="--topic -t",
)
CRON: Final = Text(
    name="cron",
    chars_max=CRON_CHARS_MAX,
    is_parsed=True,
    about="Minute, hour, day, month and weekday, or @daily and the like.",
    label=gettext_noop("Cron expression"),
    help=gettext_noop(
        "Minute, hour, day, month, weekday: 0 9 * * mon-fri; or @hourly, @daily, @weekly."
    ),
)
TIME_ZONE: Final = Text(
    name="time_zone",
    chars_max=ZONE_CHARS_MAX,
    is_parsed=True,
    default="UTC",
    about="An IANA name, such as Europe/Berlin; UTC by default.",
    label=gettext_noop("Time zone"),
    help=gettext_noop("Time zone of the expression, such as Europe/Berlin."),
    suggests="zones",
)
CATCH_UP: Final = Choice(
    name="catch_up",
    values=CatchUp,
    texts={
        CatchUp.LATEST: gettext_noop("Send the latest missed run"),
        CatchUp.NONE: gettext_noop("Send nothing"),
    },
    default=CatchUp.LATEST.value,
    about="Which missed runs are sent late.",
    label=gettext_noop("Missed runs"),
    help=gettext_noop("Runs missed while the service was down or could not store messages."),
)
ENABLED: Final = Boolean(
    name="enabled",
    column="is_enabled",
    default=True,
    about="False pauses it.",
    option="--enabled/--paused",
    option_help="Whether it runs.",
)
DESCRIPTION: Final = Text(
    name="description",
    chars_max=DESCRIPTION_CHARS_MAX,
    null="",
    about="Shown with the schedule.",
    label=gettext_noop("Description"),
)
MESSAGE: Final = Message(
    name="message",
    about="As for a produce, without delay_level, delay, delay_ms, deliver_at and dedup_id; its "
    f"body has {BODY_BYTES_MAX:,} bytes at most.",
)

SETTINGS: Final[Settings] = (TOPIC, CRON, TIME_ZONE, CATCH_UP, ENABLED, DESCRIPTION)
BODY: Final[Settings] = (*SETTINGS, MESSAGE)
PREVIEW: Final[Settings] = (replace(CRON, is_required=True), TIME_ZONE)
