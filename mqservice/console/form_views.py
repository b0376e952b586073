"""What views of forms share: methods, the answer's status, hidden revisions, typed names."""

from __future__ import annotations

from typing import Final

from django import forms
from django.http import QueryDict

from mqservice.console.forms import RefusableForm
from mqservice.lib.names import NAME_CHARS_MAX

FORM_METHODS: Final = ("GET", "HEAD", "POST")
_NUMBER_DIGITS_MAX: Final = 9


class ConfirmForm(RefusableForm):
    """Deletes nothing unless the name of what would be deleted has been typed."""

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        name: str,
        fault: str,
        chars_max: int = NAME_CHARS_MAX,
    ) -> None:
        """``fault``: what is said of another name."""
        super().__init__(data)
        self.fields["confirm"] = forms.CharField(max_length=chars_max)
        self.name = name
        self.fault = fault

    def clean_confirm(self) -> str:
        typed: str = self.cleaned_data["confirm"]
        if typed != self.name:
            raise forms.ValidationError(self.fault)
        return typed


def form_status(form: forms.Form) -> int:
    """422 for a form that comes back with faults."""
    return 422 if form.is_bound and form.errors else 200


def number_of(text: str) -> int | None:
    """Of a hidden field or a query; None for what is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS_MAX
    return int(text) if is_number else None
