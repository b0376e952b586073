"""Read-only mode: whether it is on, since when and why; users with the right turn it on and off
here.

form ──▶ accounts.read_only, as REST calls it ──▶ audit
"""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.accounts.models import REASON_CHARS_MAX
from mqservice.accounts.read_only import set_read_only
from mqservice.accounts.roles import Permission
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Frame, page
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text


class ReadOnlyForm(forms.Form):
    reason = forms.CharField(
        required=False,
        max_length=REASON_CHARS_MAX,
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("Shown to everyone in this namespace."),
    )


@page("read-only")
def read_only(frame: Frame) -> HttpResponse:
    """How it stands, for everybody."""
    path = f"/v1/namespaces/{frame.namespace.name}"
    is_on = frame.namespace.is_read_only
    change: dict[str, object] = {"read_only": not is_on}
    may_switch = frame.principal.permits(Permission.NAMESPACES_MANAGE)
    return frame.render(
        "console/read_only.html",
        form=ReadOnlyForm(),
        may_switch=may_switch,
        curl=curl_of("PATCH", path, change) if may_switch else curl_of("GET", path),
    )


@page("read-only", needs=Permission.NAMESPACES_MANAGE, methods=("POST",))
def switch_read_only(frame: Frame) -> HttpResponse:
    """``on``: 1 or 0, and the reason."""
    form = ReadOnlyForm(frame.request.POST)
    is_on = frame.request.POST.get("on") == "1"
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    try:
        if not form.is_valid():
            raise Problem.of("BAD_REQUEST", " ".join(str(each) for each in form.errors["reason"]))
        set_read_only(frame.principal, frame.namespace.name, is_read_only=is_on, reason=reason)
    except Problem as problem:
        messages.error(frame.request, problem_text(problem))
    else:
        told = (
            _("The namespace is now read-only.")
            if is_on
            else _("The namespace is no longer read-only.")
        )
        messages.success(frame.request, told)
    return redirect("console:read-only", frame.namespace.name)
