"""Forms out of the settings of a resource; a form builds the body of the REST request.

    SETTINGS ──▶ fields ── filled in ──▶ [document] ──▶ body of ``PUT``, read as any other
    row as REST shows it ──▶ what the fields show        refusal ──▶ its pointer ──▶ the field

So a form sets nothing that a request could not, with the same faults; each comes back to its field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy

from mqservice.console.shared.forms import JsonField, MomentField, RefusableForm, in_zone
from mqservice.lib import settings_table as table
from mqservice.lib.names import NAME_CHARS_MAX

CODE_ATTRIBUTES = {"spellcheck": "false", "autocapitalize": "none"}
LIST_CHARS_MAX = 2_000


class SettingsForm(RefusableForm):
    """Settings of a resource; ``name`` only of a new one."""

    SETTINGS: ClassVar[table.Settings]

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        widget=forms.TextInput(attrs=CODE_ATTRIBUTES),
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Letters, digits, - and _. Cannot be changed later."),
    )

    def __init__(
        self, *args: Any, shown: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:  # Any: as Django takes them
        """``shown``: what there is, as REST shows it."""
        super().__init__(*args, **kwargs)
        self.pointers = dict(self.POINTERS)
        for pointer, field, setting in _fields_of(self.SETTINGS):
            self.fields[field] = _field(setting)
            self.pointers[pointer] = field
        if shown is not None:
            del self.fields["name"]
            self.initial = {**_initial_of(self.SETTINGS, shown), **self.initial}

    def document(self) -> dict[str, object]:
        """Of a valid form: all of its settings, as ``PUT`` takes them."""
        body: dict[str, object] = {}
        given = self.cleaned_data
        for setting in table.settable(self.SETTINGS):
            if isinstance(setting, table.Document) and not setting.label:
                body[setting.name] = _document_of(setting, given)
            elif setting.name in given and _is_used(setting, given):
                body[setting.name] = _value_of(setting, given[setting.name])
        return body

    def field_at(self, place: str) -> str | None:
        """The field whose pointer that of a fault begins with, the longest of them."""
        place = place.removesuffix("_ms")
        known = [each for each in self.pointers if f"{place}/".startswith(f"{each}/")]
        field = self.pointers[max(known, key=len)] if known else None
        return field if field in self.fields else None


def _fields_of(settings: table.Settings) -> list[tuple[str, str, table.Setting]]:
    """Pointer and name of each field: of settings that have a label, and of documents' parts."""
    found = []
    for setting in table.settable(settings):
        pointer = f"/{setting.name}"
        if setting.label:
            found.append((pointer, setting.name, setting))
        elif isinstance(setting, table.Document):
            tag, *parts = setting.parts
            found.append((pointer, tag.field, tag))
            found += [(f"{pointer}/{part.name}", part.field or part.name, part) for part in parts]
    return found


def _field(setting: table.Setting) -> forms.Field:
    attributes = {"list": setting.suggests, "autocomplete": "off"} if setting.suggests else {}
    common: dict[str, Any] = {  # Any: what fields take
        "label": gettext_lazy(setting.label),
        "help_text": gettext_lazy(setting.help) if setting.help else "",
        "required": not (setting.may_be_empty or setting.form or setting.null is not None),
    }
    match setting:
        case table.Choice():
            texts = setting.texts or {str(each): str(each) for each in setting.values}
            choices = [(str(each), gettext_lazy(text)) for each, text in texts.items()]
            return forms.ChoiceField(choices=choices, **common)
        case table.Boolean():
            return forms.BooleanField(**common | {"required": False})
        case table.Integer():
            initial = None if setting.default is None else setting.shown_default
            low, high = setting.low, setting.high
            return forms.IntegerField(min_value=low, max_value=high, initial=initial, **common)
        case table.Number():
            return forms.FloatField(initial=setting.default, **common)
        case table.Moment():
            label = in_zone(common["label"])
            return MomentField(**common | {"label": label, "required": False})
        case table.Document():
            area = forms.Textarea(attrs={"rows": 4, **CODE_ATTRIBUTES})
            return JsonField(widget=area, **common | {"required": False})
        case table.List():
            return forms.CharField(
                max_length=LIST_CHARS_MAX, widget=forms.TextInput(attrs=CODE_ATTRIBUTES), **common
            )
        case table.Duration():
            return forms.CharField(initial=setting.shown_default, **common)
        case table.Text():
            common["max_length"] = setting.chars_max
    if isinstance(setting, table.Name):
        common["max_length"] = NAME_CHARS_MAX
    widget = forms.TextInput(attrs=attributes)
    return forms.CharField(widget=widget, initial=setting.default, **common)


def _is_used(setting: table.Setting, given: Mapping[str, Any]) -> bool:
    """Whether its field says anything."""
    if setting.only_with is None:
        return True
    name, value = setting.only_with
    return bool(given[name] == value and given[setting.name])


def _value_of(setting: table.Setting, given: Any) -> object:
    """What a field has, as JSON has it."""
    if isinstance(setting, table.List):
        return [each.strip() for each in given.split(",") if each.strip()]
    return None if given == "" else given


def _document_of(document: table.Document, given: Mapping[str, Any]) -> dict[str, object]:
    """The parts of the chosen form that are filled in."""
    tag = document.parts[0]
    found: dict[str, object] = {tag.name: given[tag.field]}
    for part in document.parts_of(given[tag.field])[1:]:
        if value := _value_of(part, given[part.field or part.name]):
            found[part.name] = value
    return found


def _initial_of(settings: table.Settings, shown: Mapping[str, Any]) -> dict[str, object]:
    """What the fields show of what REST shows so."""
    fields: dict[str, object] = {}
    for setting in table.settable(settings):
        value = shown[setting.name]
        if isinstance(setting, table.Document) and not setting.label:
            parts = (part for part in setting.parts if part.name in value)
            fields |= {part.field or part.name: _text_of(value[part.name]) for part in parts}
        else:
            fields[setting.name] = _text_of(value)
    return fields


def _text_of(value: Any) -> object:
    if isinstance(value, dict):
        return json.dumps(value) if value else ""
    return ", ".join(value) if isinstance(value, list) else value
