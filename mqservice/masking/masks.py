"""What is hidden from one user: the rules of a namespace that apply to their role.

    role, namespace ──▶ masks_of ──▶ Masks ──▶ of_topic ──▶ TopicMask ── body, properties ──▶ masked

Only people who look at pages are readers. Programs with keys get messages as they were produced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mqservice.accounts.models import Role
from mqservice.accounts.roles import is_at_most
from mqservice.lib.problem import Problem
from mqservice.masking.json_fields import MASK, hide_fields
from mqservice.masking.models import BodiesFor, MaskPolicy, MaskRule, Part
from mqservice.masking.paths import Path, folded, parse_path

_ANYTHING: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMask:
    """Of the messages of one topic. ``has_unmasked``: a rule holds that this reader sees
    through.
    """

    is_body_hidden: bool
    paths: frozenset[Path]
    properties: frozenset[str]
    has_unmasked: bool

    @property
    def hides_bodies(self) -> bool:
        """Whether anything of a body may be hidden."""
        return self.is_body_hidden or bool(self.paths)

    @property
    def is_none(self) -> bool:
        return not self.hides_bodies and not self.properties

    def body(self, body: bytes) -> tuple[bytes, int] | None:
        """The body as it may be shown, and how many values in it are hidden; None: all of it is."""
        if self.is_body_hidden:
            return None
        return hide_fields(body, self.paths) if self.paths else (body, 0)

    def masked_properties(self, given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """All of them with hidden values replaced, and the names of those."""
        hidden = [name for name in given if self.hides_property(name)]
        return {name: MASK if name in hidden else text for name, text in given.items()}, hidden

    def hides_property(self, name: str) -> bool:
        return any(_is_under(folded(name), pattern) for pattern in self.properties)

    def is_named_in(self, wanted: str) -> bool:
        """Whether a filter over properties, or of tags, may name a hidden one."""
        names = (name.rstrip(_ANYTHING) for name in self.properties)
        return bool(wanted) and any(name in folded(wanted) for name in names)

    def reject_hidden_filter(self, *, contains: str, wanted: str) -> None:
        """Raises Problem: a search that would tell what is hidden by what it finds.

        Args:
            contains: a text of the body that is looked for.
            wanted: a filter over properties; a name in it has to be written as it is.
        """
        if contains and self.hides_bodies:
            raise Problem.of(
                "FORBIDDEN",
                "parts of bodies are hidden from your role, so bodies cannot be searched",
            )
        if self.is_named_in(wanted):
            raise Problem.of(
                "FORBIDDEN",
                "the filter names a property that is hidden from your role",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Masks:
    """Of one reader in one namespace."""

    are_bodies_hidden: bool
    hidden: tuple[MaskRule, ...]
    clear: tuple[MaskRule, ...]

    @property
    def is_none(self) -> bool:
        """Whether this reader sees everything."""
        return not self.are_bodies_hidden and not self.hidden

    def of_topic(self, topic: str | None) -> TopicMask:
        """``topic`` None or empty: nobody knows which, so all rules hold."""
        rules = [rule for rule in self.hidden if not topic or applies_to(rule, topic)]
        return TopicMask(
            is_body_hidden=self.are_bodies_hidden or any(rule.part == Part.BODY for rule in rules),
            paths=frozenset(parse_path(rule.path) for rule in rules if rule.part == Part.FIELD),
            properties=frozenset(folded(rule.path) for rule in rules if rule.part == Part.PROPERTY),
            has_unmasked=any(not topic or applies_to(rule, topic) for rule in self.clear),
        )

    def shows_more_in(self, topic: str) -> bool:
        """Whether something that is hidden elsewhere would be shown of a copy in ``topic``."""
        return not self.are_bodies_hidden and any(
            not applies_to(rule, topic) for rule in self.hidden
        )


def masks_of(tenant_id: int, namespace: str, role: Role) -> Masks:
    """What is hidden from who has ``role``. Two queries."""
    place = {"namespace__tenant_id": tenant_id, "namespace__name": namespace}
    rules: Iterable[MaskRule] = MaskRule.objects.filter(**place)
    policy = MaskPolicy.objects.filter(**place).first()
    hidden: list[MaskRule] = []
    clear: list[MaskRule] = []
    for rule in rules:
        (clear if can_see(role, rule.clear_for) else hidden).append(rule)
    bodies_for = BodiesFor.DEVELOPER if policy is None else BodiesFor(policy.bodies_for)
    return Masks(
        are_bodies_hidden=not can_see(role, bodies_for),
        hidden=tuple(hidden),
        clear=tuple(clear),
    )


def can_see(role: Role, least: str) -> bool:
    """Whether ``role`` is ``least`` or above it."""
    return is_at_most(Role(least), role)


def applies_to(rule: MaskRule, topic: str) -> bool:
    return _is_under(topic, rule.topics)


def _is_under(name: str, pattern: str) -> bool:
    if pattern.endswith(_ANYTHING):
        return name.startswith(pattern[:-1])
    return name == pattern
