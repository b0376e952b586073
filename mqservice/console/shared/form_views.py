"""Shared by form views: methods, response status, hidden revisions, typed names, deletion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect

from mqservice.console.shared.forms import RefusableForm
from mqservice.console.shared.frame import Frame
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text

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


def save(
    frame: Frame,
    form: RefusableForm,
    write: Callable[[], object],
    *,
    told: str,
    back: str,
    stale: str = "",
) -> HttpResponse | None:
    """The answer to a form that was written, or None with the refusal in it.

    Args:
        write: may raise Problem. A page that it returns is the answer.
        told: what is said once it is done, at the address ``back``.
        stale: what is said to somebody whose form shows an older revision.
    """
    try:
        page = write()
    except Problem as problem:
        if stale and problem.code == "PRECONDITION_FAILED":
            form.add_error(None, stale)
        else:
            form.add_problem(problem)
        return None
    if isinstance(page, HttpResponse):
        return page
    messages.success(frame.request, told)
    return redirect(back)


def act(frame: Frame, change: Callable[[], object], *, told: str, back: str) -> HttpResponse:
    """The answer to a button: ``told`` or why not, at the address ``back``. ``change`` may raise
    Problem.
    """
    try:
        change()
    except Problem as problem:
        messages.error(frame.request, problem_text(problem))
    else:
        messages.success(frame.request, told)
    return redirect(back)


def delete_by_name(
    frame: Frame,
    template: str,
    delete: Callable[[], object],
    *,
    name: str,
    fault: str,
    told: str,
    back: str,
    form_name: str = "form",
    chars_max: int = NAME_CHARS_MAX,
    **context: object,
) -> HttpResponse:
    """A page that asks for the name of what is to go; POST with it deletes.

    Args:
        delete: may raise Problem, which the form says then.
        fault: what is said of another name.
        told: what is said once it is gone, at the address ``back``.
        form_name, context: of the template.
    """
    form = ConfirmForm(frame.request.POST or None, name=name, fault=fault, chars_max=chars_max)
    if frame.request.method == "POST" and form.is_valid():
        try:
            delete()
        except Problem as problem:
            form.add_error(None, problem_text(problem))
        else:
            messages.success(frame.request, told)
            return redirect(back)
    status = 422 if form.is_bound else 200
    return frame.render(template, status=status, **{form_name: form}, **context)
