"""Our own forms beside allauth's."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from mqservice.lib.names import NAME_CHARS_MAX


class FoundingForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Tenant name"),
        max_length=NAME_CHARS_MAX,
        help_text=gettext_lazy(
            "Letters, digits, - and _. Your first namespace gets the same name, so it is part of "
            "the URLs of your topics."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "organization", "autocapitalize": "none"}),
    )
