"""Masking on the wire of the control plane."""

from __future__ import annotations

from ninja import Schema
from pydantic import ConfigDict

from mqservice.lib.wire import moment
from mqservice.masking.models import BodiesFor, ClearFor, MaskRule, Part
from mqservice.masking.services import MaskRuleChange


class MaskRuleIn(Schema):
    """A complete rule. `topics`: a name, or the start of names and a `*`. `path`: for a field a
    JSON pointer, in which `*` is any member or item and `**` any depth; for a property its name."""

    model_config = ConfigDict(extra="forbid")

    topics: str
    part: Part
    path: str | None = None
    clear_for: ClearFor = ClearFor.ADMIN

    def order(self) -> MaskRuleChange:
        return MaskRuleChange(
            topics=self.topics, part=self.part, path=self.path or "", clear_for=self.clear_for
        )


class MaskRuleOut(Schema):
    """`clear_for`: the lowest role that sees in the console what the rule hides."""

    name: str
    namespace: str
    topics: str
    part: Part
    path: str | None
    clear_for: ClearFor
    created_at: str
    updated_at: str

    @classmethod
    def of(cls, rule: MaskRule, namespace: str) -> MaskRuleOut:
        return cls(
            name=rule.name,
            namespace=namespace,
            topics=rule.topics,
            part=Part(rule.part),
            path=rule.path or None,
            clear_for=ClearFor(rule.clear_for),
            created_at=moment(rule.created_at),
            updated_at=moment(rule.updated_at),
        )


class MaskingIn(Schema):
    """`bodies_for`: the lowest role that sees bodies in the console."""

    model_config = ConfigDict(extra="forbid")

    bodies_for: BodiesFor


class MaskingOut(Schema):
    """The setting for bodies, and all rules by name."""

    bodies_for: BodiesFor
    rules: list[MaskRuleOut]
