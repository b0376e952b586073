"""Reads of masking rules, each within one namespace."""

from __future__ import annotations

from mqservice.accounts.models import Namespace
from mqservice.lib.problem import Problem
from mqservice.masking.limits import RULES_MAX
from mqservice.masking.models import BodiesFor, MaskPolicy, MaskRule


def rules_of(namespace: Namespace) -> list[MaskRule]:
    """All of a namespace, by name. One query."""
    return list(MaskRule.objects.filter(namespace=namespace).order_by("name")[:RULES_MAX])


def bodies_for(namespace: Namespace) -> BodiesFor:
    """From which role on bodies are shown. One query."""
    policy = MaskPolicy.objects.filter(namespace=namespace).first()
    return BodiesFor.DEVELOPER if policy is None else BodiesFor(policy.bodies_for)


def get_rule(namespace: Namespace, name: str) -> MaskRule:
    """Raises Problem MASK_NOT_FOUND. One query."""
    rule = MaskRule.objects.filter(namespace=namespace, name=name).first()
    if rule is None:
        raise Problem.of("MASK_NOT_FOUND", f"{name} does not exist in {namespace.name}")
    return rule
