"""The form that requests reports for a range of days."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, ClassVar  # Any: attributes of a widget

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.translation import gettext_lazy as _

from mqservice.console.shared.forms import RefusableForm
from mqservice.reports.limits import DATE_MAX, DATE_MIN

_DAY = dt.timedelta(days=1)


class _DayField(forms.DateField):
    """A day as browsers send it."""

    def __init__(self, **options: Any) -> None:  # Any: as above
        super().__init__(
            widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
            input_formats=["%Y-%m-%d"],
            validators=[MinValueValidator(DATE_MIN), MaxValueValidator(DATE_MAX - _DAY)],
            **options,
        )


class RangeForm(RefusableForm):
    """Both days count; ``end`` is the one after the last."""

    POINTERS: ClassVar[Mapping[str, str]] = {"/from": "first", "/to": "last"}

    first = _DayField(label=_("First day"))
    last = _DayField(label=_("Last day"))

    @property
    def days(self) -> tuple[dt.date, dt.date]:
        """``[first, end)`` of a valid form."""
        return self.cleaned_data["first"], self.cleaned_data["last"] + _DAY
