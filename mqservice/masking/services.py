"""Changes masking; the only writers of its rows. One transaction each.

Nobody changes what hides something from them: a rule that is clear for owners only, and a switch
that shows bodies to owners only, are an owner's to change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import difference, record, settings_of
from mqservice.accounts.models import Namespace
from mqservice.lib.etags import require_revision
from mqservice.lib.names import NAME_CHARS_MAX, name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.wire import refused
from mqservice.masking.limits import PATH_CHARS_MAX, RULES_MAX
from mqservice.masking.masks import can_see
from mqservice.masking.models import BodiesFor, ClearFor, MaskPolicy, MaskRule, Part
from mqservice.masking.paths import path_fault
from mqservice.masking.queries import get_rule

_SETTINGS: Final = ("topics", "part", "path", "clear_for")
_TOPICS: Final = re.compile(rf"[a-zA-Z0-9_-]{{0,{NAME_CHARS_MAX}}}\*?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRuleChange:
    """All settings of a rule."""

    topics: str
    part: Part
    path: str = ""
    clear_for: ClearFor = ClearFor.ADMIN


@transaction.atomic
def put_rule(
    principal: Principal,
    namespace: Namespace,
    name: str,
    order: MaskRuleChange,
    *,
    revision: int | None = None,
) -> tuple[MaskRule, bool]:
    """Create a rule or set all of one; the row, and whether it is new.

    Args:
        revision: refuse with PRECONDITION_FAILED unless the rule exists in this revision.

    Raises Problem: ILLEGAL_SETTING, FORBIDDEN, QUOTA_EXCEEDED or PRECONDITION_FAILED.
    """
    if fault := name_fault(name):
        raise refused("/name", fault, "ILLEGAL_SETTING")
    _reject_unfit(order)
    Namespace.objects.select_for_update().get(pk=namespace.pk)  # two creators of one name: in turn
    rule = MaskRule.objects.filter(namespace=namespace, name=name).first()
    require_revision(rule, revision, "rule")
    is_new = rule is None
    if rule is None:
        if MaskRule.objects.filter(namespace=namespace).count() >= RULES_MAX:
            detail = f"a namespace has at most {RULES_MAX} masking rules; delete one first"
            raise Problem.of("QUOTA_EXCEEDED", detail)
        rule = MaskRule(namespace=namespace, name=name)
    else:
        _require_can_see(principal, rule.clear_for)
    before = None if is_new else settings_of(rule, _SETTINGS)
    for field in _SETTINGS:
        setattr(rule, field, str(getattr(order, field)))
    after = settings_of(rule, _SETTINGS)
    if before != after:
        rule.revision = 1 if is_new else rule.revision + 1
        rule.save()
        old, new = difference(before, after)
        record(principal, namespace, "mask.put", f"masking/{name}", before=old, after=new)
    return rule, is_new


@transaction.atomic
def delete_rule(
    principal: Principal, namespace: Namespace, name: str, *, revision: int | None = None
) -> None:
    """What the rule hid is shown from now on.

    Raises Problem: MASK_NOT_FOUND, FORBIDDEN or PRECONDITION_FAILED.
    """
    Namespace.objects.select_for_update().get(pk=namespace.pk)
    rule = get_rule(namespace, name)
    require_revision(rule, revision, "rule")
    _require_can_see(principal, rule.clear_for)
    before = settings_of(rule, _SETTINGS)
    rule.delete()
    record(principal, namespace, "mask.delete", f"masking/{name}", before=before)


@transaction.atomic
def set_bodies_for(principal: Principal, namespace: Namespace, bodies_for: BodiesFor) -> None:
    """From which role on bodies are shown at all. Raises Problem FORBIDDEN."""
    Namespace.objects.select_for_update().get(pk=namespace.pk)
    policy = MaskPolicy.objects.filter(namespace=namespace).first()
    before = BodiesFor.DEVELOPER.value if policy is None else policy.bodies_for
    _require_can_see(principal, before)
    if before == bodies_for:
        return
    MaskPolicy.objects.update_or_create(
        namespace=namespace, defaults={"bodies_for": bodies_for.value}
    )
    record(
        principal,
        namespace,
        "masking.bodies",
        f"namespaces/{namespace.name}",
        before={"bodies_for": before},
        after={"bodies_for": bodies_for.value},
    )


def _reject_unfit(order: MaskRuleChange) -> None:
    if not order.topics or _TOPICS.fullmatch(order.topics) is None:
        detail = "must be a topic's name, or the start of names and a *, such as payments-*"
        raise refused("/topics", detail, "ILLEGAL_SETTING")
    fault = None
    if order.part is Part.BODY:
        fault = "must be left out: a rule for whole bodies has no path" if order.path else None
    elif order.part is Part.FIELD:
        fault = path_fault(order.path)
    elif not order.path.strip() or len(order.path) > PATH_CHARS_MAX or not order.path.isprintable():
        fault = "must be a property's name, or the start of names and a *"
    if fault is not None:
        raise refused("/path", fault, "ILLEGAL_SETTING")


def _require_can_see(principal: Principal, least: str) -> None:
    """Raises Problem: what it hides is hidden from who asks."""
    if not can_see(principal.role, least):
        raise Problem.of("FORBIDDEN", f"only the role {least} may change this")
