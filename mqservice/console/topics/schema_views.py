"""The schema of a topic: what it is, uploading one, removing it.

file or text ──▶ SchemaForm ──▶ topic_schemas.services, as REST calls it ──▶ audit
                                   └─ Problem ──▶ the form again, with the fault at its field
"""

from __future__ import annotations

import base64
from typing import ClassVar, Final

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.accounts.roles import Permission
from mqservice.console.shared.bodies import FORMS, encoding_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import FORM_METHODS, act, form_status, number_of, save
from mqservice.console.shared.forms import RefusableForm
from mqservice.console.shared.frame import Frame, page
from mqservice.console.topics.views import found_topic, topic_crumbs
from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.limits import DEFINITION_BYTES_MAX
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topic_schemas.queries import find_schema
from mqservice.topic_schemas.services import SchemaChange, delete_schema, put_schema
from mqservice.topics.models import Topic

_EXAMPLE: Final = '{"type": "record", "name": "Order", "fields": []}'


class SchemaForm(RefusableForm):
    """A definition from a file or as text. ``definition`` is what it is over REST."""

    POINTERS: ClassVar = {"/message": "message"}

    kind = forms.ChoiceField(
        label=gettext_lazy("Encoding"),
        choices=[(kind.value, form.value) for kind, form in FORMS.items()],
    )
    message = forms.CharField(
        required=False,
        label=gettext_lazy("Message"),
        help_text=gettext_lazy(
            "Protobuf only: the full name of the message, such as shop.Order. Not needed when "
            "there is only one."
        ),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "none"}),
    )
    file = forms.FileField(
        required=False,
        label=gettext_lazy("Schema file"),
        help_text=gettext_lazy(
            "For Avro an .avsc file. For Protobuf what protoc --include_imports "
            "--descriptor_set_out=FILE writes."
        ),
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("Or paste its contents"),
        help_text=gettext_lazy("JSON for Avro, base64 for Protobuf."),
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "placeholder": _EXAMPLE}),
    )
    definition = ""

    def clean(self) -> dict[str, object]:
        """Raises ValidationError: nothing, both, too much, or a file that is no text."""
        file, text = self.cleaned_data.get("file"), self.cleaned_data.get("text") or ""
        if bool(file) == bool(text.strip()):
            raise forms.ValidationError(_("Choose a file or paste its contents, but not both."))
        if not isinstance(file, UploadedFile):
            self.definition = text
            return self.cleaned_data
        content = file.read(DEFINITION_BYTES_MAX + 1)  # the service refuses one that is longer
        if self.cleaned_data.get("kind") == SchemaKind.PROTOBUF:
            self.definition = base64.b64encode(content).decode()
            return self.cleaned_data
        try:
            self.definition = content.decode()
        except UnicodeDecodeError:
            raise forms.ValidationError(
                _("The file is not text. An Avro schema is JSON; was Protobuf meant?")
            ) from None
        return self.cleaned_data

    def order(self) -> SchemaChange:
        """Of a form without fault."""
        return SchemaChange(
            kind=SchemaKind(self.cleaned_data["kind"]),
            definition=self.definition,
            message=self.cleaned_data["message"].strip(),
        )


@page("topics")
def topic_schema(frame: Frame, topic: str) -> HttpResponse:
    """The schema, for all who see the topic. Two queries."""
    row = found_topic(frame, topic)
    schema = find_schema(frame.namespace, row.name)
    path = _path(frame, row)
    commands = [curl_of("GET", path)]
    if frame.can_manage and schema is not None:
        commands.append(curl_of("DELETE", path))
    return frame.render(
        "console/topic_schema.html",
        topic=row,
        schema=schema,
        encoding=encoding_of(schema),
        crumbs=topic_crumbs(frame, row, _("Schema")),
        curl="\n\n".join(commands),
    )


@page("topics", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def edit_schema(frame: Frame, topic: str) -> HttpResponse:
    """A form; POST sets the schema. Who changed it meanwhile is not overwritten."""
    row = found_topic(frame, topic)
    schema = find_schema(frame.namespace, row.name)
    form = _form(frame, schema)
    if (
        frame.request.method == "POST"
        and form.is_valid()
        and (
            answer := save(
                frame,
                form,
                lambda: _put(frame, row.name, form),
                told=_("The schema of %(name)s was saved.") % {"name": row.name},
                back=frame.url("topic-schema", row.name),
                stale=_(
                    "Someone else has changed this schema in the meantime. Check the current one, "
                    "then try again."
                ),
            )
        )
    ):
        return answer
    example: dict[str, object] = {"kind": "avro", "definition": _EXAMPLE}
    return frame.render(
        "console/topic_schema_form.html",
        status=form_status(form),
        form=form,
        topic=row,
        schema=schema,
        revision=frame.request.POST.get("revision", schema.revision if schema else ""),
        crumbs=topic_crumbs(frame, row, _("Schema")),
        curl=curl_of("PUT", _path(frame, row), example),
    )


@page("topics", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def remove_schema(frame: Frame, topic: str) -> HttpResponse:
    """Delete the schema; nothing of the messages changes."""
    row = found_topic(frame, topic)
    return act(
        frame,
        lambda: delete_schema(frame.principal, frame.namespace, row.name),
        told=_("The schema of %(name)s was removed.") % {"name": row.name},
        back=frame.url("topic-schema", row.name),
    )


def _path(frame: Frame, topic: Topic) -> str:
    return f"{frame.api_root}/topics/{topic.name}/schema"


def _form(frame: Frame, schema: TopicSchema | None) -> SchemaForm:
    if frame.request.method == "POST":
        return SchemaForm(frame.request.POST, frame.request.FILES)
    if schema is None:
        return SchemaForm()
    is_text = schema.kind == SchemaKind.AVRO
    return SchemaForm(
        initial={
            "kind": schema.kind,
            "message": schema.message,
            "text": schema.definition if is_text else "",
        }
    )


def _put(frame: Frame, topic: str, form: SchemaForm) -> None:
    revision = number_of(frame.request.POST.get("revision", ""))
    put_schema(frame.principal, frame.namespace, topic, form.order(), revision=revision)
