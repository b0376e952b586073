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
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import in_words, problem_text

REPEAT_MAX: Final = 100  # of one message from the form


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
    """A form to which a service's refusal can be added. ``POINTERS``: field by pointer or code."""

    POINTERS: ClassVar[Mapping[str, str]] = {}

    def add_problem(self, problem: Problem) -> None:
        """To the fields it names, else to the form as a whole."""
        for item in problem.errors:
            self.add_error(self.field_at(item.pointer), in_words(item.detail))
        if not problem.errors:
            self.add_error(self.field_at(problem.code), problem_text(problem))

    def field_at(self, place: str) -> str | None:
        """The field of a pointer, or of a code that comes without one."""
        field = self.POINTERS.get(place)
        return field if field in self.fields else None


class MessageForm(RefusableForm):
    """What a message has wherever one is written; ``publish_views.message_of`` reads it."""

    body = forms.CharField(
        strip=False,
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
