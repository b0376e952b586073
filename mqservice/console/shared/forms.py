"""Forms of the console. What a field takes is checked by the services, as for REST; here its text
is only read. A refusal of a service comes back to the field that its pointer names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.console.shared.form_times import field_time, utc_of
from mqservice.console.shared.time_zones import lazy_zone_name, zone_given
from mqservice.lib.durations import format_duration_ms, parse_duration_ms
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.protocol.choices import Durability
from mqservice.topics.models import (
    BODY_BYTES_MAX_DEFAULT,
    BODY_BYTES_MAX_MAX,
    BODY_BYTES_MAX_MIN,
    QUEUE_COUNT_DEFAULT,
    QUEUE_COUNT_MAX,
    RETENTION_AGE_MS_DEFAULT,
    MessageType,
    Topic,
)
from mqservice.topics.services import TopicChange

REPEAT_MAX: Final = 100  # of one message from the form
_KIND_TEXTS: Final = {
    MessageType.MIXED: gettext_lazy("Any type"),
    MessageType.NORMAL: gettext_lazy("Normal messages only"),
    MessageType.FIFO: gettext_lazy("Ordered by message group"),
    MessageType.DELAY: gettext_lazy("Delayed messages"),
}
_DURABILITY_TEXTS: Final = {
    Durability.SYNC: gettext_lazy("sync: confirmed once on disk"),
    Durability.ASYNC: gettext_lazy("async: confirmed immediately, on disk within 200 ms"),
}


class DurationField(forms.Field):
    """A text such as 3d; cleaned to ms."""

    def to_python(self, value: object) -> object:
        text = str(value or "").strip()
        if not text:
            return None
        try:
            return parse_duration_ms(text)
        except ValueError:
            raise forms.ValidationError(
                _("Enter a duration such as 30m, 12h or 7d."), code="invalid"
            ) from None

    def prepare_value(self, value: object) -> object:
        return format_duration_ms(value) if isinstance(value, int) else value


class _MomentInput(forms.DateTimeInput):
    """Reads the field in the zone that its form names, see ``time_zones``."""

    def value_from_datadict(
        self, data: Mapping[str, Any], files: object, name: str
    ) -> Any:  # Any: as Django has it
        return utc_of(str(data.get(name) or "").strip(), zone_given(data))


class MomentField(forms.Field):
    """A moment, shown in the zone of the page; cleaned to RFC 3339 in UTC. Its form has a
    ``{% zone_field %}``.
    """

    def __init__(self, **kwargs: Any) -> None:  # Any: those of Field
        attrs = {"type": "datetime-local", "step": "1"}
        super().__init__(widget=_MomentInput(attrs=attrs), **kwargs)

    def to_python(self, value: object) -> object:
        return str(value or "")

    def prepare_value(self, value: object) -> object:
        """As browsers take it: without a zone."""
        return field_time(str(value)) if value else value


def in_zone(label: object) -> Any:  # Any: a label that is put together when it is shown
    """A label of a moment with the zone of the page."""
    return format_lazy("{}, {}", label, lazy_zone_name())


class JsonField(forms.CharField):
    """JSON as text; empty for an object without fields."""

    def clean(self, value: object) -> object:
        text = str(super().clean(value)).strip()
        try:
            return json.loads(text) if text else {}
        except ValueError as exc:
            raise forms.ValidationError(
                _("This is not valid JSON: %(why)s") % {"why": exc}
            ) from None


class RefusableForm(forms.Form):
    """A form to which a service's refusal can be added. ``POINTERS``: field by pointer."""

    POINTERS: ClassVar[Mapping[str, str]] = {}

    def add_problem(self, problem: Problem) -> None:
        """To the fields it names, else to the form as a whole."""
        items = [(self.POINTERS.get(item.pointer), item.detail) for item in problem.errors]
        for field, detail in items:
            self.add_error(field, detail)
        if not items:
            self.add_error(self.POINTERS.get(problem.code), problem.detail or problem.title)


