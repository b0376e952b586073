"""The form of a schedule. Its texts become JSON of the API, and its reader checks them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec
from django import forms
from django.utils.translation import gettext_lazy

from mqservice.console.messages.publish_views import message_of
from mqservice.console.shared.forms import MessageForm
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.schedules.limits import CRON_CHARS_MAX, DESCRIPTION_CHARS_MAX, ZONE_CHARS_MAX
from mqservice.schedules.message import bodies_of
from mqservice.schedules.models import CatchUp, Schedule
from mqservice.schedules.schemas import read_change
from mqservice.schedules.services import ScheduleChange

_CATCH_UP_TEXTS: Final = {
    CatchUp.LATEST: gettext_lazy("Send the latest missed run"),
    CatchUp.NONE: gettext_lazy("Send nothing"),
}

_TIMING: Final = ("cron", "time_zone", "catch_up", "description")
_OF_MESSAGE: Final = (
    "topic", "body", "is_json", "tag", "keys", "message_group", "queue", "properties",
)  # fmt: skip


class ScheduleForm(MessageForm):
    """A schedule; ``name`` only of a new one. A body that is no text stays while nobody writes
    another.
    """

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/cron": "cron",
        "/time_zone": "time_zone",
        "/topic": "topic",
        "/description": "description",
        "/message": "body",
        "/message/body": "body",
        "/message/body_json": "body",
        "/message/tag": "tag",
        "/message/keys": "keys",
        "/message/message_group": "message_group",
        "/message/properties": "properties",
        "/message/queue": "queue",
        "ILLEGAL_SCHEDULE": "name",
        "TOPIC_NOT_FOUND": "topic",
    }

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Letters, digits, - and _. Cannot be changed later."),
    )
    cron = forms.CharField(
        max_length=CRON_CHARS_MAX,
        label=gettext_lazy("Cron expression"),
        help_text=gettext_lazy(
            "Minute, hour, day, month, weekday: 0 9 * * mon-fri; or @hourly, @daily, @weekly."
        ),
        widget=forms.TextInput(
            attrs={"spellcheck": "false", "autocapitalize": "none", "autocomplete": "off"}
        ),
    )
    time_zone = forms.CharField(
        max_length=ZONE_CHARS_MAX,
        label=gettext_lazy("Time zone"),
        help_text=gettext_lazy("Time zone of the expression, such as Europe/Berlin."),
        widget=forms.TextInput(attrs={"list": "zones", "autocomplete": "off"}),
    )
    catch_up = forms.ChoiceField(
        choices=[(each.value, text) for each, text in _CATCH_UP_TEXTS.items()],
        label=gettext_lazy("Missed runs"),
        help_text=gettext_lazy(
            "Runs missed while the service was down or could not store messages."
        ),
    )
    topic = forms.CharField(
        max_length=NAME_CHARS_MAX,
        label=gettext_lazy("Topic"),
        widget=forms.TextInput(attrs={"list": "topics", "autocomplete": "off"}),
    )
    description = forms.CharField(
        required=False, max_length=DESCRIPTION_CHARS_MAX, label=gettext_lazy("Description")
    )
    queue = forms.IntegerField(
        required=False,
        min_value=0,
        label=gettext_lazy("Queue"),
        help_text=gettext_lazy("Empty: any queue of the topic."),
    )

    def __init__(self, *args: object, schedule: Schedule | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        self._kept: bytes | None = None
        self.fields["body"].required = True
        if schedule is None:
            return
        del self.fields["name"]
        text = _text_of(schedule)
        if text is None:
            self._kept = bytes(schedule.body)
            self.fields["body"].required = False
            self.fields["body"].help_text = gettext_lazy(
                "The body is not text. Leave this empty to keep it."
            )
        self.initial = {
            **_initial(schedule, text),
            **self.initial,  # what was written since
        }

    def leave_message(self) -> None:
        """Who is not shown all of the message changes neither it nor where it goes."""
        for name in _OF_MESSAGE:
            del self.fields[name]

    def document(self) -> dict[str, object]:
        """The JSON of the API, of a valid form. Raises BadForm."""
        given = self.cleaned_data
        if "body" not in self.fields:
            return {name: given[name] for name in _TIMING}
        if self._kept is not None and not given["body"]:
            message = message_of({**given, "delay": "", "body": "", "is_json": False})
            del message["body"]
            message["body_b64"] = base64.b64encode(self._kept).decode()
        else:
            message = message_of({**given, "delay": ""})
        if given["queue"] is not None:
            message["queue"] = given["queue"]
        return {name: given[name] for name in ("topic", *_TIMING)} | {"message": message}

    def change(self) -> ScheduleChange:
        """Of a valid form. Raises BadForm, and Problem that names every fault."""
        return read_change(msgspec.json.encode(self.document()))


def _initial(schedule: Schedule, text: str | None) -> dict[str, object]:
    lines = [f"{name}={value}" for name, value in schedule.properties.items()]
    return {
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "catch_up": schedule.catch_up,
        "topic": schedule.topic,
        "description": schedule.description,
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
