"""The form of a schedule. Its texts become JSON of the API, and its reader checks them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
from django import forms
from django.utils.translation import gettext_lazy

from mqservice.console.messages.publish_views import message_of
from mqservice.console.shared.forms import MessageForm
from mqservice.console.shared.setting_fields import SettingsForm
from mqservice.lib.settings_table import Settings
from mqservice.schedules.message import bodies_of
from mqservice.schedules.models import Schedule
from mqservice.schedules.schemas import read_change, shown_settings
from mqservice.schedules.services import ScheduleChange
from mqservice.schedules.settings import SETTINGS

_OF_MESSAGE: Final = (
    "topic", "body", "is_json", "tag", "keys", "message_group", "queue", "properties",
)  # fmt: skip


class ScheduleForm(SettingsForm, MessageForm):
    """A schedule; ``name`` only of a new one. A body that is no text stays while nobody writes
    another.
    """

    SETTINGS: ClassVar[Settings] = SETTINGS
    POINTERS: ClassVar[Mapping[str, str]] = {
        "/message": "body",
        "/message/tag": "tag",
        "/message/keys": "keys",
        "/message/message_group": "message_group",
        "/message/properties": "properties",
        "/message/queue": "queue",
        "ILLEGAL_SCHEDULE": "name",
        "TOPIC_NOT_FOUND": "topic",
    }

    queue = forms.IntegerField(
        required=False,
        min_value=0,
        label=gettext_lazy("Queue"),
        help_text=gettext_lazy("Empty: any queue of the topic."),
    )

    def __init__(
        self, *args: Any, schedule: Schedule | None = None, **kwargs: Any
    ) -> None:  # Any: as Django takes them
        shown = None if schedule is None else shown_settings(schedule)
        super().__init__(*args, shown=shown, **kwargs)
        self._kept: bytes | None = None
        self.fields["body"].required = True
        if schedule is None:
            return
        text = _text_of(schedule)
        if text is None:
            self._kept = bytes(schedule.body)
            self.fields["body"].required = False
            self.fields["body"].help_text = gettext_lazy(
                "The body is not text. Leave this empty to keep it."
            )
        self.initial = {**_initial(schedule, text), **self.initial}

    def leave_message(self) -> None:
        """Who is not shown all of the message changes neither it nor where it goes."""
        for name in _OF_MESSAGE:
            del self.fields[name]

    def document(self) -> dict[str, object]:
        """Raises BadForm."""
        given, document = self.cleaned_data, super().document()
        if "body" not in self.fields:
            return document
        if self._kept is not None and not given["body"]:
            message = message_of({**given, "delay": "", "body": "", "is_json": False})
            del message["body"]
            message["body_b64"] = base64.b64encode(self._kept).decode()
        else:
            message = message_of({**given, "delay": ""})
        if given["queue"] is not None:
            message["queue"] = given["queue"]
        return document | {"message": message}

    def change(self) -> ScheduleChange:
        """Of a valid form. Raises BadForm, and Problem that names every fault."""
        return read_change(msgspec.json.encode(self.document()))


def _initial(schedule: Schedule, text: str | None) -> dict[str, object]:
    lines = [f"{name}={value}" for name, value in schedule.properties.items()]
    return {
        "body": text or "",
        "is_json": schedule.is_json,
        "tag": schedule.tag or "",
        "keys": ", ".join(schedule.keys),
        "message_group": schedule.message_group or "",
        "queue": schedule.queue,
        "properties": "\n".join(lines),
    }


def _text_of(schedule: Schedule) -> str | None:
    return None if bodies_of(schedule)[2] is not None else bytes(schedule.body).decode()
