"""The form of a group's settings. It builds the body of the REST request, which the service reads.

    fields ──▶ [GroupForm.body] ──▶ the JSON of ``PUT …/groups/{group}`` ──▶ ``read_change``
    row ──▶ [initial_of] ──▶ fields

So a form sets nothing that a request could not, with the same faults; each comes back to its field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar, Final

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.console.shared.forms import MomentField, RefusableForm, in_zone
from mqservice.groups.models import (
    ATTEMPTS_MAX,
    BATCH_PER_GROUP_MAX,
    CONSUME_TIMEOUT_MS_DEFAULT,
    LEASE_MS_DEFAULT,
    RECONSUME_TIMES_DEFAULT,
    ConsumerGroup,
)
from mqservice.groups.retry import Policy
from mqservice.groups.schemas import GroupOut
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.protocol.choices import AssignmentStrategy, Dispatch, StartFrom
from mqservice.store import ExponentialDelays

_DISPATCH_TEXTS: Final = {
    Dispatch.SHARED: gettext_lazy("shared: any consumer reads any queue"),
    Dispatch.EXCLUSIVE: gettext_lazy("exclusive: each queue is assigned to one consumer"),
    Dispatch.BROADCAST: gettext_lazy("broadcast: each client gets every message"),
}
_START_TEXTS: Final = {
    StartFrom.EARLIEST: gettext_lazy("earliest message"),
    StartFrom.LATEST: gettext_lazy("end of the topic: new messages only"),
    StartFrom.TIMESTAMP: gettext_lazy("a point in time"),
}
_RETRY_TEXTS: Final = {
    Policy.LEVELS: gettext_lazy("RocketMQ levels: 10s, 30s, 1m … 2h"),
    Policy.LIST: gettext_lazy("list of delays"),
    Policy.EXPONENTIAL: gettext_lazy("exponential"),
}
_CODE: Final = {"spellcheck": "false", "autocapitalize": "none"}
_EXPONENTIAL: Final = ExponentialDelays()


class GroupForm(RefusableForm):
    """``name`` only of a new group."""

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/start_from": "start_from",
        "/start_time": "start_time",
        "/lease": "lease",
        "/consume_timeout": "consume_timeout",
        "/max_attempts": "max_attempts",
        "/retry/delays": "delays",
        "/retry/start": "retry_start",
        "/retry/factor": "factor",
        "/retry/cap": "cap",
        "/retry": "retry",
        "/dispatch": "dispatch",
        "/strategy": "strategy",
        "/assignment": "assignment",
        "/ordered": "ordered",
        "/batch_per_group": "batch_per_group",
        "ILLEGAL_GROUP": "name",
    }

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        widget=forms.TextInput(attrs=_CODE),
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Letters, digits, - and _. Cannot be changed later."),
    )
    dispatch = forms.ChoiceField(
        choices=[(kind.value, text) for kind, text in _DISPATCH_TEXTS.items()],
        label=gettext_lazy("Dispatch"),
    )
    start_from = forms.ChoiceField(
        choices=[(kind.value, text) for kind, text in _START_TEXTS.items()],
        label=gettext_lazy("Start position on a new topic"),
    )
    start_time = MomentField(
        required=False,
        label=in_zone(gettext_lazy("Start time")),
        help_text=gettext_lazy("Only for “a point in time”."),
    )
    ordered = forms.BooleanField(
        required=False,
        label=gettext_lazy("Ordered"),
        help_text=gettext_lazy(
            "A failed message blocks the messages behind it until it is settled."
        ),
    )
    batch_per_group = forms.IntegerField(
        min_value=1,
        max_value=BATCH_PER_GROUP_MAX,
        initial=1,
        label=gettext_lazy("In flight per message group"),
        help_text=gettext_lazy("For ordered groups with shared dispatch."),
    )
    lease = forms.CharField(
        initial=format_duration_ms(LEASE_MS_DEFAULT),
        label=gettext_lazy("Lease"),
        help_text=gettext_lazy(
            "A message that is not settled within this time is redelivered, such as 30s or 5m."
        ),
    )
    consume_timeout = forms.CharField(
        initial=format_duration_ms(CONSUME_TIMEOUT_MS_DEFAULT),
        label=gettext_lazy("Consume timeout"),
        help_text=gettext_lazy("The longest that a delivery can last, including lease extensions."),
    )
    max_attempts = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=ATTEMPTS_MAX,
        initial=RECONSUME_TIMES_DEFAULT + 1,
        label=gettext_lazy("Maximum attempts"),
        help_text=gettext_lazy("Deliveries before a message is dead-lettered. Empty: unlimited."),
    )
    retry = forms.ChoiceField(
        choices=[(kind.value, text) for kind, text in _RETRY_TEXTS.items()],
        label=gettext_lazy("Retry delay"),
    )
    delays = forms.CharField(
        required=False,
        widget=forms.TextInput(attrs=_CODE),
        label=gettext_lazy("List of delays"),
        help_text=gettext_lazy("Separated by commas: 10s, 1m, 10m. The last one repeats."),
    )
    retry_start = forms.CharField(
        required=False,
        initial=format_duration_ms(_EXPONENTIAL.start_ms),
        label=gettext_lazy("Initial delay"),
    )
    factor = forms.FloatField(
        required=False, initial=_EXPONENTIAL.factor, label=gettext_lazy("Multiplier")
    )
    cap = forms.CharField(
        required=False,
        initial=format_duration_ms(_EXPONENTIAL.cap_ms),
        label=gettext_lazy("Maximum delay"),
    )
    strategy = forms.ChoiceField(
        choices=[(kind.value, kind.value) for kind in AssignmentStrategy],
        label=gettext_lazy("Assignment strategy"),
        help_text=gettext_lazy("How queues are assigned to consumers with exclusive dispatch."),
    )
    assignment = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, **_CODE}),
        label=gettext_lazy("Strategy settings, JSON"),
        help_text=gettext_lazy(
            'CONFIG: {"consumers": {"a": [0, 1]}}. Machine rooms: {"rooms": {"east": [0]}}.'
        ),
    )

    def __init__(self, *args: object, group: ConsumerGroup | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        if group is not None:
            del self.fields["name"]
            self.initial.update(initial_of(group))

    def clean_assignment(self) -> object:
        text: str = self.cleaned_data["assignment"].strip()
        try:
            return json.loads(text) if text else {}
        except ValueError as exc:
            raise forms.ValidationError(
                _("This is not valid JSON: %(why)s") % {"why": exc}
            ) from None

    def body(self) -> dict[str, object]:
        """Of a valid form: all settings, as ``PUT`` takes them."""
        given = self.cleaned_data
        body: dict[str, object] = {
            "dispatch": given["dispatch"],
            "start_from": given["start_from"],
            "lease": given["lease"],
            "consume_timeout": given["consume_timeout"],
        }
        if given["start_from"] == StartFrom.TIMESTAMP and given["start_time"]:
            body["start_time"] = given["start_time"]
        if given["dispatch"] == Dispatch.BROADCAST:
            # What its clients fail to consume is dropped, and nobody shares queues.
            return body | {
                "ordered": False,
                "batch_per_group": 1,
                "max_attempts": RECONSUME_TIMES_DEFAULT + 1,
                "retry": {"policy": Policy.LEVELS.value},
                "strategy": AssignmentStrategy.AVG.value,
                "assignment": {},
            }
        return body | {
            "ordered": given["ordered"],
            "batch_per_group": given["batch_per_group"],
            "max_attempts": given["max_attempts"],
            "retry": _retry_of(given),
            "strategy": given["strategy"],
            "assignment": given["assignment"],
        }

    def add_problem(self, problem: Problem) -> None:
        """To the fields whose pointers its own begin with, else to the form as a whole."""
        for item in problem.errors:
            pointer = item.pointer.removesuffix("_ms")
            field = next((to for at, to in self.POINTERS.items() if pointer.startswith(at)), None)
            self.add_error(field if field in self.fields else None, item.detail)
        if not problem.errors:
            field = self.POINTERS.get(problem.code)
            shown = problem.detail or problem.title
            self.add_error(field if field in self.fields else None, shown)


def _retry_of(given: Mapping[str, object]) -> dict[str, object]:
    kind = given["retry"]
    if kind == Policy.LIST:
        delays = [each.strip() for each in str(given["delays"]).split(",") if each.strip()]
        return {"policy": kind, "delays": delays}
    if kind == Policy.EXPONENTIAL:
        chosen = {"start": given["retry_start"], "factor": given["factor"], "cap": given["cap"]}
        return {"policy": kind, **{name: value for name, value in chosen.items() if value}}
    return {"policy": kind}


def initial_of(group: ConsumerGroup) -> dict[str, object]:
    """What the form shows of a group: what REST says of it."""
    shown = GroupOut.of(group)
    retry = shown.retry
    fields: dict[str, object] = {
        "dispatch": shown.dispatch.value,
        "start_from": shown.start_from.value,
        "start_time": shown.start_time,
        "ordered": shown.ordered,
        "batch_per_group": shown.batch_per_group,
        "lease": shown.lease,
        "consume_timeout": shown.consume_timeout,
        "max_attempts": shown.max_attempts,
        "retry": str(retry["policy"]),
        "strategy": shown.strategy.value,
        "assignment": json.dumps(shown.assignment) if shown.assignment else "",
    }
    if retry["policy"] == Policy.LIST:
        fields["delays"] = ", ".join(retry["delays"])
    elif retry["policy"] == Policy.EXPONENTIAL:
        fields |= {"retry_start": retry["start"], "factor": retry["factor"], "cap": retry["cap"]}
    return fields
