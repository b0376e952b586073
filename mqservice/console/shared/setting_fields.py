"""Fields of forms out of the settings of a resource, and the body of the request out of a form.

SETTINGS ──▶ [form_fields] ──▶ fields     cleaned fields ──▶ [body_of] ──▶ body of ``PUT``
         ──▶ [pointers_of] ──▶ which field a fault belongs to
         row as REST shows it ──▶ [initial_of] ──▶ what the fields show
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from mqservice.console.shared.forms import JsonField, MomentField, in_zone
from mqservice.lib import settings_table as table

CODE_ATTRIBUTES = {"spellcheck": "false", "autocapitalize": "none"}


def form_fields(settings: table.Settings) -> dict[str, forms.Field]:
    """By name: of each setting that has a label, and of the parts of documents that have one."""
    found = {}
    for setting in table.settable(settings):
        if setting.label:
            default = None if setting.only_with else setting.shown_default
            found[setting.name] = _field(setting.kind, default, setting)
        elif isinstance(setting.kind, table.Document):
            for part in setting.kind.parts:
                found[part.field] = _field(part.kind, part.default, part)
                found[part.field].required = part.name == setting.kind.tag
    return found


def _field(kind: table.Kind, default: Any, row: table.Setting[Any] | table.Part) -> forms.Field:
    """Any: a value as REST shows it, of any kind."""
    common: dict[str, Any] = {  # Any: what fields take
        "label": gettext_lazy(row.label),
        "help_text": gettext_lazy(row.help) if row.help else "",
    }
    match kind:
        case table.Choice():
            offered = kind.offered or tuple(kind.values)
            choices = [
                (value.value, gettext_lazy(kind.texts[value]) if kind.texts else value.value)
                for value in offered
            ]
            return forms.ChoiceField(choices=choices, **common)
        case table.Boolean():
            return forms.BooleanField(required=False, **common)
        case table.Integer():
            return forms.IntegerField(
                required=not kind.has_null,
                min_value=kind.low,
                max_value=kind.high,
                initial=default,
                **common,
            )
        case table.Number():
            return forms.FloatField(initial=default, **common)
        case table.Moment():
            return MomentField(required=False, **common | {"label": in_zone(common["label"])})
        case table.Durations():
            return forms.CharField(widget=forms.TextInput(attrs=CODE_ATTRIBUTES), **common)
        case table.Document():
            widget = forms.Textarea(attrs={"rows": 4, **CODE_ATTRIBUTES})
            return JsonField(required=False, widget=widget, **common)
        case _:
            return forms.CharField(initial=default, **common)


def pointers_of(settings: table.Settings) -> dict[str, str]:
    """The field by pointer of a fault, longer pointers first."""
    found = {}
    for setting in table.settable(settings):
        found[f"/{setting.name}"] = setting.name
        if isinstance(setting.kind, table.Document):
            parts = (part for part in setting.kind.parts if part.field)
            found |= {f"/{setting.name}/{part.name}": part.field for part in parts}
    return dict(sorted(found.items(), key=lambda each: len(each[0]), reverse=True))


def body_of(settings: table.Settings, given: Mapping[str, Any]) -> dict[str, object]:
    """All settings as ``PUT`` takes them. ``given``: the cleaned fields of a valid form."""
    body: dict[str, object] = {}
    for setting in table.settable(settings):
        only_with = setting.only_with
        if only_with is not None and (given[only_with[0]] != only_with[1]):
            continue
        if only_with is not None and not given[setting.name]:
            continue
        if isinstance(setting.kind, table.Document) and not setting.label:
            body[setting.name] = _document_of(setting.kind, given)
        else:
            body[setting.name] = given[setting.name]
    return body


def _document_of(kind: table.Document, given: Mapping[str, Any]) -> dict[str, object]:
    """The parts of the chosen form that are filled in."""
    tag = next(part for part in kind.parts if part.name == kind.tag)
    found: dict[str, object] = {tag.name: given[tag.field]}
    for part in kind.parts:
        value = given[part.field]
        if part.form != given[tag.field]:
            continue
        if isinstance(part.kind, table.Durations):
            found[part.name] = [each.strip() for each in value.split(",") if each.strip()]
        elif value:
            found[part.name] = value
    return found


def initial_of(settings: table.Settings, shown: Mapping[str, Any]) -> dict[str, object]:
    """What a form shows of a row that REST shows so."""
    fields: dict[str, object] = {}
    for setting in table.settable(settings):
        value = shown[setting.name]
        if not isinstance(setting.kind, table.Document):
            fields[setting.name] = value
        elif setting.label:
            fields[setting.name] = json.dumps(value) if value else ""
        else:
            parts = (part for part in setting.kind.parts if part.name in value)
            fields |= {part.field: _text_of(part, value[part.name]) for part in parts}
    return fields


def _text_of(part: table.Part, value: Any) -> object:
    return ", ".join(value) if isinstance(part.kind, table.Durations) else value
