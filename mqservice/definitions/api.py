"""Definitions over REST: ``GET …/definitions`` and ``POST …/definitions:import``; JSON or YAML."""

from __future__ import annotations

from typing import Literal

from django.http import HttpResponse
from ninja import Router

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Scope
from mqservice.definitions.document_format import (
    YAML_TYPES,
    Form,
    form_of_type,
    json_of,
    serialize,
    with_line_numbers,
)
from mqservice.definitions.documents import export, read_document
from mqservice.definitions.importing import import_definitions, preview_import
from mqservice.definitions.schemas import DefinitionsOut, ImportOut
from mqservice.lib.wire import refused

router = Router(tags=["definitions"])


@router.get("/ns/{ns}/definitions", response=DefinitionsOut, by_alias=True)
def export_definitions(
    request: AuthedRequest, ns: str, prefix: str = ""
) -> DefinitionsOut | HttpResponse:
    """Export all settings of the topics and groups of a namespace as one document, to store or to
    import, with the schemas of topics.

    It has no messages and no offsets; nor filters, which come from consumers, nor whether a group
    is paused, which is no setting. A document holds at most 2,000 topics and groups: export more in
    parts, by `prefix`. With `Accept: application/yaml` it is YAML.

    Five queries.
    """
    document = export(get_namespace(request.auth, ns), prefix)
    # Who takes neither gets JSON, as everybody did before there was a choice.
    wanted = form_of_type(request.get_preferred_type([Form.JSON.media_type, *YAML_TYPES]))
    if wanted is Form.JSON:
        return document
    return HttpResponse(serialize(document, wanted), content_type=wanted.media_type)


@router.post("/ns/{ns}/definitions:import", response=ImportOut, operation_id="importDefinitions")
def import_document(
    request: AuthedRequest, ns: str, dry_run: Literal["true", "false"] = "false"
) -> ImportOut:
    """Create and change topics and groups as a document defines them, all or nothing.

    Nothing is deleted: topics, groups and settings that the document omits are left unchanged.
    Every fault is reported with its place before anything is changed. Importing the same document
    again changes nothing. With `dry_run=true` the response only shows what would be done.

    Each topic or group needs the scope of a single change. Each one that changes has its own entry
    in the audit.

    With `Content-Type: application/yaml` the body is YAML, and faults also have line and column.

    The body is read here, not by the framework, so that one answer names all its faults.
    """
    namespace = get_namespace(request.auth, ns)
    request.auth.require_somewhere(Scope.MANAGE)
    for name in request.GET:
        if name != "dry_run":  # a slip of the pen must not turn a look into a deed
            raise refused(f"?{name}", "unknown parameter")
    form = form_of_type(request.content_type)
    body = json_of(request.body, form)
    is_dry_run = dry_run == "true"
    act = preview_import if is_dry_run else import_definitions
    with with_line_numbers(request.body, form):
        plan = act(namespace, read_document(body), by=request.auth)
    return plan.shown(is_dry_run=is_dry_run)
