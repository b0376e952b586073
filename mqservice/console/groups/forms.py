"""The form of a group's settings. It builds the body of the REST request, which the service reads.

    fields ──▶ [GroupForm.body] ──▶ the JSON of ``PUT …/groups/{group}`` ──▶ ``read_change``
    row ──▶ what REST says of it ──▶ fields

So a form sets nothing that a request could not, with the same faults; each comes back to its field.
"""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from mqservice.console.shared.forms import RefusableForm
from mqservice.console.shared.setting_fields import (
    CODE_ATTRIBUTES,
    body_of,
    form_fields,
    initial_of,
    pointers_of,
)
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.schemas import shown_settings
from mqservice.groups.settings import SETTINGS
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.protocol.choices import Dispatch

_POINTERS = pointers_of(SETTINGS)


class GroupForm(RefusableForm):
    """``name`` only of a new group."""

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        widget=forms.TextInput(attrs=CODE_ATTRIBUTES),
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Letters, digits, - and _. Cannot be changed later."),
    )

    def __init__(self, *args: object, group: ConsumerGroup | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        self.fields |= form_fields(SETTINGS)
        if group is not None:
            del self.fields["name"]
            self.initial.update(initial_of(SETTINGS, shown_settings(group)))

    def body(self) -> dict[str, object]:
        """Of a valid form: all settings, as ``PUT`` takes them."""
        body = body_of(SETTINGS, self.cleaned_data)
        if body["dispatch"] != Dispatch.BROADCAST:
            return body
        # What its clients fail to consume is dropped, and nobody shares queues.
        plain = {each.name: each.shown_default for each in SETTINGS if each.not_in_broadcast}
        return body | plain

    def add_problem(self, problem: Problem) -> None:
        """To the fields whose pointers its own begin with, else to the form as a whole."""
        for item in problem.errors:
            pointer = item.pointer.removesuffix("_ms")
            field = next((to for at, to in _POINTERS.items() if pointer.startswith(at)), None)
            self.add_error(field if field in self.fields else None, item.detail)
        if not problem.errors:
            field = "name" if problem.code == "ILLEGAL_GROUP" else None
            shown = problem.detail or problem.title
            self.add_error(field if field in self.fields else None, shown)
