"""Our own forms beside allauth's."""

from __future__ import annotations

from django import forms

from mqservice.lib.names import NAME_CHARS_MAX


class FoundingForm(forms.Form):
    name = forms.CharField(
        label="Name of the tenant",
        max_length=NAME_CHARS_MAX,
        help_text="Letters, digits, - and _. It names your first namespace too, and so stands in "
        "the addresses of your topics.",
        widget=forms.TextInput(attrs={"autocomplete": "organization", "autocapitalize": "none"}),
    )
