"""Importing definitions in the console: the form, and the preview that must be shown first.

    file or text, JSON or YAML ──▶ document, as compact JSON ──▶ plan ──▶ page with both, signed
    page ──▶ document, signed preview ──▶ the same plan still? ──▶ done, with its audit
                                              └── not: the new preview, which says so

What is applied is what was signed, document and plan, for ten minutes and for one person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec
from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.accounts.models import Namespace, User
from mqservice.console.shared.forms import RefusableForm
from mqservice.console.shared.signed_previews import find_signed, signed
from mqservice.definitions.document_format import Form, form_of_file, json_of
from mqservice.definitions.documents import reject_duplicates
from mqservice.definitions.importing import Plan
from mqservice.definitions.schemas import Action, ImportedOut
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.problem_words import in_words, problem_text

# With its escapes and the fields beside it a document has to fit a request twice: out and back.
DOCUMENT_BYTES_MAX: Final = 900 * 1024
SHOWN_MAX: Final = 200
_PAGE: Final = "definitions"


class ImportForm(RefusableForm):
    """A file, or text, in ``form``; ``body`` is what ``source`` says as compact JSON, without which
    line ends would not survive the way through a browser.
    """

    file = forms.FileField(
        required=False,
        label=gettext_lazy("Definitions file"),
        widget=forms.ClearableFileInput(attrs={"accept": ".json,.yaml,.yml"}),
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("Or paste its contents"),
        widget=forms.Textarea(
            attrs={"rows": 8, "spellcheck": "false", "placeholder": '{"version": 2, "topics": []}'}
        ),
    )
    form: Form = Form.JSON
    source: bytes = b""
    body: bytes = b"{}"

    def clean(self) -> dict[str, object]:
        """Raises ValidationError: nothing, both, too much, or neither JSON nor YAML."""
        file, text = self.cleaned_data.get("file"), self.cleaned_data.get("text") or ""
        if bool(file) == bool(text.strip()):
            raise forms.ValidationError(_("Choose a file or paste its contents, but not both."))
        content, name = text.encode(), ""
        if isinstance(file, UploadedFile):
            content, name = file.read(), str(file.name)
        if len(content) > DOCUMENT_BYTES_MAX:
            raise forms.ValidationError(
                _("The document is larger than %(max)s bytes. Split it, or import it over REST.")
                % {"max": f"{DOCUMENT_BYTES_MAX:,}"}
            )
        self.source = content
        self.form = form_of_file(name, content)
        self.body = _compact(content, self.form)
        return self.cleaned_data


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChange:
    """One setting; ``before`` is empty of a new thing."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownThing:
    """A topic or group that becomes different."""

    is_topic: bool
    name: str
    action: str
    changes: list[ShownChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A plan as the page shows it; ``document`` and ``token`` have to come back to apply it."""

    plan: Plan
    document: str
    token: str

    @property
    def created(self) -> int:
        return self.plan.count(Action.CREATED)

    @property
    def changed(self) -> int:
        return self.plan.count(Action.CHANGED)

    @property
    def unchanged(self) -> int:
        return self.plan.count(Action.UNCHANGED)

    @property
    def things(self) -> list[ShownThing]:
        """What becomes different, ``SHOWN_MAX`` at most."""
        return list(islice(self._all_things(), SHOWN_MAX))

    @property
    def more_count(self) -> int:
        return max(0, self.created + self.changed - SHOWN_MAX)

    def _all_things(self) -> Iterator[ShownThing]:
        for is_topic, steps in ((True, self.plan.topics), (False, self.plan.groups)):
            for step in steps:
                if step.shown.action is not Action.UNCHANGED:
                    yield ShownThing(
                        is_topic=is_topic,
                        name=step.shown.name,
                        action=step.shown.action.value,
                        changes=_changes(step.shown),
                    )


def preview_of(plan: Plan, body: bytes, user: User, namespace: Namespace) -> Preview:
    token = signed(_PAGE, (user.pk, namespace.pk, _digest(body), plan.digest))
    return Preview(plan=plan, document=body.decode(), token=token)


def find_digest(token: str, body: bytes, user: User, namespace: Namespace) -> str | None:
    """That of the plan that was shown. None for what was not signed here, for this person,
    namespace and document, in the last ten minutes.
    """
    found = find_signed(_PAGE, token, tuple[int, int, str, str])
    if found is None:
        return None
    user_id, namespace_id, document, plan = found
    if (user_id, namespace_id, document) != (user.pk, namespace.pk, _digest(body)):
        return None
    return plan


def shown_faults(faults: list[ProblemItem], body: bytes) -> list[tuple[str, str, str]]:
    """Each fault as its place, the name of the thing there, and what is wrong."""
    content: object = msgspec.json.decode(body)
    return [
        (each.pointer or "/", _name_at(each.pointer, content), in_words(each.detail))
        for each in faults
    ]


def _compact(content: bytes, form: Form) -> bytes:
    """Raises ValidationError."""
    try:
        if form is Form.YAML:
            return json_of(content, form)
        body = msgspec.json.encode(msgspec.json.decode(content))
        reject_duplicates(content)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as exc:
        raise forms.ValidationError(_("This is not valid JSON: %(why)s") % {"why": exc}) from None
    except Problem as problem:
        if form is Form.JSON:
            raise forms.ValidationError(problem_text(problem)) from None
        why = {"why": problem_text(problem)}
        raise forms.ValidationError(_("This is not valid YAML: %(why)s") % why) from None
    return body


def _name_at(pointer: str, content: object) -> str:
    """Of the topic or group in which ``/topics/3/queues`` lies; empty where there is none."""
    _root, kind, at, *_rest = [*pointer.split("/"), "", "", ""]
    things = content.get(kind) if isinstance(content, dict) else None
    if not isinstance(things, list) or not at.isdecimal() or int(at) >= len(things):
        return ""
    thing = things[int(at)]
    name = thing.get("name") if isinstance(thing, dict) else None
    return name if isinstance(name, str) else ""


def _changes(thing: ImportedOut) -> list[ShownChange]:
    before = thing.before or {}
    return [
        ShownChange(
            name=name,
            before="" if thing.before is None else _text(before.get(name)),
            after=_text(value),
        )
        for name, value in thing.after.items()
    ]


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