class TopicForm(RefusableForm):
    """Settings of a topic; ``name`` only of a new one."""

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/queues": "queues",
        "/retention_ms": "retention",
        "/body_bytes_max": "body_bytes_max",
        "ILLEGAL_TOPIC": "name",
    }

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Letters, digits, - and _. Cannot be changed later."),
    )
    message_type = forms.ChoiceField(
        choices=[(kind.value, text) for kind, text in _KIND_TEXTS.items()],
        label=gettext_lazy("Messages"),
    )
    queues = forms.IntegerField(
        min_value=1,
        max_value=QUEUE_COUNT_MAX,
        initial=QUEUE_COUNT_DEFAULT,
        label=gettext_lazy("Queues"),
        help_text=gettext_lazy(
            "More queues let more consumers share the work. The number can be increased later, "
            "but not decreased."
        ),
    )
    retention = DurationField(
        initial=RETENTION_AGE_MS_DEFAULT,
        label=gettext_lazy("Retention"),
        help_text=gettext_lazy("How long messages are retained, such as 30m, 12h or 7d."),
    )
    durability = forms.ChoiceField(
        choices=[(kind.value, text) for kind, text in _DURABILITY_TEXTS.items()],
        label=gettext_lazy("Durability"),
    )
    body_bytes_max = forms.IntegerField(
        min_value=BODY_BYTES_MAX_MIN,
        max_value=BODY_BYTES_MAX_MAX,
        initial=BODY_BYTES_MAX_DEFAULT,
        label=gettext_lazy("Maximum body size, bytes"),
    )

    def __init__(self, *args: object, topic: Topic | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        if topic is not None:
            del self.fields["name"]
            self.initial.update(
                message_type=topic.message_type,
                queues=topic.queue_count,
                retention=topic.retention_age_ms,
                durability=topic.durability,
                body_bytes_max=topic.body_bytes_max,
            )

    def change(self) -> TopicChange:
        """Of a valid form."""
        return TopicChange(
            message_type=MessageType(self.cleaned_data["message_type"]),
            queue_count=self.cleaned_data["queues"],
            durability=Durability(self.cleaned_data["durability"]),
            retention_age_ms=self.cleaned_data["retention"],
            body_bytes_max=self.cleaned_data["body_bytes_max"],
        )


class MessageForm(RefusableForm):
    """What a message has wherever one is written; ``publish_views.message_of`` reads it."""

    body = forms.CharField(
        strip=False,
        required=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
        label=gettext_lazy("Body"),
        initial='{"order": 42}',
    )
    is_json = forms.BooleanField(required=False, initial=True, label=gettext_lazy("Body is JSON"))
    tag = forms.CharField(required=False, label=gettext_lazy("Tag"))
    keys = forms.CharField(
        required=False, label=gettext_lazy("Keys"), help_text=gettext_lazy("Separated by commas.")
    )
    message_group = forms.CharField(
        required=False,
        label=gettext_lazy("Message group"),
        help_text=gettext_lazy("Messages of the same message group are delivered in order."),
    )
    properties = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        label=gettext_lazy("Properties"),
        help_text=gettext_lazy("One per line: name=value"),
    )


class PublishForm(MessageForm):
    """One message; see ``messages.publish_views``."""

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/body": "body",
        "/body_json": "body",
        "/tag": "tag",
        "/keys": "keys",
        "/delay": "delay",
        "/message_group": "message_group",
        "/properties": "properties",
    }

    delay = forms.CharField(
        required=False,
        label=gettext_lazy("Delay"),
        help_text=gettext_lazy("Such as 30s or 2h. Empty: immediately."),
    )
    repeat = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=REPEAT_MAX,
        label=gettext_lazy("Copies"),
        help_text=gettext_lazy("Sends the same message up to 100 times, each with its own ID."),
        widget=forms.NumberInput(attrs={"placeholder": "1"}),
    )
