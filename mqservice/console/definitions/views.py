"""Definitions of a namespace: exporting and importing them.

GET ──▶ download, form ── POST ──▶ preview: what is created, changed, unchanged; or every fault
POST with the signed preview ──▶ still the same? ──▶ done, else the preview as it is by now
"""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.definitions.preview import (
    ImportForm,
    Preview,
    find_digest,
    preview_of,
    shown_faults,
)
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import FORM_METHODS
from mqservice.console.shared.frame import Frame, page
from mqservice.console.shared.signed_previews import EXPIRED
from mqservice.definitions.document_format import Form, serialize, with_line_numbers
from mqservice.definitions.documents import export, read_document
from mqservice.definitions.importing import Plan, import_definitions, preview_import
from mqservice.definitions.limits import VERSION
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem


@page("definitions")
def definitions(frame: Frame) -> HttpResponse:
    """What there is to download, and for who may change settings the form of an import."""
    return _page(frame, form=ImportForm())


@page("definitions")
def definitions_file(frame: Frame, form: str) -> HttpResponse:
    """``?prefix=``: the document as a file, in lines that can be compared. Two queries."""
    kind = Form(form)
    prefix = frame.request.GET.get("prefix", "").strip()[:NAME_CHARS_MAX]
    try:
        found = export(frame.namespace, prefix)
    except Problem as problem:
        return _page(frame, form=ImportForm(), problem=problem)
    response = HttpResponse(serialize(found, kind), content_type=kind.media_type)
    name = f"{frame.namespace.name}-definitions.{kind.value}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store"
    return response


@page("definitions", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def import_page(frame: Frame) -> HttpResponse:
    """POST of a file or text: the preview; of a signed preview: it is done."""
    if frame.request.method != "POST":
        return redirect("console:definitions", frame.namespace.name)
    if "token" in frame.request.POST:
        return _apply(frame)
    form = ImportForm(frame.request.POST, frame.request.FILES)
    if not form.is_valid():
        return _page(frame, form=form, status=422)
    try:
        with with_line_numbers(form.source, form.form):
            preview = _preview(frame, form.body)
    except Problem as problem:
        return _page(frame, form=ImportForm(), problem=problem, body=form.body)
    return _page(frame, form=ImportForm(), preview=preview)


def _apply(frame: Frame) -> HttpResponse:
    body = frame.request.POST.get("document", "").encode()
    token = frame.request.POST["token"]
    digest = find_digest(token, body, frame.user, frame.namespace)
    if digest is None:
        return _page(frame, form=ImportForm(), fault=str(EXPIRED), status=422)
    try:
        plan = import_definitions(
            frame.namespace, read_document(body), by=frame.principal, digest=digest
        )
    except Problem as problem:
        if problem.code != "CONFLICT":
            return _page(frame, form=ImportForm(), problem=problem, body=body)
        return _previewed_again(frame, body)
    messages.success(frame.request, _summary(plan))
    return redirect("console:definitions", frame.namespace.name)


def _previewed_again(frame: Frame, body: bytes) -> HttpResponse:
    try:
        preview = _preview(frame, body)
    except Problem as problem:
        return _page(frame, form=ImportForm(), problem=problem, body=body)
    return _page(frame, form=ImportForm(), preview=preview, has_moved=True, status=409)


def _preview(frame: Frame, body: bytes) -> Preview:
    """Raises Problem."""
    plan = preview_import(frame.namespace, read_document(body), by=frame.principal)
    return preview_of(plan, body, frame.user, frame.namespace)


def _summary(plan: Plan) -> str:
    told = plan.shown(is_dry_run=False)
    counts = {"created": told.created, "changed": told.changed, "unchanged": told.unchanged}
    return (
        _("Imported: %(created)d created, %(changed)d changed, %(unchanged)d unchanged.") % counts
    )


def _page(
    frame: Frame,
    *,
    form: ImportForm,
    preview: Preview | None = None,
    problem: Problem | None = None,
    body: bytes = b"{}",
    fault: str = "",
    has_moved: bool = False,
    status: int = 200,
) -> HttpResponse:
    root = f"{frame.api_root}/definitions"
    command = curl_of("GET", root)
    if frame.can_manage:
        example: dict[str, object] = {
            "version": VERSION,
            "topics": [{"name": "orders", "queues": 8}],
            "groups": [],
        }
        command += "\n\n" + curl_of("POST", f"{root}:import?dry_run=true", example)
    return frame.render(
        "console/definitions.html",
        status=status if problem is None else problem.status,
        topic_count=frame.namespace.topics.count(),
        group_count=frame.namespace.groups.count(),
        form=form,
        preview=preview,
        problem=problem,
        faults=[] if problem is None else shown_faults(problem.errors, body),
        fault=fault,
        has_moved=has_moved,
        curl=command,
    )
