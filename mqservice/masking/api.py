"""Masking over REST: ``/v1/ns/{ns}/masking`` and ``masking/{name}``."""

from __future__ import annotations

from django.http import HttpResponse
from ninja import Router, Status

from mqservice.accounts.models import Namespace
from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.roles import Permission
from mqservice.lib.etags import etag, revision_of
from mqservice.masking.queries import bodies_for, get_rule, rules_of
from mqservice.masking.schemas import MaskingIn, MaskingOut, MaskRuleIn, MaskRuleOut
from mqservice.masking.services import delete_rule, put_rule, set_bodies_for

router = Router(tags=["masking"])


@router.get("/ns/{ns}/masking", response=MaskingOut)
def read_masking(request: AuthedRequest, ns: str) -> MaskingOut:
    """Read the masking settings: who sees message bodies in the console, and up to fifty rules.
    Programs with keys get messages as they were produced, whatever is hidden here.
    Three queries."""
    return _masking(get_namespace(request.auth, ns))


@router.put("/ns/{ns}/masking", response=MaskingOut)
def write_masking(request: AuthedRequest, ns: str, masking: MaskingIn) -> MaskingOut:
    """Set the lowest role that sees bodies in the console."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require_permission(Permission.MASKING_MANAGE)
    set_bodies_for(request.auth, namespace, masking.bodies_for)
    return _masking(namespace)


@router.get("/ns/{ns}/masking/{name}", response=MaskRuleOut)
def read_mask_rule(
    request: AuthedRequest, response: HttpResponse, ns: str, name: str
) -> MaskRuleOut:
    """Read one masking rule. Two queries."""
    namespace = get_namespace(request.auth, ns)
    rule = get_rule(namespace, name)
    response["ETag"] = etag(rule.revision)
    return MaskRuleOut.of(rule, namespace.name)


@router.put("/ns/{ns}/masking/{name}", response={200: MaskRuleOut, 201: MaskRuleOut})
def write_mask_rule(
    request: AuthedRequest, response: HttpResponse, ns: str, name: str, rule: MaskRuleIn
) -> Status[MaskRuleOut]:
    """Create a masking rule or replace one: 201 when it is new. ``If-Match`` guards against a lost
    update. Only an owner may change a rule that is clear for owners only."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require_permission(Permission.MASKING_MANAGE)
    revision = revision_of(request.headers.get("If-Match"))
    row, is_new = put_rule(request.auth, namespace, name, rule.order(), revision=revision)
    response["ETag"] = etag(row.revision)
    return Status(201 if is_new else 200, MaskRuleOut.of(row, namespace.name))


@router.delete("/ns/{ns}/masking/{name}", response={204: None})
def remove_mask_rule(request: AuthedRequest, ns: str, name: str) -> Status[None]:
    """Delete a masking rule; what it hid is visible again."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require_permission(Permission.MASKING_MANAGE)
    revision = revision_of(request.headers.get("If-Match"))
    delete_rule(request.auth, namespace, name, revision=revision)
    return Status(204, None)


def _masking(namespace: Namespace) -> MaskingOut:
    rules = [MaskRuleOut.of(rule, namespace.name) for rule in rules_of(namespace)]
    return MaskingOut(bodies_for=bodies_for(namespace), rules=rules)
