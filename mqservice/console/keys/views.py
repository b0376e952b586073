"""API keys: the list, one key, and the forms that create, rotate and revoke one.

    form ──▶ accounts.key_services, as REST calls it ──▶ the key's text, in this answer alone

The page that shows a key is the answer to the POST itself: nothing keeps the text, so there is no
address at which it could be seen again.
"""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.key_services import issue_key, revoke_key, rotate_key
from mqservice.accounts.limits import KEY_NAME_CHARS_MAX
from mqservice.accounts.models import ApiKey
from mqservice.accounts.queries import get_key
from mqservice.accounts.roles import Permission
from mqservice.console.keys.forms import KeyForm, RotateForm
from mqservice.console.keys.queries import commands_of, key_row, keys_page
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import FORM_METHODS, ConfirmForm, form_status
from mqservice.console.shared.frame import Frame, find_or_404, page
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text

_TEXT_CHARS_MAX: Final = 80


@page("keys", needs=Permission.KEYS_READ)
def keys(frame: Frame) -> HttpResponse:
    """``?q=&state=active|ended&before=``: the tenant's keys, the newest first."""
    given = frame.request.GET
    text, state = given.get("q", "").strip()[:_TEXT_CHARS_MAX], given.get("state", "")
    before = given.get("before", "")[:_TEXT_CHARS_MAX]
    return frame.render(
        "console/keys.html",
        page=keys_page(frame.principal, text=text, state=state, before=before),
        curl=curl_of("GET", "/v1/keys"),
        may_manage=frame.principal.permits(Permission.KEYS_MANAGE),
        text=text,
        state=state,
    )


@page("keys", needs=Permission.KEYS_MANAGE, methods=FORM_METHODS)
def new_key(frame: Frame) -> HttpResponse:
    """A form; POST makes the key and shows it, this once."""
    places = [each.name for each in frame.namespaces if each.tenant_id == frame.namespace.tenant_id]
    form = KeyForm(
        frame.request.POST or None,
        namespaces=places,
        own=frame.principal.role,
        initial={"place": frame.namespace.name},
    )
    if frame.request.method == "POST" and form.is_valid():
        try:
            row, text = issue_key(frame.principal, form.order())
        except Problem as problem:
            form.add_problem(problem)
        else:
            return _shown_once(frame, row, text, status=201)
    return frame.render(
        "console/key_form.html",
        status=form_status(form),
        form=form,
        crumbs=frame.crumbs(_("New key")),
        curl=curl_of("POST", "/v1/keys", {"name": "billing", "scopes": ["consume"]}),
    )


@page("keys", needs=Permission.KEYS_READ)
def key(frame: Frame, key_id: str) -> HttpResponse:
    """What one key may do, since when, and the ways to end or exchange it."""
    return _key_page(frame, _found(frame, key_id))


@page("keys", needs=Permission.KEYS_MANAGE, methods=FORM_METHODS)
def rotate(frame: Frame, key_id: str) -> HttpResponse:
    """A second secret, shown this once; the present one ends after the chosen time."""
    row = _found(frame, key_id)
    if frame.request.method != "POST":  # its answer was loaded again, or its language changed
        return redirect("console:key", frame.namespace.name, row.public_id)
    form = RotateForm(frame.request.POST)
    if not form.is_valid():
        return _key_page(frame, row, rotate_form=form)
    try:
        row, text = rotate_key(frame.principal, row.public_id, form.length())
    except Problem as problem:
        form.add_error(None, problem_text(problem))
        return _key_page(frame, row, rotate_form=form)
    return _shown_once(frame, row, text, status=200)


@page("keys", needs=Permission.KEYS_MANAGE, methods=FORM_METHODS)
def revoke(frame: Frame, key_id: str) -> HttpResponse:
    """Ends the key for good, once its name was typed."""
    row = _found(frame, key_id)
    if frame.request.method != "POST":  # its answer was loaded again, or its language changed
        return redirect("console:key", frame.namespace.name, row.public_id)
    form = _revoke_form(row, frame.request.POST)
    if form.is_valid():
        try:
            revoke_key(frame.principal, row.public_id)
        except Problem as problem:
            form.add_error(None, problem_text(problem))
        else:
            messages.success(frame.request, _("The key %(name)s was revoked.") % {"name": row.name})
            return redirect("console:keys", frame.namespace.name)
    return _key_page(frame, row, revoke_form=form)


def _key_page(
    frame: Frame,
    row: ApiKey,
    *,
    rotate_form: RotateForm | None = None,
    revoke_form: ConfirmForm | None = None,
) -> HttpResponse:
    bound = rotate_form or revoke_form
    return frame.render(
        "console/key.html",
        status=200 if bound is None else 422,
        row=key_row(row),
        may_manage=frame.principal.permits(Permission.KEYS_MANAGE),
        rotate_form=rotate_form or RotateForm(),
        revoke_form=revoke_form or _revoke_form(row),
        crumbs=frame.crumbs(row.name),
        curl=curl_of("GET", f"/v1/keys/{row.public_id}"),
    )


def _shown_once(frame: Frame, row: ApiKey, text: str, *, status: int) -> HttpResponse:
    return frame.render(
        "console/key_made.html",
        status=status,
        row=key_row(row),
        text=text,
        curl=commands_of(row, text, frame.namespace),
        crumbs=frame.crumbs(row.name),
    )


def _found(frame: Frame, key_id: str) -> ApiKey:
    """Raises Http404. One query."""
    return find_or_404(get_key, frame.principal, key_id)


def _revoke_form(row: ApiKey, data: QueryDict | None = None) -> ConfirmForm:
    return ConfirmForm(
        data,
        name=row.name,
        fault=_("This does not match the name of the key."),
        chars_max=KEY_NAME_CHARS_MAX,
    )
