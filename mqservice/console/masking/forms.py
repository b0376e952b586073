"""The forms of masking: a rule, and the switch for bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from django import forms
from django.utils.translation import gettext_lazy

from mqservice.console.shared.forms import RefusableForm
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.masking.limits import PATH_CHARS_MAX, PATTERN_CHARS_MAX
from mqservice.masking.models import BodiesFor, ClearFor, MaskRule, Part
from mqservice.masking.services import MaskRuleChange

PART_TEXTS: Final = {
    Part.FIELD: gettext_lazy("Field of a JSON body"),
    Part.BODY: gettext_lazy("Whole body"),
    Part.PROPERTY: gettext_lazy("Property"),
}
CLEAR_TEXTS: Final = {
    ClearFor.ADMIN: gettext_lazy("Admins and owners"),
    ClearFor.OWNER: gettext_lazy("Owners only"),
}
BODIES_TEXTS: Final = {
    BodiesFor.DEVELOPER: gettext_lazy("Everyone who can read messages"),
    BodiesFor.ADMIN: gettext_lazy("Admins and owners"),
    BodiesFor.OWNER: gettext_lazy("Owners only"),
}


class MaskForm(RefusableForm):
    """All of a rule; ``name`` only of a new one."""

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/name": "name",
        "/topics": "topics",
        "/path": "path",
    }

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Letters, digits, - and _. Cannot be changed later."),
    )
    topics = forms.CharField(
        max_length=PATTERN_CHARS_MAX,
        label=gettext_lazy("Topics"),
        help_text=gettext_lazy("A name, or a prefix followed by *, such as payments-*."),
        widget=forms.TextInput(
            attrs={"list": "topics", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    part = forms.ChoiceField(
        choices=[(part.value, text) for part, text in PART_TEXTS.items()],
        label=gettext_lazy("Hides"),
    )
    path = forms.CharField(
        required=False,
        strip=True,
        max_length=PATH_CHARS_MAX,
        label=gettext_lazy("Field or property"),
        help_text=gettext_lazy(
            "A field by its path: /card/number, /items/*/price, or /**/password at any depth. A "
            "property by its name, which can end in *. Leave empty for whole bodies."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    clear_for = forms.ChoiceField(
        choices=[(role.value, text) for role, text in CLEAR_TEXTS.items()],
        label=gettext_lazy("Visible to"),
    )

    def __init__(self, *args: object, rule: MaskRule | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        if rule is not None:
            del self.fields["name"]
            self.initial.update(
                topics=rule.topics, part=rule.part, path=rule.path, clear_for=rule.clear_for
            )

    def order(self) -> MaskRuleChange:
        """Of a valid form."""
        given = self.cleaned_data
        return MaskRuleChange(
            topics=given["topics"],
            part=Part(given["part"]),
            path=given["path"],
            clear_for=ClearFor(given["clear_for"]),
        )


class BodiesForm(RefusableForm):
    """The switch."""

    bodies_for = forms.ChoiceField(
        choices=[(role.value, text) for role, text in BODIES_TEXTS.items()],
        label=gettext_lazy("Bodies visible to"),
    )
