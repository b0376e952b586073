"""Masking: the rules of a namespace, the switch for bodies, and the forms that change them.

form ──▶ masking.services, as REST calls it ──▶ audit
"""

from __future__ import annotations

from typing import Final

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.masking.forms import CLEAR_TEXTS, PART_TEXTS, BodiesForm, MaskForm
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import (
    FORM_METHODS,
    act,
    delete_by_name,
    form_status,
    number_of,
    save,
)
from mqservice.console.shared.frame import Frame, find_or_404, page
from mqservice.masking.masks import can_see
from mqservice.masking.models import BodiesFor, ClearFor, MaskRule, Part
from mqservice.masking.queries import bodies_for, get_rule, rules_of
from mqservice.masking.services import delete_rule, put_rule, set_bodies_for
from mqservice.topics.models import Topic

TOPICS_OFFERED_MAX: Final = 200


@page("masking")
def masking(frame: Frame) -> HttpResponse:
    """All rules by name, and the switch. Two queries."""
    role, now = frame.principal.role, bodies_for(frame.namespace)
    may_manage = _may_manage(frame)
    return frame.render(
        "console/masking.html",
        rules=[
            (
                rule,
                PART_TEXTS[Part(rule.part)],
                CLEAR_TEXTS[ClearFor(rule.clear_for)],
                may_manage and can_see(role, rule.clear_for),
            )
            for rule in rules_of(frame.namespace)
        ],
        form=BodiesForm(initial={"bodies_for": now.value}),
        may_manage=may_manage,
        may_switch=may_manage and can_see(role, now),
        curl=curl_of("GET", f"{frame.api_root}/masking"),
    )


@page("masking", needs=Permission.MASKING_MANAGE, methods=("POST",))
def mask_bodies(frame: Frame) -> HttpResponse:
    """From which role on bodies are shown at all."""
    form = BodiesForm(frame.request.POST)
    if not form.is_valid():
        raise Http404  # no form of ours
    wanted = BodiesFor(form.cleaned_data["bodies_for"])
    return act(
        frame,
        lambda: set_bodies_for(frame.principal, frame.namespace, wanted),
        told=_("Saved. The change applies immediately."),
        back=frame.url("masking"),
    )


@page("masking", needs=Permission.MASKING_MANAGE, methods=FORM_METHODS)
def new_mask(frame: Frame) -> HttpResponse:
    """A form; POST makes the rule, unless there is one of the name already."""
    form = MaskForm(
        frame.request.POST or None, initial={"topics": frame.request.GET.get("topic", "")[:64]}
    )
    if frame.request.method == "POST" and form.is_valid():
        name = form.cleaned_data["name"]
        if MaskRule.objects.filter(namespace=frame.namespace, name=name).exists():
            form.add_error("name", _("A rule with this name already exists."))
        elif (answer := _put(frame, name, form, None)) is not None:
            return answer
    return _form_page(frame, form, None)


@page("masking", needs=Permission.MASKING_MANAGE, methods=FORM_METHODS)
def edit_mask(frame: Frame, mask: str) -> HttpResponse:
    """A form; POST changes the rule. Who changed it meanwhile is not overwritten."""
    rule = _found(frame, mask)
    form = MaskForm(frame.request.POST or None, rule=rule)
    if frame.request.method == "POST" and form.is_valid():
        revision = number_of(frame.request.POST.get("revision", ""))
        if (answer := _put(frame, rule.name, form, revision)) is not None:
            return answer
    return _form_page(frame, form, rule)


@page("masking", needs=Permission.MASKING_MANAGE, methods=FORM_METHODS)
def remove_mask(frame: Frame, mask: str) -> HttpResponse:
    """POST with the rule's name deletes it: what it hid is shown from then on."""
    rule = _found(frame, mask)
    return delete_by_name(
        frame,
        "console/mask_delete.html",
        lambda: delete_rule(frame.principal, frame.namespace, rule.name),
        name=rule.name,
        fault=_("This does not match the name of the rule."),
        told=_("The rule %(name)s was deleted.") % {"name": rule.name},
        back=frame.url("masking"),
        rule=rule,
        crumbs=frame.crumbs(_("Delete")),
        curl=curl_of("DELETE", f"{frame.api_root}/masking/{rule.name}"),
    )


def _put(frame: Frame, name: str, form: MaskForm, revision: int | None) -> HttpResponse | None:
    """The answer, or None with the refusal in the form."""
    return save(
        frame,
        form,
        lambda: put_rule(frame.principal, frame.namespace, name, form.order(), revision=revision),
        told=_("Saved. The change applies immediately."),
        back=frame.url("masking"),
    )


def _form_page(frame: Frame, form: MaskForm, rule: MaskRule | None) -> HttpResponse:
    topics = Topic.objects.filter(namespace=frame.namespace).order_by("name")
    revision = frame.request.POST.get("revision", "") or (rule.revision if rule else "")
    path = f"{frame.api_root}/masking/{rule.name if rule else 'cards'}"
    example: dict[str, object] = {"topics": "payments-*", "part": "field", "path": "/card/number"}
    return frame.render(
        "console/mask_form.html",
        status=form_status(form),
        form=form,
        rule=rule,
        revision=revision,
        topics=list(topics.values_list("name", flat=True)[:TOPICS_OFFERED_MAX]),
        crumbs=frame.crumbs(rule.name if rule else _("New rule")),
        curl=curl_of("PUT", path, example),
    )


def _may_manage(frame: Frame) -> bool:
    return frame.principal.permits(Permission.MASKING_MANAGE)


def _found(frame: Frame, name: str) -> MaskRule:
    """Raises Http404."""
    return find_or_404(get_rule, frame.namespace, name)
