"""The forms for actions on dead letters: parsed here, checked by the request types of the API.

    id=…&id=…                    some of them   ─┐
    key=&tag=&reason=&from=&to=  a condition    ─┼─▶ RedriveIn, PurgeIn ──▶ TaskRequest
    all=1                        all            ─┘

Nothing chosen is not all: a form that was sent without a mark is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, TypeVar

from django import forms
from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from pydantic import ValidationError

from mqservice.console.shared.form_times import utc_of
from mqservice.console.shared.forms import RefusableForm
from mqservice.console.shared.time_zones import zone_given
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.wire import refused
from mqservice.tasks.models import TaskKind
from mqservice.tasks.schemas import PurgeIn, RedriveIn
from mqservice.tasks.services import TaskRequest
from mqservice.topics.models import Topic
from mqservice.topics.queries import get_topic

TOPICS_OFFERED: Final = 200  # to choose from; others can be typed
_FILTER_FIELDS: Final = ("key", "tag", "reason", "from", "to")
Order = TypeVar("Order", bound=PurgeIn)


class SelectedLetters:
    """Which letters a page is about, from its address and back into it."""

    def __init__(self, given: QueryDict) -> None:
        self.ids = list(dict.fromkeys(each for each in given.getlist("id") if each))
        self.conditions = {name: given.get(name, "").strip() for name in _FILTER_FIELDS}
        for name in ("from", "to"):
            self.conditions[name] = utc_of(self.conditions[name], zone_given(given))
        is_chosen = bool(self.ids) or any(self.conditions.values())
        self.is_all = not is_chosen and given.get("all") == "1"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """As fields of a form."""
        if self.ids:
            return [("id", each) for each in self.ids]
        if self.is_all:
            return [("all", "1")]
        return [(name, value) for name, value in self.conditions.items() if value]

    @property
    def shown_conditions(self) -> list[tuple[str, str]]:
        return [] if self.ids or self.is_all else self.pairs

    @property
    def wanted(self) -> dict[str, object]:
        """As the API is told it; empty where nothing is chosen."""
        if self.ids:
            return {"ids": self.ids}
        if self.is_all:
            return {"all": True}
        chosen = {name: value for name, value in self.conditions.items() if value}
        return {"filter": chosen} if chosen else {}

    def order(self, kind: type[Order], **more: object) -> Order:
        """Raises Problem."""
        if not self.wanted:
            raise refused("", _("No messages selected. Select some in the list."))
        try:
            return kind.model_validate({**more, **self.wanted})
        except ValidationError as exc:
            raise refused("", exc.errors()[0]["msg"]) from None


class RedriveForm(RefusableForm):
    """Where to, and how fast."""

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/rate": "rate",
        "/target": "target",
        "TOPIC_NOT_FOUND": "target",
    }

    target = forms.CharField(
        required=False,
        max_length=NAME_CHARS_MAX,
        widget=forms.TextInput(attrs={"list": "topics", "spellcheck": "false"}),
        label=gettext_lazy("Target topic"),
        help_text=gettext_lazy("Empty: each message returns to its original topic."),
    )
    rate = forms.IntegerField(
        required=False,
        min_value=1,
        label=gettext_lazy("Maximum messages per second"),
    )

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        self.initial.setdefault("rate", settings.MQ_REDRIVE_RATE_DEFAULT)
        self.fields["rate"].widget.attrs["max"] = settings.MQ_REDRIVE_RATE_MAX

    def order(self, group: ConsumerGroup, chosen: SelectedLetters) -> TaskRequest:
        """Of a valid form. Raises Problem. A query for a target."""
        name = self.cleaned_data["target"].strip()
        wanted = chosen.order(RedriveIn, target=name or None, rate=self.cleaned_data["rate"])
        return TaskRequest(
            kind=TaskKind.REDRIVE,
            group=group,
            selection=wanted.selection(),
            target=get_topic(group.namespace, name) if name else None,
            rate=wanted.checked_rate(),
        )


def purge_order(group: ConsumerGroup, chosen: SelectedLetters) -> TaskRequest:
    """Raises Problem."""
    wanted = chosen.order(PurgeIn)
    return TaskRequest(kind=TaskKind.PURGE, group=group, selection=wanted.selection())


def offered_topics(group: ConsumerGroup) -> list[str]:
    """Names to choose a target from. One query."""
    topics = Topic.objects.filter(namespace=group.namespace).order_by("name")
    return list(topics.values_list("name", flat=True)[:TOPICS_OFFERED])
