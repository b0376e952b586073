"""Purging a topic: a preview, confirmed with the topic's name, and the result.

    page ──▶ topics.purging: dry run ──▶ numbers        form ──▶ name typed? ──▶ purge ──▶ audit

The numbers are those of the moment; what comes until the form is sent goes too, and is told then.
"""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mqservice.accounts.roles import Permission
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import FORM_METHODS, ConfirmForm, form_status
from mqservice.console.shared.frame import Frame, page
from mqservice.console.topics.views import found_topic, topic_crumbs
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text
from mqservice.lib.units import count
from mqservice.topics.purging import message_count, preview_purge, purge_topic


@page("topics", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def purge_topic_page(frame: Frame, topic: str) -> HttpResponse:
    """Two queries and a call to the engine; POST with the topic's name drops its messages."""
    row = found_topic(frame, topic)
    form = ConfirmForm(
        frame.request.POST or None,
        name=row.name,
        fault=_("This does not match the name of the topic."),
    )
    if frame.request.method == "POST" and form.is_valid():
        try:
            dropped = message_count(purge_topic(frame.principal, row))
        except Problem as problem:
            form.add_error(None, problem_text(problem))
        else:
            told = ngettext(
                "%(n)s message of %(name)s was purged.",
                "%(n)s messages of %(name)s were purged.",
                dropped,
            )
            messages.success(frame.request, told % {"n": count(dropped), "name": row.name})
            return redirect("console:topic", frame.namespace.name, row.name)
    found, refusal = None, ""
    try:
        found = preview_purge(row)
    except Problem as problem:
        refusal = problem_text(problem)
    return frame.render(
        "console/topic_purge.html",
        status=form_status(form),
        topic=row,
        form=form,
        found=found,
        messages_found=None if found is None else message_count(found),
        refusal=refusal,
        crumbs=topic_crumbs(frame, row, _("Purge")),
        curl=curl_of("POST", f"{frame.api_root}/topics/{row.name}:purge"),
    )
